//! `weft analyze`: what logs show of a network's traffic (VL2 sections 3.1 to 3.3).
//!
//! ```text
//!   files --formats--> FlowRecord --duplicates--> Study: sizes, starts, concurrency, matrices, hosts
//!                          |                          |
//!   scenario --simulated--> |                         `--> TrafficReport --> table, JSON, CSV, HTML; metrics
//!                        Tally (what was left out)
//! ```

mod anonymize;
mod args;
mod burst;
mod cluster;
mod concurrency;
mod duplicates;
mod emit;
pub mod formats;
mod hose;
mod hosts;
mod matrix;
mod metrics;
pub mod report;
mod simulated;
mod sketch;
mod study;
mod tally;

use std::process::ExitCode;

use weft_experiment::metrics::{Metrics, OF_TRAFFIC};
use weft_experiment::scenario::source::{Form, Overrides, Source};
use weft_experiment::wall::Stopwatch;

use crate::error::{Error, Result};
use crate::fabric::is_scenario;
use crate::failures;
use crate::judge::{self, judge};
use crate::output::{print_json, print_text};
use args::TrafficArgs;
use report::TrafficReport;
use simulated::Studied;

pub use anonymize::Anonymizer;
pub use args::AnalyzeCommand;
pub use hosts::HostMap;
pub use sketch::LogHistogram;
pub use study::{Settings, Study};
pub use tally::Tally;

/// Runs a command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format; a log that the settings do not fit.
pub fn run(command: &AnalyzeCommand) -> Result<ExitCode> {
    match command {
        AnalyzeCommand::Traffic(args) if args.files.iter().any(|file| is_scenario(file)) => of_scenario(args),
        AnalyzeCommand::Traffic(args) => of_logs(args).map(|()| ExitCode::SUCCESS),
        AnalyzeCommand::Failures(args) => failures::run(args),
    }
}

/// What a scenario's runs measure.
///
/// # Errors
/// What is wrong with the scenario.
pub fn evaluate(source: Source) -> Result<(Source, Vec<Metrics>)> {
    let (source, studied) = simulated::study(source, &Settings::default(), None)?;
    Ok((source, studied.iter().map(Studied::metrics).collect()))
}

/// Studies the traffic of a scenario with a single run.
fn of_scenario(args: &TrafficArgs) -> Result<ExitCode> {
    let [scenario] = &args.files[..] else {
        return Err(Error::usage("a scenario is studied by itself", "name it alone, without logs and other scenarios"));
    };
    if args.hosts.is_some() || args.emit.is_some() || args.anonymize.is_some() || args.sampling.is_some() {
        let help = "leave out --hosts, --emit, --anonymize and --sampling: the scenario has its own racks, and is one already";
        return Err(Error::usage(format!("{} is a scenario, and no log", scenario.display()), help));
    }
    let clock = Stopwatch::start();
    let source = Source::read(scenario, &Overrides { form: Form::Plain, set: args.set.clone() })?;
    let runs = source.variants()?.len();
    if runs > 1 {
        let message = format!("{} has {runs} runs", scenario.display());
        return Err(Error::usage(message, "choose one of them with --set KEY=VALUE for each key of [sweep]"));
    }
    let (source, studied) = simulated::study(source, &args.settings(), args.interval_ns())?;
    let judged = judge(&source, studied.iter().map(Studied::metrics), OF_TRAFFIC)?;
    show(args, &studied[0].report, "")?;
    judge::conclude(&source, &judged, &judge::Shown { check: args.check, json: args.json, seconds: clock.seconds() })
}

/// Writes and prints a report.
fn show(args: &TrafficArgs, report: &TrafficReport, further: &str) -> Result<()> {
    if let Some(folder) = &args.out {
        report::write_folder(folder, report)?;
    }
    if args.json {
        return print_json(report);
    }
    print_text(&(report::table::render(report) + further))
}

fn of_logs(args: &TrafficArgs) -> Result<()> {
    if args.check || !args.set.is_empty() {
        return Err(Error::usage("logs have no [[expect]] and no keys", "leave out --check and --set, or name a scenario"));
    }
    let map = args.hosts.as_deref().map(HostMap::read).transpose()?;
    let key = args.anonymize.as_deref().map(Anonymizer::read).transpose()?;
    let mut study = Study::new(args.settings(), map, key);
    for path in &args.files {
        study.read(path)?;
    }
    let options = study.options();
    let (report, mut hosts) = study.finish()?;
    let mut written = Vec::new();
    if let Some(path) = &args.emit {
        let job = emit::Job { path, form: args.emit_as, files: &args.files, options };
        written = emit::write(&job, &report, &mut hosts)?;
    }
    let lines: String = written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
    show(args, &report, &lines)
}
