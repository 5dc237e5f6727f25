//! How the server keeps up with the store: a load of everything, then the watch; own commits and those that peers report are taken as soon as
//! they are known.
//!
//! `revision` is how far everything is known. It grows by a load, by the watch, and by a commit that says what was between. What is reported of a
//! later commit is taken key by key, and `revision` waits for the watch.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::key::{Generation, Key, Record, Value};
use super::super::store::{StoreOp, Stored};
use super::super::table::Applied;
use super::super::withdrawals::MAX_WITHDRAWALS;
use super::{Event, LoadEnd, Output, ReloadReason, Server};
use crate::time::{Duration, Instant};

/// How many keys ahead of the one that is loaded the memory is asked for their slots.
const PREFETCHED: usize = 16;

/// What the server knows of the store.
#[derive(Clone, Debug, Default)]
pub struct Following {
    /// Whether everything was loaded once.
    pub loaded: bool,
    /// Tombstones up to this generation may be gone.
    pub purged: Generation,
    /// When to reload, if the watch was lost while loading.
    pub reload_at: Option<Instant>,
    /// The newest generation that was taken.
    ahead: Generation,
    /// The number of the last load, and whether it is under way.
    load: u64,
    loading: bool,
    /// Of the first load: the keys that changed last.
    latest: Latest,
    /// In order of time: when each tombstone was taken.
    tombstones: VecDeque<(Instant, Key, Generation)>,
}

/// The keys of the greatest generations.
#[derive(Clone, Debug)]
struct Latest {
    /// How many are kept.
    room: usize,
    /// Twice as many at most, until [`Latest::trim`].
    keys: Vec<(Generation, Key)>,
    /// The greatest generation that has no room.
    before: Generation,
}

impl Default for Latest {
    fn default() -> Self {
        Self { room: MAX_WITHDRAWALS, keys: Vec::new(), before: Generation(0) }
    }
}

impl Latest {
    fn push(&mut self, generation: Generation, key: Key) {
        if generation <= self.before {
            return;
        }
        self.keys.push((generation, key));
        if self.keys.len() == 2 * self.room {
            self.trim();
        }
    }

    fn trim(&mut self) {
        if self.keys.len() > self.room {
            let (_, (dropped, _), _) = self.keys.select_nth_unstable_by_key(self.room, |&(generation, _)| Reverse(generation));
            self.before = *dropped;
            self.keys.truncate(self.room);
        }
    }
}

impl Following {
    /// When the oldest tombstone has been kept long enough.
    pub fn next_purge(&self, keep: Duration) -> Option<Instant> {
        self.tombstones.front().map(|(taken, ..)| taken.saturating_add(keep))
    }
}

impl Server {
    /// Asks for everything.
    pub(super) fn begin_load(&mut self) {
        let following = &mut self.following;
        following.load += 1;
        (following.loading, following.reload_at) = (true, None);
        following.latest = Latest::default();
        self.shared.table.begin_load();
        self.outputs.push_back(Output::Load { load: following.load });
    }

    /// Reloads; at once, or a little later if a load is under way, which then cannot end.
    pub(super) fn reload(&mut self, now: Instant, reason: ReloadReason) {
        if self.following.loading && reason != ReloadReason::WatchLost {
            return;
        }
        self.outputs.push_back(Output::Event(Event::Reload(reason)));
        if self.following.loading {
            self.following.reload_at = Some(now.saturating_add(self.config.retry_after));
        } else {
            self.begin_load();
        }
    }

    /// Part of a load.
    pub(super) fn loaded(&mut self, now: Instant, load: u64, entries: &[Stored], end: Option<LoadEnd>) {
        if load != self.following.load || !self.following.loading {
            return;
        }
        for (at, Stored { key, generation, record }) in entries.iter().enumerate() {
            if let Some(soon) = entries.get(at + PREFETCHED) {
                self.shared.table.prefetch(&self.shared.table.probe(&soon.key));
            }
            if let Some(record) = record {
                if !self.following.loaded {
                    self.following.latest.push(*generation, *key);
                }
                let applied = self.shared.table.load(key, *generation, record.value.as_ref());
                self.took(now, key, *generation, record.value.as_ref(), applied);
            }
        }
        if let Some(LoadEnd { revision, purged }) = end {
            self.end_load(revision, purged);
        }
    }

    fn end_load(&mut self, revision: Generation, purged: Generation) {
        let first = !std::mem::replace(&mut self.following.loaded, true);
        (self.following.loading, self.following.reload_at) = (false, None);
        self.following.purged = self.following.purged.max(purged);
        self.counters.loads += 1;
        for key in self.shared.table.end_load(revision) {
            self.withdrawn(revision, &key, None);
        }
        self.shared.revision = self.shared.revision.max(revision);
        if first {
            // Whether a change withdrew something is not known any more: all that changed lately counts, so that agents need not look all up again.
            let mut latest = std::mem::take(&mut self.following.latest);
            latest.trim();
            self.shared.withdrawals.restart(latest.before.max(self.following.purged), latest.keys);
            // A store in which nothing ever was has nothing that could be forgotten.
            let is_new = self.shared.table.entries() == 0 && self.following.purged == Generation(0);
            self.streams.restart(revision, is_new);
        }
        let entries = self.shared.table.len() as u64;
        self.outputs.push_back(Output::Event(Event::Loaded { revision, entries }));
    }

