//! RFC 6675 on scripted losses; the blocks of RFC 2018 and 2883; the scoreboard and the receiver's blocks beside slow ones.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::receiver::Receiver;
use super::super::sender::scoreboard::{OVERTAKEN, Scoreboard};
use super::*;

fn script(window: u32, end: u32) -> Script {
    let tcp = Tcp { initial_window: window, recovery: Recovery::Sack, ..Tcp::default() };
    let mut s = Script::new(tcp, end, 100 * MS);
    assert_eq!(s.send(), range(0, window));
    s
}

#[test]
fn without_losses_it_is_newreno() {
    let mut s = script(10, u32::MAX);
    for n in 1..=10 {
        assert_eq!(s.sack(n, &[]), range(8 + 2 * n, 10 + 2 * n));
    }
    assert_eq!(s.sack(14, &[]), range(30, 35));
}

#[test]
fn a_recovery_keeps_half_a_window_in_the_network() {
    let mut s = script(10, u32::MAX);
    // Limited transmit (step 3.3), then the first segment whatever the pipe (step 4.3).
    assert_eq!((s.sack(0, &[(1, 2)]), s.sack(0, &[(1, 3)]), s.sack(0, &[(1, 4)])), (vec![10], vec![11], vec![0]));
    assert_eq!(s.tx.window(), 5, "half of what was under way without limited transmit");
    // Under way: those above the blocks, and 0 again: less than five from 9 on.
    assert!((5..9).all(|n| s.sack(0, &[(1, n)]).is_empty()));
    assert_eq!((s.sack(0, &[(1, 9)]), s.sack(0, &[(1, 10)])), (vec![12], vec![13]));
    assert_eq!((s.sack(0, &[(1, 11)]), s.sack(0, &[(1, 12)])), (vec![14], vec![15]));
    // It ends when all is acknowledged that was sent before it (step A).
    assert_eq!(s.sack(12, &[]), [16]);
    assert_eq!((s.tx.window(), s.tx.repeats), (5, 1));
    // Congestion avoidance.
    (13..18).for_each(|n| {
        s.sack(n, &[]);
    });
    assert_eq!(s.tx.window(), 6);
}

#[test]
fn all_losses_of_a_window_are_repaired_in_one_round_trip() {
    let mut s = script(10, u32::MAX);
    (2..=4).for_each(|n| {
        s.sack(0, &[(1, n)]);
    });
    // 5 is lost too: two beyond it are not enough, three are (IsLost), and it precedes new data (NextSeg, rules 1 and 2).
    assert!(s.sack(0, &[(1, 5)]).is_empty());
    assert!(s.sack(0, &[(6, 7), (1, 5)]).is_empty());
    assert!(s.sack(0, &[(6, 8), (1, 5)]).is_empty());
    assert_eq!(s.sack(0, &[(6, 9), (1, 5)]), [5]);
    assert_eq!(s.sack(0, &[(6, 10), (1, 5)]), [12]);
    // A partial acknowledgement sends nothing again.
    assert_eq!(s.sack(5, &[(6, 10)]), [13]);
    assert_eq!(s.tx.repeats, 2);
}

#[test]
fn many_blocks_at_once_show_as_many_losses() {
    // All acknowledgements but the last one are lost.
    let mut s = script(12, u32::MAX);
    assert_eq!(s.sack(0, &[(9, 12), (6, 8), (3, 5), (1, 2)])[..4], [0, 2, 5, 8]);
    assert_eq!(s.tx.window(), 6);
}

#[test]
fn without_new_data_what_is_not_lost_yet_goes_again_and_then_the_last_one_once() {
    let mut s = script(10, 10);
    assert_eq!(s.sack(0, &[(1, 4)]), [0]);
    assert!((5..7).all(|n| s.sack(0, &[(1, n)]).is_empty()));
    // Rule 4: one segment with the end of what is outstanding.
    assert_eq!(s.sack(0, &[(1, 7)]), [9]);
    assert!(s.sack(0, &[(1, 8)]).is_empty(), "once");
    // Rule 3: 8 is in a hole, though only one segment beyond it has arrived.
    assert_eq!(s.sack(0, &[(9, 10), (1, 8)]), [8]);
    assert!(s.sack(0, &[(9, 10), (1, 8)]).is_empty());
    assert!(s.sack(8, &[(9, 10)]).is_empty());
    s.sack(10, &[]);
    assert_eq!((s.tx.deadline(), s.tx.repeats), (NEVER, 3));
}

