//! Which lookups are too old to answer. When more arrive than can be answered, the queue in the kernel is always full: whatever is answered then has
//! waited as long as the queue is, and its sender has asked again or has given up.
//!
//! ```text
//!   the queue ran empty within the last 100 ms:  lookups older than 100 ms are dropped    (a burst, or a process that did not run for a moment)
//!   it did not:                                  lookups older than 8 ms are dropped      (overload, or the end of a long stall), and for a second more
//! ```
//! Under overload the queue runs empty for a moment when senders pause, so that is no sign that it ended.
//! This is CoDel's distinction between a good queue and a bad one (RFC 8289), with the age limit of a request queue: dropping is cheap, so the queue is as long as the limit at most and what is
//! answered is fresh. Only lookups are dropped: a Sync keeps mappings in use, Health decides which server is asked, updates and servers' messages are few.

use crate::time::{Duration, Instant};
use crate::wire::directory::Kind;

/// What is done with a batch of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct BatchRule {
    /// Lookups that have waited longer are dropped.
    limit: Duration,
    /// Whether lookups go last.
    is_overloaded: bool,
}

impl BatchRule {
    /// Whether a datagram is dropped that has waited for `age`.
    #[inline]
    pub fn drops(&self, age: Duration, datagram: &[u8]) -> bool {
        age > self.limit && AgeLimit::is_droppable(datagram)
    }

    /// Under overload moves lookups behind the others: whether mappings stay in use, and which server agents ask, depends on Syncs and Health.
    pub fn sort<T>(&self, batch: &mut [(T, &[u8])]) {
        if self.is_overloaded {
            batch.sort_by_key(|(_, datagram)| AgeLimit::is_droppable(datagram));
        }
    }
}

/// Decides by age which lookups are dropped.
#[derive(Clone, Copy, Debug)]
pub struct AgeLimit {
    /// When the queue was empty last.
    emptied: Instant,
    /// The last overload is not over before.
    overloaded_until: Instant,
}

impl AgeLimit {
    /// Of an empty queue.
    pub const fn new(now: Instant) -> Self {
        Self { emptied: now, overloaded_until: Instant::ZERO }
    }

    /// What to do with a batch that was taken out of the queue; `emptied`: nothing is left there.
    pub fn batch(&mut self, now: Instant, emptied: bool) -> BatchRule {
        self.took(now, emptied);
        BatchRule { limit: self.limit(now), is_overloaded: self.is_overloaded(now) }
    }

    /// A batch was taken out of the queue, or nothing was there; `emptied`: nothing is left there.
    pub fn took(&mut self, now: Instant, emptied: bool) {
        if emptied {
            self.emptied = now;
        } else if now.saturating_since(self.emptied) > INTERVAL {
            self.overloaded_until = now + MEMORY;
        }
    }

    /// Whether the queue has not been empty for long, or was so a moment ago.
    pub fn is_overloaded(&self, now: Instant) -> bool {
        now < self.overloaded_until
    }

    /// Lookups that have waited longer are dropped.
    pub fn limit(&self, now: Instant) -> Duration {
        if self.is_overloaded(now) { TARGET } else { INTERVAL }
    }

    /// Whether a datagram may be dropped for its age, and goes after those that may not.
    #[inline]
    pub fn is_droppable(datagram: &[u8]) -> bool {
        datagram.get(3) == Some(&(Kind::Lookup as u8))
    }
}

