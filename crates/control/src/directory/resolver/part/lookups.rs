//! Names that wait for an answer, in batches of up to 32 keys of one asker.
//!
//! A batch goes to k servers. Each key leaves it with the first acceptable finding; what is left when the time-out is over goes to other
//! servers. Names to be reconfirmed wait apart, so that a storm of them does not delay what somebody waits for, and leave over some seconds, so that
//! agents that must all reconfirm do not flood the servers. Servers that answer too little are asked less ([`Pace`]): names gather in the queue, and leave
//! together.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use smallvec::SmallVec;

use super::super::Retry;
use super::cache::Name;
use super::{Output, PartResolver, Resolution, Timer, What};
use crate::directory::key::{Generation, Key};
use crate::directory::servers::{Chosen, cookie_of};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Kind, Lookup, MAX_KEYS};

/// All lookups under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    names: BTreeMap<Name, Wanted>,
    /// Not sent yet.
    queue: Vec<Name>,
    /// To be looked up when there is time.
    background: VecDeque<Name>,
    /// To be looked up one batch in a while.
    confirm: VecDeque<Name>,
    /// When the next of these is due, and how long after it the one after.
    confirm_at: Instant,
    confirm_every: Duration,
    pace: Pace,
    batches: BTreeMap<u64, Batch>,
    last_batch: u64,
    background_batches: usize,
    /// Batches whose last key has its answer.
    emptied: Vec<u64>,
}

#[derive(Debug, Default)]
struct Wanted {
    tokens: SmallVec<[u64; 1]>,
    /// Since when, from which it is given up after a time. `None`: nobody waits, and it was not sent yet.
    since: Option<Instant>,
    /// 0: none.
    batch: u64,
    /// The first that it was in; 0: it was not sent yet.
    first_batch: u64,
}

#[derive(Debug)]
struct Batch {
    asker: Option<Key>,
    keys: Vec<Key>,
    /// Servers asked, and those of the last attempt that have not said that they cannot help.
    tried: Chosen,
    hopes: Chosen,
    /// Requests of the last attempt.
    requests: SmallVec<[(SocketAddr, u64); 2]>,
    attempts: u32,
    retry_at: Instant,
    /// Since when its names are waited for, or earlier.
    since: Instant,
    /// By how much the last attempt was backed off.
    backoff: u32,
    is_background: bool,
}

/// How often servers are asked that may be overloaded: requests that are not answered make the wait for an answer longer, for later names too, and answers make it
/// shorter, so that about every second request is answered whatever the number of agents. Once the wait is long, names leave a batch at a time.
#[derive(Debug)]
struct Pace {
    /// The wait is 2^this times the usual.
    backoff: u32,
    /// When the next batch may leave, if the wait is long.
    next: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { backoff: 0, next: Instant::ZERO }
    }
}

impl Pace {
    const fn is_slow(&self) -> bool {
        self.backoff >= SLOW
    }

    /// A request that was backed off so far was not answered in time. Of several that left together, the first alone counts.
    fn missed(&mut self, backoff: u32) {
        self.backoff = self.backoff.max(backoff + 1).min(BACKOFF_MAX);
    }

    /// One was answered: the next may leave.
    fn answered(&mut self, backoff: u32, now: Instant) {
        self.backoff = self.backoff.min(backoff.saturating_sub(1));
        self.next = now;
    }
}

impl Lookups {
    /// Puts a name on the list; false if the list is full.
    pub fn wait(&mut self, now: Instant, name: Name, token: u64, max: usize) -> bool {
        if let Some(wanted) = self.names.get_mut(&name) {
            // One that waits in the background is wanted now.
            if wanted.batch == 0 && wanted.tokens.is_empty() {
                self.queue.push(name);
            }
            wanted.tokens.push(token);
            wanted.since.get_or_insert(now);
            return true;
        }
        if self.names.len() >= max {
            return false;
        }
        self.names.insert(name, Wanted { tokens: SmallVec::from_slice(&[token]), since: Some(now), batch: 0, first_batch: 0 });
        self.queue.push(name);
        true
    }

