//! An empirical distribution: a table of values and the probability that a draw is no larger, linear in between.
//!
//! ```text
//!   P  1 |            ____/      a slanted piece: uniform between two values
//!        |      _____/
//!        |     |                 an upright piece (the same value twice): that value itself, with this probability
//!      0 |_____|________ value
//! ```
//! This is how the public generators draw from such tables: invert the CDF, interpolating between the points.

/// A distribution by its points.
#[derive(Clone, Debug, PartialEq)]
pub struct EmpiricalCdf {
    points: Vec<(f64, f64)>,
}

/// A table that is not a distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum CdfError {
    #[error("a distribution needs at least two points")]
    TooFewPoints,
    #[error("point {index}: the value {value} is not a number from 0 to 1e18")]
    Value { index: usize, value: f64 },
    #[error("point {index}: the value {value} is below the one before, {before}")]
    ValueFalls { index: usize, value: f64, before: f64 },
    #[error("point {index}: the probability {probability} is not a number from 0 to 1")]
    Probability { index: usize, probability: f64 },
    #[error("point {index}: the probability {probability} does not rise above the one before, {before}")]
    ProbabilityDoesNotRise { index: usize, probability: f64, before: f64 },
    #[error("the first probability is {0} and must be 0")]
    Start(f64),
    #[error("the last probability is {0} and must be 1")]
    End(f64),
    #[error("all values are 0")]
    Zero,
}

impl EmpiricalCdf {
    /// A distribution from (value, probability of at most this value).
    ///
    /// # Errors
    /// Values must not fall, probabilities must rise from 0 to 1, and some value must be above 0; `index` counts from 0.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Self, CdfError> {
        for (index, &(value, probability)) in points.iter().enumerate() {
            if !(0.0..=MAX_VALUE).contains(&value) {
                return Err(CdfError::Value { index, value });
            }
            if !(0.0..=1.0).contains(&probability) {
                return Err(CdfError::Probability { index, probability });
            }
            let Some(&(value_before, before)) = index.checked_sub(1).map(|i| &points[i]) else { continue };
            if value < value_before {
                return Err(CdfError::ValueFalls { index, value, before: value_before });
            }
            if probability <= before {
                return Err(CdfError::ProbabilityDoesNotRise { index, probability, before });
            }
        }
        let (Some(first), Some(last)) = (points.first(), points.get(1..).and_then(|p| p.last())) else {
            return Err(CdfError::TooFewPoints);
        };
        match (first.1, last.1) {
            (start, _) if start != 0.0 => Err(CdfError::Start(start)),
            (_, end) if end != 1.0 => Err(CdfError::End(end)),
            _ if last.0 == 0.0 => Err(CdfError::Zero),
            _ => Ok(Self { points }),
        }
    }

    /// (value, probability of at most this value), rising.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value that a draw exceeds with probability 1 - `u`, for `u` from 0 to 1.
    pub fn quantile(&self, u: f64) -> f64 {
        let at = self.points.partition_point(|p| p.1 < u).clamp(1, self.points.len() - 1);
        let [(v0, p0), (v1, p1)] = [self.points[at - 1], self.points[at]];
        (v0 + (u - p0) / (p1 - p0) * (v1 - v0)).clamp(v0, v1)
    }

    /// The probability that a draw is at most `value`.
    pub fn probability(&self, value: f64) -> f64 {
        match self.points.partition_point(|p| p.0 <= value) {
            0 => 0.0,
            at if at == self.points.len() => 1.0,
            at => {
                let [(v0, p0), (v1, p1)] = [self.points[at - 1], self.points[at]];
                p0 + (value - v0) / (v1 - v0) * (p1 - p0)
            }
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.sum_between(0.0, f64::INFINITY)
    }

    /// The part of the sum of many draws (of the bytes of many flows) that comes from draws between two values.
    pub fn share_between(&self, low: f64, high: f64) -> f64 {
        self.sum_between(low, high) / self.mean()
    }

    /// The integral of v dF(v) over `[low, high]`, exact for each piece.
    fn sum_between(&self, low: f64, high: f64) -> f64 {
        let piece = |pair: &[(f64, f64)]| {
            let ((v0, p0), (v1, p1)) = (pair[0], pair[1]);
            if v0 == v1 {
                return if (low..=high).contains(&v0) { (p1 - p0) * v0 } else { 0.0 };
            }
            let (a, b) = (v0.max(low), v1.min(high));
            if a < b { (p1 - p0) / (v1 - v0) * (b - a) * (a + b) / 2.0 } else { 0.0 }
        };
        self.points.windows(2).map(piece).sum()
    }
}

/// A flow of 10^18 bytes takes years on any link.
const MAX_VALUE: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps() -> EmpiricalCdf {
        EmpiricalCdf::new(vec![(0.0, 0.0), (10.0, 0.5), (10.0, 0.75), (20.0, 1.0)]).unwrap()
    }

    #[test]
    fn quantiles_interpolate_and_atoms_stay_put() {
        let quantiles = [0.0, 0.25, 0.5, 0.6, 0.75, 0.875, 1.0].map(|u| steps().quantile(u));
        assert_eq!(quantiles, [0.0, 5.0, 10.0, 10.0, 10.0, 15.0, 20.0]);
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(steps().mean(), 2.5 + 2.5 + 3.75);
        assert_eq!(steps().share_between(10.0, 10.0), 2.5 / 8.75);
        assert_eq!(steps().probability(10.0), 0.75);
        assert_eq!(steps().probability(5.0), 0.25);
    }

    #[test]
    fn tables_that_are_no_distribution_are_refused() {
        let error = |points: &[(f64, f64)]| EmpiricalCdf::new(points.to_vec()).unwrap_err();
        assert_eq!(error(&[]), CdfError::TooFewPoints);
        assert_eq!(error(&[(0.0, 0.0)]), CdfError::TooFewPoints);
        assert_eq!(error(&[(0.0, 0.0), (0.0, 1.0)]), CdfError::Zero);
        assert_eq!(error(&[(0.0, 0.1), (1.0, 1.0)]), CdfError::Start(0.1));
        assert_eq!(error(&[(0.0, 0.0), (1.0, 0.9)]), CdfError::End(0.9));
        assert!(matches!(error(&[(0.0, 0.0), (f64::NAN, 1.0)]), CdfError::Value { index: 1, .. }));
        assert!(matches!(error(&[(-1.0, 0.0), (1.0, 1.0)]), CdfError::Value { index: 0, .. }));
        assert!(matches!(error(&[(5.0, 0.0), (1.0, 1.0)]), CdfError::ValueFalls { index: 1, .. }));
        assert!(matches!(
            error(&[(0.0, 0.0), (1.0, 0.5), (2.0, 0.5), (3.0, 1.0)]),
            CdfError::ProbabilityDoesNotRise { index: 2, .. }
        ));
        assert!(matches!(error(&[(0.0, 0.0), (1.0, 2.0)]), CdfError::Probability { index: 1, .. }));
    }

    proptest! {
        #[test]
        fn quantile_and_probability_are_inverse(values in prop::collection::vec(1u32..1_000_000, 1..20), u in 0.0f64..1.0) {
            let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            let n = values.len() as f64;
            let points = std::iter::once((0.0, 0.0)).chain(values.iter().enumerate().map(|(i, &v)| (v, (i + 1) as f64 / n)));
            let cdf = EmpiricalCdf::new(points.collect()).unwrap();
            prop_assert!((cdf.probability(cdf.quantile(u)) - u).abs() < 1e-9);
        }
    }
}
