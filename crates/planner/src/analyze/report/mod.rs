//! What a study found, as numbers; and the forms in which it is printed and written.

mod files;
mod html;
mod svg;
pub mod table;

use serde::Serialize;

use super::cluster::{CLASSES, Clusters};
use super::hose::Hose;
use super::matrix::Series;
use super::sketch::{LogHistogram, ratio};
use super::study::Study;
use super::tally::LeftOut;

pub use files::write_folder;

/// The version of the JSON.
const SCHEMA: &str = "weft-traffic/1";
/// Groups whose total matrix is in the report.
const MAX_LISTED_GROUPS: usize = 256;
/// Hosts and pairs that are listed.
const LISTED: usize = 10;

/// A study of traffic. Sizes are bytes, times seconds, rates bits per second.
#[derive(Clone, Debug, Serialize)]
pub struct TrafficReport {
    /// Version of this structure.
    pub schema: &'static str,
    /// What was read.
    pub files: Vec<ReadFile>,
    /// Flows, bytes, hosts.
    pub totals: TotalsReport,
    /// What was left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Remarks about the log.
    pub notes: Vec<String>,
    /// Sizes of flows, and bytes by size of flow (VL2 figure 2).
    pub sizes: Sizes,
    /// Durations and mean rates, of flows with an end.
    pub durations: Option<Distribution>,
    /// Mean rates of flows, in bits per second.
    pub rates_bps: Option<Distribution>,
    /// Concurrent flows of a host (VL2 figure 3), where flows have an end.
    pub concurrency: Option<ConcurrencyReport>,
    /// Traffic matrices.
    pub matrix: MatrixReport,
    /// Clusters of matrices (VL2 figure 4).
    pub clusters: ClusterReport,
    /// Large flows.
    pub elephants: Elephants,
    /// Arrivals.
    pub arrivals: Arrivals,
    /// Where traffic stays.
    pub locality: Locality,
    /// How unevenly hosts take part.
    pub skew: Skew,
    /// How well the hose model, and so Valiant load balancing, fits.
    pub hose: Hose,
    /// What plots and files need in full.
    #[serde(skip)]
    pub full: Full,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadFile {
    /// Its name.
    pub file: String,
    /// Its format.
    pub format: String,
    /// Flows of it that are used.
    pub flows: u64,
}

/// Sums.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct TotalsReport {
    pub flows: u64,
    pub bytes: f64,
    pub packets: u64,
    pub hosts: u64,
    pub groups: u64,
    pub grouping: &'static str,
    pub start_s: f64,
    pub duration_s: f64,
    pub mean_bps: f64,
    pub flows_with_end: u64,
    pub sampled_flows: u64,
    pub sampling_min: u32,
    pub sampling_max: u32,
    pub out_of_order: u64,
    pub largest_step_back_s: f64,
}

/// Quantiles of a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Distribution {
    pub count: u64,
    pub mean: f64,
    pub p1: f64,
    pub p10: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Distribution {
    /// Of a histogram whose values are multiplied by `unit`.
    pub fn of(histogram: &LogHistogram, unit: f64) -> Self {
        let at = |fraction| histogram.quantile(fraction) * unit;
        Self {
            count: histogram.count(),
            mean: histogram.mean() * unit,
            p1: at(0.01),
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 * unit,
        }
    }

    /// Of a few values.
    pub fn of_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        let max = *values.last()?;
        let at = |fraction: f64| values[((fraction * count as f64).ceil() as usize).clamp(1, count) - 1];
        Some(Self {
            count: count as u64,
            mean: values.iter().sum::<f64>() / count as f64,
            p1: at(0.01),
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max,
        })
    }
}

/// Sizes of flows.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Quantiles of the flows' sizes.
    pub flows: Distribution,
    /// The size of the flow that a random byte belongs to: 10 %, 50 % and 90 % of all bytes are in flows of at most this size.
    pub bytes_p10: f64,
    /// See `bytes_p10`.
    pub bytes_p50: f64,
    /// See `bytes_p10`.
    pub bytes_p90: f64,
    /// Largest relative error of a quantile.
    pub quantile_error: f64,
}

/// Concurrent flows of a host.
#[derive(Clone, Debug, Serialize)]
pub struct ConcurrencyReport {
    /// Over all hosts and instants, those without a flow included.
    pub all: Distribution,
    /// Over those with at least one flow.
    pub active: Distribution,
    /// Fraction of (host, instant) without a flow.
    pub idle: f64,
    /// Fraction with more than 80 flows (VL2: at least 5 % of the time).
    pub above_80: f64,
    /// Time between two samples.
    pub step_s: f64,
    /// Number of samples.
    pub samples: u64,
}

