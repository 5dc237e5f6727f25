//! Recovery with selective acknowledgements (RFC 6675), and with RACK-TLP's rules in the place of its own for what is lost (RFC 8985).
//!
//! The window bounds what is in the network ([`Scoreboard::pipe`]), not what has been sent since the first hole.

use super::super::blocks::Blocks;
use super::frto::Suspicion;
use super::rack::{Context, Rack};
use super::scoreboard::{Original, Scoreboard};
use super::*;

/// What a sender with SACK knows besides its window.
#[derive(Clone, Debug)]
pub(super) struct Selective {
    board: Scoreboard,
    rack: Rack,
    /// Retransmission timeout, RACK's timer and that of the probe; [`Sender::deadline`] is the first of them.
    rto_at: u64,
    reorder_at: u64,
    probe_at: u64,
    /// The one segment per recovery of rule 4 of NextSeg was sent.
    rescued: bool,
    /// The last timeout may be spurious.
    pub suspicion: Option<Suspicion>,
}

impl Default for Selective {
    fn default() -> Self {
        let (board, rack) = (Scoreboard::default(), Rack::default());
        Self { board, rack, rto_at: NEVER, reorder_at: NEVER, probe_at: NEVER, rescued: false, suspicion: None }
    }
}

impl Selective {
    pub fn pipe(&self) -> u32 {
        self.board.pipe()
    }

    pub fn has_timed_out(&self, now: u64) -> bool {
        self.rto_at <= now
    }

    /// When the retransmission timer runs out.
    pub fn rto_at(&self) -> u64 {
        self.rto_at
    }

    /// A timeout was spurious, as `original` shows: nothing is lost by it. The first segment under way is `una`.
    pub fn forgive(&mut self, una: u32, now: u64, original: Original) {
        self.board.forgive();
        self.rack.forgive(una, now, original);
    }

    fn first_timer(&self) -> u64 {
        self.rto_at.min(self.reorder_at).min(self.probe_at)
    }
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The next segment that was never sent.
    New,
    /// This one once more.
    Again(u32),
    /// The same, which counts as sent once.
    Rescue(u32),
}

impl Sender {
    /// All segments below `number` have arrived, and those of the blocks; `marked` echoes a congestion mark.
    pub fn on_sack(&mut self, tcp: &Tcp, now: u64, number: u32, marked: bool, blocks: &Blocks) {
        if self.phase <= Phase::SynSent {
            return;
        }
        let acked = number.saturating_sub(self.una);
        let in_flight = self.selective().board.pipe();
        let fills = self.fills_window(in_flight);
        let original = self.hear(tcp, now, number, blocks);
        if acked > 0 {
            self.una = number;
            if self.timeouts > 0 {
                self.timeouts = 0;
                self.set_rto(tcp);
            }
            if tcp.congestion == Congestion::Dctcp {
                self.observe(acked, marked);
            }
        }
        if marked && number > self.cut && self.phase == Phase::Open {
            self.cut_down(tcp);
        }
        let undone = self.phase == Phase::Loss && self.judge_timeout(tcp, now, acked > 0, original);
        if tcp.recovery == Recovery::Rack {
            self.hear_probe(number, acked == 0 && blocks.is_empty(), blocks);
        }
        self.find_losses(tcp, now);
        let before = self.phase;
        if before > Phase::Open && acked > 0 && number >= self.recover {
            self.phase = Phase::Open;
            self.selective().rack.on_recovered();
        }
        if acked > 0 && before != Phase::Recovery && !undone && !marked && fills && self.cwnd < tcp.max_window {
            self.grow(acked, now);
        }
        if self.phase == Phase::Open && self.selective().board.has_waiting() {
            self.recover_losses(now);
        }
        if acked > 0 {
            let rto_at = if self.una == self.high { NEVER } else { now.saturating_add(self.rto) };
            self.selective().rto_at = rto_at;
        }
        self.set_timers(tcp, now, acked > 0);
    }

    pub(super) fn selective(&mut self) -> &mut Selective {
        &mut self.more().selective
    }

