//! Clusters of traffic matrices, and how well a few represent all (VL2 section 3.3, figure 4, after Zhang et al.).
//!
//! The pair of clusters whose union costs least is joined, again and again. A cluster's representative is, cell by cell, the largest of its members: a routing
//! that suits the representative suits each member. The fitting error of a clustering is the fraction of the representatives' traffic by which they exceed
//! the matrices that they stand for (the paper states no formula):
//!
//! ```text
//!   error(k) = sum over matrices M of |R(M) - M| / sum over matrices of |R(M)|       |X|: the sum of its cells
//! ```

use std::cmp::Ordering;

use super::matrix::Series;
use super::sketch::ratio;

/// Matrices that are clustered; of more, evenly spaced ones.
const MAX_MATRICES: usize = 1_000;
/// Multiplications that clustering may take: matrices squared times the cells of one.
const MAX_WORK: f64 = 5e9;
/// Clusters that intervals are assigned to (figure 4: "the 40 best").
pub const CLASSES: usize = 40;

/// What clustering found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    /// Numbers of the intervals that were clustered: all with traffic, or evenly spaced ones.
    pub intervals: Vec<usize>,
    /// Whether some were left out.
    pub is_sampled: bool,
    /// Fitting error for 1, 2, 3, ... clusters.
    pub errors: Vec<f64>,
    /// Cluster of each interval, at [`CLASSES`] clusters or at as many as there are matrices.
    pub class: Vec<usize>,
    /// Number of these clusters.
    pub classes: usize,
}

struct Cluster {
    members: Vec<usize>,
    /// (pair, bytes) of the representative, sorted by pair.
    cells: Vec<(u32, f32)>,
    sum: f64,
}

impl Clusters {
    /// Clusters the matrices of a log.
    pub fn of(series: &Series) -> Self {
        let with_traffic: Vec<usize> = (0..series.matrices.len()).filter(|&at| !series.matrices[at].is_empty()).collect();
        let mut pairs: Vec<(u32, u32)> = series.matrices.iter().flatten().map(|c| c.0).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let cells: usize = series.matrices.iter().map(Vec::len).sum();
        let mean = (cells / with_traffic.len().max(1)).max(1);
        let affordable = (MAX_WORK / mean as f64).sqrt() as usize;
        let intervals = evenly(&with_traffic, affordable.clamp(2, MAX_MATRICES));
        let place = |pair| pairs.binary_search(&pair).expect("all pairs are listed") as u32;
        let row = |&at: &usize| series.matrices[at].iter().map(|&(pair, bytes)| (place(pair), bytes as f32)).collect();
        let mut rows: Vec<Vec<(u32, f32)>> = intervals.iter().map(row).collect();
        if 2 * mean > pairs.len() {
            rows.iter_mut().for_each(|row| *row = filled(row, pairs.len()));
        }
        let is_sampled = intervals.len() < with_traffic.len();
        let (errors, class, classes) = agglomerate(rows, pairs.len());
        Self { intervals, is_sampled, errors, class, classes }
    }

    /// Numbers of consecutive intervals in one cluster.
    pub fn run_lengths(&self) -> Vec<usize> {
        let consecutive: Vec<(usize, usize)> = self.intervals.iter().copied().zip(self.class.iter().copied()).collect();
        consecutive.chunk_by(|a, b| a.1 == b.1 && b.0 == a.0 + 1).map(<[_]>::len).collect()
    }

    /// Intervals from one in a cluster to the next in the same one.
    pub fn recurrences(&self) -> Vec<usize> {
        let mut last = vec![None; self.classes];
        let mut found = Vec::new();
        for (&at, &class) in self.intervals.iter().zip(&self.class) {
            if let Some(before) = last[class].replace(at) {
                found.push(at - before);
            }
        }
        found
    }

    /// The smallest number of clusters whose error is at most `bound`.
    pub fn needed_for(&self, bound: f64) -> Option<usize> {
        self.errors.iter().position(|&error| error <= bound).map(|at| at + 1)
    }
}

/// A row with a cell for every pair, which most have: then rows are compared place by place.
fn filled(row: &[(u32, f32)], pairs: usize) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = (0..pairs as u32).map(|pair| (pair, 0.0)).collect();
    row.iter().for_each(|&(pair, bytes)| all[pair as usize].1 = bytes);
    all
}

