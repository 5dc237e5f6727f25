//! The report: one HTML file that shows a sweep's runs to a person, with no server and no network behind it.
//!
//! ```text
//!   Outcome --collect--> RunReport (small; the outcome can be dropped) --\
//!   Outcome --collect--> RunReport ---------------------------------------+--render--> one HTML file
//!                                                                        /             (web/: template, styles, scripts)
//! ```
//! [`series`] thins throughput, [`distribution`] completion times, [`links`] what the links carried; [`sketch`] describes the
//! fabric as far as the page draws it; [`page`] puts runs, styles and scripts into the template.
//! Everything is a function of the input: the same runs give the same bytes.

pub mod distribution;
pub mod links;
pub mod packets;
pub mod page;
pub mod series;
pub mod sketch;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_fabric::Fabric;
use weft_fabric::record::{FaultRecord, Outcome, Sample};

use crate::scenario::expect::Kind;
use crate::scenario::world::{Event, EventKind};
use crate::trust::Distrust;
use distribution::Distribution;
use links::LinkUse;
use packets::Packets;
use series::Series;
use sketch::Sketch;

pub use page::render;

/// One run as the engine knows it right after its end.
#[derive(Debug)]
pub struct RunInput<'a> {
    /// Its folder in the results: `000`.
    pub name: String,
    /// The settings that the sweep gave it, by their keys in the scenario: `control.scheduler`.
    pub set: Map<String, Value>,
    /// Seed of the run.
    pub seed: u64,
    /// Further seeds with which it was repeated.
    pub other_seeds: Vec<u64>,
    /// Metrics in the order in which they are shown; names as in `summary.json`.
    pub metrics: &'a [(String, f64)],
    /// What the scenario expects of this run.
    pub expect: &'a [Expectation],
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Its records.
    pub outcome: &'a Outcome,
    /// The records of the same flows on a non-blocking switch.
    pub ideal: Option<&'a Outcome>,
    /// Goodput of the splittable optimum, in bits per second.
    pub optimum_bps: Option<f64>,
    /// Why the lab of the run is not trusted; empty if it is, and without one.
    pub distrust: Vec<Distrust>,
    /// Overrides that the expectations take for granted as they were: `traffic.stride=2`. With any, the run is not comparable.
    pub overrides: Vec<String>,
    /// What the scenario schedules to fail, return or move.
    pub events: Vec<EventMark>,
}

/// A scheduled event of a run, as the page marks it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventMark {
    /// When, in seconds from the start of the run.
    pub at_s: f64,
    /// What: `fail link agg0-core1`.
    pub event: String,
}

impl From<&Event> for EventMark {
    fn from(event: &Event) -> Self {
        let verb = if event.kind == EventKind::FailSilent { "fail silently" } else { event.kind.key() };
        Self { at_s: significant(event.at.as_secs_f64(), 9), event: format!("{verb} {}", event.part) }
    }
}

/// A measured value and what it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Where it was published: `Hedera, figure 10`.
    pub source: String,
    /// Name of the metric.
    pub metric: String,
    /// What the expectation stands on.
    pub kind: Kind,
    /// The published value, in the metric's unit, or a ratio to a sibling run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// The lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Our value; `None` if the run has no such metric.
    pub measured: Option<f64>,
    /// With several seeds: half the width of the mean's 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
    /// The tolerance as it is shown: `5%`, `at least`.
    pub within: String,
    /// Whether ours agrees.
    pub ok: bool,
    /// Why it does not, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

/// What flows noticed of an event in the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultSummary {
    /// When.
    pub at_s: f64,
    /// What: `kill agent h0`.
    pub event: String,
    /// Flows that moved before and after it, and that it could touch: of a host or a ToR those of its hosts, of all else all.
    pub flows: usize,
    /// The longest time, from the event on, that one of them received nothing; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<f64>,
    /// The same of small datagrams between tenants' VMs, which wait for nothing after an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
}

impl From<&FaultRecord> for FaultSummary {
    fn from(fault: &FaultRecord) -> Self {
        let FaultRecord { at, verb, object, flows, silent, gap } = fault;
        Self {
            at_s: at.as_secs_f64(),
            event: format!("{verb} {object}"),
            flows: *flows,
            silent_s: silent.map(|silent| silent.as_secs_f64()),
            gap_s: gap.map(|gap| gap.as_secs_f64()),
        }
    }
}

/// A run as the page shows it: a few dozen kilobytes, whatever the size of the outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The fabric, as far as it is drawn. Runs on one fabric share it in the page.
    pub fabric: Sketch,
    /// The same flows on a non-blocking switch. Runs with the same flows share it in the page.
    pub ideal: Option<Curves>,
    /// The rest.
    pub body: RunBody,
}

