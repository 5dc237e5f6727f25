//! What keeps agents right: what was withdrawn, and what they have wrong.
//!
//! ```text
//!   Sync             revision u64 | policy u32 | zeros, as many as the answer may need room
//!   Changes          revision u64 | policy u32 | flags u8 | count u8 | count x (generation u64, key)
//!   Misdelivered     asker key | key | stale locator
//!   Correction       revision u64 | policy u32 | key | finding u8, generation u64, [value]
//! ```

use super::fields::{Reader, WireError, emit_key, emit_locator, emit_state};
use super::lookups::{Finding, emit_finding, finding};
use crate::directory::key::{Generation, Key, Locator};

/// Asks what was withdrawn since a revision. The answer renews the leases of everything that it does not withdraw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The revision up to which the client knows all withdrawals.
    pub revision: Generation,
    /// The version of the policy under which it got its mappings.
    pub policy: u32,
    /// Zero bytes at the end, so that the answer may be longer.
    pub padding: u16,
}

/// The answer to [`Sync`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The server's revision.
    pub revision: Generation,
    /// The version of its policy.
    pub policy: u32,
    /// More was withdrawn than there is room for, or than the server remembers, or the policy changed: ask again for all that is held.
    pub reconfirm: bool,
    /// The keys that are gone, or have a new owner or service.
    pub withdrawn: Vec<Withdrawal>,
}

/// A key that must not be used as it was before this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// When it was withdrawn.
    pub generation: Generation,
    /// The key.
    pub key: Key,
}

/// A packet came to a locator where its destination is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misdelivered {
    /// Who sent the packet.
    pub asker: Key,
    /// Whom he meant.
    pub key: Key,
    /// Where he thought that it is.
    pub stale: Locator,
}

/// What a key really is, sent to an agent that used a stale mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The server's revision.
    pub revision: Generation,
    /// The version of its policy.
    pub policy: u32,
    /// The key.
    pub key: Key,
    /// When that came to be.
    pub generation: Generation,
    /// What it is.
    pub finding: Finding,
}

impl Sync {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let revision = Generation(r.u64()?);
        let policy = r.u32()?;
        let padding = u16::try_from(r.0.len()).map_err(|_| WireError::TooLong)?;
        if r.take(usize::from(padding))?.iter().any(|&byte| byte != 0) {
            return Err(WireError::Field("padding"));
        }
        Ok(Self { revision, policy, padding })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

impl Changes {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let revision = Generation(r.u64()?);
        let policy = r.u32()?;
        let reconfirm = r.flag()?;
        let count = usize::from(r.u8()?);
        let withdrawn = (0..count)
            .map(|_| Ok(Withdrawal { generation: Generation(r.u64()?), key: r.key()? }))
            .collect::<Result<_, WireError>>()?;
        Ok(Self { revision, policy, reconfirm, withdrawn })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        out.extend_from_slice(&[u8::from(self.reconfirm), self.withdrawn.len() as u8]);
        for withdrawal in &self.withdrawn {
            out.extend_from_slice(&withdrawal.generation.0.to_be_bytes());
            emit_key(&withdrawal.key, out);
        }
    }
}

impl Misdelivered {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { asker: r.key()?, key: r.key()?, stale: r.locator()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_key(&self.asker, out);
        emit_key(&self.key, out);
        emit_locator(&self.stale, out);
    }
}

impl Correction {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let revision = Generation(r.u64()?);
        let policy = r.u32()?;
        let key = r.key()?;
        let (generation, finding) = finding(r)?;
        Ok(Self { revision, policy, key, generation, finding })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        emit_key(&self.key, out);
        emit_finding(self.generation, &self.finding, out);
    }
}
