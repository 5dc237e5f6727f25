//! Tenants' records for the streams of a server: the shell of [`weft_control::netlord::tenants::records`].
//!
//! ```text
//!   Subscribe --> interest --> entries of the store, at one revision --> what the principal may read --> Records, in pages
//!   Amend     --> the plan of the change <--> entries; commit, all or none --> Amended
//!   a watch of the store --> whom it concerns --> Notice
//! ```
//! A server keeps no records in memory, only the names that its streams asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use weft_control::directory::PrincipalId;
use weft_control::directory::documents::Requester;
use weft_control::directory::request::StreamId;
use weft_control::netlord::tenants::records::messages::{amended, browse_limit, browse_page, ops_of, pages};
use weft_control::netlord::tenants::records::{
    Amendment, Entries, Interest, Name, Op, Outcome, Reads, Step, StoreAnswer, answer, are_names, reads_of,
};
use weft_control::wire::directory::{Amend, Browse, HEADER, Header, Message, Notice, RecordsState, Subscribe, TAG};

use super::budget::{Budget, Charge};
use super::core::Core;
use crate::store::{AnyStore, EntryEvent, EntryWatch, Store, StoreError};

/// The questions of one principal in the mean, and how many at once.
const EACH: Duration = Duration::from_millis(50);
const AT_ONCE: u32 = 40;

/// Principals whose questions are remembered, before those that wait for nothing are forgotten.
const PRINCIPALS: usize = 8192;

/// The records of tenants, for a server's streams.
pub struct Tenants {
    core: Arc<Core>,
    store: AnyStore,
    budget: Arc<Budget>,
    interest: Mutex<Interest>,
    subscribers: Mutex<FxHashMap<StreamId, Subscriber>>,
    /// Until when the questions of a principal have used up its share of the store.
    used: Mutex<FxHashMap<PrincipalId, Instant>>,
}

/// A stream that subscribes.
struct Subscriber {
    principal: PrincipalId,
    /// The place in the budget of what it asked for.
    _charge: Charge,
}

/// A message's body.
type Body = Vec<u8>;

