//! Compares what was measured with what a scenario expects.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::metrics::words;
use crate::repeats::{Repeats, half_width_of_ratio};
use crate::scenario::dotted;
use crate::scenario::expect::{Bound, Expect, Kind};
use crate::trust::Distrust;

/// One expectation and the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Where the figure stands.
    pub source: String,
    /// The metric.
    pub metric: String,
    /// The metric's unit; empty for a plain number and for a ratio to another run.
    pub unit: String,
    /// What the expectation stands on.
    pub kind: Kind,
    /// The value that the source states; `None` if it states a bound, or nothing.
    pub paper: Option<f64>,
    /// The lower bound, the source's or our own.
    pub at_least: Option<f64>,
    /// The upper bound.
    pub at_most: Option<f64>,
    /// Ours; `None` if the run does not know the metric.
    pub measured: Option<f64>,
    /// With several seeds: half the width of the mean's 95 % confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
    /// Whether that interval is wider than the tolerance, or spans a bound: then more seeds may decide otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub uncertain: bool,
    /// The tolerance: `5%`, `at least`, `at most`, `between`.
    pub within: String,
    /// Whether ours is within it.
    pub ok: bool,
    /// What that is worth.
    pub verdict: Status,
    /// The settings of the sibling run that the metric was divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<serde_json::Map<String, serde_json::Value>>,
    /// Whether it is a miss whose cause is known.
    pub known: bool,
    /// That cause; of a plain miss, why the run does not measure what is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Verdict {
    /// How far the measured value is from the published one, or beyond a bound, as a fraction of either; `None` if neither applies.
    pub fn deviation(&self) -> Option<f64> {
        let measured = self.measured?;
        let missed = self.at_least.filter(|bound| measured < *bound).or(self.at_most.filter(|bound| measured > *bound));
        self.paper.or(missed).filter(|from| *from != 0.0).map(|from| measured / from - 1.0)
    }
}

/// How an expectation is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Met.
    Ok,
    /// Missed.
    Miss,
    /// Missed, for a known cause.
    KnownMiss,
    /// Measured in a lab for which the machine had no time.
    Untrusted,
    /// Settings were overridden that the expectation takes for granted.
    NotComparable,
}

/// A run as far as expectations depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The whole scenario of the run.
    pub table: &'a Table,
    /// Its place in the sweep.
    pub position: &'a [usize],
    /// What was measured.
    pub repeats: &'a Repeats,
    /// Of a run in the lab: why it is not trusted; empty if it is.
    pub distrust: Option<&'a [Distrust]>,
    /// Why its scheduler moved nothing, if it was idle.
    pub idle_scheduler: Option<&'a str>,
}

