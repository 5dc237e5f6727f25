//! Pacing: segments leave at a rate a little above a window per round trip, instead of all that the window has room for at once.

/// When the next segment may leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// In picoseconds.
    at: u64,
    /// The engine has been asked to poll then.
    announced: bool,
}

/// Whether a segment may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// At that time; not reported before.
    Later(u64),
    /// At the time that was reported.
    Announced,
}

impl Pace {
    pub fn turn(&mut self, now: u64) -> Turn {
        match now >= self.at {
            true => Turn::Now,
            false if std::mem::replace(&mut self.announced, true) => Turn::Announced,
            false => Turn::Later(self.at),
        }
    }

    /// Whether a time was reported that has not come.
    pub fn is_announced(&self) -> bool {
        self.announced
    }

    /// The time that was reported has come.
    pub fn on_time(&mut self) {
        self.announced = false;
    }

    /// A segment leaves: the next one follows at the rate of Linux, twice a window per round trip while the window may double, 1.2 times
    /// otherwise.
    pub fn leaves(&mut self, now: u64, srtt: u64, window: u32, ssthresh: u32) {
        let percent = if window < ssthresh / 2 { 200 } else { 120 };
        let interval = u128::from(srtt) * 100 / (u128::from(window.max(1)) * percent);
        self.at = now.saturating_add(interval as u64);
    }
}
