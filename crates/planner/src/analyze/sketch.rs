//! A histogram of logarithmic bins: distributions over many orders of magnitude in a few kilobytes.
//!
//! ```text
//!   0 1 2 ... 63 | 64 65 ... 127 | 128 130 ... 254 | 256 260 ...      64 bins for each power of two:
//!   exact        | exact         | 2 values a bin  | 4 a bin          a bin is at most 1/64 of its value wide
//! ```
//! A quantile is off by at most half a bin: 0.8 %.

/// Bins for each power of two.
const SUB: u64 = 64;
const SUB_BITS: u32 = 6;
const BINS: usize = ((64 - SUB_BITS as usize) + 1) * SUB as usize;

/// Counts of values, and the sums of the values, by logarithmic bin.
#[derive(Clone, Debug)]
pub struct LogHistogram {
    counts: Vec<u64>,
    sums: Vec<f64>,
    count: u64,
    sum: f64,
    max: u64,
    min: u64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BINS], sums: vec![0.0; BINS], count: 0, sum: 0.0, max: 0, min: u64::MAX }
    }
}

/// A bin that is not empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Its smallest value.
    pub from: u64,
    /// Its largest value.
    pub to: u64,
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl LogHistogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds a value several times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let at = index(value);
        self.counts[at] += times;
        self.sums[at] += value as f64 * times as f64;
        self.count += times;
        self.sum += value as f64 * times as f64;
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The largest value; 0 of none.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The bins that are not empty, ascending.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        let filled = self.counts.iter().zip(&self.sums).enumerate().filter(|(_, (count, _))| **count > 0);
        filled.map(|(at, (&count, &sum))| {
            let (from, to) = bounds(at);
            Bin { from: from.max(self.min), to: to.min(self.max), count, sum }
        })
    }

    /// The value that a fraction of the values do not exceed; 0 of none.
    pub fn quantile(&self, fraction: f64) -> f64 {
        self.weighted_quantile(fraction, self.count as f64, |bin| bin.count as f64)
    }

    /// The same where each value weighs as much as it is large: "for a random byte, the size of its flow" (VL2 section 3.2).
    pub fn quantile_by_sum(&self, fraction: f64) -> f64 {
        self.weighted_quantile(fraction, self.sum, |bin| bin.sum)
    }

    fn weighted_quantile(&self, fraction: f64, total: f64, weight: impl Fn(&Bin) -> f64) -> f64 {
        let wanted = fraction.clamp(0.0, 1.0) * total;
        let mut below = 0.0;
        let mut last = 0.0;
        for bin in self.bins() {
            let here = weight(&bin);
            last = bin.to as f64;
            if here > 0.0 && below + here >= wanted {
                let within = ((wanted - below) / here).clamp(0.0, 1.0);
                return bin.from as f64 + within * (bin.to - bin.from) as f64;
            }
            below += here;
        }
        last
    }

    /// Fractions of the values, and of their sum, that are larger than `bound`.
    pub fn above(&self, bound: u64) -> (f64, f64) {
        let (mut count, mut sum) = (0.0, 0.0);
        for bin in self.bins() {
            // The bin that the bound divides, in proportion.
            let share = if bin.from > bound {
                1.0
            } else if bin.to <= bound {
                0.0
            } else {
                (bin.to - bound) as f64 / (bin.to - bin.from + 1) as f64
            };
            count += share * bin.count as f64;
            sum += share * bin.sum;
        }
        (ratio(count, self.count as f64), ratio(sum, self.sum))
    }

    /// The fraction of the sum that the largest `fraction` of the values hold.
    pub fn share_of_top(&self, fraction: f64) -> f64 {
        let mut left = fraction * self.count as f64;
        let mut sum = 0.0;
        let bins: Vec<Bin> = self.bins().collect();
        for bin in bins.iter().rev() {
            let part = (left / bin.count as f64).clamp(0.0, 1.0);
            sum += part * bin.sum;
            left -= bin.count as f64;
            if left <= 0.0 {
                break;
            }
        }
        ratio(sum, self.sum)
    }
}

/// a / b, and 0 where b is 0.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn index(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - SUB_BITS;
    (u64::from(shift + 1) * SUB + ((value >> shift) - SUB)) as usize
}

fn bounds(at: usize) -> (u64, u64) {
    let (octave, sub) = (at as u64 / SUB, at as u64 % SUB);
    if octave == 0 {
        return (sub, sub);
    }
    let shift = octave - 1;
    let from = (SUB + sub) << shift;
    (from, from + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_within_its_bin(value: u64) {
            let (from, to) = bounds(index(value));
            prop_assert!(from <= value && value <= to);
            prop_assert!((to - from) as f64 <= from as f64 / 64.0 + 1.0);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(mut values in prop::collection::vec(1u64..1 << 40, 1..200), at in 0.01f64..1.0) {
            let mut histogram = LogHistogram::default();
            values.iter().for_each(|&v| histogram.add(v));
            values.sort_unstable();
            let rank = ((at * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let found = histogram.quantile(at);
            prop_assert!((found - exact).abs() <= exact / 60.0 + 1.0, "{found} {exact}");
        }
    }

    #[test]
    fn shares_of_large_values() {
        let mut histogram = LogHistogram::default();
        histogram.add_many(10, 99);
        histogram.add(9_010);
        assert_eq!(histogram.above(1_000), (0.01, 0.901));
        assert!((histogram.share_of_top(0.01) - 0.901).abs() < 1e-12);
        assert!((histogram.share_of_top(1.0) - 1.0).abs() < 1e-12);
        assert_eq!(histogram.quantile(0.5), 10.0);
        assert_eq!(LogHistogram::default().quantile(0.5), 0.0);
    }
}
