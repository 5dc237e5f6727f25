//! Compares what a command measured with the `[[expect]]` of its scenario; `weft check` starts `weft-planner evaluate` for that.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use toml::Value;
use weft_experiment::cli::table::of_check;
use weft_experiment::expect::Status;
use weft_experiment::metrics::{Metrics, OF_FAILURES, OF_ROUTINGS, OF_TRAFFIC, is_one_of};
use weft_experiment::scenario::read_expectations_of;
use weft_experiment::scenario::source::{Form, Overrides, Source, Variant};
use weft_experiment::summary::{Evaluated, RunSummary};

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::fabric::parse_set;
use crate::{analyze, failures, optimum};

/// Arguments of `weft-planner evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// A scenario (`@...` is a bundled one)
    scenario: std::path::PathBuf,
    /// With the keys of its [quick]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// With the keys of its [full]
    #[arg(long)]
    full: bool,
    /// Override a key of the scenario
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    set: Vec<(String, Value)>,
}

#[derive(Debug, Serialize)]
struct Evaluation {
    title: String,
    runs: Vec<RunSummary>,
}

/// Measures all that a scenario expects of the planner, and prints the verdicts as JSON.
///
/// # Errors
/// What is wrong with the scenario.
pub fn run(args: &EvaluateArgs) -> Result<()> {
    let form = match (args.quick, args.full) {
        (true, _) => Form::Quick,
        (_, true) => Form::Full,
        _ => Form::Plain,
    };
    let overrides = Overrides { form, set: args.set.clone() };
    let read = || Source::read(&args.scenario, &overrides);
    let mut source = read()?;
    let mut metrics = vec![Metrics::default(); source.variants()?.len()];
    let mut add = |measured: Vec<Metrics>| metrics.iter_mut().zip(&measured).for_each(|(all, one)| all.extend(one));
    if expects(&source, OF_ROUTINGS)? {
        add(optimum::evaluate(&source)?);
    }
    if expects(&source, OF_FAILURES)? {
        add(failures::evaluate(&source)?);
    }
    if expects(&source, OF_TRAFFIC)? {
        let (studied, measured) = analyze::evaluate(source)?;
        source = studied;
        add(measured);
    }
    let all: Vec<&str> = [OF_ROUTINGS, OF_TRAFFIC, OF_FAILURES].concat();
    let runs = judge(&source, metrics.into_iter(), &all)?;
    let title = source.variants()?.first().and_then(|it| it.table.get("title")?.as_str().map(str::to_owned));
    print_json(&Evaluation { title: title.unwrap_or_else(|| "untitled".to_owned()), runs })
}

fn expects(source: &Source, names: &[&str]) -> Result<bool> {
    for variant in source.variants()? {
        if read_expectations_of(&variant, source)?.iter().any(|expect| is_one_of(&expect.metric, names)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares the runs of a scenario, each with its metrics, with what it expects of the metrics `names`.
///
/// # Errors
/// What is wrong with its expectations.
pub fn judge(source: &Source, metrics: impl Iterator<Item = Metrics>, names: &[&str]) -> Result<Vec<RunSummary>> {
    let variants = source.variants()?;
    let mut evaluated = Vec::new();
    for (variant, metrics) in variants.iter().zip(metrics) {
        let mut expect = read_expectations_of(variant, source)?;
        expect.retain(|it| is_one_of(&it.metric, names));
        evaluated.push(Evaluated { variant, seed: seed_of(variant), expect, metrics });
    }
    Ok(RunSummary::of_evaluated(source, &evaluated))
}

/// The seed of a run, whatever else its scenario holds.
pub fn seed_of(variant: &Variant) -> u64 {
    let seed = variant.table.get("world").and_then(|world| world.get("seed")).and_then(Value::as_integer);
    seed.and_then(|seed| u64::try_from(seed).ok()).unwrap_or(1)
}

/// What is shown of verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Whether a miss is exit code 1.
    pub check: bool,
    /// Whether stdout is a JSON document, to which nothing is added.
    pub json: bool,
    /// What the command took.
    pub seconds: f64,
}

/// Prints verdicts, if there are any, and gives the exit code.
///
/// # Errors
/// Verdicts that are asked for and do not exist.
pub fn conclude(source: &Source, judged: &[RunSummary], shown: &Shown) -> Result<ExitCode> {
    let has_verdicts = judged.iter().any(|run| !run.expect.is_empty());
    if shown.check && !has_verdicts {
        let message = format!("{} has no [[expect]] of this command's metrics: nothing would be checked", source.name());
        return Err(Error::usage(message, "leave --check out, or add some"));
    }
    if has_verdicts && !shown.json {
        let title = source.variants()?.first().and_then(|it| it.table.get("title")?.as_str().map(str::to_owned));
        print_text(&format!("\n{}", of_check(source.name(), &title.unwrap_or_default(), shown.seconds, judged)))?;
    }
    let is_missed = judged.iter().flat_map(|run| &run.expect).any(|verdict| verdict.verdict == Status::Miss);
    Ok(if shown.check && is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
