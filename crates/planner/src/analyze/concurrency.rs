//! Concurrent flows of a host (VL2 figure 3): counted at sampling instants. As samples become too many, every second one is dropped, so that memory is
//! bounded whatever the length of the log.

use rustc_hash::FxHashMap;

use super::sketch::LogHistogram;

/// Counts that are kept: about 100 MB.
const MAX_CELLS: usize = 3_000_000;
/// Samples of one flow.
const MAX_SAMPLES_OF_FLOW: i64 = 1 << 15;

/// Counts of flows at instants that are multiples of a step.
#[derive(Debug)]
pub struct Concurrency {
    step: i64,
    counts: FxHashMap<(i64, u32), u32>,
    max_cells: usize,
}

impl Concurrency {
    /// No flows yet.
    pub fn new(step_ns: i64) -> Self {
        Self { step: step_ns.max(1), counts: FxHashMap::default(), max_cells: MAX_CELLS }
    }

    /// Counts a flow at both of its ends, from its start to before its end.
    pub fn add(&mut self, hosts: [Option<u32>; 2], start: i64, end: i64) {
        while (end - start) / self.step > MAX_SAMPLES_OF_FLOW {
            self.halve();
        }
        let first = start.div_euclid(self.step) + i64::from(start.rem_euclid(self.step) != 0);
        for at in first.. {
            if at * self.step >= end {
                break;
            }
            for host in hosts.into_iter().flatten() {
                *self.counts.entry((at, host)).or_default() += 1;
            }
        }
        while self.counts.len() > self.max_cells {
            self.halve();
        }
    }

    /// Keeps every second sample.
    fn halve(&mut self) {
        self.step *= 2;
        let old = std::mem::take(&mut self.counts);
        self.counts = old.into_iter().filter(|((at, _), _)| at % 2 == 0).map(|((at, host), n)| ((at / 2, host), n)).collect();
    }

    /// Time between two samples.
    pub const fn step_ns(&self) -> i64 {
        self.step
    }

    /// Number of samples from one time to another.
    pub const fn samples(&self, start: i64, end: i64) -> u64 {
        let first = start.div_euclid(self.step) + (start.rem_euclid(self.step) != 0) as i64;
        let last = (end - 1).div_euclid(self.step);
        if last >= first { (last - first + 1) as u64 } else { 0 }
    }

    /// The distribution over the hosts and the samples of a time, those without a flow included.
    pub fn distribution(&self, hosts: u64, start: i64, end: i64) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        let mut counts: Vec<u32> = self.counts.values().copied().collect();
        counts.sort_unstable();
        counts.chunk_by(|a, b| a == b).for_each(|same| histogram.add_many(u64::from(same[0]), same.len() as u64));
        let all = hosts.saturating_mul(self.samples(start, end));
        histogram.add_many(0, all.saturating_sub(histogram.count()));
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_counted_where_they_are_active() {
        let mut flows = Concurrency::new(10);
        flows.add([Some(0), Some(1)], 0, 30);
        flows.add([Some(0), None], 5, 20);
        assert_eq!(flows.samples(0, 40), 4);
        let found = flows.distribution(2, 0, 40);
        // Host 0: 1, 2, 1, 0; host 1: 1, 1, 1, 0.
        let counts: Vec<(u64, u64)> = found.bins().map(|b| (b.from, b.count)).collect();
        assert_eq!(counts, [(0, 2), (1, 5), (2, 1)]);
    }

    #[test]
    fn memory_is_bounded_and_the_distribution_stays() {
        let mut flows = Concurrency { max_cells: 1_000, ..Concurrency::new(1) };
        for host in 0..10 {
            flows.add([Some(host), None], 0, 10_000);
        }
        assert!(flows.counts.len() <= 1_000 && flows.step_ns() > 1);
        let found = flows.distribution(10, 0, 10_000);
        assert_eq!(found.quantile(0.0), 1.0);
        assert_eq!(found.max(), 1);
    }
}
