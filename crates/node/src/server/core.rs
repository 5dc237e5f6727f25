//! What all parts of a running server share: the machine behind its lock, its inbox, the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant as WallInstant;

use parking_lot::RwLock;
use weft_control::directory::auth::{Cookies, Secret};
use weft_control::directory::policy::Policy;
use weft_control::directory::server::{Input, Server, ServerConfig};
use weft_fabric::Instant;
use weft_fabric::rng::{Stream, stream};

use super::config::{ServeError, draw};
use super::measures::Measures;

/// What all parts of a running server share.
pub struct Core {
    /// The machine. One thread writes; the UDP threads read its shared state once a batch.
    pub server: RwLock<Server>,
    /// The cluster's secret.
    pub secret: Secret,
    /// How the machine works, to make it anew.
    pub config: ServerConfig,
    /// What is counted.
    pub measures: Measures,
    /// Whether updates are taken over UDP too.
    pub datagram_updates: bool,
    /// Set when the UDP threads are to end.
    pub stop: AtomicBool,
    /// Commits under way.
    pub commits: AtomicUsize,
    inbox: Sender<Posted>,
    waiting: AtomicUsize,
    clock: Clock,
}

/// An input, and the era in which it was caused: a machine that was made anew must not hear of commits of the one before it.
pub struct Posted {
    /// The era.
    pub era: u64,
    /// The input.
    pub input: Input,
}

/// Requests that may wait for the machine; more are dropped, for their senders have given up when their turn comes.
const WAITING: usize = 32_768;

/// The machine's clock: picoseconds since it was made. They last 213 days, so the machine is made anew before ([`Core::renew`]).
struct Clock {
    begun: WallInstant,
    era_began_ns: AtomicU64,
    era: AtomicU64,
}

/// How long one machine lives.
pub const ERA: weft_fabric::Duration = weft_fabric::Duration::from_secs(200 * 24 * 3600);

impl Core {
    /// A machine that has loaded nothing yet, and the other end of its inbox.
    pub fn new(
        secret: Secret,
        config: ServerConfig,
        policy: Policy,
        datagram_updates: bool,
    ) -> Result<(Arc<Self>, Receiver<Posted>), ServeError> {
        let (inbox, posted) = channel();
        let server = machine(&secret, &config, policy)?;
        let clock = Clock { begun: WallInstant::now(), era_began_ns: AtomicU64::new(0), era: AtomicU64::new(0) };
        let core = Self {
            server: RwLock::new(server),
            secret,
            config,
            measures: Measures::new(),
            datagram_updates,
            stop: AtomicBool::new(false),
            commits: AtomicUsize::new(0),
            inbox,
            waiting: AtomicUsize::new(0),
            clock,
        };
        Ok((Arc::new(core), posted))
    }

    /// The machine's time. Read it while the lock is held, for the machine it belongs to.
    pub fn now(&self) -> Instant {
        let ns = self.clock.begun.elapsed().as_nanos() as u64;
        Instant::from_ps((ns - self.clock.era_began_ns.load(Ordering::Acquire)) * 1000)
    }

    /// Which machine it is, counted from 0.
    pub fn era(&self) -> u64 {
        self.clock.era.load(Ordering::Acquire)
    }

    /// Makes the machine anew, as after a restart: its clock begins again, and it loads everything.
    pub fn renew(&self) -> Result<(), ServeError> {
        let mut server = self.server.write();
        *server = machine(&self.secret, &self.config, server.shared().policy.clone())?;
        self.clock.era_began_ns.store(self.clock.begun.elapsed().as_nanos() as u64, Ordering::Release);
        self.clock.era.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Something that must not be lost, from an era's machine's doings.
    pub fn post(&self, era: u64, input: Input) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Nobody reads only when the server ends.
        let _ = self.inbox.send(Posted { era, input });
    }

    /// A request; false if too many wait.
    pub fn ask(&self, input: Input) -> bool {
        if self.waiting.load(Ordering::Relaxed) >= WAITING {
            return false;
        }
        self.post(self.era(), input);
        true
    }

    /// So many inputs were taken out of the inbox.
    pub fn taken(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Inputs that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

fn machine(secret: &Secret, config: &ServerConfig, policy: Policy) -> Result<Server, ServeError> {
    let rng = stream(u64::from_ne_bytes(draw()?), Stream::Scheduler);
    Ok(Server::new(config.clone(), secret.clone(), Cookies::new(draw()?), policy, rng))
}
