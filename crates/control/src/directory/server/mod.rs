//! The directory server's machine (VL2, section 4.3): sans-I/O, so that a program and a simulation run the same one.
//!
//! ```text
//!   front (one a UDP thread) --Request, Seen-->  +--------------------------------+  --Send----> clients, peers
//!   streams ------------------Request-------->   | updates, commits: exactly once |  --Reply---> streams
//!   store --Loaded, Watched, Committed------->   | following: load and watch      |  --Commit, Load, Purge--> store
//!                                                | peers, agents, streams         |
//!                                                +--------------------------------+
//!                                                    Shared: read by all fronts
//! ```

mod agents;
mod askers;
mod commits;
mod followers;
mod following;
mod io;
mod peers;
mod streams;
#[cfg(test)]
mod tests;
mod updates;

use std::collections::VecDeque;
use std::net::SocketAddr;

use rand::RngExt;
use rustc_hash::FxHashSet;
use weft_fabric::rng::Pcg64;

use self::agents::Agents;
use self::askers::Askers;
use self::commits::{Commits, Grounds, Limits, Steps};
use self::followers::Followers;
use self::following::Following;
pub use self::io::{Audited, Counters, Event, Input, LoadEnd, Output, ReloadReason, ServerConfig};
use self::peers::Peers;
use self::streams::Streams;
use self::updates::{Pending, malformed};
use super::auth::{Cookies, Secret};
use super::front::{Front, FrontConfig, Reason, Verdict};
use super::key::{Generation, Key, PrincipalId, UpdateId};
use super::policy::{Policy, PolicyError};
use super::request::{Ask, Client, Request};
use super::shared::Shared;
use super::store::CommitResult;
use super::table::MAX_ENTRIES;
use crate::time::Instant;
use crate::wire::directory::{Acknowledgement, Header, Message, Outcome, State, Update};

/// The directory server's machine.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    secret: Secret,
    shared: Shared,
    /// For [`Input::Datagram`] only.
    front: Front,
    commits: Commits,
    following: Following,
    peers: Peers,
    agents: Agents,
    followers: Followers,
    streams: Streams,
    askers: Askers,
    /// Askers of lookups on streams that other parts have.
    wanted: Vec<(PrincipalId, Key)>,
    rng: Pcg64,
    store_lost: bool,
    leaving: bool,
    counters: Counters,
    outputs: VecDeque<Output>,
}

impl Server {
    /// A server that has loaded nothing yet: its first output is [`Output::Load`].
    pub fn new(config: ServerConfig, secret: Secret, cookies: Cookies, policy: Policy, mut rng: Pcg64) -> Self {
        let front = Front::new(
            secret.clone(),
            cookies,
            FrontConfig { me: config.me, max_clients: config.max_clients, versions: config.versions },
        );
        let peers = Peers::new(&config, &secret);
        let askers = Askers::new(&config, &secret, Pcg64::new(rng.random::<u64>().into(), 2));
        let mut server = Self {
            shared: Shared::new(policy, rng.random()),
            front,
            commits: Commits::default(),
            following: Following::default(),
            peers,
            agents: Agents::new(config.max_clients),
            followers: Followers::new(config.max_clients),
            streams: Streams::default(),
            askers,
            wanted: Vec::new(),
            store_lost: false,
            leaving: false,
            counters: Counters::default(),
            outputs: VecDeque::new(),
            config,
            secret,
            rng,
        };
        server.divide(Instant::ZERO);
        server.begin_load();
        server
    }

