//! The scenario as text: where each key stands, what overrides it, and the runs of its sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use miette::NamedSource;
use serde_json::Value as Json;
use toml::de::DeTable;
use toml::{Table, Value};

use super::dotted::{flatten, get, set};
use super::locate::{find, find_quoted, find_swept, line_of, split_index};
use crate::bundle;
use crate::error::{Error, Result};
use crate::metrics::is_of_planner;
use crate::scenario::error::{KeyError, Problem, owned};
use crate::scenario::traffic::matrices::{MATRICES, MATRIX, VOLATILE};
use crate::suggest::nearest;

/// Tables that a scenario can have: the first part of a dotted key.
pub const SECTIONS: &[&str] = &[
    "title",
    "fabric",
    "traffic",
    "control",
    "world",
    "transport",
    "trace",
    "overlay",
    "switches",
    "directory",
    "service",
    "tenant",
    "event",
    "failures",
    "expect",
    "search",
];

/// Whether `weft-planner` evaluates a scenario, and no world does: its traffic is matrices, or all that it expects are metrics of the planner.
pub fn is_for_planner(scenario: &Table) -> bool {
    let traffic = |key: &str| get(scenario, &format!("traffic.{key}"));
    let pattern = traffic("pattern").and_then(Value::as_str);
    let has_matrices = pattern == Some(VOLATILE) || pattern != Some(MATRIX) && traffic(MATRICES).is_some();
    let mut metrics = expectations(scenario).map(|one| one.get("metric").and_then(Value::as_str)).peekable();
    has_matrices || metrics.peek().is_some() && metrics.all(|metric| metric.is_some_and(is_of_planner))
}

fn expectations(scenario: &Table) -> impl Iterator<Item = &Value> {
    scenario.get("expect").and_then(Value::as_array).into_iter().flatten()
}

/// Which form of a scenario to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// As written, without `[quick]` or `[full]`.
    #[default]
    Plain,
    /// With the keys of `[quick]`: small enough for the tests.
    Quick,
    /// With the keys of `[full]`: the paper's size.
    Full,
}

/// What a command line (or a Python call) changes in a scenario.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Quick, full or as written.
    pub form: Form,
    /// Dotted keys and their values, in order.
    pub set: Vec<(String, Value)>,
}

/// A scenario as it was read, with its overrides applied.
#[derive(Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Relative paths start here.
    pub folder: PathBuf,
    table: Table,
    set_by_user: Vec<(String, Value)>,
    /// Those of `set_by_user` that changed something.
    changed: Vec<String>,
    set_by_form: Vec<String>,
    /// Keys that the scenario itself varies: those of `[sweep]`, `[quick]` and `[full]`.
    varied: BTreeSet<String>,
    /// The table whose keys override: `quick` or `full`.
    form: Option<&'static str>,
    /// How long the chosen form takes, as it states: `takes = "40min"`.
    pub takes: Option<String>,
    has_quick_form: bool,
    axes: Vec<(String, Vec<Value>)>,
}

/// One run of a scenario: a value for each swept key.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The swept keys and their values.
    pub set: serde_json::Map<String, Json>,
    /// For each axis of the sweep, which of its values: siblings are compared by this.
    pub position: Vec<usize>,
    /// The whole scenario of this run.
    pub table: Table,
}

