//! Documents: each server's machine of [`weft_control::directory::documents`]; and the operations of servers on documents and tenants' records in the store,
//! which fail as commits do.

use std::borrow::Cow;

use weft_control::directory::documents::{Document, Input, Output, ReadResult, ReplaceId, ReplaceResult, Requester};
use weft_control::netlord::tenants::records::{Entries, Plan, Reads, StoreAnswer};
use weft_fabric::{Duration, Instant};

use super::super::network::Node;
use super::super::records::Records;
use super::super::store::Write;
use super::{Cluster, Defect, Event};

/// With [`Defect::LostChanges`]: one change of records of so many, about, is lost.
const LOST_OF: u64 = 20;
/// With [`Defect::OldRecords`]: how old they are.
const OLD_RECORDS: Duration = Duration::from_ms(200);
/// With [`Defect::OldDocuments`]: how old they are.
const OLD_DOCUMENTS: Duration = Duration::from_secs(1);

/// What a server asks of the store.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Read { name: String, known: u32 },
    Replace { name: String, expect: u32, document: Document },
    Entries(Reads),
    Page { prefix: String, after: String, limit: usize },
    Amend(Plan),
}

/// What an answer belongs to.
#[derive(Clone, Debug)]
pub(super) enum Awaited {
    Read(String),
    Replace(ReplaceId),
    Subscribe { from: Requester, reads: Reads },
    Browse { from: Requester, limit: usize },
    Amendment(u64),
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(super) enum OperationResult {
    Read(ReadResult),
    Replace(ReplaceResult),
    /// `None`: the store does not answer.
    Entries(Option<Entries>),
    Amended(StoreAnswer),
}

impl Cluster {
    /// Something happens to a server's documents.
    pub(super) fn input_documents(&mut self, server: u16, input: Input<'_>) {
        let node = &mut self.servers[usize::from(server)];
        node.documents.handle(node.clock.read(self.now), input);
        while let Some(output) = self.servers[usize::from(server)].documents.poll() {
            match output {
                Output::Reply { to, kind, body } => self.answer(to, kind, vec![body]),
                Output::Read { name, known } => {
                    let failed = OperationResult::Read(ReadResult::Failed);
                    self.request_operation(server, Awaited::Read(name.clone()), Operation::Read { name, known }, failed);
                }
                Output::Replace { replace, name, expect, document, .. } => {
                    let operation = Operation::Replace { name, expect, document };
                    let failed = OperationResult::Replace(ReplaceResult::Failed);
                    self.request_operation(server, Awaited::Replace(replace), operation, failed);
                }
            }
        }
    }

    /// When a server last failed to read a document from the store.
    pub fn failed_read_at(&self, server: u16) -> Option<Instant> {
        self.servers[usize::from(server)].failed_read
    }

    /// Sends an operation to the store; without an answer in time it has `failed`.
    pub(super) fn request_operation(&mut self, server: u16, awaited: Awaited, operation: Operation, failed: OperationResult) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.awaited.insert(ticket, (server, self.servers[usize::from(server)].life, awaited));
        self.schedule(self.now + self.config.store_timeout, Event::DocumentDone { ticket, result: failed });
        if self.network.is_open(Node::Server(server), Node::Store) {
            let after = self.network.latency();
            self.schedule(self.now + after, Event::Document { ticket, operation });
        }
    }

    /// An operation reaches the store.
    pub(super) fn begin_operation(&mut self, ticket: u64, operation: Operation) {
        match operation {
            Operation::Read { name, known } => {
                self.read_at_store(ticket, OperationResult::Read(self.read_document(&name, known)))
            }
            Operation::Entries(reads) => {
                let entries = self.store.is_writable().then(|| self.records_to_read().read(&reads));
                self.read_at_store(ticket, OperationResult::Entries(entries));
            }
            Operation::Page { prefix, after, limit } => {
                let entries = self.store.is_writable().then(|| self.records_to_read().page(&prefix, &after, limit));
                self.read_at_store(ticket, OperationResult::Entries(entries));
            }
            Operation::Replace { name, expect, document } => {
                let failed = OperationResult::Replace(ReplaceResult::Failed);
                self.write_at_store(ticket, Write::Replace { name, expect, document }, failed);
            }
            Operation::Amend(mut plan) => {
                if self.defect == Some(Defect::IgnoredVersions) {
                    plan.checks.clear();
                }
                if self.defect == Some(Defect::LostChanges) && ticket.is_multiple_of(LOST_OF) {
                    let revision = self.store.records().revision();
                    return self.read_at_store(ticket, OperationResult::Amended(StoreAnswer::Committed(revision)));
                }
                self.write_at_store(ticket, Write::Amend(plan), OperationResult::Amended(StoreAnswer::Failed));
            }
        }
    }

