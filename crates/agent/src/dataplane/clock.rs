//! The kernel's monotonic clock.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock that the programs read.
///
/// # Errors
/// Those of the system.
pub(crate) fn monotonic_ns() -> std::io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
