//! RFC 5682 on delay spikes and on losses. The round trip is 100 ms: what is sent at 100 is answered at 200, unless it is late.

use super::*;

fn script(recovery: Recovery, congestion: Congestion, end: u32) -> Script {
    let mut s = Script::new(Tcp { recovery, congestion, ..Tcp::default() }, end, 100 * MS);
    assert_eq!(s.send(), range(0, 10));
    s
}

/// With SACK alone, whose only timer is that of the timeout.
fn sack(end: u32) -> Script {
    script(Recovery::Sack, Congestion::NewReno, end)
}

/// All segments and acknowledgements are late by 300 ms: the timeout comes before the first one.
#[test]
fn a_spurious_timeout_is_undone_and_nothing_more_is_sent_again() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        let mut s = script(Recovery::Sack, congestion, u32::MAX);
        assert_eq!((s.time_out(), s.tx.window(), s.now), (vec![0], 1, 400 * MS));
        s.now = 500 * MS;
        assert_eq!(s.sack(1, &[]), [10, 11], "step 2b: new data");
        assert!(s.sack(2, &[]).is_empty(), "step 3b: as much is under way as before");
        assert_eq!((s.tx.window(), s.tx.repeats), (10, 1));
        // Round trips of 100 and 400 ms: SRTT = 137.5, RTTVAR = 112.5.
        assert_eq!(s.left(), 587 * MS + MS / 2);
        // Slow start goes on.
        assert_eq!((3..=10).flat_map(|n| s.sack(n, &[])).collect::<Vec<_>>(), range(12, 28));
        // What was sent again has arrived twice.
        s.sack(10, &[(0, 1)]);
        assert_eq!((s.tx.window(), s.tx.repeats), (18, 1));
    }
}

/// An acknowledgement for two segments shows it at once, as one does that reports a segment beyond the first.
#[test]
fn a_segment_that_was_sent_once_is_enough() {
    let mut s = sack(u32::MAX);
    s.time_out();
    s.now = 500 * MS;
    assert_eq!((s.sack(2, &[]), s.tx.window(), s.tx.repeats), (vec![10, 11], 10, 1));
    let mut s = sack(u32::MAX);
    s.time_out();
    s.now = 500 * MS;
    assert_eq!((s.sack(0, &[(1, 2)]), s.tx.window(), s.tx.repeats), (vec![], 10, 1));
    // Of a flow without more data, all at once.
    let mut s = sack(10);
    s.time_out();
    s.now = 500 * MS;
    s.sack(10, &[]);
    assert_eq!((s.tx.window(), s.tx.repeats, s.tx.deadline()), (10, 1, NEVER));
}

#[test]
fn two_timeouts_in_a_row_are_undone() {
    let mut s = sack(u32::MAX);
    assert_eq!((s.time_out(), s.time_out()), (vec![0], vec![0]));
    s.now += 10 * MS;
    assert_eq!((s.sack(1, &[]), s.sack(2, &[])), (vec![10, 11], vec![]));
    assert_eq!((s.tx.window(), s.tx.repeats), (10, 2));
}

/// The window and its growth are those of a timeout without F-RTO: two new segments precede what is sent again.
#[test]
fn a_timeout_after_losses_goes_on_as_without() {
    let mut s = sack(u32::MAX);
    assert_eq!(s.time_out(), [0]);
    s.now = 500 * MS;
    assert_eq!(s.sack(1, &[]), [10, 11]);
    s.now = 600 * MS;
    // Step 3a: nothing has arrived of what was sent before.
    assert_eq!((s.sack(1, &[(10, 11)]), s.tx.window()), (vec![1], 2));
    assert_eq!(s.sack(1, &[(10, 12)]), [2]);
    s.now = 700 * MS;
    assert_eq!((s.sack(2, &[(10, 12)]), s.sack(3, &[(10, 12)])), (vec![3, 4], vec![5, 6]));
    s.now = 800 * MS;
    // Slow start up to half of what was under way.
    let sent: Vec<u32> = (4..=7).flat_map(|n| s.sack(n, &[(10, 12)])).collect();
    assert_eq!((sent, s.tx.window()), (vec![7, 8, 9, 12, 13], 5));
    s.sack(12, &[]);
    assert_eq!(s.tx.repeats, 10, "each lost segment once");
}

/// Duplicates before the first new acknowledgement say nothing (step 2), and without new data there is nothing to find out with (step 2b).
#[test]
fn without_new_data_lost_segments_are_sent() {
    let mut s = sack(10);
    s.time_out();
    s.now = 500 * MS;
    assert!(s.sack(0, &[]).is_empty());
    assert_eq!((s.sack(1, &[]), s.sack(2, &[])), (vec![1, 2], vec![3, 4]));
    assert_eq!(s.tx.window(), 3);
}

/// Step 1: what was sent before a fast recovery may be lost in any case.
#[test]
fn a_timeout_in_a_recovery_is_not_undone() {
    let mut s = sack(u32::MAX);
    assert_eq!(s.sack(0, &[(3, 8)]), [0, 1, 2]);
    assert_eq!(s.time_out(), [0]);
    assert_eq!((s.sack(1, &[(3, 9)]), s.tx.window()), (vec![1, 2], 2));
}

/// With RACK-TLP a probe comes first, and what was sent before the timeout is not lost for its age.
#[test]
fn rack_takes_nothing_for_lost_after_a_spurious_timeout() {
    let mut s = script(Recovery::Rack, Congestion::Cubic, u32::MAX);
    assert_eq!((s.time_out(), s.now), (vec![10], 300 * MS));
    assert_eq!((s.time_out(), s.now), (vec![0], 600 * MS));
    s.now = 750 * MS;
    assert_eq!((s.sack(1, &[]), s.sack(2, &[])), (vec![11, 12], vec![]));
    assert_eq!(s.tx.window(), 10);
    (3..=13).for_each(|n| {
        s.sack(n, &[]);
    });
    assert_eq!((s.tx.window() > 18, s.tx.repeats), (true, 1));
}

/// The papers' TCP has none: it goes back.
#[test]
fn newreno_goes_back() {
    let mut s = script(Recovery::NewReno, Congestion::NewReno, u32::MAX);
    s.time_out();
    s.now = 500 * MS;
    assert_eq!((s.ack(1), s.ack(2)), (vec![1, 2], vec![3, 4]));
    assert_eq!((s.tx.window(), s.tx.repeats), (3, 5));
}
