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
mod commits;
mod following;
mod peers;
mod streams;
#[cfg(test)]
mod tests;
mod updates;

use std::collections::VecDeque;
use std::net::SocketAddr;

use rand::RngExt;
use weft_fabric::rng::Pcg64;
use weft_fabric::{Duration, Instant};

use self::agents::Agents;
use self::commits::{Commits, Grounds, Limits, Steps};
use self::following::Following;
use self::peers::Peers;
use self::streams::Streams;
use self::updates::{Pending, malformed};
use super::auth::{Cookies, Secret};
use super::front::{Front, FrontConfig, Reason, Sighting, Verdict};
use super::key::{Generation, Key, PrincipalId, UpdateId};
use super::policy::{Policy, PolicyError};
use super::request::{Ask, Client, Request, StreamId};
use super::shared::Shared;
use super::store::{CommitResult, StoreOp, Stored};
use super::table::MAX_ENTRIES;
use crate::wire::directory::{Acknowledgement, Header, Message, Outcome, State, Update};

/// What happens to the server.
#[derive(Clone, Debug)]
pub enum Input {
    /// [`Server::deadline`] has come.
    Timer,
    /// A datagram, which takes the whole path (simulations; a program with UDP threads has a front in each).
    Datagram {
        /// Where it came from.
        from: SocketAddr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A verified request, from a front or a stream.
    Request(Request),
    /// From a front: a client was seen.
    Seen(Sighting),
    /// A stream is gone: nothing more is to be sent on it.
    StreamClosed(StreamId),
    /// Part of the load that [`Output::Load`] asked for, in any order.
    Loaded {
        /// Which load.
        load: u64,
        /// Records, tombstones included.
        entries: Vec<Stored>,
        /// With the last part: where the load ends.
        end: Option<LoadEnd>,
    },
    /// All commits after `from` up to `revision`. Without changes: nothing happened.
    Watched {
        /// The revision before.
        from: Generation,
        /// The revision after.
        revision: Generation,
        /// What changed, in order.
        changes: Vec<Stored>,
    },
    /// The watch cannot go on where it was (a gap, a compaction).
    WatchLost,
    /// How a commit ended.
    Committed {
        /// Which.
        batch: u64,
        /// How.
        result: CommitResult,
        /// The revision up to which the store may have purged tombstones.
        purged: Generation,
    },
    /// The store does not answer.
    StoreLost,
    /// It answers again.
    StoreBack,
    /// A new policy.
    Policy(Policy),
    /// The server is about to stop: it takes no more updates.
    Leave,
}

/// Where a load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadEnd {
    /// The load is the store's contents at this revision; the watch goes on from it.
    pub revision: Generation,
    /// Tombstones of generations up to this one may have been purged.
    pub purged: Generation,
}

/// What the server wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// Where to.
        to: SocketAddr,
        /// Header, body and tag.
        bytes: Vec<u8>,
    },
    /// Send a message on a stream.
    Reply {
        /// The stream.
        stream: StreamId,
        /// The client, whose key makes the tag where the stream has tags.
        principal: PrincipalId,
        /// Header and body; the tag (zeros over TLS) is the stream's to append.
        message: Vec<u8>,
    },
    /// Commit, and tell how it ended by [`Input::Committed`]. Several may be under way; they share no keys.
    Commit {
        /// Its number.
        batch: u64,
        /// All or none.
        ops: Vec<StoreOp>,
        /// If the store has purged tombstones of generations beyond this one, the commit is a conflict.
        purged: Generation,
    },
    /// Load everything ([`Input::Loaded`]), then watch from there ([`Input::Watched`]). An earlier load or watch ends.
    Load {
        /// The number of the load.
        load: u64,
    },
    /// Remove these tombstones from the store, where they still have these generations. Other servers may ask for the same.
    Purge {
        /// Keys and their tombstones' generations.
        tombstones: Vec<(Key, Generation)>,
    },
    /// For logs and metrics.
    Event(Event),
}