    /// Enters on the scoreboard what has arrived, and measures the round trip of the segment that is timed. Returns the last of those segments that was sent
    /// once, before the last timeout.
    fn hear(&mut self, tcp: &Tcp, now: u64, number: u32, blocks: &Blocks) -> Option<Original> {
        let (timed, recover, by_time) = (self.timed, self.recover, tcp.recovery == Recovery::Rack);
        let (mut sampled, mut original) = (None, None);
        let Selective { board, rack, .. } = self.selective();
        let mut arrived = |n: u32, segment: scoreboard::Sent| {
            if n == timed {
                sampled = Some(segment);
            }
            if n < recover && !segment.repeated {
                original = Some(Original { number: n, at: segment.at });
            }
            if by_time {
                rack.hear(n, segment);
            }
        };
        board.acknowledge(number, &mut arrived);
        for &block in blocks.as_slice() {
            board.sack(block, &mut arrived);
        }
        if by_time {
            rack.update(now);
        }
        if let Some(segment) = sampled {
            self.timed = UNTIMED;
            if !segment.repeated {
                self.sample(tcp, now - self.timed_at);
            }
        }
        original
    }

    /// What an acknowledgement says of the tail loss probe, and of segments that were sent again without need.
    fn hear_probe(&mut self, number: u32, repeats: bool, blocks: &Blocks) {
        let (una, nxt, cwnd) = (self.una, self.nxt, self.cwnd);
        let duplicate = blocks.has_duplicate(number).then(|| blocks.as_slice()[0].1);
        let rack = &mut self.selective().rack;
        if duplicate.is_some() {
            rack.on_duplicate(una, nxt);
        }
        if rack.probe_answered(number, duplicate, repeats) && self.phase == Phase::Open {
            self.ssthresh = self.reduced(cwnd);
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
    }

    fn context(&self, now: u64) -> Context {
        Context { now, una: self.una, nxt: self.nxt, srtt: self.srtt, recovering: self.phase > Phase::Open }
    }

    /// Declares segments lost.
    fn find_losses(&mut self, tcp: &Tcp, now: u64) {
        let context = self.context(now);
        let Selective { board, rack, reorder_at, .. } = self.selective();
        match tcp.recovery {
            Recovery::Rack => *reorder_at = rack.lose(board, context),
            _ => board.lose_overtaken(),
        }
    }

    /// Begins a fast recovery (RFC 6675 section 5, step 4).
    fn recover_losses(&mut self, now: u64) {
        // Without what limited transmit has sent beyond the window.
        self.ssthresh = self.reduced((self.high - self.una).min(self.cwnd));
        self.cwnd = self.ssthresh;
        self.recover = self.high;
        self.phase = Phase::Recovery;
        self.special = self.special & !PROBE | RESEND;
        let rto_at = now.saturating_add(self.rto);
        let selective = self.selective();
        selective.rescued = false;
        selective.rto_at = rto_at;
        selective.rack.probe = None;
    }

    /// A timer has run out; returns whether it is the retransmission timeout.
    pub(super) fn selective_timer(&mut self, tcp: &Tcp, now: u64) -> bool {
        let rto = now.saturating_add(self.rto);
        let Selective { reorder_at, probe_at, rto_at, .. } = self.selective();
        let (reorders, probes) = (*reorder_at <= now, *probe_at <= now);
        if reorders {
            *reorder_at = NEVER;
        }
        if probes {
            *probe_at = NEVER;
            *rto_at = rto;
        }
        let timed_out = *rto_at <= now;
        if timed_out {
            return true;
        }
        if reorders {
            self.find_losses(tcp, now);
            if self.phase == Phase::Open && self.selective().board.has_waiting() {
                self.recover_losses(now);
            }
        }
        if probes {
            self.special |= PROBE;
        }
        self.deadline = self.selective().first_timer();
        false
    }

    /// After a timeout, all that has not arrived is lost; RACK spares what was sent a moment ago.
    pub(super) fn lose_on_timeout(&mut self, tcp: &Tcp, now: u64) {
        self.special = self.special & !PROBE | RESEND;
        let context = self.context(now);
        let Selective { board, rack, reorder_at, probe_at, .. } = self.selective();
        (*reorder_at, *probe_at) = (NEVER, NEVER);
        match tcp.recovery {
            Recovery::Rack => rack.on_timeout(board, context),
            _ => board.lose_all(),
        }
    }

    /// The timer runs for the timeout after this one.
    pub(super) fn selective_timeout_began(&mut self) {
        self.selective().rto_at = self.deadline;
    }

    /// The next segment to send (RFC 6675 section 4, NextSeg).
    pub(super) fn pick(&mut self, tcp: &Tcp) -> Option<Pick> {
        let Self { una, nxt, end, cwnd, phase, .. } = *self;
        let has_new = nxt < end && nxt - una < tcp.max_window;
        if self.special & (RESEND | PROBE) != 0
            && let Some(pick) = self.pick_beyond_window(has_new)
        {
            return Some(pick);
        }
        let Selective { board, rescued, suspicion, .. } = self.selective();
        if let Some(suspicion) = suspicion.as_ref().filter(|it| it.holds_back()) {
            return (has_new && suspicion.allows_new()).then_some(Pick::New);
        }
        if board.pipe() >= cwnd {
            return None;
        }
        if let Some(number) = board.next_waiting() {
            return Some(Pick::Again(number));
        }
        if has_new {
            return Some(Pick::New);
        }
        if phase != Phase::Recovery || tcp.recovery == Recovery::Rack {
            return None;
        }
        if let Some(number) = board.next_in_hole() {
            return Some(Pick::Again(number));
        }
        let rescue = board.highest_missing().filter(|_| !*rescued);
        rescue.map(Pick::Rescue)
    }

    /// What goes out whatever the window: the first lost segment of a recovery, and a probe.
    fn pick_beyond_window(&mut self, has_new: bool) -> Option<Pick> {
        if self.special & RESEND != 0 {
            if let Some(number) = self.selective().board.next_waiting() {
                return Some(Pick::Again(number));
            }
            self.special &= !RESEND;
        }
        if self.special & PROBE != 0 {
            if has_new {
                return Some(Pick::New);
            }
            // RFC 8985 section 7.3: the segment sent last in sequence.
            if self.una < self.nxt {
                return Some(Pick::Again(self.nxt - 1));
            }
            self.special &= !PROBE;
        }
        None
    }

    /// Sends what was picked.
    pub(super) fn send_picked(&mut self, tcp: &Tcp, now: u64, pick: Pick) -> Segment {
        let segment = match pick {
            Pick::New => {
                let segment = self.next_segment(now);
                let Selective { board, suspicion, .. } = self.selective();
                board.send_new(now);
                if let Some(suspicion) = suspicion {
                    suspicion.send_new();
                }
                segment
            }
            Pick::Again(number) => {
                let Selective { board, rack, .. } = self.selective();
                board.send_again(number, now);
                if tcp.recovery == Recovery::Rack {
                    rack.send_again(number, now);
                }
                self.repeats += 1;
                Segment::Data { number, repeat: true }
            }
            Pick::Rescue(number) => {
                let Selective { board, rescued, .. } = self.selective();
                board.send_rescue(number, now);
                *rescued = true;
                self.repeats += 1;
                Segment::Data { number, repeat: true }
            }
        };
        if self.special & RESEND != 0 {
            self.special &= !RESEND;
        } else if self.special & PROBE != 0 {
            self.special &= !PROBE;
            let probe = (self.nxt, pick != Pick::New);
            self.selective().rack.probe = Some(probe);
        }
        let rto = now.saturating_add(self.rto);
        let selective = self.selective();
        if selective.rto_at == NEVER {
            selective.rto_at = rto;
        }
        self.set_timers(tcp, now, pick == Pick::New);
        segment
    }

    /// Starts or `restarts` the probe's timer where there is use for it (RFC 8985 section 7.2), and the engine's at the first of all.
    fn set_timers(&mut self, tcp: &Tcp, now: u64, restarts: bool) {
        if tcp.recovery == Recovery::Rack {
            let flight = self.high - self.una;
            let is_open = self.phase == Phase::Open && flight > 0;
            let wait = match self.srtt {
                0 => PROBE_INITIAL,
                srtt => 2 * srtt + if flight == 1 { tcp.delayed_ack.unwrap_or(0) } else { 0 },
            };
            let Selective { board, rack, probe_at, rto_at, .. } = self.selective();
            if !is_open || board.has_sacked() || rack.probe.is_some() {
                *probe_at = NEVER;
            } else if restarts {
                *probe_at = now.saturating_add(wait).min(*rto_at);
            }
        }
        self.deadline = self.selective().first_timer();
    }
}

/// The time to a probe before the first round trip: 1 s.
const PROBE_INITIAL: u64 = 1_000_000_000_000;
