//! Shapers: where a server hands packets to a detour, no faster than the detour's limit (Subways section 6).
//!
//! ```text
//!   leaving:   source --> shaper --> NIC --> ToR --> server --> remote ToR
//!   arriving:  remote ToR --> server --> shaper --> NIC --> ToR --> destination
//! ```
//! A shaper is a drop-tail FIFO queue as large as a switch's would be at its rate. As with [`super::ports`], when it will be free says when a
//! packet that comes now leaves. What it has accepted leaves at the rate of that time, whatever the rate is later.

use weft_fabric::BitsPerSec;

use super::ports::{FRACTION, QueueRule, byte_time, time_of};

/// All shapers, by number.
#[derive(Debug)]
pub(super) struct Shapers {
    shapers: Vec<Shaper>,
    rule: QueueRule,
}

#[derive(Clone, Copy, Debug)]
struct Shaper {
    /// When all that was accepted has left, in picoseconds.
    free: u64,
    /// Picoseconds a byte takes, times 2^[`FRACTION`].
    byte_time: u64,
    /// Time to send a full queue, and one at the marking threshold.
    limit: u64,
    mark: u64,
}

impl Shapers {
    /// None yet; `rule` gives them their queues.
    pub fn new(rule: QueueRule) -> Self {
        Self { shapers: Vec::new(), rule }
    }

    /// A shaper has this rate from now on; the next number is a new one.
    pub fn set(&mut self, number: u32, rate: BitsPerSec) {
        let rate = BitsPerSec(rate.0.max(1));
        let (size, mark) = self.rule.queue(rate);
        let free = self.shapers.get(number as usize).map_or(0, |s| s.free);
        let mark = mark.map_or(u64::MAX, |m| time_of(rate, m));
        let shaper = Shaper { free, byte_time: byte_time(rate), limit: time_of(rate, size), mark };
        match self.shapers.get_mut(number as usize) {
            Some(known) => *known = shaper,
            None => self.shapers.push(shaper),
        }
    }

    /// When a packet of `len` bytes that comes at `now` leaves, and whether it is marked; `None` if it is dropped.
    pub fn send(&mut self, number: u32, len: u16, now: u64) -> Option<(u64, bool)> {
        let shaper = &mut self.shapers[number as usize];
        let backlog = shaper.free.saturating_sub(now);
        let after = backlog.saturating_add(((u128::from(len) * u128::from(shaper.byte_time)) >> FRACTION) as u64);
        if after > shaper.limit {
            return None;
        }
        shaper.free = now + after;
        Some((shaper.free, backlog > shaper.mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ports::QueueSize;
    use weft_fabric::Bytes;

    fn shapers(size: u64, mark: u64) -> Shapers {
        Shapers::new(QueueRule { size: QueueSize::Fixed(Bytes(size)), mark: Some(Bytes(mark)), marks: false })
    }

    #[test]
    fn packets_leave_at_the_rate_and_what_does_not_fit_is_dropped() {
        let mut shapers = shapers(3_000, 1_500);
        // 1,000 bytes take 8 us.
        shapers.set(0, BitsPerSec(1_000_000_000));
        let mut send = |now| shapers.send(0, 1_000, now).map(|(at, marked)| (at / 1_000, marked));
        assert_eq!(
            [send(0), send(0), send(0), send(0)],
            [Some((8_000, false)), Some((16_000, false)), Some((24_000, true)), None]
        );
        assert_eq!(send(8_000_000), Some((32_000, true)));
        assert_eq!(send(100_000_000), Some((108_000, false)));
    }

    #[test]
    fn another_rate_keeps_the_order() {
        let mut shapers = shapers(30_000, 30_000);
        shapers.set(0, BitsPerSec(100_000_000));
        let (slow, _) = shapers.send(0, 1_000, 0).unwrap();
        shapers.set(0, BitsPerSec(1_000_000_000));
        assert_eq!(shapers.send(0, 1_000, 0).map(|s| s.0), Some(slow + 8_000_000));
    }
}
