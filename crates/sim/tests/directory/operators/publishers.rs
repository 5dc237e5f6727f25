//! Operators that fetch and publish documents, and what must hold for these.

use std::collections::BTreeMap;

use rand::RngExt;
use weft_control::directory::documents::{Document, FRESH, UNAVAILABLE};
use weft_control::wire::directory::{
    DOCUMENT_PART, DocumentPart, Fetch, FetchOutcome, Message, Publish, PublishOutcome, Published,
};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::Cluster;
use weft_sim::directory::network::Node;

use super::{NAMES, Operators, WATCHERS};

#[derive(Debug, Default)]
pub(super) struct Publisher {
    pub doing: Doing,
    /// Documents that it has fetched, by name.
    pub known: BTreeMap<usize, Document>,
}

#[derive(Debug, Default)]
pub(super) enum Doing {
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
pub(super) struct Attempt {
    name: usize,
    expect: u32,
    document: Document,
    call: Instant,
    ended: Option<(Instant, Published)>,
}

impl Operators {
    pub(super) fn begin_fetch(&mut self, cluster: &mut Cluster, operator: u16, name: usize) {
        let Some((_, server)) = self.links[usize::from(operator)].stream else { return };
        let uses_known = self.rng.random_range(0..2) == 0;
        let at_least = self.served.get(&(server, cluster.life(Node::Server(server)), name)).copied().unwrap_or(0);
        let at = cluster.now();
        let publisher = self.publisher(operator);
        let known = publisher.known.get(&name).filter(|_| uses_known).map_or(0, |it| it.version);
        publisher.doing = Doing::Fetching { name, known, version: 0, bytes: Vec::new(), at, at_least };
        self.send(cluster, operator, &Message::Fetch(Fetch { name: NAMES[name], known, offset: 0 }));
    }

    pub(super) fn document(&mut self, cluster: &mut Cluster, operator: u16, part: &DocumentPart<'_>) -> Result<(), String> {
        let Some((_, server)) = self.links[usize::from(operator)].stream else { return Ok(()) };
        let (is_fresh, now) = (self.is_fresh(cluster, server), cluster.now());
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
        if is_fresh && found < fresh {
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

    /// Whether a server may not serve what was replaced half a second ago: none of its reads of the store has failed of late, or is late.
    fn is_fresh(&self, cluster: &Cluster, server: u16) -> bool {
        let has_failed =
            cluster.failed_read_at(server).is_some_and(|at| cluster.now().saturating_since(at) <= UNAVAILABLE.to_ps() + LATENCY);
        let is_settled = cluster.now() >= self.heal_at + Duration::from_secs(3) && !has_failed;
        self.is_calm || (!self.has_steps && is_settled)
    }

    fn serves(&mut self, cluster: &Cluster, server: u16, name: usize, version: u32) {
        let served = self.served.entry((server, cluster.life(Node::Server(server)), name)).or_default();
        *served = (*served).max(version);
    }

    pub(super) fn begin_publish(&mut self, cluster: &mut Cluster, operator: u16, name: usize, found: u32) {
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

    pub(super) fn published(&mut self, cluster: &mut Cluster, operator: u16, published: Published) -> Result<(), String> {
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

    /// Every stored document is of one attempt, which is there once, over the version that it expected.
    pub(super) fn documents_stored_once(&self, cluster: &Cluster) -> Result<(), String> {
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

/// A read of the store, and the way from the server to the operator.
const LATENCY: Duration = Duration::from_ms(25);