/// What an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All is loaded.
    Loaded {
        /// The revision.
        revision: Generation,
        /// Live entries.
        entries: u64,
    },
    /// All is to be loaded anew.
    Reload(ReloadReason),
    /// A policy is in force.
    PolicyChanged {
        /// Its version.
        version: u32,
        /// Whether it withdraws something, so that agents look up all that they hold again.
        withdraws: bool,
    },
    /// A policy was refused; the old one stays.
    PolicyRefused(PolicyError),
    /// A commit was a conflict with another server's.
    CommitConflict,
    /// It is not known how a commit ended: it will be tried again.
    CommitFailed,
    /// A datagram was dropped, or a request of a stream, or another server's message.
    Dropped(Reason),
}

/// Why all is loaded anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReloadReason {
    /// The store said that the watch cannot go on.
    WatchLost,
    /// The watch left something out.
    Gap,
    /// A peer has other entries at the same revision.
    Diverged,
}

/// What a server has counted, and how it is; the fronts' counters are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Updates received, copies included.
    pub updates: u64,
    /// Outcomes of updates, by [`Outcome`]'s number.
    pub outcomes: [u64; 6],
    /// Commits that became durable.
    pub commits: u64,
    /// Operations in them.
    pub committed_ops: u64,
    /// Commits that were conflicts.
    pub conflicts: u64,
    /// Commits of which it was not known how they ended.
    pub failures: u64,
    /// Loads that ended.
    pub loads: u64,
    /// Corrections sent.
    pub corrections: u64,
    /// Corrections not sent: the agent has had enough of them lately.
    pub corrections_limited: u64,
    /// Records taken from other servers.
    pub disseminated: u64,
    /// Requests dropped.
    pub dropped: u64,
}

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its own principal.
    pub me: PrincipalId,
    /// The other servers.
    pub peers: Vec<SocketAddr>,
    /// A batch is committed when its oldest update has waited this long...
    pub batch_delay: Duration,
    /// ...or it has this many operations.
    pub batch_ops: usize,
    /// Commits under way at the most.
    pub max_in_flight: usize,
    /// Updates waiting at the most.
    pub max_queue: usize,
    /// How long to wait before a failed commit is tried again.
    pub retry_after: Duration,
    /// How often a peer is sent a digest.
    pub digest_every: Duration,
    /// How long a deleted key's tombstone is kept.
    pub keep_tombstones: Duration,
    /// Clients remembered at the most, by the front for datagrams and by the machine for corrections.
    pub max_clients: usize,
}

impl ServerConfig {
    /// The usual values.
    pub const fn new(me: PrincipalId, peers: Vec<SocketAddr>) -> Self {
        Self {
            me,
            peers,
            batch_delay: Duration::from_ms(10),
            batch_ops: 128,
            max_in_flight: 4,
            max_queue: 8192,
            retry_after: Duration::from_ms(50),
            digest_every: Duration::from_secs(30),
            keep_tombstones: Duration::from_secs(3600),
            max_clients: 65_536,
        }
    }
}

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
    streams: Streams,
    rng: Pcg64,
    store_lost: bool,
    leaving: bool,
    counters: Counters,
    outputs: VecDeque<Output>,
}

