//! The receiving end: puts segments in order and says what to acknowledge.

use std::collections::VecDeque;

use super::{NEVER, Tcp};

/// Answer to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::packet) struct Answer {
    /// An acknowledgement to send before, which does not cover this segment, and whose echo is the opposite of `marked`.
    pub early: Option<u32>,
    /// The acknowledgement to send now: all below `number` has arrived.
    pub ack: Option<u32>,
    /// Whether it echoes a congestion mark.
    pub marked: bool,
    /// Segments that are now in order and were not before.
    pub fresh: u32,
}

/// A receiving end.
#[derive(Clone, Debug)]
pub(in crate::packet) struct Receiver {
    next: u32,
    /// One beyond the highest segment that has arrived.
    high: u32,
    /// When an acknowledgement that waits is due; [`NEVER`] if none waits.
    due: u64,
    /// The state of the congestion mark that the last segment had (RFC 8257 section 3.2).
    mark: bool,
    /// Whether a timer of the engine will look at `due`.
    pub armed: bool,
    /// Segments that arrived after a later one without having been repeated.
    pub reordered: u32,
    /// Beyond `next`: segments that have arrived, as ascending ranges. Most flows never have any.
    #[allow(clippy::box_collection, reason = "a receiver stays one cache line")]
    islands: Option<Box<VecDeque<(u32, u32)>>>,
}

impl Receiver {
    pub fn new() -> Self {
        Self { next: 0, high: 0, due: NEVER, mark: false, armed: false, reordered: 0, islands: None }
    }

    /// A segment arrives.
    #[inline]
    pub fn on_segment(&mut self, tcp: &Tcp, now: u64, number: u32, marked: bool, repeat: bool) -> Answer {
        let before = self.next;
        let had_islands = self.islands.as_ref().is_some_and(|i| !i.is_empty());
        if number < self.high && !repeat && number >= self.next {
            self.reordered += 1;
        }
        self.high = self.high.max(number + 1);
        if number == self.next {
            self.next += 1;
            if had_islands {
                self.absorb();
            }
        } else if number > self.next {
            self.land(number);
        }
        let fresh = self.next - before;
        let Some(wait) = tcp.delayed_ack else {
            return Answer { early: None, ack: Some(self.next), marked, fresh };
        };
        // RFC 8257 section 3.2: the mark changes while an acknowledgement waits, so that goes first, with the mark of its segments.
        let early = (self.due != NEVER && marked != self.mark).then_some(before);
        if early.is_some() {
            self.due = NEVER;
        }
        self.mark = marked;
        // Out of order, or filling a hole: at once. So is every second segment.
        if fresh == 0 || had_islands || self.due != NEVER {
            self.due = NEVER;
            return Answer { early, ack: Some(self.next), marked, fresh };
        }
        self.due = now.saturating_add(wait);
        Answer { early, ack: None, marked, fresh }
    }

    /// The delayed acknowledgement is due: what to send, or `None` if it has been sent or must still wait.
    pub fn on_timer(&mut self, now: u64) -> Option<(u32, bool)> {
        if self.due > now {
            return None;
        }
        self.due = NEVER;
        Some((self.next, self.mark))
    }

    pub fn due(&self) -> u64 {
        self.due
    }

    /// Segments in order.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Islands that have become part of what is in order.
    fn absorb(&mut self) {
        let Some(islands) = &mut self.islands else { return };
        while let Some(island) = islands.front().filter(|i| i.0 <= self.next) {
            self.next = self.next.max(island.1);
            islands.pop_front();
        }
    }

    /// A segment beyond a hole.
    #[inline(never)]
    fn land(&mut self, number: u32) {
        let islands = self.islands.get_or_insert_default();
        // Mostly the last one grows, or a new one begins beyond it.
        let at = match islands.back() {
            Some(last) if last.1 == number => islands.len() - 1,
            Some(last) if last.1 < number => islands.len(),
            _ => islands.partition_point(|i| i.1 < number),
        };
        match islands.get_mut(at) {
            Some(island) if island.0 <= number && number < island.1 => {}
            Some(island) if island.1 == number => {
                island.1 = number + 1;
                if islands.get(at + 1).is_some_and(|after| after.0 == number + 1) {
                    islands[at].1 = islands[at + 1].1;
                    islands.remove(at + 1);
                }
            }
            Some(island) if island.0 == number + 1 => island.0 = number,
            _ => islands.insert(at, (number, number + 1)),
        }
    }
}
