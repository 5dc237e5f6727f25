//! What was withdrawn of the mappings that an agent holds: asked for in pages, or sent unasked to those that subscribed.
//!
//! ```text
//!   Follow           revision u64 | policy u32 | flags u8 (1: push) | filter, 64 to 1,024 bytes
//!   Withdrawn        revision u64 | policy u32 | flags u8 (1: more, 2: reconfirm, 4: subscribed) | count u8 | count x group
//!   group            generation u64 | count u8 (from 1) | count x name u32
//! ```

use super::fields::{Reader, WireError, emit_state};
use crate::directory::interest::Interest;
use crate::directory::key::Generation;

/// Asks which of the keys in a filter were withdrawn since a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The revision up to which the client knows all withdrawals.
    pub revision: Generation,
    /// The version of the policy under which it got its mappings.
    pub policy: u32,
    /// Whether it wants later withdrawals unasked.
    pub push: bool,
    /// The keys that it holds, and those on whose behalf it asked.
    pub interest: Interest,
}

/// The answer to [`Follow`], or, with request number 0, what was withdrawn since the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithdrawnPage {
    /// The page has all that was withdrawn up to this revision.
    pub revision: Generation,
    /// The version of the server's policy.
    pub policy: u32,
    /// There are more pages: ask again from `revision`.
    pub more: bool,
    /// The server does not know what was withdrawn, or the policy changed: look all up again.
    pub reconfirm: bool,
    /// The server will send later withdrawals unasked.
    pub subscribed: bool,
    /// The names of the keys, by the generation that withdrew them.
    pub groups: Vec<(Generation, Vec<u32>)>,
}

impl Follow {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (revision, policy, push) = (Generation(r.u64()?), r.u32()?, r.flag()?);
        let filter = r.take(r.0.len())?;
        let interest = Interest::from_bytes(filter).ok_or(WireError::Field("filter"))?;
        Ok(Self { revision, policy, push, interest })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        out.push(u8::from(self.push));
        out.extend_from_slice(self.interest.bytes());
    }

    /// The bytes of its body.
    pub const fn length(&self) -> usize {
        13 + self.interest.bytes().len()
    }
}

impl WithdrawnPage {
    /// The bytes of a page's body without groups.
    pub const EMPTY: usize = 14;

    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (revision, policy, flags) = (Generation(r.u64()?), r.u32()?, r.u8()?);
        if flags > 7 {
            return Err(WireError::Field("flags"));
        }
        let count = usize::from(r.u8()?);
        let groups = (0..count).map(|_| group(r)).collect::<Result<_, WireError>>()?;
        let [more, reconfirm, subscribed] = [flags & 1 > 0, flags & 2 > 0, flags & 4 > 0];
        Ok(Self { revision, policy, more, reconfirm, subscribed, groups })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_state(self.revision, self.policy, out);
        let flags = u8::from(self.more) | u8::from(self.reconfirm) << 1 | u8::from(self.subscribed) << 2;
        out.extend_from_slice(&[flags, self.groups.len() as u8]);
        for (generation, names) in &self.groups {
            out.extend_from_slice(&generation.0.to_be_bytes());
            out.push(names.len() as u8);
            names.iter().for_each(|name| out.extend_from_slice(&name.to_be_bytes()));
        }
    }
}

fn group(r: &mut Reader<'_>) -> Result<(Generation, Vec<u32>), WireError> {
    let generation = Generation(r.u64()?);
    let count = r.u8()?;
    if count == 0 {
        return Err(WireError::Field("count"));
    }
    let names = (0..count).map(|_| r.u32()).collect::<Result<_, WireError>>()?;
    Ok((generation, names))
}
