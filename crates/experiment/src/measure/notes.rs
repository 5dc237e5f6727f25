//! Notes on a measured run: what a reader has to know before the figures mean anything. Each names the run, the cause and what to write.

use weft_fabric::record::{LinkRecord, Outcome};
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::packet::{Recovery, SwitchQueue};

use crate::metrics::{self, Metrics};
use crate::scenario::control::Scheduler;
use crate::scenario::world::Kind;
use crate::scenario::{Run, Scenario};
use crate::world::packet::least_switch_queue;

/// Why the scheduler of a run moved nothing: it had no round, or none before all flows had ended. `None` if it had one, and without a
/// scheduler. Of the lab only Hedera's schedulers report their rounds; what is only timed (`measure`) needs none.
pub fn idle_scheduler(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let (scheduler, period) = (scenario.control.scheduler, scenario.control.period.to_ps());
    let reports = scenario.world.kind != Kind::Lab || scheduler.is_hedera() && length(outcome) <= period;
    if scheduler == Scheduler::None || scenario.control.measure || !reports {
        return None;
    }
    let shown = scenario.control.period;
    if outcome.control.rounds == 0 {
        // Where there is nothing to schedule (no loops) no round is counted however long it takes: that is a warning of its own.
        return (length(outcome) <= period).then(|| {
            let ended = rounded(length(outcome));
            format!("the scheduler never ran: the run ended at {ended}, before its first round at {shown}")
        });
    }
    let last = outcome.flows.iter().map(|flow| flow.end).max()??;
    let first_round = Instant::ZERO + period;
    (outcome.flows.iter().all(|flow| flow.end.is_some()) && last <= first_round).then(|| {
        let ended = rounded(last.saturating_since(Instant::ZERO));
        format!("the scheduler moved nothing: all flows had ended at {ended}, before its first round at {shown}")
    })
}

/// The same with what to write.
pub fn of_idle_scheduler(run: &Run, outcome: &Outcome, why: &str) -> String {
    let last = outcome.flows.iter().map(|flow| flow.end.unwrap_or(outcome.ended)).max().unwrap_or(outcome.ended);
    let shorter = tenth(last.saturating_since(Instant::ZERO));
    format!("{}: {why}. Write a shorter `control.period`, such as \"{shorter}\", or run longer", which(run))
}

/// Timeouts, and not the fabric, limit a run of packets: flows wait, while the links whose queues dropped their packets are idle. What failed
/// links lose is counted apart: no queue is the cause.
pub fn of_timeouts(fabric: &Fabric, run: &Run, outcome: &Outcome, metrics: &Metrics) -> Option<String> {
    let packets = outcome.packets.as_ref()?;
    let waited = metrics.get("timeout_fraction").filter(|&waited| waited >= TIMEOUTS_SHOWN)?;
    let seconds = length(outcome).as_secs_f64();
    let busy_of = |l: &LinkRecord| l.bytes.0 as f64 * 8.0 / (fabric.link(l.id).capacity.as_f64() * seconds);
    let on_failed = |l: &LinkRecord| {
        let at = packets.lost.binary_search_by_key(&l.id, |&(link, _)| link).ok()?;
        packets.lost_packets.get(at).copied()
    };
    let (mut drops, mut failed, mut weighted) = (0, 0, 0.0);
    for link in &outcome.links {
        let lost = on_failed(link).unwrap_or(0).min(link.drops);
        drops += link.drops - lost;
        failed += lost;
        weighted += (link.drops - lost) as f64 * busy_of(link);
    }
    let busy = weighted / drops as f64;
    let (size, held) = least_switch_queue(fabric, &run.scenario).filter(|_| drops > 0 && busy < BUSY)?;
    let limit = match run.scenario.world.queues.switch {
        SwitchQueue::Fixed(_) | SwitchQueue::BandwidthDelay => format!("`switch_queue` is {size}"),
        SwitchQueue::Shared { .. } => {
            format!("Of the buffer that its switch shares (`switch_buffer`) a port holds at most {size}")
        }
    };
    let besides = if failed == 0 { String::new() } else { format!(", and {failed} on failed links") };
    Some(format!(
        "{}: {:.0} % of the flows' time was lost in timeouts, after {drops} drops on links that were {:.0} % busy{besides}: queues limit \
         this result more than the fabric does. {limit}, {held} packets{}",
        which(run),
        waited * 100.0,
        busy * 100.0,
        recovery_hint(&run.scenario),
    ))
}

