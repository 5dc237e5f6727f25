//! Both ends over a pipe of constant delay that loses, marks and reorders at random: whatever happens, all arrives, and the sender always
//! has a timer when something is under way. And one that loses a fixed fraction: there the models of the literature give the throughput.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::super::receiver::Receiver;
use super::*;

/// What happens in the pipe; what is sent carries its number, and whether it is marked or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Syn,
    SynAck,
    Data(u32, bool, bool),
    Ack(u32, bool, Blocks),
    SenderTimer,
    Release,
    ReceiverTimer,
}

struct Pipe {
    tcp: Tcp,
    tx: Sender,
    rx: Receiver,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    count: u64,
    /// What becomes of the next packets: lost, marked, or late.
    fates: std::vec::IntoIter<u8>,
    /// Of so many new segments one is lost; 0 for none.
    loses_one_in: u32,
    delay: u64,
    sent: u32,
}

impl Pipe {
    fn new(tcp: Tcp, end: u32, fates: Vec<u8>) -> Self {
        let (tx, rx) = (Sender::new(&tcp, end), Receiver::new());
        Self {
            tcp,
            tx,
            rx,
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            fates: fates.into_iter(),
            loses_one_in: 0,
            delay: DELAY,
            sent: 0,
        }
    }

    fn at(&mut self, at: u64, what: Happens) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, what)));
    }

    fn packet(&mut self, what: Happens) {
        let fate = self.fates.next().unwrap_or(255);
        let late = if (80..90).contains(&fate) { 2 * self.delay } else { 0 };
        let what = match what {
            Happens::Data(number, _, repeat) => Happens::Data(number, (40..80).contains(&fate), repeat),
            other => other,
        };
        let doomed =
            matches!(what, Happens::Data(n, _, false) if self.loses_one_in > 0 && n % self.loses_one_in == self.loses_one_in - 1);
        if fate >= 40 && !doomed {
            self.at(self.now + self.delay + late, what);
        }
    }

    fn pump(&mut self) {
        while let Some(segment) = self.tx.poll(&self.tcp, self.now) {
            match segment {
                Segment::Syn => self.packet(Happens::Syn),
                Segment::Later { at } => self.at(at, Happens::Release),
                Segment::Data { number, repeat } => {
                    self.sent += 1;
                    self.packet(Happens::Data(number, false, repeat));
                }
            }
        }
        assert!(self.tx.window() > 0);
        assert_eq!(self.tx.deadline() == NEVER, self.tx.outstanding().is_empty() && self.sent > 0);
        if self.tx.deadline() < self.tx.timer_at {
            self.tx.timer_at = self.tx.deadline();
            self.at(self.tx.timer_at, Happens::SenderTimer);
        }
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Syn => self.packet(Happens::SynAck),
            Happens::SynAck => {
                self.tx.on_syn_ack(&self.tcp, self.now);
                self.pump();
            }
            Happens::Data(number, marked, repeat) => {
                let duplicate = self.rx.has(number);
                let answer = self.rx.on_segment(&self.tcp, self.now, number, marked, repeat);
                let blocks = if self.tcp.has_sack() { self.rx.blocks(number, duplicate) } else { Blocks::default() };
                if let Some(early) = answer.early {
                    self.packet(Happens::Ack(early, !answer.marked, Blocks::default()));
                }
                match answer.ack {
                    Some(number) => self.packet(Happens::Ack(number, answer.marked, blocks)),
                    None => self.at(self.rx.due(), Happens::ReceiverTimer),
                }
            }
            Happens::Ack(number, marked, blocks) => {
                match self.tcp.has_sack() {
                    true => self.tx.on_sack(&self.tcp, self.now, number, marked, &blocks),
                    false => self.tx.on_ack(&self.tcp, self.now, number, marked),
                }
                self.pump();
            }
            Happens::Release => {
                self.tx.on_release();
                self.pump();
            }
            Happens::SenderTimer => {
                if self.tx.timer_at == self.now {
                    self.tx.timer_at = NEVER;
                    self.tx.on_timer(&self.tcp, self.now);
                    self.pump();
                }
            }
            Happens::ReceiverTimer => {
                if let Some((number, marked)) = self.rx.on_timer(self.now) {
                    self.packet(Happens::Ack(number, marked, Blocks::default()));
                }
            }
        }
    }

    /// Runs until nothing happens any more; when the last segment was in order.
    fn run(&mut self, end: u32) -> u64 {
        self.tx.open(0);
        self.pump();
        let mut ended = 0;
        while let Some(Reverse((at, _, what))) = self.events.pop() {
            self.now = at;
            self.happen(what);
            assert!(self.rx.next() <= self.tx.outstanding().end && self.tx.outstanding().start <= self.rx.next());
            ended = if self.rx.next() == end && ended == 0 { at } else { ended };
        }
        ended
    }
}

