//! The sending end: NewReno (RFC 5681, 6582), its timer (RFC 6298), and two variations of it (DCTCP, linked increases).
//!
//! | module | what it adds, in a structure of its own ([`More`]) that only the flows have that need it |
//! | --- | --- |
//! | [`selective`], [`scoreboard`] | recovery with SACK (RFC 6675) |
//! | [`rack`] | losses by time, and tail loss probes (RFC 8985) |
//! | [`frto`] | with SACK: spurious timeouts are undone (RFC 5682) |
//! | [`cubic`] | CUBIC's window (RFC 9438) |
//! | [`pace`] | pacing |
//!
//! [`window`] has the congestion window, [`round_trip`] the retransmission timeout.
//!
//! ```text
//!            acknowledged   under way       may be sent        not yet
//!   segments  ........... | .......... | ................ | ...........
//!                        una          nxt          una + window        end
//! ```
//! `handle -> poll`: the engine passes acknowledgements and timeouts, then polls for segments until there is none.

pub(super) mod cubic;
mod frto;
mod pace;
mod rack;
mod round_trip;
pub(super) mod scoreboard;
mod selective;
mod window;

use super::{Congestion, NEVER, Recovery, Tcp};
use pace::{Pace, Turn};
use selective::Selective;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(in crate::packet) enum Phase {
    /// Not begun.
    Closed,
    /// The SYN is unanswered.
    SynSent,
    /// Slow start or congestion avoidance.
    Open,
    /// Fast recovery, until all that was sent before the loss is acknowledged.
    Recovery,
    /// After a timeout, until more than that is acknowledged: everything is sent again.
    Loss,
}

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::packet) enum Segment {
    /// Open the connection.
    Syn,
    /// This segment, again if it repeats one.
    Data {
        /// Its sequence number.
        number: u32,
        /// Whether it was sent before.
        repeat: bool,
    },
    /// Nothing yet: poll again at that time, after [`Sender::on_release`]. Reported once.
    Later {
        /// In picoseconds.
        at: u64,
    },
}

/// What plain NewReno has no need of.
#[derive(Clone, Debug, Default)]
struct More {
    cubic: cubic::Cubic,
    selective: Selective,
    pace: Pace,
}

/// A sending end: two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in crate::packet) struct Sender {
    una: u32,
    nxt: u32,
    /// One beyond the highest segment ever sent.
    high: u32,
    /// Segments there are to send; `u32::MAX` if they never end.
    end: u32,
    cwnd: u32,
    /// Segments acknowledged towards the next increase in congestion avoidance.
    credit: u32,
    ssthresh: u32,
    /// Segments that must be acknowledged before the next loss counts as new.
    recover: u32,
    dup: u32,
    phase: Phase,
    /// What [`Sender::poll`] has to look at besides the window: [`RESEND`], [`SELECTIVE`], [`PACED`].
    special: u8,
    /// Whether a partial acknowledgement has restarted the timer in this recovery.
    restarted: bool,
    /// Timeouts since new data was last acknowledged.
    timeouts: u8,
    /// When a timer of the engine will look at `deadline`; [`NEVER`] if none will.
    pub timer_at: u64,
    timed_at: u64,
    /// Round-trip time, its variation, and the timeout, in picoseconds; no sample yet if `srtt` is 0.
    srtt: u64,
    rttvar: u64,
    rto: u64,
    deadline: u64,
    /// The segment whose round trip is being timed, since `timed_at`; [`UNTIMED`] if none is.
    timed: u32,
    /// Segments sent again.
    pub repeats: u32,
    /// DCTCP: the part of marked segments, times 2^20; the end of the window that is being observed; what was seen in it.
    alpha: u32,
    observed: u32,
    seen: u32,
    marked: u32,
    /// Marks on segments below this have been answered.
    cut: u32,
    /// Linked increases: segments to be acknowledged for one more, times 2^10; 0 if not linked; [`BY_CUBIC`].
    increase: u32,
    more: Option<Box<More>>,
}

impl Sender {
    /// A connection with so many segments to send; `u32::MAX` if they never end.
    pub fn new(tcp: &Tcp, end: u32) -> Self {
        Self {
            una: 0,
            nxt: 0,
            high: 0,
            end,
            cwnd: tcp.initial_window,
            credit: 0,
            ssthresh: u32::MAX,
            recover: 0,
            dup: 0,
            phase: Phase::Closed,
            special: if tcp.recovery == Recovery::NewReno { 0 } else { SELECTIVE } | if tcp.pacing { PACED } else { 0 },
            restarted: false,
            timeouts: 0,
            timer_at: NEVER,
            timed_at: 0,
            srtt: 0,
            rttvar: 0,
            rto: tcp.rto_initial,
            deadline: NEVER,
            timed: UNTIMED,
            repeats: 0,
            alpha: 1 << ALPHA_BITS,
            observed: 0,
            seen: 0,
            marked: 0,
            cut: 0,
            increase: if tcp.congestion == Congestion::Cubic { BY_CUBIC } else { 0 },
            more: tcp.needs_more().then(Box::default),
        }
    }