    /// Looks a name up again when there is time, though nobody waits for it.
    pub fn refresh(&mut self, name: Name) {
        if let Entry::Vacant(place) = self.names.entry(name) {
            place.insert(Wanted::default());
            self.background.push_back(name);
        }
    }

    /// Looks names up again: a batch at `at`, and the others over a time.
    pub fn confirm(&mut self, names: Vec<Name>, at: Instant, over: Duration) {
        self.confirm.clear();
        self.confirm.extend(names);
        self.confirm_at = at;
        self.confirm_every = over / (self.confirm.len().div_ceil(MAX_KEYS).max(1) as u64);
    }

    /// When the next of these is due.
    pub fn confirm_due(&self) -> Instant {
        if self.confirm.is_empty() { Instant::MAX } else { self.confirm_at }
    }

    /// The next batch of these, if it is time, joins what is looked up when there is time.
    pub fn confirm_some(&mut self, now: Instant) {
        if self.confirm_due() > now {
            return;
        }
        self.confirm_at = now + self.confirm_every;
        for _ in 0..self.confirm.len().min(MAX_KEYS) {
            if let Some(name) = self.confirm.pop_front() {
                self.refresh(name);
            }
        }
    }

    pub fn is_waiting(&self, name: &Name) -> bool {
        self.names.contains_key(name)
    }

    /// Whether a name is waited for since it left in this batch or an earlier one.
    pub fn is_answered_by(&self, batch: u64, name: &Name) -> bool {
        self.names.get(name).is_some_and(|wanted| (1..=batch).contains(&wanted.first_batch))
    }

    /// When the next batch may leave, if names wait for that.
    pub fn send_due(&self) -> Instant {
        let background = !self.background.is_empty() && self.background_batches < BACKGROUND_BATCHES;
        if self.pace.is_slow() && (background || !self.queue.is_empty()) { self.pace.next } else { Instant::MAX }
    }

    /// A server answered a request that was backed off so far.
    pub fn answered(&mut self, backoff: u32, now: Instant) {
        self.pace.answered(backoff, now);
    }

    pub fn is_in(&self, batch: u64, name: &Name) -> bool {
        self.names.get(name).is_some_and(|wanted| wanted.batch == batch)
    }

    /// A name has its answer: who waited for it.
    pub fn done(&mut self, name: &Name) -> SmallVec<[u64; 1]> {
        let Some(wanted) = self.names.remove(name) else { return SmallVec::new() };
        if let Some(batch) = self.batches.get_mut(&wanted.batch) {
            batch.keys.retain(|key| *key != name.0);
            if batch.keys.is_empty() {
                self.emptied.push(wanted.batch);
            }
        }
        wanted.tokens
    }

    /// Drops the names of other keys: who waited for them.
    pub fn keep(&mut self, keep: impl Fn(&Key) -> bool) -> Vec<(Name, SmallVec<[u64; 1]>)> {
        let others: Vec<Name> = self.names.keys().filter(|name| !keep(&name.0)).copied().collect();
        self.queue.retain(|name| keep(&name.0));
        self.background.retain(|name| keep(&name.0));
        self.confirm.retain(|name| keep(&name.0));
        others.into_iter().map(|name| (name, self.done(&name))).collect()
    }

    /// Closes batches that have no keys left.
    pub fn settle(&mut self, timers: &mut BTreeSet<(Instant, Timer)>) {
        for id in std::mem::take(&mut self.emptied) {
            if let Some(batch) = self.batches.remove(&id) {
                timers.remove(&(batch.retry_at, Timer::Retry(id)));
                self.background_batches -= usize::from(batch.is_background);
            }
        }
    }

    /// What is left of a batch waits for its turn again, after the others.
    fn put_back(&mut self, id: u64) {
        let Some(batch) = self.batches.remove(&id) else { return };
        self.background_batches -= usize::from(batch.is_background);
        for key in batch.keys {
            let name = (key, batch.asker);
            if let Some(wanted) = self.names.get_mut(&name) {
                wanted.batch = 0;
                if wanted.tokens.is_empty() { self.background.push_back(name) } else { self.queue.push(name) }
            }
        }
    }

