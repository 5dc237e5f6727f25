//! Values by dotted keys: `event[0].at` in a table, `control.scheduler=annealing` on a command line.

use toml::{Table, Value};

use super::locate::split_index;
use crate::scenario::error::KeyError;

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

/// A setting as on a command line: `control.scheduler=annealing`.
///
/// # Errors
/// How it is written.
pub fn parse_set(text: &str) -> std::result::Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), parse_value(value.trim()))),
        _ => Err("write KEY=VALUE, such as world.seed=2".to_owned()),
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
