//! What a sender knows of each segment under way from selective acknowledgements (RFC 6675 sections 3 and 4).
//!
//! ```text
//!   una                                          high
//!    |  lost   | sacked | lost, sent again | sacked | sent |
//!    +---------+--------+------------------+--------+------+
//!    |    0    |   0    |        1         |   0    |  1   |   what each adds to the pipe
//! ```
//! Who declares a segment lost is not decided here: three segments beyond it that have arrived ([`Scoreboard::lose_overtaken`], RFC 6675),
//! a time that has passed ([`super::rack`]), or a timeout.

use std::collections::VecDeque;

use super::super::ranges::Ranges;

/// A segment under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::packet::tcp) struct Sent {
    /// When it was sent last, in picoseconds.
    pub at: u64,
    /// It has arrived, beyond a hole.
    pub sacked: bool,
    /// What was sent first is lost.
    pub lost: bool,
    /// It was sent again, and that is not known to be lost.
    pub again: bool,
    /// It was sent more than once.
    pub repeated: bool,
}

impl Sent {
    /// Copies in the network (RFC 6675 section 4, SetPipe).
    fn pipe(self) -> u32 {
        if self.sacked { 0 } else { u32::from(!self.lost) + u32::from(self.again) }
    }

    /// Whether it has to be sent again.
    fn waits(self) -> bool {
        self.lost && !self.sacked && !self.again
    }
}

/// A segment that was sent once, before the last timeout, and has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Original {
    pub number: u32,
    /// When it was sent, in picoseconds.
    pub at: u64,
}

/// All segments under way.
#[derive(Clone, Debug, Default)]
pub(in crate::packet::tcp) struct Scoreboard {
    /// The first segment under way, and what is known of it and of all after it.
    una: u32,
    segments: VecDeque<Sent>,
    sacked: Ranges,
    pipe: u32,
    /// Segments to be sent again; none is below `hint`, none at `lost_end` or above.
    waiting: u32,
    hint: u32,
    lost_end: u32,
    /// All below is sacked or lost, by [`Scoreboard::lose_overtaken`].
    overtaken: u32,
    /// One beyond the highest segment that was sent again (HighRxt).
    pub high_again: u32,
}

impl Scoreboard {
    /// Segments in the network.
    pub fn pipe(&self) -> u32 {
        self.pipe
    }

    pub fn get(&self, number: u32) -> Option<Sent> {
        self.segments.get(number.checked_sub(self.una)? as usize).copied()
    }

    /// One beyond the highest segment that was sent.
    fn high(&self) -> u32 {
        self.una + self.segments.len() as u32
    }

    /// Whether anything has arrived beyond a hole.
    pub fn has_sacked(&self) -> bool {
        !self.sacked.is_empty()
    }

    /// Whether so much has arrived beyond a hole that what is missing there is lost.
    pub fn has_overtaken(&self) -> bool {
        self.sacked.nth_from_top(OVERTAKEN - 1).is_some()
    }

    /// Whether any segment has to be sent again.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Sent)) {
        let segment = &mut self.segments[(number - self.una) as usize];
        self.pipe -= segment.pipe();
        self.waiting -= u32::from(segment.waits());
        change(segment);
        self.pipe += segment.pipe();
        self.waiting += u32::from(segment.waits());
    }

    /// The next new segment has been sent.
    pub fn send_new(&mut self, now: u64) {
        self.segments.push_back(Sent { at: now, ..Sent::default() });
        self.pipe += 1;
    }

    /// A segment has been sent again.
    pub fn send_again(&mut self, number: u32, now: u64) {
        self.change(number, |s| *s = Sent { at: now, again: true, repeated: true, ..*s });
        self.high_again = self.high_again.max(number + 1);
    }

    /// A segment has been sent again that counts as sent once (rule 4 of NextSeg: HighRxt stays).
    pub fn send_rescue(&mut self, number: u32, now: u64) {
        self.change(number, |s| *s = Sent { at: now, repeated: true, ..*s });
    }

    /// All below `number` has arrived; reports those segments of which that was not known.
    pub fn acknowledge(&mut self, number: u32, mut arrived: impl FnMut(u32, Sent)) {
        while self.una < number
            && let Some(segment) = self.segments.pop_front()
        {
            self.pipe -= segment.pipe();
            self.waiting -= u32::from(segment.waits());
            if !segment.sacked {
                arrived(self.una, segment);
            }
            self.una += 1;
        }
        self.sacked.remove_below(self.una);
        self.hint = self.hint.max(self.una);
        self.high_again = self.high_again.max(self.una);
    }

    /// A block of segments has arrived; reports those of which that was not known.
    pub fn sack(&mut self, (from, to): (u32, u32), mut arrived: impl FnMut(u32, Sent)) {
        let (from, to) = (from.max(self.una), to.min(self.high()));
        if from >= to {
            return;
        }
        let mut fresh = smallvec::SmallVec::<[std::ops::Range<u32>; 4]>::new();
        self.sacked.add(from, to, |range| fresh.push(range));
        for number in fresh.into_iter().flatten() {
            arrived(number, self.segments[(number - self.una) as usize]);
            self.change(number, |s| s.sacked = true);
        }
    }

    /// A segment, or what was last sent of it, is lost.
    pub fn lose(&mut self, number: u32) {
        self.change(number, |s| (s.lost, s.again) = (true, false));
        self.hint = self.hint.min(number);
        self.lost_end = self.lost_end.max(number + 1);
    }

    /// Declares lost what [`OVERTAKEN`] segments have overtaken (RFC 6675 section 4, IsLost).
    pub fn lose_overtaken(&mut self) {
        let Some(below) = self.sacked.nth_from_top(OVERTAKEN - 1) else { return };
        for number in self.overtaken.max(self.una)..below {
            let Sent { sacked, lost, .. } = self.segments[(number - self.una) as usize];
            if !sacked && !lost {
                self.change(number, |s| s.lost = true);
                self.hint = self.hint.min(number);
            }
        }
        self.overtaken = self.overtaken.max(below);
        self.lost_end = self.lost_end.max(below);
    }

    /// Declares everything lost that has not arrived: a timeout. What has arrived stays known (RFC 6675 section 5.1; receivers here never
    /// discard it).
    pub fn lose_all(&mut self) {
        for number in self.una..self.high() {
            if !self.segments[(number - self.una) as usize].sacked {
                self.lose(number);
            }
        }
        self.high_again = self.una;
    }

    /// Nothing is lost: the timeout that said so was spurious.
    pub fn forgive(&mut self) {
        for number in self.una..self.high() {
            self.change(number, |s| s.lost = false);
        }
        self.overtaken = self.una;
    }

    /// The first segment to be sent again (rule 1 of NextSeg).
    pub fn next_waiting(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let from = self.hint.max(self.una);
        let found = (from..self.lost_end).find(|n| self.segments[(n - self.una) as usize].waits());
        self.hint = found.unwrap_or(self.lost_end);
        found
    }

    /// The first segment in a hole that was not sent again and is not lost yet (rule 3).
    pub fn next_in_hole(&self) -> Option<u32> {
        let top = self.sacked.nth_from_top(0)?;
        (self.high_again.max(self.una)..top).find(|n| !self.segments[(n - self.una) as usize].sacked)
    }

    /// The highest segment that has not arrived (rule 4).
    pub fn highest_missing(&self) -> Option<u32> {
        (self.una..self.high()).rev().find(|n| !self.segments[(n - self.una) as usize].sacked)
    }
}

/// Segments beyond it that have arrived for one to be lost (DupThresh).
pub(in crate::packet::tcp) const OVERTAKEN: u32 = 3;