impl Tenants {
    /// Over this store; what streams ask for has its place in the budget.
    pub fn new(core: Arc<Core>, store: AnyStore, budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { core, store, budget, interest: Mutex::default(), subscribers: Mutex::default(), used: Mutex::default() })
    }

    /// The pages of an answer to an agent. An error is the reason for which the stream is to end.
    pub async fn subscribe(&self, from: Requester, asked: &Subscribe<'_>) -> Result<Vec<Body>, &'static str> {
        if !asked.tenants.iter().all(|(tenant, vifs)| are_names(tenant, vifs.iter().copied())) {
            return Err("malformed");
        }
        self.wait_for_turn(from.principal).await;
        if !self.register(from, asked) {
            return Ok(pages(0, RecordsState::Refused, Vec::new()));
        }
        let reads = reads_of(asked.tenants.iter().map(|(tenant, vifs)| (*tenant, vifs.as_slice())));
        let Some(entries) = self.entries(&reads).await else { return Ok(pages(0, RecordsState::Elsewhere, Vec::new())) };
        let revision = entries.revision;
        let reads_all = self.core.server.read().shared().policy.reads_tenants(from.principal);
        let (has_records, listed) = answer(&reads, entries, from.principal, reads_all);
        let state = if has_records { RecordsState::Found } else { RecordsState::None };
        Ok(pages(revision, state, if has_records { listed } else { Vec::new() }))
    }

    /// Each question reads the store: a principal that asks again and again waits, and nobody else does.
    async fn wait_for_turn(&self, principal: PrincipalId) {
        let now = Instant::now();
        let at = {
            let mut used = self.used.lock();
            if used.len() > PRINCIPALS {
                used.retain(|_, at| *at > now);
            }
            let at = used.get(&principal).map_or(now, |at| (*at).max(now)) + EACH;
            used.insert(principal, at);
            at
        };
        tokio::time::sleep(at.saturating_duration_since(now + EACH * AT_ONCE)).await;
    }

    /// Notes what a stream wants, before anything is read for it. False if it is too much.
    fn register(&self, from: Requester, asked: &Subscribe<'_>) -> bool {
        let Requester { stream, principal, .. } = from;
        let mut interest = self.interest.lock();
        if asked.fresh {
            interest.clear(stream);
        }
        interest.open(stream);
        for (tenant, vifs) in &asked.tenants {
            interest.subscribe(stream, tenant, vifs.iter().copied());
        }
        let bytes = interest.bytes(stream);
        let mut subscribers = self.subscribers.lock();
        subscribers.remove(&stream);
        match self.budget.charge(&Arc::default(), principal, false, bytes) {
            Some(charge) => {
                subscribers.insert(stream, Subscriber { principal, _charge: charge });
                true
            }
            None => {
                interest.clear(stream);
                self.core.metrics.dropped("stream_bytes", 1);
                false
            }
        }
    }

    /// A page of all records, for who may read all.
    pub async fn browse(&self, from: Requester, asked: &Browse<'_>) -> Vec<Body> {
        let may = self.core.server.read().shared().policy.reads_tenants(from.principal);
        let Some(limit) = browse_limit(asked.prefix, asked.limit).filter(|_| may) else {
            return pages(0, RecordsState::Refused, Vec::new());
        };
        match self.store.entries_after(asked.prefix, asked.after, limit).await {
            Ok(entries) => vec![browse_page(entries, limit)],
            Err(error) => {
                tracing::warn!(%error, "tenants' records cannot be read");
                pages(0, RecordsState::Elsewhere, Vec::new())
            }
        }
    }

    /// Changes records. An error is the reason for which the stream is to end.
    pub async fn amend(&self, from: Requester, asked: &Amend<'_>) -> Result<Body, &'static str> {
        if !self.core.server.read().shared().policy.may_publish(from.principal) {
            return Ok(amended(None));
        }
        // A replica takes no change: the client goes on to the next server.
        if self.core.config.replica {
            return Ok(amended(Some(&Outcome::Unknown)));
        }
        let ops = ops_of(asked).map_err(|_| "malformed")?;
        let names: Vec<String> = asked.ops.iter().map(|op| op.name.to_owned()).collect();
        let outcome = self.carry_out(ops).await;
        let record = |word: &str| {
            if let Some(audit) = &self.core.audit {
                audit.records(from.principal, &names, word);
            }
        };
        match &outcome {
            Outcome::Committed(revision) => {
                record("committed");
                tracing::debug!(principal = from.principal.0, records = names.len(), revision, "tenants' records were changed");
            }
            Outcome::Unknown => record("unknown"),
            Outcome::Conflict(..) | Outcome::Invalid(..) | Outcome::Busy => {}
        }
        Ok(amended(Some(&outcome)))
    }

    async fn carry_out(&self, ops: Vec<Op>) -> Outcome {
        let mut amendment = Amendment::new(ops);
        let mut step = amendment.begin();
        loop {
            let answer = match step {
                Step::Read(reads) => self.entries(&reads).await.map_or(StoreAnswer::Failed, StoreAnswer::Entries),
                Step::Commit(plan) => match self.store.amend(plan).await {
                    Ok(Some(revision)) => StoreAnswer::Committed(revision),
                    Ok(None) => StoreAnswer::Conflict,
                    Err(error) => {
                        tracing::warn!(%error, "tenants' records cannot be changed");
                        StoreAnswer::Failed
                    }
                },
                Step::Done(outcome) => return outcome,
            };
            step = amendment.next(answer);
        }
    }

    async fn entries(&self, reads: &Reads) -> Option<Entries> {
        match self.store.entries(reads).await {
            Ok(entries) => Some(entries),
            Err(error) => {
                tracing::warn!(%error, "tenants' records cannot be read");
                None
            }
        }
    }

    /// A stream has ended.
    pub fn close(&self, stream: StreamId) {
        self.interest.lock().clear(stream);
        self.subscribers.lock().remove(&stream);
    }

    /// Which records change from now on.
    pub async fn watch(&self) -> Result<EntryWatch, StoreError> {
        self.store.watch_entries().await
    }

    /// The notices of an event: for whom, and the message without its tag.
    pub fn notices(&self, event: &EntryEvent) -> Vec<(StreamId, PrincipalId, Vec<u8>)> {
        let notices: Vec<(StreamId, Vec<String>)> = {
            let mut interest = self.interest.lock();
            match event {
                EntryEvent::Changed(names) => {
                    names.iter().filter_map(|name| name.parse().ok()).for_each(|name: Name| interest.changed(&name));
                }
                EntryEvent::Gap => interest.all_changed(),
            }
            std::iter::from_fn(|| interest.poll()).collect()
        };
        let subscribers = self.subscribers.lock();
        let message = |(stream, tenants): (StreamId, Vec<String>)| {
            let principal = subscribers.get(&stream)?.principal;
            let notice = Message::Notice(Notice { tenants: tenants.iter().map(String::as_str).collect() });
            let mut message = Vec::with_capacity(HEADER + 64 + TAG);
            Header { kind: notice.kind(), principal, cookie: 0, request: 0 }.emit(&mut message);
            notice.emit(&mut message);
            Some((stream, principal, message))
        };
        notices.into_iter().filter_map(message).collect()
    }
}
