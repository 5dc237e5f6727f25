//! Clocks that count in 64 bits: picoseconds for what is simulated (213 days), nanoseconds for what decides and runs (584 years).
//!
//! ```text
//!   Instant, Duration            picoseconds    traffic, simulated worlds, records
//!        | to_ns: rounds down    ^ to_ps: exact
//!        v                       |
//!   NsInstant, NsDuration        nanoseconds    control machines and daemons
//! ```
//! A simulated world converts where it hands its time to a machine. Rounding down is safe: a deadline is a whole number of nanoseconds, so
//! a world that has reached it in picoseconds has reached it in nanoseconds too.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use crate::quantity::{UnitError, parse_wide, write_quantity};

/// Picoseconds in a second.
pub const PS_PER_S: u64 = 1_000_000_000_000;
/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
const PS_PER_NS: u64 = PS_PER_S / NS_PER_S;

// Literals below: a named constant in an alias breaks the compiler (1.95: "broken MIR").

/// A point in time, in picoseconds since the start of the run.
pub type Instant = TimePoint<1_000_000_000_000>;
/// A span of time in picoseconds.
pub type Duration = TimeSpan<1_000_000_000_000>;
/// A point in time, in nanoseconds since the start of the run or of the daemon.
pub type NsInstant = TimePoint<1_000_000_000>;
/// A span of time in nanoseconds.
pub type NsDuration = TimeSpan<1_000_000_000>;

/// A point in time, counted from the start of the run in ticks of 1 / `TICKS_PER_S` seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimePoint<const TICKS_PER_S: u64>(u64);

/// A span of time in ticks of 1 / `TICKS_PER_S` seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeSpan<const TICKS_PER_S: u64>(u64);

impl<const TICKS_PER_S: u64> TimePoint<TICKS_PER_S> {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Seconds since the start, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / TICKS_PER_S as f64
    }

    /// The time since `earlier`, or zero if that is later.
    pub const fn saturating_since(self, earlier: Self) -> TimeSpan<TICKS_PER_S> {
        TimeSpan(self.0.saturating_sub(earlier.0))
    }

    /// This point moved by `span`, or `MAX`.
    pub const fn saturating_add(self, span: TimeSpan<TICKS_PER_S>) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Instant {
    /// A point `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The same point on a clock of nanoseconds, rounded down; `MAX` stays `MAX`.
    pub const fn to_ns(self) -> NsInstant {
        TimePoint(ns_of_ps(self.0))
    }
}

impl NsInstant {
    /// A point `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The same point on a clock of picoseconds, exact; `MAX` if that clock ends earlier.
    pub const fn to_ps(self) -> Instant {
        TimePoint(self.0.saturating_mul(PS_PER_NS))
    }
}

impl<const TICKS_PER_S: u64> TimeSpan<TICKS_PER_S> {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * (TICKS_PER_S / NS_PER_S))
    }

    /// A span of microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * (TICKS_PER_S / 1_000_000))
    }

    /// A span of milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * (TICKS_PER_S / 1_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * TICKS_PER_S)
    }

    /// The nearest tick to `s` seconds; saturates at 0 and `MAX`.
    pub fn from_secs_f64(s: f64) -> Self {
        Self(libm::round(s * TICKS_PER_S as f64) as u64)
    }

    /// The span in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / TICKS_PER_S as f64
    }

    /// The span times `factor`, or `MAX`.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Duration {
    /// A span of picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// The span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The span in whole nanoseconds, rounded down; `MAX` stays `MAX`.
    pub const fn to_ns(self) -> NsDuration {
        TimeSpan(ns_of_ps(self.0))
    }
}

impl NsDuration {
    /// The span in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span in picoseconds, exact; `MAX` if they do not fit.
    pub const fn to_ps(self) -> Duration {
        TimeSpan(self.0.saturating_mul(PS_PER_NS))
    }