/// Verdicts of all expectations that apply to `runs[index]`; `comparable`: whether the settings are those that they take for granted.
pub fn judge(expectations: &[Expect], runs: &[Candidate<'_>], index: usize, comparable: bool) -> Vec<Verdict> {
    let applying = expectations.iter().filter(|e| matches(runs[index].table, &e.conditions));
    applying.map(|e| verdict(e, runs, index, comparable)).collect()
}

fn verdict(expect: &Expect, runs: &[Candidate<'_>], index: usize, comparable: bool) -> Verdict {
    let mean = |i: usize| runs[i].repeats.mean.get(&expect.metric);
    let own = mean(index);
    let divisor = expect.over.as_ref().and_then(|settings| sibling(runs, index, settings));
    let measured = match &expect.over {
        None => own,
        Some(_) => {
            let other = divisor.and_then(mean);
            own.zip(other).filter(|(_, other)| *other != 0.0).map(|(own, other)| own / other)
        }
    };
    let ci95 = match divisor {
        None => runs[index].repeats.ci95.get(&expect.metric),
        Some(divisor) => {
            let of_seeds = |i: usize| -> Vec<f64> {
                runs[i].repeats.per_seed.iter().filter_map(|one| one.metrics.get(&expect.metric)).collect()
            };
            half_width_of_ratio(&of_seeds(index), &of_seeds(divisor))
        }
    };
    let ci95 = ci95.filter(|_| measured.is_some());
    // What a scheduler achieves is not what a run without its help measured, whichever value that is.
    let idle = idle_scheduler(expect, runs, index, divisor);
    let ok = idle.is_none() && measured.is_some_and(|m| expect.bound.admits(m));
    let explains = |[low, high]: [f64; 2]| measured.is_some_and(|m| low <= m && m <= high);
    let explained = expect.known_miss.as_ref().filter(|miss| !ok && idle.is_none() && explains(miss.between));
    let known = explained.is_some();
    let is_untrusted = |i: usize| runs[i].distrust.is_some_and(|why| !why.is_empty());
    let is_slow = |i: usize| runs[i].distrust.is_some_and(|why| why.iter().any(|it| it.is_of_machine()));
    let status = match (ok, known) {
        _ if !comparable => Status::NotComparable,
        _ if is_untrusted(index) || divisor.is_some_and(is_untrusted) => Status::Untrusted,
        (true, _) => Status::Ok,
        (_, true) => Status::KnownMiss,
        // A machine that was saturated in one lab may have been slow in the next.
        _ if runs[index].distrust.is_some() && (0..runs.len()).any(is_slow) => Status::Untrusted,
        _ => Status::Miss,
    };
    let (paper, at_least, at_most) = limits(expect);
    Verdict {
        source: expect.source.clone(),
        metric: expect.metric.clone(),
        unit: if expect.over.is_some() { String::new() } else { words::unit(&expect.metric) },
        kind: expect.kind,
        paper,
        at_least,
        at_most,
        measured,
        uncertain: measured.zip(ci95).is_some_and(|(mean, half)| expect.bound.is_undecided(mean, half)),
        ci95,
        within: expect.bound.within().to_owned(),
        ok,
        verdict: status,
        over: expect
            .over
            .as_ref()
            .map(|s| s.iter().map(|(k, v)| (k.clone(), serde_json::to_value(v).unwrap_or(serde_json::Value::Null))).collect()),
        known,
        cause: idle.map(str::to_owned).or_else(|| explained.map(|miss| miss.cause.clone())),
    }
}

/// Why the scheduler that an expectation names, for the run or for what it is divided by, moved nothing.
fn idle_scheduler<'a>(expect: &Expect, runs: &[Candidate<'a>], index: usize, divisor: Option<usize>) -> Option<&'a str> {
    let names = |settings: &[(String, Value)]| settings.iter().any(|(key, _)| key == SCHEDULER);
    let of_run = names(&expect.conditions).then_some(index);
    let of_divisor = divisor.filter(|_| expect.over.as_deref().is_some_and(names));
    of_run.into_iter().chain(of_divisor).find_map(|i| runs[i].idle_scheduler)
}

/// The key of the scheduler.
const SCHEDULER: &str = "control.scheduler";

/// The source's value and the bounds. A guard of our own is shown by its bounds alone, since no paper states its value.
fn limits(expect: &Expect) -> (Option<f64>, Option<f64>, Option<f64>) {
    match expect.bound {
        Bound::Near { value, fraction, .. } if expect.kind == Kind::Own => {
            let off = fraction * value.abs();
            (None, Some(value - off), Some(value + off))
        }
        Bound::Near { value, .. } => (Some(value), None, None),
        Bound::Range { at_least, at_most } => (None, at_least, at_most),
    }
}

