//! The one thread that writes: what waits is written in one transaction, with one fsync, and answered when that is done.
//!
//! After an error of the disk redb refuses all further work. Then the file is opened again before the next commit: what of the failed
//! transaction is there afterwards may be all or nothing, so it was answered by [`CommitResult::Failed`], and watches end with a gap.

use std::collections::VecDeque;
use std::sync::Arc;

use redb::{Database, Durability, ReadableTable, WriteTransaction};
use tokio::sync::{mpsc, oneshot};
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::{Generation, Key, Record};
use weft_control::netlord::tenants::records::Plan;
use weft_control::wire::directory::emit_key;

use super::file::{self, META, NAMED, PROBE, PURGED, RECORDS, REVISION, failure, join, split, split_document};
use super::{Shared, entries};
use crate::store::watching::{QUEUE, Watch, WatchSender, pair};
use crate::store::{Committed, EntryEvent, EntryWatch, Replaced, StoreError, StoreStatus, WatchEvent};

/// Reopens the file.
pub type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// What the writer is asked to do.
#[derive(Debug)]
pub enum Request {
    Commit { ops: Vec<StoreOp>, purged: Generation, reply: oneshot::Sender<Committed> },
    Purge(Vec<(Key, Generation)>, oneshot::Sender<Result<usize, StoreError>>),
    Document(NewDocument, oneshot::Sender<Replaced>),
    Amend(Plan, oneshot::Sender<Option<u64>>),
    Watch(Generation, oneshot::Sender<Watch>),
    WatchEntries(oneshot::Sender<EntryWatch>),
    Status(oneshot::Sender<Result<StoreStatus, StoreError>>),
}

/// A new version of a document.
#[derive(Debug)]
pub struct NewDocument {
    pub name: String,
    pub expect: u32,
    pub version: u32,
    pub bytes: Arc<[u8]>,
}

/// Requests that are written together at most.
const GROUP: usize = 64;

/// Changed records that are remembered for watches that begin late.
const REMEMBERED: usize = 8192;

pub struct Writer {
    opener: Opener,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Request>,
    revision: Generation,
    purged: Generation,
    /// What the last transaction failed with, if it did.
    broken: Option<StoreError>,
    /// Whether that is in the log, and nothing was written since.
    logged: bool,
    watches: Vec<WatchSender>,
    entry_watches: Vec<mpsc::Sender<EntryEvent>>,
    /// The last commits, oldest first, and the revision before them.
    history: VecDeque<WatchEvent>,
    history_after: Generation,
    remembered: usize,
}

/// A group of requests on its way to the disk.
#[derive(Default)]
struct Group {
    commits: Vec<(Committed, oneshot::Sender<Committed>)>,
    purges: Vec<(usize, oneshot::Sender<Result<usize, StoreError>>)>,
    documents: Vec<(Replaced, oneshot::Sender<Replaced>)>,
    amended: Vec<(Option<u64>, oneshot::Sender<Option<u64>>)>,
    events: Vec<WatchEvent>,
    entry_events: Vec<EntryEvent>,
}

impl Writer {
    pub fn new(opener: Opener, shared: Arc<Shared>, queue: mpsc::Receiver<Request>, meta: &file::Meta) -> Self {
        let (revision, purged) = (meta.revision, meta.purged);
        Self {
            opener,
            shared,
            queue,
            revision,
            purged,
            broken: None,
            logged: false,
            watches: Vec::new(),
            entry_watches: Vec::new(),
            history: VecDeque::new(),
            history_after: revision,
            remembered: 0,
        }
    }

