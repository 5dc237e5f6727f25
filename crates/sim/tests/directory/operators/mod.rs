//! Operators on streams, and what must hold for them whatever breaks.
//!
//! ```text
//!   watcher:    open --> List, page by page --> Watch --> Events ...      broken: open at any server, Watch from where it was
//!                                ^----- `from` is greater than asked: changes were forgotten -----'
//!   publisher:  open --> Fetch, part by part --> Publish over that version, part by part --> pause ...
//! ```
//! Now and then a watcher reads nothing for a while. When the faults are over, publishers read what another replaces at that moment ([`races`]).
//!
//! - A watcher misses no change up to the revision that it was sent, unless `from` says so; generations do not go back; at the end it holds what the
//!   store holds.
//! - Each published document is stored at most once, over the version that it expected; an acknowledged one is stored; a conflict means that another
//!   version was there.
//! - A server never serves an older version of a document than it has served, and none that is not stored; without faults none that was replaced 0.5 s ago.
//! - A server holds no more for its streams than its budget.

mod publishers;
mod races;

use std::collections::BTreeMap;

use rand::RngExt;
use weft_control::directory::budget::ByteLimits;
use weft_control::directory::request::StreamId;
use weft_control::directory::{Generation, Key, Value};
use weft_control::wire::directory::{Change, Entry, Kind, Message, Watch};
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{Cluster, Reading, Seen};

use self::publishers::{Attempt, Doing, Publisher};
use self::races::Race;

/// Operators of a trial: watchers first, then publishers.
pub const OPERATORS: u16 = 4;
const WATCHERS: u16 = 2;
/// Token of the first operator's call.
pub const FIRST_CALL: u64 = 1_000;
const NAMES: [&str; 2] = ["tenants", "spain"];

#[derive(Debug)]
pub struct Operators {
    rng: Pcg64,
    servers: u16,
    /// Whether nothing fails.
    is_calm: bool,
    /// Whether clocks step.
    has_steps: bool,
    heal_at: Instant,
    links: Vec<Link>,
    watchers: Vec<Watcher>,
    publishers: Vec<Publisher>,
    attempts: Vec<Attempt>,
    /// The newest version of a document that anybody received of a server: (server, its life, name).
    served: BTreeMap<(u16, u32, usize), u32>,
    /// The last version that a server served: when, and which.
    last_served: BTreeMap<(u16, usize), (Instant, u32)>,
    race: Option<Race>,
    /// Fetches at the end, which come to every server and name.
    last_fetches: usize,
    pub counts: Counts,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub lists: u64,
    pub forgotten: u64,
    pub changes: u64,
    pub broken: u64,
    pub fetched: u64,
    pub unavailable: u64,
    pub committed: u64,
    pub conflicts: u64,
    pub unknown: u64,
}

/// An operator's stream.
#[derive(Debug, Default)]
struct Link {
    stream: Option<(StreamId, u16)>,
    /// The number of the last request.
    request: u64,
}

#[derive(Debug, Default)]
struct Watcher {
    /// By key: the newest change; without a value: deleted.
    held: BTreeMap<Key, (Generation, Option<Value>)>,
    /// All changes up to this revision are in `held`; `None`: it must list.
    position: Option<Generation>,
    listing: Option<Listing>,
    /// Whether no Events came to the Watch yet.
    is_first: bool,
}

#[derive(Debug, Default)]
struct Listing {
    /// The revisions of the first and of the last page.
    revisions: Option<(Generation, Generation)>,
    entries: Vec<Entry>,
}

impl Operators {
    pub fn new(seed: u64, servers: u16, rough: u32, heal_at: Instant) -> Self {
        Self {
            rng: Pcg64::new(u128::from(mix(seed)), 81),
            servers,
            is_calm: rough == 0,
            has_steps: rough > 2,
            heal_at,
            links: (0..OPERATORS).map(|_| Link::default()).collect(),
            watchers: (0..WATCHERS).map(|_| Watcher::default()).collect(),
            publishers: (WATCHERS..OPERATORS).map(|_| Publisher::default()).collect(),
            attempts: Vec::new(),
            served: BTreeMap::new(),
            last_served: BTreeMap::new(),
            race: None,
            last_fetches: 0,
            counts: Counts::default(),
        }
    }

    pub fn begin(&self, cluster: &mut Cluster) {
        self.begin_races(cluster);
        for n in 0..OPERATORS {
            cluster.call_at(Instant::ZERO + Duration::from_ms(u64::from(n)), FIRST_CALL + u64::from(n));
        }
    }

