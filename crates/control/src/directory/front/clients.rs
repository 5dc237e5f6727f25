//! The clients that a front remembers: a principal at an address each, with its tags' state and its window against replay.
//!
//! Memory is bounded: a new client takes the place of the one that was silent longest. A datagram of a forgotten client must not be accepted a
//! second time, though its window is gone, so cookies have an epoch: who is not remembered needs a cookie of the present epoch, and forgetting
//! a client ends the epoch of its cookie. It is then challenged, like everybody who comes for the first time.
//!
//! A client that restarts does not know which numbers it used. It has no cookie either, so it is challenged, and the Challenge gives it the cookie
//! of its next life: with the first request under that one its window restarts, and the cookie before is worthless. Until then both
//! are good, so that an attacker who replays an old datagram changes nothing.

use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use crate::directory::auth::{Cookies, ReplayWindow, Slot, Tagger};
use crate::directory::key::PrincipalId;
use crate::time::Instant;

/// A principal at an address.
#[derive(Debug)]
pub struct Client {
    /// What makes its tags.
    pub tagger: Tagger,
    /// Its cookie.
    pub cookie: u64,
    /// The requests that it made.
    pub window: ReplayWindow,
    /// When it was last reported to the machine.
    pub reported: Instant,
    name: Name,
    epoch: u32,
    life: u32,
    newer: u32,
    older: u32,
}

/// Address, principal, port and family in a form that is quick to hash.
type Name = (u128, u64);

/// All clients, in order of their last requests.
#[derive(Debug)]
pub struct Clients {
    cookies: Cookies,
    epoch: u32,
    max: usize,
    by_name: FxHashMap<Name, u32>,
    clients: Vec<Client>,
    newest: u32,
    oldest: u32,
}