/// The ideal switch is no upper bound where its own queues make flows wait.
pub fn of_ideal(run: &Run, outcome: &Outcome, ideal: &Outcome, metrics: &Metrics) -> Option<String> {
    outcome.packets.as_ref()?;
    let reached = metrics.get("optimal_fraction")?;
    let waited = metrics::timeout_fraction(ideal).unwrap_or(0.0);
    (waited > IDEAL_TIMEOUTS || reached > IDEAL_EXCEEDED).then(|| {
        format!(
            "{}: {:.0} % of the ideal switch, on which the same flows lost {:.0} % of their time in timeouts: the queues of its ports limit \
             it, and it is no upper bound here{}",
            which(run),
            reached * 100.0,
            waited * 100.0,
            recovery_hint(&run.scenario),
        )
    })
}

/// What else shortens the waits, unless the transport does it already.
fn recovery_hint(scenario: &Scenario) -> &'static str {
    match scenario.transport.transport.recovery {
        Recovery::Rack => "",
        Recovery::Sack => {
            ". `rack = true` in [transport] repairs the loss of a flow's last segments without a timeout, as current hosts do"
        }
        Recovery::NewReno => {
            ". `rack = true` in [transport] repairs most losses without a timeout, as current hosts do; this transport has neither SACK nor \
             RACK-TLP"
        }
    }
}

/// Rates are absent, and why.
pub fn of_empty_window(run: &Run, outcome: &Outcome) -> String {
    let world = &run.scenario.world;
    let (which, ended) = (which(run), length(outcome));
    let spans = [("warm-up", world.warmup), ("cool-down", world.cooldown)];
    let left_out: Vec<String> =
        spans.iter().filter(|(_, span)| span.as_ps() > 0).map(|(what, span)| format!("a {what} of {span}")).collect();
    if left_out.is_empty() {
        format!("{which} ended at {ended}, before anything moved: rates are absent")
    } else {
        format!("{which} ended at {ended}: without {} nothing of it is left, and rates are absent", left_out.join(" and "))
    }
}

fn which(run: &Run) -> String {
    let name = run.name();
    if name.is_empty() { "the run".to_owned() } else { format!("the run {name}") }
}

fn length(outcome: &Outcome) -> Duration {
    outcome.ended.saturating_since(Instant::ZERO)
}

/// A time without what is of no interest of it: three digits, or two.
fn rounded(time: Duration) -> Duration {
    let step = decade(time) / 100;
    Duration::from_ps(time.as_ps() / step.max(1) * step.max(1))
}

/// About a tenth of a time: 1, 2 or 5 of a decade.
fn tenth(time: Duration) -> Duration {
    let decade = (decade(time) / 10).max(1);
    let times = match time.as_ps() / 10 / decade {
        5.. => 5,
        2.. => 2,
        _ => 1,
    };
    Duration::from_ps(decade * times)
}

/// The largest power of ten of picoseconds that is no longer.
fn decade(time: Duration) -> u64 {
    10u64.pow(time.as_ps().max(1).ilog10())
}

/// Less than this is not worth a line.
const TIMEOUTS_SHOWN: f64 = 0.1;
/// Links that are busier than this are the limit themselves.
const BUSY: f64 = 0.9;
/// With more of the ideal run's time in timeouts than this it is no upper bound.
const IDEAL_TIMEOUTS: f64 = 0.1;
/// More than the ideal switch by so much is no rounding.
const IDEAL_EXCEEDED: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_three_digits_and_tenths_are_round() {
        let shown = |time: Duration| (rounded(time).to_string(), tenth(time).to_string());
        assert_eq!(shown(Duration::from_ns(160_003_217)), ("160ms".to_owned(), "10ms".to_owned()));
        assert_eq!(shown(Duration::from_secs(60)), ("60s".to_owned(), "5s".to_owned()));
        assert_eq!(shown(Duration::from_ms(25)), ("25ms".to_owned(), "2ms".to_owned()));
    }
}
