//! Counts of durations in buckets of 1/128 of their value: quantiles within 0.8 %, the mean exact. Integers only, so that it is the same
//! on any machine.

#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// NaN without values.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// The middle of the bucket in which the value of that rank lies; NaN without values.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let rank = libm::ceil(fraction * self.count as f64) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                return (lowest(bucket) as f64 + lowest(bucket + 1) as f64) / 2.0;
            }
        }
        f64::NAN
    }
}

const BITS: u32 = 7;

#[inline]
fn bucket(value: u64) -> usize {
    let shift = (64 - BITS).saturating_sub(value.leading_zeros() + 1);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> BITS).saturating_sub(1);
    // Above the first 2^8 values a shift's buckets begin at half: their numbers overlap those of the shift before.
    (bucket - (shift << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_hold_their_values(value in 0u64..u64::MAX >> 8) {
            let b = bucket(value);
            prop_assert!(lowest(b) <= value && value < lowest(b + 1), "{value} in {b}: {} to {}", lowest(b), lowest(b + 1));
            prop_assert!((lowest(b + 1) - lowest(b)) as f64 <= 1.0 + value as f64 / 128.0);
        }

        #[test]
        fn quantiles_are_near(values in prop::collection::vec(1u64..1 << 40, 1..200)) {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.add(v));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for fraction in [0.5, 0.99] {
                let rank = (fraction * values.len() as f64).ceil() as usize;
                let exact = sorted[rank.max(1) - 1] as f64;
                prop_assert!((h.quantile(fraction) / exact - 1.0).abs() < 0.01 || (h.quantile(fraction) - exact).abs() < 1.0);
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((h.mean() / mean - 1.0).abs() < 1e-9);
        }
    }
}