proptest! {
    #[test]
    fn all_arrives_whatever_is_lost(
        end in 1u32..200,
        fates in prop_oneof![prop::collection::vec(0u8.., 0..400), prop::collection::vec(30u8.., 0..600)],
        congestion in prop::sample::select(vec![Congestion::NewReno, Congestion::Dctcp, Congestion::Linked, Congestion::Cubic]),
        recovery in prop::sample::select(vec![Recovery::NewReno, Recovery::Sack, Recovery::Rack]),
        pacing in any::<bool>(),
        delayed in any::<bool>(),
        max_window in prop_oneof![Just(u32::MAX), 1u32..20],
    ) {
        let delayed_ack = delayed.then_some(40 * MS);
        let tcp = Tcp { congestion, recovery, pacing, delayed_ack, max_window, ecn: true, ..Tcp::default() };
        let mut pipe = Pipe::new(tcp, end, fates);
        pipe.run(end);
        prop_assert_eq!(pipe.rx.next(), end);
        prop_assert_eq!(pipe.tx.outstanding(), end..end);
        prop_assert!(!pipe.tx.is_under_way());
        prop_assert_eq!(pipe.sent, end + pipe.tx.repeats);
        prop_assert_eq!(pipe.tx.deadline(), NEVER);
    }

    #[test]
    fn one_loss_among_many_costs_no_timeout(end in 30u32..200, lost in 11usize..100) {
        // From the SYN on, packets both ways; what follows a loss makes duplicates unless it is near the end.
        let mut fates = vec![255; lost];
        fates.push(0);
        let mut pipe = Pipe::new(Tcp::default(), end, fates);
        let ended = pipe.run(end);
        let repeats = pipe.tx.repeats;
        prop_assert!(repeats <= 1 || ended > 200 * MS);
        if pipe.sent > end && ended < 200 * MS {
            prop_assert_eq!(repeats, 1);
        }
    }
}

#[test]
fn without_losses_the_time_is_that_of_the_rounds() {
    // 10 + 20 + 40 + 30 segments: SYN and its answer, then 3 round trips, then one way.
    let mut pipe = Pipe::new(Tcp::default(), 100, vec![]);
    assert_eq!(pipe.run(100), 2 * DELAY + 3 * 2 * DELAY + DELAY);
    assert_eq!((pipe.sent, pipe.tx.repeats), (100, 0));
}

#[test]
fn the_timer_of_the_syn_does_not_hold_up_that_of_the_data() {
    // Packets: SYN, its answer, then ten segments that are all lost. The SYN's timer would look at 1 s only.
    let mut fates = vec![255, 255];
    fates.extend([0; 10]);
    let mut pipe = Pipe::new(Tcp::default(), 10, fates);
    let ended = pipe.run(10);
    // Segment 0 again after 200 ms; 1 and 2 a round trip later, then 3 to 6, 7 to 9 in congestion avoidance: windows 1, 2, 4, 5.
    assert_eq!(ended, 2 * DELAY + 200 * MS + 3 * 2 * DELAY + DELAY);
}

/// The mean window in segments where one segment in so many is lost, over a round trip of 100 ms.
fn mean_window(congestion: Congestion, recovery: Recovery, loses_one_in: u32) -> f64 {
    let rounds = |segments| {
        let mut pipe = Pipe::new(Tcp { congestion, recovery, ..Tcp::default() }, segments, vec![]);
        (pipe.loses_one_in, pipe.delay) = (loses_one_in, 50 * MS);
        pipe.run(segments) as f64 / (100 * MS) as f64
    };
    // Without the first losses, before which the window is that of slow start.
    f64::from(20 * loses_one_in) / (rounds(32 * loses_one_in) - rounds(12 * loses_one_in))
}

#[test]
fn reno_has_the_throughput_of_mathis() {
    for one_in in [300, 3_000, 30_000] {
        // Mathis et al. 1997, each segment acknowledged: sqrt(3 / 2p), over half a window of round trips from one loss to the next. They
        // leave out the round trip of the recovery.
        let rounds = (8.0 / 3.0 * f64::from(one_in)).sqrt() / 2.0;
        let model = (1.5 * f64::from(one_in)).sqrt() * rounds / (rounds + 1.0);
        for recovery in [Recovery::Sack, Recovery::Rack] {
            let ratio = mean_window(Congestion::NewReno, recovery, one_in) / model;
            assert!((0.98..1.02).contains(&ratio), "{recovery:?}, one in {one_in}: {ratio}");
        }
    }
}

#[test]
fn cubic_has_the_throughput_of_its_rfc() {
    // RFC 9438 section 5.1: the fourth root of C (3 + beta) / (4 (1 - beta)), times (RTT / p)^(3/4), for periodic losses at the plateau.
    // Fast convergence leaves it in every second period, which costs some percent.
    for one_in in [10_000, 30_000, 100_000] {
        let model = (0.4f64 * 3.7 / 1.2).powf(0.25) * (0.1 * f64::from(one_in)).powf(0.75);
        for recovery in [Recovery::Sack, Recovery::Rack] {
            let ratio = mean_window(Congestion::Cubic, recovery, one_in) / model;
            assert!((0.9..1.1).contains(&ratio), "{recovery:?}, one in {one_in}: {ratio}");
            println!("{recovery:?}, one in {one_in}: {ratio}");
        }
    }
}

const DELAY: u64 = MS;
