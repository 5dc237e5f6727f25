//! The pattern `nl-arp`: its servers are the fabric's hosts, and have their NICs.

use weft_fabric::record::Outcome;
use weft_fabric::{Duration, Fabric, HostId, Instant};
use weft_sim::netlord::{self, ArpConfig, ArpTotals};

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Scenario;
use crate::scenario::nl_arp::NlArpLoad;

/// Checks a load on a fabric.
///
/// # Errors
/// A fabric with too few or too many hosts, and events.
pub fn prepare(fabric: &Fabric, scenario: &Scenario, load: &NlArpLoad) -> Result<ArpConfig, KeyError> {
    let servers = u16::try_from(fabric.host_count()).ok().filter(|servers| (2..=16_000).contains(servers));
    let Some(servers) = servers else {
        let message = format!("the fabric has {} hosts; this pattern takes 2 to 16,000", fabric.host_count());
        return Err(KeyError::new(
            "fabric",
            message,
            "write kind = \"switch\" with hosts = 8: what a server hears does not depend on their number",
        ));
    };
    if let Some(event) = scenario.events.first() {
        return Err(KeyError::new(
            event.key.clone(),
            "nothing fails under this pattern",
            "leave it out; `loss` loses broadcasts",
        ));
    }
    Ok(ArpConfig {
        means: load.means,
        servers,
        vms: load.vms,
        vms_per_tenant: load.vms_per_tenant,
        boots_per_s: load.boots_per_s,
        moves_per_s: load.moves_per_s,
        sends_per_s: load.sends_per_s,
        loss: load.loss,
        latency: load.latency,
        duration: scenario.world.duration.unwrap_or(Duration::from_secs(1)),
        seed: scenario.world.seed,
    })
}

/// Runs a load. `on_progress` receives the fraction that is done.
pub fn execute(config: ArpConfig, fabric: &Fabric, on_progress: &mut dyn FnMut(f64)) -> (Outcome, Metrics) {
    let (vms, duration) = (config.vms, config.duration);
    let boot = f64::from(vms) / config.boots_per_s;
    let length = boot + duration.as_secs_f64();
    let totals = netlord::simulate(config, &mut |now| on_progress((now.as_secs_f64() / length).min(1.0)));
    let outcome = Outcome { ended: Instant::ZERO + duration, events: totals.events, ..Outcome::default() };
    let nic = fabric.nic_capacity(HostId(0)).as_f64();
    (outcome, measure(&totals, vms, duration.as_secs_f64(), nic))
}

fn measure(totals: &ArpTotals, vms: u32, seconds: f64, nic: f64) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("frames_per_s", totals.frames_each / seconds);
    metrics.put("nic_bps", totals.bits_each / seconds);
    metrics.put("nic_fraction", totals.bits_each / seconds / nic);
    metrics.put("directory_bps", totals.directory_bits as f64 / seconds);
    metrics.put("table_bytes", totals.table_bytes as f64);
    metrics.put("table_bytes_per_vm", totals.table_bytes as f64 / f64::from(vms));
    if totals.sends > 0 {
        metrics.put("known_fraction", totals.known as f64 / totals.sends as f64);
        metrics.put("stale_fraction", totals.stale as f64 / totals.sends as f64);
        metrics.put("unreached_fraction", totals.unreached as f64 / totals.sends as f64);
    }
    if let Some(last) = totals.repairs.len().checked_sub(1) {
        let at = |fraction: f64| totals.repairs[libm::round(fraction * last as f64) as usize] as f64 / 1e12;
        metrics.put("latency_p50_s", at(0.5));
        metrics.put("latency_p99_s", at(0.99));
    }
    metrics.put("events", totals.events as f64);
    metrics
}
