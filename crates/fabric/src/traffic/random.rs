//! Draws of the traffic generators. A draw belongs to a flow, not to a sequence: it depends on the run's seed, on what is
//! drawn, on the source and on the number of the flow among those of its source, and on nothing else. So the n-th flow of a
//! host is the same whatever the other hosts do, and changing the distribution of sizes leaves the destinations alone.

use rand::Rng;

use crate::rng::{Pcg64, Stream, mix, reduce};

/// What is drawn. The number is part of the seed: never renumber, or every recorded result changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draw {
    Destination = 1,
    Size = 2,
    Start = 3,
    Gap = 4,
    Concurrency = 5,
    Order = 6,
    Bijection = 7,
    Hotspots = 8,
    Senders = 9,
    Phase = 10,
    Key = 11,
}

/// The generator of one draw of the flow `nth` of `source`.
pub(super) fn generator(seed: u64, draw: Draw, source: u64, nth: u64) -> Pcg64 {
    let high = key(seed, draw, source, nth);
    Pcg64::new(u128::from(high) << 64 | u128::from(mix(high ^ GOLDEN)), Stream::Traffic as u128)
}

/// A 64-bit key of a draw.
pub(super) fn key(seed: u64, draw: Draw, source: u64, nth: u64) -> u64 {
    [seed, draw as u64, source, nth].into_iter().fold(0, |hash, word| mix((hash ^ word).wrapping_add(GOLDEN)))
}

/// Uniform in `0..n`.
pub(super) fn below(rng: &mut Pcg64, n: usize) -> usize {
    reduce(rng.next_u64(), n)
}

/// Uniform in `[0, 1)`: a multiple of 2^-53.
pub(super) fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Exponential with mean 1.
pub(super) fn exponential(rng: &mut Pcg64) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// Normal with mean 0 and variance 1 (Box and Muller).
pub(super) fn normal(rng: &mut Pcg64) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(2.0 * std::f64::consts::PI * unit(rng))
}

/// Shuffles in place (Fisher and Yates).
pub(super) fn shuffle<T>(rng: &mut Pcg64, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last + 1));
    }
}

/// A random permutation of `0..n` that takes no memory: a Feistel network over the next power of two, walked until the
/// value falls inside. It gives each host of a shuffle an order of its own without a table of n squared.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedPermutation {
    n: u64,
    low_bits: u32,
    low: u64,
    high: u64,
    key: u64,
}

impl KeyedPermutation {
    pub(super) fn new(n: u64, key: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        let ones = |bits: u32| (1u64 << bits) - 1;
        Self { n, low_bits, low: ones(low_bits), high: ones(bits - low_bits), key }
    }

    /// Where `i` goes.
    pub(super) fn apply(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut value = self.network(i);
        while value >= self.n {
            value = self.network(value);
        }
        value
    }

    /// Each half in turn is changed by a hash of the other: a permutation, whatever the hash.
    fn network(&self, value: u64) -> u64 {
        let (mut high, mut low) = (value >> self.low_bits, value & self.low);
        for round in (0..FEISTEL_ROUNDS).step_by(2) {
            high ^= self.hash(low, round) & self.high;
            low ^= self.hash(high, round + 1) & self.low;
        }
        high << self.low_bits | low
    }

    fn hash(&self, half: u64, round: u64) -> u64 {
        mix(self.key.wrapping_add((half << 3 | round).wrapping_mul(GOLDEN)))
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// At most 8: the hash takes three bits of the round.
const FEISTEL_ROUNDS: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keyed_permutations_are_permutations(n in 1u64..700, key: u64) {
            let permutation = KeyedPermutation::new(n, key);
            let mut images: Vec<u64> = (0..n).map(|i| permutation.apply(i)).collect();
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..n));
        }
    }

    #[test]
    fn every_place_is_equally_likely_under_a_keyed_permutation() {
        for n in [2u64, 3, 15, 16, 63] {
            let trials = 4_000 * n;
            for item in [0, n - 1] {
                let mut counts = vec![0u64; n as usize];
                for t in 0..trials {
                    counts[KeyedPermutation::new(n, key(1, Draw::Order, t, n)).apply(item) as usize] += 1;
                }
                let chi2: f64 = counts.iter().map(|&c| (c as f64 - 4_000.0).powi(2) / 4_000.0).sum();
                let freedom = (n - 1) as f64;
                assert!(chi2 < freedom + 4.5 * (2.0 * freedom).sqrt() + 5.0, "n = {n}, item = {item}: {chi2}");
            }
        }
    }

    #[test]
    fn uniform_and_normal_draws_have_their_moments() {
        let n = 200_000;
        let mut rng = generator(7, Draw::Size, 0, 0);
        let mut sums = [0.0; 4];
        for _ in 0..n {
            let (u, z) = (unit(&mut rng), normal(&mut rng));
            assert!((0.0..1.0).contains(&u));
            for (sum, x) in sums.iter_mut().zip([u, u * u, z, z * z]) {
                *sum += x / f64::from(n);
            }
        }
        for (got, want) in sums.into_iter().zip([0.5, 1.0 / 3.0, 0.0, 1.0]) {
            assert!((got - want).abs() < 0.01, "{got} for {want}");
        }
    }
}
