//! Prometheus metrics of a scheduler of agents.

use ::metrics::{counter, gauge};
use weft_control::time::Instant;
use weft_control::vl2::placement::AgentNetwork;

/// Brings them up to date.
pub(super) fn update(network: &AgentNetwork, now: Instant) {
    let status = network.status(now);
    let record = network.controller().map(|it| it.record()).unwrap_or_default();
    gauge!("weft_scheduler_agents_reporting").set(status.reporting as f64);
    gauge!("weft_scheduler_superseded").set(f64::from(u8::from(status.is_superseded)));
    gauge!("weft_scheduler_flows_counted").set(status.counted_flows as f64);
    gauge!("weft_scheduler_flows_placed").set(network.placements().count() as f64);
    gauge!("weft_scheduler_intermediates_failed").set(status.failed.len() as f64);
    counter!("weft_scheduler_rounds_total").absolute(record.rounds);
    counter!("weft_scheduler_rounds_late_total").absolute(status.late_rounds);
    counter!("weft_scheduler_moves_total").absolute(record.moves);
    counter!("weft_scheduler_control_loops_total").absolute(status.loops.count);
    gauge!("weft_scheduler_control_loop_seconds_total").set(status.loops.sum.as_secs_f64());
    for (reason, value) in status.refusals.iter() {
        counter!("weft_scheduler_reports_dropped_total", "reason" => reason).absolute(value);
    }
}
