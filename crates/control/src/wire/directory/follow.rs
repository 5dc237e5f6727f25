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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Kind, Message};
    use super::*;

    fn page() -> impl Strategy<Value = WithdrawnPage> {
        let group = (any::<u64>().prop_map(Generation), prop::collection::vec(any::<u32>(), 1..=255));
        (any::<[bool; 3]>(), any::<u64>(), any::<u32>(), prop::collection::vec(group, 0..5)).prop_map(
            |([more, reconfirm, subscribed], revision, policy, groups)| WithdrawnPage {
                revision: Generation(revision),
                policy,
                more,
                reconfirm,
                subscribed,
                groups,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read(page in page(), push in any::<bool>(), shift in 6u32..=10, byte in any::<u8>()) {
            let interest = Interest::from_bytes(&vec![byte; 1 << shift]).expect("a filter");
            let ask = Follow { revision: page.revision, policy: page.policy, push, interest };
            for message in [Message::Follow(ask.clone()), Message::Withdrawn(page)] {
                let mut bytes = Vec::new();
                message.emit(&mut bytes);
                prop_assert_eq!(Message::parse(message.kind(), &bytes), Ok(message.clone()));
                prop_assert!(matches!(message, Message::Withdrawn(_)) || bytes.len() == ask.length());
                bytes.push(0);
                prop_assert!(Message::parse(message.kind(), &bytes).is_err(), "a byte too many");
            }
        }

        #[test]
        fn other_bytes_are_an_error_or_read_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for kind in [Kind::Follow, Kind::Withdrawn] {
                if let Ok(message) = Message::parse(kind, &bytes) {
                    let mut emitted = Vec::new();
                    message.emit(&mut emitted);
                    prop_assert_eq!(&emitted, &bytes);
                }
            }
        }
    }
}
