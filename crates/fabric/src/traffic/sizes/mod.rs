//! How much a flow sends: fixed, from a distribution of closed form, or from an empirical one.
//!
//! A size is written as the scenario's `size` key is: [`SizeSpec`] parses `inf`, `10MB`, `exponential(10MB)`,
//! `uniform(1MB, 101MB)`, `pareto(1.2, 10kB, 1GB)`, `lognormal(1MB, 2)`, or a name of [`named::NAMES`]. A CDF file is read
//! by the caller and parsed by [`crate::formats::cdf`].

mod concurrency;
mod empirical;
pub mod named;
mod text;

use std::sync::Arc;

use crate::ids::HostId;
use crate::rng::Pcg64;
use crate::traffic::flow::Size;
use crate::traffic::random::{Draw, exponential, generator, normal, unit};
use crate::units::Bytes;

pub use concurrency::Concurrency;
pub use empirical::{CdfError, EmpiricalCdf};

/// The distribution of the size of a flow. A draw is rounded down to whole bytes, and up to one byte.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeSpec {
    /// Flows send until the run ends.
    Infinite,
    /// All alike.
    Fixed(Bytes),
    /// Exponential (Hedera section 5.5).
    Exponential {
        /// Mean.
        mean: Bytes,
    },
    /// Uniform from `min` to `max`, both included.
    Uniform {
        /// Smallest size.
        min: Bytes,
        /// Largest size.
        max: Bytes,
    },
    /// Pareto, cut off at `max`: P(S > s) falls as s^-shape from `min` on.
    Pareto {
        /// The exponent: the smaller, the heavier the tail.
        shape: f64,
        /// Smallest size.
        min: Bytes,
        /// Largest size.
        max: Bytes,
    },
    /// The logarithm of the size is normal.
    LogNormal {
        /// Mean of the size itself.
        mean: Bytes,
        /// Standard deviation of its natural logarithm.
        sigma: f64,
    },
    /// Piecewise linear between the points of a table.
    Empirical(Arc<EmpiricalCdf>),
}

/// A size that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SizeError {
    #[error(
        "`{text}` is not a size: write `inf`, a size such as `10MB`, `exponential(10MB)`, `uniform(1MB, 101MB)`, \
         `pareto(1.2, 10kB, 1GB)`, `lognormal(1MB, 2)`, a distribution's name ({names}), or the path of a CDF file"
    )]
    Unknown { text: String, names: String },
    #[error("`{text}`: {rule}")]
    Argument { text: String, rule: String },
    #[error("`concurrency` = {value}: {rule}")]
    Concurrency { value: String, rule: String },
}

impl SizeSpec {
    /// The distribution of that name: see [`named::NAMES`].
    pub fn named(name: &str) -> Option<Self> {
        named::cdf(name).map(|cdf| Self::Empirical(Arc::new(cdf)))
    }

    /// Whether a `size` is the path of a CDF file and not one of the forms that parse: it has a `/`, or ends in
    /// `.txt`, `.cdf`, `.csv` or `.dat`.
    pub fn is_file_name(text: &str) -> bool {
        text.contains('/') || [".txt", ".cdf", ".csv", ".dat"].iter().any(|ending| text.ends_with(ending))
    }

    /// The mean size in bytes, before rounding; `None` for flows without end.
    pub fn mean(&self) -> Option<f64> {
        match self {
            Self::Infinite => None,
            Self::Fixed(size) => Some(size.0 as f64),
            Self::Exponential { mean } | Self::LogNormal { mean, .. } => Some(mean.0 as f64),
            Self::Uniform { min, max } => Some((min.0 as f64 + max.0 as f64) / 2.0),
            Self::Pareto { shape, min, max } => Some(pareto_mean(*shape, min.0 as f64, max.0 as f64)),
            Self::Empirical(cdf) => Some(cdf.mean()),
        }
    }

    /// A size.
    pub fn sample(&self, rng: &mut Pcg64) -> Size {
        let bytes = match self {
            Self::Infinite => return Size::Infinite,
            Self::Fixed(size) => return Size::Finite(*size),
            Self::Exponential { mean } => mean.0 as f64 * exponential(rng),
            Self::Uniform { min, max } => {
                let steps = u128::from(max.0 - min.0) + 1;
                let hash = u128::from(rand::Rng::next_u64(rng));
                return Size::Finite(Bytes(min.0 + ((hash * steps) >> 64) as u64));
            }
            Self::Pareto { shape, min, max } => pareto(*shape, min.0 as f64, max.0 as f64, unit(rng)),
            Self::LogNormal { mean, sigma } => libm::exp(libm::log(mean.0 as f64) - sigma * sigma / 2.0 + sigma * normal(rng)),
            Self::Empirical(cdf) => cdf.quantile(unit(rng)),
        };
        Size::Finite(Bytes((bytes as u64).max(1)))
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`SizeError::Argument`], naming the parameter at fault.
    pub fn check(&self) -> Result<(), SizeError> {
        let rule = match *self {
            Self::Fixed(Bytes(0)) => "a flow sends at least 1 byte",
            Self::Exponential { mean: Bytes(0) } | Self::LogNormal { mean: Bytes(0), .. } => "the mean is at least 1 byte",
            Self::Uniform { min: Bytes(0), .. } | Self::Pareto { min: Bytes(0), .. } => "the smallest size is at least 1 byte",
            Self::Uniform { min, max } if min > max => "the smallest size is above the largest",
            Self::Pareto { min, max, .. } if min >= max => "the smallest size must lie below the largest",
            Self::Pareto { shape, .. } if !(shape > 0.0 && shape <= 100.0) => "the shape lies above 0 and is at most 100",
            Self::LogNormal { sigma, .. } if !(0.0..=10.0).contains(&sigma) => "sigma lies from 0 to 10",
            _ => return Ok(()),
        };
        Err(SizeError::Argument { text: self.to_string(), rule: rule.to_owned() })
    }
}

