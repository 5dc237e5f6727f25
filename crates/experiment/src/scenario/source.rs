//! The scenario as text: where each key stands, what overrides it, and which runs its sweep asks for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use miette::NamedSource;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::error::{Error, KeyError, Result};

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
    "expect",
    "search",
];

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
    set_by_form: Vec<String>,
    /// The table whose keys override: `quick` or `full`.
    form: Option<&'static str>,
    /// What the chosen form says of its length: `takes = "40min"`.
    pub takes: Option<String>,
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
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Self::from_text(&path.display().to_string(), text, folder, overrides)
    }

    /// Takes a scenario's text; `name` stands in its errors, and relative paths start at `folder`.
    pub fn from_text(name: &str, text: String, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        let table = parse(name, &text)?;
        Self::new(name.to_owned(), text, folder, table, overrides)
    }

    /// Takes a scenario that is a table already (from Python). Relative paths start at `folder`.
    pub fn from_table(table: Table, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        let text = toml::to_string(&table).map_err(|e| Error::usage(e.to_string(), "use only TOML's types"))?;
        Self::new("<dict>".to_owned(), text, folder, table, overrides)
    }

    fn new(name: String, text: String, folder: PathBuf, mut table: Table, overrides: &Overrides) -> Result<Self> {
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
            set_by_form: Vec::new(),
            form: None,
            takes: None,
            axes: Vec::new(),
        };
        for (form, value) in &forms {
            if !value.is_table() {
                return Err(source.at(KeyError::new(*form, format!("`{form}` is not a table"), format!("write `[{form}]`"))));
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
            source.axes.retain(|(axis, _)| axis != key);
            set(&mut source.table, key, value.clone()).map_err(|e| source.at(e))?;
            source.set_by_user.push((key.clone(), value.clone()));
        }
        // What the user sets is not searched for, as it is not swept.
        let searched = get(&source.table, "search.key").and_then(Value::as_str);
        if searched.is_some_and(|key| source.set_by_user.iter().any(|(set, _)| set == key)) {
            source.table.remove("search");
        }
        Ok(source)
    }

    fn apply_form(&mut self, mut keys: Table) -> Result<(), KeyError> {
        self.takes = match keys.remove("takes") {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => return Err(KeyError::new("takes", "`takes` is not a text", "write `takes = \"40min\"`")),
        };
        if let Some(Value::Table(sweep)) = keys.remove("sweep") {
            let Value::Table(base) = self.table.entry("sweep").or_insert(Value::Table(Table::new())) else {
                return Err(KeyError::new("sweep", "`sweep` is not a table", "write `[sweep]`"));
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
            return Err(KeyError::new(
                "sweep",
                "`sweep` is not a table",
                "write `[sweep]` with `\"control.scheduler\" = [..]` below it",
            ));
        };
        for (key, values) in sweep {
            let Value::Array(values) = values else {
                return Err(KeyError::new(
                    format!("sweep.{key}"),
                    "a sweep needs a list of values",
                    format!("write `\"{key}\" = [value, value]`"),
                ));
            };
            if !values.is_empty() && !self.set_by_form.contains(&key) {
                self.axes.push((key, values));
            }
        }
        Ok(())
    }

    /// Whether the scenario is taken as it is written, without `[quick]`, `[full]` or anything set.
    pub fn is_plain(&self) -> bool {
        self.form.is_none() && self.set_by_user.is_empty()
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
        for (key, value) in &self.set_by_user {
            if let Some(shown) = chosen.get_mut(key) {
                *shown = serde_json::to_value(value).unwrap_or(Json::Null);
            }
            set(&mut table, key, value.clone())?;
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
            message: error.message,
            help: error.help,
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

/// Runs of one study.
const MAX_RUNS: usize = 10_000;

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
        Error::Scenario {
            place: format!("{name}:{line}"),
            message,
            help: Some(help.to_owned()),
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

/// Sets a dotted key, making the tables above it; `event[0].at` reaches into lists.
pub fn set(table: &mut Table, key: &str, value: Value) -> Result<(), KeyError> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((head, rest)) => {
            let (name, index) = split_index(head);
            let entry = table.entry(name.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            let inner = match index {
                None => Some(entry),
                Some(i) => entry.as_array_mut().and_then(|a| a.get_mut(i)),
            };
            match inner.and_then(Value::as_table_mut) {
                Some(inner) => set(inner, rest, value),
                None => Err(KeyError::new(key, format!("`{head}` is not a table"), "check the dotted key")),
            }
        }
    }
}

/// The value of a dotted key.
pub fn get<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((head, rest)) => {
            let (name, index) = split_index(head);
            let inner = table.get(name)?;
            get(index.map_or(Some(inner), |i| inner.get(i))?.as_table()?, rest)
        }
    }
}

/// Parses the value of `--set KEY=VALUE`: TOML, or else a string; `inf` is one too, as sizes have it.
pub fn parse_value(text: &str) -> Value {
    let wrapped = format!("v = {text}");
    toml::from_str::<Table>(&wrapped)
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .filter(|value| value.as_float().is_none_or(f64::is_finite))
        .unwrap_or_else(|| Value::String(text.to_owned()))
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

/// Dotted keys of all values below a table.
pub fn flatten(table: Table) -> Vec<(String, Value)> {
    let mut flat = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => flat.extend(flatten(inner).into_iter().map(|(k, v)| (format!("{key}.{k}"), v))),
            value => flat.push((key, value)),
        }
    }
    flat
}