    /// The next names to send together.
    fn next_batch(&mut self) -> Option<(Option<Key>, Vec<Key>, bool)> {
        if !self.queue.is_empty() {
            // By asker, in the order asked.
            let asker = self.queue[0].1;
            let mut keys = Vec::new();
            let names = &self.names;
            self.queue.retain(|name| {
                if names.get(name).is_none_or(|wanted| wanted.batch != 0) {
                    return false;
                }
                let fits = name.1 == asker && keys.len() < MAX_KEYS;
                if fits {
                    keys.push(name.0);
                }
                !fits
            });
            return Some((asker, keys, false));
        }
        if self.background_batches >= BACKGROUND_BATCHES {
            return None;
        }
        let mut keys = Vec::new();
        let mut asker = None;
        while let Some(&name) = self.background.front() {
            let is_idle = self.names.get(&name).is_some_and(|wanted| wanted.batch == 0);
            if is_idle {
                if keys.len() == MAX_KEYS || !keys.is_empty() && name.1 != asker {
                    break;
                }
                asker = name.1;
                keys.push(name.0);
            }
            self.background.pop_front();
        }
        (!keys.is_empty()).then_some((asker, keys, true))
    }
}

impl PartResolver {
    /// Sends what has gathered, if its time has come.
    pub(super) fn flush(&mut self) {
        if self.servers.len() == 0 {
            self.lookups.pace = Pace::default();
            if self.lookups.queue.is_empty() {
                return;
            }
        }
        while !self.lookups.pace.is_slow() || self.lookups.pace.next <= self.now {
            if self.lookups.pace.is_slow() {
                let queue = std::mem::take(&mut self.lookups.queue);
                self.give_up(&queue);
                self.lookups.queue = queue;
            }
            let Some((asker, keys, is_background)) = self.lookups.next_batch() else { return };
            if keys.is_empty() {
                continue;
            }
            self.lookups.last_batch += 1;
            let id = self.lookups.last_batch;
            let mut since = self.now;
            for &key in &keys {
                if let Some(wanted) = self.lookups.names.get_mut(&(key, asker)) {
                    wanted.batch = id;
                    if wanted.first_batch == 0 {
                        wanted.first_batch = id;
                    }
                    since = since.min(*wanted.since.get_or_insert(self.now));
                }
            }
            self.lookups.background_batches += usize::from(is_background);
            let batch = Batch {
                asker,
                keys,
                tried: Chosen::new(),
                hopes: Chosen::new(),
                requests: SmallVec::new(),
                attempts: 0,
                retry_at: self.now,
                since,
                backoff: 0,
                is_background,
            };
            self.lookups.batches.insert(id, batch);
            self.attempt(id);
        }
    }

    /// Sends what is left of a batch to k servers, rather to such as were not asked yet, and sets its timer.
    fn attempt(&mut self, id: u64) {
        let Some(batch) = self.lookups.batches.get_mut(&id) else { return };
        if batch.tried.len() >= self.servers.len() {
            batch.tried.clear();
        }
        let pace = &mut self.lookups.pace;
        // Nobody waits for what is confirmed.
        let k = if batch.is_background || pace.is_slow() { 1 } else { self.config.k };
        let mut chosen = self.servers.choose(k, &batch.tried, &mut self.rng);
        batch.backoff = batch.attempts.max(pace.backoff).min(BACKOFF_MAX);
        let wait = match self.config.retry {
            Retry::Paper => PAPER_WAIT,
            Retry::Adaptive => {
                let timeout = self.servers.timeout(&chosen);
                Duration::from_ns((timeout.as_ns() << batch.backoff).min(LONGEST_WAIT.as_ns()))
            }
        };
        pace.next = self.now + wait;
        if self.config.retry == Retry::Paper {
            while !chosen.is_empty() && chosen.len() < self.config.k {
                chosen.push(chosen[0]);
            }
        }
        for server in &chosen {
            if !batch.tried.contains(server) {
                batch.tried.push(*server);
            }
        }
        batch.hopes.clone_from(&chosen);
        batch.attempts += 1;
        batch.requests.clear();
        batch.retry_at = (self.now + wait).min((batch.since + self.config.give_up).max(self.now));
        self.timers.insert((batch.retry_at, Timer::Retry(id)));
        let (asker, keys) = (batch.asker, batch.keys.clone());
        for server in chosen {
            self.send_batch(server, id, asker, keys.clone());
        }
    }