impl Server {
    /// A server that has loaded nothing yet: its first output is [`Output::Load`].
    pub fn new(config: ServerConfig, secret: Secret, cookies: Cookies, policy: Policy, mut rng: Pcg64) -> Self {
        let front = Front::new(secret.clone(), cookies, FrontConfig { me: config.me, max_clients: config.max_clients });
        let peers = Peers::new(config.me, &secret, &config.peers, config.digest_every);
        let mut server = Self {
            shared: Shared::new(policy, rng.random()),
            front,
            commits: Commits::default(),
            following: Following::default(),
            peers,
            agents: Agents::new(config.max_clients),
            streams: Streams::default(),
            store_lost: false,
            leaving: false,
            counters: Counters::default(),
            outputs: VecDeque::new(),
            config,
            secret,
            rng,
        };
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
            Input::StreamClosed(stream) => self.streams.close(stream),
            Input::Loaded { load, entries, end } => self.loaded(now, load, &entries, end),
            Input::Watched { from, revision, changes } => self.watched(now, from, revision, &changes),
            Input::WatchLost => self.reload(now, ReloadReason::WatchLost),
            Input::Committed { batch, result, purged } => self.committed(now, batch, result, purged),
            Input::StoreLost => self.store_lost(),
            Input::StoreBack => self.store_lost = false,
            Input::Policy(policy) => self.new_policy(policy),
            Input::Leave => self.leaving = true,
        }
        self.set_state();
        self.timers(now);
        self.tell_watchers();
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
        [flush, self.commits.next_retry(), self.following.reload_at, purge, digest].into_iter().flatten().min()
    }

    /// What the fronts read.
    pub const fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the machine's own front counted ([`Input::Datagram`]).
    pub const fn front_counters(&self) -> &super::front::Counters {
        self.front.counters()
    }

    /// Updates that wait, and commits under way.
    pub fn load(&self) -> (usize, usize) {
        (self.commits.queued(), self.commits.under_way())
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
        match verdict {
            Verdict::Answer => self.outputs.push_back(Output::Send { to: from, bytes: out }),
            Verdict::Forward(request) => self.request(now, *request),
            Verdict::Drop(reason) => self.outputs.push_back(Output::Event(Event::Dropped(reason))),
        }
    }

    /// A request whose sender is known.
    fn request(&mut self, now: Instant, request: Request) {
        let of_peer = request.principal == self.config.me && matches!(request.ask, Ask::DigestAnswer(_) | Ask::Challenge);
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
            Ask::Challenge => self.challenged(client),
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
        // Some keys' room is left for what other servers commit.
        let room = self.commits.queued() < self.config.max_queue && self.shared.table.entries() + ROOM < MAX_ENTRIES;
        if self.shared.state != State::Serving || !room {
            return self.acknowledge(client, id, Outcome::Elsewhere, 0, Generation(0));
        }
        let mut pending = Pending::new(id, update, client, now);
        pending.look_around(&self.shared.table);
        if self.commits.push(pending, &self.limits()) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let limits = self.limits();
        if self.commits.under_way() < limits.under_way {
            let grounds = Grounds { table: &self.shared.table, policy: &self.shared.policy, purged: self.following.purged };
            let steps = self.commits.flush(grounds, &limits);
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
                self.commits.failed(now, batch, &limits);
            }
        }
        self.commits.look_again(&limits);
    }

    fn take_steps(&mut self, steps: Steps) {
        let purged = self.following.purged;
        self.outputs.extend(steps.commits.into_iter().map(|(batch, ops)| Output::Commit { batch, ops, purged }));
        for (pending, outcome, at, generation) in steps.over {
            for client in pending.clients {
                self.acknowledge(client, pending.id, outcome, at, generation);
            }
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
                Header { kind, principal, cookie, request }.emit(&mut bytes);
                message.emit(&mut bytes);
                self.secret.key_of(principal).tagger().seal(&mut bytes, 0);
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

    fn new_policy(&mut self, policy: Policy) {
        let (old, new) = (self.shared.policy.version(), policy.version());
        if new <= old {
            let refused = Event::PolicyRefused(PolicyError::NotNewer { old, new });
            return self.outputs.push_back(Output::Event(refused));
        }
        let withdraws = policy.withdraws_from(&self.shared.policy);
        if withdraws {
            self.shared.confirmed_since = new;
        }
        self.streams.keep(|principal| policy.may_list(principal));
        self.shared.policy = policy;
        self.outputs.push_back(Output::Event(Event::PolicyChanged { version: new, withdraws }));
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
            self.flush();
        }
        let purged = self.following.purged;
        let retries = self.commits.retries(now);
        self.outputs.extend(retries.into_iter().map(|(batch, ops)| Output::Commit { batch, ops, purged }));
        if self.following.reload_at.is_some_and(|at| at <= now) {
            self.begin_load();
        }
        self.purge(now);
        self.send_digest(now);
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