/// A table that sets `fabric.kind` starts a fabric anew: only the keys that every kind has stay.
fn forget_shape(table: &mut Table) {
    if let Some(Value::Table(fabric)) = table.get_mut("fabric") {
        fabric.retain(|k, _| ["link", "delay", "host_link", "fabric_link"].contains(&k));
    }
}

fn split_index(part: &str) -> (&str, Option<usize>) {
    match part.strip_suffix(']').and_then(|p| p.split_once('[')) {
        Some((name, index)) => (name, index.parse().ok()),
        None => (part, None),
    }
}

fn find(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (head, rest) = key.split_once('.').map_or((key, None), |(h, r)| (h, Some(r)));
    let (name, index) = split_index(head);
    let (spanned_key, mut value) = table.iter().find(|(k, _)| k.get_ref().as_ref() == name)?;
    if let Some(i) = index {
        value = value.get_ref().get(i)?;
    }
    match (rest, value.get_ref()) {
        (None, DeValue::Table(_)) => Some(if index.is_some() { value.span() } else { spanned_key.span() }),
        (None, _) => Some(value.span()),
        (Some(rest), DeValue::Table(inner)) => find(inner, rest),
        (Some(_), _) => None,
    }
}

/// A dotted key that is written in quotes below a table: `[sweep] "control.scheduler" = ...`.
fn find_quoted(table: &DeTable<'_>, section: &str, key: &str) -> Option<Range<usize>> {
    let (_, section) = table.iter().find(|(k, _)| k.get_ref().as_ref() == section)?;
    let DeValue::Table(section) = section.get_ref() else { return None };
    section.iter().find(|(k, _)| k.get_ref().as_ref() == key).map(|(_, v)| v.span())
}

/// A key that tables of the sweep set, as in `fault = [{ event = [{ at = "1s", fail = "switch core0" }] }]`; if several do, their list.
fn find_swept(root: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (_, sweep) = root.iter().find(|(k, _)| k.get_ref().as_ref() == "sweep")?;
    let DeValue::Table(axes) = sweep.get_ref() else { return None };
    axes.iter().find_map(|(name, values)| {
        let tables = values.get_ref().as_array()?.iter().filter_map(|value| value.get_ref().as_table());
        let mut found = tables.filter_map(|table| find(table, key));
        let first = found.next()?;
        Some(if found.next().is_some() { name.span() } else { first })
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}