    /// It is an operator's turn.
    pub fn call(&mut self, cluster: &mut Cluster, token: u64) -> Result<(), String> {
        if let Some(step) = token.checked_sub(races::FIRST_CALL) {
            self.race(cluster, step);
            return Ok(());
        }
        let operator = (token - FIRST_CALL) as u16;
        let is_quiet = cluster.now() >= self.heal_at + Duration::from_secs(2);
        if is_watcher(operator) || !self.is_racing(cluster) {
            self.turn(cluster, operator, is_quiet);
        }
        let pause = if is_quiet { 200_000 } else { 40_000 };
        let after = Duration::from_us(self.rng.random_range(1_000..=pause));
        cluster.call_at(cluster.now() + after, token);
        self.check_budget(cluster)
    }

    fn turn(&mut self, cluster: &mut Cluster, operator: u16, is_quiet: bool) {
        // Now and then it goes to another server by itself, or a watcher forgets all and lists; at the end publishers ask all.
        let leaves = if is_quiet { !is_watcher(operator) && self.is_idle(operator) } else { self.rng.random_range(0..25) == 0 };
        if leaves && self.leave(cluster, operator) && is_watcher(operator) && self.rng.random_range(0..2) == 0 {
            self.watchers[usize::from(operator)] = Watcher::default();
        }
        let fetches = self.last_fetches;
        if self.links[usize::from(operator)].stream.is_none() {
            let any = self.rng.random_range(0..self.servers);
            self.open(cluster, operator, if is_quiet { (fetches % usize::from(self.servers)) as u16 } else { any });
        }
        if is_watcher(operator) {
            self.read_or_not(cluster, operator, is_quiet);
        } else if self.is_idle(operator) {
            let any = self.rng.random_range(0..NAMES.len());
            self.begin_fetch(cluster, operator, if is_quiet { fetches / usize::from(self.servers) % NAMES.len() } else { any });
            self.last_fetches += usize::from(is_quiet);
        }
    }

    fn open(&mut self, cluster: &mut Cluster, operator: u16, server: u16) {
        self.links[usize::from(operator)].stream = cluster.open_stream(operator, server).map(|stream| (stream, server));
        if is_watcher(operator) {
            self.watch(cluster, operator);
        }
    }

    /// Closes its stream; false if it has none.
    fn leave(&mut self, cluster: &mut Cluster, operator: u16) -> bool {
        let Some((stream, _)) = self.links[usize::from(operator)].stream.take() else { return false };
        cluster.close_stream(stream);
        self.lost(operator);
        true
    }

    /// A watcher stops reading for a while, or goes on.
    fn read_or_not(&mut self, cluster: &mut Cluster, operator: u16, is_quiet: bool) {
        let Some((stream, _)) = self.links[usize::from(operator)].stream else { return };
        match self.rng.random_range(0..60) {
            _ if is_quiet => cluster.set_reading(stream, Reading::Prompt),
            0 => cluster.set_reading(stream, Reading::Stopped),
            1 => cluster.set_reading(stream, Reading::Slow(1_000)),
            2..5 => cluster.set_reading(stream, Reading::Prompt),
            _ => {}
        }
    }

    fn check_budget(&self, cluster: &Cluster) -> Result<(), String> {
        for server in 0..self.servers {
            let (charged, held) = cluster.stream_bytes(server);
            if held > charged || held > usize::from(OPERATORS) * ByteLimits::DEFAULT.stream {
                return Err(format!("server {server} holds {held} bytes, its budget has {charged}"));
            }
        }
        Ok(())
    }