    /// What the store committed.
    pub(super) fn watched(&mut self, now: Instant, from: Generation, revision: Generation, changes: &[Stored]) {
        let follows = from <= self.shared.revision;
        for Stored { key, generation, record } in changes {
            match record {
                Some(record) => self.learn(now, key, *generation, record),
                // After a gap the load will show: what is forgotten too early could come back with a late datagram.
                None if follows && revision > self.shared.revision => self.learn_purge(key, *generation),
                None => {}
            }
        }
        if follows {
            self.shared.revision = self.shared.revision.max(revision);
        } else {
            self.reload(now, ReloadReason::Gap);
        }
    }

    /// What this server committed: it is applied and reported to the peers.
    pub(super) fn own_commit(&mut self, now: Instant, revision: Generation, ops: &[StoreOp]) {
        for op in ops {
            self.learn(now, &op.key, revision, &op.record);
        }
        let before = self.shared.revision;
        // Every commit has a revision of its own: nothing is between.
        let complete = before.0 + 1 >= revision.0;
        if complete {
            self.shared.revision = before.max(revision);
        }
        self.disseminate(now, revision, complete, ops);
    }

    /// Takes a record if it is new. What was committed up to `revision` is known: if the key is not there its tombstone has been purged since.
    pub(super) fn learn(&mut self, now: Instant, key: &Key, generation: Generation, record: &Record) {
        if generation <= self.shared.revision {
            return;
        }
        let applied = self.shared.table.apply(key, generation, record);
        self.took(now, key, generation, record.value.as_ref(), applied);
    }

    fn took(&mut self, now: Instant, key: &Key, generation: Generation, value: Option<&Value>, applied: Applied) {
        let Applied::Fresh { before } = applied else { return };
        self.following.ahead = self.following.ahead.max(generation);
        // Those that write to the store purge it.
        if value.is_none() && !self.config.replica {
            self.following.tombstones.push_back((now, *key, generation));
        }
        // While loading for the first time nobody has anything that could be withdrawn, or is watching.
        if self.following.loaded {
            if before.is_some_and(|before| withdraws(&before, value)) {
                self.shared.withdrawals.push(generation, *key);
            }
            self.streams.changed(generation, key, value);
        }
    }

    /// A tombstone was purged, which had this generation or an older one.
    fn learn_purge(&mut self, key: &Key, generation: Generation) {
        self.following.purged = self.following.purged.max(generation);
        if self.shared.table.held(key).is_some_and(|held| held.generation <= generation)
            && self.shared.table.remove(key).is_some()
        {
            self.withdrawn(generation, key, None);
        }
    }

    fn withdrawn(&mut self, generation: Generation, key: &Key, value: Option<&Value>) {
        self.shared.withdrawals.push(generation, *key);
        self.streams.changed(generation, key, value);
    }

    /// Whether the entries are those of exactly the revision: nothing is known of what comes after.
    pub(super) fn is_exact(&self) -> bool {
        self.following.loaded && !self.following.loading && self.following.ahead <= self.shared.revision
    }

    /// Asks the store to purge the tombstones that were kept long enough.
    pub(super) fn purge(&mut self, now: Instant) {
        let mut due = Vec::new();
        while self.following.next_purge(self.config.keep_tombstones).is_some_and(|at| at <= now) {
            let Some((_, key, generation)) = self.following.tombstones.pop_front() else { break };
            let held = self.shared.table.held(&key);
            if held.is_some_and(|held| held.generation == generation && held.value.is_none()) {
                due.push((key, generation));
            }
        }
        if !due.is_empty() {
            self.outputs.push_back(Output::Purge { tombstones: due });
        }
    }
}

/// Whether those who hold `before` may not go on using it: it is gone, or has another owner or service. A group whose addresses changed is
/// withdrawn too, for nobody reports packets to addresses that are gone.
fn withdraws(before: &Value, after: Option<&Value>) -> bool {
    match (before, after) {
        (Value::Mapping(before), Some(Value::Mapping(after))) => (before.owner, before.service) != (after.owner, after.service),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Nothing that changed after `before` is missing, and there are as many as there is room for.
        #[test]
        fn the_latest_keys_are_kept(room in 1usize..20, mut generations in prop::collection::vec(1u64..100, 0..200)) {
            let mut latest = Latest { room, ..Latest::default() };
            for (n, &generation) in generations.iter().enumerate() {
                latest.push(Generation(generation), Key::App4((n as u32).into()));
            }
            latest.trim();
            generations.sort_unstable_by_key(|&generation| Reverse(generation));
            let before = generations.get(room).copied().unwrap_or(0);
            prop_assert_eq!(latest.before, Generation(before));
            prop_assert!(latest.keys.len() <= room);
            let mut found: Vec<u64> = latest.keys.iter().map(|(generation, _)| generation.0).filter(|&it| it > before).collect();
            found.sort_unstable_by_key(|&generation| Reverse(generation));
            generations.retain(|&it| it > before);
            prop_assert_eq!(found, generations);
        }
    }
}