    /// Until all handles of the store are gone.
    pub fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut requests = vec![first];
            while requests.len() < GROUP {
                match self.queue.try_recv() {
                    Ok(request) => requests.push(request),
                    Err(_) => break,
                }
            }
            self.serve(requests);
        }
        // The file is closed before the lock, which the opener holds, is let go.
        *self.shared.database.write() = None;
    }

    fn serve(&mut self, requests: Vec<Request>) {
        let mut writes = Vec::new();
        for request in requests {
            match request {
                Request::Watch(after, reply) => {
                    // Writes that came before it are not lost: the watch gets them as events.
                    let _ = reply.send(self.watch(after));
                }
                Request::WatchEntries(reply) => {
                    let (sender, watch) = mpsc::channel(QUEUE);
                    self.entry_watches.push(sender);
                    let _ = reply.send(watch);
                }
                Request::Status(reply) => {
                    let _ = reply.send(self.status());
                }
                write => writes.push(write),
            }
        }
        if writes.is_empty() {
            return;
        }
        let mut group = Group::default();
        let (revision, purged) = (self.revision, self.purged);
        let written = self.reopened().and_then(|()| self.write(writes, &mut group));
        if let Err(error) = &written {
            self.fail(error, revision, purged);
        }
        group.answer(written.is_ok());
        if written.is_ok() {
            self.wrote();
            group.entry_events.into_iter().for_each(|event| self.publish_entries(event));
            group.events.into_iter().for_each(|event| self.publish(event));
        }
    }

    /// Applies the requests in one transaction. On an error every reply that is in neither list is dropped, which means "failed" as well.
    fn write(&mut self, requests: Vec<Request>, group: &mut Group) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let database = shared.database.read();
        let database = database.as_ref().ok_or_else(|| StoreError::Unreachable("it is not open".into()))?;
        let mut transaction = database.begin_write().map_err(failure)?;
        transaction.set_durability(Durability::Immediate).map_err(failure)?;
        let before = self.revision;
        for request in requests {
            match request {
                Request::Commit { ops, purged, reply } => {
                    let result = self.commit(&transaction, ops, purged, &mut group.events)?;
                    group.commits.push((Committed { result, purged: self.purged }, reply));
                }
                Request::Purge(tombstones, reply) => {
                    let removed = self.purge(&transaction, tombstones, &mut group.events);
                    group.purges.push((removed?, reply));
                }
                Request::Document(document, reply) => {
                    let replaced = replace_document(&transaction, &document);
                    group.documents.push((replaced?, reply));
                }
                Request::Amend(plan, reply) => {
                    let revision = entries::amend(&transaction, &plan)?;
                    if revision.is_some() {
                        let names = plan.writes.into_iter().map(|(name, _)| name).collect();
                        group.entry_events.push(EntryEvent::Changed(names));
                    }
                    group.amended.push((revision, reply));
                }
                Request::Watch(..) | Request::WatchEntries(_) | Request::Status(_) => unreachable!("answered before"),
            }
        }
        let is_new = !group.entry_events.is_empty() || group.documents.iter().any(|(replaced, _)| *replaced == Replaced::Done);
        if self.revision == before && !is_new {
            return transaction.abort().map_err(failure);
        }
        {
            let mut meta = transaction.open_table(META).map_err(failure)?;
            meta.insert(REVISION, self.revision.0).map_err(failure)?;
            meta.insert(PURGED, self.purged.0).map_err(failure)?;
        }
        transaction.commit().map_err(failure)
    }

    fn commit(
        &mut self,
        transaction: &WriteTransaction,
        ops: Vec<StoreOp>,
        purged: Generation,
        events: &mut Vec<WatchEvent>,
    ) -> Result<CommitResult, StoreError> {
        let mut table = transaction.open_table(RECORDS).map_err(failure)?;
        let names: Vec<Vec<u8>> = ops.iter().map(|op| name(&op.key)).collect();
        let mut held = Vec::with_capacity(ops.len());
        for name in &names {
            held.push(match table.get(name.as_slice()).map_err(failure)? {
                Some(bytes) => Some(split(bytes.value())?),
                None => None,
            });
        }
        let generation_of =
            |held: &Option<(Generation, Record)>| held.as_ref().map_or(Generation(0), |(generation, _)| *generation);
        if self.purged > purged || ops.iter().zip(&held).any(|(op, held)| op.expect != generation_of(held)) {
            return Ok(CommitResult::Conflict(held));
        }
        let revision = Generation(self.revision.0 + 1);
        let mut bytes = Vec::new();
        for (op, name) in ops.iter().zip(&names) {
            join(revision, &op.record, &mut bytes);
            table.insert(name.as_slice(), bytes.as_slice()).map_err(failure)?;
        }
        let changes = ops.into_iter().map(|op| Stored { key: op.key, generation: revision, record: Some(op.record) }).collect();
        events.push(WatchEvent::Changes { revision, changes, purged: None });
        self.revision = revision;
        Ok(CommitResult::Done(revision))
    }

    fn purge(
        &mut self,
        transaction: &WriteTransaction,
        tombstones: Vec<(Key, Generation)>,
        events: &mut Vec<WatchEvent>,
    ) -> Result<usize, StoreError> {
        let mut table = transaction.open_table(RECORDS).map_err(failure)?;
        let mut changes = Vec::new();
        for (key, generation) in tombstones {
            let name = name(&key);
            let same = match table.get(name.as_slice()).map_err(failure)? {
                Some(bytes) => matches!(split(bytes.value())?, (found, Record { value: None, .. }) if found == generation),
                None => false,
            };
            if same {
                table.remove(name.as_slice()).map_err(failure)?;
                changes.push(Stored { key, generation, record: None });
            }
        }
        let removed = changes.len();
        if removed > 0 {
            let last = changes.iter().map(|change| change.generation).max().unwrap_or_default();
            self.purged = self.purged.max(last);
            self.revision = Generation(self.revision.0 + 1);
            changes.sort_by_key(|change| change.generation);
            events.push(WatchEvent::Changes { revision: self.revision, changes, purged: Some(self.purged) });
        }
        Ok(removed)
    }

    fn watch(&mut self, after: Generation) -> Watch {
        let (sender, watch) = pair();
        if after < self.history_after || after > self.revision {
            let _ = sender.send(WatchEvent::Gap(format!("revision {} is not remembered", after.0)));
            return watch;
        }
        let late = self.history.iter().filter(|event| matches!(event, WatchEvent::Changes { revision, .. } if *revision > after));
        if late.cloned().all(|event| sender.send(event)) {
            self.watches.push(sender);
        }
        watch
    }

    fn publish(&mut self, event: WatchEvent) {
        self.watches.retain(|watch| watch.send(event.clone()));
        self.remembered += weight(&event);
        self.history.push_back(event);
        while self.remembered > REMEMBERED {
            let Some(oldest) = self.history.pop_front() else { break };
            self.remembered -= weight(&oldest);
            if let WatchEvent::Changes { revision, .. } = oldest {
                self.history_after = revision;
            }
        }
    }

    fn publish_entries(&mut self, event: EntryEvent) {
        // Who is too far behind begins again: its watch ends.
        self.entry_watches.retain(|watch| watch.try_send(event.clone()).is_ok());
    }

    /// Nothing is known of the transaction that failed. What was before it is still there, or the store is not the one it was.
    fn fail(&mut self, error: &StoreError, revision: Generation, purged: Generation) {
        if !std::mem::replace(&mut self.logged, true) {
            tracing::error!(%error, "the store cannot be written");
        }
        self.broken = Some(error.clone());
        (self.revision, self.purged) = (revision, purged);
        // Tenants' records may have changed with it.
        self.publish_entries(EntryEvent::Gap);
    }

    fn wrote(&mut self) {
        if std::mem::take(&mut self.logged) {
            tracing::info!("the store can be written again");
        }
    }

    /// Opens the file again if the last transaction failed.
    fn reopened(&mut self) -> Result<(), StoreError> {
        if self.broken.is_none() {
            return Ok(());
        }
        let mut database = self.shared.database.write();
        *database = None;
        let opened = (self.opener)()?;
        let meta = file::check(&opened, &self.shared.identity.cluster)?;
        if meta.identity != self.shared.identity || meta.revision < self.revision {
            return Err(StoreError::Replaced(format!("revision {} is now {}", self.revision.0, meta.revision.0)));
        }
        *database = Some(opened);
        drop(database);
        if meta.revision != self.revision {
            // The transaction that had failed is there: no watch was sent what it changed.
            self.watches.clear();
            self.history.clear();
            self.remembered = 0;
            self.history_after = meta.revision;
        }
        (self.revision, self.purged) = (meta.revision, meta.purged);
        self.broken = None;
        tracing::debug!(revision = self.revision.0, "the store was opened again");
        Ok(())
    }

    /// After an error it is well when something could be written.
    fn status(&mut self) -> Result<StoreStatus, StoreError> {
        if self.broken.is_some() {
            let probed = self.reopened().and_then(|()| self.probe());
            if let Err(error) = probed {
                self.fail(&error, self.revision, self.purged);
                return Err(error);
            }
            self.wrote();
        }
        let bytes = self.shared.path.as_ref().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |metadata| metadata.len());
        Ok(StoreStatus { revision: self.revision, bytes, description: "redb".into() })
    }

    fn probe(&self) -> Result<(), StoreError> {
        let database = self.shared.database.read();
        let database = database.as_ref().ok_or_else(|| StoreError::Unreachable("it is not open".into()))?;
        let transaction = database.begin_write().map_err(failure)?;
        {
            let mut meta = transaction.open_table(META).map_err(failure)?;
            meta.insert(PROBE, self.revision.0).map_err(failure)?;
        }
        transaction.commit().map_err(failure)
    }
}

