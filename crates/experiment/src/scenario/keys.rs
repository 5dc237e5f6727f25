//! Reads a TOML table key by key: every key has a type, and a key that nothing reads is an error.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::{Table, Value};
use weft_fabric::time::NsDuration;
use weft_fabric::topology::edit_distance;
use weft_fabric::{BitsPerSec, Bytes, Duration};

use super::error::{KeyError, Problem, owned};

/// A table under its dotted path, and the keys that have been read.
pub struct Keys<'a> {
    path: String,
    table: &'a Table,
    asked: RefCell<Vec<&'static str>>,
}

/// A value that a scenario can hold.
pub trait FromToml: Sized {
    /// What to write, with its article: `a number`.
    const WHAT: &'static str;
    /// Reads the value.
    fn from_toml(value: &Value) -> Result<Self, Problem>;

    /// The problem of a value of another type, or out of range.
    fn refused(value: &Value) -> Problem {
        is_not(value, Self::WHAT)
    }
}

/// `5%` as 0.05; `None` for anything but a number of percent that is not negative.
pub fn fraction_of_percent(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (percent >= 0.0 && percent.is_finite()).then_some(percent / 100.0)
}

impl<'a> Keys<'a> {
    /// Reads `table`, whose own place is `path` (empty for the file itself).
    pub fn new(path: impl Into<String>, table: &'a Table) -> Self {
        Self { path: path.into(), table, asked: RefCell::default() }
    }

    /// The dotted path of a key of this table.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether the key is there.
    pub fn has(&self, key: &'static str) -> bool {
        self.asked.borrow_mut().push(key);
        self.table.contains_key(key)
    }

    /// The value of a key that may be absent.
    pub fn opt<T: FromToml>(&self, key: &'static str) -> Result<Option<T>, KeyError> {
        self.asked.borrow_mut().push(key);
        let Some(value) = self.table.get(key) else { return Ok(None) };
        T::from_toml(value).map(Some).map_err(|problem| self.problem(key, problem))
    }

    /// The value of a key, or a default.
    pub fn or<T: FromToml>(&self, key: &'static str, default: T) -> Result<T, KeyError> {
        Ok(self.opt(key)?.unwrap_or(default))
    }

    /// The value of a key that must be there.
    pub fn need<T: FromToml>(&self, key: &'static str) -> Result<T, KeyError> {
        self.opt(key)?.ok_or_else(|| {
            if let Some(slip) = self.slip_for(key) {
                return self.problem(slip, Problem::Misspelt { key: slip.to_owned(), meant: key });
            }
            let place = if self.path.is_empty() { key } else { &self.path };
            KeyError::at(place, Problem::Missing { path: self.path_of(key), key, what: T::WHAT })
        })
    }

