//! A model of the store behind the servers: what [`weft_control::directory::store`] asks of one, with its times and its failures.
//!
//! ```text
//!   commit arrives --> waits for the primary --> begun --commit_time--> durable on a majority --> answer
//!                        | none: fails              | primary (or the machine) lost:
//!                                                   |   a prefix of what was begun survives, the answers do not
//! ```
//! Replicated: `members` machines, a majority of which must live; the loss of the primary stops commits for `election`.
//! Embedded: one member, whose log may end in a torn record after a crash: what was begun but not durable is cut off anywhere.

use std::collections::{BTreeMap, VecDeque};

use rand::RngExt;
use weft_control::directory::documents::{Document, ReplaceResult};
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::{Generation, Key, Record, UpdateId};
use weft_control::netlord::tenants::records::Plan;
use weft_fabric::rng::Pcg64;
use weft_fabric::{Duration, Instant};

use super::records::Records;

/// How a store works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreConfig {
    /// Machines; 1 is an embedded store.
    pub members: u16,
    /// What a commit takes, besides waiting for its turn.
    pub commit_time: Duration,
    /// What each of its operations takes of the primary, one after another.
    pub op_time: Duration,
    /// From the loss of a primary until there is another.
    pub election: Duration,
    /// Commits that a watch can still be given from; older ones are compacted.
    pub history: usize,
}

/// One commit.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Its revision.
    pub revision: Generation,
    /// When it became durable.
    pub at: Instant,
    /// What it wrote; without a record: a tombstone that it purged.
    pub writes: Vec<(Key, Option<Record>)>,
}

/// A document that became durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEntry {
    /// When it became durable.
    pub at: Instant,
    /// Its name.
    pub name: String,
    /// The document.
    pub document: Document,
}

/// What the store is to make durable.
#[derive(Clone, Debug)]
pub enum Write {
    /// Records: all or none.
    Commit {
        /// What to write.
        ops: Vec<StoreOp>,
        /// A conflict if tombstones beyond this generation were purged.
        purged: Generation,
    },
    /// A document in place of the one of version `expect`.
    Replace {
        /// Its name.
        name: String,
        /// The version before; 0: there must be none.
        expect: u32,
        /// The document.
        document: Document,
    },
    /// Entries of tenants' records: all or none.
    Amend(Plan),
}

/// How a write ended.
#[derive(Clone, Debug)]
pub enum WriteResult {
    /// Of records.
    Commit(CommitResult),
    /// Of a document.
    Replace(ReplaceResult),
    /// Of tenants' records: the revision; `None`: something was not as expected.
    Amend(Option<u64>),
}

/// The store.
#[derive(Debug)]
pub struct Store {
    config: StoreConfig,
    contents: BTreeMap<Key, (Generation, Record)>,
    documents: BTreeMap<String, Document>,
    /// Every document that ever became durable, in order.
    document_log: Vec<DocumentEntry>,
    records: Records,
    /// Everything that ever became durable, for those who check.
    log: Vec<LogEntry>,
    revision: Generation,
    purged: Generation,
    /// By member: whether it lives.
    alive: Vec<bool>,
    primary: Option<u16>,
    /// When the next primary takes over.
    election_at: Instant,
    /// Begun and not durable yet, in order.
    begun: VecDeque<Begun>,
    busy_until: Instant,
    rng: Pcg64,
}

#[derive(Debug)]
struct Begun {
    ticket: u64,
    done_at: Instant,
    write: Write,
}

impl Store {
    /// An empty store, all members alive.
    pub fn new(config: StoreConfig, rng: Pcg64) -> Self {
        Self {
            contents: BTreeMap::new(),
            documents: BTreeMap::new(),
            document_log: Vec::new(),
            records: Records::default(),
            log: Vec::new(),
            revision: Generation::default(),
            purged: Generation::default(),
            alive: vec![true; usize::from(config.members)],
            primary: Some(0),
            election_at: Instant::MAX,
            begun: VecDeque::new(),
            busy_until: Instant::ZERO,
            rng,
            config,
        }
    }

