//! A writer's machine (VL2, section 4.3.2): an update goes to a random server; one that is not acknowledged within 2 s goes to another, with
//! the same number, and is applied once all the same. No I/O.
//!
//! ```text
//!   Submit --> is `known` fresh? --no--> Health --> Vitals: `known` = its revision
//!                   | yes                                |
//!                   v                                    v
//!              Update to a random server <---------------+
//!                   | Acknowledgement: committed, refused, conflict, malformed --> Done
//!                   | elsewhere: this attempt is dead  --> another server, soon
//!                   | nothing for 2 s               --> another server, the same number
//!                   | stale: this attempt is dead; if all others are, too --> a new number, with a fresh `known`
//!                   v deadline
//!                 Done: not applied if every attempt is dead, else nobody knows
//! ```
//! What a server says of one attempt means for the update what [`attempts`](super::attempts) makes of it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use super::attempts::{Attempts, UpdateResult, Verdict};
use super::auth::PrincipalKey;
use super::key::{Generation, PrincipalId};
use super::servers::Servers;
use super::steady::Steady;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Acknowledgement, Kind, Message, Op, Update, Versions};

/// The configuration of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdaterConfig {
    /// Who writes.
    pub principal: PrincipalId,
    /// Without an acknowledgement the same goes to another server after so long: 2 s (VL2, section 4.3.2).
    pub timeout: Duration,
    /// After so long nobody waits for an update any longer.
    pub give_up: Duration,
    /// Updates under way at most.
    pub waiting_max: usize,
    /// Greater than every number that this principal ever gave to a request from this address or to an update, such as the nanoseconds since
    /// 1970.
    pub first_number: u64,
    /// Of the protocol.
    pub versions: Versions,
}

impl UpdaterConfig {
    /// The usual settings for a principal.
    pub const fn new(principal: PrincipalId) -> Self {
        Self {
            principal,
            timeout: Duration::from_secs(2),
            give_up: Duration::from_secs(10),
            waiting_max: 65_536,
            first_number: 0,
            versions: Versions::OURS,
        }
    }
}

/// What happens to an updater.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Change these keys, all or none.
    Submit {
        /// 1 to 32 operations, each of another key.
        ops: Vec<Op>,
        /// Comes back with the outcome.
        token: u64,
    },
    /// A datagram came.
    Datagram {
        /// From which address.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The deadline has come.
    Timer,
    /// The directory servers, from now on.
    SetServers(&'a [SocketAddr]),
}

/// What an updater wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// To this server.
        to: SocketAddr,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// An update has ended.
    Done {
        /// As it was given.
        token: u64,
        /// How it ended.
        result: UpdateResult,
    },
}

/// The writer's machine.
#[derive(Debug)]
pub struct Updater {
    config: UpdaterConfig,
    servers: Servers,
    rng: Pcg64,
    clock: Steady,
    now: Instant,
    /// The newest revision heard of, and when.
    known: Generation,
    known_at: Option<Instant>,
    /// When a question after a revision is asked again.
    ask_at: Option<Instant>,
    last_number: u64,
    /// By number.
    updates: BTreeMap<u64, Pending>,
    requests: BTreeMap<(SocketAddr, u64), What>,
    timers: BTreeSet<(Instant, Timer)>,
    out: VecDeque<Output>,
}

#[derive(Debug)]
struct Pending {
    token: u64,
    update: Update,
    give_up: Instant,
    /// When it goes out again.
    again_at: Instant,
    /// By server and request.
    attempts: Attempts<(SocketAddr, u64)>,
    /// Servers that were sent an attempt.
    tried: Vec<SocketAddr>,
    /// It waits for a fresh `known`.
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug)]
struct What {
    /// The update; 0: a question after a server's health.
    number: u64,
    sent: Instant,
    cookie: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An update goes out again, or is given up.
    Again(u64),
    /// A question after a revision is asked again.
    Ask,
}