    /// The span as the operating system's calls take it.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for NsDuration {
    /// Saturates at `MAX`.
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

const fn ns_of_ps(ps: u64) -> u64 {
    if ps == u64::MAX { u64::MAX } else { ps / PS_PER_NS }
}

impl<const TICKS_PER_S: u64> Add<TimeSpan<TICKS_PER_S>> for TimePoint<TICKS_PER_S> {
    type Output = Self;
    fn add(self, span: TimeSpan<TICKS_PER_S>) -> Self {
        Self(self.0 + span.0)
    }
}

impl<const TICKS_PER_S: u64> AddAssign<TimeSpan<TICKS_PER_S>> for TimePoint<TICKS_PER_S> {
    fn add_assign(&mut self, span: TimeSpan<TICKS_PER_S>) {
        self.0 += span.0;
    }
}

impl<const TICKS_PER_S: u64> Sub for TimePoint<TICKS_PER_S> {
    type Output = TimeSpan<TICKS_PER_S>;
    fn sub(self, earlier: Self) -> Self::Output {
        TimeSpan(self.0 - earlier.0)
    }
}

impl<const TICKS_PER_S: u64> Add for TimeSpan<TICKS_PER_S> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl<const TICKS_PER_S: u64> Sub for TimeSpan<TICKS_PER_S> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl<const TICKS_PER_S: u64> Mul<u64> for TimeSpan<TICKS_PER_S> {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl<const TICKS_PER_S: u64> Div<u64> for TimeSpan<TICKS_PER_S> {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

/// Names of units, and their picoseconds.
const UNITS: &[(&str, u128)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];

impl<const TICKS_PER_S: u64> FromStr for TimeSpan<TICKS_PER_S> {
    type Err = UnitError;

    /// Rounds half up to a tick.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = |what| UnitError { text: text.to_owned(), what, example: "`60s`, `100us`, `5ms` or `1.5s`" };
        let ps = parse_wide(text, UNITS).ok_or_else(|| error("a time"))?;
        let tick = u128::from(PS_PER_S / TICKS_PER_S);
        let most = if TICKS_PER_S == PS_PER_S { "a time of at most 213 days" } else { "a time of at most 584 years" };
        u64::try_from((ps + tick / 2) / tick).map(Self).map_err(|_| error(most))
    }
}

impl<const TICKS_PER_S: u64> fmt::Display for TimeSpan<TICKS_PER_S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = if TICKS_PER_S == PS_PER_S { "ps" } else { "ns" };
        let units =
            [("s", TICKS_PER_S), ("ms", TICKS_PER_S / 1_000), ("us", TICKS_PER_S / 1_000_000), ("ns", TICKS_PER_S / NS_PER_S)];
        write_quantity(f, self.0, &units, base)
    }
}

impl<const TICKS_PER_S: u64> fmt::Debug for TimeSpan<TICKS_PER_S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const TICKS_PER_S: u64> fmt::Display for TimePoint<TICKS_PER_S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&TimeSpan::<TICKS_PER_S>(self.0), f)
    }
}

impl<const TICKS_PER_S: u64> fmt::Debug for TimePoint<TICKS_PER_S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nanoseconds_last_584_years() {
        let year = NsDuration::from_secs(365 * 86_400);
        let late = NsInstant::ZERO + year * 500;
        assert_eq!((late + NsDuration::from_ns(1)) - late, NsDuration::from_ns(1));
        assert_eq!(late.to_ps(), Instant::MAX, "the clock of picoseconds has ended");
        assert!("500000h".parse::<Duration>().is_err() && "4380000h".parse() == Ok(year * 500));
        assert_eq!("6000000h".parse::<NsDuration>().unwrap_err().what, "a time of at most 584 years");
    }

    #[test]
    fn never_stays_never() {
        assert_eq!((Instant::MAX.to_ns(), NsInstant::MAX.to_ps()), (NsInstant::MAX, Instant::MAX));
        assert_eq!((Duration::MAX.to_ns(), NsDuration::MAX.to_ps()), (NsDuration::MAX, Duration::MAX));
    }

    proptest! {
        /// A world that has reached a machine's deadline hands it a time that is not before the deadline.
        #[test]
        fn deadlines_are_reached(deadline in 0..u64::MAX / PS_PER_NS, late in 0u64..10_000) {
            let deadline = NsInstant::from_ns(deadline);
            let now = deadline.to_ps().saturating_add(Duration::from_ps(late));
            prop_assert!(now.to_ns() >= deadline);
            prop_assert!(now.to_ns().to_ps() <= now);
            prop_assert_eq!(deadline.to_ps().to_ns(), deadline);
        }

        #[test]
        fn both_clocks_read_and_write_the_same_text(ns in 1..u64::MAX / PS_PER_NS) {
            let (ns, ps) = (NsDuration::from_ns(ns), Duration::from_ns(ns));
            prop_assert_eq!(ns.to_string(), ps.to_string());
            prop_assert_eq!(ns.to_string().parse(), Ok(ns));
        }
    }
}
