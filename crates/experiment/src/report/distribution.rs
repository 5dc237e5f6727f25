//! The distribution of completion times: exact at every point that is kept.

use serde::Serialize;
use weft_fabric::record::FlowRecord;
use weft_fabric::time::PS_PER_S;

use super::significant;

/// An empirical cumulative distribution: the fraction of values up to `values[i]` is `fractions[i]`. Empty without values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Strictly ascending; the first is the smallest value, the last the largest.
    pub values: Vec<f64>,
    /// Strictly ascending up to 1.
    pub fractions: Vec<f64>,
    /// Values that it was made of.
    pub count: u64,
}

impl Distribution {
    /// Of the flows that finished, from start to last byte, in seconds. At most `max_points` (4 or more) points: three in four
    /// evenly by rank, the others in the upper tail, ever closer to its end.
    pub fn of_completion_times(flows: &[FlowRecord], max_points: usize) -> Self {
        let times = flows.iter().filter_map(|f| f.end.map(|end| end.saturating_since(f.start).as_ps())).collect();
        Self::of_ps(times, max_points)
    }

    /// Keeps every `factor`-th point, the first and the last; each stays exact.
    pub fn coarsened(&self, factor: usize) -> Self {
        let last = self.values.len().saturating_sub(1);
        let kept = |list: &[f64]| {
            let points = list.iter().enumerate().filter(|(i, _)| i % factor.max(1) == 0 || *i == last);
            points.map(|(_, v)| *v).collect()
        };
        Self { values: kept(&self.values), fractions: kept(&self.fractions), count: self.count }
    }

    fn of_ps(mut times_ps: Vec<u64>, max_points: usize) -> Self {
        times_ps.sort_unstable();
        let count = times_ps.len();
        let mut distribution = Self { count: count as u64, ..Self::default() };
        let mut covered = 0;
        for rank in kept_ranks(count, max_points) {
            if rank < covered {
                continue;
            }
            let value = times_ps[rank];
            covered = times_ps.partition_point(|&t| t <= value);
            distribution.values.push(significant(value as f64 / PS_PER_S as f64, 9));
            distribution.fractions.push(significant(covered as f64 / count as f64, 9));
        }
        distribution
    }
}

/// Ascending ranks from 0 to `count - 1`.
fn kept_ranks(count: usize, max_points: usize) -> Vec<usize> {
    if count <= max_points {
        return (0..count).collect();
    }
    let even = max_points * 3 / 4;
    let mut ranks: Vec<usize> = (0..even).map(|i| i * (count - 1) / (even - 1)).collect();
    // Distances from the end shrink by an eighth a step.
    let mut from_end = count / even;
    while ranks.len() < max_points && from_end > 0 {
        ranks.push(count - 1 - from_end);
        from_end -= (from_end / 8).max(1);
    }
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_are_one_step() {
        let d = Distribution::of_ps(vec![2 * PS_PER_S, PS_PER_S, 2 * PS_PER_S, 4 * PS_PER_S], 400);
        assert_eq!(d, Distribution { values: vec![1.0, 2.0, 4.0], fractions: vec![0.25, 0.75, 1.0], count: 4 });
    }

    #[test]
    fn no_flow_finished() {
        assert_eq!(Distribution::of_ps(Vec::new(), 400), Distribution::default());
    }

    #[test]
    fn the_tail_of_a_million_is_resolved() {
        let d = Distribution::of_ps((0..1_000_000).collect(), 400);
        assert!(d.values.len() <= 400);
        let tail = d.fractions.iter().filter(|&&f| f > 0.999 && f < 1.0).count();
        assert!(tail > 20, "{tail} points above the 99.9th percentile");
    }

    proptest! {
        #[test]
        fn every_kept_point_is_exact(times in prop::collection::vec(0u64..50, 1..2_000), max in 4usize..100) {
            let d = Distribution::of_ps(times.iter().map(|t| t * PS_PER_S).collect(), max);
            prop_assert!(d.values.len() <= max);
            prop_assert!(d.values.is_sorted_by(|a, b| a < b) && d.fractions.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(d.values[0], *times.iter().min().expect("one") as f64);
            prop_assert_eq!(*d.values.last().expect("one"), *times.iter().max().expect("one") as f64);
            prop_assert_eq!(*d.fractions.last().expect("one"), 1.0);
            for (value, fraction) in std::iter::zip(&d.values, &d.fractions) {
                let exact = times.iter().filter(|&&t| t as f64 <= *value).count() as f64 / times.len() as f64;
                prop_assert!((fraction - exact).abs() < 1e-8);
            }
        }
    }
}
