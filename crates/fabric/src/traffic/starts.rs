//! When flows begin that do not all begin together.

use crate::ids::HostId;
use crate::time::{Duration, Instant};
use crate::traffic::random::{Draw, key};

/// A start that is uniform in `[start, start + spread)`, of the `nth` flow.
pub(super) fn spread_start(start: Instant, spread: Duration, seed: u64, source: HostId, nth: u64) -> Instant {
    let hash = key(seed, Draw::Start, u64::from(source.0), nth);
    let offset = (u128::from(hash) * u128::from(spread.as_ps())) >> 64;
    start.saturating_add(Duration::from_ps(offset as u64))
}

/// Starts that must be sorted are held in memory: 32 bytes each.
pub(super) const MAX_SPREAD_FLOWS: u64 = 100_000_000;
