//! A server's part in named documents, such as the tenants' file: who may publish them, how their parts are assembled, which version is served.
//!
//! ```text
//!   Fetch    --> read within FRESH? --yes-------------------------------------------> Reply: a part of that version
//!                   | no                                                                ^
//!                   '--> Read --> the store --> ReadDone (fails: what was read before) -'
//!   Publish  --> may publish? --> draft of the stream, part by part --last--> Replace --> the store --> ReplaceDone --> Reply
//! ```
//! A document is assembled per stream and reaches the store only when all of its bytes are there, so that neither the store nor a reader ever has
//! an incomplete one. The store compares versions (it replaces version `expect` or nothing); a publication that it has committed is served from
//! memory at once, also if a read that began earlier ends later.
//!
//! The machine has no timers and so no `deadline`: what has been read is compared with `now` when somebody asks, and the store ends each operation
//! within a time of its own. The caller drains [`Documents::poll`] after each [`Documents::handle`].

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::denied;
use super::key::PrincipalId;
use super::policy::{Policy, Role};
use super::request::StreamId;
use crate::time::{Duration, Instant};
use crate::wire::directory::{
    DOCUMENT_PART, DocumentPart, Fetch, FetchOutcome, Kind, Message, Publish, PublishOutcome, Published,
};

/// How long the store is not read again after it has answered.
pub const FRESH: Duration = Duration::from_ms(500);
/// How long it is not read again after it has failed, if something is known from before.
pub const UNAVAILABLE: Duration = Duration::from_secs(5);
/// Names whose documents are kept in memory; one more, and all are forgotten.
pub const CACHED_NAMES: usize = 16;

/// A document, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its version, greater than 0.
    pub version: u32,
    /// All its bytes.
    pub bytes: Arc<[u8]>,
}

/// Who asked, and to which request the reply belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The stream that the request came on.
    pub stream: StreamId,
    /// The principal that sent it, verified.
    pub principal: PrincipalId,
    /// Its number.
    pub request: u64,
}

/// Names a write to the store: [`Output::Replace`] and its [`Input::ReplaceDone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplaceId(u64);

/// What the store says of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// There is none of this name.
    Missing,
    /// It still has the version that was known.
    Unchanged,
    /// It has this version.
    Found(Document),
    /// The store does not answer.
    Failed,
}

/// What became of a write to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceResult {
    /// It is durable.
    Committed,
    /// Nothing was changed: the document has this version (0: there is none).
    Conflict(u32),
    /// The store does not answer: it may have been applied.
    Failed,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A client asks for a part of a document. Every principal may.
    Fetch {
        /// Who asks.
        from: Requester,
        /// For what.
        fetch: Fetch<'a>,
    },
    /// A client publishes a part of a document.
    Publish {
        /// Who publishes.
        from: Requester,
        /// The policy in force.
        policy: &'a Policy,
        /// What.
        part: Publish<'a>,
    },
    /// The store has answered an [`Output::Read`].
    ReadDone {
        /// The document's name.
        name: &'a str,
        /// The answer.
        result: ReadResult,
    },
    /// The store has answered an [`Output::Replace`].
    ReplaceDone {
        /// Which write.
        replace: ReplaceId,
        /// The answer.
        result: ReplaceResult,
    },
    /// A stream has ended, and what was asked on it is not answered.
    StreamClosed(StreamId),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a reply.
    Reply {
        /// To whom.
        to: Requester,
        /// Its kind.
        kind: Kind,
        /// Its body.
        body: Vec<u8>,
    },
    /// Read a document from the store.
    Read {
        /// Its name.
        name: String,
        /// The version that is known, whose bytes need not be read; 0: none.
        known: u32,
    },
    /// Write a document to the store if the one that is there has version `expect`.
    Replace {
        /// Which write.
        replace: ReplaceId,
        /// Who publishes it.
        principal: PrincipalId,
        /// Its name.
        name: String,
        /// The version before; 0: there must be none.
        expect: u32,
        /// The document.
        document: Document,
    },
}

