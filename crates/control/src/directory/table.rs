//! All mappings, in memory.

use std::collections::BTreeMap;

use super::key::{Generation, Key, Record, Value};

/// All mappings, in memory.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: BTreeMap<Key, (Generation, Record)>,
}

impl Table {
    /// The generation and value of a live key.
    pub fn get(&self, key: &Key) -> Option<(Generation, Value)> {
        self.entries.get(key).and_then(|(generation, record)| Some((*generation, record.value.clone()?)))
    }

    /// Live keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The hash of the live entries.
    pub fn hash(&self) -> u64 {
        0
    }

    /// The bytes that the table takes.
    pub fn bytes(&self) -> usize {
        0
    }
}
