//! Updates and their acknowledgements.
//!
//! ```text
//!   Update           number u64 | known u64 | count u8 | count x (1: put, key, expect u64, value | 2: delete, key, expect u64)
//!   Acknowledgement  number u64 | outcome u8 | at u8 | generation u64
//! ```

use super::fields::{Reader, WireError, emit_key, emit_value};
use crate::directory::key::{Generation, Key, Value};

/// Operations of one update at most.
pub const MAX_OPS: usize = 32;

/// An update: all of its operations happen, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The update's number among its writer's; the same in every copy of it.
    pub number: u64,
    /// The newest revision that the writer knew before it first sent this update: the update applies at most once to each key since then.
    pub known: Generation,
    /// 1 to [`MAX_OPS`], each of another key.
    pub ops: Vec<Op>,
}

/// One operation of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it changes.
    pub key: Key,
    /// Only if the key has this generation (0: does not exist); `None`: in any case.
    pub expect: Option<Generation>,
    /// What the key stands for afterwards; `None` deletes it.
    pub value: Option<Value>,
}

const ANY: u64 = u64::MAX;

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// It is durable, at this generation.
    Committed = 0,
    /// The writer may not do that.
    Refused = 1,
    /// The key of operation `at` has another generation than expected: that one.
    Conflict = 2,
    /// This server cannot take it now (loading, overloaded, no store): it has not been applied by this copy; send it to another server.
    Elsewhere = 3,
    /// This copy may have been applied, for the store did not answer, and by now the key has been written too often to know.
    Unknown = 4,
    /// It makes no sense: a key twice, a value that does not fit its key.
    Malformed = 5,
    /// Too much has happened since `known` to say whether an earlier copy was applied. This one was not, and will not be.
    Stale = 6,
}

/// The answer to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The update's number.
    pub number: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// The operation that was the cause, from 0.
    pub at: u8,
    /// The generation of the commit, or of the conflicting key; else 0.
    pub generation: Generation,
}

impl Update {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let number = r.u64()?;
        let known = Generation(r.u64()?);
        let count = usize::from(r.u8()?);
        if !(1..=MAX_OPS).contains(&count) {
            return Err(WireError::Field("number of operations"));
        }
        let mut ops = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = r.u8()?;
            let key = r.key()?;
            let expect = Some(r.u64()?).filter(|&expect| expect != ANY).map(Generation);
            let value = match kind {
                1 => Some(r.value()?),
                2 => None,
                _ => return Err(WireError::Field("operation")),
            };
            ops.push(Op { key, expect, value });
        }
        Ok(Self { number, known, ops })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.known.0.to_be_bytes());
        out.push(self.ops.len() as u8);
        for op in &self.ops {
            out.push(if op.value.is_some() { 1 } else { 2 });
            emit_key(&op.key, out);
            out.extend_from_slice(&op.expect.map_or(ANY, |expect| expect.0).to_be_bytes());
            if let Some(value) = &op.value {
                emit_value(value, out);
            }
        }
    }
}

impl Acknowledgement {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let number = r.u64()?;
        let outcome = match r.u8()? {
            0 => Outcome::Committed,
            1 => Outcome::Refused,
            2 => Outcome::Conflict,
            3 => Outcome::Elsewhere,
            4 => Outcome::Unknown,
            5 => Outcome::Malformed,
            6 => Outcome::Stale,
            _ => return Err(WireError::Field("outcome")),
        };
        Ok(Self { number, outcome, at: r.u8()?, generation: Generation(r.u64()?) })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&[self.outcome as u8, self.at]);
        out.extend_from_slice(&self.generation.0.to_be_bytes());
    }
}