    pub(super) fn send_batch(&mut self, to: SocketAddr, batch: u64, asker: Option<Key>, keys: Vec<Key>) {
        // Not `at_least`: one key whose generation is far ahead would send all others elsewhere too. The cache checks each.
        let (request, bytes) =
            self.servers.seal(self.now, to, Kind::Lookup, |out| Lookup::emit(Generation::default(), asker.as_ref(), &keys, out));
        let cookie = cookie_of(&bytes);
        let mut backoff = self.lookups.pace.backoff;
        if let Some(batch) = self.lookups.batches.get_mut(&batch) {
            batch.requests.push((to, request));
            backoff = batch.backoff;
        }
        self.expect(to, request, What::Lookup { batch, backoff, asker, keys }, cookie);
        self.out.push_back(Output::Send { to, bytes });
    }

    /// A batch has waited long enough.
    pub(super) fn retry(&mut self, id: u64) {
        let Some(batch) = self.lookups.batches.get(&id) else { return };
        let mut was_missed = false;
        for request in &batch.requests {
            if let Some(exchange) = self.exchanges.get_mut(request)
                && !std::mem::replace(&mut exchange.missed, true)
            {
                self.servers.missed(request.0);
                was_missed = true;
            }
        }
        if was_missed && self.config.retry == Retry::Adaptive {
            self.lookups.pace.missed(batch.backoff);
        }
        let names: Vec<Name> = batch.keys.iter().map(|&key| (key, batch.asker)).collect();
        self.give_up(&names);
        let since = names.iter().filter_map(|name| self.lookups.names.get(name)?.since).min();
        let (Some(batch), Some(since)) = (self.lookups.batches.get_mut(&id), since) else { return };
        batch.since = since;
        self.counts.retries += 1;
        if self.lookups.pace.is_slow() {
            self.lookups.put_back(id);
        } else {
            self.attempt(id);
        }
    }

    /// Those of these names that have waited too long are not looked up any more.
    fn give_up(&mut self, names: &[Name]) {
        for name in names {
            let since = self.lookups.names.get(name).and_then(|wanted| wanted.since);
            if since.is_none_or(|since| since + self.config.give_up > self.now) {
                continue;
            }
            for token in self.lookups.done(name) {
                self.report(*name, token, Resolution::Unanswered);
            }
        }
        self.lookups.settle(&mut self.timers);
    }

    /// A server cannot help with what is left of a batch. If that was the last hope of this attempt, others are asked at once; if there are no
    /// others, after the time-out.
    pub(super) fn elsewhere(&mut self, id: u64, from: SocketAddr) {
        let all = self.servers.len();
        let Some(batch) = self.lookups.batches.get_mut(&id) else { return };
        batch.hopes.retain(|server| *server != from);
        if batch.hopes.is_empty() && batch.tried.len() < all {
            self.timers.remove(&(batch.retry_at, Timer::Retry(id)));
            self.attempt(id);
        }
    }
}

/// VL2, section 5.5.
const PAPER_WAIT: Duration = Duration::from_secs(2);
/// Between two attempts at most.
const LONGEST_WAIT: Duration = Duration::from_ms(500);
/// The wait is doubled so often at most.
const BACKOFF_MAX: u32 = 8;
/// From this backoff on names leave a batch at a time: with a tenth of all datagrams lost it is reached one time in 1,000.
const SLOW: u32 = 3;
/// Batches of names to be reconfirmed that are under way at a time.
const BACKGROUND_BATCHES: usize = 8;