    fn read_document(&self, name: &str, known: u32) -> ReadResult {
        let document = if self.defect == Some(Defect::OldDocuments) {
            let log = self.store.document_log().iter().filter(|it| it.name == name);
            log.take_while(|it| it.at + OLD_DOCUMENTS <= self.now).last().map(|it| &it.document)
        } else {
            self.store.document(name)
        };
        match document {
            _ if !self.store.is_writable() => ReadResult::Failed,
            None => ReadResult::Missing,
            Some(document) if document.version == known => ReadResult::Unchanged,
            Some(document) => ReadResult::Found(document.clone()),
        }
    }

    fn records_to_read(&self) -> Cow<'_, Records> {
        let records = self.store.records();
        if self.defect == Some(Defect::OldRecords) {
            let then = Instant::from_ps(self.now.as_ps().saturating_sub(OLD_RECORDS.as_ps()));
            return Cow::Owned(records.at(records.revision_at(then)));
        }
        Cow::Borrowed(records)
    }

    /// A read takes as long as a commit, and finds what was there at first.
    fn read_at_store(&mut self, ticket: u64, result: OperationResult) {
        self.answer_operation(ticket, result, self.config.store.commit_time);
    }

    fn write_at_store(&mut self, ticket: u64, write: Write, failed: OperationResult) {
        if self.store.begin(self.now, ticket, write) {
            self.schedule_store();
        } else {
            self.answer_operation(ticket, failed, Duration::ZERO);
        }
    }

    /// The store answers after `work`.
    pub(super) fn answer_operation(&mut self, ticket: u64, result: OperationResult, work: Duration) {
        let Some(&(server, ..)) = self.awaited.get(&ticket) else { return };
        if self.network.is_open(Node::Store, Node::Server(server)) {
            let after = work + self.network.latency();
            self.schedule(self.now + after, Event::DocumentDone { ticket, result });
        }
    }

    /// The answer, or the end of the time for it, reaches the server.
    pub(super) fn operation_done(&mut self, ticket: u64, result: OperationResult) {
        let Some((server, life, awaited)) = self.awaited.remove(&ticket) else { return };
        let node = &self.servers[usize::from(server)];
        if node.life != life || node.machine.is_none() {
            return;
        }
        match (awaited, result) {
            (Awaited::Read(name), OperationResult::Read(result)) => {
                if result == ReadResult::Failed {
                    self.servers[usize::from(server)].failed_read = Some(self.now);
                }
                self.input_documents(server, Input::ReadDone { name: &name, result });
            }
            (Awaited::Replace(replace), OperationResult::Replace(result)) => {
                self.input_documents(server, Input::ReplaceDone { replace, result });
            }
            (Awaited::Subscribe { from, reads }, OperationResult::Entries(entries)) => {
                self.subscribed(server, from, &reads, entries);
            }
            (Awaited::Browse { from, limit }, OperationResult::Entries(entries)) => self.browsed(from, limit, entries),
            (Awaited::Amendment(id), OperationResult::Entries(entries)) => {
                self.amendment_answered(server, id, entries.map_or(StoreAnswer::Failed, StoreAnswer::Entries));
            }
            (Awaited::Amendment(id), OperationResult::Amended(answer)) => self.amendment_answered(server, id, answer),
            _ => debug_assert!(false, "an answer of another kind"),
        }
    }
}
