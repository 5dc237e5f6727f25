//! What exporters sent and the log has not: gaps in the numbers that they give to flows (NetFlow 5), messages (NetFlow 9, sFlow) or records (IPFIX).

use std::collections::{BTreeMap, VecDeque};

use super::{Endpoint, Options};
use crate::analyze::tally::Tally;

/// Streams of all exporters.
const MAX_STREAMS: usize = 65_536;
/// Gaps of a stream that a late message may still fill.
const MAX_GAPS: usize = 64;
/// A larger step, forward or back, is a restart of the exporter.
const MAX_STEP: i32 = 1 << 20;

/// A series of numbers that an exporter counts by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// The exporter.
    pub exporter: Endpoint,
    /// Its protocol.
    pub protocol: &'static str,
    /// The exporter's part: engine, source, observation domain, sub-agent.
    pub part: u32,
    /// What is numbered, in the plural.
    pub unit: &'static str,
}

/// The numbers seen. A message has the number of its first unit (RFC 7011), or of the one after its last, as softflowd's: what is missing less
/// is what is missing.
#[derive(Debug, Default)]
pub struct Sequences {
    streams: BTreeMap<Stream, [Seen; 2]>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The number that the next message should have; `None`: not known.
    next: Option<u32>,
    arrived: u64,
    missing: u64,
    /// The latest gaps: first number and length.
    gaps: VecDeque<(u32, u32)>,
}

impl Sequences {
    /// A message with this number, and what it contains of the unit; `None` if that is not known, as its template is missing.
    pub fn message(&mut self, stream: Stream, number: u32, units: Option<u32>) {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&stream) {
            return;
        }
        let [of_first, of_next] = self.streams.entry(stream).or_default();
        of_first.message(number, units);
        of_next.message(number.wrapping_sub(units.unwrap_or(0)), units);
    }

    /// Notes what is missing, by exporter.
    pub fn finish(&self, options: &Options, tally: &mut Tally) {
        let fewest = |seen: &[Seen; 2]| seen.iter().map(|it| (it.missing, it.missing + it.arrived)).min().expect("two");
        for (stream, (lost, all)) in self.streams.iter().map(|(stream, seen)| (stream, fewest(seen))).filter(|it| it.1.0 > 0) {
            let Stream { exporter, protocol, unit, .. } = stream;
            let exporter = options.shown(exporter);
            tally.note(format!(
                "{}: {lost} of {all} {unit} that exporter {exporter} sent by {protocol} are missing",
                options.file
            ));
        }
    }
}

impl Seen {
    fn message(&mut self, number: u32, units: Option<u32>) {
        let following = units.map(|units| number.wrapping_add(units));
        let step = self.next.map_or(0, |next| number.wrapping_sub(next).cast_signed());
        if (-MAX_STEP..0).contains(&step) {
            // Overtaken on its way, or captured twice.
            self.fill(number, units.unwrap_or(0));
            return;
        }
        if (1..=MAX_STEP).contains(&step) {
            self.missing += u64::from(step.unsigned_abs());
            self.gaps.push_back((number.wrapping_sub(step.unsigned_abs()), step.unsigned_abs()));
            if self.gaps.len() > MAX_GAPS {
                self.gaps.pop_front();
            }
        }
        self.arrived += u64::from(units.unwrap_or(0));
        self.next = following;
    }

    /// What was missing arrives late.
    fn fill(&mut self, number: u32, units: u32) {
        let Some(at) = self.gaps.iter().position(|&(first, length)| number.wrapping_sub(first) < length) else { return };
        let (first, length) = self.gaps.swap_remove_back(at).expect("it is there");
        let before = number.wrapping_sub(first);
        let found = units.min(length - before);
        let rest = (number.wrapping_add(found), length - before - found);
        self.gaps.extend([(first, before), rest].into_iter().filter(|gap| gap.1 > 0));
        self.missing -= u64::from(found);
        self.arrived += u64::from(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(messages: &[(u32, Option<u32>)]) -> u64 {
        let stream = Stream { exporter: Endpoint::Name("e".into()), protocol: "IPFIX", part: 0, unit: "records" };
        let mut sequences = Sequences::default();
        messages.iter().for_each(|&(number, units)| sequences.message(stream.clone(), number, units));
        sequences.streams[&stream].iter().map(|seen| seen.missing).min().expect("two")
    }

    #[test]
    fn gaps_are_counted() {
        assert_eq!(missing(&[(7, Some(3)), (10, Some(2)), (12, Some(1))]), 0);
        assert_eq!(missing(&[(7, Some(3)), (15, Some(2)), (20, Some(1))]), 8);
        // The counter begins again after 32 bits.
        assert_eq!(missing(&[(u32::MAX - 1, Some(2)), (0, Some(5)), (6, Some(1))]), 1);
        // One comes late; another twice as late as the first.
        assert_eq!(missing(&[(0, Some(10)), (20, Some(10)), (10, Some(10)), (30, Some(1))]), 0);
        // Each is captured twice, and one is lost.
        assert_eq!(missing(&[(0, Some(5)), (0, Some(5)), (7, Some(3)), (7, Some(3)), (10, Some(1)), (10, Some(1))]), 2);
        // Half of a gap comes late.
        assert_eq!(missing(&[(0, Some(10)), (20, Some(10)), (12, Some(4)), (30, Some(1))]), 6);
        // Unknown contents: the next number says nothing.
        assert_eq!(missing(&[(0, Some(10)), (10, None), (17, Some(1)), (18, Some(1))]), 0);
        // Numbers of the units after the last.
        assert_eq!(missing(&[(24, Some(24)), (56, Some(32)), (120, Some(32)), (152, Some(32))]), 32);
        // The exporter starts again.
        assert_eq!(missing(&[(3_000_000, Some(10)), (0, Some(10)), (10, Some(10))]), 0);
    }
}
