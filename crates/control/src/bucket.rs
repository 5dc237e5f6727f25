//! A token bucket: so many a second in the mean, so many at once.

use crate::time::{Duration, Instant};

/// A bucket that is full at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// The time that one token takes.
    each: Duration,
    /// The time that all tokens take.
    depth: Duration,
    /// When it would be full; in the past if it is.
    full_at: Instant,
}

impl Bucket {
    /// `rate` tokens a second, `burst` at once, at least 1; a rate of 0 lets nothing through.
    pub fn new(rate: u32, burst: u32) -> Self {
        let each = Duration::from_secs(1) / u64::from(rate.max(1));
        let depth = if rate == 0 { Duration::ZERO } else { each * u64::from(burst.max(1)) };
        Self { each, depth, full_at: Instant::ZERO }
    }

    /// Whether all tokens are there.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now).saturating_add(self.each);
        let has_one = full_at.saturating_since(now) <= self.depth;
        if has_one {
            self.full_at = full_at;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(100, 10);
        let at = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
        assert_eq!((0..20).filter(|_| bucket.take(at(1000))).count(), 10);
        assert_eq!((1000..2000).filter(|&ms| bucket.take(at(ms))).count(), 99);
        assert_eq!((0..20).filter(|_| bucket.take(at(9000))).count(), 10);
    }

    #[test]
    fn as_many_at_once_as_a_second() {
        let mut bucket = Bucket::new(10, 10);
        let at = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
        assert_eq!((0..100).filter(|_| bucket.take(at(0))).count(), 10, "at once");
        assert_eq!((0..10_000).filter(|&ms| bucket.take(at(ms))).count(), 99, "in ten seconds, the first of which is used up");
        assert!(!Bucket::new(0, 0).take(at(5)) && !Bucket::new(0, 5).take(at(5000)));
    }
}
