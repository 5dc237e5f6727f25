//! RFC 9438.

use super::super::sender::cubic::{BETA, C, Cubic};
use super::*;

const RTT: u64 = 100 * MS;

/// A window in congestion avoidance, round by round.
struct Rounds {
    cubic: Cubic,
    window: u32,
    now: u64,
    rtt: u64,
}

impl Rounds {
    /// After a loss with this window.
    fn after_loss(window: u32, rtt: u64) -> Self {
        let mut cubic = Cubic::default();
        let window = cubic.reduce(window, window);
        Self { cubic, window, now: 0, rtt }
    }

    /// So many round trips, each with an acknowledgement per segment of the window, spread over it.
    fn pass(&mut self, rounds: u32) {
        for _ in 0..rounds {
            let acks = u64::from(self.window);
            let begin = self.now;
            for ack in 0..acks {
                self.now = begin + self.rtt * ack / acks;
                self.window = self.cubic.grow(self.window, 1, self.now, self.rtt);
            }
            self.now = begin + self.rtt;
        }
    }
}

#[test]
fn the_window_is_the_cubic_function_of_time() {
    let mut rounds = Rounds::after_loss(1_000, RTT);
    assert_eq!(rounds.window, 700);
    let k = (1_000.0 * (1.0 - BETA) / C).cbrt();
    for round in 1..200 {
        rounds.pass(1);
        let t = f64::from(round) * 0.1;
        let expected = C * (t - k).powi(3) + 1_000.0;
        // It follows the function within what that gains in a round trip.
        let slack = 1.0 + 0.1 * 3.0 * C * (t - k + 0.1).powi(2);
        assert!((f64::from(rounds.window) - expected).abs() < slack, "at {t} s: {} and {expected}", rounds.window);
    }
    assert!(rounds.window > 1_500, "the convex part");
}

#[test]
fn with_short_round_trips_it_grows_as_reno_with_its_own_factor_until_it_is_where_it_was() {
    let mut rounds = Rounds::after_loss(100, MS);
    rounds.pass(20);
    // 3 (1 - beta) / (1 + beta) = 0.53 segments a round trip (section 4.3).
    assert!((80..=81).contains(&rounds.window), "{}", rounds.window);
    rounds.pass(37);
    assert!((99..=101).contains(&rounds.window), "{}", rounds.window);
    // From there on one.
    rounds.pass(20);
    assert!((118..=121).contains(&rounds.window), "{}", rounds.window);
}

#[test]
fn a_loss_below_the_last_maximum_lowers_the_next_one() {
    let mut cubic = Cubic::default();
    assert_eq!(cubic.reduce(1_000, 1_000), 700);
    assert_eq!(cubic.reduce(800, 800), 560);
    // Fast convergence (section 4.7): W_max = 800 (1 + beta) / 2 = 680, which is the plateau.
    let mut rounds = Rounds { cubic, window: 560, now: 0, rtt: RTT };
    let k = (120.0f64 / C).cbrt();
    rounds.pass((k * 10.0) as u32);
    assert!((676..=682).contains(&rounds.window), "{}", rounds.window);
}

#[test]
fn after_a_timeout_it_begins_on_the_plateau() {
    let mut cubic = Cubic::default();
    assert_eq!(cubic.reduce(1_000, 1_000), 700);
    cubic.on_timeout();
    let mut rounds = Rounds { cubic, window: 700, now: 0, rtt: RTT };
    rounds.pass(30);
    // W(t) = 0.4 t^3 + 700 after 3 s; Reno would be at 716 (section 4.8).
    assert!((714..=717).contains(&rounds.window), "{}", rounds.window);
}

#[test]
fn the_sender_keeps_seven_tenths_of_its_window() {
    for (recovery, window) in [(Recovery::NewReno, 7 + 3), (Recovery::Sack, 7), (Recovery::Rack, 7)] {
        let tcp = Tcp { congestion: Congestion::Cubic, recovery, ..Tcp::default() };
        let mut s = Script::new(tcp, u32::MAX, 100 * MS);
        s.send();
        match recovery {
            Recovery::NewReno => s.acks(0, 3),
            _ => s.sack(0, &[(1, 4)]),
        };
        assert_eq!(s.tx.window(), window, "{recovery:?}");
    }
}

#[test]
fn marks_and_timeouts_reduce_by_its_factor_too() {
    let tcp = Tcp { congestion: Congestion::Cubic, ecn: true, ..Tcp::default() };
    let mut s = Script::new(tcp, u32::MAX, 100 * MS);
    s.send();
    s.marked_ack(1);
    assert_eq!(s.tx.window(), 7);
    let mut s = Script::new(tcp, u32::MAX, 100 * MS);
    s.send();
    s.time_out();
    assert_eq!(s.tx.window(), 1);
    // Slow start up to 7.
    (1..=6).for_each(|n| {
        s.ack(n);
    });
    assert_eq!(s.tx.window(), 7);
    s.ack(7);
    assert_eq!(s.tx.window(), 7);
}