    /// An operator received something.
    pub fn see(&mut self, cluster: &mut Cluster, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::StreamBroken { operator, stream } => {
                let link = &mut self.links[usize::from(*operator)];
                if link.stream.is_some_and(|(it, _)| it == *stream) {
                    link.stream = None;
                    self.counts.broken += 1;
                    self.lost(*operator);
                }
                Ok(())
            }
            Seen::StreamMessage { operator, stream, request, kind, body } => {
                let link = &self.links[usize::from(*operator)];
                // Events of an earlier Watch may still come on the stream.
                if link.stream.is_none_or(|(it, _)| it != *stream) || link.request != *request {
                    return Ok(());
                }
                let message = Message::parse(*kind, body).map_err(|e| format!("operator {operator} received {kind:?}: {e}"))?;
                self.receive(cluster, *operator, *kind, message).map_err(|e| format!("operator {operator}: {e}"))
            }
            _ => Ok(()),
        }
    }

    fn receive(&mut self, cluster: &mut Cluster, operator: u16, kind: Kind, message: Message<'_>) -> Result<(), String> {
        match message {
            Message::Page { revision, more, entries } => self.page(cluster, operator, revision, more, entries),
            Message::Events(change) => self.events(cluster, operator, &change),
            Message::Document(part) => self.document(cluster, operator, &part),
            Message::Published(published) => self.published(cluster, operator, published),
            _ => Err(format!("an unexpected {kind:?}")),
        }
    }

    fn send(&mut self, cluster: &mut Cluster, operator: u16, message: &Message<'_>) {
        let link = &mut self.links[usize::from(operator)];
        let Some((stream, _)) = link.stream else { return };
        link.request += 1;
        cluster.send_request(stream, link.request, message);
    }

    fn publisher(&mut self, operator: u16) -> &mut Publisher {
        &mut self.publishers[usize::from(operator - WATCHERS)]
    }

    fn is_idle(&self, operator: u16) -> bool {
        matches!(self.publishers[usize::from(operator - WATCHERS)].doing, Doing::Nothing)
    }

    /// Nothing more comes to what was asked on a stream.
    fn lost(&mut self, operator: u16) {
        if is_watcher(operator) {
            self.watchers[usize::from(operator)].listing = None;
        } else {
            self.publisher(operator).doing = Doing::Nothing;
        }
    }

    // Watchers.

    /// Watches from where it was, or lists.
    fn watch(&mut self, cluster: &mut Cluster, operator: u16) {
        let watcher = &mut self.watchers[usize::from(operator)];
        match watcher.position {
            Some(from) => {
                watcher.is_first = true;
                self.send(cluster, operator, &Message::Watch(Watch { from }));
            }
            None => self.list(cluster, operator),
        }
    }

    fn list(&mut self, cluster: &mut Cluster, operator: u16) {
        self.counts.lists += 1;
        self.watchers[usize::from(operator)].listing = Some(Listing::default());
        self.next_page(cluster, operator, None);
    }

    fn next_page(&mut self, cluster: &mut Cluster, operator: u16, after: Option<Key>) {
        let limit = self.rng.random_range(1..=5);
        self.send(cluster, operator, &Message::List { after, limit });
    }

    fn page(
        &mut self,
        cluster: &mut Cluster,
        operator: u16,
        revision: Generation,
        more: bool,
        entries: Vec<Entry>,
    ) -> Result<(), String> {
        let watcher = &mut self.watchers[usize::from(operator)];
        let Some(listing) = &mut watcher.listing else { return Err("a page unasked".to_owned()) };
        let (first, last) = listing.revisions.unwrap_or((revision, revision));
        if revision < last || watcher.position.is_some_and(|position| first < position) {
            return Err(format!("a page of {revision:?} after {last:?} and {:?}", watcher.position));
        }
        listing.revisions = Some((first, revision));
        for entry in entries {
            was_written(cluster, &entry)?;
            if entry.value.is_none() || listing.entries.last().is_some_and(|last| last.key >= entry.key) {
                return Err(format!("a page out of order: {entry:?}"));
            }
            listing.entries.push(entry);
        }
        if more {
            let after = listing.entries.last().ok_or("more after nothing")?.key;
            self.next_page(cluster, operator, Some(after));
            return Ok(());
        }
        // What was held and is not listed was deleted, unless the change is newer than the list.
        let listed: BTreeMap<Key, Entry> = std::mem::take(&mut listing.entries).into_iter().map(|it| (it.key, it)).collect();
        for (key, held) in &mut watcher.held {
            if held.0 <= first && !listed.contains_key(key) {
                *held = (first, None);
            }
        }
        for (key, entry) in listed {
            let held = watcher.held.entry(key).or_default();
            if entry.generation < held.0 && held.0 <= first {
                return Err(format!("{key} went back from {held:?} to {entry:?} in a list of {first:?}"));
            }
            if entry.generation > held.0 {
                *held = (entry.generation, entry.value);
            }
        }
        (watcher.listing, watcher.position) = (None, Some(first));
        self.watch(cluster, operator);
        Ok(())
    }

    fn events(&mut self, cluster: &mut Cluster, operator: u16, change: &Change) -> Result<(), String> {
        let watcher = &mut self.watchers[usize::from(operator)];
        let Some(position) = watcher.position else { return Err("events unasked".to_owned()) };
        if change.from < position {
            return Err(format!("events from {:?} after {position:?}", change.from));
        }
        if change.from > position && watcher.is_first {
            self.counts.forgotten += 1;
            self.list(cluster, operator);
            return Ok(());
        }
        watcher.is_first = false;
        // The server sends no Events where nothing changed.
        complete(cluster, position, change)?;
        for entry in &change.entries {
            was_written(cluster, entry)?;
            let held = watcher.held.entry(entry.key).or_default();
            if entry.generation == held.0 && entry.value != held.1 {
                return Err(format!("{held:?} and {entry:?}"));
            }
            if entry.generation > held.0 {
                *held = (entry.generation, entry.value.clone());
            }
        }
        self.counts.changes += change.entries.len() as u64;
        watcher.position = Some(position.max(change.revision));
        Ok(())
    }

    /// What must hold once all is quiet.
    pub fn check(&self, cluster: &Cluster) -> Result<(), String> {
        for (n, watcher) in self.watchers.iter().enumerate() {
            if self.links[n].stream.is_none() || watcher.position.is_none() || watcher.listing.is_some() {
                return Err(format!("watcher {n} does not watch"));
            }
            let live =
                |(key, (generation, value)): (&Key, &(Generation, Option<Value>))| Some((*key, *generation, value.clone()?));
            let held: Vec<_> = watcher.held.iter().filter_map(live).collect();
            let stored: Vec<_> =
                cluster.store.all().into_iter().filter_map(|it| Some((it.key, it.generation, it.record?.value?))).collect();
            if held != stored {
                return Err(format!("watcher {n} holds {held:?}, the store {stored:?}"));
            }
        }
        self.documents_stored_once(cluster)?;
        for (name, text) in NAMES.iter().enumerate() {
            let stored = cluster.store.document(text).map_or(0, |it| it.version);
            for server in 0..self.servers {
                match self.last_served.get(&(server, name)) {
                    Some(&(at, version)) if at > self.heal_at + Duration::from_secs(8) && version == stored => {}
                    other => return Err(format!("server {server} served {other:?} of {text}, the store has {stored}")),
                }
            }
        }
        Ok(())
    }
}