/// What is each run's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunBody {
    /// Its folder in the results.
    pub name: String,
    /// The settings that the sweep gave it.
    pub set: Map<String, Value>,
    /// Seed of the run: the records are those of this seed.
    pub seed: u64,
    /// Further seeds with which it was repeated: metrics and verdicts are of means over all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_seeds: Vec<u64>,
    /// False for a lab run whose figures describe the machine, or another network than that described: its verdicts are UNTRUSTED, and it is
    /// never the best run of a sweep.
    pub trusted: bool,
    /// Why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distrust: Vec<Distrust>,
    /// False if settings were overridden beyond those of the sweep, `[quick]`, `[full]` and the seed: its verdicts are neither met nor missed.
    pub comparable: bool,
    /// Those settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// What a reader of its figures has to know: sentences that name the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Metrics in order; those that are not finite numbers are left out.
    pub metrics: Vec<(String, f64)>,
    /// Published values and the measured ones.
    pub expect: Vec<Expectation>,
    /// Goodput and its bounds.
    pub bounds: Bounds,
    /// Length of the run in seconds.
    pub ended_s: f64,
    /// What was scheduled to fail, return or move.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventMark>,
    /// Throughput and completion times.
    pub curves: Curves,
    /// What the links carried.
    pub links: LinkUse,
    /// Drops and traces, in the packet world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// What failed, ended and moved in a lab, and what flows noticed of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSummary>,
}

/// What a run's lines are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Bits per second over time, all hosts together.
    pub throughput: Series,
    /// Completion times in seconds.
    pub fct_s: Distribution,
    /// Flows that began.
    pub flows: u64,
}

/// Goodput in bits per second, and what it could be at best; all over the same span of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Ours.
    pub measured_bps: f64,
    /// What the NICs of the active senders and receivers could carry.
    pub nic_bps: Option<f64>,
    /// The same flows on a non-blocking switch.
    pub switch_bps: Option<f64>,
    /// The splittable optimum of the fabric.
    pub optimum_bps: Option<f64>,
}

/// Reduces a run to what the page shows of it.
pub fn collect(input: RunInput<'_>) -> RunReport {
    let RunInput { name, set, seed, other_seeds, metrics, expect, .. } = input;
    let RunInput { fabric, outcome, ideal, optimum_bps, distrust, overrides, events, .. } = input;
    let sketch = Sketch::new(fabric);
    let links = LinkUse::new(fabric, &sketch, outcome);
    let mut report = RunReport {
        ideal: ideal.map(Curves::new),
        body: RunBody {
            name,
            set,
            seed,
            other_seeds,
            trusted: distrust.is_empty(),
            distrust,
            comparable: overrides.is_empty(),
            overrides,
            notes: Vec::new(),
            metrics: Vec::new(),
            expect: Vec::new(),
            bounds: Bounds::over_whole_run(outcome, ideal, optimum_bps),
            ended_s: significant(outcome.ended.as_secs_f64(), 9),
            events,
            curves: Curves::new(outcome),
            links,
            packets: Packets::new(fabric, &sketch, outcome),
            faults: outcome.lab.iter().flat_map(|lab| &lab.faults).map(FaultSummary::from).collect(),
        },
        fabric: sketch,
    };
    report.judge(metrics, expect);
    report
}

impl RunReport {
    /// Gives the run its metrics and verdicts, which may be known only when all runs of a sweep are. Its bounds follow the metrics.
    pub fn judge(&mut self, metrics: &[(String, f64)], expect: &[Expectation]) {
        let finite = metrics.iter().filter(|(_, v)| v.is_finite());
        self.body.metrics = finite.map(|(k, v)| (k.clone(), significant(*v, 9))).collect();
        self.body.expect = expect.to_vec();
        self.body.bounds = self.body.bounds.agreeing_with(&self.body.metrics);
    }
}

impl Curves {
    fn new(outcome: &Outcome) -> Self {
        Self {
            throughput: Series::throughput(&outcome.samples, MAX_SERIES_BINS).rounded(),
            fct_s: Distribution::of_completion_times(&outcome.flows, MAX_DISTRIBUTION_POINTS),
            flows: outcome.flows.len() as u64,
        }
    }
}

