//! Entries of maps, by key; what every table needs.

use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, MapHandle};

use super::{PlaneError, Result};

/// A map with the name that errors give it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    pub map: &'a MapHandle,
    pub name: &'static str,
}

impl Table<'_> {
    /// Sets an entry.
    ///
    /// # Errors
    /// [`PlaneError::Full`], or [`PlaneError::Bpf`].
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.update(key, value, MapFlags::ANY).map_err(|error| {
            if self.is_full() {
                PlaneError::Full { table: self.name, limit: self.map.max_entries() }
            } else {
                PlaneError::bpf("write table", self.name)(error)
            }
        })
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
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.map.lookup(key, MapFlags::ANY).map_err(PlaneError::bpf("read table", self.name))
    }

    /// Removes an entry, if it is there.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        match self.map.delete(key) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(PlaneError::bpf("write table", self.name)(error)),
            _ => Ok(()),
        }
    }

    /// All entries, ordered by key.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn all(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        for key in self.map.keys() {
            // It may have gone since.
            if let Some(value) = self.get(&key)? {
                entries.push((key, value));
            }
        }
        entries.sort_unstable();
        // A removal in the middle of the iteration makes it start over.
        entries.dedup_by(|a, b| a.0 == b.0);
        Ok(entries)
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
