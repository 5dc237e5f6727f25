//! The receiving end: puts segments in order and says what to acknowledge.

use super::blocks::{Blocks, MAX_BLOCKS};
use super::ranges::Ranges;
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
    /// One beyond the highest segment that has arrived. Beyond `next`, and only then, there are islands.
    high: u32,
    /// The last island is from here to `high`. It is the one that grows, so it is kept apart from the others.
    last: u32,
    /// When an acknowledgement that waits is due; [`NEVER`] if none waits.
    due: u64,
    /// The state of the congestion mark that the last segment had (RFC 8257 section 3.2).
    mark: bool,
    /// Whether a timer of the engine will look at `due`.
    pub armed: bool,
    /// Segments that arrived after a later one without having been repeated.
    pub reordered: u32,
    /// Islands before the last one. Most flows never have any, and a receiver stays one cache line.
    islands: Option<Box<Islands>>,
}

/// Segments that have arrived beyond a hole and before another one.
#[derive(Clone, Debug, Default)]
struct Islands {
    ranges: Ranges,
    /// With SACK: a segment of each range, the range that was reported first most recently at the front.
    recent: Vec<u32>,
}

impl Receiver {
    pub fn new() -> Self {
        Self { next: 0, high: 0, last: 0, due: NEVER, mark: false, armed: false, reordered: 0, islands: None }
    }

    /// A segment arrives.
    #[inline]
    pub fn on_segment(&mut self, tcp: &Tcp, now: u64, number: u32, marked: bool, repeat: bool) -> Answer {
        let before = self.next;
        let had_islands = self.next < self.high;
        if number < self.high && !repeat {
            self.reordered += 1;
        }
        if number == self.next {
            self.next += 1;
            if had_islands {
                self.absorb();
            } else {
                self.high = self.next;
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

    /// Whether a segment has arrived before.
    pub fn has(&self, number: u32) -> bool {
        number < self.next || self.around(number).is_some()
    }

    /// The island that a segment is in.
    fn around(&self, number: u32) -> Option<(u32, u32)> {
        if self.next < self.high && (self.last..self.high).contains(&number) {
            return Some((self.last, self.high));
        }
        self.islands.as_ref()?.ranges.around(number)
    }

    /// What an acknowledgement reports that answers the arrival of a segment, a `duplicate` if it had arrived before: that segment (RFC
    /// 2883), the range that it belongs to, and those reported most recently (RFC 2018 section 4).
    pub fn blocks(&mut self, number: u32, duplicate: bool) -> Blocks {
        let mut blocks = Blocks::default();
        if duplicate {
            blocks.push((number, number + 1));
        }
        if self.next == self.high {
            return blocks;
        }
        let mut recent = std::mem::take(&mut self.islands.get_or_insert_default().recent);
        if let Some((start, end)) = self.around(number) {
            recent.retain(|n| !(start..end).contains(n));
            recent.insert(0, number);
        }
        let mut i = 0;
        while i < recent.len() && blocks.len() < MAX_BLOCKS {
            match self.around(recent[i]) {
                Some(range) if !blocks.reported(duplicate).contains(&range) => {
                    blocks.push(range);
                    i += 1;
                }
                _ => {
                    recent.remove(i);
                }
            }
        }
        self.islands.get_or_insert_default().recent = recent;
        blocks
    }

    /// Islands that have become part of what is in order.
    fn absorb(&mut self) {
        if self.last <= self.next {
            // There is none before the last one.
            self.next = self.high;
        } else if let Some(islands) = &mut self.islands {
            while let Some(island) = islands.ranges.take_from(self.next) {
                self.next = self.next.max(island.1);
            }
        }
    }

    /// A segment beyond a hole.
    #[inline(never)]
    fn land(&mut self, number: u32) {
        let has_islands = self.next < self.high;
        if number == self.high {
            self.high += 1;
        } else if number > self.high {
            if has_islands {
                self.islands.get_or_insert_default().ranges.add(self.last, self.high, |_| ());
            }
            self.last = number;
            self.high = number + 1;
        } else if number < self.last {
            let ranges = &mut self.islands.get_or_insert_default().ranges;
            ranges.add(number, number + 1, |_| ());
            if let Some(start) = ranges.take_up_to(self.last) {
                self.last = start;
            }
        }
    }
}
