//! Computes a report from a study.

use super::{
    Arrivals, ClusterReport, ConcurrencyReport, Dispersion, Distribution, Elephants, Fit, Full, Locality, Matrices, MatrixReport,
    Pair, Sizes, Skew, TopHost, TotalsReport, TrafficReport,
};
use crate::analyze::cluster::{CLASSES, Clusters};
use crate::analyze::hose::Hose;
use crate::analyze::hosts::Hosts;
use crate::analyze::matrix::Series;
use crate::analyze::sketch::{LogHistogram, ratio};
use crate::analyze::study::Study;

/// The version of the JSON.
const SCHEMA: &str = "weft-traffic/1";
/// Groups whose total matrix is in the report.
const MAX_LISTED_GROUPS: usize = 256;
/// Hosts and pairs that are listed.
const LISTED: usize = 10;

impl TrafficReport {
    /// Computes a report.
    pub fn of(study: Study) -> (Self, Hosts) {
        let (start, end) = study.totals.span.expect("there is a flow");
        let inside = (0..study.hosts.names.len()).filter(|&host| study.hosts.is_inside(host)).count() as u64;
        let concurrency = study.concurrency.distribution(inside, start, end.max(start + 1));
        let step_ns = study.concurrency.step_ns();
        let samples = study.concurrency.samples(start, end.max(start + 1));
        let names: Vec<String> = (0..study.hosts.groups.len()).map(|group| study.hosts.shown_group(group)).collect();
        let totals = totals_of(&study, start, end);
        let skew = skew_of(&study);
        let host_row = |host: usize| {
            let bytes = study.of_host[host];
            (study.hosts.shown(host), study.hosts.group_of[host], bytes.out, bytes.into)
        };
        let mut full = Full {
            hosts: (0..study.of_host.len()).map(host_row).collect(),
            outside: study.hosts.groups.iter().map(|group| group.is_outside).collect(),
            bytes_over_time: over_time(&study),
            ..Full::default()
        };
        let has_ends = study.totals.with_end > 0 && samples > 0;
        let series = study.matrices.into_series();
        let clusters = Clusters::of(&series);
        let report = Self {
            schema: SCHEMA,
            flows: totals.flows,
            bytes: totals.bytes,
            hosts: totals.hosts,
            span_s: totals.duration_s,
            matrices: matrices_of(&series, &clusters),
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
            locality: locality_of(study.totals.locality, study.totals.locality_flows),
            skew,
            hose: Hose::of(&series, &names),
            totals,
            full: Full::default(),
        };
        (full.sizes, full.concurrency, full.gaps) = (study.sizes, concurrency, study.gaps.gaps);
        (full.series, full.clusters) = (series, clusters);
        (Self { full, ..report }, study.hosts)
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

fn matrices_of(series: &Series, clusters: &Clusters) -> Matrices {
    let fit = |(i, error): (usize, &f64)| Fit { k: i + 1, error: *error };
    Matrices { intervals: series.matrices.len() as u64, clusters: clusters.errors.iter().enumerate().map(fit).collect() }
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

fn locality_of(bytes: [f64; 4], flows: [u64; 4]) -> Locality {
    let all: f64 = bytes.iter().sum();
    let flows_same_rack = ratio(flows[0] as f64, flows.iter().sum::<u64>() as f64);
    let [same_rack, same_pod, between, outside] = bytes.map(|part| ratio(part, all));
    Locality { same_rack, same_pod, between, outside, flows_same_rack }
}

fn skew_of(study: &Study) -> Skew {
    let inside = (0..study.of_host.len()).filter(|&host| study.hosts.is_inside(host));
    let (mut out, mut into): (Vec<f64>, Vec<f64>) = inside.map(|h| (study.of_host[h].out, study.of_host[h].into)).unzip();
    out.sort_unstable_by(f64::total_cmp);
    into.sort_unstable_by(f64::total_cmp);
    let sum = |host: usize| study.of_host[host].out + study.of_host[host].into;
    let mut order: Vec<usize> = (0..study.of_host.len()).collect();
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    let top = |&host: &usize| {
        let bytes = study.of_host[host];
        TopHost { name: study.hosts.shown(host), out_bytes: bytes.out, in_bytes: bytes.into }
    };
    let top_hosts: Vec<TopHost> = order.iter().take(LISTED).map(top).collect();
    let service = |at: usize| TopHost { name: study.hosts.shown_service(at), out_bytes: 0.0, in_bytes: 0.0 };
    let mut services: Vec<TopHost> = (0..study.hosts.services.len()).map(service).collect();
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
