//! The agent's resolver (VL2, section 4.3.2): a cache, and the lookups that fill it. No I/O: datagrams and time come in, datagrams go out.
//!
//! ```text
//!   Resolve ---> cache? --yes--> Resolved
//!                  | no
//!                  v
//!               waiting --all of the same instant, up to 32 keys a datagram--> k random servers
//!                  ^                                                            |     |
//!                  +-- no answer in time: again, to others (lookups) <----------+     v
//!               cache <--first acceptable finding of each key-- Answer ----------> Resolved
//!
//!   twice a second  Follow --> one server --> Withdrawn: these leave the cache, all other leases restart           (revocation)
//!   when idle       Follow --> two servers, which send Withdrawn unasked from then on
//!   unasked         Correction: a mapping in use was stale                                                         (section 4.3.2)
//! ```
//! What the data plane was given by [`Output::Resolved`] it may use until [`Output::Invalidated`] names it. The caller drains [`Resolver::poll`]
//! after each [`Resolver::handle`], and hands in [`Input::Timer`] when [`Resolver::deadline`] has come.

mod cache;
mod follow;
mod lookups;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use super::auth::PrincipalKey;
use super::key::{Generation, Key, PrincipalId, Value};
use super::servers::{Refusal, Servers, cookie_of};
use super::steady::Steady;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Answer, Finding, Header, Kind, Message, Misdelivered, Versions};
use cache::{Cache, Name, Said};
use lookups::Lookups;

/// How long an agent waits before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Retry {
    /// By the measured round-trip time, 3 ms at least (RFC 6298), doubled each time.
    #[default]
    Adaptive,
    /// 2 s, and `k` copies of a lookup even where there are fewer servers, as VL2's prototype (section 5.5).
    Paper,
}

/// The configuration of a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Whose agent it is.
    pub principal: PrincipalId,
    /// Servers that a lookup is sent to: 2 in VL2's prototype.
    pub k: usize,
    /// When to ask again.
    pub retry: Retry,
    /// A lookup that nobody has answered by then has failed.
    pub give_up: Duration,
    /// Peers that the cache holds at most: own addresses, groups and refused names are not counted. 0: every lookup is sent, for those who decide by it (switches)
    /// or measure servers.
    pub capacity: usize,
    /// How long a negative answer is believed.
    pub negative: Duration,
    /// While no server answers, mappings are used for their lease, and at least for this time since they were confirmed. [`Duration::MAX`]: until a server answers.
    pub fail_static: Duration,
    /// Lookups under way at most; more fail at once.
    pub waiting_max: usize,
    /// Greater than every request number that this principal ever sent from this address, such as the nanoseconds since 1970.
    pub first_request: u64,
    /// Of the protocol.
    pub versions: Versions,
}

impl ResolverConfig {
    /// The usual settings for a principal.
    pub const fn new(principal: PrincipalId) -> Self {
        Self {
            principal,
            k: 2,
            retry: Retry::Adaptive,
            give_up: Duration::from_secs(5),
            capacity: 65_536,
            negative: Duration::from_ms(500),
            fail_static: Duration::MAX,
            waiting_max: 65_536,
            first_request: 0,
            versions: Versions::OURS,
        }
    }
}

/// What happens to a resolver.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Somebody on this host wants to send to `key`.
    Resolve {
        /// To whom.
        key: Key,
        /// The key that lives on this host on whose behalf it is asked; `None`: the host itself.
        asker: Option<Key>,
        /// Comes back with the answer.
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
    /// A packet came to where its receiver is not any more: a server learns who holds a stale mapping.
    Misdelivered(Misdelivered),
    /// The directory servers, from now on.
    SetServers(&'a [SocketAddr]),
}

/// What a resolver wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// To this server.
        to: SocketAddr,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// A lookup has ended.
    Resolved {
        /// As it was given.
        token: u64,
        /// The key.
        key: Key,
        /// On whose behalf.
        asker: Option<Key>,
        /// How it ended.
        resolution: Resolution,
    },
    /// The data plane must not use what it holds of this key for this asker any longer.
    Invalidated {
        /// The key.
        key: Key,
        /// On whose behalf it was looked up.
        asker: Option<Key>,
    },
}

/// How a lookup ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The key stands for this, since this generation.
    Found(Generation, Value),
    /// There is no such key.
    Unknown,
    /// The asker may not know.
    Forbidden,
    /// No server has answered.
    Unanswered,
}

