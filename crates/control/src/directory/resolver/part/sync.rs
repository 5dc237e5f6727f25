//! Revocation: twice a second one server says what was withdrawn of what is held, and what it does not name may be used on. Later servers
//! say so unasked (`follow`).
//!
//! `since` is how far all withdrawals are known for all that is held. An answer of a server that lags behind sets it back, for a withdrawal that
//! was heard of before the mapping came would never be heard of again.

use rand::RngExt;

use super::cache::Said;
use super::{PartResolver, What};
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
    /// When polling began: before, withdrawals came unasked.
    polling: Instant,
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
    /// When to see whether any answers, towards the end.
    probe_at: Instant,
}

impl SyncState {
    /// Since when nothing was confirmed, if for longer than [`UNCONFIRMED`].
    pub(super) fn unconfirmed_since(&self, now: Instant) -> Option<Instant> {
        let silent = now.saturating_since(self.confirmed.max(self.polling));
        (self.since.is_some() && silent >= UNCONFIRMED).then_some(self.confirmed)
    }
}

impl PartResolver {
    pub(super) fn sync_due(&self) -> Instant {
        if self.sync.since.is_none() || self.servers.len() == 0 {
            return Instant::MAX;
        }
        let due = self.subscriptions.due();
        if self.subscriptions.are_in_force() { due } else { due.min(self.sync.at) }
    }

    pub(super) const fn sync_since(&self) -> Option<Generation> {
        self.sync.since
    }

    /// Withdrawals do not come unasked any more.
    pub(super) fn begin_polling(&mut self) {
        (self.sync.at, self.sync.attempts, self.sync.polling) = (self.now, 0, self.now);
    }

    /// Something was accepted that a server said at this revision.
    pub(super) fn covered_since(&mut self, revision: Generation) {
        match &mut self.sync.since {
            Some(since) if revision < *since => {
                *since = revision;
                // The subscriptions began later.
                self.unfollow();
            }
            Some(_) => {}
            // What is not held is not renewed.
            None if self.cache.found() == 0 => {}
            None => {
                let at = self.now + self.jittered(EVERY);
                self.sync = SyncState { since: Some(revision), at, attempts: 0, confirmed: self.now, polling: self.now };
            }
        }
    }

    pub(super) fn sync_now(&mut self) {
        let Some(since) = self.sync.since else { return };
        if self.cache.found() == 0 {
            // Nothing to renew: the next mapping restarts.
            self.unfollow();
            self.sync.since = None;
            return;
        }
        self.renew_subscriptions();
        if self.subscriptions.are_in_force() || self.sync.at > self.now {
            return;
        }
        let Some(&server) = self.servers.choose(1, &[], &mut self.rng).first() else { return };
        let wait = self.servers.timeout(&[server]).as_ns() << self.sync.attempts.min(8);
        let attempt = self.sync.attempts;
        self.sync.attempts += 1;
        self.sync.at = self.now + Duration::from_ns(wait).min(EVERY);
        // A server of before Follow does not answer it.
        if attempt >= FOLLOWS && attempt % 2 == 1 { self.send_sync(server, since) } else { self.send_follow(server, false) }
    }

    pub(super) fn send_sync(&mut self, to: std::net::SocketAddr, since: Generation) {
        let body = Message::Sync(Sync { revision: since, policy: self.policy, padding: PADDING });
        let (request, bytes) = self.servers.seal(self.now, to, Kind::Sync, |out| body.emit(out));
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
        self.synced(changes.revision, since, sent, true);
        if changes.reconfirm {
            self.reconfirm();
        }
    }

    /// All withdrawals from `since` to `revision` are known by an answer to a request of then; if it is `complete`, all that the server knows. Whether
    /// everything that is held now was covered.
    pub(super) fn synced(&mut self, revision: Generation, since: Generation, sent: Instant, complete: bool) -> bool {
        // What an answer has set back since this request was sent, it has not covered.
        if self.sync.since.is_none_or(|now| now < since) {
            self.sync.at = self.now;
            return false;
        }
        self.sync.since = Some(revision);
        if complete {
            self.cache.renew(sent);
            let every = self.jittered(EVERY);
            (self.sync.at, self.sync.attempts, self.sync.confirmed) = (sent + every, 0, sent);
        }
        complete
    }

    pub(super) const fn is_in_doubt(&self) -> bool {
        self.doubt.under_way.is_some() || self.doubt.is_suspended
    }

    pub(super) fn doubt_due(&self) -> Instant {
        self.doubt.under_way.map_or(Instant::MAX, |(_, until)| until.min(self.doubt.probe_at))
    }

    /// Whether servers answer is to be known when the time for reconfirming is over.
    fn probe(&mut self, until: Instant) {
        if self.doubt.probe_at > self.now {
            return;
        }
        if until.saturating_since(self.doubt.heard) < SILENCE {
            self.doubt.probe_at = until;
            return;
        }
        self.doubt.probe_at = self.now + PROBE / 8;
        if let Some(&server) = self.servers.choose(1, &[], &mut self.rng).first() {
            self.send_follow(server, false);
        }
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
        let Some((begun, until)) = self.doubt.under_way else { return };
        if until > self.now {
            return self.probe(until);
        }
        self.doubt.under_way = None;
        let limit = begun.saturating_add(self.config.fail_static);
        if until.saturating_since(self.doubt.heard) >= SILENCE && limit > self.now {
            self.doubt.is_suspended = true;
            self.cache.suspend_doubt(until, limit);
        }
    }

    /// Everything held is looked up again, a batch soon and the others in the seconds after it; until it is confirmed it may be used for a moment. What is
    /// needed in between is looked up at once.
    pub(super) fn reconfirm(&mut self) {
        self.reconfirm_within(DOUBT);
    }

    fn reconfirm_within(&mut self, time: Duration) {
        let until = self.now + time;
        self.doubt.under_way = Some((self.now, until));
        self.doubt.is_suspended = false;
        self.cache.doubt(until);
        let soon = Duration::from_ns(self.rng.random_range(0..=SPREAD.as_ns()));
        self.lookups.confirm(self.cache.found_names(), self.now + soon, CONFIRM);
        self.doubt.probe_at = self.now + (time - PROBE);
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
/// So long before that end servers are asked, if none has answered since that began.
const PROBE: Duration = Duration::from_ms(150);
/// The first lookups of that time are sent within so long...
const SPREAD: Duration = Duration::from_ms(200);
/// ...and all of them in about this.
const CONFIRM: Duration = Duration::from_secs(5);
/// Requests before one that servers of before Follow understand.
const FOLLOWS: u32 = 3;
/// Makes the request long enough that the answer may name a hundred withdrawals.
const PADDING: u16 = 120;
