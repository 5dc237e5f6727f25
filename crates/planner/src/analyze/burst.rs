//! How bursty a log is: counts over time at many scales, and the gaps between starts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::sketch::LogHistogram;

/// Bins that are kept.
const MAX_BINS: usize = 1 << 16;

/// Sums over bins of equal length; as there are too many, two become one.
#[derive(Debug)]
pub struct Decimated {
    step: i64,
    first: i64,
    bins: VecDeque<f64>,
}

impl Decimated {
    /// Empty, with bins of this length at first.
    pub const fn new(step_ns: i64) -> Self {
        Self { step: step_ns, first: 0, bins: VecDeque::new() }
    }

    /// Adds a value at a time.
    pub fn add(&mut self, at: i64, value: f64) {
        if self.bins.is_empty() {
            self.first = at.div_euclid(self.step);
        }
        loop {
            let bin = at.div_euclid(self.step);
            let (low, high) = (bin.min(self.first), bin.max(self.first + self.bins.len() as i64 - 1));
            if high - low < MAX_BINS as i64 {
                break;
            }
            self.halve();
        }
        let bin = at.div_euclid(self.step);
        while bin < self.first {
            self.bins.push_front(0.0);
            self.first -= 1;
        }
        let place = (bin - self.first) as usize;
        if place >= self.bins.len() {
            self.bins.resize(place + 1, 0.0);
        }
        self.bins[place] += value;
    }

    fn halve(&mut self) {
        let first = self.first.div_euclid(2);
        let mut halved = VecDeque::with_capacity(self.bins.len() / 2 + 1);
        for (at, value) in self.bins.iter().enumerate() {
            let place = ((self.first + at as i64).div_euclid(2) - first) as usize;
            if place >= halved.len() {
                halved.resize(place + 1, 0.0);
            }
            halved[place] += value;
        }
        (self.step, self.first, self.bins) = (self.step * 2, first, halved);
    }

    /// Length of a bin.
    pub const fn step_ns(&self) -> i64 {
        self.step
    }

    /// The bins, in order of time.
    pub fn values(&self) -> Vec<f64> {
        self.bins.iter().copied().collect()
    }

    /// Start of the first bin.
    pub const fn start_ns(&self) -> i64 {
        self.first * self.step
    }

    /// Index of dispersion (variance over mean) of the sums over windows of 1, 2, 4 and more bins, as (window in ns, index), for windows of which there are at
    /// least 20. A Poisson process has 1 at every scale.
    pub fn dispersion(&self) -> Vec<(i64, f64)> {
        let mut values = self.values();
        let mut window = self.step;
        let mut found = Vec::new();
        while values.len() >= 20 {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (count - 1.0);
            if mean > 0.0 {
                found.push((window, variance / mean));
            }
            values = values.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            window *= 2;
        }
        found
    }
}

/// Starts that wait for earlier ones.
const REORDERED: usize = 1 << 16;

/// Gaps between consecutive starts. Logs are sorted by the end of flows, or not at all: a bounded buffer puts them in order.
#[derive(Debug, Default)]
pub struct Gaps {
    waiting: BinaryHeap<Reverse<i64>>,
    last: Option<i64>,
    /// Nanoseconds between two starts.
    pub gaps: LogHistogram,
    /// Starts that were too late for the buffer.
    pub too_late: u64,
}

impl Gaps {
    /// Adds a start.
    pub fn add(&mut self, start: i64) {
        self.waiting.push(Reverse(start));
        if self.waiting.len() > REORDERED {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(Reverse(start)) = self.waiting.pop() else { return };
        match self.last {
            Some(last) if start < last => {
                self.too_late += 1;
                return;
            }
            Some(last) => self.gaps.add((start - last) as u64),
            None => {}
        }
        self.last = Some(start);
    }

    /// Takes those that wait.
    pub fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_counts_have_no_dispersion_and_bursts_have() {
        let (mut even, mut bursts) = (Decimated::new(10), Decimated::new(10));
        for at in 0..1000 {
            even.add(at, 1.0);
            if at % 100 < 10 {
                bursts.add(at, 10.0);
            }
        }
        assert_eq!(even.dispersion()[0], (10, 0.0));
        assert!(bursts.dispersion()[0].1 > 50.0);
    }

    #[test]
    fn sums_stay_as_bins_are_joined() {
        let mut bins = Decimated::new(1);
        for at in [0, 5, 200_000, -7, 1_000_000] {
            bins.add(at, 2.0);
        }
        assert_eq!(bins.values().iter().sum::<f64>(), 10.0);
        assert!(bins.values().len() <= MAX_BINS && bins.start_ns() <= -7);
    }

    #[test]
    fn gaps_are_those_of_the_sorted_starts() {
        let mut gaps = Gaps::default();
        [30, 10, 20, 60].into_iter().for_each(|start| gaps.add(start));
        gaps.finish();
        let found: Vec<(u64, u64)> = gaps.gaps.bins().map(|b| (b.from, b.count)).collect();
        assert_eq!((found, gaps.too_late), (vec![(10, 2), (30, 1)], 0));
    }
}
