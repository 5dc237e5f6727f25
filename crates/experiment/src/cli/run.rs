//! `weft run`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use toml::Value;

use crate::cli::progress::Bar;
use crate::cli::{ScenarioArgs, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::run;
use crate::scenario::Study;
use crate::scenario::source::Form;

/// Arguments of `weft run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    scenario: PathBuf,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Override world.kind: flow, packet or lab
    #[arg(long, value_name = "WORLD")]
    world: Option<String>,
    /// Apply the scenario's [quick] table
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Apply the scenario's [full] table: the paper's size
    #[arg(long)]
    full: bool,
    /// Results folder [default: results/NAME-OF-THE-FILE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs of a sweep side by side [default: one a core]; threads that are left then share the work of a packet run
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print summary.json and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let form = match (args.quick, args.full) {
        (true, _) => Form::Quick,
        (_, true) => Form::Full,
        _ => Form::Plain,
    };
    let mut overrides = args.changes.overrides(form)?;
    overrides.set.extend(args.world.iter().map(|w| ("world.kind".to_owned(), Value::String(w.clone()))));
    let mut study = Study::read(&args.scenario, &overrides)?;
    // Only if it is asked for: parts of a run wait for each other all the time, which a busy machine makes slow.
    study.cores = args.threads.unwrap_or(1);
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_out(&args.scenario)?,
    };
    let bar = Bar::new(study.runs.len());
    let summary = in_pool(args.threads, || run::run(&study, Some(&out), &|i, part| bar.update(i, part)))??;
    bar.finish();
    if args.json {
        print_json(&summary)?;
    } else {
        print_text(&table::of_runs(&summary))?;
        print_text(&format!("results: {}\nreport:  {}\n", out.display(), out.join("report.html").display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `work` with that many threads.
pub fn in_pool<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T> {
    if threads.is_some_and(|n| n == 0 || n > MAX_THREADS) {
        return Err(Error::usage("that is no number of threads to run on", format!("write `--threads` with 1 to {MAX_THREADS}")));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    let pool = pool.map_err(|e| Error::usage(e.to_string(), "ask for fewer `--threads`"))?;
    Ok(pool.install(work))
}

const MAX_THREADS: usize = 1024;

fn default_out(scenario: &std::path::Path) -> Result<PathBuf> {
    let stem = scenario
        .file_stem()
        .ok_or_else(|| Error::usage(format!("{} is not a file", scenario.display()), "name a scenario file"))?;
    Ok(PathBuf::from("results").join(stem))
}
