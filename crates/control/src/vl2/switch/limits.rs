//! How many samples of undeliverable packets become reports: so many a second in all, and few of the same source and destination.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::bucket::Bucket;
use crate::time::{Duration, Instant};

/// A token bucket, and when each pair was reported last.
#[derive(Debug)]
pub(super) struct Limits {
    all: Bucket,
    again: Duration,
    pairs: BTreeMap<(IpAddr, IpAddr), Instant>,
}

impl Limits {
    pub fn new(per_second: u32, again: Duration) -> Self {
        Self { all: Bucket::new(per_second, per_second.min(BURST)), again, pairs: BTreeMap::new() }
    }

    /// Whether a sample of this pair becomes a report.
    pub fn allow(&mut self, now: Instant, source: IpAddr, destination: IpAddr) -> bool {
        let pair = (source, destination);
        if self.pairs.get(&pair).is_some_and(|&at| now.saturating_since(at) < self.again) {
            return false;
        }
        if self.pairs.len() >= PAIRS_MAX {
            let again = self.again;
            self.pairs.retain(|_, at| now.saturating_since(*at) < again);
        }
        if self.pairs.len() >= PAIRS_MAX || !self.all.take(now) {
            return false;
        }
        self.pairs.insert(pair, now);
        true
    }
}

/// Reports at once after a pause.
const BURST: u32 = 32;
/// Pairs that are remembered; while there are more, new ones wait.
const PAIRS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_in_all_nor_of_one_pair_too_many() {
        let ms = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        let mut limits = Limits::new(100, Duration::from_ms(50));
        assert!(limits.allow(ms(0), ip(1), ip(2)) && !limits.allow(ms(49), ip(1), ip(2)) && limits.allow(ms(50), ip(1), ip(2)));
        assert!(limits.allow(ms(50), ip(2), ip(1)), "the other way is another pair");
        let many = (0..10_000).filter(|&n| limits.allow(ms(100 + n / 10), ip(100 + n as u32), ip(1))).count();
        assert!((100..=134).contains(&many), "{many} in a second");
        assert!(!Limits::new(0, Duration::ZERO).allow(ms(1000), ip(1), ip(2)));
    }
}
