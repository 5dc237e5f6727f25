//! `[[expect]]`: what the paper says.

use toml::{Table, Value};

use crate::error::KeyError;
use crate::metrics;
use crate::scenario::keys::{Keys, one_of};
use crate::scenario::source::flatten;

/// One expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Where the figure stands: `Hedera, table 3`.
    pub source: String,
    /// The runs that it speaks of: settings that must have these values.
    pub conditions: Vec<(String, Value)>,
    /// The metric.
    pub metric: String,
    /// The paper's value and how near ours must be.
    pub bound: Bound,
    /// The sibling run that the metric is divided by.
    pub over: Option<Vec<(String, Value)>>,
    /// Why ours differs, if we know.
    pub known_miss: Option<String>,
}

/// How a measured value is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Within a fraction of the value.
    Near {
        /// The paper's value.
        value: f64,
        /// The tolerated relative difference.
        fraction: f64,
        /// The tolerance as it was written.
        text: String,
    },
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Expect {
    /// Reads one `[[expect]]`.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let metric: String = keys.need("metric")?;
        if !metrics::is_name(&metric) {
            return Err(keys.error("metric", format!("there is no metric `{metric}`"), one_of(metrics::NAMES, &metric)));
        }
        let expect = Self {
            source: keys.need("source")?,
            conditions: keys.opt::<Table>("where")?.map(flatten).unwrap_or_default(),
            metric,
            bound: read_bound(keys)?,
            over: keys.opt::<Table>("over")?.map(flatten),
            known_miss: keys.opt("known_miss")?,
        };
        keys.done()?;
        Ok(expect)
    }
}

fn read_bound(keys: &Keys<'_>) -> Result<Bound, KeyError> {
    let value: Option<f64> = keys.opt("value")?;
    let at_least: Option<f64> = keys.opt("at_least")?;
    let at_most: Option<f64> = keys.opt("at_most")?;
    let within: Option<String> = keys.opt("within")?;
    match (value, at_least, at_most) {
        (Some(value), None, None) => {
            let text = within.unwrap_or_else(|| "10%".to_owned());
            let fraction =
                text.strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok()).filter(|p| *p >= 0.0 && p.is_finite());
            let Some(percent) = fraction else {
                return Err(keys.error("within", format!("`{text}` is not a tolerance"), "write it as \"5%\""));
            };
            Ok(Bound::Near { value, fraction: percent / 100.0, text })
        }
        (None, Some(bound), None) if within.is_none() => Ok(Bound::AtLeast(bound)),
        (None, None, Some(bound)) if within.is_none() => Ok(Bound::AtMost(bound)),
        _ => Err(keys.error("value", "an expectation has one bound", "write `value` (and `within`), `at_least` or `at_most`")),
    }
}
