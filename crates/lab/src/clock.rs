//! The lab's clock: time here is the machine's.

#![expect(clippy::disallowed_methods, reason = "a real world runs by the machine's clock")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, after which something is late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// What remains; zero when it has passed.
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }
}

/// Measures a time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[expect(clippy::new_without_default, reason = "it starts, which no default should")]
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of a run, in the time that all worlds share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock(Instant);

impl RunClock {
    /// It is 0 now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> weft_fabric::Instant {
        let elapsed = self.0.elapsed();
        weft_fabric::Instant::from_ps(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }

    /// Sleeps until then, not longer than `at_most`.
    pub(crate) fn sleep_until(self, then: weft_fabric::Instant, at_most: Duration) {
        let rest = Duration::from_nanos(then.saturating_since(self.now()).as_ps() / 1000);
        std::thread::sleep(rest.min(at_most));
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
