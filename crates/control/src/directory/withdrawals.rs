//! What was withdrawn lately, and the pages of it that agents ask for.

use std::collections::VecDeque;

use super::interest::{Interest, key_hash, key_name};
use super::key::{Generation, Key};
use crate::wire::directory::Withdrawal;

/// The keys that were withdrawn lately (deleted, or given another owner or service), in order of generations.
#[derive(Clone, Debug, Default)]
pub struct Withdrawals {
    list: VecDeque<Withdrawn>,
    /// All that was withdrawn after this revision is in the list.
    since: Generation,
    /// Hashes in the order in which they became known, at most [`MAX_WITHDRAWALS`].
    arrivals: VecDeque<u64>,
    /// How many arrived in all.
    arrived: u64,
}

#[derive(Clone, Copy, Debug)]
struct Withdrawn {
    generation: Generation,
    key: Key,
    hash: u64,
}

impl Withdrawals {
    /// Begins again after everything was loaded: `changed` has every key that changed after `since`, which stand for withdrawals.
    pub fn restart(&mut self, since: Generation, mut changed: Vec<(Generation, Key)>) {
        changed.sort_unstable();
        self.list = changed.into_iter().map(|(generation, key)| Withdrawn { generation, key, hash: key_hash(&key) }).collect();
        self.since = since;
    }

    /// Adds a key; the oldest beyond [`MAX_WITHDRAWALS`] are forgotten.
    pub fn push(&mut self, generation: Generation, key: Key) {
        let hash = key_hash(&key);
        let place = self.list.partition_point(|other| other.generation <= generation);
        self.list.insert(place, Withdrawn { generation, key, hash });
        if self.list.len() > MAX_WITHDRAWALS
            && let Some(oldest) = self.list.pop_front()
        {
            self.since = self.since.max(oldest.generation);
        }
        self.arrivals.push_back(hash);
        self.arrived += 1;
        if self.arrivals.len() > MAX_WITHDRAWALS {
            self.arrivals.pop_front();
        }
    }

    /// What was withdrawn after `revision`; `None`: that is not known any more.
    pub fn after(&self, revision: Generation) -> Option<impl ExactSizeIterator<Item = Withdrawal> + '_> {
        let first = self.list.partition_point(|other| other.generation <= revision);
        let known = revision >= self.since;
        known.then(|| self.list.range(first..).map(|it| Withdrawal { generation: it.generation, key: it.key }))
    }

    /// How many withdrawals became known since the start.
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The hashes of those that became known after the first `seen` and are among the first `until`; `None`: they are not known any more.
    pub fn arrivals(&self, seen: u64, until: u64) -> Option<impl Iterator<Item = u64> + '_> {
        let first = self.arrived - self.arrivals.len() as u64;
        let (from, to) = (seen.checked_sub(first)?, until.checked_sub(first)?);
        Some(self.arrivals.range(from as usize..to as usize).copied())
    }

    /// The next page for a filter: groups, and up to which revision they are complete if that is not all. `room` is in bytes. `None`: unknown, or one
    /// generation has no room.
    pub(super) fn page(&self, after: Generation, interest: &Interest, room: usize) -> Option<(Vec<Group>, Option<Generation>)> {
        if after < self.since {
            return None;
        }
        let first = self.list.partition_point(|other| other.generation <= after);
        let mut groups: Vec<Group> = Vec::new();
        let (mut size, mut last) = (0, after);
        for (scanned, it) in self.list.range(first..).enumerate() {
            if scanned >= SCAN_MAX && it.generation != last {
                return Some((groups, Some(last)));
            }
            last = it.generation;
            if !interest.contains(it.hash) {
                continue;
            }
            match groups.last_mut().filter(|(generation, names)| *generation == last && names.len() < 255) {
                Some((_, names)) => names.push(key_name(it.hash)),
                None => {
                    groups.push((last, vec![key_name(it.hash)]));
                    size += 9;
                }
            }
            size += 4;
            if size > room || groups.len() > 255 {
                groups.retain(|(generation, _)| *generation < last);
                return (!groups.is_empty()).then(|| (groups, Some(Generation(last.0 - 1))));
            }
        }
        Some((groups, None))
    }
}

/// A generation, and the names of keys that it withdrew.
pub(super) type Group = (Generation, Vec<u32>);

/// Withdrawals remembered at most: 56 bytes each, 15 MB in all.
pub const MAX_WITHDRAWALS: usize = 1 << 18;

/// Withdrawals that one page tests at most, so that an agent that was away for long does not delay others.
const SCAN_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Key {
        Key::App4((n as u32).into())
    }

    #[test]
    fn withdrawals_are_known_back_to_the_forgotten_ones() {
        let mut withdrawals = Withdrawals::default();
        withdrawals.restart(Generation(3), vec![(Generation(5), key(5)), (Generation(4), key(4))]);
        for generation in [9, 7, 8] {
            withdrawals.push(Generation(generation), key(generation));
        }
        let list = |withdrawals: &Withdrawals, after| {
            withdrawals.after(Generation(after)).map(|list| list.map(|it| it.generation.0).collect::<Vec<_>>())
        };
        assert_eq!(list(&withdrawals, 2), None);
        assert_eq!(list(&withdrawals, 3), Some(vec![4, 5, 7, 8, 9]));
        assert_eq!(list(&withdrawals, 8), Some(vec![9]));
        assert_eq!(list(&withdrawals, 100), Some(vec![]));
        let hashes = |seen, until| withdrawals.arrivals(seen, until).map(Iterator::collect::<Vec<_>>);
        assert_eq!(hashes(1, 3), Some(vec![key_hash(&key(7)), key_hash(&key(8))]), "in the order in which they arrived");
        for generation in 10..10 + MAX_WITHDRAWALS as u64 {
            withdrawals.push(Generation(generation), key(generation));
        }
        assert_eq!(list(&withdrawals, 8), None);
        assert_eq!(list(&withdrawals, 9).map(|list| list.len()), Some(MAX_WITHDRAWALS));
        assert!(withdrawals.arrivals(2, 4).is_none() && withdrawals.arrivals(3, 4).is_some());
    }
}
