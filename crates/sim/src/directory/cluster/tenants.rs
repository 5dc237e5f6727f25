//! Tenants' records at a server, over the machines of [`weft_control::netlord::tenants::records`]: subscriptions, pages and changes of streams, and notices
//! of what changes in the store.

use std::collections::BTreeMap;

use weft_control::directory::documents::Requester;
use weft_control::directory::request::StreamId;
use weft_control::netlord::tenants::records::messages::{amended, browse_limit, browse_page, ops_of, pages};
use weft_control::netlord::tenants::records::{
    Amendment, Entries, Interest, Name, Outcome, Reads, Step, StoreAnswer, answer, are_names, reads_of,
};
use weft_control::wire::directory::{Amend, Browse, HEADER, Header, Kind, Message, Notice, RecordsState, Subscribe};
use weft_fabric::Instant;

use super::documents::{Awaited, Operation, OperationResult};
use super::{Cluster, Defect, Event, operator_principal};

/// What a server knows of tenants' records: who asked for which.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    interest: Interest,
    /// Streams that subscribe, and the bytes of the budget that their subscriptions have.
    subscribers: BTreeMap<StreamId, usize>,
    /// Changes under way.
    amendments: BTreeMap<u64, (Requester, Amendment)>,
    last_amendment: u64,
    /// Up to which revision the store has reported changes; `None`: it has reported none yet.
    position: Option<u64>,
    /// Reports of the store arrive in order.
    last: Instant,
}

impl Cluster {
    /// A request of a stream reaches its server.
    pub(super) fn receive_tenants(&mut self, server: u16, from: Requester, message: &Message<'_>) {
        match message {
            Message::Subscribe(asked) => self.subscribe(server, from, asked),
            Message::Browse(asked) => self.browse(server, from, asked),
            Message::Amend(asked) => self.amend(server, from, asked),
            _ => {}
        }
    }

    fn subscribe(&mut self, server: u16, from: Requester, asked: &Subscribe<'_>) {
        if !asked.tenants.iter().all(|(tenant, vifs)| are_names(tenant, vifs.iter().copied())) {
            return self.break_stream(from.stream);
        }
        if !self.register(server, from, asked) {
            return self.answer(from, Kind::Records, pages(0, RecordsState::Refused, Vec::new()));
        }
        let reads = reads_of(asked.tenants.iter().map(|(tenant, vifs)| (*tenant, vifs.as_slice())));
        let awaited = Awaited::Subscribe { from, reads: reads.clone() };
        self.request_operation(server, awaited, Operation::Entries(reads), OperationResult::Entries(None));
    }

    /// Notes what a stream wants, before anything is read for it. False if it is too much.
    fn register(&mut self, server: u16, from: Requester, asked: &Subscribe<'_>) -> bool {
        let node = &mut self.servers[usize::from(server)];
        let interest = &mut node.tenants.interest;
        if asked.fresh {
            interest.clear(from.stream);
        }
        interest.open(from.stream);
        for (tenant, vifs) in &asked.tenants {
            interest.subscribe(from.stream, tenant, vifs.iter().copied());
        }
        let bytes = interest.bytes(from.stream);
        let before = node.tenants.subscribers.remove(&from.stream);
        before.into_iter().for_each(|before| node.usage.release(from.principal, before));
        let has_room = node.usage.charge(0, from.principal, false, bytes);
        if has_room {
            node.tenants.subscribers.insert(from.stream, bytes);
        } else {
            node.tenants.interest.clear(from.stream);
        }
        has_room
    }

    /// The store has answered a subscription.
    pub(super) fn subscribed(&mut self, server: u16, from: Requester, reads: &Reads, entries: Option<Entries>) {
        let Some(entries) = entries else {
            return self.answer(from, Kind::Records, pages(0, RecordsState::Elsewhere, Vec::new()));
        };
        let revision = entries.revision;
        let reads_all =
            self.servers[usize::from(server)].policy.reads_tenants(from.principal) || self.defect == Some(Defect::OpenTenants);
        let (has_records, listed) = answer(reads, entries, from.principal, reads_all);
        let state = if has_records { RecordsState::Found } else { RecordsState::None };
        self.answer(from, Kind::Records, pages(revision, state, if has_records { listed } else { Vec::new() }));
    }

    fn browse(&mut self, server: u16, from: Requester, asked: &Browse<'_>) {
        let may = self.servers[usize::from(server)].policy.reads_tenants(from.principal);
        let Some(limit) = browse_limit(asked.prefix, asked.limit).filter(|_| may) else {
            return self.answer(from, Kind::Records, pages(0, RecordsState::Refused, Vec::new()));
        };
        let operation = Operation::Page { prefix: asked.prefix.to_owned(), after: asked.after.to_owned(), limit };
        self.request_operation(server, Awaited::Browse { from, limit }, operation, OperationResult::Entries(None));
    }

