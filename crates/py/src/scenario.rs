//! `weft.run` and `weft.check`: a scenario from a file or a dict, run by the ordinary engine.

use std::path::PathBuf;

use pyo3::prelude::*;
use toml::Value;
use weft_experiment::scenario::source::{Form, Overrides, Source};
use weft_experiment::spain::{Survey, survey_of};
use weft_experiment::study::Study;
use weft_experiment::summary::Summary;
use weft_experiment::{Error, Result};

use crate::error::from_experiment;
use crate::interrupt::{Stop, interruptible};

/// Runs a scenario and returns `summary.json`.
///
/// `scenario` is the path of a file, or else `table` is JSON and relative paths start at `folder`. `settings` is JSON, a list of
/// pairs of dotted keys and values. `form` is `plain`, `quick` or `full`.
#[pyfunction]
#[pyo3(name = "run", signature = (*, scenario, table, folder, settings, form, out, threads))]
#[expect(clippy::too_many_arguments, reason = "all are named; python/weft/study.py is the only caller")]
pub fn run_scenario(
    py: Python<'_>,
    scenario: Option<PathBuf>,
    table: Option<&str>,
    folder: PathBuf,
    settings: &str,
    form: &str,
    out: Option<PathBuf>,
    threads: Option<usize>,
) -> PyResult<String> {
    let overrides = overrides(settings, form).map_err(|e| from_experiment(&e))?;
    let table = table.map(|text| parse(text, "the scenario")).transpose().map_err(|e| from_experiment(&e))?;
    let work = move |stop: &Stop| -> Result<Summary> {
        let source = match (scenario, table) {
            (Some(path), _) => Source::read(&path, &overrides)?,
            (None, table) => Source::from_table(table.unwrap_or_default(), folder, &overrides)?,
        };
        if out.is_none() && source.is_for_planner() {
            let message = format!("{} expects what the planner measures, and no world", source.name());
            return Err(Error::usage(message, "compare it with `weft.planner.check(scenario)`"));
        }
        let study = Study::new(source, &mut |_, _| {})?;
        in_pool(threads, || weft_experiment::run::run(&study, out.as_deref(), &|_, _| stop.check()))?
    };
    let summary = interruptible(py, work)?.map_err(|e| from_experiment(&e))?;
    Ok(serde_json::to_string(&summary).expect("a summary is JSON"))
}

/// SPAIN's plan of a scenario: what `weft spain --json` prints. The arguments are those of `run`.
#[pyfunction]
#[pyo3(name = "spain", signature = (*, scenario, table, folder, settings))]
pub fn plan_spain(
    py: Python<'_>,
    scenario: Option<PathBuf>,
    table: Option<&str>,
    folder: PathBuf,
    settings: &str,
) -> PyResult<String> {
    let overrides = overrides(settings, "plain").map_err(|e| from_experiment(&e))?;
    let table = table.map(|text| parse(text, "the scenario")).transpose().map_err(|e| from_experiment(&e))?;
    let plan = move || -> Result<Survey> {
        let source = match (scenario, table) {
            (Some(path), _) => Source::read(&path, &overrides)?,
            (None, table) => Source::from_table(table.unwrap_or_default(), folder, &overrides)?,
        };
        survey_of(&source)
    };
    let survey = py.detach(plan).map_err(|e| from_experiment(&e))?;
    Ok(serde_json::to_string(&survey).expect("a plan is JSON"))
}

/// Reads what `settings` and `form` hold.
pub fn overrides(settings: &str, form: &str) -> Result<Overrides> {
    let form = match form {
        "quick" => Form::Quick,
        "full" => Form::Full,
        _ => Form::Plain,
    };
    let set: Vec<(String, Value)> = parse(settings, "a setting")?;
    Ok(Overrides { form, set })
}

/// Reads JSON that `python/weft` wrote as TOML's types.
pub fn parse<T: for<'de> serde::Deserialize<'de>>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        Error::usage(format!("{what} holds what TOML cannot: {e}"), "use numbers below 2^63, strings, booleans, lists and dicts")
    })
}

fn in_pool<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T> {
    if threads == Some(0) {
        return Err(Error::usage("no run can go on with 0 threads", "give `threads=1` or more"));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    let pool = pool.map_err(|e| Error::usage(e.to_string(), "ask for fewer `threads`"))?;
    Ok(pool.install(work))
}