/// Traffic matrices.
#[derive(Clone, Debug, Serialize)]
pub struct MatrixReport {
    /// Length of an interval.
    pub interval_s: f64,
    /// Number of intervals from the first to the last.
    pub intervals: u64,
    /// Names of the groups, by number.
    pub groups: Vec<String>,
    /// Bytes by (sending group, receiving group) over all intervals; absent of more than 256 groups: `matrix.csv` has it.
    pub total: Option<Vec<Vec<f64>>>,
    /// Fraction of the pairs of groups that exchange anything.
    pub density: f64,
    /// Change from an interval to the next, as a fraction of the larger one: 0 the same, 2 disjoint.
    pub change: Option<Distribution>,
    /// The pairs with the most bytes.
    pub top_pairs: Vec<Pair>,
}

/// Bytes from a group to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Pair {
    pub from: String,
    pub to: String,
    pub bytes: f64,
    pub fraction: f64,
}

/// Clusters of matrices.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterReport {
    /// Matrices that were clustered.
    pub matrices: u64,
    /// Whether these are evenly spaced ones of more.
    pub is_sampled: bool,
    /// Fitting error for each number of clusters, from 1 on.
    pub fitting_error: Vec<f64>,
    /// Clusters that a fitting error of 10 % needs.
    pub needed_for_10_percent: Option<u64>,
    /// Number of clusters that intervals were assigned to.
    pub classes: u64,
    /// Consecutive intervals in one cluster.
    pub run_length: Option<Distribution>,
    /// Intervals from one in a cluster to the next in it.
    pub recurrence: Option<Distribution>,
}

/// Large flows.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Elephants {
    pub flows_above_10mb: f64,
    pub bytes_above_10mb: f64,
    pub flows_above_100mb: f64,
    pub bytes_above_100mb: f64,
    pub bytes_in_top_1_percent: f64,
    pub bytes_in_top_10_percent: f64,
}

/// Arrivals of flows.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// Flows per second over the log.
    pub rate: f64,
    /// Seconds between two starts of flows.
    pub gaps_s: Option<Distribution>,
    /// Coefficient of variation of the gaps: 1 of a Poisson process.
    pub late_starts: u64,
    /// Index of dispersion of the number of starts in windows of each length: 1 of a Poisson process.
    pub dispersion: Vec<Dispersion>,
}

/// A point of the index of dispersion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Dispersion {
    pub window_s: f64,
    pub index: f64,
}

/// Fractions of the bytes.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Locality {
    pub same_rack: f64,
    pub same_pod: f64,
    pub between: f64,
    pub outside: f64,
}

/// How unevenly hosts take part.
#[derive(Clone, Debug, Serialize)]
pub struct Skew {
    /// Gini coefficient of the bytes sent by host: 0 even, 1 all by one.
    pub gini_out: f64,
    /// The same of the bytes received.
    pub gini_in: f64,
    /// Fraction of the bytes that the busiest tenth of the hosts sends.
    pub top_tenth_out: f64,
    /// The same of those received.
    pub top_tenth_in: f64,
    /// The hosts with the most bytes.
    pub top_hosts: Vec<TopHost>,
    /// Bytes by service, where a map names them.
    pub services: Vec<TopHost>,
}

/// A host, or a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct TopHost {
    pub name: String,
    pub out_bytes: f64,
    pub in_bytes: f64,
}

/// What is not in the JSON.
#[derive(Clone, Debug, Default)]
pub struct Full {
    /// Sizes of flows.
    pub sizes: LogHistogram,
    /// Concurrent flows.
    pub concurrency: LogHistogram,
    /// Gaps between starts.
    pub gaps: LogHistogram,
    /// Matrices.
    pub series: Series,
    /// Clusters.
    pub clusters: Clusters,
    /// Bytes over time: start, step in seconds, bytes per step.
    pub bytes_over_time: (f64, f64, Vec<f64>),
    /// Hosts by name, group and bytes out and in.
    pub hosts: Vec<(String, u32, f64, f64)>,
    /// Whether each group is that of hosts outside.
    pub outside: Vec<bool>,
}

