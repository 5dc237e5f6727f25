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
//! A directory may be divided into [`parts`](super::parts), which have servers and revisions of their own: each has a cache and lookups of its own here. An agent learns so from a
//! server that says "elsewhere".
//!
//! What the data plane was given by [`Output::Resolved`] it may use until [`Output::Invalidated`] names it. The caller drains [`Resolver::poll`]
//! after each [`Resolver::handle`], and hands in [`Input::Timer`] when [`Resolver::deadline`] has come.

mod part;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use self::part::PartResolver;
use super::auth::PrincipalKey;
use super::key::{Generation, Key, PrincipalId, Value};
use super::learning::Learned;
use super::parts::PartMap;
use super::steady::Steady;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Misdelivered, Versions};

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
    /// The directory servers, from now on; of a divided directory, some of them.
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
    key: PrincipalKey,
    rng: Pcg64,
    clock: Steady,
    now: Instant,
    /// The servers that were given.
    servers: Vec<SocketAddr>,
    /// In the places of the map; one while the directory is not divided.
    parts: Vec<PartResolver>,
    map: Option<PartMap>,
    /// Of the policy that the map is of.
    version: u32,
    /// Own addresses that have changed, and when the servers of all parts know it.
    changed: VecDeque<(Instant, Key)>,
    out: VecDeque<Output>,
}

impl Resolver {
    /// A resolver that knows no server yet.
    pub fn new(config: ResolverConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        Self {
            clock: Steady::default(),
            now: Instant::ZERO,
            servers: Vec::new(),
            parts: vec![PartResolver::new(config, key, rng.clone())],
            map: None,
            version: 0,
            changed: VecDeque::new(),
            out: VecDeque::new(),
            key: key.clone(),
            rng,
            config,
        }
    }

