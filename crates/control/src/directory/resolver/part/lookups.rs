//! Names that wait for an answer, in batches of up to 32 keys of one asker.
//!
//! A batch goes to k servers. Each key leaves it with the first acceptable finding; what is left when the time-out is over goes to other
//! servers. Names to be reconfirmed wait apart, so that a storm of them does not delay what somebody waits for, and leave over some seconds, so that
//! agents that must all reconfirm do not flood the servers.

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
    batches: BTreeMap<u64, Batch>,
    last_batch: u64,
    background_batches: usize,
    /// Batches whose last key has its answer.
    emptied: Vec<u64>,
}

#[derive(Debug, Default)]
struct Wanted {
    tokens: SmallVec<[u64; 1]>,
    /// 0: none yet.
    batch: u64,
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
    give_up: Instant,
    is_background: bool,
}

impl Lookups {
    /// Puts a name on the list; false if the list is full.
    pub fn wait(&mut self, name: Name, token: u64, max: usize) -> bool {
        if let Some(wanted) = self.names.get_mut(&name) {
            // One that waits in the background is wanted now.
            if wanted.batch == 0 && wanted.tokens.is_empty() {
                self.queue.push(name);
            }
            wanted.tokens.push(token);
            return true;
        }
        if self.names.len() >= max {
            return false;
        }
        self.names.insert(name, Wanted { tokens: SmallVec::from_slice(&[token]), batch: 0 });
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
    /// Sends what has gathered.
    pub(super) fn flush(&mut self) {
        if self.servers.len() == 0 && self.lookups.queue.is_empty() {
            return;
        }
        while let Some((asker, keys, is_background)) = self.lookups.next_batch() {
            if keys.is_empty() {
                continue;
            }
            self.lookups.last_batch += 1;
            let id = self.lookups.last_batch;
            for &key in &keys {
                if let Some(wanted) = self.lookups.names.get_mut(&(key, asker)) {
                    wanted.batch = id;
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
                give_up: self.now + self.config.give_up,
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
        // Nobody waits for what is confirmed.
        let k = if batch.is_background { 1 } else { self.config.k };
        let mut chosen = self.servers.choose(k, &batch.tried, &mut self.rng);
        let wait = match self.config.retry {
            Retry::Paper => PAPER_WAIT,
            Retry::Adaptive => {
                let timeout = self.servers.timeout(&chosen);
                Duration::from_ns((timeout.as_ns() << batch.attempts.min(8)).min(LONGEST_WAIT.as_ns()))
            }
        };
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
        batch.retry_at = (self.now + wait).min(batch.give_up.max(self.now));
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
        if let Some(batch) = self.lookups.batches.get_mut(&batch) {
            batch.requests.push((to, request));
        }
        self.expect(to, request, What::Lookup { batch, asker, keys }, cookie);
        self.out.push_back(Output::Send { to, bytes });
    }

    /// A batch has waited long enough.
    pub(super) fn retry(&mut self, id: u64) {
        let Some(batch) = self.lookups.batches.get(&id) else { return };
        let is_over = batch.give_up <= self.now;
        for request in &batch.requests {
            if let Some(exchange) = self.exchanges.get_mut(request)
                && !std::mem::replace(&mut exchange.missed, true)
            {
                self.servers.missed(request.0);
            }
        }
        if is_over {
            return self.give_up(id);
        }
        self.counts.retries += 1;
        self.attempt(id);
    }

    fn give_up(&mut self, id: u64) {
        let Some(batch) = self.lookups.batches.get(&id) else { return };
        let asker = batch.asker;
        for key in batch.keys.clone() {
            let name = (key, asker);
            for token in self.lookups.done(&name) {
                self.report(name, token, Resolution::Unanswered);
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
/// Batches of names to be reconfirmed that are under way at a time.
const BACKGROUND_BATCHES: usize = 8;
