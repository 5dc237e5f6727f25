//! The bodies. Look-ups and answers, of which there are many, are read in place; the rest become plain values.
//!
//! ```text
//!   LookUp           at_least u64 | asker key or 0 | count u8 | count x key
//!   Answer           revision u64 | policy u32 | count u8 | count x (finding u8, generation u64, [value])
//!   Update           number u64 | known u64 | count u8 | count x (1: put, key, expect u64, value | 2: delete, key, expect u64)
//!   Acknowledgement  number u64 | outcome u8 | at u8 | generation u64
//!   Sync             revision u64 | policy u32 | zeros, as many as the answer may need room
//!   Changes          revision u64 | policy u32 | flags u8 | count u8 | count x (generation u64, key)
//!   Vitals           state u8 | revision u64 | policy u32 | entries u64 | hash u64
//!   Misdelivered     asker key | key | stale locator
//!   Correction       revision u64 | policy u32 | key | finding u8, generation u64, [value]
//!   Commits          from u64 | revision u64 | count u8 | count x (generation u64, key, record)
//!   Digest, -Answer  revision u64 | entries u64 | hash u64
//!   List             after: key or 0 | limit u16            Page    revision u64 | more u8 | count u16 | count x entry
//!   Watch            from u64                               Events  from u64 | revision u64 | count u16 | count x entry
//!   entry            generation u64 | key | 0 or value
//! ```

use super::fields::{
    Reader, WireError, emit_group, emit_key, emit_locator, emit_mapping, emit_optional_key, emit_record, emit_value,
};
use super::{Kind, MAX_KEYS};
use crate::directory::key::{Generation, GroupAddresses, Key, Locator, Mapping, Record, Value};

/// Operations of one update at the most.
pub const MAX_OPS: usize = 32;

/// A message's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// Where are these keys?
    LookUp(LookUp<'a>),
    /// Change these keys, all or none.
    Update(Update),
    /// What was withdrawn since?
    Sync(Sync),
    /// Are you well?
    Health,
    /// A ToR got a packet for somebody who is not there.
    Misdelivered(Misdelivered),
    /// Between servers: what was committed.
    Commits(Commits),
    /// Between servers: what I hold; and you?
    Digest(Digest),
    /// Stream only: the entries in order of keys.
    List {
        /// Those after this key; `None`: from the first.
        after: Option<Key>,
        /// As many as this at the most.
        limit: u16,
    },
    /// Stream only: what changes from now on.
    Watch(Watch),
    /// Stream only: all counters.
    Status,
    /// Ask again with the cookie in this header.
    Challenge,
    /// To [`Message::LookUp`].
    Answer(Answer<'a>),
    /// To [`Message::Update`].
    Acknowledgement(Acknowledgement),
    /// To [`Message::Sync`].
    Changes(Changes),
    /// To [`Message::Health`].
    Vitals(Vitals),
    /// Unasked: what you hold of this key is wrong.
    Correction(Correction),
    /// To [`Message::Digest`].
    DigestAnswer(Digest),
    /// To [`Message::List`].
    Page {
        /// The server's revision.
        revision: Generation,
        /// Whether entries are left.
        more: bool,
        /// In order of keys.
        entries: Vec<Entry>,
    },
    /// To [`Message::Watch`], again and again.
    Events(Change),
    /// To [`Message::Status`]: a JSON object.
    StatusText(&'a str),
}

/// A look-up of 1 to [`MAX_KEYS`] keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookUp<'a> {
    /// The answer must not be older than this revision.
    pub at_least: Generation,
    /// On whose behalf: a key that lives on the asking host. None: the host itself.
    pub asker: Option<Key>,
    /// The number of keys.
    pub count: usize,
    keys: &'a [u8],
}

impl<'a> LookUp<'a> {
    /// The keys, in the order asked.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'a> {
        let mut reader = Reader(self.keys);
        (0..self.count).map(move |_| reader.key().expect("checked by parse"))
    }

    #[inline]
    fn parse(mut reader: Reader<'a>) -> Result<Self, WireError> {
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

    /// Appends the body of a look-up.
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

/// What became of a key of a look-up. Every finding but `Elsewhere` has a generation: that of the mapping, or the revision at which the
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

/// The answers to a look-up's keys, in their order. Those that had no room are left out at the end: ask for them again.
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

    fn parse(mut reader: Reader<'a>) -> Result<Self, WireError> {
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
}

impl Iterator for Results<'_> {
    type Item = (Generation, Finding);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(finding(&mut self.reader).expect("checked by parse"))
    }
}