/// What a resolver has seen, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverCounts {
    /// Lookups answered by the cache.
    pub hits: u64,
    /// Lookups that had to be sent.
    pub misses: u64,
    /// Datagrams sent again because nobody had answered.
    pub retries: u64,
    /// Dropped: from an address that is no server.
    pub strangers: u64,
    /// Dropped: no message, or not for this principal.
    pub malformed: u64,
    /// Dropped: the tag is wrong.
    pub bad_tags: u64,
    /// Dropped: the answer to no request under way.
    pub unasked: u64,
    /// Ignored: findings older than what is known.
    pub stale: u64,
    /// Ignored: answers under an older policy than one that was seen.
    pub old_policy: u64,
    /// Peers evicted from the cache because its capacity was reached.
    pub evicted: u64,
    /// Answers that a server does not know this version of the protocol.
    pub unsupported: u64,
}

/// The agent's machine.
#[derive(Debug)]
pub struct Resolver {
    config: ResolverConfig,
    servers: Servers,
    rng: Pcg64,
    clock: Steady,
    now: Instant,
    cache: Cache,
    lookups: Lookups,
    sync: sync::SyncState,
    doubt: sync::Doubt,
    subscriptions: follow::Subscriptions,
    /// The newest version of the access policy that any server has shown.
    policy: u32,
    /// Requests that may still be answered.
    exchanges: BTreeMap<(SocketAddr, u64), Exchange>,
    timers: BTreeSet<(Instant, Timer)>,
    out: VecDeque<Output>,
    counts: ResolverCounts,
}

/// A request under way.
#[derive(Clone, Debug)]
struct Exchange {
    sent: Instant,
    /// When it is forgotten.
    expires: Instant,
    cookie: u64,
    /// It has been counted as missed.
    missed: bool,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// Keys of a batch, in the order asked.
    Lookup { batch: u64, asker: Option<Key>, keys: Vec<Key> },
    /// What was withdrawn since.
    Sync { since: Generation },
    /// The same of what is held, and perhaps later ones unasked.
    Follow(follow::Asked),
    /// Not answered, but perhaps challenged.
    Report(Misdelivered),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A batch has waited long enough.
    Retry(u64),
    /// A request will not be answered any more.
    Expire(SocketAddr, u64),
}

impl Resolver {
    /// A resolver that knows no server yet.
    pub fn new(config: ResolverConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        Self {
            servers: Servers::new(config.principal, key, config.first_request, config.versions),
            cache: Cache::new(config.capacity, config.negative, config.fail_static),
            lookups: Lookups::default(),
            sync: sync::SyncState::default(),
            doubt: sync::Doubt::default(),
            subscriptions: follow::Subscriptions::default(),
            clock: Steady::default(),
            now: Instant::ZERO,
            policy: 0,
            exchanges: BTreeMap::new(),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            counts: ResolverCounts::default(),
            rng,
            config,
        }
    }

