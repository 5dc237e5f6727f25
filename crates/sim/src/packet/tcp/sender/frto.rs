//! F-RTO (RFC 5682, the version with SACK of section 3.1): whether a retransmission timeout was spurious, as after a delay spike or where a full queue
//! lasts longer than the timeout.
//!
//! ```text
//!   timeout: the first segment again --ack of it--> two new segments --ack--> what was sent once before the timeout has arrived: spurious
//!                                                                     `-----> nothing of that: lost, slow start as without F-RTO
//! ```
//! A spurious timeout is undone: window, threshold and CUBIC's state (RFC 9438 section 4.9.1) are those of before, and nothing more is sent again.
//!
//! DEVIATION: section 3.1 looks at what arrives from the second acknowledgement on. As in Linux (`tcp_process_loss`), a segment that was sent once, before the
//! timeout, shows from the first one on that the timeout was spurious, and also if the same acknowledgement covers everything.

use super::cubic::Cubic;
use super::scoreboard::Original;
use super::*;

/// What a timeout has changed, while it may be spurious.
#[derive(Clone, Debug)]
pub(super) struct Suspicion {
    cwnd: u32,
    ssthresh: u32,
    credit: u32,
    cubic: Cubic,
    /// New segments that may still be sent instead of lost ones (step 2b); `None` until the repeated segment is acknowledged.
    new_left: Option<u8>,
}

impl Suspicion {
    /// Whether another new segment may be sent in place of lost ones.
    pub fn allows_new(&self) -> bool {
        self.new_left.is_some_and(|left| left > 0)
    }

    /// A new segment was sent.
    pub fn send_new(&mut self) {
        if let Some(left) = &mut self.new_left {
            *left = left.saturating_sub(1);
        }
    }

    /// Whether new segments go in place of lost ones.
    pub const fn holds_back(&self) -> bool {
        self.new_left.is_some()
    }
}

impl Sender {
    /// The first timeout of a connection that was not recovering (step 1): what it changes is kept.
    pub(super) fn suspect_timeout(&mut self) {
        let Self { cwnd, ssthresh, credit, phase, .. } = *self;
        let More { cubic, selective, .. } = self.more();
        let suspicion = Suspicion { cwnd, ssthresh, credit, cubic: cubic.clone(), new_left: None };
        selective.suspicion = (phase == Phase::Open).then_some(suspicion);
    }

    /// What an acknowledgement says of the timeout before it (steps 2 and 3). It `advances` if it is of more than the one before; `original` is a segment that was
    /// sent once, before the timeout, and has arrived by what it reports and nothing before did. Returns whether the timeout was spurious, and is undone.
    pub(super) fn judge_timeout(&mut self, tcp: &Tcp, now: u64, advances: bool, original: Option<Original>) -> bool {
        let (has_new, recover, una) = (self.nxt < self.end && self.nxt - self.una < tcp.max_window, self.recover, self.una);
        let suspicion = &mut self.selective().suspicion;
        let Some(mut kept) = suspicion.take() else { return false };
        if let Some(original) = original {
            self.undo_timeout(tcp, now, kept, original);
            return true;
        }
        if una >= recover {
            return false;
        }
        match kept.new_left {
            // Duplicates before the repeated segment is acknowledged say nothing (step 2).
            None if !advances => *suspicion = Some(kept),
            // Step 2b; without new data the conventional recovery goes on.
            None if has_new => {
                kept.new_left = Some(NEW_SEGMENTS);
                *suspicion = Some(kept);
            }
            // Step 3a: nothing has arrived of what was sent before.
            _ => {}
        }
        false
    }

    fn undo_timeout(&mut self, tcp: &Tcp, now: u64, kept: Suspicion, original: Original) {
        let Suspicion { cwnd, ssthresh, credit, cubic, .. } = kept;
        (self.cwnd, self.ssthresh, self.credit) = (self.cwnd.max(cwnd), self.ssthresh.max(ssthresh), credit);
        self.phase = Phase::Open;
        self.special &= !RESEND;
        self.timeouts = 0;
        // DEVIATION: one segment per window is timed, and none across a timeout; with timestamps (RFC 7323) this one would be, so that the timeout grows with
        // the delay (RFC 4015 section 3, step 6).
        self.sample(tcp, now - original.at);
        let una = self.una;
        let more = self.more();
        more.cubic = cubic;
        more.selective.forgive(una, now, original);
    }
}

/// New segments in place of the first two retransmissions (step 2b).
const NEW_SEGMENTS: u8 = 2;
