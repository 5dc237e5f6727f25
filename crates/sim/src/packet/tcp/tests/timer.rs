//! RFC 6298, and the handshake.

use super::*;

/// A timer without a lower bound to speak of.
fn bare() -> Tcp {
    Tcp { rto_min: 1, ..Tcp::default() }
}

#[test]
fn the_first_round_trip_sets_the_timeout_and_later_ones_smooth_it() {
    let mut s = Script::new(bare(), u32::MAX, 100 * MS);
    s.send();
    // SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
    assert_eq!((s.tx.srtt(), s.left()), (100 * MS, 300 * MS));
    s.now += 180 * MS;
    s.ack(1);
    // RTTVAR = 3/4 50 + 1/4 80 = 57.5, SRTT = 7/8 100 + 1/8 180 = 110.
    assert_eq!((s.tx.srtt(), s.left()), (110 * MS, 340 * MS));
}

#[test]
fn one_segment_of_a_window_is_timed() {
    let mut s = Script::new(bare(), u32::MAX, 100 * MS);
    s.send();
    s.now += 100 * MS;
    s.ack(1);
    let srtt = s.tx.srtt();
    // 1 to 9 were not timed; 10, sent now, is.
    s.now += 50 * MS;
    s.ack(10);
    assert_eq!(s.tx.srtt(), srtt);
    s.now += 50 * MS;
    s.ack(11);
    assert_eq!(s.tx.srtt(), 100 * MS);
}

/// A wait begins where the answer is overdue, and goes back to when the timer was started.
#[test]
fn a_running_timer_counts_once_the_answer_is_overdue() {
    for tcp in [Tcp::default(), Tcp { recovery: Recovery::Rack, ..Tcp::default() }] {
        let mut s = Script::new(tcp, u32::MAX, 10 * MS);
        assert_eq!(s.tx.overdue(s.now), 0, "nothing is under way");
        s.send();
        let sent = s.now;
        // SRTT + 4 RTTVAR = 30 ms, the timeout 200 ms.
        assert_eq!([20, 30, 31, 150].map(|ms| s.tx.overdue(sent + ms * MS)), [0, 0, 31 * MS, 150 * MS]);
    }
    let mut syn = Sender::new(&Tcp::default(), 1);
    syn.open(0);
    let _ = syn.poll(&Tcp::default(), 0);
    assert_eq!([50, 100, 400].map(|ms| syn.overdue(ms * MS)), [0, 0, 400 * MS]);
}

#[test]
fn the_timeout_has_bounds() {
    let mut s = Script::new(Tcp::default(), u32::MAX, MS);
    s.send();
    assert_eq!(s.left(), 200 * MS);
    let mut s = Script::new(Tcp { rto_initial: 100_000 * MS, ..Tcp::default() }, u32::MAX, 50_000 * MS);
    s.send();
    assert_eq!(s.left(), 60_000 * MS);
}

#[test]
fn an_acknowledgement_of_new_data_restarts_the_timer_and_a_duplicate_does_not() {
    let mut s = Script::with_window(10);
    s.send();
    let first = s.tx.deadline();
    s.now += 10 * MS;
    s.ack(0);
    assert_eq!(s.tx.deadline(), first);
    s.ack(1);
    assert!(s.tx.deadline() > first - 50 * MS && s.left() >= 200 * MS);
    let restarted = s.tx.deadline();
    s.now += 10 * MS;
    s.ack(2);
    assert_eq!(s.tx.deadline(), restarted + 10 * MS);
}

#[test]
fn a_timeout_sends_one_segment_and_goes_back() {
    let mut s = Script::with_window(10);
    s.send();
    assert_eq!(s.time_out(), [0]);
    assert_eq!(s.tx.window(), 1);
    // Slow start up to half of what was under way.
    assert_eq!(s.ack(1), [1, 2]);
    assert_eq!((s.ack(2), s.ack(3), s.ack(4)), (vec![3, 4], vec![5, 6], vec![7, 8]));
    assert_eq!(s.tx.window(), 5);
    assert_eq!(s.ack(5), [9], "congestion avoidance");
    assert_eq!(s.tx.repeats, 10);
}