fn finding(reader: &mut Reader<'_>) -> Result<(Generation, Finding), WireError> {
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

fn emit_finding(generation: Generation, finding: &Finding, out: &mut Vec<u8>) {
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
    /// This copy may have been applied, for the store did not answer, and by now the key has been written too often to tell.
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

/// A key and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The generation.
    pub generation: Generation,
    /// The key.
    pub key: Key,
    /// What it stands for; `None`: it was deleted.
    pub value: Option<Value>,
}

/// From where to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Changes after this revision; those that the server has forgotten are left out, and `from` of the first [`Change`] says so.
    pub from: Generation,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision before.
    pub from: Generation,
    /// The revision after.
    pub revision: Generation,
    /// The changed entries, in order of generation.
    pub entries: Vec<Entry>,
}

impl<'a> Message<'a> {
    /// Reads the body of a message of kind `kind`.
    ///
    /// # Errors
    /// [`WireError`] if it is not one.
    #[inline]
    pub fn parse(kind: Kind, body: &'a [u8]) -> Result<Self, WireError> {
        let reader = Reader(body);
        match kind {
            Kind::LookUp => LookUp::parse(reader).map(Self::LookUp),
            Kind::Answer => Answer::parse(reader).map(Self::Answer),
            _ => Self::parse_rest(kind, reader),
        }
    }

    fn parse_rest(kind: Kind, mut reader: Reader<'a>) -> Result<Self, WireError> {
        let r = &mut reader;
        let message = match kind {
            Kind::LookUp | Kind::Answer => unreachable!("read in place by parse"),
            Kind::Update => Self::Update(update(r)?),
            Kind::Sync => Self::Sync(sync(r)?),
            Kind::Health => Self::Health,
            Kind::Misdelivered => Self::Misdelivered(Misdelivered { asker: r.key()?, key: r.key()?, stale: r.locator()? }),
            Kind::Commits => Self::Commits(commits(r)?),
            Kind::Digest => Self::Digest(digest(r)?),
            Kind::List => Self::List { after: r.optional_key()?, limit: r.u16()? },
            Kind::Watch => Self::Watch(Watch { from: Generation(r.u64()?) }),
            Kind::Status => Self::Status,
            Kind::Challenge => Self::Challenge,
            Kind::Acknowledgement => Self::Acknowledgement(acknowledgement(r)?),
            Kind::Changes => Self::Changes(changes(r)?),
            Kind::Vitals => Self::Vitals(vitals(r)?),
            Kind::Correction => Self::Correction(correction(r)?),
            Kind::DigestAnswer => Self::DigestAnswer(digest(r)?),
            Kind::Page => {
                let revision = Generation(r.u64()?);
                let more = flag(r)?;
                Self::Page { revision, more, entries: entries(r)? }
            }
            Kind::Events => {
                Self::Events(Change { from: Generation(r.u64()?), revision: Generation(r.u64()?), entries: entries(r)? })
            }
            Kind::StatusText => {
                let text = std::str::from_utf8(r.0).map_err(|_| WireError::Field("text"))?;
                r.0 = &[];
                Self::StatusText(text)
            }
        };
        reader.end()?;
        Ok(message)
    }

