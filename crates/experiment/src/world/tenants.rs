//! Tenants on bridges: from a scenario to the bridged mode of the packet world, and from its records to metrics.

use std::sync::Arc;

use weft_control::netlord::spain::SpainConfig as AgentConfig;
use weft_fabric::record::Outcome;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::{Duration, Fabric};
use weft_sim::packet::bridged::{Addresses, BridgedOutcome, BridgedWorld, FaultConfig, Multipath, Trial};
use weft_sim::packet::{PacketConfig, SwitchQueue};

use crate::error::{KeyError, Result};
use crate::metrics::{self, Metrics};
use crate::scenario::Scenario;
use crate::scenario::control::Bridging;
use crate::scenario::tenants::{Scale, TenantLoad, TenantSpec};

/// Tenants on bridges, and the limit of addresses that their metrics report.
pub struct TenantRun {
    world: BridgedWorld,
    mac_limit: Option<f64>,
}

/// Builds and checks a run on a fabric.
///
/// # Errors
/// Settings that mean nothing on this fabric.
pub fn prepare(fabric: &Arc<Fabric>, scenario: &Scenario, load: &TenantLoad) -> Result<TenantRun> {
    let (settings, spec) = (&scenario.world, scenario.tenants.as_ref().expect("read with their pattern"));
    let world = BridgedWorld {
        fabric: Arc::clone(fabric),
        tenants: spec.on(fabric, load.scale)?,
        load: load.load(settings.duration.unwrap_or(Duration::MAX), settings.warmup),
        multipath: match scenario.control.bridging {
            Some(Bridging::Spain) => Multipath::Spain(SpainConfig { seed: settings.seed, ..scenario.control.spain }),
            _ => Multipath::SpanningTree,
        },
        returns: scenario.control.spain_return,
        addresses: spec.addresses,
        // Servers and edge switches are as many as before: their tables stay, and learn as fast.
        fib: if spec.addresses == Addresses::Vm { load.scale.fib(spec.fib) } else { spec.fib },
        faults: faults(fabric, scenario)?,
        packet: packet(fabric, scenario, load.scale)?,
        seed: settings.seed,
    };
    world.check().map_err(KeyError::from)?;
    Ok(TenantRun { mac_limit: mac_limit(fabric, &world, spec), world })
}

impl TenantRun {
    /// Runs the tenants' transfers. `on_progress` receives the fraction that is done.
    ///
    /// # Errors
    /// Settings that mean nothing on this fabric.
    pub fn execute(self, on_progress: &mut dyn FnMut(f64)) -> Result<(Outcome, Metrics)> {
        let is_netlord = self.world.addresses == Addresses::Edge;
        let mut bridged = self.world.run(on_progress).map_err(KeyError::from)?;
        let links = std::mem::take(&mut bridged.links);
        let outcome = Outcome { links, ended: bridged.ended, events: bridged.events, ..Outcome::default() };
        let mut metrics = measure(&bridged);
        if is_netlord && !bridged.trials.is_empty() {
            metrics::overlay::measure_netlord(bridged.fib_most, bridged.vms, &mut metrics);
        }
        metrics.put_some("mac_limit", self.mac_limit);
        Ok((outcome, metrics))
    }
}

/// Transport and buffers. A port whose buffer is not set has the default of its link.
fn packet(fabric: &Fabric, scenario: &Scenario, scale: Scale) -> Result<PacketConfig> {
    let config = super::packet::config(fabric, scenario)?;
    let nic_queue = config.nic_queue.map(|queue| scale.buffer(queue));
    let switch_queue = match config.switch_queue {
        SwitchQueue::Fixed(queue) => SwitchQueue::Fixed(scale.buffer(queue)),
        SwitchQueue::Shared { buffer, alpha } => SwitchQueue::Shared { buffer: buffer.map(|buffer| scale.buffer(buffer)), alpha },
        SwitchQueue::BandwidthDelay => SwitchQueue::BandwidthDelay,
    };
    Ok(PacketConfig { switch_queue, nic_queue, ..config })
}

/// Failures in a run, and how soon they are detected.
fn faults(fabric: &Fabric, scenario: &Scenario) -> Result<FaultConfig> {
    let control = &scenario.control;
    let period = control.chirp_period;
    Ok(FaultConfig {
        events: super::events::timed_events(fabric, &scenario.events)?,
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        agent: AgentConfig { period, answer: period / 2, ..AgentConfig::default() },
    })
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

/// How many addresses NetLord supports in the worst case (section 4.1): V R sqrt(F / 2), for V VMs per server, switches of R ports, tables of F entries.
/// R is the number of ports that the largest switch uses.
fn mac_limit(fabric: &Fabric, world: &BridgedWorld, spec: &TenantSpec) -> Option<f64> {
    if world.addresses != Addresses::Edge {
        return None;
    }
    let radix = fabric.switches().map(|s| fabric.out(fabric.switch_node(s)).len()).max()?;
    Some(spec.vms_per_host() as f64 * radix as f64 * libm::sqrt(f64::from(spec.fib.entries) / 2.0))
}