const fn is_watcher(operator: u16) -> bool {
    operator < WATCHERS
}

/// Whether the store has written this value with this generation; without a value: whether it had none then (a server that reloads everything does not
/// learn when a tombstone was written that has been purged since).
fn was_written(cluster: &Cluster, entry: &Entry) -> Result<(), String> {
    let log = cluster.store.log();
    let end = log.partition_point(|it| it.revision <= entry.generation);
    let mut writes = log[..end].iter().rev().flat_map(|it| it.writes.iter().map(|(key, record)| (it.revision, key, record)));
    let (revision, value) = writes
        .find(|(_, key, _)| **key == entry.key)
        .map_or_else(Default::default, |(revision, _, record)| (revision, record.as_ref().and_then(|it| it.value.as_ref())));
    if value == entry.value.as_ref() && (value.is_none() || revision == entry.generation) {
        Ok(())
    } else {
        Err(format!("{entry:?} was never written"))
    }
}

/// Whether Events have, in order, all changes after `position` up to their revision but those that were overwritten since.
fn complete(cluster: &Cluster, position: Generation, change: &Change) -> Result<(), String> {
    let in_order = change.entries.is_sorted_by_key(|entry| entry.generation);
    let within = change.entries.iter().all(|it| it.generation > change.from && it.generation <= change.revision);
    if !in_order || !within {
        return Err(format!("out of order: {change:?}"));
    }
    let log = cluster.store.log();
    let first = log.partition_point(|it| it.revision <= position);
    for (at, commit) in log.iter().enumerate().skip(first).take_while(|(_, it)| it.revision <= change.revision) {
        for (key, record) in &commit.writes {
            let is_there = change.entries.iter().any(|it| it.generation == commit.revision && it.key == *key);
            let is_overwritten = || log[at + 1..].iter().any(|later| later.writes.iter().any(|(it, _)| it == key));
            if record.is_some() && !is_there && !is_overwritten() {
                return Err(format!("{key} of {:?} is missing after {position:?}: {change:?}", commit.revision));
            }
        }
    }
    Ok(())
}
