//! How a run recovers from what fails, and uses again what returns: measured from its records, not taken from its settings.

use weft_fabric::record::{LinkSample, Outcome, Sample};
use weft_fabric::topology::Part;
use weft_fabric::{Duration, Fabric, Instant, LinkId};
use weft_sim::world::{Change, TimedEvent};

use super::delivered_at;

/// The longest time from a noticed failure until the network has recovered, in seconds; `None` if nothing fails, or goodput does not come
/// back. It has recovered when goodput has for the first time, over [`LOOK`], [`BACK`] of the level at which it settles, which is its mean over the
/// later half of the time until the next event; and, in packets, when the last one has been lost on the part.
pub fn reconverge_s(fabric: &Fabric, outcome: &Outcome, events: &[TimedEvent]) -> Option<f64> {
    let mut longest = None;
    for (i, event) in events.iter().enumerate() {
        let until = events[i + 1..].iter().map(|e| e.at).find(|&at| at > event.at).unwrap_or(Instant::MAX).min(outcome.ended);
        let Change::Fail(part) = event.change else { continue };
        if until <= event.at + LOOK {
            continue;
        }
        let goodput = back_after(&outcome.samples, event.at, until)?;
        let restored = events[i..].iter().find(|e| e.change == Change::Restore(part)).map_or(Instant::MAX, |e| e.at);
        let lost = last_loss(outcome, &links_of(fabric, part)).filter(|&at| at >= event.at && at <= restored);
        let took = goodput.max(lost.map_or(0.0, |at| (at - event.at).as_secs_f64()));
        longest = Some(took.max(longest.unwrap_or(0.0)));
    }
    longest
}

fn last_loss(outcome: &Outcome, links: &[LinkId]) -> Option<Instant> {
    let lost = outcome.packets.iter().flat_map(|p| &p.lost);
    lost.filter(|(link, _)| links.contains(link)).map(|&(_, at)| at).max()
}

fn back_after(samples: &[Sample], from: Instant, until: Instant) -> Option<f64> {
    let rate = |a: Instant, b: Instant| (delivered_at(samples, b) - delivered_at(samples, a)) / (b - a).as_secs_f64();
    let half = from + Duration::from_ps((until - from).as_ps() / 2);
    let wanted = BACK * rate(half, until);
    let after = samples[samples.partition_point(|s| s.at < from)..].iter().map(|s| s.at);
    let mut looks = std::iter::once(from).chain(after).take_while(|&at| at + LOOK <= until);
    looks.find(|&at| rate(at, at + LOOK) >= wanted).map(|at| (at - from).as_secs_f64())
}

/// The longest time from a repair until the part is used again, in seconds, to a span of the link series; `None` if nothing is
/// repaired, or it is not used again before the run or its next failure.
pub fn restore_s(fabric: &Fabric, outcome: &Outcome, events: &[TimedEvent]) -> Option<f64> {
    let span = span_of(&outcome.link_series)?;
    let mut longest = None;
    for event in events {
        let Change::Restore(part) = event.change else { continue };
        let links = links_of(fabric, part);
        let used = |s: &&LinkSample| s.at >= event.at + span && links.contains(&s.link) && s.utilisation > HELLOS;
        let took = outcome.link_series.iter().find(used).map(|s| (s.at - event.at).as_secs_f64())?;
        longest = Some(took.max(longest.unwrap_or(0.0)));
    }
    longest
}

/// The length of the series' spans.
pub(super) fn span_of(series: &[LinkSample]) -> Option<Duration> {
    let first = series.first()?.at - Instant::ZERO;
    let steps = series.windows(2).map(|w| w[1].at - w[0].at).filter(|&step| step > Duration::ZERO);
    // The last span may be shorter, and spans in which nothing moved are left out.
    let ends = series.last()?.at;
    let whole = series.windows(2).filter(|w| w[1].at < ends).map(|w| w[1].at - w[0].at).filter(|&step| step > Duration::ZERO);
    whole.min().or(steps.max()).map_or(Some(first), |step| Some(step.min(first)))
}

