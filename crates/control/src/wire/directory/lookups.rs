//! Lookups and their answers, of which there are many: they are read in place.
//!
//! ```text
//!   Lookup           at_least u64 | asker key or 0 | count u8 | count x key
//!   Answer           revision u64 | policy u32 | count u8 | count x (finding u8, generation u64, [value])
//! ```

use super::MAX_KEYS;
use super::fields::{Reader, WireError, emit_group, emit_key, emit_mapping, emit_optional_key, emit_state, emit_value};
use crate::directory::key::{Generation, GroupAddresses, Key, Mapping, Value};

/// A lookup of 1 to [`MAX_KEYS`] keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    /// The answer must not be older than this revision.
    pub at_least: Generation,
    /// On whose behalf: a key that lives on the asking host. None: the host itself.
    pub asker: Option<Key>,
    /// The number of keys.
    pub count: usize,
    keys: &'a [u8],
}

impl<'a> Lookup<'a> {
    /// The keys, in the order asked.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'a> {
        let mut reader = Reader(self.keys);
        (0..self.count).map(move |_| reader.key().expect("checked by parse"))
    }

    #[inline]
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let at_least = Generation(reader.u64()?);
        let asker = reader.optional_key()?;
        let count = usize::from(reader.u8()?);
        if !(1..=MAX_KEYS).contains(&count) {
            return Err(WireError::Field("number of keys"));
        }
        let keys = reader.0;
        for _ in 0..count {
            reader.key()?;
        }
        reader.end()?;
        Ok(Self { at_least, asker, count, keys })
    }

    pub(super) fn emit_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at_least.0.to_be_bytes());
        emit_optional_key(self.asker.as_ref(), out);
        out.push(self.count as u8);
        out.extend_from_slice(self.keys);
    }

    /// Appends the body of a lookup.
    ///
    /// # Panics
    /// If there are no keys or too many.
    pub fn emit(at_least: Generation, asker: Option<&Key>, keys: &[Key], out: &mut Vec<u8>) {
        assert!((1..=MAX_KEYS).contains(&keys.len()), "1 to {MAX_KEYS} keys");
        out.extend_from_slice(&at_least.0.to_be_bytes());
        emit_optional_key(asker, out);
        out.push(keys.len() as u8);
        for key in keys {
            emit_key(key, out);
        }
    }
}

/// What became of a key of a lookup. Every finding but `Elsewhere` has a generation: that of the mapping, or the revision at which the
/// server knew that there is none, so that an older finding never replaces a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is this.
    Found(Value),
    /// There is no such key.
    Unknown,
    /// The asker may not know.
    Forbidden,
    /// This server cannot say (it is loading, or behind the revision asked for): try another.
    Elsewhere,
}

/// The answers to a lookup's keys, in their order. Those that had no room are left out at the end: ask for them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The revision up to which the server knows everything.
    pub revision: Generation,
    /// The version of its policy.
    pub policy: u32,
    /// The number of findings.
    pub count: usize,
    findings: &'a [u8],
}

/// An iterator over an answer's findings.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    left: usize,
    reader: Reader<'a>,
}

impl<'a> Answer<'a> {
    /// The findings with their generations.
    pub const fn results(&self) -> Results<'a> {
        Results { left: self.count, reader: Reader(self.findings) }
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let revision = Generation(reader.u64()?);
        let policy = reader.u32()?;
        let count = usize::from(reader.u8()?);
        if count > MAX_KEYS {
            return Err(WireError::Field("number of findings"));
        }
        let findings = reader.0;
        for _ in 0..count {
            finding(&mut reader)?;
        }
        reader.end()?;
        Ok(Self { revision, policy, count, findings })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        out.push(self.count as u8);
        out.extend_from_slice(self.findings);
    }
}

impl Iterator for Results<'_> {
    type Item = (Generation, Finding);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(finding(&mut self.reader).expect("checked by parse"))
    }
}

pub(super) fn finding(reader: &mut Reader<'_>) -> Result<(Generation, Finding), WireError> {
    let kind = reader.u8()?;
    let generation = Generation(reader.u64()?);
    let finding = match kind {
        0 => Finding::Found(reader.value()?),
        1 => Finding::Unknown,
        2 => Finding::Forbidden,
        3 => Finding::Elsewhere,
        _ => return Err(WireError::Field("finding")),
    };
    Ok((generation, finding))
}

pub(super) fn emit_finding(generation: Generation, finding: &Finding, out: &mut Vec<u8>) {
    let kind = match finding {
        Finding::Found(_) => 0,
        Finding::Unknown => 1,
        Finding::Forbidden => 2,
        Finding::Elsewhere => 3,
    };
    out.push(kind);
    out.extend_from_slice(&generation.0.to_be_bytes());
    if let Finding::Found(value) = finding {
        emit_value(value, out);
    }
}

/// Writes the body of an answer, finding by finding, without any allocation of its own.
#[derive(Debug)]
pub struct AnswerWriter<'a> {
    out: &'a mut Vec<u8>,
    count_at: usize,
    limit: usize,
}

impl<'a> AnswerWriter<'a> {
    /// Begins a body in `out`, which must not grow beyond `limit` bytes.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, limit: usize, revision: Generation, policy: u32) -> Self {
        out.extend_from_slice(&revision.0.to_be_bytes());
        out.extend_from_slice(&policy.to_be_bytes());
        let count_at = out.len();
        out.push(0);
        Self { out, count_at, limit }
    }

    /// Adds a mapping; false if there is no room for it, and then nothing more may be added.
    #[inline]
    pub fn found(&mut self, generation: Generation, mapping: &Mapping) -> bool {
        self.add(|out| {
            out.push(0);
            out.extend_from_slice(&generation.0.to_be_bytes());
            emit_mapping(mapping, out);
        })
    }

    /// Adds a group; false if there is no room for it.
    pub fn group(&mut self, generation: Generation, addresses: &GroupAddresses) -> bool {
        self.add(|out| {
            out.push(0);
            out.extend_from_slice(&generation.0.to_be_bytes());
            emit_group(addresses, out);
        })
    }

    /// Adds any finding; false if there is no room for it.
    #[inline]
    pub fn push(&mut self, generation: Generation, finding: &Finding) -> bool {
        self.add(|out| emit_finding(generation, finding, out))
    }

    #[inline]
    fn add(&mut self, emit: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.out.len();
        emit(self.out);
        if self.out.len() > self.limit {
            self.out.truncate(before);
            return false;
        }
        self.out[self.count_at] += 1;
        true
    }
}
