//! What goes into the server's machine and what comes out, and how it is set up.

use std::net::SocketAddr;

use rustc_hash::FxHashSet;

use super::super::auth::Secret;
use super::super::front::{Reason, Sighting};
use super::super::key::{Generation, Key, PrincipalId, UpdateId};
use super::super::policy::{Policy, PolicyError};
use super::super::request::{Request, StreamId};
use super::super::store::{CommitResult, StoreOp, Stored};
use crate::time::Duration;
use crate::wire::directory::{Op, Outcome, Versions};

/// What happens to the server.
#[derive(Clone, Debug)]
pub enum Input {
    /// [`Server::deadline`](super::Server::deadline) has come.
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
    /// From a front: a principal asks on behalf of a key that another part of the directory has, and who that is is not known here.
    Wanted(PrincipalId, Key),
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
    /// The principals that are denied, from now on.
    Denied(FxHashSet<PrincipalId>),
    /// Another secret ([`Secret::replaced_by`]); the fronts of UDP threads get it too.
    Secret(Secret),
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
    /// Commit, and report how it ended by [`Input::Committed`]. Several may be under way; they share no keys.
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
    /// All is to be reloaded.
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
    /// An update has ended, and is to be recorded.
    Updated(Box<Audited>),
    /// A commit was a conflict with another server's.
    CommitConflict,
    /// It is not known how a commit ended: it will be tried again.
    CommitFailed,
    /// A datagram was dropped, or a request of a stream, or another server's message.
    Dropped(Reason),
}

/// An update for the record of who changed what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// Who, and the number that it gave the update.
    pub id: UpdateId,
    /// How it ended.
    pub outcome: Outcome,
    /// With which generation, if it was committed.
    pub generation: Generation,
    /// What it changes.
    pub ops: Vec<Op>,
}

/// Why all is reloaded.
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
    /// Outcomes of updates, by [`Outcome`](crate::wire::directory::Outcome)'s number.
    pub outcomes: [u64; 7],
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
    /// Withdrawals sent to agents that subscribed, repetitions included.
    pub pushes: u64,
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
    /// The part of a divided directory that it has, by its name in the policy.
    pub part: Option<String>,
    /// Askers of other parts that it remembers at most, about 300 bytes each.
    pub max_askers: usize,
    /// A batch is committed when its oldest update has waited this long...
    pub batch_delay: Duration,
    /// ...or it has this many operations.
    pub batch_ops: usize,
    /// Commits under way at most.
    pub max_in_flight: usize,
    /// Updates waiting at most.
    pub max_queue: usize,
    /// How long to wait before a failed commit is tried again.
    pub retry_after: Duration,
    /// How often a peer is sent a digest.
    pub digest_every: Duration,
    /// How long a deleted key's tombstone is kept.
    pub keep_tombstones: Duration,
    /// Clients remembered at most, by each front for datagrams (about 400 bytes each), and by the machine for corrections and for withdrawals that are sent
    /// unasked (about 400 bytes each, and its filter of 64 to 1,024 bytes).
    pub max_clients: usize,
    /// Whether ended updates become [`Event::Updated`].
    pub audit: bool,
    /// Whether it only follows the store, which it never asks for a commit or a purge: updates go elsewhere.
    pub replica: bool,
    /// Of the protocol.
    pub versions: Versions,
}

impl ServerConfig {
    /// The usual values.
    pub const fn new(me: PrincipalId, peers: Vec<SocketAddr>) -> Self {
        Self {
            me,
            peers,
            part: None,
            max_askers: 1 << 20,
            batch_delay: Duration::from_ms(10),
            batch_ops: 128,
            max_in_flight: 4,
            max_queue: 8192,
            retry_after: Duration::from_ms(50),
            digest_every: Duration::from_secs(30),
            keep_tombstones: Duration::from_secs(3600),
            max_clients: 262_144,
            audit: false,
            replica: false,
            versions: Versions::OURS,
        }
    }
}