    /// Takes what happened; drain [`Server::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Timer => {}
            Input::Datagram { from, bytes } => self.datagram(now, from, &bytes),
            Input::Request(request) => self.request(now, request),
            Input::Seen(sighting) => self.agents.see(now, sighting),
            Input::Wanted(principal, asker) => self.want_asker(now, principal, asker),
            Input::StreamClosed(stream) => self.streams.close(stream),
            Input::Loaded { load, entries, end } => self.loaded(now, load, &entries, end),
            Input::Watched { from, revision, changes } => self.watched(now, from, revision, &changes),
            Input::WatchLost => self.reload(now, ReloadReason::WatchLost),
            Input::Committed { batch, result, purged } => self.committed(now, batch, result, purged),
            Input::StoreLost => self.store_lost(),
            Input::StoreBack => self.store_lost = false,
            Input::Policy(policy) => self.new_policy(now, policy),
            Input::Denied(denied) => self.deny(denied),
            Input::Secret(secret) => self.set_secret(secret),
            Input::Leave => self.leaving = true,
        }
        for (principal, asker) in std::mem::take(&mut self.wanted) {
            self.want_asker(now, principal, asker);
        }
        self.set_state();
        self.timers(now);
        self.notify_watchers();
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let flush = self.commits.due.filter(|_| self.commits.under_way() < self.config.max_in_flight);
        let purge = self.following.next_purge(self.config.keep_tombstones);
        let digest = self.peers.next_digest();
        let followers = self.followers.next(self.shared.withdrawals.arrived());
        let askers = self.askers.deadline();
        [flush, askers, self.commits.next_retry(), self.following.reload_at, purge, digest, followers].into_iter().flatten().min()
    }

    /// What the fronts read.
    pub const fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Updates that wait, and commits under way.
    pub fn load(&self) -> (usize, usize) {
        (self.commits.queued(), self.commits.under_way())
    }

    /// Agents to which withdrawals are sent unasked.
    pub fn subscribers(&self) -> usize {
        self.followers.len()
    }

    /// The tombstones purged so far have generations up to this one.
    pub const fn purged(&self) -> Generation {
        self.following.purged
    }

    fn datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let mut out = Vec::new();
        let verdict = self.front.receive(now, &self.shared, from, bytes, &mut out);
        while let Some(sighting) = self.front.next_sighting() {
            self.agents.see(now, sighting);
        }
        while let Some((principal, asker)) = self.front.next_wanted() {
            self.want_asker(now, principal, asker);
        }
        match verdict {
            Verdict::Answer => self.outputs.push_back(Output::Send { to: from, bytes: out }),
            Verdict::Forward(request) => self.request(now, *request),
            Verdict::Drop(reason) => self.outputs.push_back(Output::Event(Event::Dropped(reason))),
        }
    }

    /// A request whose sender is known.
    fn request(&mut self, now: Instant, request: Request) {
        if self.shared.denied.contains(&request.principal) {
            return self.drop(Reason::Denied);
        }
        if let (Ask::OfPart(bytes), Client::Datagram { at, .. }) = (&request.ask, request.client) {
            return self.of_other_part(now, at, bytes);
        }
        let is_answer = matches!(request.ask, Ask::DigestAnswer(_) | Ask::Challenge | Ask::Unsupported);
        let of_peer = request.principal == self.config.me && is_answer;
        if !of_peer && !request.ask.permitted(&self.shared.policy, request.principal) {
            return self.drop(Reason::Refused);
        }
        let Request { client, principal, ask } = request;
        match ask {
            Ask::Update(update) => self.update(now, client, principal, update),
            Ask::Misdelivered(report) => self.misdelivered(now, principal, report),
            Ask::Commits(commits) => self.disseminated(now, &commits),
            Ask::Digest(digest) => self.digest(now, client, principal, digest),
            Ask::DigestAnswer(digest) => self.compare(now, digest),
            Ask::Challenge => self.sent_again(now, client, false),
            Ask::Unsupported => self.sent_again(now, client, true),
            Ask::Follow(ask) if ask.push && matches!(client, Client::Datagram { .. }) => {
                self.subscribe(now, client, principal, ask)
            }
            ask => self.serve_stream(client, principal, ask),
        }
    }

    fn update(&mut self, now: Instant, client: Client, principal: PrincipalId, update: Update) {
        self.counters.updates += 1;
        let number = update.number;
        let id = UpdateId { writer: principal, number };
        if let Some(at) = malformed(&update) {
            return self.acknowledge(client, id, Outcome::Malformed, at, Generation(0));
        }
        if let Some(pending) = self.commits.find(id) {
            return pending.join(client);
        }
        // Who may change nothing takes no room in the queue.
        if let Some(at) = update.ops.iter().position(|op| !self.shared.policy.may_ever_update(principal, &op.key)) {
            self.audit(id, Outcome::Refused, Generation(0), &update);
            return self.acknowledge(client, id, Outcome::Refused, at as u8, Generation(0));
        }
        // Some keys' room is left for what other servers commit.
        let room = self.commits.queued() < self.config.max_queue && self.shared.table.entries() + ROOM < MAX_ENTRIES;
        let place = update.ops.iter().position(|op| !self.shared.takes(&op.key));
        let is_taken = self.shared.state == State::Serving && room && place.is_none() && !self.config.replica;
        if !is_taken {
            return self.acknowledge(client, id, Outcome::Elsewhere, place.unwrap_or_default() as u8, Generation(0));
        }
        let mut pending = Pending::new(id, update, client, now);
        pending.look_around(&self.shared.table);
        if self.commits.push(pending, &self.limits()) {
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Instant) {
        let limits = self.limits();
        if self.commits.under_way() < limits.under_way {
            let grounds = Grounds { table: &self.shared.table, policy: &self.shared.policy, purged: self.following.purged };
            let steps = self.commits.flush(now, grounds, &limits);
            self.take_steps(steps);
        }
    }

    fn committed(&mut self, now: Instant, batch: u64, result: CommitResult, purged: Generation) {
        self.following.purged = self.following.purged.max(purged);
        let limits = self.limits();
        match result {
            CommitResult::Done(revision) => {
                let steps = self.commits.done(batch, revision);
                self.counters.commits += u64::from(!steps.done.is_empty());
                self.counters.committed_ops += steps.done.len() as u64;
                self.own_commit(now, revision, &steps.done);
                self.take_steps(steps);
            }
            CommitResult::Conflict(held) => {
                self.counters.conflicts += 1;
                self.outputs.push_back(Output::Event(Event::CommitConflict));
                let grounds = Grounds { table: &self.shared.table, policy: &self.shared.policy, purged: self.following.purged };
                let steps = self.commits.conflict(now, batch, &held, grounds, &limits);
                self.take_steps(steps);
            }
            CommitResult::Failed => {
                self.counters.failures += 1;
                self.outputs.push_back(Output::Event(Event::CommitFailed));
                let jitter = self.rng.random();
                self.commits.failed(now, batch, jitter, &limits);
            }
        }
        self.commits.look_again(&limits);
    }

    fn take_steps(&mut self, steps: Steps) {
        self.outputs.extend(steps.commits.into_iter().map(|(batch, ops, purged)| Output::Commit { batch, ops, purged }));
        for (pending, outcome, at, generation) in steps.over {
            self.audit(pending.id, outcome, generation, &pending.update);
            for client in pending.clients {
                self.acknowledge(client, pending.id, outcome, at, generation);
            }
        }
    }

    /// For the record of who changed what: what was done, what may have been, and who tried what he may not.
    fn audit(&mut self, id: UpdateId, outcome: Outcome, generation: Generation, update: &Update) {
        if self.config.audit && matches!(outcome, Outcome::Committed | Outcome::Refused | Outcome::Unknown) {
            let audited = Audited { id, outcome, generation, ops: update.ops.clone() };
            self.outputs.push_back(Output::Event(Event::Updated(Box::new(audited))));
        }
    }

    fn acknowledge(&mut self, client: Client, id: UpdateId, outcome: Outcome, at: u8, generation: Generation) {
        self.counters.outcomes[outcome as usize] += 1;
        let message = Message::Acknowledgement(Acknowledgement { number: id.number, outcome, at, generation });
        self.reply(client, id.writer, &message);
    }

    /// Sends an answer to where the request came from.
    fn reply(&mut self, client: Client, principal: PrincipalId, message: &Message<'_>) {
        let kind = message.kind();
        let mut bytes = Vec::new();
        match client {
            Client::Datagram { at, cookie, request } => {
                Header { kind, principal, cookie, request }.emit_as(self.config.versions.of_cookie(cookie), &mut bytes);
                message.emit(&mut bytes);
                self.secret.key_by_cookie(principal, cookie).tagger().seal(&mut bytes, 0);
                self.outputs.push_back(Output::Send { to: at, bytes });
            }
            Client::Stream { stream, request } => {
                Header { kind, principal, cookie: 0, request }.emit(&mut bytes);
                message.emit(&mut bytes);
                self.outputs.push_back(Output::Reply { stream, principal, message: bytes });
            }
        }
    }

    /// What was not given to the store yet may go to another server; what was may not, for it may be applied.
    fn store_lost(&mut self) {
        self.store_lost = true;
        for pending in self.commits.give_up_queue() {
            for client in pending.clients {
                self.acknowledge(client, pending.id, Outcome::Elsewhere, 0, Generation(0));
            }
        }
    }

    fn new_policy(&mut self, now: Instant, policy: Policy) {
        let (old, new) = (self.shared.policy.version(), policy.version());
        if new <= old {
            let refused = Event::PolicyRefused(PolicyError::NotNewer { old, new });
            return self.outputs.push_back(Output::Event(refused));
        }
        if let Err(refused) = policy.place_of_part(self.config.part.as_deref()) {
            return self.outputs.push_back(Output::Event(Event::PolicyRefused(refused)));
        }
        let withdraws = policy.withdraws_from(&self.shared.policy);
        if withdraws {
            self.shared.confirmed_since = new;
        }
        self.streams.keep(|principal| policy.may_list(principal));
        self.shared.policy = policy;
        self.divide(now);
        if withdraws {
            self.notify_all(now);
        }
        self.outputs.push_back(Output::Event(Event::PolicyChanged { version: new, withdraws }));
    }

    fn deny(&mut self, denied: FxHashSet<PrincipalId>) {
        let policy = &self.shared.policy;
        self.streams.keep(|principal| policy.may_list(principal) && !denied.contains(&principal));
        self.followers.keep(|principal, _| !denied.contains(&principal));
        self.shared.denied = denied;
    }

    /// Agents whose keys are good no more are sent nothing until they come with new ones.
    fn set_secret(&mut self, secret: Secret) {
        self.followers.keep(|_, cookie| !secret.voids(&self.secret, cookie));
        self.peers.set_key(&secret);
        self.askers.set_key(&secret, self.config.me);
        self.front.set_secret(secret.clone());
        self.secret = secret;
    }

    fn set_state(&mut self) {
        self.shared.state = match (self.following.loaded, self.leaving, self.store_lost) {
            (false, ..) => State::Loading,
            (true, true, _) => State::Leaving,
            (true, false, true) => State::StoreLost,
            (true, false, false) => State::Serving,
        };
    }

    fn timers(&mut self, now: Instant) {
        if self.commits.due.is_some_and(|due| due <= now) {
            self.flush(now);
        }
        let retries = self.commits.retries(now);
        self.outputs.extend(retries.into_iter().map(|(batch, ops, purged)| Output::Commit { batch, ops, purged }));
        if self.following.reload_at.is_some_and(|at| at <= now) {
            self.begin_load();
        }
        self.purge(now);
        self.send_digest(now);
        self.asker_timers(now);
        self.serve_followers(now);
    }

    fn drop(&mut self, reason: Reason) {
        self.counters.dropped += 1;
        self.outputs.push_back(Output::Event(Event::Dropped(reason)));
    }

    const fn limits(&self) -> Limits {
        Limits {
            ops: self.config.batch_ops,
            under_way: self.config.max_in_flight,
            delay: self.config.batch_delay,
            retry_after: self.config.retry_after,
        }
    }
}

/// Keys that are left to other servers' commits when this one takes no more updates.
const ROOM: usize = 1 << 20;
