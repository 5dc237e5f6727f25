//! Reads a TOML table key by key: every key has a type, and a key that nobody asked for is an error.

use std::cell::RefCell;
use std::str::FromStr;

use toml::{Table, Value};
use weft_fabric::{BitsPerSec, Bytes, Duration};

use crate::error::KeyError;

/// A table under its dotted path, and the keys that have been asked for.
pub struct Keys<'a> {
    path: String,
    table: &'a Table,
    asked: RefCell<Vec<&'static str>>,
}

/// A value that a scenario can hold.
pub trait FromToml: Sized {
    /// What to write, with its article: `a number`.
    const WHAT: &'static str;
    /// Reads the value; `Err` holds a message and a remedy where the type alone does not say enough.
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>>;
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
        T::from_toml(value).map(Some).map_err(|detail| {
            let (message, help) = detail.unwrap_or_else(|| is_not(value, T::WHAT));
            KeyError::new(self.path_of(key), message, help)
        })
    }

    /// The value of a key, or a default.
    pub fn or<T: FromToml>(&self, key: &'static str, default: T) -> Result<T, KeyError> {
        Ok(self.opt(key)?.unwrap_or(default))
    }

    /// The value of a key that must be there.
    pub fn need<T: FromToml>(&self, key: &'static str) -> Result<T, KeyError> {
        self.opt(key)?.ok_or_else(|| {
            KeyError::new(
                if self.path.is_empty() { key.to_owned() } else { self.path.clone() },
                format!("`{}` is missing", self.path_of(key)),
                format!("add `{key} = ...`: {}", T::WHAT),
            )
        })
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)], default: T) -> Result<T, KeyError> {
        let Some(word) = self.opt::<String>(key)? else { return Ok(default) };
        words.iter().find(|(name, _)| *name == word).map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            KeyError::new(self.path_of(key), format!("there is no {key} `{word}`"), one_of(&names, &word))
        })
    }

    /// A table below this one; an empty one if it is absent.
    pub fn table(&self, key: &'static str) -> Result<Keys<'a>, KeyError> {
        static EMPTY: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::new);
        self.asked.borrow_mut().push(key);
        match self.table.get(key) {
            None => Ok(Keys::new(self.path_of(key), &EMPTY)),
            Some(Value::Table(table)) => Ok(Keys::new(self.path_of(key), table)),
            Some(other) => Err(KeyError::new(
                self.path_of(key),
                format!("{} is not a table", show(other)),
                format!("write a `[{}]` table", self.path_of(key)),
            )),
        }
    }

    /// The entries of an array of tables.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Keys<'a>>, KeyError> {
        self.asked.borrow_mut().push(key);
        let entries = match self.table.get(key) {
            None => &[][..],
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                return Err(KeyError::new(
                    self.path_of(key),
                    format!("`{key}` is not a list of tables"),
                    format!("write `[[{key}]]`"),
                ));
            }
        };
        entries
            .iter()
            .enumerate()
            .map(|(i, entry)| match entry {
                Value::Table(table) => Ok(Keys::new(format!("{}[{i}]", self.path_of(key)), table)),
                _ => Err(KeyError::new(
                    format!("{}[{i}]", self.path_of(key)),
                    "not a table".to_owned(),
                    format!("write `[[{key}]]`"),
                )),
            })
            .collect()
    }

    /// The raw table, for parts that are only handed on.
    pub fn raw(&self) -> &'a Table {
        self.table
    }

    /// Every key must have been asked for.
    pub fn done(&self) -> Result<(), KeyError> {
        let asked = self.asked.borrow();
        match self.table.keys().find(|k| !asked.contains(&k.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let mut names: Vec<&str> = asked.clone();
                names.sort_unstable();
                names.dedup();
                Err(KeyError::new(self.path_of(unknown), format!("unknown key `{unknown}`"), one_of(&names, unknown)))
            }
        }
    }

    /// An error at one of this table's keys.
    pub fn error(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> KeyError {
        KeyError::new(self.path_of(key), message, help)
    }
}

/// `did you mean X? known are: A, B, C`.
pub fn one_of(names: &[&str], given: &str) -> String {
    let near = names.iter().map(|n| (weft_fabric::topology::edit_distance(n, given), n)).min();
    let guess = match near {
        Some((distance, name)) if distance <= 2 || distance * 3 <= given.len() => format!("did you mean `{name}`? "),
        _ => String::new(),
    };
    format!("{guess}known are: {}", names.join(", "))
}

/// What to say of a value of another type, or out of its range, and the remedy.
fn is_not(value: &Value, what: &str) -> (String, String) {
    (format!("{} is not {what}", show(value)), format!("write {what} here"))
}

fn show(value: &Value) -> String {
    format!("`{value}`")
}

macro_rules! integers {
    ($($type:ty, $what:literal);*) => {$(
        impl FromToml for $type {
            const WHAT: &'static str = $what;
            fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
                value.as_integer().and_then(|i| <$type>::try_from(i).ok()).ok_or(None)
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
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        let number = value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).ok_or(None)?;
        if number.is_finite() { Ok(number) } else { Err(None) }
    }
}

impl FromToml for bool {
    const WHAT: &'static str = "`true` or `false`";
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        value.as_bool().ok_or(None)
    }
}

impl FromToml for String {
    const WHAT: &'static str = "a text in quotes";
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        value.as_str().map(str::to_owned).ok_or(None)
    }
}

macro_rules! quantities {
    ($($type:ty, $what:literal);*) => {$(
        impl FromToml for $type {
            const WHAT: &'static str = $what;
            fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
                let text = value.as_str().ok_or_else(|| {
                    Some((format!("`{value}` has no unit"), format!("write {} in quotes", $what)))
                })?;
                <$type>::from_str(text).map_err(|e| Some((format!("`{text}` is not {}", e.what), format!("write it as {}", e.example))))
            }
        }
    )*};
}
quantities!(Duration, "a time such as \"60s\" or \"100us\""; BitsPerSec, "a rate such as \"10Gbps\""; Bytes, "a size such as \"15MB\"");

impl<T: FromToml> FromToml for Vec<T> {
    const WHAT: &'static str = "a list";
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        let entry = |entry| T::from_toml(entry).map_err(|detail| detail.or_else(|| Some(is_not(entry, T::WHAT))));
        value.as_array().ok_or(None)?.iter().map(entry).collect()
    }
}

/// Whole numbers, as of racks: `3`, `[0, 1, 2]`, `"0-2"`, `["0-2", 12]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

impl FromToml for Numbers {
    const WHAT: &'static str = "a list of numbers such as [0, 1, 2] or \"0-2\"";
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        let entries = match value {
            Value::Array(entries) => entries.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let is_list = value.is_array();
            numbers.extend(numbers_of(entry).ok_or_else(|| is_list.then(|| is_not(entry, NUMBER_OR_RANGE)))?);
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
    fn from_toml(value: &Value) -> Result<Self, Option<(String, String)>> {
        value.as_table().cloned().ok_or(None)
    }
}
