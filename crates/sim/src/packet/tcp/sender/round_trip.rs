//! Round-trip times, and the retransmission timeout that follows from them (RFC 6298).

use super::{NEVER, Sender, Tcp};

impl Sender {
    #[inline]
    pub(super) fn start_timing(&mut self, number: u32, now: u64) {
        self.timed = number;
        self.timed_at = now;
    }

    /// RFC 6298 section 5.1: starts the timer if it does not run.
    #[inline]
    pub(super) fn start(&mut self, now: u64) {
        if self.deadline == NEVER {
            self.deadline = now.saturating_add(self.rto);
        }
    }

    #[inline]
    pub(super) fn restart(&mut self, now: u64) {
        self.deadline = now.saturating_add(self.rto);
    }

    /// A round trip was measured: RFC 6298 section 2.
    pub(super) fn sample(&mut self, tcp: &Tcp, rtt: u64) {
        let rtt = rtt.max(1);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            self.rttvar = (self.rttvar * 3 + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.set_rto(tcp);
    }

    pub(super) fn set_rto(&mut self, tcp: &Tcp) {
        self.rto = match self.srtt {
            0 => tcp.rto_initial,
            srtt => (srtt + (self.rttvar * 4).max(GRANULARITY)).clamp(tcp.rto_min, tcp.rto_max),
        };
    }
}

/// Clock granularity of RFC 6298: 1 ns.
const GRANULARITY: u64 = 1_000;