    /// Begins a write; false if there is nobody to take it.
    pub fn begin(&mut self, now: Instant, ticket: u64, write: Write) -> bool {
        if !self.is_writable() {
            return false;
        }
        let ops = match &write {
            Write::Commit { ops, .. } => ops.len(),
            Write::Replace { .. } => 1,
            Write::Amend(plan) => plan.writes.len(),
        };
        let work = self.config.op_time * ops as u64;
        self.busy_until = self.busy_until.max(now) + work;
        self.begun.push_back(Begun { ticket, done_at: self.busy_until + self.config.commit_time, write });
        true
    }

    /// When something happens by itself.
    pub fn deadline(&self) -> Instant {
        let commit = self.begun.front().map_or(Instant::MAX, |begun| begun.done_at);
        commit.min(self.election_at)
    }

    /// Lets happen what is due; the results of writes by ticket.
    pub fn run(&mut self, now: Instant) -> Vec<(u64, WriteResult)> {
        if self.election_at <= now {
            self.elect();
        }
        let mut results = Vec::new();
        while self.begun.front().is_some_and(|begun| begun.done_at <= now) {
            let begun = self.begun.pop_front().expect("just seen");
            results.push((begun.ticket, self.apply(begun.done_at, begun.write)));
        }
        results
    }

    /// A member dies. If it is the primary, what it had begun survives in part, and nobody hears of it: the tickets whose answers are lost.
    pub fn fail(&mut self, now: Instant, member: u16) -> Vec<u64> {
        self.alive[usize::from(member)] = false;
        if self.primary != Some(member) && self.has_majority() {
            return Vec::new();
        }
        self.primary = None;
        if self.has_majority() {
            self.election_at = now + self.config.election;
        }
        let survive = self.rng.random_range(0..=self.begun.len());
        let mut lost = Vec::new();
        for (at, begun) in std::mem::take(&mut self.begun).into_iter().enumerate() {
            lost.push(begun.ticket);
            if at < survive {
                self.apply(now, begun.write);
            }
        }
        self.busy_until = now;
        lost
    }

    /// A member is back.
    pub fn restore(&mut self, now: Instant, member: u16) {
        self.alive[usize::from(member)] = true;
        if self.primary.is_none() && self.election_at == Instant::MAX && self.has_majority() {
            // An embedded store is open as soon as its log is read.
            self.election_at = if self.config.members == 1 { now } else { now + self.config.election };
        }
    }

    /// Whether commits are taken.
    pub const fn is_writable(&self) -> bool {
        self.primary.is_some()
    }

    /// The primary.
    pub const fn primary(&self) -> Option<u16> {
        self.primary
    }

    /// Whether a majority lives: then loads and watches are served.
    pub fn has_majority(&self) -> bool {
        2 * self.alive.iter().filter(|&&alive| alive).count() > self.alive.len()
    }

    /// The revision of the last commit.
    pub const fn revision(&self) -> Generation {
        self.revision
    }

    /// Tombstones of generations up to this one may have been purged.
    pub const fn purged(&self) -> Generation {
        self.purged
    }

    /// All commits after a revision, in order, with what they wrote; `None` if they have been compacted.
    pub fn since(&self, revision: Generation) -> Option<Vec<Stored>> {
        let first = self.log.partition_point(|entry| entry.revision <= revision);
        if self.log.len() - first > self.config.history {
            return None;
        }
        let stored = |entry: &LogEntry, key: Key, record: &Option<Record>| Stored {
            key,
            generation: entry.revision,
            record: record.clone(),
        };
        Some(self.log[first..].iter().flat_map(|e| e.writes.iter().map(move |(key, record)| stored(e, *key, record))).collect())
    }

    /// Everything, in order of keys.
    pub fn all(&self) -> Vec<Stored> {
        let stored = |(key, (generation, record)): (&Key, &(Generation, Record))| Stored {
            key: *key,
            generation: *generation,
            record: Some(record.clone()),
        };
        self.contents.iter().map(stored).collect()
    }

