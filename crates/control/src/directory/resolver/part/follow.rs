//! Subscriptions: an agent that held nothing new for a while has withdrawals sent to it, by two servers, in place of asking twice a second.
//!
//! ```text
//!   polling --nothing new for 2 s--> Follow(push) to two servers --both subscribed--> followed: a renewal within 40 s
//!      ^                                                                                |
//!      +-- something new is held, a renewal is not answered, a server leaves <----------+
//!                                                         Withdrawn, unasked --> out of use at once, and Follow as the receipt
//! ```
//! Two, so that a server may fail unnoticed: the other one still sends. What both have is the filter that was sent first, so a key that is not in it ends
//! the subscription. Something unasked takes mappings away, and never renews or confirms any: all else is for the answer to the receipt to say.

use std::net::SocketAddr;

use rand::RngExt;
use smallvec::SmallVec;

use super::{Output, PartResolver, What};
use crate::directory::interest::{Interest, key_hash};
use crate::directory::key::{Generation, Key, Value};
use crate::directory::servers::cookie_of;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Follow, Kind, Message, WithdrawnPage};

/// The servers that send withdrawals, or are asked to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    list: SmallVec<[Subscription; 2]>,
    /// The filter that they have.
    interest: Option<Interest>,
    /// When something new was held last.
    changed: Instant,
    /// When a server that is not in the list was answered last.
    stray: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    server: SocketAddr,
    /// When to ask again.
    due: Instant,
    /// Requests since the last answer.
    attempts: u32,
    in_force: bool,
}

/// What a Follow asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    since: Generation,
    policy: u32,
    pub(super) push: bool,
}

impl Subscriptions {
    /// Whether withdrawals come unasked.
    pub(super) fn are_in_force(&self) -> bool {
        self.list.len() == SERVERS && self.list.iter().all(|it| it.in_force)
    }

    pub(super) fn due(&self) -> Instant {
        self.list.iter().map(|it| it.due).min().unwrap_or(Instant::MAX)
    }

    fn of(&mut self, server: SocketAddr) -> Option<&mut Subscription> {
        self.list.iter_mut().find(|it| it.server == server)
    }
}

impl PartResolver {
    /// Asks twice a second from now on.
    pub(super) fn unfollow(&mut self) {
        if self.subscriptions.list.is_empty() {
            return;
        }
        self.subscriptions.list.clear();
        self.subscriptions.interest = None;
        self.begin_polling();
    }

    /// Something is held that may not have been before.
    pub(super) fn holds(&mut self, key: &Key, asker: Option<&Key>, value: &Value) {
        let Some(interest) = &self.subscriptions.interest else {
            self.subscriptions.changed = self.now;
            return;
        };
        let known = |key: &Key| interest.contains(key_hash(key));
        if !known(key) || asker.is_some_and(|asker| !known(asker)) || self.cache.life(value) < LIFE_MIN {
            self.subscriptions.changed = self.now;
            self.unfollow();
        }
    }

    /// A server confirmed all that is held: if that was the same for a while, withdrawals are to come unasked.
    pub(super) fn subscribe(&mut self) {
        let is_quiet = self.now.saturating_since(self.subscriptions.changed) >= QUIET && !self.is_in_doubt();
        if !is_quiet
            || !self.subscriptions.list.is_empty()
            || self.servers.len() < SERVERS
            || self.cache.shortest_life() < LIFE_MIN
        {
            return;
        }
        let servers = self.servers.choose(SERVERS, &[], &mut self.rng);
        self.subscriptions.interest = Some(self.cache.interest());
        self.subscriptions.list =
            servers.iter().map(|&server| Subscription { server, due: self.now, attempts: 0, in_force: false }).collect();
        self.renew_subscriptions();
    }

    /// Asks the servers whose time has come.
    pub(super) fn renew_subscriptions(&mut self) {
        let now = self.now;
        for at in 0..self.subscriptions.list.len() {
            let Subscription { server, due, attempts, .. } = self.subscriptions.list[at];
            if due > now {
                continue;
            }
            if attempts > 0 {
                self.servers.missed(server);
            }
            if attempts >= ATTEMPTS || !self.servers.contains(server) {
                self.subscriptions.changed = now;
                return self.unfollow();
            }
            let wait = Duration::from_ns(self.servers.timeout(&[server]).as_ns() << attempts).min(LONGEST_WAIT);
            let it = &mut self.subscriptions.list[at];
            (it.due, it.attempts) = (now + wait, attempts + 1);
            self.send_follow(server, true);
        }
    }

