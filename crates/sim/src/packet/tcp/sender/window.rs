//! The congestion window: how it grows, and how it shrinks after losses and marks (RFC 5681, 3168, 6356, 8257; CUBIC in [`super::cubic`]).

use super::{ALPHA_BITS, BY_CUBIC, Congestion, Sender, Tcp};

impl Sender {
    /// Slow start: one segment more an acknowledgement. Congestion avoidance: one more a window.
    #[inline]
    pub(super) fn grow(&mut self, acked: u32, now: u64) {
        if self.cwnd < self.ssthresh {
            self.cwnd += 1;
        } else if self.increase > 0 {
            self.grow_otherwise(acked, now);
        } else {
            self.credit += acked;
            if self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += 1;
            }
        }
    }

    /// Congestion avoidance by CUBIC, or with linked increases.
    #[inline(never)]
    pub(super) fn grow_otherwise(&mut self, acked: u32, now: u64) {
        if self.increase == BY_CUBIC {
            let (window, srtt) = (self.cwnd, self.srtt);
            self.cwnd = self.more().cubic.grow(window, acked, now, srtt);
            return;
        }
        // In units of 2^-10 segments, `increase` of them make one.
        self.credit += acked << INCREASE_BITS;
        while self.credit >= self.increase {
            self.credit -= self.increase;
            self.cwnd += 1;
        }
    }

    /// The threshold after a loss with so many segments under way.
    #[cold]
    pub(super) fn reduced(&mut self, flight: u32) -> u32 {
        let window = self.cwnd;
        if self.increase == BY_CUBIC { self.more().cubic.reduce(window, flight) } else { (flight / 2).max(2) }
    }

    /// Whether the window limits what is under way, and not the NIC or the application: else it does not grow (RFC 7661). In slow start a
    /// flow whose burst waits for the NIC fills half of it, as in Linux.
    #[inline]
    pub(super) fn fills_window(&self, in_flight: u32) -> bool {
        let part = if self.cwnd < self.ssthresh { self.cwnd / 2 } else { self.cwnd };
        in_flight >= part
    }

    /// DCTCP: the part of segments that were marked, once a window of data (RFC 8257 section 3.3).
    pub(super) fn observe(&mut self, acked: u32, marked: bool) {
        self.seen += acked;
        self.marked += if marked { acked } else { 0 };
        if self.una <= self.observed {
            return;
        }
        let part = ((u64::from(self.marked) << ALPHA_BITS) / u64::from(self.seen.max(1))) as u32;
        self.alpha = self.alpha - (self.alpha >> GAIN_BITS) + (part >> GAIN_BITS);
        self.observed = self.nxt;
        self.seen = 0;
        self.marked = 0;
    }

    /// The first mark of a window of data: DCTCP shrinks by their part (RFC 8257 section 3.3), others halve (RFC 3168 section 6.1.2).
    pub(super) fn cut_down(&mut self, tcp: &Tcp) {
        self.ssthresh = match tcp.congestion {
            Congestion::Dctcp => {
                let loss = (u64::from(self.cwnd) * u64::from(self.alpha)) >> (ALPHA_BITS + 1);
                (self.cwnd - loss as u32).max(2)
            }
            Congestion::Cubic => self.reduced(self.cwnd),
            _ => (self.cwnd - self.cwnd / 2).max(2),
        };
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.credit = 0;
        self.cut = self.nxt;
    }

    /// Linked increases: segments to be acknowledged for one more.
    pub fn set_increase(&mut self, segments: f64) {
        self.increase = (segments * f64::from(1 << INCREASE_BITS)).clamp(1.0, f64::from(u32::MAX / 2)) as u32;
    }

    /// DCTCP's estimate of the part of marked segments.
    #[cfg(test)]
    pub fn alpha(&self) -> f64 {
        f64::from(self.alpha) / f64::from(1u32 << ALPHA_BITS)
    }
}

/// DCTCP's g = 1/16.
const GAIN_BITS: u32 = 4;
const INCREASE_BITS: u32 = 10;
