//! Between the servers and the store: commits and their answers, loads, watches, and what a server notices of a store that does not answer.

use weft_control::directory::Generation;
use weft_control::directory::server::{self, LoadEnd};
use weft_control::directory::store::{CommitResult, StoreOp};
use weft_control::netlord::tenants::records::StoreAnswer;
use weft_fabric::{Duration, Instant};

use super::super::network::Node;
use super::super::store::{Write, WriteResult};
use super::documents::OperationResult;
use super::{Cluster, Event};

impl Cluster {
    pub(super) fn commit(&mut self, server: u16, batch: u64, ops: Vec<StoreOp>, purged: Generation) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.tickets.insert(ticket, (server, self.servers[usize::from(server)].life, batch));
        let failed = Event::Committed { ticket, result: CommitResult::Failed, purged: Generation::default() };
        self.schedule(self.now + self.config.store_timeout, failed);
        if self.network.is_open(Node::Server(server), Node::Store) {
            let after = self.network.latency();
            self.schedule(self.now + after, Event::Commit { ticket, ops, purged });
        }
    }

    pub(super) fn store_begins(&mut self, ticket: u64, ops: Vec<StoreOp>, purged: Generation) {
        if self.store.begin(self.now, ticket, Write::Commit { ops, purged }) {
            self.schedule_store();
        } else {
            self.answer_commit(ticket, CommitResult::Failed);
        }
    }

    fn answer_commit(&mut self, ticket: u64, result: CommitResult) {
        let Some(&(server, ..)) = self.tickets.get(&ticket) else { return };
        if self.network.is_open(Node::Store, Node::Server(server)) {
            let after = self.network.latency();
            self.schedule(self.now + after, Event::Committed { ticket, result, purged: self.store.purged() });
        }
    }

    pub(super) fn schedule_store(&mut self) {
        let at = self.store.deadline();
        if at != Instant::MAX {
            self.schedule(at, Event::StoreRuns);
        }
    }

    pub(super) fn store_runs(&mut self) {
        let results = self.store.run(self.now);
        let any = !results.is_empty();
        for (ticket, result) in results {
            match result {
                WriteResult::Commit(result) => self.answer_commit(ticket, result),
                WriteResult::Replace(result) => self.answer_operation(ticket, OperationResult::Replace(result), Duration::ZERO),
                WriteResult::Amend(revision) => {
                    let answer = revision.map_or(StoreAnswer::Conflict, StoreAnswer::Committed);
                    self.answer_operation(ticket, OperationResult::Amended(answer), Duration::ZERO);
                }
            }
        }
        if any {
            self.pump_watches();
        }
        self.schedule_store();
    }

    pub(super) fn is_connected(&self, server: u16) -> bool {
        let node = Node::Server(server);
        self.network.is_open(node, Node::Store) && self.network.is_open(Node::Store, node)
    }

    /// Whatever is on a stream to a server arrives in order.
    fn stream(&mut self, server: u16, event: Event) {
        let after = self.network.latency();
        let watch = &mut self.servers[usize::from(server)].watch;
        let at = (self.now + after).max(watch.last);
        watch.last = at;
        self.schedule(at, event);
    }

    /// Sends a server everything, in parts, if it waits for that.
    pub(super) fn give_load(&mut self, server: u16) {
        if !self.is_connected(server) || !self.store.has_majority() || !self.is_open() {
            return;
        }
        let node = &mut self.servers[usize::from(server)];
        let Some(load) = node.watch.load.take() else { return };
        let life = node.life;
        let revision = self.store.revision();
        node.watch.position = Some(revision);
        let all = self.store.all();
        for part in all.chunks(LOAD_PART) {
            self.stream(server, Event::Loaded { server, life, load, entries: part.to_vec(), end: None });
        }
        let end = Some(LoadEnd { revision, purged: self.store.purged() });
        self.stream(server, Event::Loaded { server, life, load, entries: Vec::new(), end });
    }

    /// Sends every watching server what it has not been sent.
    pub(super) fn pump_watches(&mut self) {
        for server in 0..self.config.servers {
            self.pump(server);
            self.pump_records(server);
        }
    }

    /// Whether the store reports changes to a server.
    pub(super) fn watches(&self, server: u16) -> bool {
        self.is_connected(server) && self.store.has_majority()
    }

    fn pump(&mut self, server: u16) {
        let revision = self.store.revision();
        let node = &self.servers[usize::from(server)];
        let (Some(from), life) = (node.watch.position, node.life) else { return };
        if from >= revision || !self.watches(server) {
            return;
        }
        match self.store.since(from) {
            Some(changes) => {
                self.servers[usize::from(server)].watch.position = Some(revision);
                self.stream(server, Event::Watched { server, life, from, revision, changes });
            }
            None => {
                self.servers[usize::from(server)].watch.position = None;
                self.stream(server, Event::WatchLost { server, life });
            }
        }
    }

    /// An embedded store is open as long as its server runs.
    fn is_open(&self) -> bool {
        self.config.store.members > 1 || self.store.has_majority()
    }

    /// What servers notice: streams that can go on, and a store that has not answered for a while.
    pub(super) fn look_after_store(&mut self) {
        self.store_runs();
        for server in 0..self.config.servers {
            if self.server(server).is_none() {
                continue;
            }
            let answers = self.is_connected(server) && self.store.has_majority() && self.store.is_writable();
            let now = self.now;
            let watch = &mut self.servers[usize::from(server)].watch;
            watch.silent_since = if answers { None } else { watch.silent_since.or(Some(now)) };
            let is_lost = watch.silent_since.is_some_and(|since| now.saturating_since(since) >= SILENCE);
            if is_lost != std::mem::replace(&mut watch.is_lost, is_lost) {
                let input = if is_lost { server::Input::StoreLost } else { server::Input::StoreBack };
                self.input_server(server, input);
            }
            self.give_load(server);
            self.pump(server);
            self.pump_records(server);
        }
    }
}

const LOAD_PART: usize = 1_000;
/// For so long a server waits before it says that the store is lost.
const SILENCE: Duration = Duration::from_ms(300);
