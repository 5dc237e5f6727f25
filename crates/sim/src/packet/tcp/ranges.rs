//! Sets of segment numbers, as ascending ranges with gaps between them.

use std::collections::VecDeque;
use std::ops::Range;

/// Segments that have arrived beyond a hole.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(VecDeque<(u32, u32)>);

impl Ranges {
    /// Adds a range that is not empty; reports the parts of it that are new, in ascending order.
    #[inline]
    pub fn add(&mut self, from: u32, to: u32, mut fresh: impl FnMut(Range<u32>)) {
        // Mostly the last one grows, or a new one begins beyond it.
        match self.0.back_mut() {
            Some(last) if last.1 == from => last.1 = to,
            Some(last) if last.1 < from => self.0.push_back((from, to)),
            None => self.0.push_back((from, to)),
            _ => return self.add_before(from, to, fresh),
        }
        fresh(from..to);
    }

    /// The same where it does not begin after all others.
    fn add_before(&mut self, from: u32, to: u32, mut fresh: impl FnMut(Range<u32>)) {
        let at = self.0.partition_point(|r| r.1 < from);
        let Some(&(start, end)) = self.0.get(at).filter(|r| r.0 <= to) else {
            self.0.insert(at, (from, to));
            return fresh(from..to);
        };
        if start <= from && to <= end {
            return;
        }
        // The ranges from `at` up to `beyond` become one.
        let (mut reached, mut beyond) = (from, at);
        while let Some(&(start, end)) = self.0.get(beyond).filter(|r| r.0 <= to) {
            if reached < start {
                fresh(reached..start);
            }
            reached = reached.max(end);
            beyond += 1;
        }
        if reached < to {
            fresh(reached..to);
        }
        self.0[at] = (start.min(from), reached.max(to));
        self.0.drain(at + 1..beyond);
    }

    /// Removes all numbers below `number`.
    pub fn remove_below(&mut self, number: u32) {
        while let Some(first) = self.0.front_mut() {
            if first.1 > number {
                first.0 = first.0.max(number);
                break;
            }
            self.0.pop_front();
        }
    }

    /// The first range, if it begins at `number` or before: that is then removed.
    #[inline]
    pub fn take_from(&mut self, number: u32) -> Option<(u32, u32)> {
        self.0.front().filter(|r| r.0 <= number)?;
        self.0.pop_front()
    }

    /// The start of the last range, if it ends at `number`: it is then removed.
    pub fn take_up_to(&mut self, number: u32) -> Option<u32> {
        self.0.back().filter(|r| r.1 == number)?;
        self.0.pop_back().map(|r| r.0)
    }

    /// The range that a number is in.
    pub fn around(&self, number: u32) -> Option<(u32, u32)> {
        self.0.get(self.0.partition_point(|r| r.1 <= number)).copied().filter(|r| r.0 <= number)
    }

    /// The number that `above` others follow; `None` if there are fewer.
    pub fn nth_from_top(&self, mut above: u32) -> Option<u32> {
        for &(start, end) in self.0.iter().rev() {
            if end - start > above {
                return Some(end - 1 - above);
            }
            above -= end - start;
        }
        None
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
