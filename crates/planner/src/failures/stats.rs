//! Durations, groups, downtime by kind and cause.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::hidden::Hidden;
use super::log::Failure;
use crate::analyze::report::Distribution;

/// A study of failures. Times are seconds.
#[derive(Clone, Debug, Serialize)]
pub struct FailureReport {
    /// Version of this structure.
    pub schema: &'static str,
    /// Failures that are used.
    pub count: u64,
    /// Failures that were too short.
    pub left_out_short: u64,
    /// Devices that failed.
    pub devices: u64,
    /// From the first start to the last end.
    pub span_s: f64,
    /// Durations; absent without failures.
    pub durations_s: Option<Distribution>,
    /// Fractions resolved in 10 minutes, an hour, a day; fraction longer than 10 days (VL2 section 3.4: 95 %, 98 %, 99.6 %, 0.09 %).
    pub resolved: Resolved,
    /// Devices of a group of failures.
    pub group_sizes: Option<Distribution>,
    /// Fractions of the groups with fewer than 4 and 20 devices (VL2 section 3.4: 50 %, 95 %).
    pub groups_below_4: f64,
    /// See `groups_below_4`.
    pub groups_below_20: f64,
    /// By kind of device.
    pub by_kind: Vec<Share>,
    /// By cause.
    pub by_cause: Vec<Share>,
    /// What a fabric hides.
    pub hidden: Option<Hidden>,
    /// The failures.
    #[serde(skip)]
    pub failures: Vec<Failure>,
}

/// How soon failures are resolved.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Resolved {
    pub in_10_minutes: f64,
    pub in_1_hour: f64,
    pub in_1_day: f64,
    pub longer_than_10_days: f64,
}

/// The failures of a kind or cause.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// The kind or cause.
    pub name: String,
    /// Number of failures.
    pub count: u64,
    /// Devices that failed.
    pub devices: u64,
    /// Sum of the durations.
    pub downtime_s: f64,
    /// Fraction of all downtime.
    pub fraction: f64,
    /// Mean time to repair.
    pub mttr_s: f64,
    /// Mean time between failures of a device, of those that failed at all: with the others it is longer.
    pub mtbf_s: f64,
}

impl FailureReport {
    /// Studies failures that are sorted by start.
    pub fn of(all: Vec<Failure>, min_s: f64, window_s: f64) -> Self {
        let before = all.len();
        let failures: Vec<Failure> = all.into_iter().filter(|it| it.end_s - it.start_s > min_s).collect();
        let durations: Vec<f64> = failures.iter().map(|it| it.end_s - it.start_s).collect();
        let first = failures.first().map_or(0.0, |it| it.start_s);
        let span_s = failures.iter().map(|it| it.end_s).fold(first, f64::max) - first;
        let sizes = groups(&failures, window_s);
        let below = |bound: f64| fraction(&sizes, |&size| size < bound);
        Self {
            schema: "weft-failures/1",
            count: failures.len() as u64,
            left_out_short: (before - failures.len()) as u64,
            devices: failures.iter().map(|it| &it.device).collect::<BTreeSet<_>>().len() as u64,
            span_s,
            resolved: Resolved {
                in_10_minutes: fraction(&durations, |&d| d <= 600.0),
                in_1_hour: fraction(&durations, |&d| d <= 3_600.0),
                in_1_day: fraction(&durations, |&d| d <= 86_400.0),
                longer_than_10_days: fraction(&durations, |&d| d > 864_000.0),
            },
            groups_below_4: below(4.0),
            groups_below_20: below(20.0),
            group_sizes: Distribution::of_values(sizes),
            durations_s: Distribution::of_values(durations),
            by_kind: shares(&failures, span_s, |it| &it.kind),
            by_cause: shares(&failures, span_s, |it| &it.cause),
            hidden: None,
            failures,
        }
    }
}

fn fraction<T>(values: &[T], is_so: impl Fn(&T) -> bool) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().filter(|it| is_so(it)).count() as f64 / values.len() as f64 }
}

/// Devices of each group: a failure that begins soon after the one before belongs to its group.
fn groups(failures: &[Failure], window_s: f64) -> Vec<f64> {
    let groups = failures.chunk_by(|a, b| b.start_s - a.start_s <= window_s);
    groups.map(|group| group.iter().map(|it| &it.device).collect::<BTreeSet<_>>().len() as f64).collect()
}

fn shares<'a>(failures: &'a [Failure], span_s: f64, of: impl Fn(&'a Failure) -> &'a str) -> Vec<Share> {
    let mut by: BTreeMap<&str, (u64, BTreeSet<&str>, f64)> = BTreeMap::new();
    for failure in failures {
        let entry = by.entry(of(failure)).or_default();
        entry.0 += 1;
        entry.1.insert(&failure.device);
        entry.2 += failure.end_s - failure.start_s;
    }
    let all: f64 = by.values().map(|it| it.2).sum();
    let share = |(name, (count, devices, downtime_s)): (&str, (u64, BTreeSet<&str>, f64))| Share {
        name: name.to_owned(),
        count,
        devices: devices.len() as u64,
        downtime_s,
        fraction: if all > 0.0 { downtime_s / all } else { 0.0 },
        mttr_s: downtime_s / count as f64,
        mtbf_s: span_s * devices.len() as f64 / count as f64,
    };
    let mut shares: Vec<Share> = by.into_iter().map(share).collect();
    shares.sort_by(|a, b| b.downtime_s.total_cmp(&a.downtime_s).then(a.name.cmp(&b.name)));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_times_and_downtime() {
        let log =
            "start,end,device,kind,cause\n0,100,a,tor,power\n10,400,b,agg,power\n5000,5010,c,tor,\n9000,95400,a,tor,config\n";
        let report = FailureReport::of(super::super::parse(log).expect("a log"), 30.0, 60.0);
        assert_eq!((report.count, report.left_out_short, report.devices), (3, 1, 2));
        assert_eq!(report.group_sizes.as_ref().map(|it| it.max), Some(2.0));
        assert_eq!(report.resolved.in_1_day, 1.0);
        let tor = &report.by_kind[0];
        assert_eq!((tor.name.as_str(), tor.count, tor.downtime_s, tor.mttr_s), ("tor", 2, 86_500.0, 43_250.0));
        assert_eq!(tor.mtbf_s, 95_400.0 / 2.0);
        assert_eq!(report.by_cause[1].name, "power");
    }
}