impl Source {
    /// Reads a scenario file.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        let text = bundle::read_to_string(path).map_err(|e| Error::scenario_file(path, e))?;
        Self::from_text(&path.display().to_string(), text, bundle::folder_of(path), overrides)
    }

    /// Takes a scenario's text; `name` stands in its errors, and relative paths start at `folder`.
    pub fn from_text(name: &str, text: String, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        let table = parse(name, &text)?;
        Self::new(name.to_owned(), text, folder, table, overrides)
    }

    /// Takes a scenario that is a table already (from Python). Relative paths start at `folder`.
    pub fn from_table(table: Table, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        let text = toml::to_string(&table)?;
        Self::new("<dict>".to_owned(), text, folder, table, overrides)
    }

    fn new(name: String, text: String, folder: PathBuf, mut table: Table, overrides: &Overrides) -> Result<Self> {
        let varied = varied_keys(&table);
        let mut forms = BTreeMap::new();
        for form in ["quick", "full"] {
            if let Some(value) = table.remove(form) {
                forms.insert(form, value);
            }
        }
        let mut source = Self {
            name,
            text,
            folder,
            table,
            set_by_user: Vec::new(),
            changed: Vec::new(),
            set_by_form: Vec::new(),
            varied,
            form: None,
            takes: None,
            has_quick_form: forms.contains_key("quick") && overrides.form != Form::Quick,
            axes: Vec::new(),
        };
        source.check_sections().map_err(|e| source.at(e))?;
        for (form, value) in &forms {
            if !value.is_table() {
                return Err(source.at(not_a_table(form)));
            }
        }
        let chosen = match overrides.form {
            Form::Plain => None,
            Form::Quick => Some("quick"),
            Form::Full => Some("full"),
        };
        if let Some((form, Value::Table(keys))) = chosen.and_then(|f| forms.remove_entry(f)) {
            source.form = Some(form);
            source.apply_form(keys).map_err(|e| source.at(e))?;
        }
        source.take_sweep().map_err(|e| source.at(e))?;
        for (key, value) in &overrides.set {
            source.set_by_user.push((key.clone(), value.clone()));
            source.apply(key, value).map_err(|e| source.at(e))?;
        }
        // What the user sets is not searched for, as it is not swept.
        let searched = get(&source.table, "search.key").and_then(Value::as_str);
        if searched.is_some_and(|key| source.set_by_user.iter().any(|(set, _)| set == key)) {
            source.table.remove("search");
        }
        Ok(source)
    }

    /// Applies what the user sets: a key, or with `sweep.KEY` the values of an axis.
    fn apply(&mut self, key: &str, value: &Value) -> Result<(), KeyError> {
        if key == "sweep" {
            return Err(KeyError::new(key, "`sweep` is a table", "write --set 'sweep.KEY=[value, value]'"));
        }
        let Some(axis) = axis_of(key) else {
            let is_swept = self.axes.iter().any(|(axis, _)| axis == key);
            if is_swept || get(&self.table, key) != Some(value) {
                self.changed.push(key.to_owned());
            }
            self.axes.retain(|(axis, _)| axis != key);
            return set(&mut self.table, key, value.clone());
        };
        if self.set_by_user.iter().any(|(set, _)| set == axis) {
            return Err(KeyError::at(key, Problem::Exclusive { a: key.to_owned(), b: axis.to_owned() }));
        }
        let values = axis_values(axis, value.clone())?;
        let at = self.axes.iter().position(|(known, _)| known == axis);
        if at.is_none_or(|at| self.axes[at].1 != values) {
            self.changed.push(key.to_owned());
        }
        match at {
            Some(at) if values.is_empty() => drop(self.axes.remove(at)),
            Some(at) => self.axes[at].1 = values,
            None if values.is_empty() => {}
            None => self.axes.push((axis.to_owned(), values)),
        }
        Ok(())
    }

    fn apply_form(&mut self, mut keys: Table) -> Result<(), KeyError> {
        self.takes = match keys.remove("takes") {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => return Err(KeyError::new("takes", "`takes` is not a string", "write `takes = \"40min\"`")),
        };
        if let Some(Value::Table(sweep)) = keys.remove("sweep") {
            let Value::Table(base) = self.table.entry("sweep").or_insert(Value::Table(Table::new())) else {
                return Err(not_a_table("sweep"));
            };
            base.extend(sweep);
        }
        for (key, value) in flatten(keys) {
            set(&mut self.table, &key, value)?;
            self.set_by_form.push(key);
        }
        Ok(())
    }

    fn take_sweep(&mut self) -> Result<(), KeyError> {
        let Some(sweep) = self.table.remove("sweep") else { return Ok(()) };
        let Value::Table(sweep) = sweep else {
            return Err(not_a_table("sweep"));
        };
        for (key, values) in sweep {
            let values = axis_values(&key, values)?;
            if !values.is_empty() && !self.set_by_form.contains(&key) {
                self.axes.push((key, values));
            }
        }
        Ok(())
    }

    /// Whether the planner evaluates it, and no world does.
    pub fn is_for_planner(&self) -> bool {
        is_for_planner(&self.table)
    }

    /// Whether it expects anything.
    pub fn has_expectations(&self) -> bool {
        expectations(&self.table).next().is_some()
    }

    /// Whether there is a `[quick]` table that was not chosen.
    pub fn has_quick_form(&self) -> bool {
        self.has_quick_form
    }

    /// A mistyped table is an error of its own, before anything is missing that stands in it.
    fn check_sections(&self) -> Result<(), KeyError> {
        let valid: Vec<&str> = SECTIONS.iter().copied().chain(["sweep", "quick", "full"]).collect();
        let is_slip = |key: &str| !valid.contains(&key) && nearest(&valid, key).is_some();
        match self.table.iter().find(|(key, _)| is_slip(key)) {
            None => Ok(()),
            Some((key, value)) => {
                let (name, valid) = (key.clone(), owned(&valid));
                Err(KeyError::at(
                    key,
                    if value.is_table() {
                        Problem::UnknownTable { table: name, valid }
                    } else {
                        Problem::UnknownKey { key: name, valid }
                    },
                ))
            }
        }
    }

    /// Whether the scenario is taken as it is written, without `[quick]`, `[full]` or anything set.
    pub fn is_plain(&self) -> bool {
        self.form.is_none() && self.set_by_user.is_empty()
    }

    /// Whether it is the resolved scenario of results. That of a run of a sweep has expectations and settings for the other runs as well.
    pub fn is_resolved(&self) -> bool {
        self.text.strip_prefix("# ").is_some_and(|text| text.starts_with(RESOLVED))
    }

    /// The keys and values that the user set, in order.
    pub fn overrides(&self) -> &[(String, Value)] {
        &self.set_by_user
    }

    /// Overrides that changed a setting which the scenario does not vary itself; the seed is none of them.
    pub fn deviations(&self) -> impl Iterator<Item = &(String, Value)> {
        let is_free = |key: &str| self.varied.contains(key) || SEEDS.contains(&key);
        let are_free = move |key: &str, value: &Value| match (axis_of(key), value) {
            (Some(axis), Value::Array(values)) => values.iter().flat_map(|it| settings(axis, it)).all(|(key, _)| is_free(&key)),
            _ => is_free(key),
        };
        self.set_by_user.iter().filter(move |(key, value)| self.changed.contains(key) && !are_free(key, value))
    }

    /// Overrides that changed a setting, the seed and what the scenario varies itself included.
    pub fn changes(&self) -> impl Iterator<Item = &(String, Value)> {
        self.set_by_user.iter().filter(|(key, _)| self.changed.contains(key))
    }

    /// Whether the scenario's expectations still apply.
    pub fn is_comparable(&self) -> bool {
        self.incomparable_settings().is_empty()
    }

    /// The overrides for which its expectations do not apply, as on the command line: `traffic.stride=2`. Those of a resolved scenario first.
    pub fn incomparable_settings(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let stated = self.table.get(OVERRIDDEN).and_then(Value::as_array).into_iter().flatten().map(text);
        let mut settings: Vec<String> =
            stated.chain(self.deviations().map(|(key, value)| format!("{key}={}", text(value)))).collect();
        if settings.is_empty() && self.table.get(COMPARABLE) == Some(&Value::Boolean(false)) {
            settings.push(format!("{COMPARABLE}=false"));
        }
        settings
    }

    /// The form that was chosen: `quick` or `full`.
    pub const fn form(&self) -> Option<&'static str> {
        self.form
    }

    /// What the scenario is called in errors: the path of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scenario as it is run: the chosen form and all overrides are applied, and what is left of the sweep is a `[sweep]`.
    pub fn resolved(&self) -> Table {
        let mut table = self.table.clone();
        if !self.axes.is_empty() {
            let axes = self.axes.iter().map(|(key, values)| (key.clone(), Value::Array(values.clone())));
            table.insert("sweep".to_owned(), Value::Table(axes.collect()));
        }
        table
    }

    /// Every combination of the sweep's values; the first key changes slowest. One run if there is no sweep.
    pub fn variants(&self) -> Result<Vec<Variant>> {
        let count = self.axes.iter().try_fold(1usize, |n, (_, values)| n.checked_mul(values.len()).filter(|&n| n <= MAX_RUNS));
        let Some(count) = count else {
            let message = format!("more than {MAX_RUNS} runs");
            return Err(self.at(KeyError::new("sweep", message, "sweep fewer values")));
        };
        (0..count)
            .map(|mut index| {
                let mut position = vec![0; self.axes.len()];
                for (axis, (_, values)) in self.axes.iter().enumerate().rev() {
                    position[axis] = index % values.len();
                    index /= values.len();
                }
                self.variant(position).map_err(|e| self.at(e))
            })
            .collect()
    }

    fn variant(&self, position: Vec<usize>) -> Result<Variant, KeyError> {
        let mut table = self.table.clone();
        let mut chosen = serde_json::Map::new();
        for (axis, &i) in position.iter().enumerate() {
            let (key, values) = &self.axes[axis];
            for (key, value) in settings(key, &values[i]) {
                if key == "fabric.kind" && values[i].is_table() {
                    forget_shape(&mut table);
                }
                chosen.insert(key.clone(), serde_json::to_value(&value).unwrap_or(Json::Null));
                set(&mut table, &key, value)?;
            }
        }
        // A table of the sweep may set a key that the user has set: the user's counts.
        for (key, value) in self.set_by_user.iter().filter(|(key, _)| axis_of(key).is_none()) {
            if let Some(shown) = chosen.get_mut(key) {
                *shown = serde_json::to_value(value).unwrap_or(Json::Null);
            }
            set(&mut table, key, value.clone())?;
        }
        // A list of seeds begins with the run's own.
        let first = get(&table, "world.seeds").and_then(Value::as_array).and_then(|seeds| seeds.first()).cloned();
        if let (Some(first), None) = (first, get(&table, "world.seed")) {
            set(&mut table, "world.seed", first)?;
        }
        Ok(Variant { set: chosen, position, table })
    }

    /// Turns a problem at a key into one at a line; other errors have their place already.
    pub fn at(&self, error: impl Into<Error>) -> Error {
        let error = match error.into() {
            Error::Key(error) => error,
            other => return other,
        };
        let (place, span) = self.place_of(&error.key);
        Error::Scenario {
            place,
            help: error.problem.help(),
            problem: error.problem,
            source_code: span.is_some().then(|| NamedSource::new(&self.name, self.text.clone())),
            span: span.map(Into::into),
        }
    }

    /// Where a dotted key stands, for people (`s.toml:12`, `--set world.seed`), and in the text.
    pub fn place_of(&self, key: &str) -> (String, Option<Range<usize>>) {
        let exactly = self.set_by_user.iter().any(|(set, _)| set == key);
        let span = if exactly { None } else { self.locate(key) };
        let below = format!("{key}.");
        let by_user = exactly || span.is_none() && self.set_by_user.iter().any(|(set, _)| set.starts_with(&below));
        let place = match &span {
            _ if by_user => format!("--set {key}"),
            Some(span) => format!("{}:{}", self.name, line_of(&self.text, span.start)),
            None => self.name.clone(),
        };
        (place, span)
    }

    /// Where a dotted key stands: in the chosen form, in the sweep, or as written; else its table.
    fn locate(&self, key: &str) -> Option<Range<usize>> {
        let document = DeTable::parse(&self.text).ok()?;
        let root = document.get_ref();
        if let Some(axis) = key.strip_prefix("sweep.") {
            return find_quoted(root, "sweep", axis).or_else(|| find(root, key));
        }
        let in_form = self.form.and_then(|f| find(root, &format!("{f}.{key}")).or_else(|| find_quoted(root, f, key)));
        let in_sweep = || find_quoted(root, "sweep", key).or_else(|| find_swept(root, key));
        in_form.or_else(in_sweep).or_else(|| find(root, key)).or_else(|| {
            let parent = key.rsplit_once('.').map(|(parent, _)| parent)?;
            find(root, parent)
        })
    }
}

