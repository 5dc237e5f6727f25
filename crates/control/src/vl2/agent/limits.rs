//! Which flows are re-hashed (VL2, section 4.2.2).

use std::collections::BTreeMap;

use crate::bucket::Bucket;
use crate::time::{Duration, Instant};

/// Decides which flows of a host take another path: one flow once in an interval, all together at a rate. `F` names a flow.
#[derive(Clone, Debug)]
pub struct Rehash<F> {
    interval: Duration,
    all: Bucket,
    /// When each flow was re-hashed last.
    last: BTreeMap<F, Instant>,
}

impl<F: Ord> Rehash<F> {
    /// No flow has been re-hashed yet.
    pub fn new(interval: Duration, per_second: u32) -> Self {
        Self { interval, all: Bucket::new(per_second, per_second), last: BTreeMap::new() }
    }

    /// A flow lost a whole window: whether it is to be re-hashed.
    pub fn congested(&mut self, flow: F, now: Instant) -> bool {
        if self.last.get(&flow).is_some_and(|last| now.saturating_since(*last) < self.interval) {
            return false;
        }
        if self.last.len() >= FLOWS_MAX {
            let interval = self.interval;
            self.last.retain(|_, last| now.saturating_since(*last) < interval);
        }
        if self.last.len() >= FLOWS_MAX || !self.all.take(now) {
            return false;
        }
        self.last.insert(flow, now);
        true
    }
}

/// From one re-hash of a flow to the next at least, unless an agent's configuration says otherwise.
pub const REHASH_INTERVAL: Duration = Duration::from_secs(1);
/// Flows of a host re-hashed per second at most, the same.
pub const REHASH_RATE: u32 = 100;
/// Flows whose last re-hash is remembered.
const FLOWS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::ip::Flow;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn flow(port: u16) -> Flow {
        let (source, destination) = ([20, 0, 0, 1].into(), [20, 0, 0, 2].into());
        Flow { source, destination, protocol: 6, source_port: port, destination_port: 80 }
    }

    #[test]
    fn a_flow_is_rehashed_once_an_interval_and_all_at_a_rate() {
        let mut rehash = Rehash::new(Duration::from_secs(1), 5);
        assert!(rehash.congested(flow(1), at(0)) && !rehash.congested(flow(1), at(999)) && rehash.congested(flow(1), at(1000)));
        assert_eq!((10..30).filter(|&port| rehash.congested(flow(port), at(1000))).count(), 4);
    }
}
