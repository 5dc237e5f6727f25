//! A clock that never goes back, made of one that may: machines keep their deadlines by it.

use crate::time::{Duration, Instant};

/// Turns what a host's clock says into a time that never goes back. A step back stands still, and counts on from there; a step forward is
/// believed: leases end early, which is safe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steady {
    last: Instant,
    /// What is added to the host's clock: the sum of its steps back.
    behind: Duration,
}

impl Steady {
    /// The steady time for what the host's clock says.
    pub fn at(&mut self, host: Instant) -> Instant {
        let here = host.saturating_add(self.behind);
        if here < self.last {
            self.behind = self.behind + (self.last - here);
            return self.last;
        }
        self.last = here;
        here
    }

    /// What the host's clock will say at a steady time.
    pub fn to_host(self, steady: Instant) -> Instant {
        if steady == Instant::MAX { steady } else { Instant::from_ns(steady.as_ns().saturating_sub(self.behind.as_ns())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_stand_still_and_steps_forward_count() {
        let s = |s: u64| Instant::ZERO + Duration::from_secs(s);
        let mut clock = Steady::default();
        assert_eq!(clock.at(s(10)), s(10));
        assert_eq!(clock.at(s(4)), s(10));
        assert_eq!(clock.at(s(5)), s(11));
        assert_eq!(clock.to_host(s(12)), s(6));
        assert_eq!(clock.at(s(100)), s(106));
    }
}