fn evenly(all: &[usize], limit: usize) -> Vec<usize> {
    if all.len() <= limit {
        return all.to_vec();
    }
    (0..limit).map(|at| all[at * all.len() / limit]).collect()
}

/// The clusters, and what joining each pair of them costs: computed once for each pair and each joined cluster.
struct Agglomeration {
    clusters: Vec<Option<Cluster>>,
    /// By cluster, then by cluster of a higher number.
    costs: Vec<f64>,
    /// The cheapest partner of a higher number.
    nearest: Vec<(f64, usize)>,
    /// A representative with all its cells.
    dense: Vec<f32>,
}

impl Agglomeration {
    fn new(rows: Vec<Vec<(u32, f32)>>, pairs: usize) -> Self {
        let count = rows.len();
        let cluster = |(at, cells): (usize, Vec<(u32, f32)>)| Some(Cluster { members: vec![at], sum: sum_of(&cells), cells });
        let clusters = rows.into_iter().enumerate().map(cluster).collect();
        let (costs, nearest) = (vec![f64::INFINITY; count * count], vec![(f64::INFINITY, usize::MAX); count]);
        let mut all = Self { clusters, costs, nearest, dense: vec![0.0; pairs] };
        for at in 0..count {
            all.update_costs(at, at + 1);
            all.nearest[at] = all.nearest_above(at);
        }
        all
    }

    /// Computes the costs of joining a cluster with all clusters of number `from` and higher. What two representatives have in common counts once in
    /// their union.
    fn update_costs(&mut self, at: usize, from: usize) {
        let count = self.clusters.len();
        let mine = self.clusters[at].take().expect("alive");
        mine.cells.iter().for_each(|&(pair, bytes)| self.dense[pair as usize] = bytes);
        for other in from..count {
            let Some(theirs) = &self.clusters[other] else { continue };
            let common = common(&self.dense, &theirs.cells);
            let (m, n) = (mine.members.len() as f64, theirs.members.len() as f64);
            let union = mine.sum + theirs.sum - common;
            self.costs[at.min(other) * count + at.max(other)] = (m + n) * union - m * mine.sum - n * theirs.sum;
        }
        mine.cells.iter().for_each(|&(pair, _)| self.dense[pair as usize] = 0.0);
        self.clusters[at] = Some(mine);
    }

    fn nearest_above(&self, at: usize) -> (f64, usize) {
        let count = self.clusters.len();
        let alive = (at + 1..count).filter(|&other| self.clusters[other].is_some());
        let costs = alive.map(|other| (self.costs[at * count + other], other));
        costs.min_by(|x, y| x.0.total_cmp(&y.0)).unwrap_or((f64::INFINITY, usize::MAX))
    }

    /// Joins the pair that is cheapest to join; gives its cost.
    fn join(&mut self) -> f64 {
        let count = self.clusters.len();
        let alive = (0..count).filter(|&at| self.clusters[at].is_some());
        let a = alive.min_by(|&x, &y| self.nearest[x].0.total_cmp(&self.nearest[y].0)).expect("two clusters are left");
        let (cost, b) = self.nearest[a];
        let other = self.clusters[b].take().expect("alive");
        let cluster = self.clusters[a].as_mut().expect("alive");
        cluster.cells = larger_of(&cluster.cells, &other.cells);
        cluster.sum = sum_of(&cluster.cells);
        cluster.members.extend(other.members);
        self.update_costs(a, 0);
        for at in 0..=a.max(b) {
            if self.clusters[at].is_none() {
                continue;
            }
            if at == a || self.nearest[at].1 == a || self.nearest[at].1 == b {
                self.nearest[at] = self.nearest_above(at);
            } else if at < a && self.costs[at * count + a] < self.nearest[at].0 {
                self.nearest[at] = (self.costs[at * count + a], a);
            }
        }
        cost
    }
}

/// What a dense representative and another one have in common.
fn common(dense: &[f32], cells: &[(u32, f32)]) -> f64 {
    if cells.len() < dense.len() {
        return cells.iter().map(|&(pair, bytes)| f64::from(dense[pair as usize].min(bytes))).sum();
    }
    // Eight sums, which the compiler keeps in a vector; in double precision from one block to the next.
    let block = |(dense, cells): (&[f32], &[(u32, f32)])| {
        let mut sums = [0f32; 8];
        let (dense, cells) = (dense.chunks_exact(8), cells.chunks_exact(8));
        let rest: f32 = dense.remainder().iter().zip(cells.remainder()).map(|(a, (_, b))| a.min(*b)).sum();
        for (dense, cells) in dense.zip(cells) {
            for lane in 0..8 {
                sums[lane] += dense[lane].min(cells[lane].1);
            }
        }
        f64::from(sums.iter().sum::<f32>() + rest)
    };
    dense.chunks(512).zip(cells.chunks(512)).map(block).sum()
}

