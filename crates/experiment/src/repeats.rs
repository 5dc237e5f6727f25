//! The repeats of a run with several seeds: their means, and how uncertain these are.

use serde::Serialize;

use crate::metrics::Metrics;

/// What a run measured with one seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfSeed {
    /// The seed.
    pub seed: u64,
    /// What was measured.
    pub metrics: Metrics,
}

/// Means over the seeds of a run.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    /// The mean of each metric that every seed has.
    pub mean: Metrics,
    /// Half the width of the mean's 95 % confidence interval (Student's t); empty for one seed.
    pub ci95: Metrics,
    /// What each seed measured, in the order of the seeds; empty for one seed.
    pub per_seed: Vec<OfSeed>,
}

impl Repeats {
    /// Of what each seed measured.
    pub fn of(mut per_seed: Vec<OfSeed>) -> Self {
        if per_seed.len() == 1 {
            return Self { mean: per_seed.remove(0).metrics, ..Self::default() };
        }
        let (mut mean, mut ci95) = (Metrics::default(), Metrics::default());
        let names: Vec<&str> = per_seed.first().into_iter().flat_map(|one| one.metrics.iter().map(|(name, _)| name)).collect();
        for name in names {
            let values: Option<Vec<f64>> = per_seed.iter().map(|one| one.metrics.get(name)).collect();
            if let Some(values) = values {
                mean.put_named(name, mean_of(&values));
                ci95.put_named(name, half_width(&values));
            }
        }
        Self { mean, ci95, per_seed }
    }

    /// Whether each of several seeds measured the same, as far as the run and not the machine is measured.
    pub fn are_equal(&self) -> bool {
        self.per_seed.len() > 1 && self.ci95.iter().all(|(name, half)| half == 0.0 || crate::metrics::WALL_CLOCK.contains(&name))
    }
}

/// Half the width of the 95 % confidence interval of the ratio of two means, from runs with the same seeds: the ratio's linear approximation
/// (Cochran, Sampling Techniques, section 6.4), which counts what both have from their common seeds once.
pub fn half_width_of_ratio(above: &[f64], below: &[f64]) -> Option<f64> {
    let base = mean_of(below);
    if above.len() != below.len() || above.len() < 2 || base == 0.0 {
        return None;
    }
    let ratio = mean_of(above) / base;
    let residuals: Vec<f64> = above.iter().zip(below).map(|(a, b)| a - ratio * b).collect();
    Some(half_width(&residuals) / base.abs())
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half the width of the mean's 95 % confidence interval.
fn half_width(values: &[f64]) -> f64 {
    // Equal values have no spread, whatever the rounding of their mean.
    if values.iter().all(|value| *value == values[0]) {
        return 0.0;
    }
    let (n, mean) = (values.len() as f64, mean_of(values));
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
    student_t(values.len() - 1) * libm::sqrt(variance / n)
}

/// The 97.5 % quantile of Student's t with so many degrees of freedom: tabulated, then by its expansion about the normal quantile (Abramowitz and Stegun,
/// 26.7.5).
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];
    if let Some(t) = TABLE.get(freedom - 1) {
        return *t;
    }
    let (z, v): (f64, f64) = (1.959_964, freedom as f64);
    let z3 = z * z * z;
    let (z5, z7) = (z3 * z * z, z3 * z3 * z);
    let first = (z3 + z) / (4.0 * v);
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v);
    z + first + second + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(values: &[(f64, Option<f64>)]) -> Vec<OfSeed> {
        let one = |(i, (goodput, completion)): (usize, &(f64, Option<f64>))| {
            let mut metrics = Metrics::default();
            metrics.put("goodput_bps", *goodput);
            metrics.put_some("completion_s", *completion);
            OfSeed { seed: i as u64 + 1, metrics }
        };
        values.iter().enumerate().map(one).collect()
    }

    /// 2, 4, 4, 4, 5, 5, 7, 9: mean 5, standard deviation sqrt(32 / 7), t of 7 degrees 2.3646.
    #[test]
    fn means_and_intervals_are_those_of_the_closed_form() {
        let values: Vec<_> = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(|v| (v, Some(1.0))).to_vec();
        let repeats = Repeats::of(seeds(&values));
        assert_eq!(repeats.mean.get("goodput_bps"), Some(5.0));
        let expected = 2.3646 * (32.0f64 / 7.0).sqrt() / 8.0f64.sqrt();
        assert!((repeats.ci95.get("goodput_bps").unwrap() - expected).abs() < 1e-9);
        assert_eq!(repeats.ci95.get("completion_s"), Some(0.0));
        assert_eq!(repeats.per_seed.len(), 8);
        assert!(!repeats.are_equal());
        assert!(Repeats::of(seeds(&[(1.0, None), (1.0, None)])).are_equal());
    }

    #[test]
    fn a_metric_that_one_seed_lacks_has_no_mean() {
        let repeats = Repeats::of(seeds(&[(1.0, Some(1.0)), (3.0, None)]));
        assert_eq!((repeats.mean.get("goodput_bps"), repeats.mean.get("completion_s")), (Some(2.0), None));
    }

    #[test]
    fn one_seed_is_itself() {
        let repeats = Repeats::of(seeds(&[(1.5, None)]));
        assert_eq!((repeats.mean.get("goodput_bps"), repeats.ci95.iter().count(), repeats.per_seed.len()), (Some(1.5), 0, 0));
    }

    /// Published quantiles: 12 degrees 2.1788, 30 degrees 2.0423, 100 degrees 1.9840.
    #[test]
    fn quantiles_of_student_are_the_published_ones() {
        for (freedom, t) in [(1, 12.7062), (4, 2.7764), (10, 2.2281), (12, 2.1788), (30, 2.0423), (100, 1.9840)] {
            assert!((student_t(freedom) - t).abs() < 6e-4, "{freedom}: {}", student_t(freedom));
        }
    }

    /// Runs that differ by a factor alone have a certain ratio, however much their seeds differ.
    #[test]
    fn the_ratio_of_runs_with_the_same_seeds_counts_their_difference_alone() {
        let below = [1.0, 2.0, 5.0];
        assert!(half_width_of_ratio(&below.map(|v| 3.0 * v), &below).unwrap() < 1e-12);
        let noisy = half_width_of_ratio(&[3.0, 6.5, 14.0], &below).unwrap();
        assert!(noisy > 0.1 && noisy < 1.0, "{noisy}");
        assert_eq!(half_width_of_ratio(&[1.0], &[1.0]), None);
        assert_eq!(half_width_of_ratio(&[1.0, 2.0], &[1.0]), None);
    }
}