impl Clients {
    /// None yet, and `max` at most.
    pub fn new(cookies: Cookies, max: usize) -> Self {
        let max = max.max(LEAST);
        Self { cookies, epoch: 0, max, by_name: FxHashMap::default(), clients: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// Where a client is, if it is remembered.
    #[inline]
    pub fn find(&self, principal: PrincipalId, from: SocketAddr) -> Option<u32> {
        self.by_name.get(&name(principal, from)).copied()
    }

    /// A client.
    #[inline]
    pub fn at(&mut self, client: u32) -> &mut Client {
        &mut self.clients[client as usize]
    }

    /// How many are remembered.
    pub const fn len(&self) -> usize {
        self.clients.len()
    }

    /// The cookie that a client who is not remembered must have.
    pub fn cookie(&self, principal: PrincipalId, from: SocketAddr) -> u64 {
        self.cookies.cookie(era(self.epoch, 0), principal, from)
    }

    /// The cookie that a remembered client who has lost its own must have.
    pub fn next_cookie(&self, client: u32, principal: PrincipalId, from: SocketAddr) -> u64 {
        let Client { epoch, life, .. } = self.clients[client as usize];
        self.cookies.cookie(era(epoch, life.wrapping_add(1)), principal, from)
    }

    /// A remembered client showed its next cookie.
    pub fn begin_life(&mut self, client: u32, cookie: u64) {
        let known = self.at(client);
        known.life = known.life.wrapping_add(1);
        known.cookie = cookie;
        known.window = ReplayWindow::default();
    }

    /// Gives clients other keys. They have no cookie then, as clients that lost it, and are challenged.
    pub fn change_keys(&mut self, of: impl Fn(&Client) -> bool, tagger: impl Fn(PrincipalId) -> Tagger, slot: Slot) {
        for client in self.clients.iter_mut().filter(|client| of(client)) {
            client.tagger = tagger(PrincipalId((client.name.1 >> 32) as u32));
            client.cookie = slot.mark(0);
        }
    }

    /// Remembers a client that showed the present cookie.
    pub fn insert(&mut self, principal: PrincipalId, from: SocketAddr, tagger: Tagger) -> u32 {
        let name = name(principal, from);
        let client = Client {
            tagger,
            cookie: self.cookie(principal, from),
            window: ReplayWindow::default(),
            reported: Instant::MAX,
            name,
            epoch: self.epoch,
            life: 0,
            newer: NONE,
            older: NONE,
        };
        let at = if self.clients.len() < self.max {
            self.clients.push(client);
            (self.clients.len() - 1) as u32
        } else {
            let at = self.forget_oldest();
            self.clients[at as usize] = client;
            at
        };
        self.by_name.insert(name, at);
        self.link(at);
        at
    }

    /// A client made a request: it is the newest now.
    #[inline]
    pub fn touch(&mut self, client: u32) {
        if self.newest != client {
            self.unlink(client);
            self.link(client);
        }
    }

    fn forget_oldest(&mut self) -> u32 {
        let at = self.oldest;
        self.unlink(at);
        let Client { name, epoch, .. } = self.clients[at as usize];
        self.by_name.remove(&name);
        // The cookies of its epoch are worthless from now on, but for those who are remembered. Who came in this epoch too has not been
        // silent for long: this happens once in `max` times.
        self.epoch = self.epoch.max(epoch + 1);
        at
    }

    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let client = &mut self.clients[at as usize];
        (client.newer, client.older) = (NONE, newest);
        match self.clients.get_mut(newest as usize) {
            Some(next) => next.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Client { newer, older, .. } = self.clients[at as usize];
        match self.clients.get_mut(newer as usize) {
            Some(client) => client.older = older,
            None => self.newest = older,
        }
        match self.clients.get_mut(older as usize) {
            Some(client) => client.newer = newer,
            None => self.oldest = newer,
        }
    }
}

const fn era(epoch: u32, life: u32) -> u64 {
    (epoch as u64) << 32 | life as u64
}

#[inline]
const fn name(principal: PrincipalId, from: SocketAddr) -> Name {
    let (ip, family) = match from.ip() {
        IpAddr::V4(ip) => (ip.to_bits() as u128, 4),
        IpAddr::V6(ip) => (ip.to_bits(), 6),
    };
    (ip, (principal.0 as u64) << 32 | (from.port() as u64) << 16 | family)
}

const NONE: u32 = u32::MAX;

/// Clients that are remembered at least: more than one batch has, so that none is forgotten within its own.
const LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::directory::auth::Secret;

    fn who(n: u16) -> (PrincipalId, SocketAddr) {
        (PrincipalId(u32::from(n)), SocketAddr::from(([10, 0, 0, 1], n)))
    }

    proptest! {
        /// Clients come with the cookie they got last, or with an old one; a request (cookie and number) is never accepted twice.
        #[test]
        fn forgetting_never_accepts_a_request_again(steps in prop::collection::vec((0u16..100, 0usize..3), 1..600)) {
            let mut clients = Clients::new(Cookies::new([7; 16]), LEAST);
            let tagger = Secret::new([1; 32]).key_of(PrincipalId(1)).tagger();
            let mut given: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
            let mut accepted = BTreeSet::new();
            for (n, back) in steps {
                let (principal, from) = who(n);
                let cookies = given.entry(n).or_insert_with(|| vec![0]);
                let cookie = cookies[cookies.len().saturating_sub(1 + back)];
                if let Some(client) = clients.find(principal, from) {
                    let next = clients.next_cookie(client, principal, from);
                    if cookie == next {
                        clients.begin_life(client, cookie);
                    } else if cookie != clients.at(client).cookie {
                        cookies.push(next);
                        continue;
                    }
                } else if cookie != clients.cookie(principal, from) {
                    cookies.push(clients.cookie(principal, from));
                    continue;
                }
                let client = clients.find(principal, from).unwrap_or_else(|| clients.insert(principal, from, tagger.clone()));
                clients.touch(client);
                // Always the same number: a replay unless the cookie is new.
                if clients.at(client).window.accept(1) {
                    prop_assert!(accepted.insert((n, cookie)), "accepted twice");
                }
                prop_assert!(clients.len() <= LEAST && clients.by_name.len() == clients.len());
            }
        }
    }

    #[test]
    fn the_one_silent_longest_is_forgotten() {
        let mut clients = Clients::new(Cookies::new([7; 16]), LEAST);
        let tagger = Secret::new([1; 32]).key_of(PrincipalId(1)).tagger();
        for n in 0..LEAST as u16 {
            clients.insert(who(n).0, who(n).1, tagger.clone());
        }
        let first = clients.find(who(0).0, who(0).1).unwrap();
        clients.touch(first);
        clients.insert(who(1000).0, who(1000).1, tagger);
        assert!(clients.find(who(0).0, who(0).1).is_some() && clients.find(who(1).0, who(1).1).is_none());
    }
}