fn sum_of(cells: &[(u32, f32)]) -> f64 {
    cells.iter().map(|&(_, bytes)| f64::from(bytes)).sum()
}

/// Cell by cell, the larger of two representatives.
fn larger_of(a: &[(u32, f32)], b: &[(u32, f32)]) -> Vec<(u32, f32)> {
    let mut joined = Vec::with_capacity(a.len().max(b.len()));
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        joined.push(match x.0.cmp(&y.0) {
            Ordering::Less => x,
            Ordering::Greater => y,
            Ordering::Equal => (x.0, x.1.max(y.1)),
        });
        i += usize::from(x.0 <= y.0);
        j += usize::from(y.0 <= x.0);
    }
    joined.extend_from_slice(&a[i..]);
    joined.extend_from_slice(&b[j..]);
    joined
}

fn agglomerate(rows: Vec<Vec<(u32, f32)>>, pairs: usize) -> (Vec<f64>, Vec<usize>, usize) {
    let count = rows.len();
    let total: f64 = rows.iter().map(|row| sum_of(row)).sum();
    let mut all = Agglomeration::new(rows, pairs);
    let mut errors = vec![0.0; count];
    let mut class = labels(&all.clusters, count);
    let mut excess = 0.0;
    for left in (1..count).rev() {
        excess += all.join().max(0.0);
        errors[left - 1] = ratio(excess, total + excess);
        if left == CLASSES {
            class = labels(&all.clusters, count);
        }
    }
    (errors, class, count.min(CLASSES))
}

/// The cluster of each member, numbered by first appearance.
fn labels(clusters: &[Option<Cluster>], count: usize) -> Vec<usize> {
    let mut of = vec![0; count];
    for (label, cluster) in clusters.iter().flatten().enumerate() {
        cluster.members.iter().for_each(|&member| of[member] = label);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(rows: &[Vec<f64>]) -> Series {
        let cells = |row: &Vec<f64>| row.iter().enumerate().map(|(at, &x)| ((0, at as u32), x)).collect();
        Series { first: 0, interval_ns: 1, matrices: rows.iter().map(cells).collect() }
    }

    #[test]
    fn two_patterns_need_two_clusters() {
        let rows: Vec<Vec<f64>> = (0..10).map(|at| if at % 5 < 3 { vec![10.0, 0.0] } else { vec![0.0, 10.0] }).collect();
        let found = Clusters::of(&series(&rows));
        assert_eq!(found.errors[1], 0.0);
        assert_eq!(found.errors[0], 0.5); // the representative has both cells in every interval
        assert_eq!(found.needed_for(0.1), Some(2));
    }

    #[test]
    fn runs_and_recurrences() {
        let found = Clusters { intervals: vec![0, 1, 2, 4, 5], class: vec![0, 0, 1, 1, 0], classes: 2, ..Clusters::default() };
        assert_eq!(found.run_lengths(), [2, 1, 1, 1]);
        assert_eq!(found.recurrences(), [1, 2, 4]);
    }

    proptest! {
        #[test]
        fn the_error_is_that_of_the_definition_and_falls(rows in prop::collection::vec(prop::collection::vec(0u8..50, 3), 2..12)) {
            let rows: Vec<Vec<f64>> = rows.iter().map(|r| r.iter().map(|&x| f64::from(x) + 1.0).collect()).collect();
            let found = Clusters::of(&series(&rows));
            let total: f64 = rows.iter().flatten().sum();
            let largest: f64 = (0..3).map(|c| rows.iter().map(|r| r[c]).fold(0.0, f64::max)).sum();
            let provided = largest * rows.len() as f64;
            let literal = (provided - total) / provided;
            prop_assert!((found.errors[0] - literal).abs() < 1e-6);
            prop_assert!(found.errors.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9));
            prop_assert_eq!(*found.errors.last().expect("one"), 0.0);
        }
    }
}