/// The sizes of a run's flows.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    spec: SizeSpec,
    seed: u64,
}

impl Sizes {
    pub(super) fn new(spec: &SizeSpec, seed: u64) -> Self {
        Self { spec: spec.clone(), seed }
    }

    /// The size of the flow number `nth` of `src`.
    pub(super) fn of(&self, src: HostId, nth: u64) -> Size {
        match &self.spec {
            SizeSpec::Infinite => Size::Infinite,
            SizeSpec::Fixed(size) => Size::Finite(*size),
            spec => spec.sample(&mut generator(self.seed, Draw::Size, u64::from(src.0), nth)),
        }
    }
}

/// The quantile of the Pareto distribution on `[min, max]`: F(s) = (1 - (min/s)^a) / (1 - (min/max)^a).
fn pareto(shape: f64, min: f64, max: f64, u: f64) -> f64 {
    let cut = 1.0 - libm::pow(min / max, shape);
    (min * libm::pow(1.0 - u * cut, -1.0 / shape)).clamp(min, max)
}

/// The integral of s dF(s) in closed form. At a = 1 it is a logarithm.
fn pareto_mean(shape: f64, min: f64, max: f64) -> f64 {
    let cut = 1.0 - libm::pow(min / max, shape);
    let exponent = 1.0 - shape;
    let integral = if exponent.abs() < 1e-9 { libm::log(max / min) } else { (libm::pow(max / min, exponent) - 1.0) / exponent };
    shape * min * integral / cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(spec: &SizeSpec, n: u64) -> f64 {
        let sum: u128 = (0..n)
            .map(|i| match spec.sample(&mut generator(3, Draw::Size, i, 0)) {
                Size::Finite(b) => u128::from(b.0),
                Size::Infinite => unreachable!("a finite distribution"),
            })
            .sum();
        sum as f64 / n as f64
    }

    fn fraction_above(spec: &SizeSpec, limit: u64, n: u64) -> f64 {
        let above = (0..n).filter(|&i| spec.sample(&mut generator(4, Draw::Size, i, 0)) > Size::Finite(Bytes(limit))).count();
        above as f64 / n as f64
    }

    #[test]
    fn means_agree_with_their_closed_forms() {
        for text in
            ["exponential(10MB)", "uniform(1MB, 101MB)", "pareto(1.2, 10kB, 100MB)", "pareto(1, 10kB, 1MB)", "lognormal(1MB, 1)"]
        {
            let spec: SizeSpec = text.parse().unwrap();
            let (got, want) = (mean_of(&spec, 400_000), spec.mean().unwrap());
            assert!((got / want - 1.0).abs() < 0.02, "{text}: {got} for {want}");
        }
        for name in named::NAMES {
            let spec = SizeSpec::named(name).unwrap();
            let (got, want) = (mean_of(&spec, 400_000), spec.mean().unwrap());
            assert!((got / want - 1.0).abs() < 0.04, "{name}: {got} for {want}");
        }
    }

    #[test]
    fn tails_agree_with_their_closed_forms() {
        let n = 200_000;
        let close = |got: f64, want: f64| assert!((got - want).abs() < 0.005, "{got} for {want}");
        let exponential: SizeSpec = "exponential(1MB)".parse().unwrap();
        close(fraction_above(&exponential, 2_000_000, n), libm::exp(-2.0));
        let pareto: SizeSpec = "pareto(1.5, 1kB, 1GB)".parse().unwrap();
        close(fraction_above(&pareto, 4_000, n), 0.125);
        let uniform: SizeSpec = "uniform(1B, 10B)".parse().unwrap();
        close(fraction_above(&uniform, 9, n), 0.1);
        let lognormal = SizeSpec::LogNormal { mean: Bytes(1_000_000), sigma: 2.0 };
        close(fraction_above(&lognormal, (1_000_000.0 * libm::exp(-2.0)) as u64, n), 0.5);
    }

    #[test]
    fn the_pareto_mean_is_continuous_at_shape_one() {
        let at = |shape| pareto_mean(shape, 1e4, 1e8);
        assert!((at(1.0) / at(1.0 + 1e-6) - 1.0).abs() < 1e-4);
        assert!((at(1.0) / at(1.0 - 1e-6) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn no_size_is_zero() {
        let tiny = SizeSpec::Exponential { mean: Bytes(1) };
        assert_eq!(fraction_above(&tiny, 0, 1_000), 1.0);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for text in
            ["0B", "uniform(2MB, 1MB)", "pareto(0, 1kB, 1MB)", "pareto(1, 1MB, 1MB)", "lognormal(1MB, 11)", "exponential(0B)"]
        {
            assert!(matches!(text.parse::<SizeSpec>(), Err(SizeError::Argument { .. })), "{text}");
        }
    }
}