    /// A key that nothing has read, and that differs little from one that is missing.
    fn slip_for(&self, missing: &str) -> Option<&str> {
        let asked = self.asked.borrow();
        let most = if missing.len() < 6 { 1 } else { 2 };
        let is_slip = |key: &&str| !asked.contains(key) && edit_distance(key, missing) <= most;
        self.table.keys().map(String::as_str).find(is_slip)
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)], default: T) -> Result<T, KeyError> {
        let Some(word) = self.opt::<String>(key)? else { return Ok(default) };
        words.iter().find(|(name, _)| *name == word).map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            self.problem(key, Problem::no_such(key, word, &names))
        })
    }

    /// A table below this one; an empty one if it is absent.
    pub fn table(&self, key: &'static str) -> Result<Keys<'a>, KeyError> {
        static EMPTY: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::new);
        self.asked.borrow_mut().push(key);
        match self.table.get(key) {
            None => Ok(Keys::new(self.path_of(key), &EMPTY)),
            Some(Value::Table(table)) => Ok(Keys::new(self.path_of(key), table)),
            Some(other) => Err(self.problem(key, Problem::NotATable { value: other.to_string(), table: self.path_of(key) })),
        }
    }

    /// The entries of an array of tables.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Keys<'a>>, KeyError> {
        self.asked.borrow_mut().push(key);
        let refused = |place: String| KeyError::at(place, Problem::NotTables { key: key.to_owned() });
        let entries = match self.table.get(key) {
            None => &[][..],
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(refused(self.path_of(key))),
        };
        entries
            .iter()
            .enumerate()
            .map(|(i, entry)| match entry {
                Value::Table(table) => Ok(Keys::new(format!("{}[{i}]", self.path_of(key)), table)),
                _ => Err(refused(format!("{}[{i}]", self.path_of(key)))),
            })
            .collect()
    }

    /// The raw table.
    pub fn raw(&self) -> &'a Table {
        self.table
    }

    /// Checks that every key has been read.
    pub fn done(&self) -> Result<(), KeyError> {
        let asked = self.asked.borrow();
        match self.table.keys().find(|k| !asked.contains(&k.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let mut names: Vec<&str> = asked.clone();
                names.sort_unstable();
                names.dedup();
                Err(self.problem(unknown, Problem::UnknownKey { key: unknown.clone(), valid: owned(&names) }))
            }
        }
    }

    /// Checks a number against its limits.
    pub fn check_range<T>(&self, key: &str, value: T, range: RangeInclusive<T>, help: &'static str) -> Result<(), KeyError>
    where
        T: PartialOrd + Display,
    {
        if range.contains(&value) {
            return Ok(());
        }
        let (low, high) = (range.start().to_string(), range.end().to_string());
        Err(self.problem(key, Problem::OutOfRange { key: key.to_owned(), low, high, help }))
    }

    /// Refuses 0, and says why.
    pub fn check_not_zero<T>(&self, key: &str, value: T, why: &'static str, help: &'static str) -> Result<(), KeyError>
    where
        T: PartialEq + Default,
    {
        if value == T::default() { Err(self.problem(key, Problem::Zero { key: key.to_owned(), why, help })) } else { Ok(()) }
    }

    /// A problem at one of this table's keys.
    pub fn problem(&self, key: &str, problem: Problem) -> KeyError {
        KeyError::at(self.path_of(key), problem)
    }

    /// A violated rule of one of this table's keys.
    pub fn error(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> KeyError {
        KeyError::new(self.path_of(key), message, help)
    }
}

fn is_not(value: &Value, what: &'static str) -> Problem {
    Problem::NotA { value: value.to_string(), what }
}

macro_rules! integers {
    ($($type:ty, $what:literal);*) => {$(
        impl FromToml for $type {
            const WHAT: &'static str = $what;
            fn from_toml(value: &Value) -> Result<Self, Problem> {
                value.as_integer().and_then(|i| <$type>::try_from(i).ok()).ok_or_else(|| Self::refused(value))
            }
        }
    )*};
}
// TOML's own end at 2^63 - 1.
integers!(
    u16, "a whole number from 0 to 65,535";
    u32, "a whole number from 0 to 4,294,967,295";
    u64, "a whole number from 0 to 2^63 - 1";
    usize, "a whole number from 0 to 2^63 - 1"
);

impl FromToml for f64 {
    const WHAT: &'static str = "a number";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        let number = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
        number.filter(|number| number.is_finite()).ok_or_else(|| Self::refused(value))
    }
}

impl FromToml for bool {
    const WHAT: &'static str = "`true` or `false`";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        value.as_bool().ok_or_else(|| Self::refused(value))
    }
}

impl FromToml for String {
    const WHAT: &'static str = "a string in quotes";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        value.as_str().map(str::to_owned).ok_or_else(|| Self::refused(value))
    }
}

macro_rules! quantities {
    ($($type:ty, $what:literal);*) => {$(
        impl FromToml for $type {
            const WHAT: &'static str = $what;
            fn from_toml(value: &Value) -> Result<Self, Problem> {
                let text = value.as_str().ok_or_else(|| Problem::NoUnit { value: value.to_string(), what: $what })?;
                <$type>::from_str(text)
                    .map_err(|e| Problem::NoQuantity { text: text.to_owned(), what: e.what, example: e.example })
            }
        }
    )*};
}
quantities!(Duration, "a time such as \"60s\" or \"100us\""; NsDuration, "a time such as \"60s\" or \"100us\""; BitsPerSec, "a rate such as \"10Gbps\""; Bytes, "a size such as \"15MB\"");

impl<T: FromToml> FromToml for Vec<T> {
    const WHAT: &'static str = "a list";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        value.as_array().ok_or_else(|| Self::refused(value))?.iter().map(T::from_toml).collect()
    }
}

/// Whole numbers, as of racks: `3`, `[0, 1, 2]`, `"0-2"`, `["0-2", 12]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

impl FromToml for Numbers {
    const WHAT: &'static str = "a list of numbers such as [0, 1, 2] or \"0-2\"";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        let entries = match value {
            Value::Array(entries) => entries.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let refused = || if value.is_array() { is_not(entry, NUMBER_OR_RANGE) } else { Self::refused(value) };
            numbers.extend(numbers_of(entry).ok_or_else(refused)?);
        }
        Ok(Self(numbers))
    }
}

const NUMBER_OR_RANGE: &str = "a number from 0 to 4,294,967,295, nor a range of them such as \"0-2\"";

/// The numbers of `3` or `"0-2"`; a range of more than a million is a slip.
fn numbers_of(entry: &Value) -> Option<std::ops::RangeInclusive<u32>> {
    if let Some(number) = entry.as_integer() {
        let number = u32::try_from(number).ok()?;
        return Some(number..=number);
    }
    let text = entry.as_str()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let [first, last] = [first, last].map(|n| n.trim().parse::<u32>().ok());
    let range = first?..=last?;
    (!range.is_empty() && range.end() - range.start() < 1_000_000).then_some(range)
}

impl FromToml for Table {
    const WHAT: &'static str = "a table";
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        value.as_table().cloned().ok_or_else(|| Self::refused(value))
    }
}
