//! Random numbers: PCG with a stream of its own for each component, so that a component that draws once more
//! changes nothing elsewhere. All draws are integer arithmetic or IEEE basic operations: the same on any machine.

pub use rand_pcg::Pcg64;

/// Who draws. The number is the PCG stream: never renumber, or every recorded result changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Destinations, sizes and start times of flows.
    Traffic = 1,
    /// Hash seeds of switches.
    HashSeeds = 2,
    /// Intermediate switches of VLB.
    Vlb = 3,
    /// The scheduler's choices.
    Scheduler = 4,
    /// The order in which the AIMD model visits flows.
    Aimd = 5,
    /// The orders in which SPAIN packs paths into VLANs.
    Spain = 6,
    /// What tenants' hosts transfer in which order.
    Tenants = 7,
}

/// The generator of `stream` for a run's seed.
pub fn stream(seed: u64, stream: Stream) -> Pcg64 {
    Pcg64::new(u128::from(mix(seed)) << 64 | u128::from(mix(!seed)), stream as u128)
}

/// A 64-bit finaliser (splitmix64): every input bit changes every output bit with probability one half.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A 64-bit hash reduced to `0..n` without division.
#[inline]
pub const fn reduce(hash: u64, n: usize) -> usize {
    ((hash as u128 * n as u128) >> 64) as usize
}
