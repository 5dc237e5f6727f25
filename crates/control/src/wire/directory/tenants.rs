//! Records of tenants: asked for, listed and changed over streams only. What names and bodies say is the business of
//! [`records`](crate::netlord::tenants::records).
//!
//! ```text
//!   Subscribe   fresh u8 | count u16, count x (tenant, count u16, count x VIF)                    names: length u8, then bytes
//!   Browse      prefix | after | limit u16                                                        text: length u16, then UTF-8
//!   Records     revision u64 | state u8 | more u8 | count u16, count x (name, 0 | 1, generation u64, text | 2)
//!   Amend       count u16, count x (name, expect u64, 0 | 1, text)
//!   Amended     outcome u8 | revision u64 | at u16 | text
//!   Notice      count u16, count x tenant
//! ```

use super::fields::{Reader, WireError};

/// Records that one [`Amend`] changes at most.
pub const MAX_AMEND: usize = 120;

/// A tenant, and VIFs of its.
pub type Wanted<'a> = (&'a str, Vec<&'a str>);

/// An agent asks for tenants, and is notified of their changes from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// It wants nothing else any more.
    pub fresh: bool,
    /// Tenants and VIFs of theirs; none: only whether the server is well.
    pub tenants: Vec<Wanted<'a>>,
}

/// An operator asks for a page of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Browse<'a> {
    /// Those whose names begin so.
    pub prefix: &'a str,
    /// Those after this name; empty: from the first.
    pub after: &'a str,
    /// As many as this at most.
    pub limit: u16,
}

/// How a server answers a question for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordsState {
    /// The store has no records: its tenants are a document.
    None = 0,
    /// It has records.
    Found = 1,
    /// The store does not answer.
    Elsewhere = 2,
    /// The principal may not ask this, or asks for too much.
    Refused = 3,
}

/// The answer to [`Subscribe`] and to [`Browse`], in one or more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    /// The store's revision that all of the answer is of.
    pub revision: u64,
    /// What it says.
    pub state: RecordsState,
    /// The answer goes on: for [`Subscribe`] with the next message, for [`Browse`] with the next question.
    pub more: bool,
    /// Names and what is there.
    pub records: Vec<(&'a str, RecordState<'a>)>,
}

/// What is there of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState<'a> {
    /// Nothing.
    Absent,
    /// A record.
    Present {
        /// The revision that wrote it.
        generation: u64,
        /// Its body.
        body: &'a str,
    },
    /// The principal may not read it.
    Forbidden,
}

/// A change of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmendOp<'a> {
    /// Which.
    pub name: &'a str,
    /// The generation that it must have; 0: there must be none; `None`: any.
    pub expect: Option<u64>,
    /// Its body from now on; `None`: it is removed.
    pub body: Option<&'a str>,
}

/// Changes records, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amend<'a> {
    /// Each record once.
    pub ops: Vec<AmendOp<'a>>,
}

/// The result of an [`Amend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AmendOutcome {
    /// It is durable.
    Committed = 0,
    /// The principal may not do that.
    Refused = 1,
    /// A record has another generation than expected.
    Conflict = 2,
    /// The store did not answer: it may have been applied.
    Unknown = 3,
    /// The records would contradict each other.
    Invalid = 4,
    /// Others change the same again and again.
    Busy = 5,
}

/// The answer to [`Amend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amended<'a> {
    /// The result.
    pub outcome: AmendOutcome,
    /// The store's revision if it is durable; the record's generation after a conflict.
    pub revision: u64,
    /// The op that caused it.
    pub at: u16,
    /// What is wrong.
    pub text: &'a str,
}

/// Unasked: these tenants have changed; an empty name: all may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Their names.
    pub tenants: Vec<&'a str>,
}

fn name<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let length = usize::from(r.u8()?);
    std::str::from_utf8(r.take(length)?).map_err(|_| WireError::Field("name"))
}

fn emit_name(name: &str, out: &mut Vec<u8>) {
    debug_assert!(name.len() <= usize::from(u8::MAX), "{name}");
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn text<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let length = usize::from(r.u16()?);
    std::str::from_utf8(r.take(length)?).map_err(|_| WireError::Field("text"))
}

fn emit_text(text: &str, out: &mut Vec<u8>) {
    debug_assert!(text.len() <= usize::from(u16::MAX));
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn list<'a, T>(r: &mut Reader<'a>, mut item: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>) -> Result<Vec<T>, WireError> {
    let count = r.u16()?;
    // Grows with what is there, not with what is claimed.
    (0..count).map(|_| item(r)).collect()
}

fn emit_list<T>(items: &[T], out: &mut Vec<u8>, emit: impl Fn(&T, &mut Vec<u8>)) {
    out.extend_from_slice(&(items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| emit(item, out));
}

impl<'a> Subscribe<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { fresh: r.flag()?, tenants: list(r, |r| Ok((name(r)?, list(r, name)?)))? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.fresh));
        emit_list(&self.tenants, out, |(tenant, vifs), out| {
            emit_name(tenant, out);
            emit_list(vifs, out, |vif, out| emit_name(vif, out));
        });
    }
}

impl<'a> Browse<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { prefix: name(r)?, after: name(r)?, limit: r.u16()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_name(self.prefix, out);
        emit_name(self.after, out);
        out.extend_from_slice(&self.limit.to_be_bytes());
    }
}