impl Updater {
    /// A writer that knows no server yet.
    pub fn new(config: UpdaterConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        Self {
            servers: Servers::new(config.principal, key, config.first_number, config.versions),
            clock: Steady::default(),
            now: Instant::ZERO,
            known: Generation::default(),
            known_at: None,
            ask_at: None,
            last_number: config.first_number,
            updates: BTreeMap::new(),
            requests: BTreeMap::new(),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            rng,
            config,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.clock.at(now);
        match input {
            Input::Submit { ops, token } => self.submit(ops, token),
            Input::Datagram { from, bytes } => self.datagram(from, bytes),
            Input::Timer => {}
            Input::SetServers(list) => self.set_servers(list),
        }
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Again(number) => self.again(number),
                Timer::Ask => self.ask(),
            }
        }
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| self.clock.to_host(at))
    }

    /// Updates under way.
    pub fn waiting(&self) -> usize {
        self.updates.len()
    }

    fn submit(&mut self, ops: Vec<Op>, token: u64) {
        if self.updates.len() >= self.config.waiting_max {
            return self.out.push_back(Output::Done { token, result: UpdateResult::NotApplied });
        }
        let give_up = self.now + self.config.give_up;
        let update = Update { number: 0, known: self.known, ops };
        self.start(Pending {
            token,
            update,
            give_up,
            again_at: give_up,
            attempts: Attempts::new(),
            tried: Vec::new(),
            is_waiting: true,
        });
    }

    /// Gives an update a number and sends it, or waits for a fresh `known`.
    fn start(&mut self, mut pending: Pending) {
        self.last_number += 1;
        let number = self.last_number;
        pending.update.number = number;
        pending.is_waiting = true;
        pending.again_at = pending.give_up;
        self.timers.insert((pending.again_at, Timer::Again(number)));
        self.updates.insert(number, pending);
        if self.is_fresh() {
            self.send(number);
        } else if self.ask_at.is_none() {
            self.ask();
        }
    }

    fn is_fresh(&self) -> bool {
        self.known_at.is_some_and(|at| self.now.saturating_since(at) < FRESH)
    }

    /// Asks a server how far the store has come.
    fn ask(&mut self) {
        self.ask_at = None;
        if self.is_fresh() || !self.updates.values().any(|pending| pending.is_waiting) {
            return;
        }
        if let Some(&server) = self.servers.choose(1, &[], &mut self.rng).first() {
            self.send_health(server);
        }
        let at = self.now + ASK_AGAIN;
        self.timers.insert((at, Timer::Ask));
        self.ask_at = Some(at);
    }

    fn send_health(&mut self, to: SocketAddr) {
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Health, |out| Message::Health.emit(out));
        self.remember(to, request, 0, &bytes);
        self.out.push_back(Output::Send { to, bytes });
    }

    fn remember(&mut self, to: SocketAddr, request: u64, number: u64, bytes: &[u8]) {
        let cookie = bytes[8..16].try_into().map_or(0, u64::from_be_bytes);
        if number == 0 {
            self.requests.retain(|_, what| what.number != 0 || self.now.saturating_since(what.sent) < FORGET_HEALTH);
        }
        self.requests.insert((to, request), What { number, sent: self.now, cookie });
    }

    /// Sends an attempt of an update to a server that has none yet, if there is one.
    fn send(&mut self, number: u64) {
        let Some(pending) = self.updates.get(&number) else { return };
        let Some(&server) = self.servers.choose(1, &pending.tried, &mut self.rng).first() else { return };
        self.send_to(server, number);
        let wait = self.config.timeout;
        self.set_timer(number, wait);
    }

    fn send_to(&mut self, server: SocketAddr, number: u64) {
        let Some(pending) = self.updates.get_mut(&number) else { return };
        if std::mem::take(&mut pending.is_waiting) {
            pending.update.known = self.known;
        }
        let message = Message::Update(pending.update.clone());
        let (request, bytes) = self.servers.seal(self.now, server, Kind::Update, |out| message.emit(out));
        pending.attempts.sent((server, request));
        if !pending.tried.contains(&server) {
            pending.tried.push(server);
        }
        self.remember(server, request, number, &bytes);
        self.out.push_back(Output::Send { to: server, bytes });
    }

    fn set_timer(&mut self, number: u64, wait: Duration) {
        let Some(pending) = self.updates.get_mut(&number) else { return };
        self.timers.remove(&(pending.again_at, Timer::Again(number)));
        pending.again_at = (self.now + wait).min(pending.give_up);
        self.timers.insert((pending.again_at, Timer::Again(number)));
    }

    /// An update has waited long enough.
    fn again(&mut self, number: u64) {
        let Some(pending) = self.updates.get_mut(&number) else { return };
        if pending.give_up <= self.now {
            let result = pending.attempts.given_up();
            return self.done(number, result);
        }
        for &(server, _) in pending.attempts.alive() {
            self.servers.missed(server);
        }
        if pending.tried.len() >= self.servers.len() {
            // All have an attempt: round again, beginning with another than the last.
            pending.tried.drain(..pending.tried.len().saturating_sub(1));
        }
        self.send(number);
    }

    fn done(&mut self, number: u64, result: UpdateResult) {
        if let Some(pending) = self.close(number) {
            self.out.push_back(Output::Done { token: pending.token, result });
        }
    }

    fn close(&mut self, number: u64) -> Option<Pending> {
        let pending = self.updates.remove(&number)?;
        self.timers.remove(&(pending.again_at, Timer::Again(number)));
        for attempt in pending.attempts.alive() {
            self.requests.remove(attempt);
        }
        Some(pending)
    }

    fn set_servers(&mut self, list: &[SocketAddr]) {
        self.servers.set(list);
        let servers = &self.servers;
        self.requests.retain(|(server, _), _| servers.contains(*server));
        let waiting: Vec<u64> =
            self.updates.iter().filter(|(_, p)| p.tried.is_empty() && !p.is_waiting).map(|(n, _)| *n).collect();
        for number in waiting {
            self.send(number);
        }
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Ok(frame) = self.servers.open(from, bytes) else { return };
        let Ok(message) = Message::parse(frame.header.kind, frame.body) else { return };
        let id = (from, frame.header.request);
        let Some(what) = self.requests.get(&id).copied() else { return };
        let took = self.now.saturating_since(what.sent);
        match message {
            Message::Challenge => {
                self.requests.remove(&id);
                self.servers.answered(from, frame.header.cookie, took);
                if what.cookie != frame.header.cookie {
                    self.challenged(id, &what);
                }
            }
            Message::Unsupported => {
                self.requests.remove(&id);
                self.servers.answered(from, frame.header.cookie, took);
                if self.servers.unsupported(self.now, from, id.1, frame.version) {
                    self.challenged(id, &what);
                }
            }
            Message::Vitals(vitals) if what.number == 0 => {
                self.requests.remove(&id);
                self.servers.answered(from, frame.header.cookie, took);
                self.learn(vitals.revision);
                if let Some(at) = self.ask_at.take() {
                    self.timers.remove(&(at, Timer::Ask));
                }
                self.send_waiting();
            }
            Message::Acknowledgement(ack) if what.number == ack.number => {
                self.requests.remove(&id);
                self.servers.answered(from, frame.header.cookie, took);
                self.acknowledged(id, &ack);
            }
            _ => {}
        }
    }

    /// The server did not look at it: the same again, with the right cookie.
    fn challenged(&mut self, id: (SocketAddr, u64), what: &What) {
        if what.number == 0 {
            return self.send_health(id.0);
        }
        if let Some(pending) = self.updates.get_mut(&what.number) {
            pending.attempts.challenged(&id, what.cookie != 0);
            self.send_to(id.0, what.number);
        }
    }

    fn learn(&mut self, revision: Generation) {
        self.known = self.known.max(revision);
        self.known_at = Some(self.now);
    }

    fn send_waiting(&mut self) {
        let waiting: Vec<u64> = self.updates.iter().filter(|(_, pending)| pending.is_waiting).map(|(n, _)| *n).collect();
        for number in waiting {
            self.send(number);
        }
    }

    fn acknowledged(&mut self, id: (SocketAddr, u64), ack: &Acknowledgement) {
        let Some(pending) = self.updates.get_mut(&ack.number) else { return };
        match pending.attempts.assess(&id, ack) {
            Verdict::Over(result) => {
                if let UpdateResult::Committed(generation) = result {
                    self.learn(generation);
                }
                self.done(ack.number, result);
            }
            Verdict::Elsewhere => {
                let all_tried = pending.tried.len() >= self.servers.len();
                self.set_timer(ack.number, if all_tried { BACK_OFF } else { Duration::ZERO });
            }
            Verdict::Restart => {
                self.known_at = None;
                if let Some(mut pending) = self.close(ack.number) {
                    pending.tried.clear();
                    self.start(pending);
                }
            }
        }
    }
}

/// How long a revision is good as `known`: in so short a time few keys are written more often than their records remember.
const FRESH: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_ms(50);
const FORGET_HEALTH: Duration = Duration::from_secs(2);
/// When every server has said that it cannot take an update now.
const BACK_OFF: Duration = Duration::from_ms(20);
