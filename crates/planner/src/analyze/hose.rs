//! How well the hose model describes the traffic, and so how well Valiant load balancing suits it (VL2 section 4.2.2): a network that carries all matrices
//! within each group's rates in and out needs capacity for the groups' peaks, not for each pair's.

use serde::Serialize;

use super::matrix::Series;
use super::sketch::ratio;

/// The hose of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hose {
    /// Sum over the groups of their peak rates out, in bits per second.
    pub sum_of_peaks_out_bps: f64,
    /// Sum over the groups of their peak rates in.
    pub sum_of_peaks_in_bps: f64,
    /// Largest rate of all groups together.
    pub peak_of_sum_bps: f64,
    /// Sum over the pairs of their peak rates: what a network needs that reserves capacity for each pair.
    pub sum_of_pair_peaks_bps: f64,
    /// The latter over the sum of the peaks out: how much more a design by pairs needs than one by hoses.
    pub pairs_over_hose: f64,
    /// Mean over intervals of the busiest group's rate as a fraction of its own peak.
    pub busiest_of_its_peak: f64,
    /// Mean rate of a group out, as a fraction of its peak.
    pub mean_of_peak: f64,
    /// Fraction of all (interval, group) with a rate out of at least nine tenths of the group's peak.
    pub near_peak: f64,
    /// The groups with the largest peaks.
    pub groups: Vec<GroupPeak>,
}

/// The peaks of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupPeak {
    /// Its name.
    pub group: String,
    /// Largest rate out over an interval, in bits per second.
    pub out_bps: f64,
    /// Largest rate in.
    pub in_bps: f64,
}

/// Groups that are listed.
const LISTED: usize = 10;

impl Hose {
    /// Computes it; traffic inside a group does not use the network between groups.
    pub fn of(series: &Series, names: &[String]) -> Self {
        let count = names.len();
        let to_bps = 8e9 / series.interval_ns.max(1) as f64;
        let (mut peak_out, mut peak_in, mut sum_out) = (vec![0f64; count], vec![0f64; count], vec![0f64; count]);
        let mut rows = Vec::with_capacity(series.matrices.len());
        let mut peak_of_sum: f64 = 0.0;
        for cells in &series.matrices {
            let (mut out, mut into) = (vec![0f64; count], vec![0f64; count]);
            for &((from, to), bytes) in cells.iter().filter(|((from, to), _)| from != to) {
                out[from as usize] += bytes * to_bps;
                into[to as usize] += bytes * to_bps;
            }
            peak_of_sum = peak_of_sum.max(out.iter().sum());
            for at in 0..count {
                peak_out[at] = peak_out[at].max(out[at]);
                peak_in[at] = peak_in[at].max(into[at]);
                sum_out[at] += out[at];
            }
            rows.push(out);
        }
        let (busiest, near) = against_peaks(&rows, &peak_out);
        let sum_of_peaks_out_bps: f64 = peak_out.iter().sum();
        let pair_peaks = pair_peaks(series) * to_bps;
        let mut groups: Vec<GroupPeak> =
            (0..count).map(|at| GroupPeak { group: names[at].clone(), out_bps: peak_out[at], in_bps: peak_in[at] }).collect();
        groups.sort_by(|a, b| b.out_bps.max(b.in_bps).total_cmp(&a.out_bps.max(a.in_bps)).then(a.group.cmp(&b.group)));
        groups.truncate(LISTED);
        Self {
            sum_of_peaks_out_bps,
            sum_of_peaks_in_bps: peak_in.iter().sum(),
            peak_of_sum_bps: peak_of_sum,
            sum_of_pair_peaks_bps: pair_peaks,
            pairs_over_hose: ratio(pair_peaks, sum_of_peaks_out_bps),
            busiest_of_its_peak: busiest,
            mean_of_peak: ratio(sum_out.iter().sum(), sum_of_peaks_out_bps * series.matrices.len() as f64),
            near_peak: near,
            groups,
        }
    }
}

/// Mean over intervals of the largest fraction of a peak; and how often a group is near its own.
fn against_peaks(rows: &[Vec<f64>], peaks: &[f64]) -> (f64, f64) {
    let (mut busiest, mut near) = (0.0, 0u64);
    for out in rows {
        let fractions: Vec<f64> = out.iter().zip(peaks).map(|(&rate, &peak)| ratio(rate, peak)).collect();
        busiest += fractions.iter().copied().fold(0.0, f64::max);
        near += fractions.iter().filter(|&&f| f >= 0.9).count() as u64;
    }
    let groups = peaks.iter().filter(|&&peak| peak > 0.0).count();
    (ratio(busiest, rows.len() as f64), ratio(near as f64, (rows.len() * groups) as f64))
}

/// Sum over pairs of different groups of their largest bytes of an interval.
fn pair_peaks(series: &Series) -> f64 {
    let mut cells: Vec<((u32, u32), f64)> = series.matrices.iter().flatten().filter(|((a, b), _)| a != b).copied().collect();
    cells.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    cells.dedup_by_key(|cell| cell.0);
    cells.iter().map(|cell| cell.1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_that_changes_needs_pairs_but_not_hoses() {
        // Group 0 sends 1 byte to another group in each interval.
        let matrices = (1..=4).map(|to| vec![((0, to), 1.0)]).collect();
        let series = Series { first: 0, interval_ns: 8_000_000_000, matrices };
        let names: Vec<String> = (0..5).map(|n| n.to_string()).collect();
        let hose = Hose::of(&series, &names);
        assert_eq!((hose.sum_of_peaks_out_bps, hose.sum_of_pair_peaks_bps, hose.pairs_over_hose), (1.0, 4.0, 4.0));
        assert_eq!((hose.peak_of_sum_bps, hose.mean_of_peak, hose.near_peak), (1.0, 1.0, 1.0));
    }
}
