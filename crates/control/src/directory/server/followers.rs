//! Agents to which withdrawals are sent unasked: those that hold what was withdrawn, at once, and again until they have asked from there.
//!
//! ```text
//!   Follow(push) --> page, subscribed --> waiting --a withdrawal passes its filter--> due --Withdrawn--> due again, 250 to 500 ms later
//!                                            ^                                          |
//!                                            +--------- Follow(push): the receipt ------+---- 60 without one: forgotten
//! ```
//! Testing a withdrawal against a filter takes about 2 ns, so what arrives together is tested in steps, between which others have their turn.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rand::RngExt;
use rustc_hash::FxHashMap;

use super::super::front::Reason;
use super::super::interest::Interest;
use super::super::key::{Generation, PrincipalId};
use super::super::request::Client;
use super::{Output, Server};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Follow, HEADER, Header, Kind, MAX_DATAGRAM, MAX_FACTOR, Message, State, TAG, WithdrawnPage};

/// A principal at an address.
type Name = (PrincipalId, SocketAddr);

/// All agents that subscribed.
#[derive(Debug)]
pub struct Followers {
    by_name: FxHashMap<Name, Follower>,
    /// In the order in which they are tested; those that went are still there.
    order: Vec<Name>,
    /// When each is to be sent something, or forgotten.
    due: BTreeSet<(Instant, Name)>,
    /// The test under way: how many arrivals it covers, and the place of the next follower.
    round: Option<(u64, usize)>,
    /// No test begins before.
    next_round: Instant,
    /// How many arrivals were tested for all.
    tested: u64,
    /// Whether this server can say what was withdrawn.
    serving: bool,
    max: usize,
}

/// One of them.
#[derive(Debug)]
struct Follower {
    cookie: u64,
    interest: Interest,
    policy: u32,
    /// All withdrawals up to here were sent, and received.
    since: Generation,
    /// How many arrivals were tested for it, or were in its last answer.
    tested: u64,
    due: Instant,
    /// Something is to be sent.
    pending: bool,
    /// How often it was sent.
    sends: u32,
    /// Nothing is sent before.
    next_send: Instant,
}

