//! Hash indexes over numbered entries: a slot holds a number, the caller computes hashes and equality from the entry of that number.
//!
//! Tenants choose the addresses that are hashed, so hashes are keyed.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// A keyed hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(pub [u8; 16]);

impl Keyed {
    /// Of anything.
    pub fn hash(&self, what: &impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        what.hash(&mut hasher);
        hasher.finish()
    }
}

/// Entries that lie one beside the other, in blocks, so that growing copies nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    blocks: Vec<Vec<T>>,
    free: Vec<u32>,
    len: usize,
}

const BLOCK: usize = 1 << 14;

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Self { blocks: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: u32) -> &T {
        &self.blocks[at as usize / BLOCK][at as usize % BLOCK]
    }

    pub fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.blocks[at as usize / BLOCK][at as usize % BLOCK]
    }

    /// Puts an entry somewhere.
    pub fn insert(&mut self, entry: T) -> u32 {
        self.len += 1;
        if let Some(at) = self.free.pop() {
            *self.get_mut(at) = entry;
            return at;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let full = (self.blocks.len() - 1) * BLOCK;
        let last = self.blocks.last_mut().expect("there is a block");
        last.push(entry);
        (full + last.len() - 1) as u32
    }

    /// The place can be used again.
    pub fn remove(&mut self, at: u32) {
        self.len -= 1;
        self.free.push(at);
    }

    /// Places that were ever used.
    pub fn places(&self) -> u32 {
        self.blocks.last().map_or(0, |last| ((self.blocks.len() - 1) * BLOCK + last.len()) as u32)
    }

    pub const fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<T>() + self.free.capacity() * size_of::<u32>()
    }
}

/// Bytes of an index.
pub(super) fn index_bytes(index: &HashTable<u32>) -> usize {
    index.allocation_size()
}
