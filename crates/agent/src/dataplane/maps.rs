//! Entries of maps, by key; what every table needs.

use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, MapHandle};

use std::marker::PhantomData;

use super::bytes::Plain;
use super::{PlaneError, Result};

/// The name of a map of the programs, and the types of its keys and values.
#[derive(Debug)]
pub(crate) struct TableName<K, V>(pub &'static str, PhantomData<(K, V)>);

impl<K, V> TableName<K, V> {
    pub const fn new(name: &'static str) -> Self {
        Self(name, PhantomData)
    }
}

/// A map with the name that errors give it.
#[derive(Debug)]
pub(crate) struct Table<'a, K, V> {
    map: &'a MapHandle,
    name: &'static str,
    types: PhantomData<(K, V)>,
}

impl<'a, K: Plain, V: Plain> Table<'a, K, V> {
    /// # Panics
    /// If the map's keys and values have other sizes than these types, or keys less than the four bytes of the kernel's place in a batch.
    pub fn new(map: &'a MapHandle, name: &'static str) -> Self {
        assert!(size_of::<K>() >= size_of::<u32>(), "keys of `{name}`");
        let sizes = (size_of::<K>() as u32, size_of::<V>() as u32);
        assert_eq!((map.key_size(), map.value_size()), sizes, "keys and values of `{name}`");
        Self { map, name, types: PhantomData }
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// [`PlaneError::Full`], or [`PlaneError::Bpf`].
    pub fn set(&self, key: &K, value: &V) -> Result<()> {
        self.map.update(key.bytes(), value.bytes(), MapFlags::ANY).map_err(|error| {
            if self.is_full() {
                PlaneError::Full { table: self.name, limit: self.map.max_entries() }
            } else {
                PlaneError::bpf("write table", self.name)(error)
            }
        })
    }

    /// Sets an entry, unless it is so already; whether it was not.
    ///
    /// # Errors
    /// As [`Table::set`].
    pub fn restore(&self, key: &K, value: &V) -> Result<bool> {
        if self.get(key)?.is_some_and(|there| there.bytes() == value.bytes()) {
            return Ok(false);
        }
        self.set(key, value).map(|()| true)
    }

    fn is_full(&self) -> bool {
        self.len() >= self.map.max_entries() as usize
    }

    /// Entries that it holds.
    pub fn len(&self) -> usize {
        self.map.keys().count()
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.value(key.bytes())
    }

    fn value(&self, key: &[u8]) -> Result<Option<V>> {
        let value = self.map.lookup(key, MapFlags::ANY).map_err(PlaneError::bpf("read table", self.name))?;
        Ok(value.and_then(|bytes| V::read(&bytes).map(|(value, _)| value)))
    }

    /// Removes an entry, if it is there.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn remove(&self, key: &K) -> Result<()> {
        match self.map.delete(key.bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(PlaneError::bpf("write table", self.name)(error)),
            _ => Ok(()),
        }
    }

    /// All entries, ordered by key.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn all(&self) -> Result<Vec<(K, V)>> {
        let fail = PlaneError::bpf("read table", self.name);
        // One call of the kernel for all of them: by key each entry takes two.
        let batch = self.map.lookup_batch(self.map.max_entries(), MapFlags::ANY, MapFlags::ANY).map_err(fail)?;
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = batch.collect();
        // The iterator ends at an error too. By key it shows.
        if entries.is_empty() {
            return self.all_by_key();
        }
        entries.sort_unstable();
        let read = |(key, value): &(Vec<u8>, Vec<u8>)| Some((K::read(key)?.0, V::read(value)?.0));
        Ok(entries.iter().filter_map(read).collect())
    }

    fn all_by_key(&self) -> Result<Vec<(K, V)>> {
        let mut keys: Vec<Vec<u8>> = self.map.keys().collect();
        keys.sort_unstable();
        // A removal in the middle of the iteration makes it start over.
        keys.dedup();
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            // It may have gone since.
            if let (Some((name, _)), Some(value)) = (K::read(&key), self.value(&key)?) {
                entries.push((name, value));
            }
        }
        Ok(entries)
    }

    /// Removes all entries of which this is true.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn remove_all(&self, is_old: impl Fn(&K, &V) -> bool) -> Result<usize> {
        let mut count = 0;
        for (key, _) in self.all()?.iter().filter(|(key, value)| is_old(key, value)) {
            self.remove(key)?;
            count += 1;
        }
        Ok(count)
    }
}

/// The first `count` counters of a map, by number, each summed over the CPUs.
///
/// # Errors
/// [`PlaneError::Bpf`].
pub(crate) fn sums(map: &MapHandle, count: usize) -> Result<Vec<u64>> {
    let fail = || PlaneError::bpf("read table", "counters");
    let mut values = Vec::with_capacity(count);
    for number in 0..count {
        let cpus = map.lookup_percpu(&(number as u32).to_ne_bytes(), MapFlags::ANY).map_err(fail())?;
        let numbers = cpus.iter().flatten().filter_map(|cpu| Some(u64::from_ne_bytes(cpu.get(..8)?.try_into().ok()?)));
        values.push(numbers.sum());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use libbpf_rs::MapType;
    use libbpf_rs::libbpf_sys::bpf_map_create_opts;

    use super::*;
    use crate::dataplane::testing::PinDir;

    fn table(kind: MapType, flags: u32, limit: u32) -> MapHandle {
        let options = bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, map_flags: flags, ..Default::default() };
        MapHandle::create(kind, Some("test"), 8, 8, limit, &options).expect("a map")
    }

    #[test]
    fn all_entries_are_read() {
        let Some(_possible) = PinDir::new() else { return };
        for (kind, flags) in [(MapType::Hash, 1), (MapType::Hash, 0), (MapType::LruHash, 0), (MapType::LpmTrie, 1)] {
            let map = table(kind, flags, 5000);
            let table: Table<'_, u64, u64> = Table::new(&map, "test");
            assert_eq!(table.all().unwrap(), [], "{kind:?}");
            // Of a trie: so many bits of a prefix, and the prefix.
            let key = |i: u64| if kind == MapType::LpmTrie { i << 32 | 32 } else { i };
            for count in [1, 4000, 5000] {
                (0..count).for_each(|i| table.set(&key(i), &(i * 7)).unwrap());
                let all = table.all().unwrap();
                // An LRU table may drop entries before it is full.
                if kind != MapType::LruHash || count < 4000 {
                    assert_eq!(all.len() as u64, count, "{kind:?}");
                }
                assert!(all.iter().all(|&(k, value)| key(value / 7) == k), "{kind:?}");
                assert_eq!(all, table.all_by_key().unwrap(), "{kind:?}");
            }
            if kind != MapType::LruHash {
                assert_eq!(table.remove_all(|_, value| value % 14 == 0).unwrap(), 2500, "{kind:?}");
                assert_eq!(table.all().unwrap().len(), 2500, "{kind:?}");
            }
        }
    }
}