impl Followers {
    /// None yet, and `max` at most.
    pub fn new(max: usize) -> Self {
        Self {
            by_name: FxHashMap::default(),
            order: Vec::new(),
            due: BTreeSet::new(),
            round: None,
            next_round: Instant::ZERO,
            tested: 0,
            serving: false,
            max,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// When something is to be done, if `arrived` withdrawals became known.
    pub fn next(&self, arrived: u64) -> Option<Instant> {
        let test = (self.round.is_some() || arrived > self.tested && !self.by_name.is_empty()).then_some(self.next_round);
        [test, self.due.first().map(|&(at, _)| at)].into_iter().flatten().min()
    }

    /// Only these principals, with their cookies, go on.
    pub fn keep(&mut self, may: impl Fn(PrincipalId, u64) -> bool) {
        let gone = |(name, follower): (&Name, &Follower)| (!may(name.0, follower.cookie)).then_some(*name);
        for name in self.by_name.iter().filter_map(gone).collect::<Vec<_>>() {
            self.remove(&name);
        }
    }

    fn set_due(&mut self, name: Name, at: Instant, pending: bool) {
        let Some(follower) = self.by_name.get_mut(&name) else { return };
        self.due.remove(&(follower.due, name));
        (follower.due, follower.pending) = (at, pending);
        self.due.insert((at, name));
    }

    fn remove(&mut self, name: &Name) {
        if let Some(follower) = self.by_name.remove(name) {
            self.due.remove(&(follower.due, *name));
        }
        if self.order.len() > 64 + 2 * self.by_name.len() {
            let known = &self.by_name;
            self.order.retain(|name| known.contains_key(name));
            // Places have changed: all are tested from the first.
            self.round = self.round.map(|(until, _)| (until, 0));
        }
    }
}

impl Server {
    /// An agent asks what was withdrawn, and for what will be.
    pub(super) fn subscribe(&mut self, now: Instant, client: Client, principal: PrincipalId, ask: Follow) {
        let length = HEADER + ask.length() + TAG;
        let room = MAX_DATAGRAM.min(MAX_FACTOR * length) - HEADER - TAG;
        let Some(page) = self.shared.follow(&ask, room) else { return self.drop(Reason::Behind) };
        let Client::Datagram { at, cookie, .. } = client else { return };
        let name = (principal, at);
        let followers = &mut self.followers;
        let known = followers.by_name.get(&name).is_some_and(|it| it.cookie == cookie);
        let subscribed = self.shared.state == State::Serving && (known || followers.len() < followers.max);
        if subscribed {
            let due = now.saturating_add(FORGET);
            let follower = Follower {
                cookie,
                interest: ask.interest,
                policy: page.policy,
                since: page.revision,
                // What is left of the pages is asked for.
                tested: self.shared.withdrawals.arrived(),
                due,
                pending: false,
                sends: 0,
                next_send: now,
            };
            match followers.by_name.insert(name, follower) {
                Some(old) => _ = followers.due.remove(&(old.due, name)),
                None => followers.order.push(name),
            }
            followers.due.insert((due, name));
        } else {
            followers.remove(&name);
        }
        self.reply(client, principal, &Message::Withdrawn(WithdrawnPage { subscribed, ..page }));
    }

    /// Tests what was withdrawn, and sends what is due.
    pub(super) fn serve_followers(&mut self, now: Instant) {
        let serving = self.shared.state == State::Serving;
        if std::mem::replace(&mut self.followers.serving, serving) && !serving {
            self.notify_all(now);
        }
        self.test_withdrawals(now);
        for _ in 0..SENDS_MAX {
            let Some(&(at, name)) = self.followers.due.first().filter(|(at, _)| *at <= now) else { break };
            debug_assert!(at <= now);
            self.send_withdrawn(now, name);
        }
    }

    /// Every follower must ask: the policy takes something away, or this server cannot say any more what is withdrawn.
    pub(super) fn notify_all(&mut self, now: Instant) {
        let followers = &mut self.followers;
        for name in followers.order.clone() {
            let soon = Duration::from_ns(self.rng.random_range(0..=SPREAD.as_ns()));
            followers.set_due(name, now.saturating_add(soon), true);
        }
    }

    fn test_withdrawals(&mut self, now: Instant) {
        let followers = &mut self.followers;
        let arrived = self.shared.withdrawals.arrived();
        if followers.round.is_none() {
            if followers.by_name.is_empty() {
                followers.tested = arrived;
            }
            if arrived == followers.tested || followers.next_round > now {
                return;
            }
            followers.round = Some((arrived, 0));
        }
        let Some((until, mut place)) = followers.round else { return };
        let mut budget = TESTS_MAX;
        while let Some(&name) = followers.order.get(place).filter(|_| budget > 0) {
            place += 1;
            let Some(follower) = followers.by_name.get_mut(&name) else { continue };
            let seen = follower.tested;
            follower.tested = seen.max(until);
            if follower.pending || seen >= until {
                continue;
            }
            budget = budget.saturating_sub(until - seen + 1);
            let passes = match self.shared.withdrawals.arrivals(seen, until) {
                Some(mut hashes) => hashes.any(|hash| follower.interest.contains(hash)),
                None => true,
            };
            if passes {
                let at = follower.next_send.max(now);
                followers.set_due(name, at, true);
            }
        }
        if place < followers.order.len() {
            followers.round = Some((until, place));
            followers.next_round = now;
        } else {
            (followers.round, followers.tested) = (None, until);
            followers.next_round = now.saturating_add(ROUND);
        }
    }

    fn send_withdrawn(&mut self, now: Instant, name: Name) {
        let Some(follower) = self.followers.by_name.get_mut(&name) else { return };
        if !follower.pending || follower.sends >= ATTEMPTS {
            return self.followers.remove(&name);
        }
        follower.sends += 1;
        follower.next_send = now.saturating_add(AGAIN);
        let again = if follower.sends < 4 { AGAIN } else { AGAIN * 2 };
        let (principal, to) = name;
        let (cookie, interest) = (follower.cookie, follower.interest.clone());
        let ask = Follow { revision: follower.since, policy: follower.policy, push: true, interest };
        self.followers.set_due(name, now.saturating_add(again), true);
        // Without a page it says: ask.
        let page = self.shared.follow(&ask, MAX_DATAGRAM - HEADER - TAG).unwrap_or_default();
        let mut bytes = Vec::new();
        Header { kind: Kind::Withdrawn, principal, cookie, request: 0 }
            .emit_as(self.config.versions.of_cookie(cookie), &mut bytes);
        Message::Withdrawn(page).emit(&mut bytes);
        self.secret.key_by_cookie(principal, cookie).tagger().seal(&mut bytes, 0);
        self.counters.pushes += 1;
        self.outputs.push_back(Output::Send { to, bytes });
    }
}

/// What was sent is sent again after this, and nothing more is sent before...
const AGAIN: Duration = Duration::from_ms(250);
/// ...so often.
const ATTEMPTS: u32 = 60;
/// A follower that has not asked for so long is forgotten: it asks once a minute.
const FORGET: Duration = Duration::from_secs(150);
/// Withdrawals that arrive within this time are tested together.
const ROUND: Duration = Duration::from_ms(20);
/// Tests in one step: 5 ms or so.
const TESTS_MAX: u64 = 2_000_000;
/// Datagrams in one step.
const SENDS_MAX: usize = 512;
/// What all are to be sent is sent over this time.
const SPREAD: Duration = Duration::from_ms(200);
