//! How often parts fail and how long that lasts, from a file of the user:
//!
//! ```toml
//! [[part]]
//! kind = "switch"    # cable, switch, pod, plane
//! tier = 1           # of switches and cables (the higher end); all without it
//! mtbf = "3y"        # mean time between failures: min, h, d or y
//! mttr = "4h"        # mean time to repair
//! source = "tickets of 2025"
//! ```

use std::path::Path;

use rand::{Rng, RngExt as _};
use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};
use crate::whatif::parts::{Kind, Part};

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The kind of the parts.
    pub kind: Kind,
    /// Their tier; all without it.
    pub tier: Option<u8>,
    /// Mean time between failures, in hours.
    pub mtbf_h: f64,
    /// Mean time to repair, in hours.
    pub mttr_h: f64,
}

impl Rate {
    /// The fraction of time that such a part is away.
    pub fn unavailability(&self) -> f64 {
        self.mttr_h / (self.mtbf_h + self.mttr_h)
    }

    fn is_of(&self, part: &Part) -> bool {
        self.kind == part.kind && self.tier.is_none_or(|tier| tier == part.tier)
    }
}

/// The hours of a text such as `3y`, `90 d`, `4h` or `30min`.
pub fn hours(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..end].trim().parse().ok()?;
    let hours = match &text[end..] {
        "min" => 1.0 / 60.0,
        "h" => 1.0,
        "d" => 24.0,
        "y" => HOURS_A_YEAR,
        _ => return None,
    };
    (number > 0.0 && number.is_finite()).then_some(number * hours)
}

/// Hours of 365 days.
pub const HOURS_A_YEAR: f64 = 8_760.0;

/// The time in which something has failed: parts fail independently of each other.
#[derive(Clone, Debug)]
pub struct Failures {
    /// The fraction of time that each part is away.
    away: Vec<f64>,
    /// The fraction of time in which nothing is.
    healthy: f64,
}

impl Failures {
    /// Of these parts; the last line that fits a part holds for it, and parts that no line fits do not fail.
    pub fn new(parts: &[Part], rates: &[Rate]) -> Self {
        let of = |part| rates.iter().rev().find(|rate| rate.is_of(part)).map_or(0.0, Rate::unavailability);
        let away: Vec<f64> = parts.iter().map(of).collect();
        let healthy = away.iter().map(|q| 1.0 - q).product();
        Self { away, healthy }
    }

    /// As [`Self::new`], of a file in which each line fits some part.
    ///
    /// # Errors
    /// A line that fits none.
    pub fn checked(path: &Path, parts: &[Part], rates: &[Rate]) -> Result<Self> {
        let idle = rates.iter().position(|rate| !parts.iter().any(|part| rate.is_of(part)));
        match idle {
            Some(at) => {
                let message = "no part of the fabric that may fail is of this kind and tier";
                Err(Error::input(path, format!("[[part]] number {}", at + 1), message, "mend it, or name its kind with --fail"))
            }
            None => Ok(Self::new(parts, rates)),
        }
    }

    /// The fraction of time in which all parts work.
    pub fn healthy(&self) -> f64 {
        self.healthy
    }

    /// Parts that are away together, drawn from the time in which at least one is. Nothing if none ever fails.
    pub fn draw(&self, random: &mut impl Rng) -> Vec<usize> {
        // The first that is away, given that one is; those after it are independent of it.
        let mut left = random.random::<f64>() * (1.0 - self.healthy);
        let mut before = 1.0;
        let mut first = None;
        for (i, &q) in self.away.iter().enumerate().filter(|(_, q)| **q > 0.0) {
            first = Some(i);
            left -= before * q;
            if left < 0.0 {
                break;
            }
            before *= 1.0 - q;
        }
        let Some(first) = first else { return Vec::new() };
        let rest = (first + 1..self.away.len()).filter(|&i| random.random::<f64>() < self.away[i]);
        std::iter::once(first).chain(rest).collect()
    }
}

/// A line of the file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Spanned<Kind>,
    tier: Option<u8>,
    mtbf: Spanned<String>,
    mttr: Spanned<String>,
    #[serde(rename = "source")]
    _source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    part: Vec<Written>,
}

/// Reads a file of rates.
///
/// # Errors
/// A file that cannot be read, an unknown key, a time without a unit.
pub fn read(path: &Path) -> Result<Vec<Rate>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    let line = |at: usize| format!("line {}", text[..at.min(text.len())].matches('\n').count() + 1);
    let file: File = toml::from_str(&text).map_err(|e| {
        let place = e.span().map_or("the file".to_owned(), |span| line(span.start));
        Error::input(path, place, e.message().to_owned(), "write [[part]] with kind, mtbf, mttr, and if needed tier and source")
    })?;
    let rate = |part: &Written| {
        let time = |text: &Spanned<String>| {
            let message = || format!("`{}` is no time", text.get_ref());
            hours(text.get_ref())
                .ok_or_else(|| Error::input(path, line(text.span().start), message(), "write 30min, 4h, 90d or 3y"))
        };
        Ok(Rate { kind: *part.kind.get_ref(), tier: part.tier, mtbf_h: time(&part.mtbf)?, mttr_h: time(&part.mttr)? })
    };
    file.part.iter().map(rate).collect()
}
