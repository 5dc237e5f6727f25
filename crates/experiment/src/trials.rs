//! The trials of a search: each is a run of the study with another value of the setting that is searched for.

use crate::error::{Error, KeyError, Result};
use crate::ideal::Ideals;
use crate::measure::measure;
use crate::metrics::Metrics;
use crate::repeats::{OfSeed, Repeats};
use crate::scenario::Run;
use crate::scenario::search::Search;
use crate::search::{Bracket, Finding, expected_trials};
use crate::study::Study;
use crate::wall::Stopwatch;
use crate::world::{Prepared, execute};

/// What the search of a run found.
#[derive(Debug)]
pub struct Found {
    /// The run with the setting that was found.
    pub run: Run,
    /// The setting, and what it took to find it.
    pub finding: Finding,
}

/// A run of a study, ready to be executed. If it searches for a setting, that is found first, which counts as preparation.
///
/// # Errors
/// Those of a trial.
pub fn prepare(study: &Study, index: usize, on_progress: &dyn Fn(f64)) -> Result<(Prepared, Option<Found>)> {
    let Some(search) = study.searches.get(&index) else { return Ok((study.prepare(index)?, None)) };
    let clock = Stopwatch::start();
    let found = settle(study, index, search, on_progress)?;
    let prepared = study.prepare_run(&found.run)?;
    Ok((Prepared { seconds: clock.seconds(), ..prepared }, Some(found)))
}

/// Runs trials until the largest setting that meets the bound is found. The run found is that with this setting, or with the smallest if
/// none meets it. `on_progress` receives the fraction that is done; the found run's own share is left.
///
/// # Errors
/// What a trial fails of, and a metric that the runs do not know.
fn settle(study: &Study, index: usize, search: &Search, on_progress: &dyn Fn(f64)) -> Result<Found> {
    let mut bracket = Bracket::default();
    let expected = f64::from(expected_trials(search)) + 1.0;
    while let Some(value) = bracket.next(search) {
        let done = f64::from(bracket.trials);
        let progress = &|fraction: f64| on_progress((done + fraction) / expected);
        let metrics = run_trial(study, index, search, value, progress)?;
        let measured = metrics.get(&search.metric);
        if measured.is_none() && bracket.trials == 0 {
            return Err(unknown_metric(search, value, &metrics));
        }
        bracket.record(value, measured.is_some_and(|m| search.bound.is_met(m)));
    }
    let finding = bracket.finding(search);
    warn_open_ends(search, &finding);
    Ok(Found { run: study.trial(index, bracket.met.unwrap_or(search.from))?, finding })
}

/// What a trial measures: the mean over its seeds.
fn run_trial(study: &Study, index: usize, search: &Search, value: f64, on_progress: &dyn Fn(f64)) -> Result<Metrics> {
    let run = study.trial(index, value)?;
    let seeds: Vec<u64> = run.scenario.world.seeds().collect();
    let mut measured: Vec<OfSeed> = Vec::new();
    for &seed in &seeds {
        let mut trial = run.with_seed(seed, &study.source)?;
        // The non-blocking switch is run once, at the end, unless the bound depends on it.
        trial.scenario.world.ideal &= OF_IDEAL.contains(&search.metric.as_str());
        let done = measured.len() as f64;
        let mut progress = |fraction: f64| on_progress((done + fraction) / seeds.len() as f64);
        let executed = execute(study.prepare_run(&trial)?, &trial.scenario, study.cores_per_run(), &mut progress)?;
        let ideal = Ideals::default().of(&executed, &trial, &mut || progress(1.0))?;
        measured.push(OfSeed { seed, metrics: measure(&executed, &trial, ideal.as_deref())?.metrics });
    }
    Ok(Repeats::of(measured).mean)
}

/// Metrics that compare with the non-blocking switch.
const OF_IDEAL: &[&str] = &["optimal_fraction", "nonblocking_fraction", "splittable_fraction"];

fn unknown_metric(search: &Search, value: f64, metrics: &Metrics) -> Error {
    let known: Vec<&str> = metrics.iter().map(|(name, _)| name).collect();
    let message = format!("with {} = {value} the run has no `{}`", search.key, search.metric);
    KeyError::new("search.metric", message, format!("it has {}", known.join(", "))).into()
}

/// Warns of a search that ended at a limit instead of at an answer.
fn warn_open_ends(search: &Search, finding: &Finding) {
    let (key, goal) = (&search.key, search.goal());
    match (finding.value, finding.fails_at) {
        (None, _) => tracing::warn!("no {key} from {} on has {goal}: the run shown is that of {}", search.from, search.from),
        (Some(_), None) => tracing::warn!("every {key} up to {} has {goal}: the answer may lie beyond", search.to),
        (Some(met), Some(missed)) if missed - met > search.precision * met && !(search.whole && missed - met <= 1.0) => {
            tracing::warn!("the search for {key} ended after {} trials, between {met} and {missed}", finding.trials);
        }
        _ => {}
    }
}
