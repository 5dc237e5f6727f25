//! Carries the pattern `nl-arp`: its servers are the fabric's hosts, its NICs theirs.

use weft_fabric::record::Outcome;
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::netlord::{ArpConfig, ArpTotals, carry as carry_load};

use crate::error::{Error, KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Run;
use crate::scenario::traffic::Traffic;

/// Carries the load of a run whose traffic is of the pattern `nl-arp`; `None` if it is another. `on_progress` hears how much is done, from 0 to 1.
///
/// # Errors
/// A fabric with too few or too many hosts.
pub fn carry(fabric: &Fabric, run: &Run, on_progress: &mut dyn FnMut(f64)) -> Result<Option<(Outcome, Metrics)>, Error> {
    let Some(config) = config(fabric, run)? else { return Ok(None) };
    let (vms, duration) = (config.vms, config.duration);
    let boot = f64::from(vms) / config.boots_per_s;
    let whole = boot + duration.as_secs_f64();
    let totals = carry_load(config, &mut |now| on_progress((now.as_secs_f64() / whole).min(1.0)));
    let ended = Instant::ZERO + duration;
    let outcome = Outcome { ended, events: totals.events, ..Outcome::default() };
    let nic = fabric.nic_capacity(weft_fabric::HostId(0)).as_f64();
    Ok(Some((outcome, measure(&totals, vms, duration.as_secs_f64(), nic))))
}

/// The load; `None` if the traffic is of another pattern.
///
/// # Errors
/// As of [`carry`].
pub fn config(fabric: &Fabric, run: &Run) -> Result<Option<ArpConfig>, KeyError> {
    let Traffic::NlArp(load) = &run.scenario.traffic else { return Ok(None) };
    let servers = u16::try_from(fabric.host_count()).ok().filter(|servers| (2..=16_000).contains(servers));
    let Some(servers) = servers else {
        let message = format!("the fabric has {} hosts; this pattern takes 2 to 16,000", fabric.host_count());
        return Err(KeyError::new(
            "fabric",
            message,
            "write kind = \"switch\" with hosts = 8: what a server hears does not depend on their number",
        ));
    };
    if let Some(event) = run.scenario.events.first() {
        return Err(KeyError::new(
            event.key.clone(),
            "nothing fails under this pattern",
            "leave it out; `loss` loses broadcasts",
        ));
    }
    let duration = run.scenario.world.duration.unwrap_or(Duration::from_secs(1));
    Ok(Some(ArpConfig {
        means: load.means,
        servers,
        vms: load.vms,
        vms_per_tenant: load.vms_per_tenant,
        boots_per_s: load.boots_per_s,
        moves_per_s: load.moves_per_s,
        sends_per_s: load.sends_per_s,
        loss: load.loss,
        latency: load.latency,
        duration,
        seed: run.scenario.world.seed,
    }))
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
        let at = |part: f64| totals.repairs[libm::round(part * last as f64) as usize] as f64 / 1e12;
        metrics.put("latency_p50_s", at(0.5));
        metrics.put("latency_p99_s", at(0.99));
    }
    metrics.put("events", totals.events as f64);
    metrics
}
