//! Which keys an agent holds, in few bytes: a Bloom filter that the agent sends and a server tests withdrawals against.
//!
//! The hash of a key is part of the protocol (`docs/protocol-directory.md`, Follow): BLAKE2b with a digest of 8 bytes over the key as it is on the wire.
//! Each of its four 16-bit parts, modulo the number of bits, is the position of a bit; its low 32 bits are the key's name in a page of withdrawals.

use blake2b_simd::Params;

use super::key::Key;
use crate::wire::directory::emit_key;

/// A Bloom filter of keys' hashes: a power of two bytes, [`LEAST`] to [`MOST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest(Box<[u8]>);

impl Interest {
    /// An empty filter for this many keys: 40 bits a key, of 200 keys at most (one in 10,000 other keys passes); of 1,000 keys
    /// 2 % pass, of 5,000 70 %.
    pub fn for_keys(keys: usize) -> Self {
        let bytes = (keys.saturating_mul(5)).clamp(LEAST, MOST).next_power_of_two();
        Self(vec![0; bytes].into())
    }

    /// The filter of these bytes, if it can be one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len().is_power_of_two() && (LEAST..=MOST).contains(&bytes.len());
        fits.then(|| Self(bytes.into()))
    }

    /// Its bytes: bit `i` is bit `i % 8`, from the lowest, of byte `i / 8`.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a key by its hash.
    pub fn insert(&mut self, hash: u64) {
        for at in self.positions(hash) {
            self.0[at / 8] |= 1 << (at % 8);
        }
    }

    /// Whether a key was added, or is taken for one that was.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        let [a, b, c, d] = self.positions(hash);
        self.has(a) && self.has(b) && self.has(c) && self.has(d)
    }

    #[inline]
    const fn has(&self, at: usize) -> bool {
        self.0[at / 8] >> (at % 8) & 1 == 1
    }

    #[inline]
    const fn positions(&self, hash: u64) -> [usize; 4] {
        let mask = self.0.len() * 8 - 1;
        [hash as usize & mask, (hash >> 16) as usize & mask, (hash >> 32) as usize & mask, (hash >> 48) as usize & mask]
    }
}

/// The hash of a key.
pub fn key_hash(key: &Key) -> u64 {
    let mut bytes = Vec::with_capacity(24);
    emit_key(key, &mut bytes);
    let hash = Params::new().hash_length(8).hash(&bytes);
    u64::from_be_bytes(hash.as_bytes().try_into().expect("8 bytes were asked for"))
}

/// The name of a key in a page of withdrawals. Two keys with one name are both withdrawn, which costs a lookup.
pub const fn key_name(hash: u64) -> u32 {
    hash as u32
}

/// Bytes of a filter at least: the answer to a request with the shortest has room for all keys of one commit.
pub const LEAST: usize = 64;
/// Bytes of a filter at most.
pub const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        Key::App4(n.into())
    }

    #[test]
    fn every_key_passes_and_few_of_the_others() {
        for (held, bytes) in [(0, 64), (10, 64), (100, 512), (200, 1024), (5_000, 1024)] {
            let mut interest = Interest::for_keys(held);
            assert_eq!(interest.bytes().len(), bytes, "for {held} keys");
            (0..held as u32).for_each(|n| interest.insert(key_hash(&key(n))));
            assert!((0..held as u32).all(|n| interest.contains(key_hash(&key(n)))));
            let others = (1 << 20..(1 << 20) + 10_000).filter(|&n| interest.contains(key_hash(&key(n)))).count();
            assert!(held > 1000 || others < 10, "{others} of 10,000 beside {held}");
            assert_eq!(Interest::from_bytes(interest.bytes()), Some(interest));
        }
        assert!([0, 32, 100, 2048].iter().all(|&bytes| Interest::from_bytes(&vec![0; bytes]).is_none()));
    }

    #[test]
    fn the_hash_is_that_of_the_specification() {
        // python3 -c 'import hashlib; print(hashlib.blake2b(bytes([1,20,0,0,7]),digest_size=8).hexdigest())'
        assert_eq!(format!("{:016x}", key_hash(&Key::App4([20, 0, 0, 7].into()))), "d396e1203d73320e");
    }
}
