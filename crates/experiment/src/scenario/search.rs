//! `[search]`: the largest value of a key with which a metric still meets a bound. `crate::search` finds it.

use toml::{Table, Value};

use crate::error::{KeyError, Problem};
use crate::metrics;
use crate::scenario::dotted;
use crate::scenario::keys::Keys;
use crate::scenario::source::SECTIONS;

/// The setting to find.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Dotted path of the key that is tried.
    pub key: String,
    /// The metric that must meet the bound.
    pub metric: String,
    /// The bound.
    pub bound: Limit,
    /// The smallest value that is tried.
    pub from: f64,
    /// The largest.
    pub to: f64,
    /// The key takes whole numbers.
    pub whole: bool,
    /// What follows the number where the key takes a quantity: `MB`.
    pub unit: Option<String>,
    /// How near the values on both sides of the bound must come, as a fraction of the smaller.
    pub precision: f64,
    /// Limit of trials.
    pub trials: u32,
}

/// A bound of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Limit {
    /// Whether a value meets it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl Search {
    /// Reads `[search]` of a run's table, if it has one.
    pub fn of(table: &Table) -> Result<Option<Self>, KeyError> {
        if !table.contains_key("search") {
            return Ok(None);
        }
        let root = Keys::new("", table);
        Self::read(&root.table("search")?).map(Some)
    }

    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let [from, to] = ["from", "to"].map(|key| keys.raw().get(key).is_some_and(Value::is_integer));
        let search = Self {
            key: keys.need("key")?,
            metric: keys.need("metric")?,
            bound: read_limit(keys)?,
            from: keys.need("from")?,
            to: keys.need("to")?,
            unit: keys.opt("unit")?,
            whole: from && to,
            precision: keys.or("precision", 0.01)?,
            trials: keys.or("trials", 40)?,
        };
        keys.done()?;
        search.check(keys)?;
        Ok(Self { whole: search.whole && search.unit.is_none(), ..search })
    }

    fn check(&self, keys: &Keys<'_>) -> Result<(), KeyError> {
        let section = self.key.split(['.', '[']).next().unwrap_or_default();
        if !self.key.contains('.') || !SECTIONS.contains(&section) || ["search", "expect", "title"].contains(&section) {
            let message = format!("`{}` is no key that a run depends on", self.key);
            return Err(keys.error("key", message, "write a dotted key such as \"traffic.load\""));
        }
        if !metrics::is_name(&self.metric) {
            return Err(keys.problem("metric", Problem::no_such("metric", &self.metric, metrics::NAMES)));
        }
        if metrics::WALL_CLOCK.contains(&self.metric.as_str()) {
            let message = format!("`{}` differs from one run to the next", self.metric);
            return Err(keys.error("metric", message, "search by a metric that the scenario and the seed decide"));
        }
        if self.from <= 0.0 {
            return Err(keys.error("from", "a search begins above 0", "write a small number that surely meets the bound"));
        }
        if self.to <= self.from {
            return Err(keys.error("to", "a search ends above its `from`", "write a number that surely misses the bound"));
        }
        keys.check_range("precision", self.precision, MIN_PRECISION..=1.0, "write 0.01 for one part in a hundred")?;
        keys.check_range("trials", self.trials, 3..=MAX_TRIALS, "leave it out for 40")
    }

    /// A value as the scenario writes it.
    pub fn value(&self, number: f64) -> Value {
        match &self.unit {
            Some(unit) => Value::String(format!("{number}{unit}")),
            None if self.whole => Value::Integer(number as i64),
            None => Value::Float(number),
        }
    }

    /// Puts a value into a run's table.
    pub fn set(&self, table: &mut Table, number: f64) -> Result<(), KeyError> {
        dotted::set(table, &self.key, self.value(number))
    }

    /// The bound in words: `fct_mean_s at most 0.01`.
    pub fn goal(&self) -> String {
        match self.bound {
            Limit::AtMost(bound) => format!("{} at most {bound}", self.metric),
            Limit::AtLeast(bound) => format!("{} at least {bound}", self.metric),
        }
    }
}

fn read_limit(keys: &Keys<'_>) -> Result<Limit, KeyError> {
    match (keys.opt("at_most")?, keys.opt("at_least")?) {
        (Some(bound), None) => Ok(Limit::AtMost(bound)),
        (None, Some(bound)) => Ok(Limit::AtLeast(bound)),
        _ => Err(keys.error("metric", "a search has one bound", "write `at_most` or `at_least`")),
    }
}

/// Values are written with six digits.
const MIN_PRECISION: f64 = 1e-4;
const MAX_TRIALS: u32 = 1_000;