/// Both directions of a cable, or of all cables of a node.
fn links_of(fabric: &Fabric, part: Part) -> Vec<LinkId> {
    match part {
        Part::Cable(cable) => cable.links().to_vec(),
        Part::Node(node) => fabric.out(node).iter().flat_map(|l| [*l, l.reverse()]).collect(),
    }
}

/// Goodput is a mean over so long: TCP's retransmission timers leave gaps.
const LOOK: Duration = Duration::from_ms(100);
/// What the routing protocols of a lab send uses less of a link.
const HELLOS: f64 = 0.005;
/// Fraction of the level at which goodput settles.
const BACK: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::record::PacketTotals;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, CableId};

    fn ms(at: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(at)
    }

    fn fabric() -> Fabric {
        fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap()
    }

    /// Samples every 10 ms; `rate` in bytes a second by millisecond.
    fn run_of(rate: impl Fn(u64) -> f64, end: u64) -> Outcome {
        let mut delivered = 0.0;
        let mut samples = Vec::new();
        for at in (0..=end).step_by(10) {
            samples.push(Sample { at: ms(at), delivered, active: 1, nic_bound_bps: 1.0 });
            delivered += rate(at) * 0.01;
        }
        Outcome { samples, ended: ms(end), ..Outcome::default() }
    }

    #[test]
    fn goodput_is_back_when_it_is_near_its_later_level() {
        let fabric = fabric();
        let fail = |at| TimedEvent { at: ms(at), change: Change::Fail(Part::Cable(CableId(20))) };
        // 100 until 1 s, 30 until 1.3 s, 80 from then on: near 80 over 100 ms from 1.3 s on.
        let rate = |at| {
            if at < 1_000 {
                100.0
            } else if at < 1_300 {
                30.0
            } else {
                80.0
            }
        };
        let run = run_of(rate, 3_000);
        assert_eq!(reconverge_s(&fabric, &run, &[fail(1_000)]), Some(0.3));
        assert_eq!(reconverge_s(&fabric, &run, &[fail(2_000)]), Some(0.0), "nothing was lost");
        assert_eq!(reconverge_s(&fabric, &run, &[fail(1_000), fail(2_000)]), Some(0.3), "the longest");
        assert_eq!(reconverge_s(&fabric, &run, &[]), None);
        let restore = TimedEvent { change: Change::Restore(Part::Cable(CableId(20))), ..fail(1_000) };
        let lost = vec![(CableId(20).links()[1], ms(2_400)), (LinkId(1), ms(2_900))];
        let packets = Some(PacketTotals { lost, ..PacketTotals::default() });
        let blind = Outcome { packets, ..run.clone() };
        assert_eq!(reconverge_s(&fabric, &blind, &[fail(2_000)]), Some(0.4), "until packets avoid it");
        assert_eq!(reconverge_s(&fabric, &run, &[restore]), None);
    }

    #[test]
    fn a_part_is_in_use_when_a_link_of_it_carries_again() {
        let fabric = fabric();
        let cable = CableId(20);
        let [there, back] = cable.links();
        let sample = |at, link| LinkSample { at: ms(at), link, utilisation: 0.5 };
        let other = LinkId(0);
        let series = (1..=50).flat_map(|i| {
            let busy = i <= 10 || i > 30;
            [Some(sample(i * 100, other)), busy.then(|| sample(i * 100, back))].into_iter().flatten()
        });
        let run = Outcome { link_series: series.collect(), ended: ms(5_000), ..Outcome::default() };
        let restore = |at, part| TimedEvent { at: ms(at), change: Change::Restore(part) };
        assert_eq!(restore_s(&fabric, &run, &[restore(2_000, Part::Cable(cable))]), Some(1.1));
        let node = fabric.link(there).from;
        assert_eq!(restore_s(&fabric, &run, &[restore(2_500, Part::Node(node))]), Some(0.6));
        assert_eq!(restore_s(&fabric, &run, &[restore(4_990, Part::Cable(cable))]), None);
        assert_eq!(restore_s(&fabric, &run, &[]), None);
    }
}
