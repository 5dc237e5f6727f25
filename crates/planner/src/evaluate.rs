//! `weft-planner evaluate`, which `weft check` starts: measures all that a scenario expects of the planner.

use clap::Args;
use serde::Serialize;
use toml::Value;
use weft_experiment::metrics::{Metrics, OF_FAILURES, OF_ROUTINGS, OF_TRAFFIC, is_one_of};
use weft_experiment::scenario::dotted::parse_set;
use weft_experiment::scenario::read_expectations_of;
use weft_experiment::scenario::source::{Form, Overrides, Source};
use weft_experiment::summary::RunSummary;

use crate::error::Result;
use crate::judge::{judge, title_of};
use crate::output::print_json;
use crate::{analyze, failures, optimum};

/// Arguments of `weft-planner evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// A scenario (`@...` is a bundled one)
    scenario: std::path::PathBuf,
    /// With the keys of its `[quick]`
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// With the keys of its `[full]`
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
    print_json(&Evaluation { title: title_of(&source)?, runs })
}

fn expects(source: &Source, names: &[&str]) -> Result<bool> {
    for variant in source.variants()? {
        if read_expectations_of(&variant, source)?.iter().any(|expect| is_one_of(&expect.metric, names)) {
            return Ok(true);
        }
    }
    Ok(false)
}
