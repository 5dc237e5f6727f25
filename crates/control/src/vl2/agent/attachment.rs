//! One address and its ToR: the same message again and again until it is acknowledged, and repeated from time to time.
//!
//! ```text
//!            Attach, each 0.2 s, then less often, at least every 2 s          Detach, the same, 5 times
//!   wanted ---------------------------------------------------> attached ----------------------------> gone
//!     ^  '-- Refused: again in 1 s; too old: at once, after the     | refresh: Attach with a new sequence
//!     |      sequence that the ToR has accepted                      |
//!     '-------------------------------------------------------------'
//! ```

use crate::time::{Duration, Instant};
use crate::wire::vl2::attach::{Attach, Code, Kind};

/// What the ToR, or in its place the directory, said of an address last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachState {
    /// Nobody has answered yet.
    Waiting,
    /// Packets for the address come here.
    Attached,
    /// It is refused.
    Refused(Code),
    /// They do not come here any longer.
    Detached,
}

/// The state of one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub state: AttachState,
    is_leaving: bool,
    /// Of the last message.
    sequence: u64,
    tries: u32,
    /// The ToR has just said how great the sequence must be.
    is_advanced: bool,
    /// When the next message is due.
    pub due: Instant,
}

impl Attachment {
    pub const fn new(now: Instant) -> Self {
        Self { state: AttachState::Waiting, is_leaving: false, sequence: 0, tries: 0, is_advanced: false, due: now }
    }

    pub const fn leave(&mut self, now: Instant) {
        self.is_leaving = true;
        self.state = AttachState::Waiting;
        self.tries = 0;
        self.sequence = 0;
        self.due = now;
    }

    /// What to say now; `fresh` is a sequence that was not used before. None: it has been said often enough.
    pub fn say(&mut self, now: Instant, fresh: u64) -> Option<(Kind, u64)> {
        if self.is_leaving && self.tries >= FAREWELLS {
            self.due = Instant::MAX;
            return None;
        }
        if self.sequence == 0 {
            self.sequence = fresh;
        }
        let wait = Duration::from_ns((FIRST.as_ns() << self.tries.min(8)).min(LONGEST.as_ns()));
        self.tries += 1;
        self.due = now.saturating_add(wait);
        Some((if self.is_leaving { Kind::Detach } else { Kind::Attach }, self.sequence))
    }

    /// Whether the last message has this sequence.
    pub const fn is_last(&self, sequence: u64) -> bool {
        self.sequence != 0 && self.sequence == sequence
    }

    /// Whether it has left, or nobody minds.
    pub fn has_left(&self) -> bool {
        self.is_leaving && (self.state == AttachState::Detached || self.tries >= FAREWELLS && self.due == Instant::MAX)
    }

    /// The answer to the last message that a greater sequence is needed, for the first time in a row: it is said again at once, with a fresh sequence.
    pub fn advance(&mut self, answer: &Attach, now: Instant) -> bool {
        let kind = if self.is_leaving { Kind::Detach } else { Kind::Attach };
        let is_answer = self.sequence != 0 && answer.sequence == self.sequence && answer.kind == kind;
        if !is_answer || self.is_advanced {
            return false;
        }
        self.is_advanced = true;
        self.sequence = 0;
        self.due = now;
        true
    }

    /// An answer; whether it was to the last message.
    pub fn hear(&mut self, answer: &Attach, now: Instant, refresh: Duration) -> bool {
        let kind = if self.is_leaving { Kind::Detach } else { Kind::Attach };
        let Some(code) = answer.answer.filter(|_| answer.kind == kind) else { return false };
        if self.sequence == 0 || answer.sequence != self.sequence {
            return false;
        }
        self.is_advanced = false;
        self.state = match (code, kind) {
            (Code::Done, Kind::Attach) => AttachState::Attached,
            (Code::Done, Kind::Detach) => AttachState::Detached,
            (code, _) => AttachState::Refused(code),
        };
        let wait = if self.state == AttachState::Attached { refresh } else { AGAIN };
        self.due = if self.is_leaving && self.state == AttachState::Detached { Instant::MAX } else { now.saturating_add(wait) };
        // The next message is another one.
        self.sequence = 0;
        self.tries = if self.is_leaving { self.tries } else { 0 };
        true
    }
}

const FIRST: Duration = Duration::from_ms(200);
const LONGEST: Duration = Duration::from_secs(2);
/// After a refusal.
const AGAIN: Duration = Duration::from_secs(1);
/// Times that a detach is said before it is given up.
const FAREWELLS: u32 = 5;
