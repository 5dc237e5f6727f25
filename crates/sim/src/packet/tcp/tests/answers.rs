//! What receivers answer, and what marks do.

use super::super::receiver::{Answer, Receiver};
use super::*;
use crate::packet::multipath::linked_increase;

fn delaying() -> Tcp {
    Tcp { delayed_ack: Some(40 * MS), ..Tcp::default() }
}

/// A receiver that has got these segments, one every millisecond, `true` for marked ones: what it answered.
fn answers(tcp: &Tcp, segments: &[(u32, bool)]) -> (Receiver, Vec<(u32, bool)>) {
    let mut rx = Receiver::new();
    let mut acks = vec![];
    for (i, &(number, marked)) in segments.iter().enumerate() {
        let Answer { early, ack, marked, .. } = rx.on_segment(tcp, i as u64 * MS, number, marked, false);
        acks.extend(early.map(|n| (n, !marked)));
        acks.extend(ack.map(|n| (n, marked)));
    }
    (rx, acks)
}

fn acks(tcp: &Tcp, segments: &[u32]) -> Vec<u32> {
    let segments: Vec<_> = segments.iter().map(|&n| (n, false)).collect();
    answers(tcp, &segments).1.iter().map(|a| a.0).collect()
}

#[test]
fn every_segment_is_acknowledged_cumulatively() {
    assert_eq!(acks(&Tcp::default(), &[0, 1, 3, 5, 4, 2, 2, 0, 6]), [1, 2, 2, 2, 2, 6, 6, 6, 7]);
}

#[test]
fn islands_join_in_any_order() {
    let tcp = Tcp::default();
    for order in [[1, 2, 3, 4, 5, 0], [5, 4, 3, 2, 1, 0], [3, 1, 5, 2, 4, 0], [1, 3, 5, 4, 2, 0], [5, 3, 3, 4, 1, 2]] {
        let (mut rx, _) = answers(&tcp, &order.map(|n| (n, false)));
        rx.on_segment(&tcp, 0, 0, false, false);
        assert_eq!(rx.next(), 6, "{order:?}");
    }
}

#[test]
fn delayed_every_second_segment_is_acknowledged() {
    assert_eq!(acks(&delaying(), &[0, 1, 2, 3, 4]), [2, 4]);
}

#[test]
fn a_delayed_acknowledgement_waits_so_long() {
    let (mut rx, acks) = answers(&delaying(), &[(0, false)]);
    assert_eq!((acks, rx.due()), (vec![], 40 * MS));
    assert_eq!(rx.on_timer(40 * MS - 1), None);
    assert_eq!(rx.on_timer(40 * MS), Some((1, false)));
    assert_eq!((rx.due(), rx.on_timer(80 * MS)), (NEVER, None));
}

#[test]
fn out_of_order_or_filling_a_hole_a_segment_is_acknowledged_at_once() {
    // 3 and 4 beyond a hole; 2 fills it; 5 waits, 6 is the second; 6 again is a duplicate.
    assert_eq!(acks(&delaying(), &[0, 1, 3, 4, 2, 5, 6, 6]), [2, 2, 2, 5, 7, 7]);
    // A hole after one that waits: acknowledged with it.
    assert_eq!(acks(&delaying(), &[0, 2]), [1]);
    // Filling a part of a hole.
    assert_eq!(acks(&delaying(), &[2, 0, 1]), [0, 1, 3]);
}

#[test]
fn every_acknowledgement_echoes_the_mark_of_its_segment() {
    let segments = [(0, false), (1, true), (3, true), (2, false)];
    assert_eq!(answers(&Tcp::default(), &segments).1, [(1, false), (2, true), (2, true), (4, false)]);
}

#[test]
fn a_change_of_the_mark_sends_the_delayed_acknowledgement_first() {
    // RFC 8257 section 3.2: each run of equal marks is acknowledged with its own mark.
    let run = |marks: &[bool]| {
        let segments: Vec<_> = (0..).zip(marks.iter().copied()).collect();
        let (mut rx, mut acks) = answers(&delaying(), &segments);
        acks.extend(rx.on_timer(u64::MAX - 1));
        acks
    };
    assert_eq!(run(&[false, true, true, false]), [(1, false), (3, true), (4, false)]);
    assert_eq!(run(&[true, true, true]), [(2, true), (3, true)]);
    // Marks that alternate are echoed one by one.
    assert_eq!(run(&[false, true, false, true]), [(1, false), (2, true), (3, false), (4, true)]);
    // With a hole behind: the waiting one, and the duplicate.
    assert_eq!(answers(&delaying(), &[(0, false), (2, true)]).1, [(1, false), (1, true)]);
}

fn marking(congestion: Congestion, window: u32) -> Script {
    let tcp = Tcp { congestion, ecn: true, initial_window: window, ..Tcp::default() };
    let mut s = Script::new(tcp, u32::MAX, MS);
    assert_eq!(s.send(), range(0, window));
    s
}

#[test]
fn a_mark_halves_the_window_once_a_window_of_data() {
    let mut s = marking(Congestion::NewReno, 20);
    s.marked_ack(1);
    assert_eq!(s.tx.window(), 10, "at the first mark");
    for n in 2..=20 {
        s.marked_ack(n);
        assert_eq!(s.tx.window(), 10);
    }
    // All that was sent before is acknowledged: the next mark is new.
    s.marked_ack(21);
    assert_eq!(s.tx.window(), 5);
}