/// A server's documents.
#[derive(Debug, Default)]
pub struct Documents {
    cached: BTreeMap<String, Cached>,
    /// Reads of the store that have not ended, one a name.
    reads: BTreeMap<String, Reading>,
    /// Documents that are being assembled, one a stream.
    drafts: BTreeMap<StreamId, Draft>,
    /// Writes to the store that have not ended.
    writes: BTreeMap<ReplaceId, Writing>,
    next_replace: u64,
    out: VecDeque<Output>,
}

/// What is known of a name.
#[derive(Debug)]
struct Cached {
    /// `None`: there is no document of this name.
    document: Option<Document>,
    /// When the store said so, and how long it is not asked again.
    since: Instant,
    valid: Duration,
}

/// A read of the store.
#[derive(Debug, Default)]
struct Reading {
    waiting: Vec<(Requester, Wanted)>,
    /// What was known when it began.
    before: Option<Document>,
    /// What was committed since: what the read finds may be older.
    committed: Option<Document>,
}

/// Which part of a document a client asked for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    known: u32,
    offset: u64,
}

#[derive(Debug)]
struct Draft {
    name: String,
    expect: u32,
    version: u32,
    length: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Writing {
    /// `None`: its stream has ended.
    from: Option<Requester>,
    name: String,
    document: Document,
}

impl Documents {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what happened at `now`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Fetch { from, fetch } => self.fetch(now, from, &fetch),
            Input::Publish { from, policy, part } => self.publish(from, policy, &part),
            Input::ReadDone { name, result } => self.read_done(now, name, result),
            Input::ReplaceDone { replace, result } => self.replace_done(now, replace, result),
            Input::StreamClosed(stream) => self.close(stream),
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn fetch(&mut self, now: Instant, from: Requester, fetch: &Fetch<'_>) {
        let wanted = Wanted { known: fetch.known, offset: fetch.offset };
        let cached = self.cached.get(fetch.name);
        if let Some(cached) = cached.filter(|it| it.is_valid(now)) {
            return self.out.push_back(reply(from, &Message::Document(part(cached.document.as_ref(), wanted))));
        }
        // Of many clients that want the same document, one causes a read.
        if let Some(reading) = self.reads.get_mut(fetch.name) {
            return reading.waiting.push((from, wanted));
        }
        let before = cached.and_then(|it| it.document.clone());
        let known = before.as_ref().map_or(0, |it| it.version);
        self.reads.insert(fetch.name.to_owned(), Reading { waiting: vec![(from, wanted)], before, committed: None });
        self.out.push_back(Output::Read { name: fetch.name.to_owned(), known });
    }

    fn read_done(&mut self, now: Instant, name: &str, result: ReadResult) {
        let Some(Reading { waiting, before, committed }) = self.reads.remove(name) else { return };
        let (known, valid) = match (committed, result) {
            (Some(newer), _) => (Some(Some(newer)), FRESH),
            (None, ReadResult::Missing) => (Some(None), FRESH),
            (None, ReadResult::Found(document)) => (Some(Some(document)), FRESH),
            (None, ReadResult::Unchanged) => (before.map(Some), FRESH),
            (None, ReadResult::Failed) => (before.map(Some), UNAVAILABLE),
        };
        for (from, wanted) in waiting {
            let part = match &known {
                Some(document) => part(document.as_ref(), wanted),
                None => DocumentPart::none(FetchOutcome::Elsewhere),
            };
            self.out.push_back(reply(from, &Message::Document(part)));
        }
        if let Some(document) = known {
            self.remember(name, Cached { document, since: now, valid });
        }
    }

    fn publish(&mut self, from: Requester, policy: &Policy, part: &Publish<'_>) {
        let before = self.drafts.remove(&from.stream);
        // Who is denied is for administrators alone to say.
        let may =
            policy.may_publish(from.principal) && (part.name != denied::DOCUMENT || policy.role(from.principal) == Role::Admin);
        if !may {
            return self.published(from, PublishOutcome::Refused, 0);
        }
        let draft = if part.offset == 0 { Some(Draft::new(part)) } else { before };
        let Some(mut draft) = draft.filter(|it| it.continues_with(part)) else {
            return self.published(from, PublishOutcome::Malformed, 0);
        };
        draft.bytes.extend_from_slice(part.bytes);
        if draft.is_complete() {
            return self.replace(from, draft);
        }
        // Only the last part may be empty, or a document would never end.
        if part.bytes.is_empty() {
            return self.published(from, PublishOutcome::Malformed, 0);
        }
        self.drafts.insert(from.stream, draft);
        self.published(from, PublishOutcome::More, 0);
    }

