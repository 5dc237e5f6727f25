//! Which updates wrote a key last, for keys that were written lately. For the others the store has it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::directory::key::{Generation, Write};

/// A key's last writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Newest first.
    pub writes: SmallVec<[Write; 1]>,
    /// Updates committed after this generation are all in `writes`.
    pub floor: Generation,
}

/// The histories of the keys that were written last, by entry number.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    by_entry: FxHashMap<u32, (Generation, History)>,
    /// In order of writing; older writes of the same entry are still there.
    written: VecDeque<(u32, Generation)>,
}

impl Histories {
    /// Keeps an entry's history, and forgets the oldest beyond [`MAX_HISTORIES`].
    pub fn insert(&mut self, entry: u32, generation: Generation, history: History) {
        self.by_entry.insert(entry, (generation, history));
        self.written.push_back((entry, generation));
        while self.written.len() > MAX_HISTORIES {
            let Some((oldest, generation)) = self.written.pop_front() else { break };
            if self.by_entry.get(&oldest).is_some_and(|(own, _)| *own == generation) {
                self.by_entry.remove(&oldest);
            }
        }
    }

    /// An entry's history, if it is remembered.
    pub fn get(&self, entry: u32) -> Option<&History> {
        self.by_entry.get(&entry).map(|(_, history)| history)
    }

    /// Forgets an entry's.
    pub fn remove(&mut self, entry: u32) {
        self.by_entry.remove(&entry);
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        // A spilled list of writes has at least twice the inline capacity.
        let spilled = self.by_entry.len() * 4 * size_of::<Write>();
        self.by_entry.capacity() * (size_of::<(u32, (Generation, History))>() + 1) + spilled + self.written.capacity() * 16
    }
}

/// Histories kept at most.
pub const MAX_HISTORIES: usize = 1 << 15;
