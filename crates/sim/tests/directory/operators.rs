//! Operators on streams, and what must hold for them whatever breaks.
//!
//! ```text
//!   watcher:    open --> List, page by page --> Watch --> Events ...      broken: open at any server, Watch from where it was
//!                                ^----- `from` is greater than asked: changes were forgotten -----'
//!   publisher:  open --> Fetch, part by part --> Publish over that version, part by part --> pause ...
//! ```
//! - A watcher misses no change up to the revision that it was sent, unless `from` says so; generations do not go back; at the end it holds what the
//!   store holds.
//! - Each published document is stored at most once, over the version that it expected; an acknowledged one is stored; a conflict means that another
//!   version was there.
//! - A server never serves an older version of a document than it has served, and none that is not stored; without faults none that was replaced 0.5 s ago.

use std::collections::BTreeMap;

use rand::RngExt;
use weft_control::directory::documents::{Document, FRESH};
use weft_control::directory::request::StreamId;
use weft_control::directory::{Generation, Key, Value};
use weft_control::wire::directory::{
    Change, DOCUMENT_PART, DocumentPart, Entry, Fetch, FetchOutcome, Kind, Message, Publish, PublishOutcome, Published, Watch,
};
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{Cluster, Seen};
use weft_sim::directory::network::Node;

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
    heal_at: Instant,
    links: Vec<Link>,
    watchers: Vec<Watcher>,
    publishers: Vec<Publisher>,
    attempts: Vec<Attempt>,
    /// The newest version of a document that anybody received of a server: (server, its life, name).
    served: BTreeMap<(u16, u32, usize), u32>,
    /// The last version that a server served: when, and which.
    last_served: BTreeMap<(u16, usize), (Instant, u32)>,
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

#[derive(Debug, Default)]
struct Publisher {
    doing: Doing,
    /// Documents that it has fetched, by name.
    known: BTreeMap<usize, Document>,
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Fetching {
        name: usize,
        known: u32,
        version: u32,
        bytes: Vec<u8>,
        at: Instant,
        at_least: u32,
    },
    Publishing {
        attempt: usize,
        sent: usize,
    },
}

/// A document that an operator sends to one server, once.
#[derive(Debug)]
struct Attempt {
    name: usize,
    expect: u32,
    document: Document,
    call: Instant,
    ended: Option<(Instant, Published)>,
}

