//! The metrics of an executed run.

use weft_fabric::Fabric;
use weft_fabric::record::{LinkRecord, Outcome};
use weft_sim::packet::SwitchQueue;
use weft_sim::world::TimedEvent;

use crate::error::Result;
use crate::metrics::{self, Metrics, Window};
use crate::scenario::overlay::Kind as Overlay;
use crate::scenario::traffic::flows::Flows;
use crate::scenario::world::Kind;
use crate::scenario::{Run, Scenario};
use crate::wall::peak_rss_bytes;
use crate::world::packet::{least_switch_queue, payload_fraction};
use crate::world::{self, Executed, Rest};

/// Computes the metrics of a run from its records; `ideal` is the same workload on a non-blocking switch.
///
/// # Errors
/// Demands of flows that cannot be estimated.
pub fn measure(executed: &Executed, run: &Run, ideal: Option<&Outcome>) -> Result<Metrics> {
    let Executed { fabric, outcome, rest } = executed;
    let (flows, events) = match rest {
        Rest::Measured(metrics) => return Ok(metrics.clone()),
        Rest::Flows(flows, events) => (flows, events),
    };
    let scenario = &run.scenario;
    let window = window(scenario, outcome);
    let mut metrics = metrics::measure(fabric, outcome, window);
    if window.is_none() {
        warn_empty_window(run, outcome);
    }
    metrics::measure_services(outcome, scenario.traffic.services(), &mut metrics);
    measure_world(fabric, scenario, outcome, &mut metrics);
    warn_timeouts(fabric, run, outcome, &metrics);
    measure_bounds(fabric, scenario, flows, ideal, &mut metrics)?;
    measure_recovery(fabric, outcome, events, &mut metrics);
    world::control::measure(fabric, scenario, flows, outcome, &mut metrics)?;
    Ok(metrics)
}

/// Records what a run itself cost: `seconds` of wall clock, preparation and writing included, and memory.
pub fn measure_cost(seconds: f64, metrics: &mut Metrics) {
    metrics.put("wall_s", seconds);
    metrics.put_some("rss_bytes", peak_rss_bytes().map(|b| b as f64));
}

fn window(scenario: &Scenario, outcome: &Outcome) -> Option<Window> {
    Window::of(outcome, scenario.world.warmup, scenario.world.cooldown)
}

/// Metrics that only the run's world knows, and those of its overlay.
fn measure_world(fabric: &Fabric, scenario: &Scenario, outcome: &Outcome, metrics: &mut Metrics) {
    let world = &scenario.world;
    if world.is_slots() {
        // All flows offer what the NICs can carry; what is not delivered is lost.
        metrics.put_some("loss_fraction", metrics.get("goodput_fraction").map(|delivered| 1.0 - delivered));
        metrics.put("flows", outcome.events as f64);
    }
    match world.kind {
        Kind::Flow => {}
        Kind::Packet => {
            let useful = world.queues.nic_duplex * payload_fraction(&scenario.transport.transport);
            metrics::measure_packets(fabric, outcome, metrics, useful);
        }
        Kind::Lab => metrics::measure_packets(fabric, outcome, metrics, world::lab::payload_fraction(scenario)),
    }
    if let Overlay::Vl2 { ecmp_width, .. } = scenario.overlay.kind {
        metrics::overlay::measure_vl2(fabric, outcome, ecmp_width, metrics);
    }
    metrics::measure_lab(outcome, metrics);
    metrics::overlay::measure_bridges(outcome, metrics);
}

/// Goodput relative to the non-blocking switch, and what the fabric could carry with the flows split over all paths.
fn measure_bounds(
    fabric: &Fabric,
    scenario: &Scenario,
    flows: &Flows,
    ideal: Option<&Outcome>,
    metrics: &mut Metrics,
) -> Result<()> {
    let best = ideal.and_then(|o| window(scenario, o).map(|w| metrics::goodput_bps(&o.samples, w)));
    if let (Some(own), Some(best)) = (metrics.get("goodput_bps"), best) {
        metrics.put("optimal_fraction", own / best);
    }
    metrics.put_some("nonblocking_fraction", best.map(|b| b / metrics::nic_total(fabric)));
    if scenario.wants_ideal() {
        metrics.put_some("splittable_fraction", world::control::splittable_optimum(fabric, flows)?);
    }
    Ok(())
}

fn measure_recovery(fabric: &Fabric, outcome: &Outcome, events: &[TimedEvent], metrics: &mut Metrics) {
    metrics.put_some("reconverge_s", metrics::recovery::reconverge_s(fabric, outcome, events));
    metrics.put_some("restore_s", metrics::recovery::restore_s(fabric, outcome, events));
}

/// Reports that timeouts, and not the fabric, limit a run of packets: flows wait, while the links that dropped their packets are idle. What
/// failed links lose is no matter of queues.
fn warn_timeouts(fabric: &Fabric, run: &Run, outcome: &Outcome, metrics: &Metrics) {
    let Some(packets) = outcome.packets.as_ref().filter(|p| p.lost.is_empty()) else { return };
    let Some(lost) = metrics.get("timeout_fraction").filter(|&lost| lost >= TIMEOUTS_SHOWN) else { return };
    let seconds = outcome.ended.saturating_since(weft_fabric::Instant::ZERO).as_secs_f64();
    let busy_of = |l: &LinkRecord| l.bytes.0 as f64 * 8.0 / (fabric.link(l.id).capacity.as_f64() * seconds);
    let (drops, weighted) = outcome.links.iter().fold((0.0, 0.0), |(drops, weighted), l| {
        let own = l.drops as f64;
        (drops + own, weighted + own * busy_of(l))
    });
    let busy = weighted / drops;
    let Some((size, held)) = least_switch_queue(fabric, &run.scenario).filter(|_| busy < BUSY) else { return };
    let limit = match run.scenario.world.queues.switch {
        SwitchQueue::Fixed(_) | SwitchQueue::BandwidthDelay => format!("`switch_queue` is {size}"),
        SwitchQueue::Shared { .. } => {
            format!("Of the buffer that its switch shares (`switch_buffer`) a port holds at most {size}")
        }
    };
    tracing::warn!(
        "{}: {:.0} % of the flows' time was lost in timeouts, after {} drops on links that were {:.0} % busy: queues limit this result \
         more than the fabric does. {limit}, {held} packets",
        which(run),
        lost * 100.0,
        packets.drops,
        busy * 100.0,
    );
}

/// Less than this is not worth a line.
const TIMEOUTS_SHOWN: f64 = 0.1;
/// Links that are busier than this are the limit themselves.
const BUSY: f64 = 0.9;

fn which(run: &Run) -> String {
    let name = run.name();
    if name.is_empty() { "the run".to_owned() } else { format!("the run {name}") }
}

/// Warns that rates are absent, and why.
fn warn_empty_window(run: &Run, outcome: &Outcome) {
    let world = &run.scenario.world;
    let (which, ended) = (which(run), outcome.ended.saturating_since(weft_fabric::Instant::ZERO));
    let spans = [("warm-up", world.warmup), ("cool-down", world.cooldown)];
    let left_out: Vec<String> =
        spans.iter().filter(|(_, span)| span.as_ps() > 0).map(|(what, span)| format!("a {what} of {span}")).collect();
    if left_out.is_empty() {
        tracing::warn!("{which} ended at {ended}, before anything moved: rates are absent");
    } else {
        tracing::warn!(
            "{which} ended at {ended}: without {} nothing of it is left, and rates are absent",
            left_out.join(" and ")
        );
    }
}