#[test]
fn duplicates_without_news_are_nothing() {
    let mut s = script(10, u32::MAX);
    for _ in 0..5 {
        assert!(s.sack(0, &[]).is_empty());
    }
    assert_eq!((s.sack(0, &[(4, 5)]), s.sack(0, &[(4, 5)]), s.sack(0, &[(4, 5)])), (vec![10], vec![], vec![]));
    assert_eq!(s.tx.repeats, 0);
}

#[test]
fn a_timeout_repeats_what_has_not_arrived_and_nothing_else() {
    let mut s = script(10, u32::MAX);
    // 0 is lost, then also what was sent again.
    assert_eq!(s.sack(0, &[(3, 8)]), [0, 1, 2]);
    assert_eq!(s.time_out(), [0]);
    assert_eq!(s.tx.window(), 1);
    assert_eq!(s.sack(1, &[(3, 8)]), [1, 2]);
    // Congestion avoidance from the half of the window of five that was in the network.
    assert_eq!(s.sack(2, &[(3, 8)]), [8]);
    // What was sent before the timeout has been sent again: new data.
    assert_eq!(s.sack(8, &[]), [9, 10]);
    assert_eq!(s.tx.window(), 3);
    assert_eq!(s.tx.repeats, 3 + 1 + 4);
}

#[test]
fn a_segment_is_timed_until_it_arrives_not_until_the_hole_before_it_is_closed() {
    let mut s = script(10, u32::MAX);
    s.now += 100 * MS;
    assert_eq!(s.sack(1, &[]), [10, 11]);
    s.now += 100 * MS;
    // 10 was timed.
    s.sack(1, &[(10, 11)]);
    assert_eq!(s.tx.srtt(), 100 * MS);
    s.now += 1000 * MS;
    s.sack(12, &[]);
    assert_eq!(s.tx.srtt(), 100 * MS);
}

#[test]
fn the_first_block_is_the_one_that_has_changed_and_a_duplicate_goes_before_it() {
    let tcp = Tcp { recovery: Recovery::Sack, ..Tcp::default() };
    let mut rx = Receiver::new();
    let mut arrive = |number| {
        let duplicate = rx.has(number);
        rx.on_segment(&tcp, 0, number, false, false);
        let blocks = rx.blocks(number, duplicate);
        assert_eq!(blocks.has_duplicate(rx.next()), duplicate);
        blocks.as_slice().to_vec()
    };
    assert_eq!(arrive(0), []);
    assert_eq!(arrive(2), [(2, 3)]);
    assert_eq!(arrive(4), [(4, 5), (2, 3)]);
    assert_eq!(arrive(6), [(6, 7), (4, 5), (2, 3)]);
    assert_eq!(arrive(8), [(8, 9), (6, 7), (4, 5), (2, 3)]);
    assert_eq!(arrive(10), [(10, 11), (8, 9), (6, 7), (4, 5)], "four at most");
    assert_eq!(arrive(3), [(2, 5), (10, 11), (8, 9), (6, 7)]);
    // RFC 2883: what had arrived, in order or beyond the hole.
    assert_eq!(arrive(8), [(8, 9), (8, 9), (2, 5), (10, 11)]);
    assert_eq!(arrive(0), [(0, 1), (8, 9), (2, 5), (10, 11)]);
    assert_eq!(arrive(1), [(8, 9), (10, 11), (6, 7)]);
}

/// What RFC 6675 defines, evaluated as it stands.
#[derive(Default)]
struct Slow {
    una: u32,
    high: u32,
    sacked: BTreeSet<u32>,
    high_rxt: u32,
}

impl Slow {
    fn missing(&self) -> impl Iterator<Item = u32> {
        (self.una..self.high).filter(|n| !self.sacked.contains(n))
    }

    fn is_lost(&self, number: u32) -> bool {
        self.sacked.range(number + 1..).count() >= OVERTAKEN as usize
    }

    fn pipe(&self) -> usize {
        self.missing().filter(|&n| !self.is_lost(n)).count() + self.missing().filter(|&n| n < self.high_rxt).count()
    }