    /// What is held of a key.
    pub fn get(&self, key: &Key) -> Option<&(Generation, Record)> {
        self.contents.get(key)
    }

    /// A document.
    pub fn document(&self, name: &str) -> Option<&Document> {
        self.documents.get(name)
    }

    /// Every document that ever became durable, in order.
    pub fn document_log(&self) -> &[DocumentEntry] {
        &self.document_log
    }

    /// The tenants' records.
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Everything that ever became durable, in order.
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// The same, to be tampered with by those who check their checks. The store itself does not read it but for watches.
    pub const fn log_mut(&mut self) -> &mut Vec<LogEntry> {
        &mut self.log
    }

    /// Fills an empty store in one commit, without time or checks.
    pub fn fill(&mut self, records: impl IntoIterator<Item = (Key, weft_control::directory::Value)>) {
        self.revision = Generation(self.revision.0 + 1);
        let update = UpdateId { writer: weft_control::directory::PrincipalId(0), number: 1 };
        let mut writes = Vec::new();
        for (key, value) in records {
            let record = Record::next(None, Generation::default(), update, Some(value));
            self.contents.insert(key, (self.revision, record.clone()));
            writes.push((key, Some(record)));
        }
        self.log.push(LogEntry { revision: self.revision, at: Instant::ZERO, writes });
    }

    fn elect(&mut self) {
        self.election_at = Instant::MAX;
        self.primary = self.has_majority().then(|| self.alive.iter().position(|&alive| alive).expect("a majority lives") as u16);
    }

    fn apply(&mut self, at: Instant, write: Write) -> WriteResult {
        match write {
            Write::Commit { ops, purged } => WriteResult::Commit(self.commit(at, &ops, purged)),
            Write::Replace { name, expect, document } => WriteResult::Replace(self.replace(at, name, expect, document)),
            Write::Amend(plan) => WriteResult::Amend(self.records.commit(at, &plan)),
        }
    }

    fn replace(&mut self, at: Instant, name: String, expect: u32, document: Document) -> ReplaceResult {
        let held = self.documents.get(&name).map_or(0, |held| held.version);
        if held != expect {
            return ReplaceResult::Conflict(held);
        }
        self.documents.insert(name.clone(), document.clone());
        self.document_log.push(DocumentEntry { at, name, document });
        ReplaceResult::Committed
    }

    fn commit(&mut self, at: Instant, ops: &[StoreOp], purged: Generation) -> CommitResult {
        let generation_of = |key: &Key| self.contents.get(key).map_or(Generation::default(), |(generation, _)| *generation);
        let fits = ops.iter().all(|op| generation_of(&op.key) == op.expect);
        if !fits || self.purged > purged {
            return CommitResult::Conflict(ops.iter().map(|op| self.contents.get(&op.key).cloned()).collect());
        }
        self.revision = Generation(self.revision.0 + 1);
        let mut writes = Vec::with_capacity(ops.len());
        for op in ops {
            self.contents.insert(op.key, (self.revision, op.record.clone()));
            writes.push((op.key, Some(op.record.clone())));
        }
        self.log.push(LogEntry { revision: self.revision, at, writes });
        CommitResult::Done(self.revision)
    }

    /// Removes tombstones that still have these generations, in a commit of its own.
    pub fn purge(&mut self, now: Instant, tombstones: &[(Key, Generation)]) {
        if !self.is_writable() {
            return;
        }
        let mut writes = Vec::new();
        for (key, generation) in tombstones {
            if self.contents.get(key).is_some_and(|(held, record)| held == generation && record.value.is_none()) {
                self.contents.remove(key);
                self.purged = self.purged.max(*generation);
                writes.push((*key, None));
            }
        }
        if !writes.is_empty() {
            self.revision = Generation(self.revision.0 + 1);
            self.log.push(LogEntry { revision: self.revision, at: now, writes });
        }
    }
}
