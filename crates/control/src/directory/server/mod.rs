//! The directory server's machine.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;
use weft_fabric::{Duration, Instant};

use super::auth::{Cookies, Secret};
use super::front::Sighting;
use super::key::{Generation, PrincipalId};
use super::policy::Policy;
use super::request::{Request, StreamId};
use super::shared::Shared;
use super::store::{CommitResult, StoreOp, Stored};

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
    /// Clients remembered at the most.
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
            max_clients: 65_536,
        }
    }
}

/// The directory server's machine.
#[derive(Debug)]
pub struct Server {
    shared: Shared,
    outputs: VecDeque<Output>,
    config: ServerConfig,
    secret: Secret,
    cookies: Cookies,
    rng: Pcg64,
}

impl Server {
    /// A server that has loaded nothing yet: its first output is [`Output::Load`].
    pub fn new(config: ServerConfig, secret: Secret, cookies: Cookies, policy: Policy, rng: Pcg64) -> Self {
        let shared = Shared::new(policy, 0);
        Self { shared, outputs: VecDeque::from([Output::Load { load: 1 }]), config, secret, cookies, rng }
    }

    /// Takes what happened; drain [`Server::poll`] afterwards.
    pub fn handle(&mut self, _now: Instant, _input: Input) {
        let _ = (&self.config, &self.secret, &self.cookies, &self.rng);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Timer`] is due.
    pub const fn deadline(&self) -> Option<Instant> {
        None
    }

    /// What the fronts read.
    pub const fn shared(&self) -> &Shared {
        &self.shared
    }
}
