//! Throughput over time, thinned without losing a byte.
//!
//! ```text
//!   delivered    .--*           samples: cumulative bytes, linear in between
//!             *-'               a bin's mean = (delivered(right) - delivered(left)) / width, so that
//!          .-'                  the sum of mean x width over any run of bins is what was delivered in it
//!        *'
//!        |----|----|----|  time
//! ```

use serde::Serialize;
use weft_fabric::record::Sample;

use super::significant;

/// A step function: `values[i]` holds from `edges[i]` to `edges[i + 1]`. Empty if nothing was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Seconds, strictly ascending; one more than values.
    pub edges: Vec<f64>,
    /// Mean over each bin.
    pub values: Vec<f64>,
}

impl Series {
    /// Mean bits per second in at most `max_bins` bins: the samples' own spans if they are few, bins of equal width else.
    pub fn throughput(samples: &[Sample], max_bins: usize) -> Self {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Self::default() };
        let (start, end) = (first.at.as_ps(), last.at.as_ps());
        if end <= start || max_bins == 0 {
            return Self::default();
        }
        let mut edges_ps: Vec<u64> = samples.iter().map(|s| s.at.as_ps()).collect();
        edges_ps.dedup();
        if edges_ps.len() > max_bins + 1 {
            let width = u128::from(end - start);
            edges_ps = (0..=max_bins as u128).map(|i| start + (width * i / max_bins as u128) as u64).collect();
            edges_ps.dedup();
        }
        let delivered = delivered_at(samples, &edges_ps);
        let values = std::iter::zip(edges_ps.windows(2), delivered.windows(2))
            .map(|(at, bytes)| (bytes[1] - bytes[0]) * 8.0 / seconds(at[1] - at[0]))
            .collect();
        Self { edges: edges_ps.into_iter().map(seconds).collect(), values }
    }

    /// Joins every `factor` neighbouring bins into their mean; the integral stays.
    pub fn coarsened(&self, factor: usize) -> Self {
        if factor <= 1 || self.values.is_empty() {
            return self.clone();
        }
        let bins = self.values.len();
        let mut coarse = Self { edges: vec![self.edges[0]], values: Vec::new() };
        for from in (0..bins).step_by(factor) {
            let to = (from + factor).min(bins);
            let area: f64 = (from..to).map(|i| self.values[i] * (self.edges[i + 1] - self.edges[i])).sum();
            coarse.values.push(significant(area / (self.edges[to] - self.edges[from]), VALUE_DIGITS));
            coarse.edges.push(self.edges[to]);
        }
        coarse
    }

    /// The same with fewer digits, as the page stores it.
    pub fn rounded(mut self) -> Self {
        self.edges.iter_mut().for_each(|t| *t = significant(*t, EDGE_DIGITS));
        self.values.iter_mut().for_each(|v| *v = significant(*v, VALUE_DIGITS));
        self
    }
}

/// Cumulative bytes at each time; both lists ascend. Of samples at one instant the last counts.
fn delivered_at(samples: &[Sample], times_ps: &[u64]) -> Vec<f64> {
    let mut next = 0;
    let mut at_times = Vec::with_capacity(times_ps.len());
    for &time in times_ps {
        while samples.get(next).is_some_and(|s| s.at.as_ps() <= time) {
            next += 1;
        }
        let before = &samples[next - 1];
        at_times.push(match samples.get(next) {
            None => before.delivered,
            Some(after) => {
                let (t0, t1) = (before.at.as_ps(), after.at.as_ps());
                before.delivered + (after.delivered - before.delivered) * ((time - t0) as f64 / (t1 - t0) as f64)
            }
        });
    }
    at_times
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / weft_fabric::time::PS_PER_S as f64
}

/// Edges of an event-driven run can lie close together.
const EDGE_DIGITS: usize = 9;
/// More than the screen and the read-out show.
const VALUE_DIGITS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_fabric::Instant;

    fn samples(steps: &[(u64, f64)]) -> Vec<Sample> {
        let (mut at, mut delivered) = (0, 0.0);
        let mut samples = vec![Sample { at: Instant::ZERO, delivered, active: 0, nic_bound_bps: 0.0 }];
        for &(ps, bytes) in steps {
            at += ps;
            delivered += bytes;
            samples.push(Sample { at: Instant::from_ps(at), delivered, active: 1, nic_bound_bps: 0.0 });
        }
        samples
    }

    fn integral_bytes(series: &Series) -> f64 {
        series.values.iter().enumerate().map(|(i, v)| v * (series.edges[i + 1] - series.edges[i]) / 8.0).sum()
    }

    #[test]
    fn few_samples_keep_their_own_spans() {
        let series = Series::throughput(&samples(&[(1_000_000_000_000, 125.0), (0, 0.0), (3_000_000_000_000, 750.0)]), 600);
        assert_eq!(series, Series { edges: vec![0.0, 1.0, 4.0], values: vec![1000.0, 2000.0] });
    }

    #[test]
    fn nothing_sampled_gives_no_bins() {
        assert_eq!(Series::throughput(&[], 600), Series::default());
        assert_eq!(Series::throughput(&samples(&[]), 600), Series::default());
        assert_eq!(Series::default().coarsened(3), Series::default());
    }

    proptest! {
        #[test]
        fn thinning_conserves_the_integral_of_every_bin(
            steps in prop::collection::vec((0u64..2_000_000_000_000, 0.0f64..1e9), 1..200),
            bins in 1usize..40,
            factor in 1usize..7,
        ) {
            let samples = samples(&steps);
            let total = samples.last().expect("one at least").delivered;
            let series = Series::throughput(&samples, bins);
            prop_assume!(!series.values.is_empty());
            prop_assert!(series.values.len() <= bins);
            prop_assert!(series.edges.is_sorted_by(|a, b| a < b));
            prop_assert!((integral_bytes(&series) - total).abs() <= 1e-9 * total.max(1.0));
            let coarse = series.coarsened(factor);
            prop_assert!((integral_bytes(&coarse) - total).abs() <= 1e-4 * total.max(1.0));
            prop_assert_eq!(coarse.values.len(), series.values.len().div_ceil(factor));
        }

        #[test]
        fn a_bin_agrees_with_a_slow_walk_over_the_samples(
            steps in prop::collection::vec((1u64..1_000_000_000_000, 0.0f64..1e9), 30..80),
        ) {
            let samples = samples(&steps);
            let series = Series::throughput(&samples, 10);
            for (i, &value) in series.values.iter().enumerate() {
                let (from, to) = (series.edges[i], series.edges[i + 1]);
                let bytes: f64 = samples.windows(2).map(|w| {
                    let (t0, t1) = (w[0].at.as_secs_f64(), w[1].at.as_secs_f64());
                    let overlap = (to.min(t1) - from.max(t0)).max(0.0);
                    (w[1].delivered - w[0].delivered) * overlap / (t1 - t0)
                }).sum();
                prop_assert!((value * (to - from) / 8.0 - bytes).abs() <= 1e-6 * bytes.max(1.0));
            }
        }
    }
}
