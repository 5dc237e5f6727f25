//! Pacing.

use super::*;

fn paced(window: u32) -> Script {
    Script::new(Tcp { initial_window: window, pacing: true, ..Tcp::default() }, u32::MAX, 100 * MS)
}

impl Script {
    /// The time until the next segment may leave.
    fn waits(&mut self) -> u64 {
        match self.tx.poll(&self.tcp, self.now) {
            Some(Segment::Later { at }) => {
                assert_eq!(self.tx.poll(&self.tcp, self.now), None, "reported once");
                at - self.now
            }
            other => panic!("{other:?}"),
        }
    }

    fn passes(&mut self, time: u64) -> Option<Segment> {
        self.now += time;
        self.tx.on_release();
        self.tx.poll(&self.tcp, self.now)
    }
}

const fn new(number: u32) -> Option<Segment> {
    Some(Segment::Data { number, repeat: false })
}

#[test]
fn in_slow_start_a_window_leaves_in_half_a_round_trip() {
    let mut s = paced(10);
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(0));
    for number in 1..10 {
        assert_eq!(s.waits(), 5 * MS);
        assert_eq!(s.passes(5 * MS), new(number));
    }
    assert_eq!(s.tx.poll(&s.tcp, s.now), None, "the window is full: nothing waits");
}

#[test]
fn in_congestion_avoidance_it_takes_five_sixths_of_one() {
    let mut s = paced(12);
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(0));
    for number in 1..12 {
        let wait = s.waits();
        assert_eq!(s.passes(wait), new(number));
    }
    s.now += 100 * MS;
    // The first segment is lost; the window is six.
    for _ in 0..3 {
        s.tx.on_ack(&s.tcp, s.now, 0, false);
    }
    assert_eq!(s.tx.poll(&s.tcp, s.now), Some(Segment::Data { number: 0, repeat: true }));
    let full = s.tx.outstanding().end;
    s.now += 100 * MS;
    s.tx.on_ack(&s.tcp, s.now, full, false);
    assert_eq!(s.tx.window(), 2, "min(ssthresh, 1 + 1)");
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(full));
    assert_eq!(s.waits(), s.tx.srtt() / 4, "two per half a round trip: slow start up to the half of six");
    assert_eq!(s.passes(s.tx.srtt() / 4), new(full + 1));
    (1..=2).for_each(|n| s.tx.on_ack(&s.tcp, s.now, full + n, false));
    assert_eq!(s.tx.window(), 4);
    s.now += 100 * MS;
    assert!(matches!(s.tx.poll(&s.tcp, s.now), Some(Segment::Data { .. })));
    let expected = s.tx.srtt() * 100 / (4 * 120);
    assert_eq!(s.waits(), expected);
}

#[test]
fn what_has_waited_long_enough_leaves_at_once() {
    let mut s = paced(10);
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(0));
    s.now += 7 * MS;
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(1));
    // No burst makes up for the two milliseconds.
    assert_eq!(s.waits(), 5 * MS);
}

/// A subflow of MPTCP that must wait to send takes nothing new until then: another one may send it first.
#[test]
fn while_a_segment_waits_for_its_turn_there_is_room_for_no_other() {
    let tcp = Tcp { initial_window: 10, pacing: true, recovery: Recovery::Sack, ..Tcp::default() };
    let mut s = Script::new(tcp, 2, 100 * MS);
    assert_eq!(s.tx.poll(&s.tcp, s.now), new(0));
    let wait = s.waits();
    assert!(!s.tx.is_hungry(&s.tcp));
    assert_eq!(s.passes(wait), new(1));
    assert!(s.tx.is_hungry(&s.tcp), "all that there is was sent, and the window has room");
    s.tx.feed();
    s.waits();
    // All that was under way may be lost: it is sent again, once its turn has come.
    s.now = s.tx.deadline();
    assert!(s.tx.on_timer(&s.tcp, s.now));
    assert!(!s.tx.is_hungry(&s.tcp));
}
