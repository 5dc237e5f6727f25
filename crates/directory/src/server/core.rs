//! What all parts of a running server share: the machine behind its lock, its inbox, the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant as WallInstant;

use parking_lot::RwLock;
use weft_control::directory::auth::{Cookies, Secret};
use weft_control::directory::policy::Policy;
use weft_control::directory::server::{Input, Server, ServerConfig};
use weft_control::time::Instant;
use weft_fabric::rng::{Stream, stream};

use super::audit::Audit;
use super::metrics::Metrics;
use crate::client::random;

/// What all parts of a running server share.
pub struct Core {
    /// The machine. One thread writes; the UDP threads read its shared state once a batch.
    pub server: RwLock<Server>,
    secret: RwLock<Secret>,
    /// How often the secret has changed.
    secrets: AtomicU64,
    /// How the machine works.
    pub config: ServerConfig,
    /// The record of who changed what.
    pub audit: Option<Audit>,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether updates are taken over UDP too.
    pub datagram_updates: bool,
    /// Set when the UDP threads are to end.
    pub stop: AtomicBool,
    /// Commits under way.
    pub commits: AtomicUsize,
    inbox: Sender<Input>,
    waiting: AtomicUsize,
    /// When the machine's clock was 0.
    begun: WallInstant,
}

/// Requests that may wait for the machine; more are dropped, for their senders have given up when their turn comes.
const WAITING: usize = 32_768;

impl Core {
    /// A machine that has loaded nothing yet, and the other end of its inbox.
    pub fn new(
        secret: Secret,
        config: ServerConfig,
        policy: Policy,
        datagram_updates: bool,
        audit: Option<Audit>,
    ) -> (Arc<Self>, Receiver<Input>) {
        let (inbox, posted) = channel();
        let server = machine(&secret, &config, policy);
        let core = Self {
            server: RwLock::new(server),
            secret: RwLock::new(secret),
            secrets: AtomicU64::new(0),
            config,
            audit,
            metrics: Metrics::new(),
            datagram_updates,
            stop: AtomicBool::new(false),
            commits: AtomicUsize::new(0),
            inbox,
            waiting: AtomicUsize::new(0),
            begun: WallInstant::now(),
        };
        (Arc::new(core), posted)
    }

    /// The cluster's secret.
    pub fn secret(&self) -> Secret {
        self.secret.read().clone()
    }

    /// How often it has changed: for those who have a copy.
    pub fn secrets(&self) -> u64 {
        self.secrets.load(Ordering::Acquire)
    }

    /// Another secret; false if it is the same.
    pub fn set_secret(&self, next: &Secret) -> bool {
        let mut secret = self.secret.write();
        let next = secret.replaced_by(next);
        if next == *secret {
            return false;
        }
        *secret = next.clone();
        drop(secret);
        self.secrets.fetch_add(1, Ordering::Release);
        self.post(Input::Secret(next));
        true
    }

    /// The machine's time. Read it while the lock is held, lest the machine's time go back.
    pub fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.begun.elapsed().into())
    }

    /// Something that must not be lost.
    pub fn post(&self, input: Input) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Nobody reads only when the server ends.
        let _ = self.inbox.send(input);
    }

    /// A request; false if too many wait.
    pub fn ask(&self, input: Input) -> bool {
        if self.waiting.load(Ordering::Relaxed) >= WAITING {
            return false;
        }
        self.post(input);
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

fn machine(secret: &Secret, config: &ServerConfig, policy: Policy) -> Server {
    let rng = stream(u64::from_ne_bytes(random()), Stream::Scheduler);
    Server::new(config.clone(), secret.clone(), Cookies::new(random()), policy, rng)
}