impl Operators {
    pub fn new(seed: u64, servers: u16, is_calm: bool, heal_at: Instant) -> Self {
        Self {
            rng: Pcg64::new(u128::from(mix(seed)), 81),
            servers,
            is_calm,
            heal_at,
            links: (0..OPERATORS).map(|_| Link::default()).collect(),
            watchers: (0..WATCHERS).map(|_| Watcher::default()).collect(),
            publishers: (WATCHERS..OPERATORS).map(|_| Publisher::default()).collect(),
            attempts: Vec::new(),
            served: BTreeMap::new(),
            last_served: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    pub fn begin(&self, cluster: &mut Cluster) {
        for n in 0..OPERATORS {
            cluster.call_at(Instant::ZERO + Duration::from_ms(u64::from(n)), FIRST_CALL + u64::from(n));
        }
    }

    /// It is an operator's turn.
    pub fn call(&mut self, cluster: &mut Cluster, token: u64) {
        let operator = (token - FIRST_CALL) as u16;
        let is_quiet = cluster.now() >= self.heal_at + Duration::from_secs(2);
        // Now and then it goes to another server by itself, or a watcher forgets all and lists; at the end publishers ask all.
        let leaves = if is_quiet { !is_watcher(operator) && self.is_idle(operator) } else { self.rng.random_range(0..25) == 0 };
        if leaves && let Some((stream, _)) = self.links[usize::from(operator)].stream.take() {
            cluster.close_stream(stream);
            self.lost(operator);
            if is_watcher(operator) && self.rng.random_range(0..2) == 0 {
                self.watchers[usize::from(operator)] = Watcher::default();
            }
        }
        if self.links[usize::from(operator)].stream.is_none() {
            let server = self.rng.random_range(0..self.servers);
            self.links[usize::from(operator)].stream = cluster.open_stream(operator, server).map(|stream| (stream, server));
            if is_watcher(operator) {
                self.watch(cluster, operator);
            }
        }
        if !is_watcher(operator) && self.is_idle(operator) {
            self.begin_fetch(cluster, operator);
        }
        let pause = if is_quiet { 200_000 } else { 40_000 };
        let after = Duration::from_us(self.rng.random_range(1_000..=pause));
        cluster.call_at(cluster.now() + after, token);
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

    // Publishers.

    fn begin_fetch(&mut self, cluster: &mut Cluster, operator: u16) {
        let Some((_, server)) = self.links[usize::from(operator)].stream else { return };
        let name = self.rng.random_range(0..NAMES.len());
        let uses_known = self.rng.random_range(0..2) == 0;
        let at_least = self.served.get(&(server, cluster.life(Node::Server(server)), name)).copied().unwrap_or(0);
        let at = cluster.now();
        let publisher = self.publisher(operator);
        let known = publisher.known.get(&name).filter(|_| uses_known).map_or(0, |it| it.version);
        publisher.doing = Doing::Fetching { name, known, version: 0, bytes: Vec::new(), at, at_least };
        self.send(cluster, operator, &Message::Fetch(Fetch { name: NAMES[name], known, offset: 0 }));
    }

    fn document(&mut self, cluster: &mut Cluster, operator: u16, part: &DocumentPart<'_>) -> Result<(), String> {
        let Some((_, server)) = self.links[usize::from(operator)].stream else { return Ok(()) };
        let (is_calm, now) = (self.is_calm, cluster.now());
        let publisher = &mut self.publishers[usize::from(operator - WATCHERS)];
        let Doing::Fetching { name, known, version, bytes, at, at_least } = &mut publisher.doing else {
            return Err("a document unasked".to_owned());
        };
        let (name, known) = (*name, *known);
        let found = if part.outcome == FetchOutcome::Found { part.version } else { 0 };
        if found < *at_least {
            return Err(format!(
                "server {server} served version {found} of {} after {at_least}: {:?}",
                NAMES[name], part.outcome
            ));
        }
        if part.outcome == FetchOutcome::Elsewhere {
            self.counts.unavailable += 1;
            publisher.doing = Doing::Nothing;
            return Ok(());
        }
        let newest_at = |at: Instant| {
            let log = cluster.store.document_log().iter();
            log.filter(|it| it.name == NAMES[name] && it.at <= at).map(|it| it.document.version).max().unwrap_or(0)
        };
        let fresh = newest_at(Instant::from_ps(at.as_ps().saturating_sub(FRESH.to_ps().as_ps() + LATENCY.as_ps())));
        if is_calm && found < fresh {
            return Err(format!("version {found} of {}, older than 0.5 s", NAMES[name]));
        }
        if found != *version {
            bytes.clear();
        }
        *version = found;
        let is_known = found > 0 && found == known;
        if part.offset == bytes.len() as u64 && !is_known {
            bytes.extend_from_slice(part.bytes);
        }
        if found > 0 && !is_known && (bytes.len() as u64) < part.length {
            let offset = bytes.len() as u64;
            (*at, *at_least) = (now, found);
            self.send(cluster, operator, &Message::Fetch(Fetch { name: NAMES[name], known, offset }));
            return Ok(());
        }
        let document = Document { version: found, bytes: std::mem::take(bytes).into() };
        publisher.doing = Doing::Nothing;
        if found > 0 && !is_known {
            if !cluster.store.document_log().iter().any(|it| it.name == NAMES[name] && it.document == document) {
                return Err(format!("server {server} served a version {found} of {} that is not stored", NAMES[name]));
            }
            publisher.known.insert(name, document);
        }
        self.counts.fetched += 1;
        self.serves(cluster, server, name, found);
        self.last_served.insert((server, name), (now, found));
        if now < self.heal_at + Duration::from_secs(2) && self.rng.random_range(0..3) > 0 {
            self.begin_publish(cluster, operator, name, found);
        }
        Ok(())
    }

    fn serves(&mut self, cluster: &Cluster, server: u16, name: usize, version: u32) {
        let served = self.served.entry((server, cluster.life(Node::Server(server)), name)).or_default();
        *served = (*served).max(version);
    }

    fn begin_publish(&mut self, cluster: &mut Cluster, operator: u16, name: usize, found: u32) {
        let number = self.attempts.len();
        // Sometimes over a version that is not there.
        let expect = if self.rng.random_range(0..8) == 0 { found + 1 } else { found };
        let version = expect + self.rng.random_range(1..=3);
        let length = [0, 8, 50, DOCUMENT_PART + 10][self.rng.random_range(0..4)];
        // Each is like no other, so that a mixture of two is found; the empty ones differ by their versions only.
        let bytes: Vec<u8> = (number as u64).to_be_bytes().into_iter().cycle().take(length).collect();
        let document = Document { version, bytes: bytes.into() };
        self.attempts.push(Attempt { name, expect, document, call: cluster.now(), ended: None });
        self.publisher(operator).doing = Doing::Publishing { attempt: number, sent: 0 };
        self.publish_part(cluster, operator, number, 0);
    }

    fn publish_part(&mut self, cluster: &mut Cluster, operator: u16, attempt: usize, sent: usize) {
        let Attempt { name, expect, document, .. } = &self.attempts[attempt];
        let all = document.bytes.clone();
        let most = if all.len() > 100 { DOCUMENT_PART } else { 24 };
        let bytes = &all[sent..all.len().min(sent + most)];
        let (name, expect, version, length) = (NAMES[*name], *expect, document.version, all.len() as u64);
        self.publisher(operator).doing = Doing::Publishing { attempt, sent: sent + bytes.len() };
        self.send(cluster, operator, &Message::Publish(Publish { name, expect, version, length, offset: sent as u64, bytes }));
    }

    fn published(&mut self, cluster: &mut Cluster, operator: u16, published: Published) -> Result<(), String> {
        let Some((_, server)) = self.links[usize::from(operator)].stream else { return Ok(()) };
        let Doing::Publishing { attempt, sent } = self.publisher(operator).doing else {
            return Err(format!("{published:?} unasked"));
        };
        if published.outcome == PublishOutcome::More {
            self.publish_part(cluster, operator, attempt, sent);
            return Ok(());
        }
        self.publisher(operator).doing = Doing::Nothing;
        let it = &mut self.attempts[attempt];
        it.ended = Some((cluster.now(), published));
        let name = it.name;
        match published.outcome {
            PublishOutcome::Committed => {
                self.counts.committed += 1;
                self.serves(cluster, server, name, published.version);
            }
            PublishOutcome::Conflict => self.counts.conflicts += 1,
            PublishOutcome::Unknown => self.counts.unknown += 1,
            _ => return Err(format!("{published:?} of {it:?}")),
        }
        self.ended(cluster, &self.attempts[attempt])
    }

    /// Whether an attempt ended as the store did.
    fn ended(&self, cluster: &Cluster, it: &Attempt) -> Result<(), String> {
        let Some((end, published)) = it.ended else { return Ok(()) };
        let log = || cluster.store.document_log().iter().filter(|entry| entry.name == NAMES[it.name]);
        let is_stored = log().any(|entry| entry.document == it.document && entry.at >= it.call);
        // The versions that were there between the call and its end.
        let before = log().rfind(|entry| entry.at <= it.call).map_or(0, |entry| entry.document.version);
        let held = |version: u32| {
            version == before || log().any(|entry| entry.document.version == version && (it.call..=end).contains(&entry.at))
        };
        let fits = match published.outcome {
            PublishOutcome::Committed => is_stored && published.version == it.document.version,
            PublishOutcome::Conflict => published.version != it.expect && held(published.version),
            _ => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{:?} of version {} over {} of {}", published, it.document.version, it.expect, NAMES[it.name]))
        }
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

    /// Every stored document is of one attempt, which is there once, over the version that it expected.
    fn documents_stored_once(&self, cluster: &Cluster) -> Result<(), String> {
        let mut before = BTreeMap::new();
        let mut used = vec![false; self.attempts.len()];
        for entry in cluster.store.document_log() {
            let held = before.insert(&entry.name, entry.document.version).unwrap_or(0);
            let is = |at: &usize| {
                let it = &self.attempts[*at];
                !used[*at] && NAMES[it.name] == entry.name && it.document == entry.document && it.expect == held
            };
            let attempt = (0..self.attempts.len()).find(is);
            match attempt.filter(|_| entry.document.version > held) {
                Some(attempt) => used[attempt] = true,
                None => return Err(format!("version {} of {} over {held} is of no attempt", entry.document.version, entry.name)),
            }
        }
        self.attempts.iter().try_for_each(|it| self.ended(cluster, it))
    }
}

const fn is_watcher(operator: u16) -> bool {
    operator < WATCHERS
}

/// A read of the store, and the way from the server to the operator.
const LATENCY: Duration = Duration::from_ms(25);

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
