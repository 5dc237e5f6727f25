//! How many flows a server keeps under way (VL2 section 3.2, figure 3).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{EmpiricalCdf, SizeError, named};
use crate::rng::Pcg64;
use crate::traffic::random::unit;

/// A number of flows, or its distribution. A draw is rounded to the nearest whole number, and up to one.
#[derive(Clone, Debug, PartialEq)]
pub enum Concurrency {
    /// The same for every host.
    Fixed(u32),
    /// Drawn once for each host.
    Drawn(Arc<EmpiricalCdf>),
}

impl Concurrency {
    /// A number of flows.
    pub fn sample(&self, rng: &mut Pcg64) -> u32 {
        match self {
            Self::Fixed(flows) => *flows,
            Self::Drawn(cdf) => (libm::round(cdf.quantile(unit(rng))) as u32).max(1),
        }
    }

    /// Checks the number.
    ///
    /// # Errors
    /// [`SizeError::Concurrency`] if it is 0 or above a million.
    pub fn check(&self) -> Result<(), SizeError> {
        let largest = match self {
            Self::Fixed(flows) => f64::from(*flows),
            Self::Drawn(cdf) => cdf.points()[cdf.points().len() - 1].0,
        };
        if (1.0..=MAX_FLOWS).contains(&largest) {
            return Ok(());
        }
        Err(SizeError::Concurrency { value: largest.to_string(), rule: format!("a host keeps from 1 to {MAX_FLOWS} flows") })
    }
}

impl FromStr for Concurrency {
    type Err = SizeError;

    /// Reads a number or `vl2-concurrency`.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let concurrency = match text.trim().parse() {
            Ok(flows) => Self::Fixed(flows),
            Err(_) if text.trim() == named::VL2_CONCURRENCY => Self::Drawn(Arc::new(named::vl2_concurrency())),
            Err(_) => {
                let rule = format!("write a number of flows, `{}`, or the path of a CDF file", named::VL2_CONCURRENCY);
                return Err(SizeError::Concurrency { value: format!("`{text}`"), rule });
            }
        };
        concurrency.check()?;
        Ok(concurrency)
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(flows) => flows.fmt(f),
            Self::Drawn(cdf) if **cdf == named::vl2_concurrency() => f.write_str(named::VL2_CONCURRENCY),
            Self::Drawn(cdf) => write!(f, "a CDF of {} points", cdf.points().len()),
        }
    }
}

const MAX_FLOWS: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::random::{Draw, generator};

    #[test]
    fn numbers_and_the_name_are_read() {
        for text in ["1", "80", "vl2-concurrency"] {
            assert_eq!(text.parse::<Concurrency>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "2000000", "ten", ""] {
            assert!(text.parse::<Concurrency>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_vl2_distribution_has_the_two_modes_of_figure_3() {
        let drawn: Concurrency = "vl2-concurrency".parse().unwrap();
        let n = 100_000usize;
        let mut count = [0usize; 201];
        for i in 0..n {
            count[drawn.sample(&mut generator(1, Draw::Concurrency, i as u64, 0)) as usize] += 1;
        }
        let part = |range: std::ops::RangeInclusive<usize>| count[range].iter().sum::<usize>() as f64 / n as f64;
        assert!(part(8..=12) > 0.5, "about ten flows more than half of the time");
        assert!(part(81..=200) >= 0.05, "more than 80 at least 5 % of the time");
        assert!(part(101..=200) < 0.005, "almost never more than 100");
        assert!(part(78..=86) > 10.0 * part(60..=68), "a second mode at 80");
    }
}
