//! RFC 8985 on scripted losses. The round trip is 100 ms: what is sent at 100 is answered at 200.

use super::*;

fn script(window: u32, end: u32) -> Script {
    let tcp = Tcp { initial_window: window, recovery: Recovery::Rack, ..Tcp::default() };
    let mut s = Script::new(tcp, end, 100 * MS);
    assert_eq!(s.send(), range(0, window.min(end)));
    s.now = 200 * MS;
    s
}

impl Script {
    /// The first timer runs out; what it sends then.
    fn timer(&mut self) -> Vec<u32> {
        self.time_out()
    }
}

#[test]
fn a_segment_is_lost_a_quarter_of_a_round_trip_after_one_sent_later_has_arrived() {
    let mut s = script(10, u32::MAX);
    assert_eq!(s.sack(0, &[(1, 2)]), [10], "limited transmit");
    assert_eq!(s.left(), 25 * MS);
    assert_eq!(s.timer(), [0]);
    assert_eq!(s.tx.window(), 5);
}

#[test]
fn three_segments_beyond_it_are_enough_as_long_as_nothing_was_reordered() {
    let mut s = script(10, u32::MAX);
    assert_eq!((s.sack(0, &[(1, 2)]), s.sack(0, &[(1, 3)]), s.sack(0, &[(1, 4)])), (vec![10], vec![11], vec![0]));
}

#[test]
fn after_reordering_it_waits() {
    let mut s = script(10, u32::MAX);
    s.sack(0, &[(1, 2)]);
    // 0 was only late.
    s.sack(2, &[]);
    assert_eq!(s.tx.repeats, 0);
    assert!(!s.sack(2, &[(3, 7)]).contains(&2));
    assert_eq!(s.left(), 25 * MS);
    assert_eq!(s.timer(), [2]);
}

#[test]
fn duplicates_widen_the_window_for_reordering_by_a_quarter_once_a_round_trip() {
    let mut s = script(10, u32::MAX);
    s.sack(0, &[(1, 2)]);
    s.timer();
    assert_eq!(s.tx.repeats, 1);
    // 0 was late, and came twice (RFC 2883).
    s.now += 10 * MS;
    s.sack(2, &[]);
    s.now += 10 * MS;
    s.sack(3, &[(0, 1)]);
    s.now += 100 * MS;
    let end = s.tx.outstanding().end;
    let sent = s.sack(end, &[]);
    assert!(sent.len() > 3, "{sent:?}");
    s.now += 100 * MS;
    s.sack(end, &[(end + 1, end + 2)]);
    assert_eq!(s.left(), 50 * MS, "two quarters of the least round trip");
}

#[test]
fn a_segment_that_was_sent_again_and_is_lost_again_needs_no_timeout() {
    let mut s = script(10, u32::MAX);
    s.sack(0, &[(1, 4)]);
    // What arrives from then on makes room for 10 and so on.
    let sent: Vec<u32> = (5..11).flat_map(|n| s.sack(0, &[(1, n)])).collect();
    assert!(sent.len() > 3 && sent[0] >= 10, "{sent:?}");
    s.now = 300 * MS;
    assert_eq!(s.tx.repeats, 1);
    // These were sent when 0 was sent again, after it.
    assert_eq!(s.sack(0, &[(1, 11)])[0], 0);
    assert_eq!(s.tx.repeats, 2);
}

#[test]
fn the_end_of_a_flow_is_probed_after_two_round_trips() {
    let mut s = script(10, 10);
    // 7 to 9 are lost.
    assert!(s.sack(7, &[]).is_empty());
    assert_eq!(s.left(), 200 * MS);
    assert_eq!(s.timer(), [9]);
    assert!(s.left() >= 200 * MS, "one probe, then the timeout");
    s.now += 100 * MS;
    // The probe arrives: 7 and 8, sent before it, are lost.
    assert_eq!(s.sack(7, &[(9, 10)]), [7, 8]);
    s.now += 100 * MS;
    s.sack(10, &[]);
    assert_eq!((s.tx.deadline(), s.tx.repeats), (NEVER, 3));
}

#[test]
fn a_probe_is_new_data_if_there_is_any() {
    let tcp = Tcp { initial_window: 4, recovery: Recovery::Rack, ..Tcp::default() };
    let mut s = Script::new(tcp, u32::MAX, 100 * MS);
    assert_eq!(s.send(), range(0, 4));
    assert_eq!(s.left(), 200 * MS);
    assert_eq!(s.timer(), [4], "beyond the window");
    assert_eq!(s.tx.repeats, 0);
}

#[test]
fn a_probe_that_repaired_the_only_loss_reduces_the_window() {
    let mut s = script(10, 12);
    // 9 is lost; what it makes room for has arrived too, without word.
    assert_eq!(s.sack(9, &[]), [10, 11]);
    let probed = s.timer();
    assert_eq!(probed, [11]);
    s.now += 100 * MS;
    let window = s.tx.window();
    // It was a duplicate: nothing was lost but acknowledgements. What is under way does not fill the window, which stays.
    s.sack(12, &[(11, 12)]);
    assert_eq!(s.tx.window(), window);
}

#[test]
fn a_timeout_spares_what_was_sent_a_moment_ago() {
    let mut s = script(4, u32::MAX);
    s.sack(2, &[]);
    assert_eq!(s.tx.outstanding(), 2..7);
    // The probe, and then nothing arrives.
    let probe = s.timer();
    assert_eq!(probe, [7]);
    s.now = s.tx.deadline();
    let sent = s.time_out();
    assert_eq!(sent, [2]);
    assert_eq!(s.tx.window(), 1);
    // All were lost: two new segments find that out (F-RTO), then each acknowledgement makes room for one more.
    s.now += 100 * MS;
    assert_eq!(s.sack(3, &[]), [8, 9]);
    s.now += 100 * MS;
    assert_eq!((s.sack(3, &[(8, 9)]), s.sack(3, &[(8, 10)])), (vec![3], vec![4]));
}

#[test]
fn the_timer_of_a_connection_without_data_under_way_rests() {
    let mut s = script(10, 10);
    s.sack(10, &[]);
    assert_eq!(s.tx.deadline(), NEVER);
}
