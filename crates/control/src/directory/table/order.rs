//! The order of the keys: runs of up to 512 entry numbers, each run sorted, and the runs in order. Keys that come in order (a load) fill their
//! runs; others split one in two.

use super::packed::KeyWords;

/// Entry numbers in order of their keys, which the table holds.
#[derive(Clone, Debug, Default)]
pub struct Order {
    runs: Vec<Run>,
}

#[derive(Clone, Debug)]
struct Run {
    /// The key of the first entry when it came; never greater than any of the run's keys, greater than all of the runs before.
    first: KeyWords,
    entries: Vec<u32>,
}

impl Order {
    /// Adds an entry whose key is not there yet.
    pub fn insert(&mut self, key: KeyWords, entry: u32, key_of: impl Fn(u32) -> KeyWords) {
        let at = self.run_of(key);
        let Some(run) = self.runs.get_mut(at) else {
            self.runs.push(Run::new(key, entry));
            return;
        };
        run.first = run.first.min(key);
        // Keys that come in order need no search.
        let is_last = run.entries.last().is_some_and(|&last| key_of(last) < key);
        let place = if is_last { run.entries.len() } else { run.entries.partition_point(|&other| key_of(other) < key) };
        if run.entries.len() < RUN {
            run.entries.insert(place, entry);
        } else if place == RUN {
            self.runs.insert(at + 1, Run::new(key, entry));
        } else {
            let mut upper = Run { first: key_of(run.entries[RUN / 2]), entries: Vec::with_capacity(RUN) };
            upper.entries.extend(run.entries.drain(RUN / 2..));
            if place <= RUN / 2 {
                run.entries.insert(place, entry);
            } else {
                upper.entries.insert(place - RUN / 2, entry);
            }
            self.runs.insert(at + 1, upper);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: KeyWords, key_of: impl Fn(u32) -> KeyWords) {
        let at = self.run_of(key);
        let run = &mut self.runs[at];
        let place = run.entries.partition_point(|&other| key_of(other) < key);
        run.entries.remove(place);
        if run.entries.is_empty() {
            self.runs.remove(at);
        }
    }

    /// The entries whose keys are greater than `after`; all if there is none.
    pub fn after(&self, after: Option<KeyWords>, key_of: impl Fn(u32) -> KeyWords) -> impl Iterator<Item = u32> + '_ {
        let run = after.map_or(0, |after| self.run_of(after));
        let skip = match (after, self.runs.get(run)) {
            (Some(after), Some(run)) => run.entries.partition_point(|&other| key_of(other) <= after),
            _ => 0,
        };
        self.runs[run.min(self.runs.len())..].iter().flat_map(|run| &run.entries).skip(skip).copied()
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        let entries: usize = self.runs.iter().map(|run| run.entries.capacity() * 4).sum();
        entries + self.runs.capacity() * size_of::<Run>()
    }

    /// The run in which the key is, or would be.
    fn run_of(&self, key: KeyWords) -> usize {
        if self.runs.last().is_some_and(|last| last.first <= key) {
            return self.runs.len() - 1;
        }
        self.runs.partition_point(|run| run.first <= key).saturating_sub(1)
    }
}

impl Run {
    fn new(first: KeyWords, entry: u32) -> Self {
        let mut entries = Vec::with_capacity(RUN);
        entries.push(entry);
        Self { first, entries }
    }
}

const RUN: usize = 512;