    /// Rule 3 of NextSeg, or rule 1.
    fn next(&self, lost: bool) -> Option<u32> {
        let top = self.sacked.last().copied()?;
        self.missing().find(|&n| n >= self.high_rxt && n < top && (!lost || self.is_lost(n)))
    }
}

proptest! {
    #[test]
    fn the_scoreboard_is_what_the_rfc_defines(steps in prop::collection::vec((0u8..8, any::<prop::sample::Index>()), 1..300)) {
        let tcp = Tcp { recovery: Recovery::Sack, ..Tcp::default() };
        let (mut fast, mut slow, mut rx) = (Scoreboard::default(), Slow::default(), Receiver::new());
        for (step, index) in steps {
            match step {
                0..3 => {
                    fast.send_new(0);
                    slow.high += 1;
                }
                3..7 if slow.high > slow.una => {
                    // Any segment arrives; the acknowledgement may be lost.
                    let number = slow.una + index.index((slow.high - slow.una) as usize) as u32;
                    let duplicate = rx.has(number);
                    rx.on_segment(&tcp, 0, number, false, false);
                    let blocks = rx.blocks(number, duplicate);
                    if step < 6 {
                        slow.una = rx.next();
                        slow.sacked.extend(blocks.as_slice().iter().flat_map(|&(from, to)| from..to));
                        slow.sacked = slow.sacked.split_off(&slow.una);
                        slow.high_rxt = slow.high_rxt.max(slow.una);
                        let mut heard = 0;
                        fast.acknowledge(rx.next(), |_, _| heard += 1);
                        blocks.as_slice().iter().for_each(|&block| fast.sack(block, |_, _| heard += 1));
                        fast.lose_overtaken();
                    }
                }
                _ => {
                    if let Some(number) = slow.next(index.index(3) > 0) {
                        fast.send_again(number, 0);
                        slow.high_rxt = number + 1;
                    }
                }
            }
            prop_assert_eq!(fast.pipe() as usize, slow.pipe());
            prop_assert_eq!(fast.next_waiting(), slow.next(true));
            prop_assert_eq!(fast.next_in_hole(), slow.next(false));
            prop_assert_eq!(fast.highest_missing(), slow.missing().last());
        }
    }

    #[test]
    fn blocks_are_what_has_arrived_most_recently_reported_first(order in Just((0u32..40).collect::<Vec<_>>()).prop_shuffle()) {
        let tcp = Tcp { recovery: Recovery::Sack, ..Tcp::default() };
        let (mut rx, mut arrived) = (Receiver::new(), BTreeSet::new());
        let mut reported: Vec<u32> = vec![];
        for number in order {
            arrived.insert(number);
            rx.on_segment(&tcp, 0, number, false, false);
            let next = (0..).find(|n| !arrived.contains(n)).unwrap();
            prop_assert_eq!(rx.next(), next);
            reported.insert(0, number);
            let mut expected: Vec<(u32, u32)> = vec![];
            for &n in reported.iter().filter(|&&n| n >= next) {
                let from = (0..=n).rev().take_while(|n| arrived.contains(n)).last().unwrap();
                let to = (n..).find(|n| !arrived.contains(n)).unwrap();
                if !expected.contains(&(from, to)) {
                    expected.push((from, to));
                }
            }
            expected.truncate(4);
            let blocks = rx.blocks(number, false);
            prop_assert_eq!(blocks.as_slice(), expected);
        }
    }

    #[test]
    fn a_receiver_knows_what_has_arrived(order in prop::collection::vec(0u32..40, 1..160)) {
        let tcp = Tcp::default();
        let (mut rx, mut arrived) = (Receiver::new(), BTreeSet::new());
        for number in order {
            let before = rx.next();
            prop_assert_eq!(rx.has(number), arrived.contains(&number));
            arrived.insert(number);
            let answer = rx.on_segment(&tcp, 0, number, false, false);
            let next = (0..).find(|n| !arrived.contains(n)).unwrap();
            prop_assert_eq!((rx.next(), answer.fresh), (next, next - before));
            for n in 0..42 {
                prop_assert_eq!(rx.has(n), arrived.contains(&n), "{}", n);
            }
        }
    }
}