    pub(super) fn send_follow(&mut self, to: SocketAddr, push: bool) {
        let Some(since) = self.sync_since() else { return };
        let interest = match &self.subscriptions.interest {
            Some(interest) if push => interest.clone(),
            _ => self.cache.interest(),
        };
        let body = Message::Follow(Follow { revision: since, policy: self.policy, push, interest });
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Follow, |out| body.emit(out));
        let cookie = cookie_of(&bytes);
        self.expect(to, request, What::Follow(Asked { since, policy: self.policy, push }), cookie);
        self.out.push_back(Output::Send { to, bytes });
    }

    /// The answer to a Follow.
    pub(super) fn followed(&mut self, from: SocketAddr, page: &WithdrawnPage, asked: Asked, sent: Instant) {
        let Asked { since, policy, push } = asked;
        if page.policy < self.policy {
            self.counts.old_policy += 1;
            return;
        }
        if page.revision < since {
            return;
        }
        if page.reconfirm && policy < self.policy {
            // That is under way already.
            return self.send_follow(from, push);
        }
        // The server knows whether what is held under an older policy is affected.
        self.policy = page.policy;
        self.withdraw_page(page);
        self.heard();
        let is_covered = self.synced(page.revision, since, sent, !page.more);
        if page.more {
            self.send_follow(from, push);
        } else if push {
            self.subscribed(from, page.subscribed, sent);
        }
        if page.reconfirm {
            self.reconfirm();
        } else if is_covered && !push {
            self.subscribe();
        }
    }

    fn subscribed(&mut self, from: SocketAddr, subscribed: bool, sent: Instant) {
        let every = self.jittered(RENEW);
        let other = self.subscriptions.list.iter().any(|it| it.server != from && it.due <= sent + CONTACT);
        let Some(it) = self.subscriptions.of(from) else { return };
        if !subscribed {
            self.subscriptions.changed = self.now;
            return self.unfollow();
        }
        // A second answer to the same changes nothing.
        if it.attempts > 0 || !it.in_force {
            let wait = if other { every } else { every / 2 };
            (it.attempts, it.in_force, it.due) = (0, true, sent + wait);
        }
    }

    /// Something that was not asked for. An old one, sent by somebody else, takes nothing away that is newer.
    pub(super) fn pushed(&mut self, from: SocketAddr, page: &WithdrawnPage) {
        self.withdraw_page(page);
        let now = self.now;
        if let Some(it) = self.subscriptions.of(from) {
            if it.attempts == 0 {
                it.due = now;
            }
        } else if now.saturating_since(self.subscriptions.stray) >= STRAY {
            self.subscriptions.stray = now;
            self.send_follow(from, true);
        }
    }

    fn withdraw_page(&mut self, page: &WithdrawnPage) {
        let mut gone = Vec::new();
        self.cache.withdraw_names(&page.groups, self.now, &mut gone);
        self.invalidate(&gone);
    }

    /// A time that is up to a fifth shorter, so that agents that began together do not go on together.
    pub(super) fn jittered(&mut self, time: Duration) -> Duration {
        time - Duration::from_ns(self.rng.random_range(0..=time.as_ns() / 5))
    }
}

/// Servers that an agent subscribes at.
const SERVERS: usize = 2;
/// Nothing new for so long, and it is worth while.
const QUIET: Duration = Duration::from_secs(2);
/// How often each of the servers is asked again.
const RENEW: Duration = Duration::from_secs(60);
/// One of them is asked within this.
const CONTACT: Duration = Duration::from_secs(40);
/// Requests to a server without an answer, before the agent polls again.
const ATTEMPTS: u32 = 5;
const LONGEST_WAIT: Duration = Duration::from_ms(100);
/// What lives shorter than two renewals is polled for.
const LIFE_MIN: Duration = Duration::from_secs(60);
/// Servers that should not send any more are answered so often.
const STRAY: Duration = Duration::from_ms(50);
