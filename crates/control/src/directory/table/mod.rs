//! All mappings, in memory: what makes a lookup fast.
//!
//! ```text
//!   key --hash--> slots: u32 each, 7 bits of the hash and the entry's number --> entries: 64 bytes each (packed.rs)
//!                                                                            --> order of keys, for lists (order.rs)
//!                                                                            --> last writes, of keys written lately (history.rs)
//! ```
//! Entries lie in chunks that never move, so that growing needs no second copy. A lookup touches one line of the slots and one of the
//! entries; [`Table::prefetch`] and [`Table::prefetch_entry`] let those of several lookups overlap. A million mappings take about 80 MB.

mod history;
mod order;
mod packed;

use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};
pub use history::{History, MAX_HISTORIES};
pub use packed::FoundValue;
use smallvec::SmallVec;

use self::history::Histories;
use self::order::Order;
use self::packed::{Entry, KeyWords, Large, pack_key, unpack_key};
use super::key::{Generation, Key, Record, Value};
use crate::wire::directory::emit_key;

/// All mappings. Deleted keys stay as tombstones until they are [removed](Table::remove).
#[derive(Clone, Debug)]
pub struct Table {
    slots: Vec<u32>,
    entries: Entries,
    free: Vec<u32>,
    large: Large,
    order: Order,
    histories: Histories,
    live: usize,
    hash: u64,
    /// Live keys that a load gave and that `hash` does not have yet: several are hashed at once.
    unhashed: Vec<(Generation, Key)>,
    seed: u64,
    load: u16,
}

/// A live key's generation and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The generation.
    pub generation: Generation,
    /// What it stands for.
    pub value: FoundValue<'a>,
}

/// All that is held of a key, of a tombstone too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'a> {
    /// The generation.
    pub generation: Generation,
    /// What it stands for; `None` is a tombstone.
    pub value: Option<FoundValue<'a>>,
    /// Its last writes; `None`: not remembered, the store knows.
    pub history: Option<&'a History>,
}

/// What [`Table::apply`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: what is held is as new.
    Stale,
    /// It is held now.
    Fresh {
        /// What the key stood for before.
        before: Option<Value>,
    },
}