/// The first line of a resolved scenario, a comment.
pub const RESOLVED: &str = "The scenario of these results, with all overrides applied: `weft run` of this file gives them again.";
/// Top-level key of a resolved scenario: false if settings were overridden that its expectations take for granted.
pub const COMPARABLE: &str = "comparable";
/// Top-level key of a resolved scenario: those settings, `["traffic.stride=2"]`.
pub const OVERRIDDEN: &str = "overridden";
/// Overrides of these keys leave a run comparable.
const SEEDS: [&str; 2] = ["world.seed", "world.seeds"];

/// Keys that `[sweep]`, `[quick]` and `[full]` set.
fn varied_keys(table: &Table) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut add_sweep = |sweep: Option<&Value>| {
        for (key, values) in sweep.and_then(Value::as_table).into_iter().flatten() {
            keys.insert(key.clone());
            for value in values.as_array().into_iter().flatten() {
                keys.extend(settings(key, value).into_iter().map(|(key, _)| key));
            }
        }
    };
    add_sweep(table.get("sweep"));
    let forms = || ["quick", "full"].into_iter().filter_map(|form| table.get(form)?.as_table());
    forms().for_each(|form| add_sweep(form.get("sweep")));
    keys.extend(forms().flat_map(|form| flatten(form.clone())).map(|(key, _)| key));
    keys
}

