//! Names replaced by a keyed hash: equal names stay equal, and without the key nobody can try which name gives which hash.

use std::path::Path;

use blake2b_simd::Params;

use crate::error::{Error, Result};

/// A key.
#[derive(Clone)]
pub struct Anonymizer {
    key: [u8; 32],
}

impl std::fmt::Debug for Anonymizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Anonymizer")
    }
}

/// Bytes that a key has at least.
const MIN_KEY: usize = 16;

impl Anonymizer {
    /// Reads a key: any file of at least 16 bytes.
    ///
    /// # Errors
    /// It cannot be read, or is too short.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
        if bytes.len() < MIN_KEY {
            let message = format!("a key of {} bytes can be guessed", bytes.len());
            return Err(Error::input(path, "the file", message, "make one: head -c 32 /dev/urandom > key"));
        }
        Ok(Self::new(&bytes))
    }

    /// The key of some bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let hash = Params::new().hash_length(32).hash(bytes);
        let mut key = [0; 32];
        key.copy_from_slice(hash.as_bytes());
        Self { key }
    }

    /// The hash of a name, as 16 hexadecimal digits after a prefix.
    pub fn name(&self, prefix: &str, name: &str) -> String {
        let hash =
            Params::new().hash_length(8).key(&self.key).to_state().update(prefix.as_bytes()).update(name.as_bytes()).finalize();
        format!("{prefix}-{}", hash.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_the_key() {
        let (a, b) = (Anonymizer::new(b"one key of many!"), Anonymizer::new(b"two key of many!"));
        assert_eq!(a.name("host", "10.0.0.1"), a.name("host", "10.0.0.1"));
        assert_ne!(a.name("host", "10.0.0.1"), a.name("host", "10.0.0.2"));
        assert_ne!(a.name("host", "10.0.0.1"), b.name("host", "10.0.0.1"));
        assert_ne!(a.name("host", "x")[5..], a.name("rack", "x")[5..]);
    }
}
