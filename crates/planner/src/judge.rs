//! Compares what a command measured with the `[[expect]]` of its scenario.

use std::process::ExitCode;

use toml::Value;
use weft_experiment::cli::table::of_check;
use weft_experiment::expect::Status;
use weft_experiment::metrics::{Metrics, is_one_of};
use weft_experiment::scenario::read_expectations_of;
use weft_experiment::scenario::source::{Source, Variant};
use weft_experiment::summary::{Evaluated, RunSummary};

use crate::error::{Error, Result};
use crate::output::print_text;

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

/// The title of a scenario.
///
/// # Errors
/// What is wrong with its sweep.
pub fn title_of(source: &Source) -> Result<String> {
    let title = source.variants()?.first().and_then(|it| it.table.get("title")?.as_str().map(str::to_owned));
    Ok(title.unwrap_or_else(|| "untitled".to_owned()))
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
        print_text(&format!("\n{}", of_check(source.name(), &title_of(source)?, shown.seconds, judged)))?;
    }
    let is_missed = judged.iter().flat_map(|run| &run.expect).any(|verdict| verdict.verdict == Status::Miss);
    Ok(if shown.check && is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