#[test]
fn nothing_grows_on_an_echo() {
    let mut s = marking(Congestion::NewReno, 20);
    s.marked_ack(1);
    for n in 2..=20 {
        s.ack(n);
    }
    // 19 acknowledgements without a mark: one more after 10.
    assert_eq!(s.tx.window(), 11);
}

#[test]
fn the_window_of_marked_segments_has_a_floor() {
    let mut s = marking(Congestion::NewReno, 2);
    for n in 1..=10 {
        s.marked_ack(n);
        assert_eq!(s.tx.window(), 2);
    }
}

/// Acknowledges windows of data, of each the given part at its end marked; the congestion windows after each.
fn dctcp_windows(s: &mut Script, rounds: &[f64]) -> Vec<u32> {
    let mut acked = 0;
    rounds
        .iter()
        .map(|part| {
            let (end, from) = (s.tx.outstanding().end, acked);
            let clean = from + (f64::from(end - from) * (1.0 - part)).round() as u32;
            while acked < end {
                acked += 1;
                if acked > clean {
                    s.marked_ack(acked)
                } else {
                    s.ack(acked)
                };
            }
            s.tx.window()
        })
        .collect()
}

#[test]
fn dctcp_without_marks_is_slow_start_and_its_alpha_decays() {
    let mut s = marking(Congestion::Dctcp, 10);
    assert_eq!(dctcp_windows(&mut s, &[0.0, 0.0]), [20, 40]);
    // alpha was 1; the first acknowledgement ended an empty window, the eleventh that of the first ten.
    let expected = (15.0f64 / 16.0).powi(2);
    assert!((s.tx.alpha() - expected).abs() < 1e-4, "{} {expected}", s.tx.alpha());
}

#[test]
fn dctcp_shrinks_by_half_of_the_marked_part() {
    let mut s = marking(Congestion::Dctcp, 100);
    // All marked: alpha stays 1, the window halves once a round.
    assert_eq!(dctcp_windows(&mut s, &[1.0, 1.0]), [50, 25]);
    assert!((s.tx.alpha() - 1.0).abs() < 1e-4);
}

#[test]
fn dctcps_alpha_goes_to_the_marked_part() {
    let mut s = marking(Congestion::Dctcp, 1000);
    dctcp_windows(&mut s, &[0.2; 100]);
    // The window is small by then, so the parts are rounded.
    assert!((s.tx.alpha() - 0.2).abs() < 0.06, "{}", s.tx.alpha());
}

#[test]
fn dctcp_halves_on_a_loss() {
    let mut s = marking(Congestion::Dctcp, 20);
    assert_eq!(s.acks(0, 3), [0]);
    assert_eq!(s.tx.window(), 10 + 3);
}

/// A sender in congestion avoidance with this window and round trip.
fn subflow(window: u32, rtt: u64) -> Sender {
    let tcp = Tcp { initial_window: window, congestion: Congestion::Linked, ..Tcp::default() };
    Script::new(tcp, u32::MAX, rtt).tx
}

/// RFC 6356 section 3 as it is written: alpha, and the increase of one acknowledged segment in segments.
fn written_increase(subflows: &[(u32, u64)], i: usize) -> f64 {
    let total: f64 = subflows.iter().map(|s| f64::from(s.0)).sum();
    let best = subflows.iter().map(|s| f64::from(s.0) / (s.1 as f64).powi(2)).fold(0.0, f64::max);
    let sum: f64 = subflows.iter().map(|s| f64::from(s.0) / s.1 as f64).sum();
    let alpha = total * best / (sum * sum);
    (alpha / total).min(1.0 / f64::from(subflows[i].0))
}

#[test]
fn the_linked_increase_is_that_of_the_rfc() {
    for set in [vec![(10, MS), (10, MS)], vec![(40, MS), (3, 7 * MS)], vec![(5, MS), (100, 3 * MS), (17, 2 * MS)], vec![(1, MS)]]
    {
        let senders: Vec<Sender> = set.iter().map(|&(w, rtt)| subflow(w, rtt)).collect();
        for (i, sender) in senders.iter().enumerate() {
            let increase = 1.0 / linked_increase(senders.iter(), sender.window());
            assert!((increase / written_increase(&set, i) - 1.0).abs() < 1e-12, "{set:?} {i}");
        }
    }
    // Two equal subflows: each a quarter of what it would alone, so that together they take half a segment a round trip.
    let pair = [subflow(10, MS), subflow(10, MS)];
    assert_eq!(linked_increase(pair.iter(), 10), 40.0);
}

#[test]
fn a_linked_sender_grows_by_its_part() {
    let tcp = Tcp { initial_window: 10, congestion: Congestion::Linked, ..Tcp::default() };
    let mut s = Script::new(tcp, u32::MAX, 100 * MS);
    s.send();
    s.acks(0, 9);
    s.ack(10);
    assert_eq!(s.tx.window(), 5);
    s.tx.set_increase(12.5);
    for n in 11..=22 {
        s.ack(n);
    }
    assert_eq!(s.tx.window(), 5);
    s.ack(23);
    assert_eq!(s.tx.window(), 6);
    for n in 24..=35 {
        s.ack(n);
    }
    assert_eq!(s.tx.window(), 7, "25 acknowledgements are two increases");
}