#[test]
fn the_timeout_doubles_up_to_its_bound_and_then_the_connection_is_given_up() {
    let mut s = Script::new(bare(), 3, 100 * MS);
    s.send();
    let mut waited = vec![];
    while s.tx.deadline() != NEVER {
        waited.push(s.left() / MS);
        let sent = s.time_out();
        assert!(sent == [0] || s.tx.deadline() == NEVER);
    }
    let doubling = (0..).map(|n| 300 << n).take_while(|&ms| ms < 60_000);
    let expected: Vec<u64> = doubling.chain(std::iter::repeat(60_000)).take(16).collect();
    assert_eq!(waited, expected);
    assert!(!s.tx.is_under_way());
    assert!(s.ack(3).is_empty());
}

#[test]
fn repeated_timeouts_of_a_segment_halve_the_threshold_once() {
    let mut s = Script::new(Tcp { initial_window: 16, ..Tcp::default() }, u32::MAX, MS);
    s.send();
    s.time_out();
    s.time_out();
    s.time_out();
    s.ack(16);
    // Up to 8, from 2.
    for n in 17..23 {
        s.ack(n);
    }
    assert_eq!(s.tx.window(), 8);
    s.ack(23);
    assert_eq!(s.tx.window(), 8);
}

#[test]
fn karn_what_was_sent_twice_times_nothing() {
    let mut s = Script::new(bare(), u32::MAX, 100 * MS);
    s.send();
    s.time_out();
    assert_eq!(s.left(), 600 * MS);
    s.now += 10 * MS;
    // All of it was sent before the timeout, some twice: no sample, but the back-off ends.
    s.ack(5);
    assert_eq!((s.tx.srtt(), s.left()), (100 * MS, 300 * MS));
    s.now += 10 * MS;
    assert_eq!(s.ack(10), [10, 11, 12]);
    assert_eq!((s.tx.srtt(), s.left()), (100 * MS, 300 * MS));
    // 10 is new.
    s.now += 100 * MS;
    s.ack(11);
    assert_eq!((s.tx.srtt(), s.left()), (100 * MS, 250 * MS));
}

#[test]
fn the_back_off_ends_with_new_data_acknowledged() {
    let mut s = Script::new(bare(), u32::MAX, 100 * MS);
    s.send();
    for ms in [600, 1200, 2400] {
        s.time_out();
        assert_eq!(s.left(), ms * MS);
    }
    s.ack(0);
    assert_eq!(s.left(), 2400 * MS);
    s.ack(1);
    assert_eq!(s.left(), 300 * MS);
}

#[test]
fn a_segment_under_way_when_another_is_sent_again_times_nothing() {
    let mut s = Script::new(bare(), u32::MAX, 100 * MS);
    s.send();
    s.now += 100 * MS;
    s.ack(1); // from now on segment 10 is timed
    s.acks(1, 3);
    s.now += 500 * MS;
    s.ack(12);
    assert_eq!(s.tx.srtt(), 100 * MS);
}

#[test]
fn a_lost_syn_is_sent_again_after_one_three_and_seven_seconds() {
    let tcp = Tcp::default();
    let mut tx = Sender::new(&tcp, u32::MAX);
    tx.open(0);
    for seconds in [0, 1, 3, 7] {
        let now = seconds * 1000 * MS;
        if seconds > 0 {
            assert_eq!(tx.deadline(), now);
            assert!(tx.on_timer(&tcp, now));
        }
        assert_eq!(tx.poll(&tcp, now), Some(Segment::Syn));
        assert_eq!(tx.poll(&tcp, now), None);
    }
    // The window is one segment then (RFC 5681 section 3.1), the timeout 3 s (RFC 6298 section 5.7).
    let now = 7_100 * MS;
    tx.on_syn_ack(&tcp, now);
    let mut s = Script { tcp, tx, now };
    assert_eq!(s.send(), [0]);
    assert_eq!((s.tx.srtt(), s.left()), (0, 3_000 * MS));
    s.now += 100 * MS;
    assert_eq!(s.ack(1), [1, 2]);
    assert_eq!((s.tx.srtt(), s.left()), (100 * MS, 300 * MS));
    // A second answer to the SYN means nothing.
    s.tx.on_syn_ack(&tcp, s.now);
    assert_eq!((s.tx.outstanding(), s.left()), (1..3, 300 * MS));
}

#[test]
fn a_timer_that_is_asked_too_early_does_nothing() {
    let mut s = Script::with_window(10);
    s.send();
    assert!(!s.tx.on_timer(&s.tcp, s.tx.deadline() - 1));
    assert_eq!((s.tx.window(), s.send()), (10, vec![]));
}