/// The run with those settings that differs from `runs[index]` in the fewest axes of the sweep.
fn sibling(runs: &[Candidate<'_>], index: usize, settings: &[(String, Value)]) -> Option<usize> {
    let here = runs[index].position;
    (0..runs.len())
        .filter(|&i| matches(runs[i].table, settings))
        .min_by_key(|&i| runs[i].position.iter().zip(here).filter(|(a, b)| a != b).count())
}

/// Whether a scenario has these settings.
pub fn matches(table: &Table, settings: &[(String, Value)]) -> bool {
    settings.iter().all(|(key, wanted)| dotted::get(table, key).is_some_and(|v| same(v, wanted)))
}

/// Equal values; a whole number equals the same float.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Integer(i), Value::Float(f)) | (Value::Float(f), Value::Integer(i)) => *i as f64 == *f,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeats::OfSeed;
    use crate::scenario::expect::KnownMiss;

    fn expect(bound: f64, over: Option<&str>) -> Expect {
        Expect {
            source: "a paper".to_owned(),
            conditions: Vec::new(),
            metric: "goodput_bps".to_owned(),
            kind: Kind::Own,
            bound: Bound::Range { at_least: Some(bound), at_most: None },
            over: over.map(|title| vec![("title".to_owned(), Value::String(title.to_owned()))]),
            known_miss: None,
        }
    }

    fn measured(name: &'static str, value: Option<f64>) -> Repeats {
        let mut repeats = Repeats::default();
        repeats.mean.put_some(name, value);
        repeats
    }

    /// Means over seeds are compared, and an interval that leaves the verdict open is named.
    #[test]
    fn an_interval_wider_than_the_tolerance_is_uncertain() {
        let table = Table::new();
        let judged = |values: [f64; 3], bound: Bound| {
            let of = |(i, value): (usize, &f64)| OfSeed { seed: i as u64, metrics: measured("goodput_bps", Some(*value)).mean };
            let repeats = Repeats::of(values.iter().enumerate().map(of).collect());
            let one = Candidate { table: &table, position: &[], repeats: &repeats, distrust: None, idle_scheduler: None };
            let verdict = judge(&[Expect { bound, ..expect(0.0, None) }], &[one], 0, true).remove(0);
            assert!(verdict.ci95.is_some_and(|half| half > 0.0));
            (verdict.measured.unwrap(), verdict.ok, verdict.uncertain)
        };
        let near = || Bound::Near { value: 2.0, fraction: 0.1, text: "10%".to_owned() };
        assert_eq!(judged([1.99, 2.0, 2.01], near()), (2.0, true, false));
        assert_eq!(judged([1.0, 2.0, 3.0], near()), (2.0, true, true));
        let least = || Bound::Range { at_least: Some(1.5), at_most: None };
        assert_eq!(judged([1.9, 2.0, 2.1], least()), (2.0, true, false));
        assert_eq!(judged([1.5, 2.0, 2.5], least()), (2.0, true, true));
        assert_eq!(judged([0.9, 1.0, 1.1], least()), (1.0, false, false), "surely missed");
    }

    #[test]
    fn verdicts_of_labs_without_idle_cpu_are_untrusted() {
        let metrics = measured("goodput_bps", Some(1.0));
        let tables = ["slow", "good"].map(|title| Table::from_iter([("title".to_owned(), Value::String(title.to_owned()))]));
        let lab = |i: usize, distrust| Candidate {
            table: &tables[i],
            position: &[0],
            repeats: &metrics,
            distrust,
            idle_scheduler: None,
        };
        let status = |expect: Expect, runs: &[Candidate<'_>], index| judge(&[expect], runs, index, true)[0].verdict;
        let both = [lab(0, Some(&[Distrust::Cpu])), lab(1, Some(&[]))];
        assert_eq!(status(expect(0.5, None), &both, 0), Status::Untrusted, "met, and still not trusted");
        assert_eq!(status(expect(2.0, None), &both, 0), Status::Untrusted);
        assert_eq!(status(expect(0.5, None), &both, 1), Status::Ok);
        assert_eq!(status(expect(2.0, None), &both, 1), Status::Untrusted, "the machine was slow in the other run");
        assert_eq!(status(expect(0.5, Some("slow")), &both, 1), Status::Untrusted, "relative to an untrusted run");
        let starved = [lab(0, Some(&[Distrust::Wait])), lab(1, Some(&[]))];
        assert_eq!(
            (status(expect(0.5, None), &starved, 0), status(expect(2.0, None), &starved, 1)),
            (Status::Untrusted, Status::Untrusted)
        );
        let other = [lab(0, Some(&[Distrust::Queue])), lab(1, Some(&[]))];
        assert_eq!(status(expect(0.5, None), &other, 0), Status::Untrusted, "a lab unlike the network described");
        assert_eq!(status(expect(2.0, None), &other, 1), Status::Miss, "which other labs need not be");
        let trusted = [lab(0, Some(&[])), lab(1, None)];
        assert_eq!(status(expect(2.0, None), &trusted, 0), Status::Miss);
        assert_eq!(status(expect(2.0, None), &trusted, 1), Status::Miss);
        assert_eq!(judge(&[expect(2.0, None)], &trusted, 1, false)[0].verdict, Status::NotComparable);
    }

    /// A known miss explains what lies in its interval, and nothing else: not a worse value, not a better one, not an absent metric.
    #[test]
    fn a_known_miss_explains_its_interval_alone() {
        let table = Table::new();
        let status = |measured: Option<f64>| {
            let metrics = self::measured("goodput_bps", measured);
            let known_miss = Some(KnownMiss { between: [1.5, 1.75], cause: "known".to_owned() });
            let expect = Expect { known_miss, ..expect(2.0, None) };
            let verdict = judge(
                &[expect],
                &[Candidate { table: &table, position: &[], repeats: &metrics, distrust: None, idle_scheduler: None }],
                0,
                true,
            )
            .remove(0);
            assert_eq!(verdict.cause.is_some(), verdict.known);
            (verdict.verdict, verdict.ok, verdict.known)
        };
        assert_eq!(status(Some(2.0)), (Status::Ok, true, false));
        for explained in [1.5, 1.6, 1.75] {
            assert_eq!(status(Some(explained)), (Status::KnownMiss, false, true));
        }
        for not in [Some(1.49), Some(1.76), Some(0.0), None] {
            assert_eq!(status(not), (Status::Miss, false, false), "{not:?}");
        }
    }

    /// Neither a value that is met nor one that a known miss explains counts where the named scheduler was idle.
    #[test]
    fn a_scheduler_that_never_ran_meets_nothing() {
        let tables = ["annealing", "none"].map(|name| {
            let control = Table::from_iter([("scheduler".to_owned(), Value::String(name.to_owned()))]);
            Table::from_iter([("control".to_owned(), Value::Table(control))])
        });
        let metrics = measured("goodput_bps", Some(1.6));
        let of = |i: usize, idle_scheduler| Candidate {
            table: &tables[i],
            position: &[0],
            repeats: &metrics,
            distrust: None,
            idle_scheduler,
        };
        let named = |name: &str| vec![(SCHEDULER.to_owned(), Value::String(name.to_owned()))];
        let miss = Some(KnownMiss { between: [1.5, 1.75], cause: "known".to_owned() });
        let status = |expect: &Expect, idle, index: usize| {
            let runs = [of(0, idle), of(1, None)];
            let verdict = judge(std::slice::from_ref(expect), &runs, index, true).remove(0);
            (verdict.verdict, verdict.ok, verdict.known, verdict.cause)
        };
        let met = Expect { conditions: named("annealing"), ..expect(1.0, None) };
        let known = Expect { known_miss: miss, conditions: named("annealing"), ..expect(2.0, None) };
        let idle = Some("the scheduler never ran");
        assert_eq!(status(&met, None, 0), (Status::Ok, true, false, None));
        assert_eq!(status(&known, None, 0), (Status::KnownMiss, false, true, Some("known".to_owned())));
        for expected in [&met, &known] {
            let plain = (Status::Miss, false, false, idle.map(str::to_owned));
            assert_eq!(status(expected, idle, 0), plain);
        }
        let everywhere = expect(1.0, None);
        assert_eq!(status(&everywhere, idle, 0).0, Status::Ok, "it names no scheduler");
        let over = Expect { conditions: named("none"), over: Some(named("annealing")), ..expect(0.9, None) };
        assert_eq!(status(&over, None, 1).0, Status::Ok);
        assert_eq!(status(&over, idle, 1).0, Status::Miss, "divided by an idle one");
    }

    /// What each kind states, and with which unit.
    #[test]
    fn published_values_bounds_and_own_guards_are_kept_apart() {
        let metrics = measured("requests_per_s", Some(13_151_300.0));
        let table = Table::new();
        let limits = |kind, bound| {
            let expect = Expect { kind, bound, metric: "requests_per_s".to_owned(), ..expect(0.0, None) };
            let verdict = judge(
                &[expect],
                &[Candidate { table: &table, position: &[], repeats: &metrics, distrust: None, idle_scheduler: None }],
                0,
                true,
            )
            .remove(0);
            assert_eq!((verdict.kind, verdict.unit.as_str()), (kind, "requests/s"));
            let percent = verdict.deviation().map(|share| (share * 1000.0).round() / 10.0);
            (verdict.paper, verdict.at_least, verdict.at_most, verdict.ok, percent)
        };
        let near = || Bound::Near { value: 1e7, fraction: 0.1, text: "10%".to_owned() };
        assert_eq!(limits(Kind::Published, near()), (Some(1e7), None, None, false, Some(31.5)));
        assert_eq!(limits(Kind::Own, near()), (None, Some(9e6), Some(1.1e7), false, Some(19.6)));
        let range = |at_least, at_most| Bound::Range { at_least, at_most };
        assert_eq!(limits(Kind::Bound, range(Some(9e6), None)), (None, Some(9e6), None, true, None));
        assert_eq!(limits(Kind::Bound, range(Some(9e6), Some(1.1e7))), (None, Some(9e6), Some(1.1e7), false, Some(19.6)));
    }
}