impl Group {
    /// Who is not answered here hears that it failed, for his reply is dropped.
    fn answer(&mut self, durable: bool) {
        if !durable {
            return;
        }
        for (result, reply) in self.commits.drain(..) {
            let _ = reply.send(result);
        }
        for (removed, reply) in self.purges.drain(..) {
            let _ = reply.send(Ok(removed));
        }
        for (revision, reply) in self.amended.drain(..) {
            let _ = reply.send(revision);
        }
        for (replaced, reply) in self.documents.drain(..) {
            let _ = reply.send(replaced);
        }
    }
}

fn replace_document(transaction: &WriteTransaction, document: &NewDocument) -> Result<Replaced, StoreError> {
    let mut table = transaction.open_table(NAMED).map_err(failure)?;
    let held = match table.get(document.name.as_str()).map_err(failure)? {
        Some(bytes) => split_document(bytes.value())?.0,
        None => 0,
    };
    if held != document.expect {
        return Ok(Replaced::Conflict(held));
    }
    let bytes = [&document.version.to_be_bytes()[..], &document.bytes].concat();
    table.insert(document.name.as_str(), bytes.as_slice()).map_err(failure)?;
    Ok(Replaced::Done)
}

fn name(key: &Key) -> Vec<u8> {
    let mut name = Vec::with_capacity(24);
    emit_key(key, &mut name);
    name
}

fn weight(event: &WatchEvent) -> usize {
    if let WatchEvent::Changes { changes, .. } = event { changes.len() } else { 0 }
}