impl TrafficReport {
    /// Computes a report.
    pub fn of(study: Study) -> Self {
        let (start, end) = study.totals.span.expect("there is a flow");
        let inside = (0..study.hosts.names.len()).filter(|&host| study.hosts.is_inside(host)).count() as u64;
        let concurrency = study.concurrency.distribution(inside, start, end.max(start + 1));
        let step_ns = study.concurrency.step_ns();
        let samples = study.concurrency.samples(start, end.max(start + 1));
        let names: Vec<String> = study.hosts.groups.iter().map(|group| group.name.clone()).collect();
        let totals = totals_of(&study, start, end);
        let skew = skew_of(&study);
        let hosts = study.hosts.names.iter().zip(&study.of_host).zip(&study.hosts.group_of);
        let mut full = Full {
            hosts: hosts.map(|((name, bytes), &group)| (name.to_string(), group, bytes.out, bytes.into)).collect(),
            outside: study.hosts.groups.iter().map(|group| group.is_outside).collect(),
            bytes_over_time: over_time(&study),
            ..Full::default()
        };
        let has_ends = study.totals.with_end > 0 && samples > 0;
        let series = study.matrices.into_series();
        let clusters = Clusters::of(&series);
        let report = Self {
            schema: SCHEMA,
            files: study.files,
            left_out: study.tally.left_out(),
            notes: study.tally.notes(),
            sizes: sizes_of(&study.sizes),
            durations: (study.durations.count() > 0).then(|| Distribution::of(&study.durations, 1e-9)),
            rates_bps: (study.rates.count() > 0).then(|| Distribution::of(&study.rates, 1.0)),
            concurrency: has_ends.then(|| concurrency_of(&concurrency, step_ns, samples)),
            matrix: matrix_of(&series, names.clone()),
            clusters: clusters_of(&clusters),
            elephants: elephants_of(&study.sizes),
            arrivals: Arrivals {
                rate: ratio(totals.flows as f64, totals.duration_s),
                gaps_s: (study.gaps.gaps.count() > 0).then(|| Distribution::of(&study.gaps.gaps, 1e-9)),
                late_starts: study.gaps.too_late,
                dispersion: dispersion_of(&study.starts.dispersion()),
            },
            locality: locality_of(study.totals.locality),
            skew,
            hose: Hose::of(&series, &names),
            totals,
            full: Full::default(),
        };
        (full.sizes, full.concurrency, full.gaps) = (study.sizes, concurrency, study.gaps.gaps);
        (full.series, full.clusters) = (series, clusters);
        Self { full, ..report }
    }
}

fn totals_of(study: &Study, start: i64, end: i64) -> TotalsReport {
    let (totals, duration_s) = (&study.totals, (end - start) as f64 / 1e9);
    let (sampling_min, sampling_max) = totals.sampling.unwrap_or((1, 1));
    TotalsReport {
        flows: totals.flows,
        bytes: study.sizes.sum(),
        packets: totals.packets,
        hosts: study.hosts.names.len() as u64,
        groups: study.hosts.groups.len() as u64,
        grouping: study.hosts.grouping(),
        start_s: start as f64 / 1e9,
        duration_s,
        mean_bps: ratio(study.sizes.sum() * 8.0, duration_s),
        flows_with_end: totals.with_end,
        sampled_flows: totals.sampled,
        sampling_min,
        sampling_max,
        out_of_order: totals.back.0,
        largest_step_back_s: totals.back.1 as f64 / 1e9,
    }
}

/// Points of a plot over time.
const MAX_POINTS: usize = 600;

fn over_time(study: &Study) -> (f64, f64, Vec<f64>) {
    let mut values = study.bytes_over_time.values();
    let mut step = study.bytes_over_time.step_ns() as f64 / 1e9;
    while values.len() > MAX_POINTS {
        values = values.chunks(2).map(|pair| pair.iter().sum()).collect();
        step *= 2.0;
    }
    (study.bytes_over_time.start_ns() as f64 / 1e9, step, values)
}

fn sizes_of(sizes: &LogHistogram) -> Sizes {
    Sizes {
        flows: Distribution::of(sizes, 1.0),
        bytes_p10: sizes.quantile_by_sum(0.1),
        bytes_p50: sizes.quantile_by_sum(0.5),
        bytes_p90: sizes.quantile_by_sum(0.9),
        quantile_error: 1.0 / 64.0,
    }
}

fn concurrency_of(all: &LogHistogram, step_ns: i64, samples: u64) -> ConcurrencyReport {
    let mut active = LogHistogram::default();
    all.bins().filter(|bin| bin.to > 0).for_each(|bin| active.add_many(bin.from.midpoint(bin.to), bin.count));
    let idle = 1.0 - ratio(active.count() as f64, all.count() as f64);
    ConcurrencyReport {
        all: Distribution::of(all, 1.0),
        active: Distribution::of(&active, 1.0),
        idle,
        above_80: all.above(80).0,
        step_s: step_ns as f64 / 1e9,
        samples,
    }
}

fn matrix_of(series: &Series, groups: Vec<String>) -> MatrixReport {
    let total = series.total();
    let bytes: f64 = total.iter().map(|cell| cell.1).sum();
    let mut sorted = total.clone();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let pair = |&((from, to), of): &((u32, u32), f64)| Pair {
        from: groups[from as usize].clone(),
        to: groups[to as usize].clone(),
        bytes: of,
        fraction: ratio(of, bytes),
    };
    let top_pairs = sorted.iter().take(LISTED).map(pair).collect();
    let dense = (groups.len() <= MAX_LISTED_GROUPS).then(|| {
        let mut rows = vec![vec![0.0; groups.len()]; groups.len()];
        total.iter().for_each(|&((from, to), of)| rows[from as usize][to as usize] = of);
        rows
    });
    MatrixReport {
        interval_s: series.interval_ns as f64 / 1e9,
        intervals: series.matrices.len() as u64,
        density: ratio(total.len() as f64, (groups.len() * groups.len()) as f64),
        change: Distribution::of_values(series.changes()),
        total: dense,
        top_pairs,
        groups,
    }
}

