//! A ToR's lookups in the directory (nothing is cached), and its reports of undeliverable packets.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use smallvec::SmallVec;
use weft_fabric::rng::Pcg64;

use crate::directory::auth::PrincipalKey;
use crate::directory::servers::{Servers, cookie_of};
use crate::directory::{Generation, Key, Locator, PrincipalId};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Finding, Kind, Lookup, Message, Misdelivered};

/// The directory's word.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub key: Key,
    /// On whose behalf it was asked, and for which message.
    pub principal: PrincipalId,
    pub sequence: u64,
    pub generation: Generation,
    pub finding: Finding,
}

#[derive(Debug)]
pub(super) struct LookupClient {
    servers: Servers,
    rng: Pcg64,
    /// No answer older than this revision is believed.
    at_least: Generation,
    lookups: BTreeMap<(Key, PrincipalId), Asked>,
    requests: BTreeMap<(SocketAddr, u64), Request>,
    out: VecDeque<(SocketAddr, Vec<u8>)>,
}

#[derive(Debug)]
struct Asked {
    sequence: u64,
    again: Instant,
    tried: SmallVec<[SocketAddr; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    what: What,
    sent: Instant,
    cookie: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Lookup(Key, PrincipalId, u64),
    Report(Misdelivered),
}

impl LookupClient {
    pub fn new(principal: PrincipalId, key: &PrincipalKey, first_number: u64, rng: Pcg64) -> Self {
        Self {
            servers: Servers::new(principal, key, first_number),
            rng,
            at_least: Generation(0),
            lookups: BTreeMap::new(),
            requests: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    pub fn poll(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.out.pop_front()
    }

    pub fn set_servers(&mut self, servers: &[SocketAddr]) {
        self.servers.set(servers);
        let servers = &self.servers;
        self.requests.retain(|(server, _), _| servers.contains(*server));
    }

    /// From now on answers must not be older than this.
    pub fn at_least(&mut self, generation: Generation) {
        self.at_least = self.at_least.max(generation);
    }

    /// Asks two servers; when to ask again if neither has answered.
    pub fn look_up(&mut self, now: Instant, key: Key, principal: PrincipalId, sequence: u64) -> Instant {
        let mut tried = match self.lookups.remove(&(key, principal)) {
            Some(asked) if asked.sequence == sequence => {
                asked.tried.iter().for_each(|&server| self.servers.missed(server));
                asked.tried
            }
            _ => SmallVec::new(),
        };
        if tried.len() >= self.servers.len() {
            tried.clear();
        }
        for server in self.servers.choose(SERVERS_AT_ONCE, &tried, &mut self.rng) {
            tried.push(server);
            self.send(now, server, What::Lookup(key, principal, sequence));
        }
        let again = now + AGAIN;
        self.lookups.insert((key, principal), Asked { sequence, again, tried });
        again
    }

    /// Whether the time for an answer is over.
    pub fn is_due(&self, now: Instant, key: Key, principal: PrincipalId) -> bool {
        self.lookups.get(&(key, principal)).is_none_or(|asked| asked.again <= now)
    }

    /// What is still to come of this is not waited for.
    pub fn forget(&mut self, key: Key, principal: PrincipalId) {
        self.lookups.remove(&(key, principal));
    }

    /// Reports an undeliverable packet to a server; false if there is none.
    pub fn report(&mut self, now: Instant, asker: Key, key: Key, stale: Locator) -> bool {
        let chosen = self.servers.choose(1, &[], &mut self.rng);
        let Some(&server) = chosen.first() else { return false };
        self.send(now, server, What::Report(Misdelivered { asker, key, stale }));
        true
    }

    pub fn datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Answer> {
        let frame = self.servers.open(from, bytes).ok()?;
        let header = frame.header;
        let message = Message::parse(header.kind, frame.body).ok()?;
        let request = self.requests.remove(&(from, header.request))?;
        self.servers.answered(from, header.cookie, now.saturating_since(request.sent));
        match (message, request.what) {
            (Message::Challenge, what) => {
                if request.cookie != header.cookie {
                    self.send(now, from, what);
                }
                None
            }
            (Message::Answer(answer), What::Lookup(key, principal, sequence)) => {
                let (generation, finding) = answer.results().next()?;
                let asked = self.lookups.get(&(key, principal))?;
                let current = asked.sequence == sequence && answer.revision >= self.at_least;
                let answer = Answer { key, principal, sequence, generation, finding };
                if !current || answer.finding == Finding::Elsewhere {
                    return None;
                }
                self.lookups.remove(&(key, principal));
                Some(answer)
            }
            _ => None,
        }
    }

    fn send(&mut self, now: Instant, to: SocketAddr, what: What) {
        if !self.servers.contains(to) {
            return;
        }
        let at_least = self.at_least;
        let (number, bytes) = match what {
            What::Lookup(key, ..) => self.servers.seal(to, Kind::Lookup, |out| Lookup::emit(at_least, None, &[key], out)),
            What::Report(report) => self.servers.seal(to, Kind::Misdelivered, |out| Message::Misdelivered(report).emit(out)),
        };
        let cookie = cookie_of(&bytes);
        self.forget_old(now);
        self.requests.insert((to, number), Request { what, sent: now, cookie });
        self.out.push_back((to, bytes));
    }

    /// Reports are not answered; lookups may be lost.
    fn forget_old(&mut self, now: Instant) {
        if self.requests.len() < REQUESTS_MAX {
            return;
        }
        self.requests.retain(|_, request| now.saturating_since(request.sent) < EXPIRES);
        if self.requests.len() >= REQUESTS_MAX {
            self.requests.clear();
        }
    }
}

/// VL2 section 4.3.2.
const SERVERS_AT_ONCE: usize = 2;
const AGAIN: Duration = Duration::from_ms(300);
const EXPIRES: Duration = Duration::from_secs(2);
/// Requests that may yet be answered or challenged.
const REQUESTS_MAX: usize = 1024;