impl<'a> Records<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let revision = r.u64()?;
        let state = match r.u8()? {
            0 => RecordsState::None,
            1 => RecordsState::Found,
            2 => RecordsState::Elsewhere,
            3 => RecordsState::Refused,
            _ => return Err(WireError::Field("state")),
        };
        let record = |r: &mut Reader<'a>| {
            let name = name(r)?;
            let state = match r.u8()? {
                0 => RecordState::Absent,
                1 => RecordState::Present { generation: r.u64()?, body: text(r)? },
                2 => RecordState::Forbidden,
                _ => return Err(WireError::Field("record")),
            };
            Ok((name, state))
        };
        Ok(Self { revision, state, more: r.flag()?, records: list(r, record)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.revision.to_be_bytes());
        out.extend_from_slice(&[self.state as u8, u8::from(self.more)]);
        emit_list(&self.records, out, |(name, state), out| {
            emit_name(name, out);
            match state {
                RecordState::Absent => out.push(0),
                RecordState::Present { generation, body } => {
                    out.push(1);
                    out.extend_from_slice(&generation.to_be_bytes());
                    emit_text(body, out);
                }
                RecordState::Forbidden => out.push(2),
            }
        });
    }
}

impl<'a> Amend<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let op = |r: &mut Reader<'a>| {
            let (name, expect) = (name(r)?, r.u64()?);
            let body = if r.flag()? { Some(text(r)?) } else { None };
            Ok(AmendOp { name, expect: (expect != u64::MAX).then_some(expect), body })
        };
        let ops = list(r, op)?;
        if (1..=MAX_AMEND).contains(&ops.len()) { Ok(Self { ops }) } else { Err(WireError::Field("count")) }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_list(&self.ops, out, |op, out| {
            emit_name(op.name, out);
            out.extend_from_slice(&op.expect.unwrap_or(u64::MAX).to_be_bytes());
            out.push(u8::from(op.body.is_some()));
            if let Some(body) = op.body {
                emit_text(body, out);
            }
        });
    }
}

impl<'a> Amended<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let outcome = match r.u8()? {
            0 => AmendOutcome::Committed,
            1 => AmendOutcome::Refused,
            2 => AmendOutcome::Conflict,
            3 => AmendOutcome::Unknown,
            4 => AmendOutcome::Invalid,
            5 => AmendOutcome::Busy,
            _ => return Err(WireError::Field("outcome")),
        };
        Ok(Self { outcome, revision: r.u64()?, at: r.u16()?, text: text(r)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.outcome as u8);
        out.extend_from_slice(&self.revision.to_be_bytes());
        out.extend_from_slice(&self.at.to_be_bytes());
        emit_text(self.text, out);
    }
}

impl<'a> Notice<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { tenants: list(r, name)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_list(&self.tenants, out, |tenant, out| emit_name(tenant, out));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Kind, Message};
    use super::*;

    fn reads_back(message: &Message<'_>) {
        let mut body = Vec::new();
        message.emit(&mut body);
        assert_eq!(Message::parse(message.kind(), &body).as_ref(), Ok(message));
        for end in 0..body.len() {
            assert!(Message::parse(message.kind(), &body[..end]).is_err(), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn messages_read_back(
            names in prop::collection::vec("[a-z/.-]{0,9}", 1..6),
            text in "\\PC{0,40}",
            numbers: [u64; 2],
            flags: [bool; 2],
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let [fresh, more] = flags;
            let tenants = names.iter().map(|&tenant| (tenant, names.clone())).collect();
            reads_back(&Message::Subscribe(Subscribe { fresh, tenants }));
            reads_back(&Message::Browse(Browse { prefix: names[0], after: names[names.len() - 1], limit: 7 }));
            let states = [RecordState::Absent, RecordState::Present { generation: numbers[0], body: &text }, RecordState::Forbidden];
            let records = names.iter().copied().zip(states.into_iter().cycle()).collect();
            reads_back(&Message::Records(Records { revision: numbers[1], state: RecordsState::Found, more, records }));
            let ops = names.iter().map(|&name| AmendOp {
                name,
                expect: fresh.then_some(numbers[0] / 2),
                body: more.then_some(text.as_str()),
            });
            reads_back(&Message::Amend(Amend { ops: ops.collect() }));
            reads_back(&Message::Amended(Amended { outcome: AmendOutcome::Invalid, revision: numbers[1], at: 3, text: &text }));
            reads_back(&Message::Notice(Notice { tenants: names }));
        }

        #[test]
        fn nothing_panics(body in prop::collection::vec(any::<u8>(), 0..80)) {
            for kind in [Kind::Subscribe, Kind::Browse, Kind::Records, Kind::Amend, Kind::Amended, Kind::Notice] {
                if let Ok(message) = Message::parse(kind, &body) {
                    let mut emitted = Vec::new();
                    message.emit(&mut emitted);
                    prop_assert_eq!(&emitted, &body);
                }
            }
        }
    }

    #[test]
    fn a_count_without_its_items_costs_nothing() {
        for kind in [Kind::Subscribe, Kind::Notice, Kind::Amend] {
            assert!(Message::parse(kind, &[0, 0xff, 0xff, 1]).is_err());
        }
        assert!(Message::parse(Kind::Amend, &[0, 0]).is_err(), "it changes nothing");
    }
}
