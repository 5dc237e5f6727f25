//! Which flows are large: those whose rate between two readings of their counter reaches a fraction of the source's NIC
//! (Hedera section 3.1: 10 %).
//!
//! Rates come from the counters' own times, not from when the answer arrived: a switch's counters may be old. A flow that is seen
//! for the first time began after the last reading was asked for, which bounds its rate from below; if that is enough, it is large.
//!
//! A flow that has been large stays so until it ends. Hedera's flow entries live as long as the flow (section 3.2), and the rate of
//! a scheduled flow says nothing against its demand: a collision that the next round would resolve may hold it below the threshold.
//! So does one that another scheduler has placed, which it did because the flow was large.

use weft_fabric::routing::FlowKey;

use weft_fabric::{Bytes, Fabric};

use crate::controller::FlowCounter;
use crate::time::{Instant, NS_PER_S};

/// The last counter of every flow, and which flows are large.
#[derive(Clone, Debug)]
pub struct Detector {
    /// By source host: bits per second from which a flow is large.
    limit: Vec<f64>,
    /// Ascending by key.
    seen: Vec<Seen>,
    /// When the reading before the next one was asked for.
    asked: Instant,
    scratch: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    key: FlowKey,
    bytes: Bytes,
    read_at: Instant,
    large: bool,
    ended: bool,
}

impl Detector {
    /// Has seen nothing. A flow is large from `threshold` times the capacity of its source's NIC.
    pub fn new(fabric: &Fabric, threshold: f64) -> Self {
        Self {
            limit: fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64() * threshold).collect(),
            seen: Vec::new(),
            asked: Instant::ZERO,
            scratch: Vec::new(),
        }
    }

    /// Takes the counters of all flows, ascending by key, that were asked for at `asked`. Flows that are not among them have ended; those of which
    /// `is_placed` holds are large.
    pub fn read(&mut self, counters: &[FlowCounter<'_>], asked: Instant, is_placed: impl Fn(&FlowKey) -> bool) {
        debug_assert!(counters.is_sorted_by_key(|c| c.flow), "worlds list flows in the order of their keys");
        let mut known = self.seen.iter().filter(|s| !s.ended).peekable();
        self.scratch.clear();
        for counter in counters {
            while known.next_if(|s| s.key < counter.flow).is_some() {}
            // A counter that went down counts another flow of the same key.
            let last = known.next_if(|s| s.key == counter.flow).filter(|s| s.bytes <= counter.bytes);
            let (bytes, since, was_large) = last.map_or((Bytes(0), self.asked, false), |s| (s.bytes, s.read_at, s.large));
            let moved = Bytes(counter.bytes.0 - bytes.0);
            let span = counter.read_at.saturating_since(since).as_ns();
            let limit = self.limit[counter.flow.src.index()];
            let reaches = span > 0 && moved.bits() as f64 * NS_PER_S as f64 >= limit * span as f64;
            self.scratch.push(Seen {
                key: counter.flow,
                bytes: counter.bytes,
                read_at: counter.read_at,
                large: was_large || reaches || is_placed(&counter.flow),
                ended: false,
            });
        }
        std::mem::swap(&mut self.seen, &mut self.scratch);
        self.asked = asked;
    }

    /// Forgets a flow that has ended.
    pub fn removed(&mut self, key: &FlowKey) {
        if let Ok(i) = self.seen.binary_search_by_key(key, |s| s.key) {
            self.seen[i].ended = true;
        }
    }

    /// The large flows, ascending by key.
    pub fn large(&self) -> impl Iterator<Item = FlowKey> + '_ {
        self.seen.iter().filter(|s| s.large && !s.ended).map(|s| s.key)
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::HostId;

    use super::*;
    use crate::hedera::testing::fat_tree;

    const MB: u64 = 1_000_000;

    fn key(number: u32) -> FlowKey {
        FlowKey::of_flow(number, HostId(0), HostId(5))
    }

    fn counter(number: u32, bytes: u64, ms: u64) -> FlowCounter<'static> {
        FlowCounter { flow: key(number), bytes: Bytes(bytes), read_at: at(ms), path: &[] }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn read(detector: &mut Detector, counters: &[FlowCounter<'_>], asked: Instant) {
        detector.read(counters, asked, |_| false);
    }

    fn large(detector: &Detector) -> Vec<FlowKey> {
        detector.large().collect()
    }

    #[test]
    fn a_flow_is_large_from_ten_percent_of_the_nic() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        // 100 Mbps are 12.5 MB a second.
        read(&mut detector, &[counter(1, 0, 0), counter(2, 0, 0)], at(0));
        read(&mut detector, &[counter(1, 62_500_000, 5000), counter(2, 62_499_999, 5000)], at(5000));
        assert_eq!(large(&detector), [key(1)]);
    }

    #[test]
    fn rates_come_from_the_times_of_the_counters() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        read(&mut detector, &[counter(1, 0, 0)], at(0));
        // Asked for at 5 s, but read at 4 s: 12.5 MB/s.
        read(&mut detector, &[counter(1, 50 * MB, 4000)], at(5000));
        assert_eq!(large(&detector), [key(1)]);
    }

    #[test]
    fn a_new_flow_began_after_the_last_reading() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        read(&mut detector, &[], at(5000));
        read(&mut detector, &[counter(1, 63 * MB, 10_000), counter(2, 62 * MB, 10_000)], at(10_000));
        assert_eq!(large(&detector), [key(1)]);
    }

    #[test]
    fn a_large_flow_stays_large_until_it_ends() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        read(&mut detector, &[counter(1, 500 * MB, 5000)], at(5000));
        read(&mut detector, &[counter(1, 501 * MB, 10_000)], at(10_000));
        assert_eq!(large(&detector), [key(1)]);
        detector.removed(&key(1));
        assert_eq!(large(&detector), []);
        read(&mut detector, &[counter(1, MB, 15_000)], at(15_000));
        assert_eq!(large(&detector), [], "another flow of that key");
    }

    #[test]
    fn a_flow_that_is_placed_stays_large() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        detector.read(&[counter(1, 0, 5000), counter(2, 0, 5000)], at(5000), |&flow| flow == key(1));
        read(&mut detector, &[counter(1, MB, 10_000), counter(2, MB, 10_000)], at(10_000));
        assert_eq!(large(&detector), [key(1)]);
    }

    #[test]
    fn a_counter_that_went_down_counts_another_flow() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        read(&mut detector, &[counter(1, 500 * MB, 5000)], at(5000));
        read(&mut detector, &[counter(1, 10 * MB, 10_000)], at(10_000));
        assert_eq!(large(&detector), []);
    }

    #[test]
    fn what_is_no_longer_listed_has_ended() {
        let mut detector = Detector::new(&fat_tree(4), 0.1);
        read(&mut detector, &[counter(1, 500 * MB, 5000), counter(2, 500 * MB, 5000)], at(5000));
        read(&mut detector, &[counter(2, 501 * MB, 10_000)], at(10_000));
        assert_eq!(large(&detector), [key(2)]);
    }
}
