//! Traffic between racks over time, for `weft optimum`: `[traffic] matrices = "FILE.csv"`, or `pattern = "volatile"`.

use std::path::{Path, PathBuf};

use weft_fabric::Duration;

use crate::error::KeyError;
use crate::scenario::keys::Keys;

/// The pattern's name.
pub const VOLATILE: &str = "volatile";
/// The pattern of flows whose ends are drawn by a matrix, which is not this traffic.
pub const MATRIX: &str = "matrix";
/// The key that names a file.
pub const MATRICES: &str = "matrices";

/// Where the matrices come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Matrices {
    /// A file.
    File(PathBuf),
    /// Drawn at random.
    Volatile(Volatile),
}

/// Racks that exchange traffic in one of several patterns, and soon in another (VL2, section 3.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Volatile {
    /// Patterns in all.
    pub patterns: u32,
    /// Matrices.
    pub intervals: u32,
    /// The time of each.
    pub interval: Duration,
    /// The probability that the next interval has the same pattern.
    pub stay: f64,
    /// What the busiest rack sends or receives in the busiest pattern, as a fraction of its NICs.
    pub load: f64,
    /// How much racks and pairs of racks differ in a pattern: 0 not at all.
    pub spread: f64,
}

impl Matrices {
    /// Whether `[traffic]` describes matrices.
    pub fn are_asked_for(keys: &Keys<'_>) -> Result<bool, KeyError> {
        let pattern = keys.opt::<String>("pattern")?;
        let pattern = pattern.as_deref();
        Ok(pattern == Some(VOLATILE) || pattern != Some(MATRIX) && keys.has(MATRICES))
    }

    /// Reads `[traffic]` of this kind; relative paths start at `folder`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>, folder: &Path) -> Result<Self, KeyError> {
        let matrices = match keys.opt::<String>(MATRICES)? {
            Some(file) => Self::File(folder.join(file)),
            None => Self::Volatile(Volatile::read(keys)?),
        };
        keys.done()?;
        Ok(matrices)
    }
}

impl Volatile {
    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let it = Self {
            patterns: keys.or("patterns", 55)?,
            intervals: keys.or("intervals", 864)?,
            interval: keys.or("interval", Duration::from_secs(100))?,
            stay: keys.or("stay", 0.4)?,
            load: keys.or("load", 0.5)?,
            spread: keys.or("spread", 1.0)?,
        };
        keys.check_range("patterns", it.patterns, 1..=10_000, "leave it out for 55")?;
        keys.check_range("intervals", it.intervals, 1..=100_000, "leave it out for 864: a day of 100 s each")?;
        keys.check_range("stay", it.stay, 0.0..=1.0, "leave it out for 0.4")?;
        keys.check_range("load", it.load, 0.001..=1.0, "write load = 0.5")?;
        keys.check_range("spread", it.spread, 0.0..=3.0, "leave it out for 1")?;
        Ok(it)
    }
}