    /// Something happened. The clock may jump: a step back is taken for no time, a step forward for time that passed.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.clock.at(now);
        if self.map.is_some() {
            self.parts.iter_mut().for_each(|part| part.pass(now));
        }
        match input {
            Input::SetServers(list) => {
                self.servers = list.to_vec();
                if self.map.is_none() {
                    self.parts[0].handle(now, input);
                }
            }
            Input::Resolve { key, asker, .. } => {
                let place = self.place(&key);
                self.watch_asker(place, asker);
                self.parts[place].handle(now, input);
            }
            Input::Datagram { from, .. } => {
                let place = self.parts.iter().position(|part| part.has_server(from)).unwrap_or(0);
                self.parts[place].handle(now, input);
                if let Some(learned) = self.parts[place].learned() {
                    self.learn(now, learned);
                }
            }
            Input::Misdelivered(report) => {
                let place = self.place(&report.key);
                self.parts[place].handle(now, input);
            }
            Input::Timer => self.parts.iter_mut().for_each(|part| part.handle(now, Input::Timer)),
        }
        if self.map.is_some() {
            self.keep_together();
        }
    }

    /// Another key of the same principal, from now on.
    pub fn set_key(&mut self, key: &PrincipalKey) {
        self.key = key.clone();
        self.parts.iter_mut().for_each(|part| part.set_key(key));
    }

    /// What is to be done next; `None`: nothing until the next input. Lookups of one instant leave together, so drain it after all of them.
    pub fn poll(&mut self) -> Option<Output> {
        let output = self.out.pop_front().or_else(|| self.parts.iter_mut().find_map(PartResolver::poll))?;
        if let Output::Invalidated { key, asker: Some(asker) } = output
            && key == asker
            && self.map.is_some()
        {
            // The servers of other parts may not know it yet, and what they say until then is not right either.
            self.forget_asker(&key);
            self.changed.push_back((self.now.saturating_add(ASKER_KNOWN), key));
        }
        Some(output)
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        let changed = self.changed.front().map(|&(at, _)| self.clock.to_host(at));
        self.parts.iter().filter_map(PartResolver::deadline).chain(changed).min()
    }

    /// What has been counted.
    pub fn counts(&self) -> ResolverCounts {
        self.parts.iter().map(PartResolver::counts).fold(ResolverCounts::default(), ResolverCounts::plus)
    }

    /// For how long what was confirmed is used while no server answers.
    pub const fn fail_static(&self) -> Duration {
        self.config.fail_static
    }

    /// Names held, of all kinds.
    pub fn held(&self) -> usize {
        self.parts.iter().map(PartResolver::held).sum()
    }

    /// Since when nothing that is held of some part was confirmed, if that is longer than it takes while a server answers.
    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.parts.iter().filter_map(PartResolver::unconfirmed_since).min()
    }

    /// All mappings that the data plane may use at the last input's time, in order of key and asker within each part.
    pub fn usable(&self) -> impl Iterator<Item = (Key, Option<Key>, Generation, &Value)> {
        self.parts.iter().flat_map(PartResolver::usable)
    }

    /// What the data plane may use for a name at the last input's time, without asking anybody.
    pub fn cached(&self, key: Key, asker: Option<Key>) -> Option<(Generation, &Value)> {
        self.parts[self.place(&key)].cached(key, asker)
    }

    /// Looks a name up again though it is held, when there is time: what its value leads to is not there. If it has changed,
    /// [`Output::Invalidated`] says so.
    pub fn refresh(&mut self, key: Key, asker: Option<Key>) {
        let place = self.place(&key);
        self.parts[place].refresh(key, asker);
    }

    /// From now on nothing older is believed of a key.
    pub fn at_least(&mut self, key: &Key, generation: Generation) {
        let place = self.place(key);
        self.parts[place].at_least(key, generation);
    }

    /// Which part has which keys, and the version of the policy that says so; `None`: the directory is not divided, or no server has said so yet.
    pub fn parts(&self) -> Option<(u32, &PartMap)> {
        self.map.as_ref().map(|map| (self.version, map))
    }

    /// The same from somebody who knows. An older version than the one that is known changes nothing.
    pub fn set_parts(&mut self, now: Instant, version: u32, map: Option<PartMap>) {
        self.now = self.clock.at(now);
        if version > self.version {
            self.divide(now, version, map, None);
        }
    }

    fn place(&self, key: &Key) -> usize {
        self.map.as_ref().map_or(0, |map| map.part_of(key))
    }

    fn learn(&mut self, now: Instant, Learned { from, version, map }: Learned) {
        if version > self.version {
            return self.divide(now, version, map, Some(from));
        }
        if version == self.version {
            let known = self.map.as_ref().map(|_| version);
            self.parts.iter_mut().for_each(|part| part.set_parts_version(known));
        }
    }

    /// The directory has other parts. Each that stays keeps what it knows; who waits for a key that has another part now is served by that one.
    fn divide(&mut self, now: Instant, version: u32, map: Option<PartMap>, from: Option<SocketAddr>) {
        self.version = version;
        if map.is_none() && self.map.is_none() {
            return;
        }
        let old_map = std::mem::replace(&mut self.map, map);
        let mut old: Vec<Option<PartResolver>> = std::mem::take(&mut self.parts).into_iter().map(Some).collect();
        let places = self.map.as_ref().map_or(1, |map| map.parts().len());
        for place in 0..places {
            let kept = match (&old_map, &self.map) {
                (Some(before), Some(map)) => before.place_of(&map.parts()[place].name),
                // What one store said is that of the part that has it now.
                (None, Some(map)) => {
                    let is_home = |server: &SocketAddr| map.part_of_server(*server) == Some(place);
                    (from.as_ref().is_some_and(is_home) && self.servers.iter().all(is_home)).then_some(0)
                }
                (_, None) => None,
            };
            let kept = kept.and_then(|place| old[place].take());
            let mut part = kept.unwrap_or_else(|| self.new_part(place));
            let list = self.map.as_ref().map_or(&self.servers, |map| &map.parts()[place].servers);
            part.handle(now, Input::SetServers(list));
            part.set_parts_version(self.map.as_ref().map(|_| version));
            self.parts.push(part);
        }
        let mut waiting = Vec::new();
        for mut part in old.into_iter().flatten() {
            waiting.extend(part.keep(|_| false));
            while let Some(output) = part.poll() {
                self.out.push_back(output);
            }
        }
        if let Some(map) = &self.map {
            for (place, part) in self.parts.iter_mut().enumerate() {
                waiting.extend(part.keep(|key| map.part_of(key) == place));
            }
        }
        for ((key, asker), tokens) in waiting {
            let place = self.place(&key);
            self.watch_asker(place, asker);
            for token in tokens {
                self.parts[place].handle(now, Input::Resolve { key, asker, token });
            }
        }
    }

    fn new_part(&self, place: usize) -> PartResolver {
        use rand::RngExt;
        let mut rng = self.rng.clone();
        let seed = u128::from(rng.random::<u64>());
        PartResolver::new(self.config, &self.key, Pcg64::new(seed, u128::from(self.version) << 16 | place as u128))
    }

    /// Somebody asks a part on behalf of an own address that another part has: if that changes, what the part says is worth nothing, so it is held, and followed.
    fn watch_asker(&mut self, place: usize, asker: Option<Key>) {
        let Some(asker) = asker else { return };
        let home = self.place(&asker);
        if home != place && self.parts[home].cached(asker, Some(asker)).is_none() {
            self.parts[home].refresh(asker, Some(asker));
        }
    }

    /// What concerns all parts: the capacity, and own addresses.
    fn keep_together(&mut self) {
        while let Some(&(at, key)) = self.changed.front()
            && at <= self.now
        {
            self.changed.pop_front();
            self.forget_asker(&key);
        }
        while self.config.capacity > 0 && self.parts.iter().map(PartResolver::peers).sum::<usize>() > self.config.capacity {
            let Some(largest) = self.parts.iter_mut().max_by_key(|part| part.peers()) else { return };
            largest.evict_peer();
        }
    }

    fn forget_asker(&mut self, asker: &Key) {
        let home = self.place(asker);
        for (_, part) in self.parts.iter_mut().enumerate().filter(|(place, _)| *place != home) {
            part.forget_asker(asker);
        }
    }
}

impl ResolverCounts {
    const fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            retries: self.retries + other.retries,
            strangers: self.strangers + other.strangers,
            malformed: self.malformed + other.malformed,
            bad_tags: self.bad_tags + other.bad_tags,
            unasked: self.unasked + other.unasked,
            stale: self.stale + other.stale,
            old_policy: self.old_policy + other.old_policy,
            evicted: self.evicted + other.evicted,
            unsupported: self.unsupported + other.unsupported,
        }
    }
}

/// By then the servers of all parts know that an address has changed: a second (`docs/directory.md`, revocation), and as much again.
const ASKER_KNOWN: Duration = Duration::from_secs(2);
