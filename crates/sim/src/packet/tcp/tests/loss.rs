//! RFC 5681 and 6582.

use super::*;

#[test]
fn slow_start_sends_two_for_each_acknowledgement() {
    let mut s = Script::with_window(10);
    assert_eq!(s.send(), range(0, 10));
    for n in 1..=10 {
        assert_eq!(s.ack(n), range(8 + 2 * n, 10 + 2 * n));
    }
    assert_eq!(s.tx.window(), 20);
    // An acknowledgement of several segments makes room for these and one.
    assert_eq!(s.ack(14), range(30, 35));
}

#[test]
fn the_receivers_window_bounds_what_is_under_way_and_the_window_itself() {
    let tcp = Tcp { max_window: 12, ..Tcp::default() };
    let mut s = Script::new(tcp, u32::MAX, MS);
    assert_eq!(s.send(), range(0, 10));
    assert_eq!((s.ack(1), s.ack(2), s.ack(3), s.ack(4)), (vec![10, 11], vec![12, 13], vec![14], vec![15]));
    assert_eq!(s.tx.window(), 12);
}

#[test]
fn a_flow_sends_its_segments_and_then_nothing() {
    let mut s = Script::new(Tcp::default(), 12, MS);
    assert_eq!(s.send(), range(0, 10));
    assert_eq!(s.ack(5), [10, 11]);
    assert!(s.tx.is_under_way());
    assert!(s.ack(12).is_empty());
    assert_eq!(s.tx.deadline(), NEVER);
    assert!(!s.tx.is_under_way());
}

/// Fast recovery after the loss of segment 0 of 10: a window of 5.
fn recovered() -> Script {
    let mut s = Script::with_window(10);
    assert_eq!(s.send(), range(0, 10));
    assert!(s.acks(0, 2).is_empty());
    assert_eq!(s.tx.window(), 10);
    assert_eq!(s.ack(0), [0], "the third duplicate");
    assert_eq!(s.tx.window(), 5 + 3);
    // Each further one is a segment that has left: from the third on there is room for new ones.
    assert_eq!((s.acks(0, 2), s.acks(0, 4)), (vec![], range(10, 14)));
    assert_eq!(s.tx.window(), 14);
    // Full: min(ssthresh, flight + 1) = min(5, 4 + 1).
    assert_eq!(s.ack(10), [14]);
    assert_eq!(s.tx.window(), 5);
    s
}

#[test]
fn the_third_duplicate_resends_inflates_and_a_full_acknowledgement_deflates() {
    let s = recovered();
    assert_eq!(s.tx.repeats, 1);
}

/// What the NIC limits, and not the window, does not let the window grow: else a mark or a loss would find it far beyond the network.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // In slow start it may be about twice what is in flight.
    for (used, grown) in [(4, 10), (10, 22)] {
        let mut script = Script::with_window(10);
        for number in 0..50 {
            while script.tx.may_send(&script.tcp) && script.tx.outstanding().len() < used {
                script.tx.poll(&script.tcp, script.now);
            }
            script.tx.on_ack(&script.tcp, script.now, number + 1, false);
        }
        assert_eq!(script.tx.window(), grown, "{used} of 10 segments in flight");
    }
}

#[test]
fn congestion_avoidance_adds_a_segment_a_window() {
    let mut s = recovered();
    let mut acked = 10;
    for window in 5..9 {
        for _ in 0..window {
            assert_eq!(s.tx.window(), window);
            acked += 1;
            s.ack(acked);
        }
    }
    assert_eq!(s.tx.window(), 9);
    // Cumulative acknowledgements count by segments.
    s.ack(acked + 9);
    assert_eq!(s.tx.window(), 10);
}

#[test]
fn a_full_acknowledgement_with_little_under_way_makes_no_burst() {
    let mut s = Script::new(Tcp { initial_window: 20, ..Tcp::default() }, 20, 100 * MS);
    assert_eq!(s.send(), range(0, 20));
    s.acks(0, 19);
    assert!(s.ack(20).is_empty());
    // ssthresh is 10, nothing is under way: max(0, 1) + 1.
    assert_eq!(s.tx.window(), 2);
}

