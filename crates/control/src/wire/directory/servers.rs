//! How a server is, and what servers send each other.
//!
//! ```text
//!   Vitals           state u8 | revision u64 | policy u32 | entries u64 | hash u64
//!   Commits          from u64 | revision u64 | count u8 | count x (generation u64, key, record)
//!   Digest, -Answer  revision u64 | entries u64 | hash u64
//! ```

use super::fields::{Reader, WireError, emit_key, emit_record, emit_state};
use crate::directory::key::{Generation, Key, Record};

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// It is filling its memory from the store.
    Loading = 0,
    /// It answers, and takes updates.
    Serving = 1,
    /// It answers from memory; the store does not answer.
    StoreLost = 2,
    /// It is about to stop.
    Leaving = 3,
}

/// A server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// How it is.
    pub state: State,
    /// The revision up to which it knows everything.
    pub revision: Generation,
    /// The version of its policy.
    pub policy: u32,
    /// Live entries.
    pub entries: u64,
    /// The hash of its live entries.
    pub hash: u64,
}

/// Committed records, from the server that committed them to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// The sender's revision before: a server that knows everything up to it knows everything up to `revision` afterwards.
    pub from: Generation,
    /// The revision of these commits.
    pub revision: Generation,
    /// What was committed.
    pub commits: Vec<Commit>,
}

/// A record that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its generation.
    pub generation: Generation,
    /// Its key.
    pub key: Key,
    /// The record.
    pub record: Record,
}

/// What a server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The revision up to which it knows everything.
    pub revision: Generation,
    /// Live entries.
    pub entries: u64,
    /// The hash of its live entries.
    pub hash: u64,
}

impl Vitals {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let state = match r.u8()? {
            0 => State::Loading,
            1 => State::Serving,
            2 => State::StoreLost,
            3 => State::Leaving,
            _ => return Err(WireError::Field("state")),
        };
        Ok(Self { state, revision: Generation(r.u64()?), policy: r.u32()?, entries: r.u64()?, hash: r.u64()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.state as u8);
        emit_state(self.revision, self.policy, out);
        out.extend_from_slice(&self.entries.to_be_bytes());
        out.extend_from_slice(&self.hash.to_be_bytes());
    }
}

impl Commits {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let from = Generation(r.u64()?);
        let revision = Generation(r.u64()?);
        let count = usize::from(r.u8()?);
        let commit = |r: &mut Reader<'_>| Ok(Commit { generation: Generation(r.u64()?), key: r.key()?, record: r.record()? });
        let commits = (0..count).map(|_| commit(r)).collect::<Result<_, WireError>>()?;
        Ok(Self { from, revision, commits })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from.0.to_be_bytes());
        out.extend_from_slice(&self.revision.0.to_be_bytes());
        out.push(self.commits.len() as u8);
        for commit in &self.commits {
            out.extend_from_slice(&commit.generation.0.to_be_bytes());
            emit_key(&commit.key, out);
            emit_record(&commit.record, out);
        }
    }
}

impl Digest {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { revision: Generation(r.u64()?), entries: r.u64()?, hash: r.u64()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for number in [self.revision.0, self.entries, self.hash] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}
