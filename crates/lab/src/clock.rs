//! The lab's clock, which is that of the machine.

#![expect(clippy::disallowed_methods, reason = "a lab runs in real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The end of a timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// The time left; zero when it has passed.
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }
}

/// Measures elapsed time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[expect(clippy::new_without_default, reason = "a default value should not start anything")]
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of a run, in the units of all worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock(Instant);

impl RunClock {
    /// Starts at 0.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> weft_fabric::Instant {
        let elapsed = self.0.elapsed();
        weft_fabric::Instant::from_ps(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }

    /// Sleeps until a time, but not longer than `at_most`.
    pub(crate) fn sleep_until(self, then: weft_fabric::Instant, at_most: Duration) {
        let rest = Duration::from_nanos(then.saturating_since(self.now()).as_ps() / 1000);
        std::thread::sleep(rest.min(at_most));
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
