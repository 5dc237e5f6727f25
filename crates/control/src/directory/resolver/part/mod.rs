//! What is asked of one part of the directory, or of one that is not divided: its cache, its lookups, its withdrawals.

mod cache;
mod follow;
mod lookups;
mod sync;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use smallvec::SmallVec;
use weft_fabric::rng::Pcg64;

use self::cache::{Cache, Name, Said};
use self::lookups::Lookups;
use super::{Input, Output, Resolution, ResolverConfig, ResolverCounts};
use crate::directory::auth::PrincipalKey;
use crate::directory::key::{Generation, Key, Value};
use crate::directory::learning::{Learned, Learning};
use crate::directory::servers::{Refusal, Servers, cookie_of};
use crate::directory::steady::Steady;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Answer, Finding, Header, Kind, Message, Misdelivered};

/// The machine of one part.
#[derive(Debug)]
pub struct PartResolver {
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
    learning: Learning,
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
    /// Keys of a batch, in the order asked, and how far it was backed off.
    Lookup { batch: u64, backoff: u32, asker: Option<Key>, keys: Vec<Key> },
    /// What was withdrawn since.
    Sync { since: Generation },
    /// The same of what is held, and perhaps later ones unasked.
    Follow(follow::Asked),
    /// Which part has which keys, from this byte on.
    Parts { at: u32 },
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

impl PartResolver {
    /// A resolver that knows no server yet.
    pub fn new(config: ResolverConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        Self {
            servers: Servers::new(config.principal, key, config.first_request, config.versions),
            cache: Cache::new(config.capacity, config.negative, config.fail_static),
            lookups: Lookups::default(),
            sync: sync::SyncState::default(),
            doubt: sync::Doubt::default(),
            subscriptions: follow::Subscriptions::default(),
            learning: Learning::default(),
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
        let at = timer
            .min(self.cache.next_expiry())
            .min(self.sync_due())
            .min(self.doubt_due())
            .min(self.lookups.confirm_due())
            .min(self.lookups.send_due());
        (at != Instant::MAX).then(|| self.clock.to_host(at))
    }

    /// The map of this version is in force; `None`: the directory is not divided.
    pub fn set_parts_version(&mut self, version: Option<u32>) {
        self.learning.set(version);
    }

    /// What a server said of the parts since this was asked last.
    pub fn learned(&mut self) -> Option<Learned> {
        self.learning.learned()
    }

    /// Another key of the same principal.
    pub fn set_key(&mut self, key: &PrincipalKey) {
        self.servers.set_key(key);
    }

    /// The time of the last input, also where that was another part's.
    pub fn pass(&mut self, now: Instant) {
        self.now = self.clock.at(now);
    }

    /// Whether this is a server of the part.
    pub fn has_server(&self, server: SocketAddr) -> bool {
        self.servers.contains(server)
    }

    /// Peers held, which the capacity counts.
    pub const fn peers(&self) -> usize {
        self.cache.peers()
    }

    /// Evicts a peer.
    pub fn evict_peer(&mut self) {
        self.cache.evict_peer();
        let gone = self.cache.take_evicted();
        self.invalidate(&gone);
    }

    /// An asker that another part has is not what it was: what was allowed to it is to be looked up again.
    pub fn forget_asker(&mut self, asker: &Key) {
        let mut gone = Vec::new();
        self.cache.forget_asker(asker, self.now, &mut gone);
        self.invalidate(&gone);
    }

    /// Other parts have the keys that are not to be kept: who waited for them.
    pub fn keep(&mut self, keep: impl Fn(&Key) -> bool) -> Vec<(Name, SmallVec<[u64; 1]>)> {
        let mut gone = Vec::new();
        self.cache.keep(&keep, self.now, &mut gone);
        self.invalidate(&gone);
        let waiting = self.lookups.keep(keep);
        self.lookups.settle(&mut self.timers);
        waiting
    }

    /// What has been counted.
    pub const fn counts(&self) -> ResolverCounts {
        ResolverCounts { evicted: self.cache.evictions(), ..self.counts }
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
        if !self.lookups.wait(self.now, name, token, self.config.waiting_max) {
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
            (Message::Answer(answer), What::Lookup { batch, backoff, asker, keys }) => {
                self.end(id, &exchange, &frame.header);
                self.lookups.answered(*backoff, self.now);
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
            (Message::PartsPage(page), What::Parts { at }) if *at == page.at => {
                self.end(id, &exchange, &frame.header);
                match self.learning.take(from, &page) {
                    Ok(Some(at)) => self.send_parts(from, at),
                    Ok(None) => {}
                    Err(()) => self.counts.malformed += 1,
                }
            }
            _ => return self.counts.unasked += 1,
        }
        if self.learning.is_older_than(self.policy) {
            self.ask_parts(from);
        }
    }

    /// Asks a server which part has which keys, unless it was asked lately.
    fn ask_parts(&mut self, from: SocketAddr) {
        if self.learning.is_due(self.now) {
            self.send_parts(from, 0);
        }
    }

    fn send_parts(&mut self, to: SocketAddr, at: u32) {
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Parts, |out| Learning::question(at).emit(out));
        self.expect(to, request, What::Parts { at }, cookie_of(&bytes));
        self.out.push_back(Output::Send { to, bytes });
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
            What::Lookup { batch, asker, keys, .. } => self.send_batch(to, *batch, *asker, keys.clone()),
            What::Sync { since } => self.send_sync(to, *since),
            What::Follow(asked) => self.send_follow(to, asked.push),
            What::Parts { at } => self.send_parts(to, *at),
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
        let (mut useless, mut elsewhere) = (false, false);
        for (&key, (generation, finding)) in keys.iter().zip(answer.results()) {
            let name = (key, asker);
            if self.config.capacity == 0 && !self.lookups.is_answered_by(batch, &name) {
                // Who waits now asked later than this was asked.
                continue;
            }
            if finding == Finding::Elsewhere {
                (useless, elsewhere) = (true, true);
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
        if elsewhere {
            self.ask_parts(from);
        }
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
            What::Lookup { batch, asker, keys, .. } => {
                keys.iter().any(|&key| self.lookups.is_answered_by(*batch, &(key, *asker)))
            }
            What::Sync { .. } | What::Follow(_) | What::Parts { .. } | What::Report(_) => false,
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