    /// Opens the connection.
    pub fn open(&mut self, now: u64) {
        self.phase = Phase::SynSent;
        self.special |= RESEND;
        self.start_timing(0, now);
    }

    /// The other end has answered the SYN.
    pub fn on_syn_ack(&mut self, tcp: &Tcp, now: u64) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.phase = Phase::Open;
        self.special &= !RESEND;
        self.deadline = NEVER;
        if self.timed != UNTIMED {
            self.sample(tcp, now - self.timed_at);
            self.timed = UNTIMED;
        } else {
            // The SYN was sent twice, so nothing is known of the path: RFC 5681 section 3.1, RFC 6298 section 5.7.
            self.cwnd = 1;
            self.rto = tcp.rto_initial.saturating_mul(3).min(tcp.rto_max);
            self.timeouts = 0;
        }
    }

    /// All segments below `number` have arrived; `marked` echoes a congestion mark.
    #[inline]
    pub fn on_ack(&mut self, tcp: &Tcp, now: u64, number: u32, marked: bool) {
        if matches!(self.phase, Phase::Closed | Phase::SynSent) {
            return;
        }
        if number > self.una {
            let acked = number - self.una;
            let fills = self.fills_window(self.flight());
            self.una = number;
            self.nxt = self.nxt.max(number);
            // Nothing is above `UNTIMED`.
            if number > self.timed {
                self.timed = UNTIMED;
                self.sample(tcp, now - self.timed_at);
            }
            if self.timeouts > 0 {
                // DEVIATION: RFC 6298 section 5 keeps the back-off until a round trip has been measured, which nothing sent twice can be.
                // With timestamps, as hosts have them (RFC 7323), every acknowledgement of new data measures one, and so ends it.
                self.timeouts = 0;
                self.set_rto(tcp);
            }
            if tcp.congestion == Congestion::Dctcp {
                self.observe(acked, marked);
            }
            if marked && number > self.cut && self.phase == Phase::Open {
                self.cut_down(tcp);
            }
            // An acknowledgement that echoes a mark lets nothing grow (RFC 3168 section 6.1.2).
            let grows = !marked && fills && self.cwnd < tcp.max_window;
            self.advance(acked, number, now, grows);
        } else if number == self.una && self.una < self.high && self.una < self.nxt {
            self.duplicate(now);
        }
    }

    /// New data was acknowledged.
    #[inline]
    fn advance(&mut self, acked: u32, number: u32, now: u64, grows: bool) {
        match self.phase {
            Phase::Recovery if number >= self.recover => {
                // RFC 6582 section 3.2, step 3, full acknowledgement, option 1: no burst.
                self.cwnd = self.ssthresh.min((self.high - self.una).max(1) + 1);
                self.phase = Phase::Open;
                self.special &= !RESEND;
                self.dup = 0;
                self.restart(now);
            }
            Phase::Recovery => {
                // Partial: the next hole is lost too; deflate by what left the network.
                self.special |= RESEND;
                self.cwnd = self.cwnd.saturating_sub(acked).saturating_add(1).max(1);
                if !self.restarted {
                    self.restarted = true;
                    self.restart(now);
                }
            }
            phase => {
                // What is sent again after a timeout may have arrived before: until more than `recover` is acknowledged, duplicate
                // acknowledgements carry no information (RFC 6582 section 3.2, step 1).
                if phase == Phase::Open || number > self.recover {
                    self.phase = Phase::Open;
                }
                self.dup = 0;
                if grows {
                    self.grow(acked, now);
                }
                self.restart(now);
            }
        }
        if self.una == self.high {
            self.deadline = NEVER;
        }
    }

    /// A duplicate acknowledgement.
    #[inline]
    fn duplicate(&mut self, now: u64) {
        self.dup += 1;
        if self.phase == Phase::Recovery {
            self.cwnd = self.cwnd.saturating_add(1);
        } else if self.dup == DUPLICATES && self.phase == Phase::Open {
            // DEVIATION: RFC 6582 section 3.2 wants more than `recover` acknowledged after a fast recovery too. There nothing but holes is
            // sent again, so that duplicates at `recover` itself are a loss; the rule as it stands would wait for the timeout.
            self.ssthresh = self.reduced(self.flight());
            self.recover = self.high;
            self.cwnd = self.ssthresh + DUPLICATES;
            self.phase = Phase::Recovery;
            self.restarted = false;
            self.special |= RESEND;
            self.restart(now);
        }
    }

    fn more(&mut self) -> &mut More {
        self.more.as_deref_mut().expect("a sender that needs more has it")
    }

    /// The deadline has passed. Returns whether it had: else the engine looks again later.
    pub fn on_timer(&mut self, tcp: &Tcp, now: u64) -> bool {
        if self.deadline > now {
            return false;
        }
        let selective = self.special & SELECTIVE != 0 && self.phase > Phase::SynSent;
        if selective && !self.selective_timer(tcp, now) {
            return true;
        }
        self.timed = UNTIMED;
        if self.timeouts >= GIVE_UP && self.rto >= tcp.rto_max {
            self.phase = Phase::Closed;
            self.special &= !RESEND;
            self.deadline = NEVER;
            return true;
        }
        if self.phase == Phase::SynSent {
            self.special |= RESEND;
        } else {
            // RFC 5681 section 3.1: not again for a segment that the timer has sent again already.
            if self.timeouts == 0 {
                if selective {
                    self.suspect_timeout();
                }
                // With SACK, what has been sent since a hole is more than what is in the network: the window bounds that.
                let flight = if selective { self.flight().min(self.cwnd) } else { self.flight() };
                self.ssthresh = self.reduced(flight);
                if let Some(more) = &mut self.more {
                    more.cubic.on_timeout();
                }
            }
            self.recover = self.high;
            self.cwnd = 1;
            self.credit = 0;
            self.phase = Phase::Loss;
            self.dup = 0;
            if selective {
                self.lose_on_timeout(tcp, now);
            } else {
                self.nxt = self.una;
                self.special &= !RESEND;
            }
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.rto = (self.rto * 2).min(tcp.rto_max);
        self.restart(now);
        if selective {
            self.selective_timeout_began();
        }
        true
    }

    /// Whether the retransmission timer has run out.
    pub fn has_timed_out(&self, now: u64) -> bool {
        match &self.more {
            Some(more) if self.special & SELECTIVE != 0 && self.phase > Phase::SynSent => more.selective.has_timed_out(now),
            _ => self.deadline <= now,
        }
    }

    /// Whether there is a segment to send now.
    #[inline]
    pub fn may_send(&mut self, tcp: &Tcp) -> bool {
        if self.special != 0 { self.may_send_special(tcp) } else { self.has_room(tcp) }
    }

    #[inline(never)]
    fn may_send_special(&mut self, tcp: &Tcp) -> bool {
        if self.phase <= Phase::SynSent {
            return self.special & RESEND != 0;
        }
        if self.special & PACED != 0 && self.more().pace.is_announced() {
            return false;
        }
        match self.special & SELECTIVE != 0 {
            true => self.pick(tcp).is_some(),
            false => self.special & RESEND != 0 || self.has_room(tcp),
        }
    }

    /// The next segment to send now.
    #[inline]
    pub fn poll(&mut self, tcp: &Tcp, now: u64) -> Option<Segment> {
        if self.special != 0 {
            return self.poll_special(tcp, now);
        }
        if self.has_room(tcp) { Some(self.next_segment(now)) } else { None }
    }

    /// Whether the window has room for a segment that there is.
    #[inline]
    fn has_room(&self, tcp: &Tcp) -> bool {
        self.nxt < self.end && self.nxt - self.una < self.cwnd.min(tcp.max_window) && self.phase > Phase::SynSent
    }

    /// Sends the segment at `nxt`.
    #[inline]
    fn next_segment(&mut self, now: u64) -> Segment {
        let number = self.nxt;
        let repeat = number < self.high;
        self.nxt += 1;
        if repeat {
            self.repeats += 1;
        } else {
            self.high = self.nxt;
            if self.timed == UNTIMED {
                self.start_timing(number, now);
            }
        }
        self.start(now);
        Segment::Data { number, repeat }
    }

    #[inline(never)]
    fn poll_special(&mut self, tcp: &Tcp, now: u64) -> Option<Segment> {
        if self.phase <= Phase::SynSent {
            return (self.special & RESEND != 0).then(|| self.send_again(now));
        }
        let selective = self.special & SELECTIVE != 0;
        let pick = if selective { Some(self.pick(tcp)?) } else { None };
        if pick.is_none() && self.special & RESEND == 0 && !self.has_room(tcp) {
            return None;
        }
        if self.special & PACED != 0 {
            match self.more().pace.turn(now) {
                Turn::Now => {}
                Turn::Later(at) => return Some(Segment::Later { at }),
                Turn::Announced => return None,
            }
        }
        let segment = match pick {
            Some(pick) => self.send_picked(tcp, now, pick),
            None if self.special & RESEND != 0 => self.send_again(now),
            None => self.next_segment(now),
        };
        if self.special & PACED != 0 {
            let (srtt, window, ssthresh) = (self.srtt, self.cwnd, self.ssthresh);
            self.more().pace.leaves(now, srtt, window, ssthresh);
        }
        Some(segment)
    }

    /// The time of [`Segment::Later`] has come.
    pub fn on_release(&mut self) {
        self.more().pace.on_time();
    }

    #[cold]
    fn send_again(&mut self, now: u64) -> Segment {
        self.special &= !RESEND;
        self.start(now);
        if self.phase == Phase::SynSent {
            return Segment::Syn;
        }
        self.repeats += 1;
        // Karn: what is sent twice times nothing.
        self.timed = UNTIMED;
        self.nxt = self.nxt.max(self.una + 1);
        Segment::Data { number: self.una, repeat: true }
    }

    /// Whether the window has room for a segment that there is not yet.
    pub fn is_hungry(&self, tcp: &Tcp) -> bool {
        let in_flight = match &self.more {
            // What is paced takes no more than it may send.
            Some(more) if self.special & PACED != 0 && more.pace.is_announced() => return false,
            Some(more) if self.special & SELECTIVE != 0 => more.selective.pipe(),
            _ => self.nxt - self.una,
        };
        self.phase >= Phase::Open && self.nxt == self.end && in_flight < self.cwnd && self.nxt - self.una < tcp.max_window
    }

    /// One segment more to send.
    pub fn feed(&mut self) {
        self.end += 1;
    }

    /// Takes back what was never sent: the segments under way stay.
    pub fn outstanding(&self) -> std::ops::Range<u32> {
        self.una..self.high
    }

    /// Whether it is the last segment of the flow.
    #[inline]
    pub fn is_last(&self, number: u32) -> bool {
        number + 1 == self.end
    }

    #[inline]
    fn flight(&self) -> u32 {
        self.nxt - self.una
    }

    /// When [`Sender::on_timer`] is due; [`NEVER`] if nothing is under way.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// The timeout, in picoseconds.
    pub fn rto(&self) -> u64 {
        self.rto
    }

    /// How long the retransmission timer has run, in picoseconds, if the answer is overdue: what the connection has waited for a timeout
    /// that has not come yet. 0 while an acknowledgement may still be on its way.
    pub fn overdue(&self, now: u64) -> u64 {
        let due = match &self.more {
            Some(more) if self.special & SELECTIVE != 0 && self.phase > Phase::SynSent => more.selective.rto_at(),
            _ => self.deadline,
        };
        let running = if due == NEVER { 0 } else { self.rto.saturating_sub(due.saturating_sub(now)) };
        // Before the first measurement the timeout itself is a guess.
        let expected = if self.srtt == 0 { self.rto / UNMEASURED } else { self.srtt + 4 * self.rttvar };
        if running > expected { running } else { 0 }
    }

    /// Congestion window in segments.
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    /// Smoothed round-trip time in picoseconds, 0 before the first sample.
    pub fn srtt(&self) -> u64 {
        self.srtt
    }

    /// Whether the connection has begun and something is left to send or to be acknowledged.
    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::Closed && (self.una < self.end || self.phase == Phase::SynSent)
    }
}

/// Duplicate acknowledgements that indicate a loss.
const DUPLICATES: u32 = 3;
/// A connection is given up after so many timeouts in a row, as in Linux, and not before the longest: that takes minutes (RFC 1122
/// section 4.2.3.5), and lets a run end in which a host cannot be reached.
const GIVE_UP: u8 = 15;
const ALPHA_BITS: u32 = 20;
/// An answer that has not come within this part of the first timeout is overdue.
const UNMEASURED: u64 = 10;
/// The increase is CUBIC's.
const BY_CUBIC: u32 = u32::MAX;
/// No round trip is being timed.
const UNTIMED: u32 = u32::MAX;
/// The SYN, or the first segment that is missing, goes out whatever the window.
const RESEND: u8 = 1;
/// Losses are recovered with SACK ([`selective`]).
const SELECTIVE: u8 = 2;
/// Segments wait for their turn ([`pace`]).
const PACED: u8 = 4;
/// A tail loss probe goes out whatever the window ([`rack`]).
const PROBE: u8 = 8;

const _: () = assert!(size_of::<Sender>() == 128, "two cache lines");
