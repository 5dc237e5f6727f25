//! Traffic matrices between groups, one for each interval (VL2 section 3.3).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Cells that are kept, over all intervals: about 400 MB.
pub const MAX_CELLS: usize = 12_000_000;
/// Intervals from the first to the last.
pub const MAX_INTERVALS: i64 = 1_000_000;

/// Bytes by (group, group), of one interval.
pub type Cells = FxHashMap<(u32, u32), f64>;

/// Why a flow cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Too many cells.
    Cells,
    /// Too many intervals between the first and the last.
    Intervals,
}

/// The matrices of a log.
#[derive(Debug)]
pub struct Matrices {
    interval_ns: i64,
    by_interval: BTreeMap<i64, Cells>,
    cells: usize,
}

impl Matrices {
    /// No matrices yet; they begin at multiples of the interval.
    pub const fn new(interval_ns: i64) -> Self {
        Self { interval_ns, by_interval: BTreeMap::new(), cells: 0 }
    }

    /// Spreads the bytes of a flow evenly over its time.
    ///
    /// # Errors
    /// The log needs more memory than allowed.
    pub fn add(&mut self, pair: (u32, u32), start: i64, end: i64, bytes: f64) -> Result<(), Limit> {
        let (first, last) = (start.div_euclid(self.interval_ns), (end - 1).max(start).div_euclid(self.interval_ns));
        let lowest = self.by_interval.keys().next().map_or(first, |&it| it.min(first));
        let highest = self.by_interval.keys().next_back().map_or(last, |&it| it.max(last));
        if highest - lowest >= MAX_INTERVALS {
            return Err(Limit::Intervals);
        }
        for at in first..=last {
            let (from, to) = (at * self.interval_ns, (at + 1) * self.interval_ns);
            let part = if first == last { 1.0 } else { (end.min(to) - start.max(from)) as f64 / (end - start) as f64 };
            let cells = self.by_interval.entry(at).or_default();
            let before = cells.len();
            *cells.entry(pair).or_default() += bytes * part;
            self.cells += cells.len() - before;
        }
        if self.cells > MAX_CELLS { Err(Limit::Cells) } else { Ok(()) }
    }

    /// The matrices in order of time, those without traffic included; each sorted by sending and then by receiving group.
    pub fn into_series(self) -> Series {
        let first = self.by_interval.keys().next().copied().unwrap_or(0);
        let mut matrices = Vec::new();
        for (at, cells) in self.by_interval {
            matrices.resize_with((at - first) as usize, Vec::new);
            let mut cells: Vec<((u32, u32), f64)> = cells.into_iter().collect();
            cells.sort_unstable_by_key(|&(pair, _)| pair);
            matrices.push(cells);
        }
        Series { first, interval_ns: self.interval_ns, matrices }
    }
}

/// Matrices in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Number of the first interval, from 1970 (or from the log's own zero).
    pub first: i64,
    /// Length of an interval.
    pub interval_ns: i64,
    /// Each as ((from, to), bytes), sorted.
    pub matrices: Vec<Vec<((u32, u32), f64)>>,
}

impl Series {
    /// The sum of all matrices, sorted.
    pub fn total(&self) -> Vec<((u32, u32), f64)> {
        let mut sum: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for &(pair, bytes) in self.matrices.iter().flatten() {
            *sum.entry(pair).or_default() += bytes;
        }
        sum.into_iter().collect()
    }

    /// Change from each interval to the next: the sum of the absolute differences of all pairs, as a fraction of the larger total. 0: the same matrix;
    /// 2 at most.
    pub fn changes(&self) -> Vec<f64> {
        self.matrices.windows(2).filter_map(|pair| change(&pair[0], &pair[1])).collect()
    }
}

fn change(a: &[((u32, u32), f64)], b: &[((u32, u32), f64)]) -> Option<f64> {
    let total = |cells: &[((u32, u32), f64)]| cells.iter().map(|c| c.1).sum::<f64>();
    let larger = total(a).max(total(b));
    if larger <= 0.0 {
        return None;
    }
    let (mut i, mut j, mut difference) = (0, 0, 0.0);
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.0.cmp(&y.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Less => {
                difference += a[i].1;
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                difference += b[j].1;
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                difference += (a[i].1 - b[j].1).abs();
                i += 1;
                j += 1;
            }
        }
    }
    Some(difference / larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spread_over_the_flow_s_time() {
        let mut matrices = Matrices::new(100);
        matrices.add((0, 1), 50, 350, 300.0).expect("fits");
        matrices.add((1, 0), 200, 200, 7.0).expect("fits");
        matrices.add((0, 1), 600, 700, 1.0).expect("fits");
        let series = matrices.into_series();
        let sums: Vec<f64> = series.matrices.iter().map(|m| m.iter().map(|c| c.1).sum()).collect();
        assert_eq!(sums, [50.0, 100.0, 107.0, 50.0, 0.0, 0.0, 1.0]);
        assert_eq!(series.total(), [((0, 1), 301.0), ((1, 0), 7.0)]);
    }

    #[test]
    fn change_is_zero_of_the_same_and_two_of_disjoint_matrices() {
        let (a, b) = (vec![((0, 1), 5.0)], vec![((1, 0), 5.0)]);
        assert_eq!(change(&a, &a), Some(0.0));
        assert_eq!(change(&a, &b), Some(2.0));
        assert_eq!(change(&a, &[]), Some(1.0));
        assert_eq!(change(&[], &[]), None);
    }

    #[test]
    fn a_clock_of_another_decade_is_refused() {
        let mut matrices = Matrices::new(1_000_000_000);
        matrices.add((0, 1), 0, 0, 1.0).expect("fits");
        assert_eq!(matrices.add((0, 1), 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, 1.0), Err(Limit::Intervals));
    }
}