    /// Something happened. The clock may jump: a step back is taken for no time, a step forward for time that passed.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.clock.at(now);
        match input {
            Input::Resolve { key, asker, token } => self.resolve((key, asker), token),
            Input::Datagram { from, bytes } => self.datagram(from, bytes),
            Input::Misdelivered(report) => self.report_misdelivered(report),
            Input::Timer => {}
            Input::SetServers(list) => self.set_servers(list),
        }
        self.run_timers();
    }

    /// What is to be done next; `None`: nothing until the next input. Lookups of one instant leave together, so drain it after all of them.
    pub fn poll(&mut self) -> Option<Output> {
        self.flush();
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.first().map_or(Instant::MAX, |&(at, _)| at);
        let at = timer.min(self.cache.next_expiry()).min(self.sync_due()).min(self.doubt_due()).min(self.lookups.confirm_due());
        (at != Instant::MAX).then(|| self.clock.to_host(at))
    }

    /// What has been counted.
    pub const fn counts(&self) -> ResolverCounts {
        ResolverCounts { evicted: self.cache.evictions(), ..self.counts }
    }

    /// For how long what was confirmed is used while no server answers.
    pub const fn fail_static(&self) -> Duration {
        self.config.fail_static
    }

    /// Names held, of all kinds.
    pub fn held(&self) -> usize {
        self.cache.len()
    }

    /// Since when nothing that is held was confirmed, if that is longer than it takes while a server answers.
    pub fn unconfirmed_since(&self) -> Option<Instant> {
        let unconfirmed = self.sync.unconfirmed_since(self.now).filter(|_| !self.subscriptions.are_in_force());
        unconfirmed.map(|at| self.clock.to_host(at))
    }

    /// All mappings that the data plane may use at the last input's time, in order of key and asker.
    pub fn usable(&self) -> impl Iterator<Item = (Key, Option<Key>, Generation, &Value)> {
        self.cache.usable(self.now).map(|((key, asker), generation, value)| (key, asker, generation, value))
    }

    /// What the data plane may use for a name at the last input's time, without asking anybody.
    pub fn cached(&self, key: Key, asker: Option<Key>) -> Option<(Generation, &Value)> {
        self.cache.found_value(&(key, asker), self.now)
    }

    /// Looks a name up again though it is held, when there is time: what its value leads to is not there. If it has changed,
    /// [`Output::Invalidated`] says so.
    pub fn refresh(&mut self, key: Key, asker: Option<Key>) {
        self.lookups.refresh((key, asker));
    }

    /// From now on nothing older is believed of a key.
    pub fn at_least(&mut self, key: &Key, generation: Generation) {
        self.cache.at_least(key, generation);
    }

    fn report_misdelivered(&mut self, report: Misdelivered) {
        if let Some(&server) = self.servers.choose(1, &[], &mut self.rng).first() {
            self.send_report(server, report);
        }
    }

    fn send_report(&mut self, to: SocketAddr, report: Misdelivered) {
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Misdelivered, |out| Message::Misdelivered(report).emit(out));
        self.expect(to, request, What::Report(report), cookie_of(&bytes));
        self.out.push_back(Output::Send { to, bytes });
    }

    fn resolve(&mut self, name: Name, token: u64) {
        if let Some((generation, finding)) = self.cache.get(&name, self.now) {
            self.counts.hits += 1;
            return self.resolved(name, token, generation, finding);
        }
        self.counts.misses += 1;
        if !self.lookups.wait(name, token, self.config.waiting_max) {
            self.report(name, token, Resolution::Unanswered);
        }
    }

    fn resolved(&mut self, name: Name, token: u64, generation: Generation, finding: Finding) {
        let resolution = match finding {
            Finding::Found(value) => Resolution::Found(generation, value),
            Finding::Unknown => Resolution::Unknown,
            Finding::Forbidden => Resolution::Forbidden,
            Finding::Elsewhere => Resolution::Unanswered,
        };
        self.report(name, token, resolution);
    }

    fn report(&mut self, (key, asker): Name, token: u64, resolution: Resolution) {
        self.out.push_back(Output::Resolved { token, key, asker, resolution });
    }

    fn invalidate(&mut self, gone: &[Name]) {
        self.out.extend(gone.iter().map(|&(key, asker)| Output::Invalidated { key, asker }));
    }

    fn set_servers(&mut self, list: &[SocketAddr]) {
        self.servers.set(list);
        let servers = &self.servers;
        let gone: Vec<_> = self.exchanges.keys().filter(|(server, _)| !servers.contains(*server)).copied().collect();
        for exchange in gone {
            self.forget(exchange);
        }
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let frame = match self.servers.open(from, bytes) {
            Ok(frame) => frame,
            Err(Refusal::Stranger) => return self.counts.strangers += 1,
            Err(Refusal::Malformed) => return self.counts.malformed += 1,
            Err(Refusal::BadTag) => return self.counts.bad_tags += 1,
            Err(Refusal::Version) => return self.counts.unsupported += 1,
        };
        let Ok(message) = Message::parse(frame.header.kind, frame.body) else { return self.counts.malformed += 1 };
        if let Message::Correction(correction) = message {
            return self.corrected(&correction);
        }
        if let (Message::Withdrawn(page), 0) = (&message, frame.header.request) {
            return self.pushed(from, page);
        }
        let id = (from, frame.header.request);
        let Some(exchange) = self.exchanges.get(&id).cloned() else { return self.counts.unasked += 1 };
        match (message, &exchange.what) {
            (Message::Challenge, _) => self.challenged(id, &exchange, &frame.header),
            (Message::Unsupported, _) => {
                self.end(id, &exchange, &frame.header);
                if !self.servers.unsupported(self.now, from, id.1, frame.version) {
                    return self.counts.unsupported += 1;
                }
                self.send_again(id.0, &exchange);
            }
            (Message::Answer(answer), What::Lookup { batch, asker, keys }) => {
                self.end(id, &exchange, &frame.header);
                self.answered(from, *batch, *asker, keys, &answer, exchange.sent);
            }
            (Message::Changes(changes), What::Sync { since }) => {
                self.end(id, &exchange, &frame.header);
                self.changed(&changes, *since, exchange.sent);
            }
            (Message::Withdrawn(page), What::Follow(asked)) => {
                self.end(id, &exchange, &frame.header);
                self.followed(from, &page, *asked, exchange.sent);
            }
            _ => self.counts.unasked += 1,
        }
    }

    /// The server does not know this agent yet, or has restarted: the same again, with its cookie.
    fn challenged(&mut self, id: (SocketAddr, u64), exchange: &Exchange, header: &Header) {
        self.end(id, exchange, header);
        if exchange.cookie != header.cookie {
            self.send_again(id.0, exchange);
        }
    }

    fn send_again(&mut self, to: SocketAddr, exchange: &Exchange) {
        match &exchange.what {
            What::Lookup { batch, asker, keys } => self.send_batch(to, *batch, *asker, keys.clone()),
            What::Sync { since } => self.send_sync(to, *since),
            What::Follow(asked) => self.send_follow(to, asked.push),
            What::Report(report) => self.send_report(to, *report),
        }
    }

    fn end(&mut self, id: (SocketAddr, u64), exchange: &Exchange, header: &Header) {
        self.servers.answered(id.0, header.cookie, self.now.saturating_since(exchange.sent));
        self.forget(id);
    }

    fn forget(&mut self, id: (SocketAddr, u64)) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.timers.remove(&(exchange.expires, Timer::Expire(id.0, id.1)));
        }
    }

    /// Begins to wait for the answer to a request.
    fn expect(&mut self, to: SocketAddr, request: u64, what: What, cookie: u64) {
        let expires = self.now + EXPIRES;
        self.timers.insert((expires, Timer::Expire(to, request)));
        let missed = matches!(what, What::Report(_));
        self.exchanges.insert((to, request), Exchange { sent: self.now, expires, cookie, missed, what });
    }

    fn answered(&mut self, from: SocketAddr, batch: u64, asker: Option<Key>, keys: &[Key], answer: &Answer<'_>, sent: Instant) {
        if !self.is_current(answer.policy) {
            return self.elsewhere(batch, from);
        }
        self.heard();
        let mut gone = Vec::new();
        let mut useless = false;
        for (&key, (generation, finding)) in keys.iter().zip(answer.results()) {
            let name = (key, asker);
            if self.config.capacity == 0 && !self.lookups.is_in(batch, &name) {
                // Who waits now asked later than this was asked.
                continue;
            }
            if finding == Finding::Elsewhere {
                useless = true;
                continue;
            }
            let said = Said { revision: answer.revision, policy: answer.policy, generation, finding, asked: sent };
            match self.cache.accept(name, &said, self.now) {
                cache::Verdict::Stale => {
                    self.counts.stale += 1;
                    // What is newer may be here already, by the other server's answer.
                    useless |= self.lookups.is_waiting(&name);
                    continue;
                }
                cache::Verdict::Replaced => gone.push(name),
                cache::Verdict::Taken => {}
            }
            self.covered_since(answer.revision);
            if let Finding::Found(value) = &said.finding {
                self.holds(&key, asker.as_ref(), value);
            }
            for token in self.lookups.done(&name) {
                self.resolved(name, token, generation, said.finding.clone());
            }
        }
        gone.extend(self.cache.take_evicted());
        self.invalidate(&gone);
        self.lookups.settle(&mut self.timers);
        if useless {
            self.elsewhere(batch, from);
        } else if answer.count > 0 && answer.count < keys.len() {
            // The rest had no room.
            let rest: Vec<Key> =
                keys[answer.count..].iter().copied().filter(|&k| self.lookups.is_in(batch, &(k, asker))).collect();
            if !rest.is_empty() {
                self.send_batch(from, batch, asker, rest);
            }
        }
    }

    /// Whether a server's policy is not older than the newest seen. A newer one puts all that is held in doubt.
    fn is_current(&mut self, policy: u32) -> bool {
        if policy < self.policy {
            self.counts.old_policy += 1;
            return false;
        }
        if policy > self.policy {
            let first = self.policy == 0 && self.cache.len() == 0;
            self.policy = policy;
            if !first {
                self.reconfirm();
            }
        }
        true
    }

    /// A request was not answered for long. Its answer is still good while somebody waits for one of its keys.
    fn expire(&mut self, id: (SocketAddr, u64)) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if !std::mem::replace(&mut exchange.missed, true) {
            self.servers.missed(id.0);
        }
        let is_waited_for = match &exchange.what {
            What::Lookup { batch, asker, keys } => keys.iter().any(|&key| self.lookups.is_in(*batch, &(key, *asker))),
            What::Sync { .. } | What::Follow(_) | What::Report(_) => false,
        };
        if is_waited_for {
            exchange.expires = self.now + EXPIRES;
            self.timers.insert((exchange.expires, Timer::Expire(id.0, id.1)));
        } else {
            self.exchanges.remove(&id);
        }
    }

    fn run_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Retry(batch) => self.retry(batch),
                Timer::Expire(server, request) => self.expire((server, request)),
            }
        }
        self.doubt_timer();
        if self.cache.next_expiry() <= self.now {
            let mut gone = Vec::new();
            self.cache.expire(self.now, &mut gone);
            self.invalidate(&gone);
        }
        if self.sync_due() <= self.now {
            self.sync_now();
        }
        self.lookups.confirm_some(self.now);
    }
}

/// An answer that comes later than this is waited for only if somebody waits for its keys.
const EXPIRES: Duration = Duration::from_secs(2);
