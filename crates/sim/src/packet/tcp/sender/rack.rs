//! RACK-TLP (RFC 8985): a segment is lost if one sent later has arrived and a round trip and a little more have passed; a probe after
//! two silent round trips makes the end of a flow as quick to recover as its middle.

use std::collections::VecDeque;

use super::super::NEVER;
use super::scoreboard::{Original, Scoreboard, Sent};

/// RACK's state of a connection (section 5.3), times in picoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// When the segment was sent that was sent last of those that have arrived, and one beyond it.
    sent: (u64, u32),
    /// Its round trip.
    rtt: u64,
    /// The least round trip; 0 before the first.
    min_rtt: u64,
    /// One beyond the highest segment that has arrived.
    fack: u32,
    reordering_seen: bool,
    /// A duplicate widens the window for reordering once a round trip, which ends here.
    duplicate_round: Option<u32>,
    /// The window for reordering, in quarters of the least round trip beyond the first one, and recoveries until it shrinks.
    wider: u32,
    persists: u32,
    /// No segment below has to be looked at that was sent once.
    unchecked: u32,
    /// Segments that were sent again, and when.
    again: VecDeque<(u32, u64)>,
    /// What has arrived with the acknowledgement at hand.
    heard: Vec<(u32, Sent)>,
    /// The outstanding probe: one beyond what it was sent after, and whether it repeats a segment (section 7.1).
    pub probe: Option<(u32, bool)>,
}

/// What the losses depend on besides the segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub now: u64,
    pub una: u32,
    pub nxt: u32,
    pub srtt: u64,
    /// In fast recovery or after a timeout.
    pub recovering: bool,
}

impl Rack {
    /// A segment has arrived of which that was not known.
    pub fn hear(&mut self, number: u32, segment: Sent) {
        self.heard.push((number, segment));
    }

    /// A segment is sent again.
    pub fn send_again(&mut self, number: u32, now: u64) {
        self.again.push_back((number, now));
    }

    /// Steps 1 to 3 (section 6.2): what the segments that have arrived say of the path.
    pub fn update(&mut self, now: u64) {
        self.heard.sort_unstable_by_key(|&(number, _)| number);
        let mut last: Option<(u64, u32)> = None;
        for &(number, segment) in &self.heard {
            let rtt = now - segment.at;
            if !segment.repeated {
                self.min_rtt = if self.min_rtt == 0 { rtt } else { self.min_rtt.min(rtt) };
            }
            if number + 1 > self.fack {
                self.fack = number + 1;
            } else if number + 1 < self.fack && !segment.repeated {
                self.reordering_seen = true;
            }
            // What was sent again and comes back in less than a round trip answers what was sent first.
            if !segment.repeated || rtt >= self.min_rtt {
                last = last.max(Some((segment.at, number + 1)));
            }
        }
        self.heard.clear();
        if let Some(last) = last {
            self.rtt = now - last.0;
            self.sent = self.sent.max(last);
        }
    }

    /// An acknowledgement reports a duplicate: what was sent again had not been lost (step 4).
    pub fn on_duplicate(&mut self, una: u32, nxt: u32) {
        if self.duplicate_round.is_some_and(|round| una >= round) {
            self.duplicate_round = None;
        }
        if self.duplicate_round.is_none() {
            self.duplicate_round = Some(nxt);
            self.wider += 1;
            self.persists = PERSISTS;
        }
    }

    /// A recovery has ended.
    pub fn on_recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.wider = 0;
        }
    }

    /// How much later than by a round trip a segment may arrive (step 4).
    fn reordering_window(&self, board: &Scoreboard, context: Context) -> u64 {
        if !self.reordering_seen && (context.recovering || board.has_overtaken()) {
            return 0;
        }
        (self.min_rtt / 4).saturating_mul(u64::from(self.wider) + 1).min(context.srtt)
    }

    /// Declares segments lost (step 5); returns when others will be, [`NEVER`] if none is due.
    pub fn lose(&mut self, board: &mut Scoreboard, context: Context) -> u64 {
        let Context { now, una, nxt, .. } = context;
        let allowed = self.rtt.saturating_add(self.reordering_window(board, context));
        let mut due = NEVER;
        let mut later = |at: u64| {
            due = if due == NEVER { at } else { due.max(at) };
        };
        // What was sent once was sent in order.
        self.unchecked = self.unchecked.max(una);
        let mut is_first = true;
        for number in self.unchecked..nxt {
            let Some(segment) = board.get(number) else { break };
            if (segment.at, number + 1) >= self.sent && !segment.repeated {
                break;
            }
            let open = !segment.sacked && !segment.lost && !segment.repeated;
            if open && segment.at.saturating_add(allowed) <= now {
                board.lose(number);
            } else if open {
                later(segment.at + allowed);
                is_first = false;
            }
            if is_first {
                self.unchecked = number + 1;
            }
        }
        let mut kept = VecDeque::new();
        while let Some((number, at)) = self.again.pop_front() {
            if (at, number + 1) >= self.sent {
                self.again.push_front((number, at));
                break;
            }
            match board.get(number) {
                Some(segment) if segment.at == at && segment.repeated && !segment.sacked && !is_waiting(segment) => {
                    if at.saturating_add(allowed) <= now {
                        board.lose(number);
                    } else {
                        later(at + allowed);
                        kept.push_back((number, at));
                    }
                }
                _ => {}
            }
        }
        while let Some(entry) = kept.pop_back() {
            self.again.push_front(entry);
        }
        due
    }

    /// A timeout: the first segment is lost, and all whose time has passed (section 6.3).
    pub fn on_timeout(&mut self, board: &mut Scoreboard, context: Context) {
        let Context { now, una, nxt, .. } = context;
        let allowed = self.rtt.saturating_add(self.reordering_window(board, context));
        for number in una..nxt {
            let Some(segment) = board.get(number) else { break };
            if !segment.sacked && (number == una || segment.at.saturating_add(allowed) <= now) {
                board.lose(number);
            }
        }
        self.probe = None;
    }

    /// A timeout was spurious, as `original` shows: what it took for lost is looked at again, from `una` on. What was sent again by it has not arrived, as
    /// timestamps would have shown (section 6.2, step 2).
    pub fn forgive(&mut self, una: u32, now: u64, original: Original) {
        self.unchecked = una;
        self.sent = (original.at, original.number + 1);
        self.rtt = now - original.at;
    }

    /// An acknowledgement of all below `number` arrives, without new data if it repeats the one before (section 7.4). Returns whether it
    /// shows that the probe has repaired a loss.
    pub fn probe_answered(&mut self, number: u32, duplicate: Option<u32>, repeats: bool) -> bool {
        let Some((end, again)) = self.probe.filter(|p| number >= p.0) else { return false };
        if !again || duplicate == Some(end) || repeats {
            self.probe = None;
        } else if number > end {
            self.probe = None;
            return true;
        }
        false
    }
}

/// Whether it is lost, and not sent again since.
fn is_waiting(segment: Sent) -> bool {
    segment.lost && !segment.again
}

/// Recoveries for which the window for reordering stays wide.
const PERSISTS: u32 = 16;