    /// The store has answered an operator's question.
    pub(super) fn browsed(&mut self, from: Requester, limit: usize, entries: Option<Entries>) {
        let bodies = match entries {
            Some(entries) => vec![browse_page(entries, limit)],
            None => pages(0, RecordsState::Elsewhere, Vec::new()),
        };
        self.answer(from, Kind::Records, bodies);
    }

    fn amend(&mut self, server: u16, from: Requester, asked: &Amend<'_>) {
        let node = &mut self.servers[usize::from(server)];
        if !node.policy.may_publish(from.principal) {
            return self.answer(from, Kind::Amended, vec![amended(None)]);
        }
        let Ok(ops) = ops_of(asked) else { return self.break_stream(from.stream) };
        let mut amendment = Amendment::new(ops);
        let step = amendment.begin();
        node.tenants.last_amendment += 1;
        let id = node.tenants.last_amendment;
        node.tenants.amendments.insert(id, (from, amendment));
        self.take_step(server, id, step);
    }

    /// The store has answered a step of a change. Nothing more happens to one whose stream has ended.
    pub(super) fn amendment_answered(&mut self, server: u16, id: u64, answer: StoreAnswer) {
        let Some((_, amendment)) = self.servers[usize::from(server)].tenants.amendments.get_mut(&id) else { return };
        let step = amendment.next(answer);
        self.take_step(server, id, step);
    }

    fn take_step(&mut self, server: u16, id: u64, step: Step) {
        let (operation, failed) = match step {
            Step::Read(reads) => (Operation::Entries(reads), OperationResult::Entries(None)),
            Step::Commit(plan) => (Operation::Amend(plan), OperationResult::Amended(StoreAnswer::Failed)),
            Step::Done(outcome) => return self.amendment_done(server, id, &outcome),
        };
        self.request_operation(server, Awaited::Amendment(id), operation, failed);
    }

    fn amendment_done(&mut self, server: u16, id: u64, outcome: &Outcome) {
        if let Some((from, _)) = self.servers[usize::from(server)].tenants.amendments.remove(&id) {
            self.answer(from, Kind::Amended, vec![amended(Some(outcome))]);
        }
    }

    /// A server forgets a stream.
    pub(super) fn close_tenants(&mut self, server: u16, operator: u16, stream: StreamId) {
        let node = &mut self.servers[usize::from(server)];
        node.tenants.interest.clear(stream);
        node.tenants.amendments.retain(|_, (from, _)| from.stream != stream);
        let bytes = node.tenants.subscribers.remove(&stream);
        bytes.into_iter().for_each(|bytes| node.usage.release(operator_principal(operator), bytes));
    }

    /// The store reports what changed since its last report.
    pub(super) fn pump_records(&mut self, server: u16) {
        let records = self.store.records();
        let (revision, history) = (records.revision(), self.config.store.history as u64);
        let watch = &self.servers[usize::from(server)].tenants;
        let is_running = self.server(server).is_some();
        if revision == 0 || watch.position == Some(revision) || !is_running || !self.watches(server) {
            return;
        }
        // What was compacted, or happened before the watch began, is not reported.
        let from = watch.position.filter(|&from| revision - from <= history);
        let since = from.map(|from| &records.log()[from as usize..]);
        let names = since.map(|all| all.iter().flat_map(|it| it.writes.iter().map(|(name, _)| name.clone())).collect());
        let after = self.network.latency();
        let node = &mut self.servers[usize::from(server)];
        node.tenants.position = Some(revision);
        node.tenants.last = node.tenants.last.max(self.now + after);
        let (at, life) = (node.tenants.last, node.life);
        self.schedule(at, Event::RecordsChanged { server, life, names });
    }

    /// A server learns of changes; without names: anything may have changed.
    pub(super) fn records_changed(&mut self, server: u16, life: u32, names: Option<&[String]>) {
        let node = &mut self.servers[usize::from(server)];
        if node.life != life || node.machine.is_none() || self.defect == Some(Defect::NoNotices) {
            return;
        }
        let interest = &mut node.tenants.interest;
        match names {
            Some(names) => names.iter().filter_map(|it| it.parse().ok()).for_each(|name: Name| interest.changed(&name)),
            None => interest.all_changed(),
        }
        while let Some((stream, tenants)) = self.servers[usize::from(server)].tenants.interest.poll() {
            let Some(principal) = self.principal_of(stream) else { continue };
            let notice = Message::Notice(Notice { tenants: tenants.iter().map(String::as_str).collect() });
            let mut message = Vec::with_capacity(HEADER + 64);
            Header { kind: notice.kind(), principal, cookie: 0, request: 0 }.emit(&mut message);
            notice.emit(&mut message);
            self.reply(stream, message);
        }
    }
}
