//! The metrics of an executed run.

mod notes;

use weft_fabric::Fabric;
use weft_fabric::record::Outcome;
use weft_sim::world::TimedEvent;

use crate::error::Result;
use crate::metrics::{self, Metrics, Window};
use crate::scenario::overlay::Kind as Overlay;
use crate::scenario::traffic::flows::Flows;
use crate::scenario::world::Kind;
use crate::scenario::{Run, Scenario};
use crate::wall::peak_rss_bytes;
use crate::world::packet::payload_fraction;
use crate::world::{self, Executed, Rest};

/// What was measured of a run, and what a reader of the figures has to know.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The metrics.
    pub metrics: Metrics,
    /// Sentences that name the run, each a warning.
    pub notes: Vec<String>,
    /// Why the run's scheduler moved nothing, if it had no round while flows were active.
    pub idle_scheduler: Option<String>,
}

/// Computes the metrics of a run from its records; `ideal` is the same workload on a non-blocking switch.
///
/// # Errors
/// Demands of flows that cannot be estimated.
pub fn measure(executed: &Executed, run: &Run, ideal: Option<&Outcome>) -> Result<Measured> {
    let Executed { fabric, outcome, rest } = executed;
    let (flows, events) = match rest {
        Rest::Measured(metrics) => return Ok(Measured { metrics: metrics.clone(), ..Measured::default() }),
        Rest::Flows(flows, events) => (flows, events),
    };
    let scenario = &run.scenario;
    let window = window(scenario, outcome);
    let mut metrics = metrics::measure(fabric, outcome, window);
    metrics::measure_services(outcome, scenario.traffic.services(), &mut metrics);
    measure_world(fabric, scenario, outcome, &mut metrics);
    measure_bounds(fabric, scenario, flows, ideal, &mut metrics)?;
    measure_recovery(fabric, outcome, events, &mut metrics);
    world::control::measure(fabric, scenario, flows, outcome, &mut metrics)?;
    let idle_scheduler = notes::idle_scheduler(scenario, outcome);
    let notes = [
        window.is_none().then(|| notes::of_empty_window(run, outcome)),
        idle_scheduler.as_ref().map(|why| notes::of_idle_scheduler(run, outcome, why)),
        notes::of_timeouts(fabric, run, outcome, &metrics),
        ideal.and_then(|ideal| notes::of_ideal(run, outcome, ideal, &metrics)),
    ];
    Ok(Measured { metrics, notes: notes.into_iter().flatten().collect(), idle_scheduler })
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