/// A key that was hashed, to be looked for.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    key: KeyWords,
    hash: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Table {
    /// An empty table. With a random seed nobody can choose keys that fall on one another.
    pub fn new(seed: u64) -> Self {
        Self {
            slots: vec![EMPTY; 64],
            entries: Entries::default(),
            free: Vec::new(),
            large: Large::default(),
            order: Order::default(),
            histories: Histories::default(),
            live: 0,
            hash: 0,
            unhashed: Vec::new(),
            seed: weft_fabric::rng::mix(seed ^ SEED),
            load: 0,
        }
    }

    /// A live key.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<Found<'_>> {
        self.find(&self.probe(key))
    }

    /// Hashes a key, for the steps of a lookup apart.
    #[inline]
    pub fn probe(&self, key: &Key) -> Probe {
        let key = pack_key(key);
        Probe { key, hash: self.hash_of(key) }
    }

    /// First step: asks the memory for the probe's slot.
    #[inline]
    pub fn prefetch(&self, probe: &Probe) {
        touch(&raw const self.slots[self.home(probe.hash)]);
    }

    /// Second step: asks the memory for the probe's entry, if its first slot may name it.
    #[inline]
    pub fn prefetch_entry(&self, probe: &Probe) {
        let slot = self.slots[self.home(probe.hash)];
        if slot != EMPTY {
            touch(self.entries.at(slot & NUMBER) as *const Entry);
        }
    }

    /// Last step: the probe's key, if it is live.
    #[inline]
    pub fn find(&self, probe: &Probe) -> Option<Found<'_>> {
        let entry = self.entries.at(self.number_of(probe)?);
        Some(Found { generation: entry.generation, value: entry.value(&self.large)? })
    }

    /// The same, of a tombstone too: its generation and no value; generation 0 if nothing is known of the key.
    #[inline]
    pub fn look(&self, probe: &Probe) -> (Generation, Option<FoundValue<'_>>) {
        self.number_of(probe).map_or((Generation(0), None), |number| {
            let entry = self.entries.at(number);
            (entry.generation, entry.value(&self.large))
        })
    }

    /// All that is held of a key.
    pub fn held(&self, key: &Key) -> Option<Held<'_>> {
        let number = self.number_of(&self.probe(key))?;
        let entry = self.entries.at(number);
        Some(Held { generation: entry.generation, value: entry.value(&self.large), history: self.histories.get(number) })
    }

    /// Takes a record and remembers its writes, unless what is held is as new.
    ///
    /// # Panics
    /// If there would be more than [`MAX_ENTRIES`].
    pub fn apply(&mut self, key: &Key, generation: Generation, record: &Record) -> Applied {
        self.put(key, generation, record.value.as_ref(), Some(record))
    }

    /// The same of a record that a load gives, most of which are old: their writes are not remembered.
    pub fn load(&mut self, key: &Key, generation: Generation, value: Option<&Value>) -> Applied {
        self.put(key, generation, value, None)
    }

    /// Forgets a key altogether; what it stood for.
    pub fn remove(&mut self, key: &Key) -> Option<Value> {
        let probe = self.probe(key);
        let number = self.number_of(&probe)?;
        let entry = *self.entries.at(number);
        let value = entry.value(&self.large).map(|found| found.to_value());
        if value.is_some() {
            self.live -= 1;
            self.hash = self.hash.wrapping_sub(state_hash(entry.generation, key));
        }
        self.order.remove(probe.key, |other| self.entries.at(other).key);
        self.histories.remove(number);
        self.entries.at_mut(number).set(Generation(0), None, &mut self.large);
        self.free.push(number);
        self.vacate(&probe, number);
        value
    }

    /// A load begins: keys that are not met until [`Table::end_load`] are gone.
    pub const fn begin_load(&mut self) {
        self.load = self.load.wrapping_add(1);
    }

    /// A load of the state at `revision` ended: removes the keys that are not newer and were not met. Returns those that were live.
    pub fn end_load(&mut self, revision: Generation) -> Vec<Key> {
        let stale = |entry: &Entry| entry.load != self.load && entry.generation <= revision;
        let entries = self.order.after(None, |number| self.entries.at(number).key).map(|number| self.entries.at(number));
        let gone: Vec<Key> = entries.filter(|entry| stale(entry)).map(|entry| unpack_key(entry.key)).collect();
        gone.into_iter().filter(|key| self.remove(key).is_some()).collect()
    }

    /// The live keys after `after` (all if there is none), in order of their bytes.
    pub fn after(&self, after: Option<&Key>) -> impl Iterator<Item = (Key, Found<'_>)> {
        self.order.after(after.map(pack_key), |number| self.entries.at(number).key).filter_map(|number| {
            let entry = self.entries.at(number);
            Some((unpack_key(entry.key), Found { generation: entry.generation, value: entry.value(&self.large)? }))
        })
    }

    /// Live keys.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether none is live.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Keys held, tombstones included.
    pub fn entries(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The hash of the live keys and their generations (`docs/protocol-directory.md`, Health): equal for equal contents.
    pub fn hash(&self) -> u64 {
        self.hash.wrapping_add(state_hashes(&self.unhashed))
    }

    /// The bytes that the table takes.
    pub fn bytes(&self) -> usize {
        let lists = (self.slots.capacity() + self.free.capacity()) * 4;
        lists + self.entries.bytes() + self.large.bytes() + self.order.bytes() + self.histories.bytes()
    }

    fn put(&mut self, key: &Key, generation: Generation, value: Option<&Value>, record: Option<&Record>) -> Applied {
        let probe = self.probe(key);
        let number = self.number_of(&probe).unwrap_or_else(|| self.insert(&probe));
        let entry = self.entries.at_mut(number);
        entry.load = self.load;
        if entry.generation >= generation {
            return Applied::Stale;
        }
        let before = entry.value(&self.large).map(|found| found.to_value());
        if before.is_some() {
            self.live -= 1;
            self.hash = self.hash.wrapping_sub(state_hash(entry.generation, key));
        }
        entry.set(generation, value, &mut self.large);
        if value.is_some() {
            self.live += 1;
            self.unhashed.push((generation, *key));
            if record.is_some() || self.unhashed.len() == HASHED_AT_ONCE {
                self.hash = self.hash.wrapping_add(state_hashes(&self.unhashed));
                self.unhashed.clear();
            }
        }
        match record {
            Some(record) => {
                let history = History { writes: record.writes.clone(), floor: record.floor };
                self.histories.insert(number, generation, history);
            }
            None => self.histories.remove(number),
        }
        Applied::Fresh { before }
    }

    /// An entry for a key that has none.
    fn insert(&mut self, probe: &Probe) -> u32 {
        assert!(self.entries() < MAX_ENTRIES, "at most {MAX_ENTRIES} keys: the server refuses more");
        let used = self.entries();
        if (used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let number = match self.free.pop() {
            Some(number) => {
                *self.entries.at_mut(number) = Entry::new(probe.key);
                number
            }
            None => self.entries.push(Entry::new(probe.key)),
        };
        self.occupy(probe.hash, number);
        self.order.insert(probe.key, number, |other| self.entries.at(other).key);
        number
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        let entry_of = |slot: u32| (slot != EMPTY).then_some(slot & NUMBER);
        for (at, &slot) in old.iter().enumerate() {
            if let Some(soon) = old.get(at + PREFETCHED).copied().and_then(entry_of) {
                touch(self.entries.at(soon) as *const Entry);
            }
            let Some(number) = entry_of(slot) else { continue };
            self.occupy(self.hash_of(self.entries.at(number).key), number);
        }
    }

    fn occupy(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = self.next(at);
        }
        self.slots[at] = tag(hash) | number;
    }

    /// Empties a slot and moves up those behind it that it kept from their places.
    fn vacate(&mut self, probe: &Probe, number: u32) {
        let mut hole = self.home(probe.hash);
        while self.slots[hole] & NUMBER != number || self.slots[hole] == EMPTY {
            hole = self.next(hole);
        }
        let mut at = self.next(hole);
        while self.slots[at] != EMPTY {
            let home = self.home(self.hash_of(self.entries.at(self.slots[at] & NUMBER).key));
            // How far it is from its home, and how far the hole is: it may move if the hole is not before its home.
            let (mask, distance) = (self.slots.len() - 1, at.wrapping_sub(home));
            if distance & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.slots[hole] = EMPTY;
    }

    #[inline]
    fn number_of(&self, probe: &Probe) -> Option<u32> {
        let mut at = self.home(probe.hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot & !NUMBER == tag(probe.hash) && self.entries.at(slot & NUMBER).key == probe.key {
                return Some(slot & NUMBER);
            }
            at = self.next(at);
        }
    }

    #[inline]
    const fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    #[inline]
    const fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// Two folded multiplications, as wyhash's.
    #[inline]
    const fn hash_of(&self, [first, second, third]: KeyWords) -> u64 {
        fold(fold(first ^ self.seed, second ^ MIX[0]) ^ third, MIX[1] ^ self.seed.rotate_left(32))
    }
}

/// The summand of a live key in [`Table::hash`].
fn state_hash(generation: Generation, key: &Key) -> u64 {
    state_hashes(&[(generation, *key)])
}

/// The sum of those of several, which are hashed side by side.
fn state_hashes(keys: &[(Generation, Key)]) -> u64 {
    let mut params = Params::new();
    params.hash_length(8);
    let mut bytes = Vec::with_capacity(32 * keys.len());
    let mut ends: SmallVec<[usize; 1]> = SmallVec::new();
    for (generation, key) in keys {
        bytes.extend_from_slice(&generation.0.to_be_bytes());
        emit_key(key, &mut bytes);
        ends.push(bytes.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mut jobs: SmallVec<[HashManyJob<'_>; 1]> =
        starts.zip(&ends).map(|(start, &end)| HashManyJob::new(&params, &bytes[start..end])).collect();
    hash_many(&mut jobs);
    jobs.iter().fold(0, |sum: u64, job| {
        sum.wrapping_add(u64::from_be_bytes(job.to_hash().as_bytes().try_into().expect("8 bytes were asked for")))
    })
}

/// Entries in chunks that do not move.
#[derive(Clone, Debug, Default)]
struct Entries {
    chunks: Vec<Vec<Entry>>,
}

impl Entries {
    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    #[inline]
    fn at(&self, number: u32) -> &Entry {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn at_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn push(&mut self, entry: Entry) -> u32 {
        let number = self.len();
        if number.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[number / CHUNK].push(entry);
        number as u32
    }

    fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<Entry>>() + self.chunks.len() * CHUNK * size_of::<Entry>()
    }
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[inline]
const fn tag(hash: u64) -> u32 {
    (hash as u32) & !NUMBER
}

/// Asks the memory for a line that is soon needed; nothing depends on it.
#[inline]
#[allow(unsafe_code)]
fn touch<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults nowhere, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The entry's number in a slot; the bits above are the hash's.
const NUMBER: u32 = (1 << 25) - 1;
/// An entry's number that is never used, with every tag bit.
const EMPTY: u32 = u32::MAX;
/// Keys held at most, tombstones included.
pub const MAX_ENTRIES: usize = NUMBER as usize;
const CHUNK: usize = 4096;
/// Keys of a load that are hashed at once.
const HASHED_AT_ONCE: usize = 64;
/// How many slots ahead of the one that is moved the memory is asked for their entries.
const PREFETCHED: usize = 32;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

#[cfg(test)]
mod tests;