#[test]
fn a_partial_acknowledgement_resends_the_next_hole_and_deflates_by_what_it_acknowledges() {
    let mut s = Script::with_window(10);
    s.send();
    // 0 and 5 are lost: 8 duplicates.
    assert_eq!(s.acks(0, 8), [0, 10, 11, 12]);
    assert_eq!(s.tx.window(), 13);
    // 5 acknowledged, one put back.
    assert_eq!(s.ack(5), [5, 13]);
    assert_eq!(s.tx.window(), 13 - 5 + 1);
    // Duplicates inflate on.
    assert_eq!(s.acks(5, 2), [14, 15]);
    assert_eq!(s.ack(10), Vec::<u32>::new());
    assert_eq!(s.tx.window(), 5, "min(5, 6 + 1)");
    assert_eq!(s.ack(11), [], "5 were under way: {:?}", s.tx.outstanding());
    assert_eq!(s.ack(12), [16]);
    assert_eq!(s.tx.repeats, 2);
}

#[test]
fn only_the_first_partial_acknowledgement_restarts_the_timer() {
    let mut s = Script::with_window(10);
    s.send();
    s.now += MS;
    s.acks(0, 7);
    let entered = s.tx.deadline();
    s.now += MS;
    s.ack(3);
    let first = s.tx.deadline();
    assert_eq!(first, entered + MS);
    s.now += MS;
    s.ack(6);
    assert_eq!(s.tx.deadline(), first);
    // The full one does.
    s.ack(11);
    assert_eq!(s.tx.deadline(), first + MS);
}

#[test]
fn a_loss_right_after_fast_recovery_is_found_by_duplicates() {
    let mut s = recovered();
    assert_eq!(s.tx.outstanding(), 10..15);
    assert_eq!(s.acks(10, 3), [10]);
    assert_eq!(s.tx.window(), 2 + 3);
}

#[test]
fn duplicates_of_what_was_sent_again_after_a_timeout_are_no_loss() {
    // 0 and 6 are lost; the rest of 20 has arrived, all acknowledgements are lost too.
    let mut s = Script::new(Tcp { initial_window: 20, ..Tcp::default() }, u32::MAX, 100 * MS);
    s.send();
    assert_eq!(s.time_out(), [0]);
    assert_eq!(s.tx.window(), 1);
    assert_eq!(s.ack(6), [6, 7]);
    // 6 fills the last hole, 7 is there already.
    assert_eq!(s.ack(20), [20, 21, 22]);
    assert!(s.ack(20).is_empty());
    assert_eq!(s.ack(21), [23, 24]);
    assert_eq!(s.tx.window(), 4);
}

#[test]
fn no_fast_retransmit_until_more_than_was_sent_before_a_timeout_is_acknowledged() {
    let mut s = Script::with_window(10);
    s.send();
    assert_eq!(s.time_out(), [0]);
    assert_eq!((s.ack(2), s.ack(4)), (vec![2, 3], vec![4, 5, 6]));
    let window = s.tx.window();
    assert!(s.acks(4, 6).is_empty());
    assert_eq!(s.tx.window(), window);
    // At 10, `recover`, still not.
    assert_eq!(s.ack(10), range(10, 14));
    assert!(s.acks(10, 5).is_empty());
    // Beyond it, yes.
    s.ack(11);
    assert_eq!(s.acks(11, 3), [11]);
}

#[test]
fn a_timeout_in_fast_recovery_ends_it() {
    let mut s = Script::with_window(10);
    s.send();
    assert_eq!(s.acks(0, 5), [0]);
    assert_eq!(s.time_out(), [0]);
    assert_eq!(s.tx.window(), 1);
    // Flight was 10: slow start until 5, then congestion avoidance.
    assert_eq!(s.ack(1), [1, 2]);
    s.ack(10);
    s.ack(11);
    s.ack(12);
    assert_eq!(s.tx.window(), 5);
    s.ack(13);
    assert_eq!(s.tx.window(), 5);
}

#[test]
fn an_acknowledgement_from_before_a_timeout_spares_what_it_covers() {
    let mut s = Script::with_window(10);
    s.send();
    assert_eq!(s.time_out(), [0]);
    // The segments were only slow: more is acknowledged than was sent again.
    assert_eq!(s.ack(8), [8, 9]);
    assert_eq!(s.ack(10), range(10, 13));
}

#[test]
fn duplicates_with_nothing_under_way_are_nothing() {
    let mut s = Script::new(Tcp::default(), 10, MS);
    s.send();
    s.ack(10);
    assert!(s.acks(10, 5).is_empty());
    // Nor are old ones.
    let mut s = Script::with_window(10);
    s.send();
    s.ack(5);
    let window = s.tx.window();
    assert!(s.acks(3, 5).is_empty());
    assert_eq!(s.tx.window(), window);
}
