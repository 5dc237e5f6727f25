//! Revocation: twice a second one server says what was withdrawn, and what it does not name may be used on.
//!
//! `since` is how far all withdrawals are known for all that is held. An answer of a server that lags behind sets it back, for a withdrawal that
//! was heard of before the mapping came would never be heard of again.

use super::cache::Said;
use super::{Resolver, What};
use crate::directory::key::Generation;
use crate::directory::servers::cookie_of;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Changes, Correction, Kind, Message, Sync};

#[derive(Debug, Default)]
pub(super) struct SyncState {
    /// How far withdrawals are known; `None` while nothing is held.
    since: Option<Generation>,
    /// When to ask next.
    at: Instant,
    /// Requests since the last good answer.
    attempts: u32,
    /// When the request was sent that had the last good answer.
    confirmed: Instant,
}

/// What is to be reconfirmed, if anything.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// When it began, and until when what is not confirmed may be used.
    under_way: Option<(Instant, Instant)>,
    /// No server answered towards its end: what is not confirmed stays in use until one does.
    is_suspended: bool,
    /// When a server gave a good answer last.
    heard: Instant,
}

impl SyncState {
    /// Since when nothing was confirmed, if for longer than [`UNCONFIRMED`].
    pub(super) fn unconfirmed_since(&self, now: Instant) -> Option<Instant> {
        (self.since.is_some() && now.saturating_since(self.confirmed) >= UNCONFIRMED).then_some(self.confirmed)
    }
}

impl Resolver {
    pub(super) fn sync_due(&self) -> Instant {
        if self.sync.since.is_some() && self.servers.len() > 0 { self.sync.at } else { Instant::MAX }
    }

    /// Something was accepted that a server said at this revision.
    pub(super) fn covered_since(&mut self, revision: Generation) {
        match &mut self.sync.since {
            Some(since) => *since = (*since).min(revision),
            // What is not held is not renewed.
            None if self.cache.found() == 0 => {}
            None => {
                self.sync = SyncState { since: Some(revision), at: self.now + EVERY, attempts: 0, confirmed: self.now };
            }
        }
    }

    pub(super) fn sync_now(&mut self) {
        let Some(since) = self.sync.since else { return };
        if self.cache.found() == 0 {
            // Nothing to renew: the next mapping restarts.
            self.sync.since = None;
            return;
        }
        let Some(&server) = self.servers.choose(1, &[], &mut self.rng).first() else { return };
        let wait = self.servers.timeout(&[server]).as_ns() << self.sync.attempts.min(8);
        self.sync.attempts += 1;
        self.sync.at = self.now + Duration::from_ns(wait).min(EVERY);
        self.send_sync(server, since);
    }

    pub(super) fn send_sync(&mut self, to: std::net::SocketAddr, since: Generation) {
        let body = Message::Sync(Sync { revision: since, policy: self.policy, padding: PADDING });
        let (request, bytes) = self.servers.seal(to, Kind::Sync, |out| body.emit(out));
        let cookie = cookie_of(&bytes);
        self.expect(to, request, What::Sync { since }, cookie);
        self.out.push_back(super::Output::Send { to, bytes });
    }

    pub(super) fn changed(&mut self, changes: &Changes, since: Generation, sent: Instant) {
        if !self.is_current(changes.policy) || changes.revision < since {
            // A server that lags behind has nothing to say: another is asked when the time-out is over.
            return;
        }
        let mut gone = Vec::new();
        for withdrawal in &changes.withdrawn {
            self.cache.withdraw(&withdrawal.key, withdrawal.generation, self.now, &mut gone);
        }
        self.invalidate(&gone);
        self.heard();
        if changes.reconfirm {
            self.reconfirm();
        }
        // What an answer has set back since this request was sent, it has not covered.
        if self.sync.since.is_some_and(|now| now >= since) {
            self.sync.since = Some(changes.revision);
            self.cache.renew(sent);
            self.sync.at = sent + EVERY;
            self.sync.attempts = 0;
            self.sync.confirmed = sent;
        } else {
            self.sync.at = self.now;
        }
    }

    pub(super) fn doubt_due(&self) -> Instant {
        self.doubt.under_way.map_or(Instant::MAX, |(_, until)| until)
    }

    /// A server gave a good answer. If none did while something was to be reconfirmed, that begins again.
    pub(super) fn heard(&mut self) {
        self.doubt.heard = self.now;
        if self.doubt.is_suspended {
            self.reconfirm_within(RESUMED);
        }
    }

    /// The time for reconfirming is over. If no server answers any more, nothing says that it was revoked: it is used on, as all that is held is.
    pub(super) fn doubt_timer(&mut self) {
        let Some((begun, until)) = self.doubt.under_way.filter(|&(_, until)| until <= self.now) else { return };
        self.doubt.under_way = None;
        let limit = begun.saturating_add(self.config.fail_static);
        if until.saturating_since(self.doubt.heard) >= SILENCE && limit > self.now {
            self.doubt.is_suspended = true;
            self.cache.suspend_doubt(until, limit);
        }
    }

    /// Everything held is looked up again; until it is confirmed it may be used for a moment.
    pub(super) fn reconfirm(&mut self) {
        self.reconfirm_within(DOUBT);
    }

    fn reconfirm_within(&mut self, time: Duration) {
        let until = self.now + time;
        self.doubt.under_way = Some((self.now, until));
        self.doubt.is_suspended = false;
        self.cache.doubt(until);
        for name in self.cache.found_names() {
            self.lookups.refresh(name);
        }
    }

    pub(super) fn corrected(&mut self, correction: &Correction) {
        if !self.is_current(correction.policy) {
            return;
        }
        let said = Said {
            revision: correction.revision,
            policy: correction.policy,
            generation: correction.generation,
            finding: correction.finding.clone(),
            // Not used: a word that nobody asked for begins no lease.
            asked: Instant::ZERO,
        };
        let mut gone = Vec::new();
        self.cache.correct(&correction.key, &said, self.now, &mut gone);
        if !gone.is_empty() {
            self.covered_since(correction.revision);
        }
        self.invalidate(&gone);
    }
}

/// How often an agent asks.
const EVERY: Duration = Duration::from_ms(500);
/// Without a good answer for so long, what is held counts as unconfirmed: several requests were lost.
const UNCONFIRMED: Duration = Duration::from_secs(3);
/// Without a good answer for so long at the end of that time, no server answers: each would have answered several lookups.
const SILENCE: Duration = Duration::from_ms(250);
/// How long what is to be reconfirmed may be used, while a server answers.
const DOUBT: Duration = Duration::from_ms(500);
/// The same after servers were away: lookups of before are repeated each half second.
const RESUMED: Duration = Duration::from_ms(900);
/// Makes the request long enough that the answer may name a hundred withdrawals.
const PADDING: u16 = 120;