    /// The kind that goes into its header.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::LookUp(_) => Kind::LookUp,
            Self::Update(_) => Kind::Update,
            Self::Sync(_) => Kind::Sync,
            Self::Health => Kind::Health,
            Self::Misdelivered(_) => Kind::Misdelivered,
            Self::Commits(_) => Kind::Commits,
            Self::Digest(_) => Kind::Digest,
            Self::List { .. } => Kind::List,
            Self::Watch(_) => Kind::Watch,
            Self::Status => Kind::Status,
            Self::Challenge => Kind::Challenge,
            Self::Answer(_) => Kind::Answer,
            Self::Acknowledgement(_) => Kind::Acknowledgement,
            Self::Changes(_) => Kind::Changes,
            Self::Vitals(_) => Kind::Vitals,
            Self::Correction(_) => Kind::Correction,
            Self::DigestAnswer(_) => Kind::DigestAnswer,
            Self::Page { .. } => Kind::Page,
            Self::Events(_) => Kind::Events,
            Self::StatusText(_) => Kind::StatusText,
        }
    }

    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::LookUp(it) => {
                out.extend_from_slice(&it.at_least.0.to_be_bytes());
                emit_optional_key(it.asker.as_ref(), out);
                out.push(it.count as u8);
                out.extend_from_slice(it.keys);
            }
            Self::Answer(it) => {
                emit_state(it.revision, it.policy, out);
                out.push(it.count as u8);
                out.extend_from_slice(it.findings);
            }
            Self::Update(it) => emit_update(it, out),
            Self::Sync(it) => {
                emit_state(it.revision, it.policy, out);
                out.resize(out.len() + usize::from(it.padding), 0);
            }
            Self::Health | Self::Status | Self::Challenge => {}
            Self::Misdelivered(it) => {
                emit_key(&it.asker, out);
                emit_key(&it.key, out);
                emit_locator(&it.stale, out);
            }
            Self::Commits(it) => emit_commits(it, out),
            Self::Digest(it) | Self::DigestAnswer(it) => {
                for number in [it.revision.0, it.entries, it.hash] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
            Self::List { after, limit } => {
                emit_optional_key(after.as_ref(), out);
                out.extend_from_slice(&limit.to_be_bytes());
            }
            Self::Watch(it) => out.extend_from_slice(&it.from.0.to_be_bytes()),
            Self::Acknowledgement(it) => {
                out.extend_from_slice(&it.number.to_be_bytes());
                out.extend_from_slice(&[it.outcome as u8, it.at]);
                out.extend_from_slice(&it.generation.0.to_be_bytes());
            }
            Self::Changes(it) => emit_changes(it, out),
            Self::Vitals(it) => emit_vitals(it, out),
            Self::Correction(it) => {
                emit_state(it.revision, it.policy, out);
                emit_key(&it.key, out);
                emit_finding(it.generation, &it.finding, out);
            }
            Self::Page { revision, more, entries } => {
                out.extend_from_slice(&revision.0.to_be_bytes());
                out.push(u8::from(*more));
                emit_entries(entries, out);
            }
            Self::Events(it) => {
                out.extend_from_slice(&it.from.0.to_be_bytes());
                out.extend_from_slice(&it.revision.0.to_be_bytes());
                emit_entries(&it.entries, out);
            }
            Self::StatusText(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

fn emit_state(revision: Generation, policy: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(&policy.to_be_bytes());
}

fn flag(r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Field("flag")),
    }
}

fn update(r: &mut Reader<'_>) -> Result<Update, WireError> {
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
    Ok(Update { number, known, ops })
}

fn emit_update(update: &Update, out: &mut Vec<u8>) {
    out.extend_from_slice(&update.number.to_be_bytes());
    out.extend_from_slice(&update.known.0.to_be_bytes());
    out.push(update.ops.len() as u8);
    for op in &update.ops {
        out.push(if op.value.is_some() { 1 } else { 2 });
        emit_key(&op.key, out);
        out.extend_from_slice(&op.expect.map_or(ANY, |expect| expect.0).to_be_bytes());
        if let Some(value) = &op.value {
            emit_value(value, out);
        }
    }
}

fn acknowledgement(r: &mut Reader<'_>) -> Result<Acknowledgement, WireError> {
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
    Ok(Acknowledgement { number, outcome, at: r.u8()?, generation: Generation(r.u64()?) })
}

fn sync(r: &mut Reader<'_>) -> Result<Sync, WireError> {
    let revision = Generation(r.u64()?);
    let policy = r.u32()?;
    let padding = u16::try_from(r.0.len()).map_err(|_| WireError::TooLong)?;
    if r.take(usize::from(padding))?.iter().any(|&byte| byte != 0) {
        return Err(WireError::Field("padding"));
    }
    Ok(Sync { revision, policy, padding })
}