    fn replace(&mut self, from: Requester, draft: Draft) {
        let Draft { name, expect, version, bytes, .. } = draft;
        let document = Document { version, bytes: bytes.into() };
        let replace = ReplaceId(self.next_replace);
        self.next_replace += 1;
        self.writes.insert(replace, Writing { from: Some(from), name: name.clone(), document: document.clone() });
        self.out.push_back(Output::Replace { replace, principal: from.principal, name, expect, document });
    }

    fn replace_done(&mut self, now: Instant, replace: ReplaceId, result: ReplaceResult) {
        let Some(Writing { from, name, document }) = self.writes.remove(&replace) else { return };
        let version = document.version;
        let (outcome, held) = match result {
            ReplaceResult::Committed => {
                self.committed(now, &name, document);
                (PublishOutcome::Committed, version)
            }
            ReplaceResult::Conflict(held) => (PublishOutcome::Conflict, held),
            ReplaceResult::Failed => (PublishOutcome::Unknown, 0),
        };
        if let Some(from) = from {
            self.published(from, outcome, held);
        }
    }

    /// The store's answers to several writers may arrive in another order than it committed them: the greatest version is the newest.
    fn committed(&mut self, now: Instant, name: &str, document: Document) {
        let cached = self.cached.get(name).and_then(|it| it.document.as_ref());
        if cached.is_some_and(|it| it.version > document.version) {
            return;
        }
        if let Some(reading) = self.reads.get_mut(name) {
            reading.committed = Some(document.clone());
        }
        self.remember(name, Cached { document: Some(document), since: now, valid: FRESH });
    }

    fn close(&mut self, stream: StreamId) {
        self.drafts.remove(&stream);
        for reading in self.reads.values_mut() {
            reading.waiting.retain(|(from, _)| from.stream != stream);
        }
        for write in self.writes.values_mut() {
            write.from = write.from.filter(|from| from.stream != stream);
        }
    }

    fn remember(&mut self, name: &str, cached: Cached) {
        if self.cached.len() >= CACHED_NAMES && !self.cached.contains_key(name) {
            self.cached.clear();
        }
        self.cached.insert(name.to_owned(), cached);
    }

    fn published(&mut self, to: Requester, outcome: PublishOutcome, version: u32) {
        self.out.push_back(reply(to, &Message::Published(Published { outcome, version })));
    }
}

fn reply(to: Requester, message: &Message<'_>) -> Output {
    let mut body = Vec::new();
    message.emit(&mut body);
    Output::Reply { to, kind: message.kind(), body }
}

/// As many bytes from the offset on as a message takes; none if the version is the one that is known.
fn part(document: Option<&Document>, wanted: Wanted) -> DocumentPart<'_> {
    let Some(Document { version, bytes }) = document else { return DocumentPart::none(FetchOutcome::Unknown) };
    let length = bytes.len() as u64;
    let offset = wanted.offset.min(length);
    let rest = if *version == wanted.known { &[] } else { &bytes[offset as usize..] };
    DocumentPart {
        outcome: FetchOutcome::Found,
        version: *version,
        length,
        offset,
        bytes: &rest[..rest.len().min(DOCUMENT_PART)],
    }
}

impl Cached {
    fn is_valid(&self, now: Instant) -> bool {
        now.saturating_since(self.since) < self.valid
    }
}

impl Draft {
    fn new(part: &Publish<'_>) -> Self {
        let &Publish { name, expect, version, length, .. } = part;
        Self { name: name.to_owned(), expect, version, length, bytes: Vec::new() }
    }

    /// Whether a part is the next one of this document. Versions grow.
    fn continues_with(&self, part: &Publish<'_>) -> bool {
        let own = (self.name.as_str(), self.expect, self.version, self.length, self.bytes.len() as u64);
        own == (part.name, part.expect, part.version, part.length, part.offset) && part.version > part.expect
    }

    fn is_complete(&self) -> bool {
        self.bytes.len() as u64 >= self.length
    }
}
