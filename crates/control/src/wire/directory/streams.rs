//! What goes over streams only: lists of entries, and changes as they come.
//!
//! ```text
//!   List             after: key or 0 | limit u16            Page    revision u64 | more u8 | count u16 | count x entry
//!   Watch            from u64                               Events  from u64 | revision u64 | count u16 | count x entry
//!   entry            generation u64 | key | 0 or value
//! ```

use super::fields::{Reader, WireError, emit_key, emit_value};
use crate::directory::key::{Generation, Key, Value};

/// A key and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The generation.
    pub generation: Generation,
    /// The key.
    pub key: Key,
    /// What it stands for; `None`: it was deleted.
    pub value: Option<Value>,
}

/// From where to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Changes after this revision; those that the server has forgotten are left out, and `from` of the first [`Change`] says so.
    pub from: Generation,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision before.
    pub from: Generation,
    /// The revision after.
    pub revision: Generation,
    /// The changed entries, in order of generation.
    pub entries: Vec<Entry>,
}

impl Change {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { from: Generation(r.u64()?), revision: Generation(r.u64()?), entries: entries(r)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from.0.to_be_bytes());
        out.extend_from_slice(&self.revision.0.to_be_bytes());
        emit_entries(&self.entries, out);
    }
}

pub(super) fn entries(r: &mut Reader<'_>) -> Result<Vec<Entry>, WireError> {
    let count = r.u16()?;
    (0..count).map(|_| entry(r)).collect()
}

fn entry(r: &mut Reader<'_>) -> Result<Entry, WireError> {
    let generation = Generation(r.u64()?);
    let key = r.key()?;
    let value = if r.0.first() == Some(&0) {
        r.u8()?;
        None
    } else {
        Some(r.value()?)
    };
    Ok(Entry { generation, key, value })
}

pub(super) fn emit_entries(entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(&(entries.len() as u16).to_be_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.generation.0.to_be_bytes());
        emit_key(&entry.key, out);
        match &entry.value {
            Some(value) => emit_value(value, out),
            None => out.push(0),
        }
    }
}