/// The key whose values `sweep.KEY` lists; it may stand in quotes, as in a file.
fn axis_of(key: &str) -> Option<&str> {
    key.strip_prefix("sweep.").map(|axis| axis.trim_matches('"'))
}

/// The values of an axis of the sweep.
fn axis_values(axis: &str, values: Value) -> Result<Vec<Value>, KeyError> {
    match values {
        Value::Array(values) => Ok(values),
        _ => Err(KeyError::new(
            format!("sweep.{axis}"),
            "a sweep needs a list of values",
            format!("write `\"{axis}\" = [value, value]`"),
        )),
    }
}

/// Runs of one study.
const MAX_RUNS: usize = 10_000;

/// A table that is something else.
fn not_a_table(key: &str) -> KeyError {
    KeyError::at(key, Problem::NotATable { value: key.to_owned(), table: key.to_owned() })
}

/// Reads TOML.
pub fn parse(name: &str, text: &str) -> Result<Table> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| line_of(text, s.start));
        // What is no scenario may be one line of megabytes.
        let is_shown = text.lines().nth(line - 1).is_none_or(|line| line.len() <= LONGEST_SHOWN);
        let number = e.span().and_then(|s| text.get(s)).filter(|it| is_whole_number(it));
        let (message, help) = match number {
            Some(number) => (format!("`{number}` is larger than any number of TOML"), "they are from -2^63 to 2^63 - 1"),
            None => (e.message().to_owned(), "a scenario is a TOML file: `weft new` writes one to start from"),
        };
        let problem = Problem::Rule { message, help: Some(help.to_owned()) };
        Error::Scenario {
            place: format!("{name}:{line}"),
            help: problem.help(),
            problem,
            source_code: is_shown.then(|| NamedSource::new(name, text.to_owned())),
            span: e.span().filter(|_| is_shown).map(Into::into),
        }
    })
}

/// Bytes of a line that is shown.
const LONGEST_SHOWN: usize = 1000;

fn is_whole_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// What one value of a sweep sets. A table sets several keys: those that begin with a section's name as they stand, lists of tables (`event`, `tenant`) too,
/// others below the swept key.
fn settings(key: &str, value: &Value) -> Vec<(String, Value)> {
    let Value::Table(table) = value else { return vec![(key.to_owned(), value.clone())] };
    flatten(table.clone())
        .into_iter()
        .map(|(inner, value)| {
            let (head, _) = split_index(inner.split('.').next().unwrap_or_default());
            let absolute = SECTIONS.contains(&head) && (inner.contains('.') || value.is_array());
            (if absolute { inner } else { format!("{key}.{inner}") }, value)
        })
        .collect()
}

/// A table that sets `fabric.kind` replaces the fabric: only the keys that every kind has remain.
fn forget_shape(table: &mut Table) {
    if let Some(Value::Table(fabric)) = table.get_mut("fabric") {
        fabric.retain(|k, _| ["link", "delay", "host_link", "fabric_link"].contains(&k));
    }
}
