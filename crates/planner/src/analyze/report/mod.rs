//! What a study found, as numbers; and the forms in which it is printed and written.

mod compute;
mod files;
pub(crate) mod html;
pub(crate) mod svg;
pub mod table;

use serde::Serialize;

use super::cluster::Clusters;
use super::hose::Hose;
use super::matrix::Series;
use super::sketch::LogHistogram;
use super::tally::LeftOut;

pub use files::write_folder;

/// A study of traffic. Sizes are bytes, times seconds, rates bits per second.
#[derive(Clone, Debug, Serialize)]
pub struct TrafficReport {
    /// Version of this structure.
    pub schema: &'static str,
    /// Flows that were used.
    pub flows: u64,
    /// Their bytes.
    pub bytes: f64,
    /// Hosts that sent or received.
    pub hosts: u64,
    /// Time from the first start to the last.
    pub span_s: f64,
    /// What was read.
    pub files: Vec<ReadFile>,
    /// Flows, bytes, hosts.
    pub totals: TotalsReport,
    /// What was left out, and why.
    #[serde(rename = "skipped")]
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
    /// Number of traffic matrices, and how well clusters fit them.
    pub matrices: Matrices,
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
    #[serde(flatten)]
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
    #[serde(flatten)]
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

/// Number of traffic matrices, and how well clusters fit them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrices {
    /// Number of intervals from the first to the last.
    pub intervals: u64,
    /// For each number of clusters.
    pub clusters: Vec<Fit>,
}

/// How well a number of clusters fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Number of clusters.
    pub k: usize,
    /// Fitting error.
    pub error: f64,
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
    /// Starts that came too late to be sorted.
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
    pub flows_same_rack: f64,
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