impl Bounds {
    fn over_whole_run(outcome: &Outcome, ideal: Option<&Outcome>, optimum_bps: Option<f64>) -> Self {
        Self {
            measured_bps: shown(mean_bps(&outcome.samples)).unwrap_or(0.0),
            nic_bps: shown(mean_nic_bound_bps(&outcome.samples)),
            switch_bps: shown(ideal.and_then(|ideal| mean_bps(&ideal.samples))),
            optimum_bps: shown(optimum_bps),
        }
    }

    /// What the metrics know comes first: they leave out warm-up and cool-down, and so the figure agrees with the table.
    fn agreeing_with(self, metrics: &[(String, f64)]) -> Self {
        let metric = |name: &str| metrics.iter().find(|(k, _)| k == name).map(|&(_, v)| v);
        let Some(measured_bps) = metric("goodput_bps") else { return self };
        let bound_by = |fraction: &str| shown(Some(measured_bps / metric(fraction)?));
        let switch_bps = bound_by("optimal_fraction").or(self.switch_bps);
        let splittable = || shown(Some(switch_bps? * metric("splittable_fraction")?));
        Self {
            measured_bps,
            nic_bps: bound_by("goodput_fraction").or(self.nic_bps),
            switch_bps,
            optimum_bps: self.optimum_bps.or_else(splittable),
        }
    }
}

fn shown(bps: Option<f64>) -> Option<f64> {
    bps.filter(|b| b.is_finite() && *b > 0.0).map(|b| significant(b, 9))
}

/// Mean throughput over a whole run.
fn mean_bps(samples: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let seconds = last.at.saturating_since(first.at).as_secs_f64();
    (seconds > 0.0).then(|| (last.delivered - first.delivered) * 8.0 / seconds)
}

/// Mean of the NIC-limited bound over a whole run.
fn mean_nic_bound_bps(samples: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let seconds = last.at.saturating_since(first.at).as_secs_f64();
    let area: f64 = samples.windows(2).map(|w| w[0].nic_bound_bps * w[1].at.saturating_since(w[0].at).as_secs_f64()).sum();
    (seconds > 0.0).then(|| area / seconds)
}

/// The value with so many significant decimal digits: shorter text, the same on every machine.
pub(crate) fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Points of a throughput line: more than that no screen shows.
const MAX_SERIES_BINS: usize = 600;
/// Points of a distribution.
const MAX_DISTRIBUTION_POINTS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::Instant;

    fn sample(at_s: u64, delivered: f64, nic_bound_bps: f64) -> Sample {
        Sample { at: Instant::from_ps(at_s * 1_000_000_000_000), delivered, active: 1, nic_bound_bps }
    }

    #[test]
    fn bounds_come_from_the_metrics_where_they_are_known() {
        let metric = |name: &str, value: f64| (name.to_owned(), value);
        let metrics = [metric("goodput_bps", 6e9), metric("goodput_fraction", 0.5), metric("optimal_fraction", 0.75)];
        let bounds = Bounds::over_whole_run(&Outcome::default(), None, Some(9e9)).agreeing_with(&metrics);
        assert_eq!(bounds.measured_bps, 6e9);
        assert_eq!((bounds.nic_bps, bounds.switch_bps, bounds.optimum_bps), (Some(12e9), Some(8e9), Some(9e9)));
        let split = [&metrics[..], &[metric("splittable_fraction", 0.8)]].concat();
        assert_eq!(Bounds::over_whole_run(&Outcome::default(), None, None).agreeing_with(&split).optimum_bps, Some(6.4e9));
    }

    #[test]
    fn bounds_without_metrics_are_means_over_the_run() {
        let outcome =
            Outcome { samples: vec![sample(0, 0.0, 4e9), sample(1, 2.5e8, 1e9), sample(4, 1e9, 0.0)], ..Outcome::default() };
        let bounds = Bounds::over_whole_run(&outcome, Some(&outcome), None).agreeing_with(&[]);
        assert_eq!(bounds.measured_bps, 2e9);
        assert_eq!((bounds.nic_bps, bounds.switch_bps, bounds.optimum_bps), (Some(1.75e9), Some(2e9), None));
    }

    #[test]
    fn a_run_without_anything_has_no_bounds() {
        let bounds =
            Bounds::over_whole_run(&Outcome::default(), None, None).agreeing_with(&[("goodput_fraction".to_owned(), 0.5)]);
        assert_eq!(bounds, Bounds { measured_bps: 0.0, nic_bps: None, switch_bps: None, optimum_bps: None });
    }

    #[test]
    fn significant_digits() {
        assert_eq!(significant(1234.5678, 3), 1230.0);
        assert_eq!(significant(0.000_123_456, 2), 0.00012);
        assert_eq!(significant(0.0, 6), 0.0);
    }
}
