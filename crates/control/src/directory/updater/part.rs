//! What is written to one part of the directory, or to one that is not divided.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use super::{Input, Output, UpdaterConfig};
use crate::directory::attempts::{Attempts, UpdateResult, Verdict};
use crate::directory::auth::PrincipalKey;
use crate::directory::key::{Generation, Key};
use crate::directory::learning::{Learned, Learning};
use crate::directory::servers::Servers;
use crate::directory::steady::Steady;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Acknowledgement, Kind, Message, Op, Update};

/// The machine of one part.
#[derive(Debug)]
pub struct PartUpdater {
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
    learning: Learning,
    out: VecDeque<Output>,
}

/// An update of a key that another part has: no server has taken it, and none will.
#[derive(Debug)]
pub struct Misplaced {
    pub ops: Vec<Op>,
    pub token: u64,
    pub give_up: Instant,
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
    /// The update; 0: a question after a server's health, or after the parts from this byte on.
    number: u64,
    parts: Option<u32>,
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

impl PartUpdater {
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
            learning: Learning::default(),
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

    /// Whether a datagram answers something that was sent.
    pub fn expects(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let request = self.servers.open(from, bytes).map(|frame| frame.header.request);
        request.is_ok_and(|request| self.requests.contains_key(&(from, request)))
    }

    /// The map of this version is in force; `None`: the directory is not divided.
    pub fn set_parts_version(&mut self, version: Option<u32>) {
        self.learning.set(version);
    }

    /// What a server said of the parts since this was asked last.
    pub fn learned(&mut self) -> Option<Learned> {
        self.learning.learned()
    }

    /// Updates of keys that are not to be kept. Those that a server may have taken stay.
    pub fn misplaced(&mut self, keep: impl Fn(&Key) -> bool) -> Vec<Misplaced> {
        let is_other = |pending: &Pending| {
            let is_dead = pending.attempts.given_up() == UpdateResult::NotApplied;
            is_dead && pending.update.ops.first().is_some_and(|op| !keep(&op.key))
        };
        let others: Vec<u64> = self.updates.iter().filter(|(_, pending)| is_other(pending)).map(|(number, _)| *number).collect();
        let closed = others.into_iter().filter_map(|number| self.close(number));
        closed.map(|it| Misplaced { ops: it.update.ops, token: it.token, give_up: it.give_up }).collect()
    }

    /// Takes an update that was another part's.
    pub fn adopt(&mut self, now: Instant, update: Misplaced) {
        self.now = self.clock.at(now);
        self.begin(update);
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
        self.begin(Misplaced { ops, token, give_up });
    }

    fn begin(&mut self, Misplaced { ops, token, give_up }: Misplaced) {
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
        self.remember(to, request, 0, None, &bytes);
        self.out.push_back(Output::Send { to, bytes });
    }

    fn send_parts(&mut self, to: SocketAddr, at: u32) {
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Parts, |out| Learning::question(at).emit(out));
        self.remember(to, request, 0, Some(at), &bytes);
        self.out.push_back(Output::Send { to, bytes });
    }

    fn remember(&mut self, to: SocketAddr, request: u64, number: u64, parts: Option<u32>, bytes: &[u8]) {
        let cookie = bytes[8..16].try_into().map_or(0, u64::from_be_bytes);
        if number == 0 {
            self.requests.retain(|_, what| what.number != 0 || self.now.saturating_since(what.sent) < FORGET_HEALTH);
        }
        self.requests.insert((to, request), What { number, parts, sent: self.now, cookie });
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
        self.remember(server, request, number, None, &bytes);
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
            Message::PartsPage(page) if what.parts == Some(page.at) => {
                self.requests.remove(&id);
                self.servers.answered(from, frame.header.cookie, took);
                if let Ok(Some(at)) = self.learning.take(from, &page) {
                    self.send_parts(from, at);
                }
            }
            Message::Vitals(vitals) if what.number == 0 && what.parts.is_none() => {
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
        if let Some(at) = what.parts {
            return self.send_parts(id.0, at);
        }
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
                if self.learning.is_due(self.now) {
                    self.send_parts(id.0, 0);
                }
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
pub const ASK_AGAIN: Duration = Duration::from_ms(50);
const FORGET_HEALTH: Duration = Duration::from_secs(2);
/// When every server has said that it cannot take an update now.
pub const BACK_OFF: Duration = Duration::from_ms(20);
