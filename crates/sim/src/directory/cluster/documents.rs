//! Documents: each server's machine of [`weft_control::directory::documents`], and its operations on the store, which fail as commits do.

use weft_control::directory::documents::{Document, Input, Output, ReadResult, ReplaceId, ReplaceResult};
use weft_control::wire::directory::{HEADER, Header};
use weft_fabric::Duration;

use super::super::network::Node;
use super::super::store::Write;
use super::{Cluster, Event};

/// What a server asks of the store.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Read { name: String, known: u32 },
    Replace { name: String, expect: u32, document: Document },
}

/// To which output of the machine an answer belongs.
#[derive(Clone, Debug)]
pub(super) enum Awaited {
    Read(String),
    Replace(ReplaceId),
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(super) enum DocumentResult {
    Read(ReadResult),
    Replace(ReplaceResult),
}

impl Cluster {
    /// Something happens to a server's documents.
    pub(super) fn input_documents(&mut self, server: u16, input: Input<'_>) {
        let node = &mut self.servers[usize::from(server)];
        node.documents.handle(node.clock.read(self.now), input);
        while let Some(output) = self.servers[usize::from(server)].documents.poll() {
            match output {
                Output::Reply { to, kind, body } => {
                    let mut message = Vec::with_capacity(HEADER + body.len());
                    Header { kind, principal: to.principal, cookie: 0, request: to.request }.emit(&mut message);
                    message.extend_from_slice(&body);
                    self.reply(to.stream, message);
                }
                Output::Read { name, known } => {
                    let failed = DocumentResult::Read(ReadResult::Failed);
                    self.request_operation(server, Awaited::Read(name.clone()), Operation::Read { name, known }, failed);
                }
                Output::Replace { replace, name, expect, document, .. } => {
                    let operation = Operation::Replace { name, expect, document };
                    let failed = DocumentResult::Replace(ReplaceResult::Failed);
                    self.request_operation(server, Awaited::Replace(replace), operation, failed);
                }
            }
        }
    }

    /// Sends an operation to the store; without an answer in time it has `failed`.
    fn request_operation(&mut self, server: u16, awaited: Awaited, operation: Operation, failed: DocumentResult) {
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
                let result = match self.store.document(&name) {
                    _ if !self.store.is_writable() => ReadResult::Failed,
                    None => ReadResult::Missing,
                    Some(document) if document.version == known => ReadResult::Unchanged,
                    Some(document) => ReadResult::Found(document.clone()),
                };
                // It takes as long as a commit, and finds what was there at first.
                self.answer_operation(ticket, DocumentResult::Read(result), self.config.store.commit_time);
            }
            Operation::Replace { name, expect, document } => {
                if self.store.begin(self.now, ticket, Write::Replace { name, expect, document }) {
                    self.schedule_store();
                } else {
                    self.answer_operation(ticket, DocumentResult::Replace(ReplaceResult::Failed), Duration::ZERO);
                }
            }
        }
    }

    /// The store answers after `work`.
    pub(super) fn answer_operation(&mut self, ticket: u64, result: DocumentResult, work: Duration) {
        let Some(&(server, ..)) = self.awaited.get(&ticket) else { return };
        if self.network.is_open(Node::Store, Node::Server(server)) {
            let after = work + self.network.latency();
            self.schedule(self.now + after, Event::DocumentDone { ticket, result });
        }
    }

    /// The answer, or the end of the time for it, reaches the server.
    pub(super) fn operation_done(&mut self, ticket: u64, result: DocumentResult) {
        let Some((server, life, awaited)) = self.awaited.remove(&ticket) else { return };
        let node = &self.servers[usize::from(server)];
        if node.life != life || node.machine.is_none() {
            return;
        }
        match (awaited, result) {
            (Awaited::Read(name), DocumentResult::Read(result)) => {
                self.input_documents(server, Input::ReadDone { name: &name, result });
            }
            (Awaited::Replace(replace), DocumentResult::Replace(result)) => {
                self.input_documents(server, Input::ReplaceDone { replace, result });
            }
            _ => debug_assert!(false, "an answer of another kind"),
        }
    }
}