/// A queue that was empty within this time is a good one. Agents ask another server after 3 to 500 ms.
const INTERVAL: Duration = Duration::from_ms(100);
/// How long an overload is remembered.
const MEMORY: Duration = Duration::from_secs(1);
/// How old an answered lookup is at most otherwise: p99 stays below 20 ms with room for the answer.
const TARGET: Duration = Duration::from_ms(8);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server with a queue of bounded length: 1 us for an answer, a tenth for a drop.
    struct Queue {
        now: Instant,
        waiting: VecDeque<Instant>,
        limit: Option<AgeLimit>,
        /// Of lookups: how long each answered one took.
        latencies: Vec<Duration>,
        arrivals: u64,
    }

    const NEVER: u64 = 100_000_000_000;
    const ROOM: usize = 100_000;
    const BATCH: usize = 256;

    impl Queue {
        fn new(with_limit: bool) -> Self {
            let limit = with_limit.then_some(AgeLimit::new(Instant::ZERO));
            Self { now: Instant::ZERO, waiting: VecDeque::new(), limit, latencies: Vec::new(), arrivals: 0 }
        }

        /// Lookups arrive, one every `gap_ns`, until now.
        fn arrive(&mut self, gap_ns: u64) {
            while self.arrivals * gap_ns <= self.now.as_ns() {
                if self.waiting.len() < ROOM {
                    self.waiting.push_back(Instant::from_ns(self.arrivals * gap_ns));
                }
                self.arrivals += 1;
            }
        }

        fn run(&mut self, until: Instant, gap_ns: u64) {
            while self.now < until {
                self.arrive(gap_ns);
                let taken: Vec<Instant> = self.waiting.drain(..self.waiting.len().min(BATCH)).collect();
                let (emptied, begun) = (taken.len() < BATCH, self.now);
                let limit = self.limit.as_mut().map(|limit| {
                    limit.took(begun, emptied);
                    limit.limit(begun)
                });
                for at in taken {
                    if limit.is_some_and(|limit| begun.saturating_since(at) > limit) {
                        self.now += Duration::from_ns(100);
                    } else {
                        self.now += Duration::from_us(1);
                        self.latencies.push(self.now.saturating_since(at));
                    }
                }
                self.now += Duration::from_ns(500);
            }
        }

        fn p99(&self) -> Duration {
            let mut sorted = self.latencies.clone();
            sorted.sort_unstable();
            sorted[sorted.len() * 99 / 100]
        }
    }

    fn s(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn at_twice_the_capacity_what_is_answered_is_fresh() {
        let (mut old, mut new) = (Queue::new(false), Queue::new(true));
        for queue in [&mut old, &mut new] {
            queue.run(s(20), 500);
        }
        assert!(old.p99() > Duration::from_ms(90), "without a limit all wait for the whole queue: {}", old.p99());
        assert!(new.p99() < Duration::from_ms(20), "{}", new.p99());
        // A drop costs a tenth of an answer, which leaves 89 % of the peak at twice the load.
        assert!(new.latencies.len() * 100 > old.latencies.len() * 87, "{} of {}", new.latencies.len(), old.latencies.len());
    }

    /// The queue runs empty now and then, and would hold lookups for up to 30 ms between.
    #[test]
    fn senders_that_pause_do_not_end_an_overload() {
        let mut queue = Queue::new(true);
        queue.run(s(1), 500);
        let before = queue.latencies.len();
        for busy in [150, 60, 60, 60, 60, 60].repeat(4) {
            let until = queue.now + Duration::from_ms(busy);
            queue.run(until, 500);
            // Nothing arrives.
            let until = queue.now + Duration::from_ms(25);
            queue.run(until, NEVER);
            queue.arrivals = queue.now.as_ns() / 500;
        }
        queue.latencies.drain(..before);
        assert!(queue.p99() < Duration::from_ms(20), "{}", queue.p99());
    }

    #[test]
    fn an_overload_ends_after_a_second() {
        let mut limit = AgeLimit::new(s(1));
        limit.took(s(2), false);
        assert!(limit.is_overloaded(s(2)), "the queue was not empty for a second");
        limit.took(s(2) + Duration::from_ms(500), true);
        assert!(limit.is_overloaded(s(2) + Duration::from_ms(50)));
        let mut at = s(2);
        while at < s(4) {
            at += Duration::from_ms(50);
            limit.took(at, true);
        }
        assert!(!limit.is_overloaded(at));
    }

    #[test]
    fn after_a_stall_the_newest_are_answered_within_50_ms() {
        let mut queue = Queue::new(true);
        queue.run(s(1), 20_000);
        queue.now = s(2);
        queue.run(s(2) + Duration::from_ms(50), 20_000);
        let before = queue.latencies.len();
        queue.run(s(3), 20_000);
        assert!(queue.latencies[before..].iter().all(|&it| it < Duration::from_ms(1)), "all is as before the stall");
        assert!(queue.latencies.iter().all(|&it| it < Duration::from_ms(20)), "what waited for a second was not answered");
    }

    #[test]
    fn a_short_stall_loses_nothing() {
        let mut queue = Queue::new(true);
        queue.run(s(1), 20_000);
        queue.now += Duration::from_ms(60);
        queue.run(s(2), 20_000);
        assert_eq!(queue.latencies.len() as u64, queue.arrivals - queue.waiting.len() as u64);
    }

    #[test]
    fn lookups_alone_are_dropped_and_go_last_under_overload() {
        let (lookup, health) = (&b"WD\x01\x01"[..], &b"WD\x01\x04"[..]);
        let mut limit = AgeLimit::new(s(1));
        for (now, emptied, longest, order) in [(s(1), true, INTERVAL, [1, 2, 3]), (s(2), false, TARGET, [2, 1, 3])] {
            let rule = limit.batch(now, emptied);
            assert!(!rule.drops(longest, lookup) && rule.drops(longest + Duration::from_ns(1), lookup));
            assert!(!rule.drops(Duration::from_secs(9), health));
            let mut batch = [(1, lookup), (2, health), (3, lookup)];
            rule.sort(&mut batch);
            assert_eq!(batch.map(|it| it.0), order);
        }
        assert!(AgeLimit::is_droppable(b"WD\x01\x01"));
        for other in [&b"WD\x01\x03"[..], b"WD\x01\x04", b"WD\x01\x02", b"WD", b""] {
            assert!(!AgeLimit::is_droppable(other));
        }
    }
}
