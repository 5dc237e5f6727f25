//! A switch's learning table: so many entries, the least recently refreshed one makes room, and one that was not refreshed for the ageing time
//! is gone.
//!
//! ```text
//!   index: (VLAN, address) -> slot          oldest <-> ... <-> newest      a list by the time of the last refresh:
//!                                              ^ ages, or makes room         its order is that of the ages too
//! ```
//! Switches find entries by a hash that names a bucket of a few ways: an address goes to its own bucket alone, and the least recently refreshed entry of a full bucket
//! makes room, though others may be free. With `ways` of 0 an address may go anywhere, which no switch of this size can do at the rate of its ports.
//!
//! A frame refreshes its source, not its destination (IEEE 802.1D, 7.8). New addresses may wait for the switch's processor, which enters so many a
//! second: until then frames to them are flooded, and what finds the queue full is not learnt (NetLord sections 2.1 and 5.3).

use rustc_hash::FxHashMap;
use weft_fabric::rng::mix;

/// What a table is keyed by: VLAN and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub u64);

impl Key {
    #[inline]
    pub const fn new(vlan: u16, address: u32) -> Self {
        Self((vlan as u64) << 32 | address as u64)
    }
}

/// What all tables of a run have in common. Times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub entries: usize,
    /// Entries of a bucket, of which `entries` is a multiple; 0: one bucket for all.
    pub ways: usize,
    pub ageing: u64,
    /// What the processor takes to enter an address; 0: none.
    pub learn: u64,
    /// How long an address may wait for it.
    pub learn_wait: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FibCounters {
    /// Entries that made room for others.
    pub evicted: u64,
    /// Addresses not learnt because too many waited.
    pub unlearnt: u64,
    /// The most entries at once.
    pub most: usize,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Fib {
    rules: Rules,
    index: FxHashMap<Key, u32>,
    slots: Vec<Entry>,
    free: Vec<u32>,
    /// The slots of the entries, bucket after bucket; empty if there is one for all.
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// When the processor has entered all that waits.
    busy: u64,
    pub counters: FibCounters,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    port: u32,
    /// Its place in `buckets`.
    place: u32,
    older: u32,
    newer: u32,
    refreshed: u64,
    /// Frames find it from then on.
    valid: u64,
}

const NONE: u32 = u32::MAX;

impl Fib {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            index: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            buckets: vec![NONE; if rules.ways > 0 { rules.entries } else { 0 }],
            oldest: NONE,
            newest: NONE,
            busy: 0,
            counters: FibCounters::default(),
        }
    }

    /// A frame from `key` has come by `port`.
    #[inline]
    pub fn learn(&mut self, key: Key, port: u32, now: u64) {
        self.age(now);
        match self.index.get(&key) {
            Some(&slot) if self.slots[slot as usize].port == port => {
                self.slots[slot as usize].refreshed = now;
                if self.newest != slot {
                    self.unlink(slot);
                    self.link(slot);
                }
            }
            Some(&slot) => {
                // The station has moved.
                if let Some(valid) = self.admit(now) {
                    self.unlink(slot);
                    self.link(slot);
                    let entry = &mut self.slots[slot as usize];
                    (entry.port, entry.refreshed, entry.valid) = (port, now, valid);
                }
            }
            None => self.enter(key, port, now),
        }
    }

    /// The port of an address, if the table has it.
    #[inline]
    pub fn find(&mut self, key: Key, now: u64) -> Option<u32> {
        self.age(now);
        let slot = *self.index.get(&key)?;
        let entry = &self.slots[slot as usize];
        (entry.valid <= now).then_some(entry.port)
    }

    /// Forgets what was learnt by a port: its link is down (IEEE 802.1Q, 8.8.3).
    pub fn forget(&mut self, port: u32) {
        let mut at = self.oldest;
        while at != NONE {
            let Entry { port: here, newer, .. } = self.slots[at as usize];
            if here == port {
                self.remove(at);
            }
            at = newer;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        while self.oldest != NONE {
            self.remove(self.oldest);
        }
    }

    /// Entries at this moment.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The keys, from the oldest on.
    #[cfg(test)]
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut at = self.oldest;
        while at != NONE {
            keys.push(self.slots[at as usize].key);
            at = self.slots[at as usize].newer;
        }
        keys
    }

    #[inline(never)]
    fn enter(&mut self, key: Key, port: u32, now: u64) {
        if self.rules.entries == 0 {
            return;
        }
        let Some(valid) = self.admit(now) else { return };
        let place = self.place_of(key);
        let full = match self.buckets.get(place) {
            Some(&slot) => slot,
            None if self.index.len() == self.rules.entries => self.oldest,
            None => NONE,
        };
        if full != NONE {
            self.counters.evicted += 1;
            self.remove(full);
        }
        let entry = Entry { key, port, place: place as u32, older: NONE, newer: NONE, refreshed: now, valid };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(key, slot);
        if let Some(at) = self.buckets.get_mut(place) {
            *at = slot;
        }
        self.link(slot);
        self.counters.most = self.counters.most.max(self.index.len());
    }

    /// Where a new address goes in its bucket: to a free place, or that of the entry that was refreshed longest ago.
    fn place_of(&self, key: Key) -> usize {
        let ways = self.rules.ways;
        if ways == 0 {
            return 0;
        }
        let bucket = (mix(key.0) % (self.rules.entries / ways) as u64) as usize * ways;
        let refreshed = |at: &usize| match self.buckets[*at] {
            NONE => 0,
            slot => self.slots[slot as usize].refreshed + 1,
        };
        (bucket..bucket + ways).min_by_key(refreshed).expect("a bucket has a way")
    }

    /// When a new address will be in the table; `None` if too many wait.
    fn admit(&mut self, now: u64) -> Option<u64> {
        if self.rules.learn == 0 {
            return Some(now);
        }
        let begin = self.busy.max(now);
        if begin - now > self.rules.learn_wait {
            self.counters.unlearnt += 1;
            return None;
        }
        self.busy = begin + self.rules.learn;
        Some(self.busy)
    }

    /// Removes what has not been refreshed for too long.
    #[inline]
    fn age(&mut self, now: u64) {
        while self.oldest != NONE && now - self.slots[self.oldest as usize].refreshed >= self.rules.ageing {
            self.remove(self.oldest);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.index.remove(&self.slots[slot as usize].key);
        if let Some(at) = self.buckets.get_mut(self.slots[slot as usize].place as usize) {
            *at = NONE;
        }
        self.free.push(slot);
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Entry { older, newer, .. } = self.slots[slot as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
    }

    /// Makes an entry the newest.
    #[inline]
    fn link(&mut self, slot: u32) {
        let before = self.newest;
        let entry = &mut self.slots[slot as usize];
        (entry.older, entry.newer) = (before, NONE);
        match before {
            NONE => self.oldest = slot,
            _ => self.slots[before as usize].newer = slot,
        }
        self.newest = slot;
    }
}