fn clusters_of(clusters: &Clusters) -> ClusterReport {
    let distribution = |values: Vec<usize>| Distribution::of_values(values.into_iter().map(|v| v as f64).collect());
    // With a cluster for each interval, runs would all be 1 by construction.
    let has_classes = clusters.intervals.len() > CLASSES;
    ClusterReport {
        matrices: clusters.intervals.len() as u64,
        is_sampled: clusters.is_sampled,
        fitting_error: clusters.errors.clone(),
        needed_for_10_percent: clusters.needed_for(0.1).map(|it| it as u64),
        classes: clusters.classes as u64,
        run_length: has_classes.then(|| distribution(clusters.run_lengths())).flatten(),
        recurrence: has_classes.then(|| distribution(clusters.recurrences())).flatten(),
    }
}

fn elephants_of(sizes: &LogHistogram) -> Elephants {
    let ((flows_above_10mb, bytes_above_10mb), (flows_above_100mb, bytes_above_100mb)) =
        (sizes.above(10_000_000), sizes.above(100_000_000));
    Elephants {
        flows_above_10mb,
        bytes_above_10mb,
        flows_above_100mb,
        bytes_above_100mb,
        bytes_in_top_1_percent: sizes.share_of_top(0.01),
        bytes_in_top_10_percent: sizes.share_of_top(0.1),
    }
}

fn dispersion_of(points: &[(i64, f64)]) -> Vec<Dispersion> {
    points.iter().map(|&(window, index)| Dispersion { window_s: window as f64 / 1e9, index }).collect()
}

fn locality_of(bytes: [f64; 4]) -> Locality {
    let all: f64 = bytes.iter().sum();
    let [same_rack, same_pod, between, outside] = bytes.map(|part| ratio(part, all));
    Locality { same_rack, same_pod, between, outside }
}

fn skew_of(study: &Study) -> Skew {
    let inside = (0..study.of_host.len()).filter(|&host| study.hosts.is_inside(host));
    let (mut out, mut into): (Vec<f64>, Vec<f64>) = inside.map(|h| (study.of_host[h].out, study.of_host[h].into)).unzip();
    out.sort_unstable_by(f64::total_cmp);
    into.sort_unstable_by(f64::total_cmp);
    let mut top_hosts: Vec<TopHost> = (study.hosts.names.iter().zip(&study.of_host))
        .map(|(name, bytes)| TopHost { name: name.to_string(), out_bytes: bytes.out, in_bytes: bytes.into })
        .collect();
    top_hosts.sort_by(|a, b| (b.out_bytes + b.in_bytes).total_cmp(&(a.out_bytes + a.in_bytes)).then(a.name.cmp(&b.name)));
    top_hosts.truncate(LISTED);
    let mut services: Vec<TopHost> =
        study.hosts.services.iter().map(|name| TopHost { name: name.clone(), out_bytes: 0.0, in_bytes: 0.0 }).collect();
    for (service, bytes) in study.hosts.service_of.iter().zip(&study.of_host) {
        if let Some(service) = service {
            services[*service as usize].out_bytes += bytes.out;
            services[*service as usize].in_bytes += bytes.into;
        }
    }
    Skew {
        gini_out: gini(&out),
        gini_in: gini(&into),
        top_tenth_out: top_tenth(&out),
        top_tenth_in: top_tenth(&into),
        top_hosts,
        services,
    }
}

/// Of values in ascending order.
fn gini(sorted: &[f64]) -> f64 {
    let (count, sum) = (sorted.len() as f64, sorted.iter().sum::<f64>());
    let weighted: f64 = sorted.iter().enumerate().map(|(at, value)| (at + 1) as f64 * value).sum();
    if sum > 0.0 { (2.0 * weighted / (count * sum) - (count + 1.0) / count).max(0.0) } else { 0.0 }
}

fn top_tenth(sorted: &[f64]) -> f64 {
    let count = sorted.len().div_ceil(10);
    ratio(sorted.iter().rev().take(count).sum(), sorted.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inequality_of_hosts() {
        assert!(gini(&[1.0; 10]) < 1e-12);
        assert!((gini(&[0.0, 0.0, 0.0, 4.0]) - 0.75).abs() < 1e-12);
        assert_eq!(top_tenth(&[1.0, 1.0, 1.0, 1.0, 6.0]), 0.6);
    }
}
