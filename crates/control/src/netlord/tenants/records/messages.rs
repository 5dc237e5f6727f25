//! Records in messages: the bodies that a server sends, and what a client reads in them.

use super::MAX_BODY;
use super::answer::{Listed, ListedState};
use super::name::NameError;
use super::plan::{Entries, Op, Outcome};
use crate::wire::directory::{Amend, AmendOutcome, Amended, Message, RecordState, Records, RecordsState};

/// Bytes of records in one message, unless a single one has more.
const PAGE: usize = 48 << 10;

/// Records in a page that an operator asks for.
const BROWSE_MAX: u16 = 512;

/// What an operator may ask for: names that begin so.
const BROWSED: [&str; 4] = ["site", "t/", "r/", "v/"];

/// An answer to [`Subscribe`](crate::wire::directory::Subscribe): the bodies of one or more messages.
pub fn pages(revision: u64, state: RecordsState, listed: Vec<Listed>) -> Vec<Vec<u8>> {
    let all = split(listed);
    if all.is_empty() {
        return vec![page(revision, state, false, &[])];
    }
    let last = all.len() - 1;
    all.iter().enumerate().map(|(at, listed)| page(revision, state, at < last, listed)).collect()
}

/// How many records are read for a page that an operator asks for; `None`: there are no records of such names.
pub fn browse_limit(prefix: &str, limit: u16) -> Option<usize> {
    // Routers may be long: an answer of the store has bounds too.
    let most = if prefix.starts_with("r/") { BROWSE_MAX / 8 } else { BROWSE_MAX };
    BROWSED.iter().any(|kind| prefix.starts_with(kind)).then(|| usize::from(limit.clamp(1, most)))
}

/// An answer to [`Browse`](crate::wire::directory::Browse), from entries in order of names, of which `limit` were read.
pub fn browse_page(entries: Entries, limit: usize) -> Vec<u8> {
    let Entries { revision, found } = entries;
    let is_full = found.len() >= limit;
    let listed = found.into_iter().map(|it| Listed { name: it.name, state: ListedState::Present(it.generation, it.body) });
    // One message is answered: the rest is asked for from where it ends.
    let mut all = split(listed.collect());
    let first = if all.is_empty() { Vec::new() } else { all.remove(0) };
    page(revision, RecordsState::Found, is_full || !all.is_empty(), &first)
}

/// An answer to [`Amend`]; `None`: the principal may not change records.
pub fn amended(outcome: Option<&Outcome>) -> Vec<u8> {
    let (outcome, revision, at, text) = match outcome {
        None => (AmendOutcome::Refused, 0, 0, ""),
        Some(Outcome::Committed(revision)) => (AmendOutcome::Committed, *revision, 0, ""),
        Some(Outcome::Conflict(at, generation)) => (AmendOutcome::Conflict, *generation, *at, ""),
        Some(Outcome::Invalid(at, why)) => (AmendOutcome::Invalid, 0, *at, why.as_str()),
        Some(Outcome::Busy) => (AmendOutcome::Busy, 0, 0, ""),
        Some(Outcome::Unknown) => (AmendOutcome::Unknown, 0, 0, ""),
    };
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= MAX_BODY).last().unwrap_or(0);
    let at = u16::try_from(at).unwrap_or(u16::MAX);
    let mut body = Vec::new();
    Message::Amended(Amended { outcome, revision, at, text: &text[..end] }).emit(&mut body);
    body
}

/// What became of a change; `None`: the principal may not change records.
pub fn outcome_of(it: &Amended<'_>) -> Option<Outcome> {
    let at = usize::from(it.at);
    Some(match it.outcome {
        AmendOutcome::Refused => return None,
        AmendOutcome::Committed => Outcome::Committed(it.revision),
        AmendOutcome::Conflict => Outcome::Conflict(at, it.revision),
        AmendOutcome::Invalid => Outcome::Invalid(at, it.text.to_owned()),
        AmendOutcome::Busy => Outcome::Busy,
        AmendOutcome::Unknown => Outcome::Unknown,
    })
}

/// The changes that are asked for.
///
/// # Errors
/// A name that no record can have.
pub fn ops_of(amend: &Amend<'_>) -> Result<Vec<Op>, NameError> {
    let op = |it: &crate::wire::directory::AmendOp<'_>| {
        Ok(Op { name: it.name.parse()?, expect: it.expect, body: it.body.map(str::to_owned) })
    };
    amend.ops.iter().map(op).collect()
}

/// The records of a message.
pub fn listed<'a>(records: &'a Records<'a>) -> impl Iterator<Item = Listed> + 'a {
    records.records.iter().map(|(name, state)| {
        let state = match *state {
            RecordState::Absent => ListedState::Absent,
            RecordState::Forbidden => ListedState::Forbidden,
            RecordState::Present { generation, body } => ListedState::Present(generation, body.to_owned()),
        };
        Listed { name: (*name).to_owned(), state }
    })
}

/// What fits into a message each.
fn split(listed: Vec<Listed>) -> Vec<Vec<Listed>> {
    let mut pages: Vec<Vec<Listed>> = Vec::new();
    let mut bytes = 0;
    for it in listed {
        let own = it.name.len() + if let ListedState::Present(_, body) = &it.state { body.len() } else { 0 } + 16;
        match pages.last_mut().filter(|_| bytes + own <= PAGE) {
            Some(page) => page.push(it),
            None => {
                bytes = 0;
                pages.push(vec![it]);
            }
        }
        bytes += own;
    }
    pages
}

fn page(revision: u64, state: RecordsState, more: bool, listed: &[Listed]) -> Vec<u8> {
    fn record(Listed { name, state }: &Listed) -> (&str, RecordState<'_>) {
        let state = match state {
            ListedState::Absent => RecordState::Absent,
            ListedState::Forbidden => RecordState::Forbidden,
            ListedState::Present(generation, body) => RecordState::Present { generation: *generation, body },
        };
        (name, state)
    }
    let mut body = Vec::new();
    Message::Records(Records { revision, state, more, records: listed.iter().map(record).collect() }).emit(&mut body);
    body
}
