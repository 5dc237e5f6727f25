//! `[[expect]]`: what a measurement is compared with: a published figure, a bound that the paper states, or a guard of our own.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::error::{KeyError, Problem};
use crate::metrics;
use crate::scenario::dotted::flatten;
use crate::scenario::keys::{Keys, fraction_of_percent};

/// One expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Where the figure stands: `Hedera, table 3`.
    pub source: String,
    /// The runs that it applies to: settings that must have these values.
    pub conditions: Vec<(String, Value)>,
    /// The metric.
    pub metric: String,
    /// Who says so.
    pub kind: Kind,
    /// What is required of the measured value.
    pub bound: Bound,
    /// The sibling run that the metric is divided by.
    pub over: Option<Vec<(String, Value)>>,
    /// A difference whose cause is known.
    pub known_miss: Option<KnownMiss>,
}

/// What an expectation stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A value that the source states.
    Published,
    /// A bound that the source states.
    Bound,
    /// Weft's own guard: the source states neither.
    Own,
}

/// A miss that is explained while the measured value lies in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownMiss {
    /// The interval, both ends included.
    pub between: [f64; 2],
    /// Why the value is there.
    pub cause: String,
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
    /// No less than the one and no more than the other.
    Range {
        /// The lower bound.
        at_least: Option<f64>,
        /// The upper bound.
        at_most: Option<f64>,
    },
}

impl Bound {
    /// Whether a measured value is as required.
    pub fn admits(&self, measured: f64) -> bool {
        match *self {
            Self::Near { value, fraction, .. } => (measured - value).abs() <= fraction * value.abs() + 1e-12,
            Self::Range { at_least, at_most } => {
                at_least.is_none_or(|bound| measured >= bound) && at_most.is_none_or(|bound| measured <= bound)
            }
        }
    }

    /// Whether a mean with this half-width of its confidence interval leaves the comparison open: the interval is wider than the tolerance, or spans a
    /// bound.
    pub fn is_undecided(&self, mean: f64, half: f64) -> bool {
        match *self {
            Self::Near { value, fraction, .. } => half > fraction * value.abs(),
            Self::Range { at_least, at_most } => at_least.into_iter().chain(at_most).any(|bound| (mean - bound).abs() < half),
        }
    }

    /// The tolerance in words: `5%`, `at least`, `at most`, `between`.
    pub fn within(&self) -> &str {
        match self {
            Self::Near { text, .. } => text,
            Self::Range { at_least: Some(_), at_most: Some(_) } => "between",
            Self::Range { at_least: Some(_), .. } => "at least",
            Self::Range { .. } => "at most",
        }
    }
}

impl Expect {
    /// Reads all `[[expect]]`: metrics of the worlds, or of `weft-planner`, which evaluates a scenario instead of a world.
    pub fn read_all(root: &Keys<'_>) -> Result<Vec<Self>, KeyError> {
        let tables = root.tables("expect")?;
        let all = tables.iter().map(Self::read).collect::<Result<Vec<_>, _>>()?;
        let is_of_planner = |expect: &Self| metrics::is_of_planner(&expect.metric);
        let other = all.windows(2).position(|pair| is_of_planner(&pair[0]) != is_of_planner(&pair[1]));
        if let Some(at) = other {
            let [before, expect] = [&all[at], &all[at + 1]].map(|it| &it.metric);
            let message =
                format!("`{before}` and `{expect}` are not measured together: one is of a world, the other of weft-planner");
            return Err(tables[at + 1].error("metric", message, "put one of them into a scenario of its own"));
        }
        Ok(all)
    }

    /// Reads one `[[expect]]`.
    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let metric: String = keys.need("metric")?;
        if !metrics::is_name(&metric) {
            return Err(keys.problem("metric", Problem::no_such("metric", metric, metrics::NAMES)));
        }
        let bound = read_bound(keys)?;
        let kind = match (keys.or("own", false)?, &bound) {
            (true, _) => Kind::Own,
            (false, Bound::Near { .. }) => Kind::Published,
            (false, Bound::Range { .. }) => Kind::Bound,
        };
        let expect = Self {
            source: keys.need("source")?,
            conditions: keys.opt::<Table>("where")?.map(flatten).unwrap_or_default(),
            metric,
            kind,
            known_miss: read_known_miss(keys, &bound)?,
            bound,
            over: keys.opt::<Table>("over")?.map(flatten),
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
            let Some(fraction) = fraction_of_percent(&text) else {
                return Err(keys.error("within", format!("`{text}` is not a tolerance"), "write it as \"5%\""));
            };
            Ok(Bound::Near { value, fraction, text })
        }
        (None, Some(lower), Some(upper)) if lower > upper => Err(keys.error(
            "at_most",
            format!("`at_least = {lower}` and `at_most = {upper}` exclude every value"),
            "exchange the two",
        )),
        (None, Some(_), _) | (None, None, Some(_)) if within.is_none() => Ok(Bound::Range { at_least, at_most }),
        _ => Err(keys.error(
            "value",
            "an expectation is either a value or a bound",
            "write `value` (and `within`), or `at_least`, `at_most` or both",
        )),
    }
}

/// `known_miss = { between = [lo, hi], cause = "..." }`.
fn read_known_miss(keys: &Keys<'_>, bound: &Bound) -> Result<Option<KnownMiss>, KeyError> {
    const FORM: &str =
        "write known_miss = { between = [LOW, HIGH], cause = \"WHY\" }: outside of the interval it is an ordinary miss";
    if !keys.has("known_miss") {
        return Ok(None);
    }
    if keys.raw().get("known_miss").is_some_and(Value::is_str) {
        return Err(keys.error("known_miss", "the interval of the known miss is missing", FORM));
    }
    let table = keys.table("known_miss")?;
    let between = match table.need::<Vec<f64>>("between")?[..] {
        [low, high] if low <= high => [low, high],
        _ => return Err(table.error("between", "an interval is two numbers, the lower one first", FORM)),
    };
    if between.iter().all(|&end| bound.admits(end)) {
        let message = format!("all of {} to {} is as expected: nothing is missed there", between[0], between[1]);
        return Err(table.error("between", message, "remove `known_miss`, or name the interval in which the measurement lies"));
    }
    let cause: String = table.need("cause")?;
    table.done()?;
    Ok(Some(KnownMiss { between, cause }))
}