fn changes(r: &mut Reader<'_>) -> Result<Changes, WireError> {
    let revision = Generation(r.u64()?);
    let policy = r.u32()?;
    let reconfirm = flag(r)?;
    let count = usize::from(r.u8()?);
    let withdrawn = (0..count)
        .map(|_| Ok(Withdrawal { generation: Generation(r.u64()?), key: r.key()? }))
        .collect::<Result<_, WireError>>()?;
    Ok(Changes { revision, policy, reconfirm, withdrawn })
}

fn emit_changes(changes: &Changes, out: &mut Vec<u8>) {
    emit_state(changes.revision, changes.policy, out);
    out.extend_from_slice(&[u8::from(changes.reconfirm), changes.withdrawn.len() as u8]);
    for withdrawal in &changes.withdrawn {
        out.extend_from_slice(&withdrawal.generation.0.to_be_bytes());
        emit_key(&withdrawal.key, out);
    }
}

fn vitals(r: &mut Reader<'_>) -> Result<Vitals, WireError> {
    let state = match r.u8()? {
        0 => State::Loading,
        1 => State::Serving,
        2 => State::StoreLost,
        3 => State::Leaving,
        _ => return Err(WireError::Field("state")),
    };
    Ok(Vitals { state, revision: Generation(r.u64()?), policy: r.u32()?, entries: r.u64()?, hash: r.u64()? })
}

fn emit_vitals(vitals: &Vitals, out: &mut Vec<u8>) {
    out.push(vitals.state as u8);
    emit_state(vitals.revision, vitals.policy, out);
    out.extend_from_slice(&vitals.entries.to_be_bytes());
    out.extend_from_slice(&vitals.hash.to_be_bytes());
}

fn correction(r: &mut Reader<'_>) -> Result<Correction, WireError> {
    let revision = Generation(r.u64()?);
    let policy = r.u32()?;
    let key = r.key()?;
    let (generation, finding) = finding(r)?;
    Ok(Correction { revision, policy, key, generation, finding })
}

fn commits(r: &mut Reader<'_>) -> Result<Commits, WireError> {
    let from = Generation(r.u64()?);
    let revision = Generation(r.u64()?);
    let count = usize::from(r.u8()?);
    let commit = |r: &mut Reader<'_>| Ok(Commit { generation: Generation(r.u64()?), key: r.key()?, record: r.record()? });
    let commits = (0..count).map(|_| commit(r)).collect::<Result<_, WireError>>()?;
    Ok(Commits { from, revision, commits })
}

fn emit_commits(commits: &Commits, out: &mut Vec<u8>) {
    out.extend_from_slice(&commits.from.0.to_be_bytes());
    out.extend_from_slice(&commits.revision.0.to_be_bytes());
    out.push(commits.commits.len() as u8);
    for commit in &commits.commits {
        out.extend_from_slice(&commit.generation.0.to_be_bytes());
        emit_key(&commit.key, out);
        emit_record(&commit.record, out);
    }
}

fn digest(r: &mut Reader<'_>) -> Result<Digest, WireError> {
    Ok(Digest { revision: Generation(r.u64()?), entries: r.u64()?, hash: r.u64()? })
}

fn entries(r: &mut Reader<'_>) -> Result<Vec<Entry>, WireError> {
    let count = r.u16()?;
    (0..count).map(|_| entry(r)).collect()
}

fn entry(r: &mut Reader<'_>) -> Result<Entry, WireError> {
    let generation = Generation(r.u64()?);
    let key = r.key()?;
    let value = if r.0.first() == Some(&0) {
        r.u8()?;
        None
    } else {
        Some(r.value()?)
    };
    Ok(Entry { generation, key, value })
}

fn emit_entries(entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(&(entries.len() as u16).to_be_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.generation.0.to_be_bytes());
        emit_key(&entry.key, out);
        match &entry.value {
            Some(value) => emit_value(value, out),
            None => out.push(0),
        }
    }
}
