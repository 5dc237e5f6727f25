//! Tenants on bridges: from a scenario to the bridged mode of the packet world, and from what became of it to metrics.

use std::sync::Arc;

use weft_control::netlord::spain::SpainConfig as AgentConfig;
use weft_fabric::record::Outcome;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::{Duration, Fabric};
use weft_sim::packet::bridged::{Addresses, BridgedError, BridgedOutcome, BridgedWorld, FaultConfig, Trial, Ways};

use crate::error::{KeyError, Result};
use crate::metrics::{self, Metrics};
use crate::scenario::Run;
use crate::scenario::control::Bridging;
use crate::scenario::tenants::TenantSpec;
use crate::scenario::traffic::Traffic;
use crate::scenario::world::Kind;

/// Carries the tenants of a run; `None` if its traffic is of another pattern, or its world the lab. `on_progress` hears how much is done, from 0 to 1.
///
/// # Errors
/// Settings that mean nothing on this fabric.
pub fn carry(fabric: &Arc<Fabric>, run: &Run, on_progress: &mut dyn FnMut(f64)) -> Result<Option<(Outcome, Metrics)>> {
    let (Some(world), Some(spec)) = (world(fabric, run)?, &run.scenario.tenants) else { return Ok(None) };
    let limit = mac_limit(fabric, &world, spec);
    let mut bridged = world.run(on_progress).map_err(located)?;
    let outcome =
        Outcome { links: std::mem::take(&mut bridged.links), ended: bridged.ended, events: bridged.events, ..Outcome::default() };
    let mut metrics = measure(&bridged);
    if spec.addresses == Addresses::Edge && !bridged.trials.is_empty() {
        metrics::overlay::measure_netlord(bridged.fib_most, bridged.vms, &mut metrics);
    }
    metrics.put_some("mac_limit", limit);
    Ok(Some((outcome, metrics)))
}

/// Checks what can be told before a run; false if its traffic is of another pattern, or its world the lab.
///
/// # Errors
/// Settings that mean nothing on this fabric.
pub fn check(fabric: &Arc<Fabric>, run: &Run) -> Result<bool> {
    let Some(world) = world(fabric, run)? else { return Ok(false) };
    world.check().map_err(located)?;
    Ok(true)
}

/// The world of a run.
fn world(fabric: &Arc<Fabric>, run: &Run) -> Result<Option<BridgedWorld>> {
    let scenario = &run.scenario;
    let (Traffic::Tenants(load), Some(spec)) = (&scenario.traffic, &scenario.tenants) else { return Ok(None) };
    let world = &scenario.world;
    if world.kind != Kind::Packet {
        return Ok(None);
    }
    Ok(Some(BridgedWorld {
        fabric: Arc::clone(fabric),
        tenants: spec.on(fabric)?,
        load: load.load(world.duration.unwrap_or(Duration::MAX), world.warmup),
        ways: match scenario.control.bridging {
            Some(Bridging::Spain) => Ways::Spain(SpainConfig { seed: world.seed, ..scenario.control.spain }),
            _ => Ways::SpanningTree,
        },
        returns: scenario.control.spain_return,
        addresses: spec.addresses,
        fib: spec.fib,
        faults: faults(fabric, run)?,
        packet: super::packet::config(fabric, run)?,
        seed: world.seed,
    }))
}

/// What fails in a run, and how soon that is found out.
fn faults(fabric: &Fabric, run: &Run) -> Result<FaultConfig> {
    let control = &run.scenario.control;
    let period = control.chirp_period;
    Ok(FaultConfig {
        events: super::timed_events(fabric, run)?,
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        agent: AgentConfig { period, answer: Duration::from_ps(period.as_ps() / 2), ..AgentConfig::default() },
    })
}

fn located(error: BridgedError) -> KeyError {
    let (key, help) = match &error {
        BridgedError::Packet(_) | BridgedError::NoRoom { .. } | BridgedError::TooLarge { .. } => {
            ("transport.mss", "write a size such as \"1460B\"")
        }
        BridgedError::Spain(_) => ("control.spain_paths", "write fewer paths, such as spain_paths = 4"),
        BridgedError::Agent(_) => ("control.chirp_period", "write a time such as \"100ms\""),
        BridgedError::TooManyVms { .. } | BridgedError::TooManyVmsTogether { .. } => {
            ("tenant", "lower `count`, `hosts` or `vms_per_host`")
        }
        BridgedError::Ways { .. } => ("switches.fib_ways", "write a number that divides `fib_entries`, such as 4"),
        BridgedError::NoBytes => ("traffic.size", "write a size such as \"10MB\""),
        BridgedError::NoIncoming => ("traffic.incoming", "write 3, as NetLord"),
    };
    KeyError::new(key, error.to_string(), help)
}

fn measure(outcome: &BridgedOutcome) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("vms", outcome.vms as f64);
    if let Some((vlans, bound)) = outcome.vlans {
        metrics.put("vlans", vlans as f64);
        metrics.put("vlans_bound", bound as f64);
    }
    let trials = &outcome.trials;
    if trials.is_empty() {
        return metrics;
    }
    let mean = |of: &dyn Fn(&Trial) -> f64| trials.iter().map(of).sum::<f64>() / trials.len() as f64;
    let goodput = |t: &Trial| if t.seconds > 0.0 { t.bytes as f64 * 8.0 / t.seconds } else { 0.0 };
    metrics.put("goodput_bps", mean(&goodput));
    metrics.put("goodput_min_bps", trials.iter().map(goodput).fold(f64::INFINITY, f64::min));
    metrics.put("goodput_max_bps", trials.iter().map(goodput).fold(0.0, f64::max));
    metrics.put("floods", mean(&|t| t.floods));
    if trials.iter().all(|t| t.completion_s.is_some()) {
        metrics.put("completion_s", mean(&|t| t.completion_s.unwrap_or(0.0)));
    }
    metrics.put("flows", trials.iter().map(|t| t.begun).sum::<u64>() as f64);
    metrics.put("flows_finished", trials.iter().map(|t| t.finished).sum::<u64>() as f64);
    let seconds = |span: Option<Duration>| span.map(|s| s.as_secs_f64());
    metrics.put_some("reconverge_s", seconds(outcome.faults.reconverge));
    metrics.put_some("restore_s", seconds(outcome.faults.restore));
    let totals = [
        ("flows_refused", outcome.refused),
        ("fib_entries_max", outcome.fib_most),
        ("fib_evictions", outcome.evictions),
        ("fib_misses", outcome.misses),
        ("fib_unlearnt", outcome.unlearnt),
        ("drops", outcome.drops),
        ("retransmits", outcome.retransmits),
        ("hops", outcome.hops),
        ("events", outcome.events),
    ];
    for (name, total) in totals {
        metrics.put(name, total as f64);
    }
    metrics
}

/// How many addresses NetLord can carry at the worst (section 4.1): V R sqrt(F / 2), for V VMs a server, switches of R ports, tables of F entries.
/// R is the number of ports that the largest switch uses.
fn mac_limit(fabric: &Fabric, world: &BridgedWorld, spec: &TenantSpec) -> Option<f64> {
    if world.addresses != Addresses::Edge {
        return None;
    }
    let radix = fabric.switches().map(|s| fabric.out(fabric.switch_node(s)).len()).max()?;
    Some(spec.vms_per_host() as f64 * radix as f64 * libm::sqrt(f64::from(spec.fib.entries) / 2.0))
}
