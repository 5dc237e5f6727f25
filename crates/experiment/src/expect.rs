//! Compares what was measured with what the paper says.

use serde::Serialize;
use toml::{Table, Value};

use crate::metrics::Metrics;
use crate::scenario::expect::{Bound, Expect};
use crate::scenario::source;

/// One expectation beside the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Where the figure stands.
    pub source: String,
    /// The metric.
    pub metric: String,
    /// The paper's value or bound.
    pub paper: f64,
    /// Ours; `None` if the run does not know the metric.
    pub measured: Option<f64>,
    /// The tolerance: `5%`, `at least`, `at most`.
    pub within: String,
    /// Whether ours is within it.
    pub ok: bool,
    /// The settings of the sibling run that the metric was divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<serde_json::Map<String, serde_json::Value>>,
    /// A miss whose cause is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// That cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A run as far as expectations look at it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The whole scenario of the run.
    pub table: &'a Table,
    /// Its place in the sweep.
    pub position: &'a [usize],
    /// What was measured.
    pub metrics: &'a Metrics,
}

/// Verdicts of all expectations that speak of `runs[index]`.
pub fn judge(expectations: &[Expect], runs: &[Candidate<'_>], index: usize) -> Vec<Verdict> {
    expectations.iter().filter(|e| matches(runs[index].table, &e.conditions)).map(|e| verdict(e, runs, index)).collect()
}

/// Whether some run of the study is one that the expectation speaks of.
pub fn applies(expect: &Expect, runs: &[Candidate<'_>]) -> bool {
    runs.iter().any(|r| matches(r.table, &expect.conditions))
}

fn verdict(expect: &Expect, runs: &[Candidate<'_>], index: usize) -> Verdict {
    let own = runs[index].metrics.get(&expect.metric);
    let measured = match &expect.over {
        None => own,
        Some(settings) => {
            let other = sibling(runs, index, settings).and_then(|i| runs[i].metrics.get(&expect.metric));
            own.zip(other).filter(|(_, other)| *other != 0.0).map(|(own, other)| own / other)
        }
    };
    let (paper, within, ok) = match &expect.bound {
        Bound::Near { value, fraction, text } => {
            let near = |m: f64| (m - value).abs() <= fraction * value.abs() + 1e-12;
            (*value, text.clone(), measured.is_some_and(near))
        }
        Bound::AtLeast(bound) => (*bound, "at least".to_owned(), measured.is_some_and(|m| m >= *bound)),
        Bound::AtMost(bound) => (*bound, "at most".to_owned(), measured.is_some_and(|m| m <= *bound)),
    };
    let known = !ok && expect.known_miss.is_some();
    Verdict {
        source: expect.source.clone(),
        metric: expect.metric.clone(),
        paper,
        measured,
        within,
        ok,
        over: expect
            .over
            .as_ref()
            .map(|s| s.iter().map(|(k, v)| (k.clone(), serde_json::to_value(v).unwrap_or(serde_json::Value::Null))).collect()),
        known,
        cause: if known { expect.known_miss.clone() } else { None },
    }
}

/// The run with those settings that differs from `runs[index]` in the fewest axes of the sweep.
fn sibling(runs: &[Candidate<'_>], index: usize, settings: &[(String, Value)]) -> Option<usize> {
    let here = runs[index].position;
    (0..runs.len())
        .filter(|&i| matches(runs[i].table, settings))
        .min_by_key(|&i| runs[i].position.iter().zip(here).filter(|(a, b)| a != b).count())
}

/// Whether a scenario has these settings.
pub fn matches(table: &Table, settings: &[(String, Value)]) -> bool {
    settings.iter().all(|(key, wanted)| source::get(table, key).is_some_and(|v| same(v, wanted)))
}

/// Equal values; a whole number equals the same float.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Integer(i), Value::Float(f)) | (Value::Float(f), Value::Integer(i)) => *i as f64 == *f,
        _ => a == b,
    }
}
