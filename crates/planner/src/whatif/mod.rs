//! `weft whatif`: what failures cost a fabric.
//!
//! ```text
//!   scenario --> Network --parts--> states: each part alone, pairs, or drawn by rates of failure
//!                                      |
//!                  Matrix --router--> carried, throughput, worst pair of each --> Study --> table, JSON, CSV, HTML
//! ```
//! Every state is evaluated exactly for ECMP; of the worst five, bounds of what the best routing would carry are computed too.
//! With `--plan`, steps of growth are evaluated instead.

mod cables;
pub mod growth;
mod page;
pub mod parts;
pub mod plan;
mod plan_page;
mod plan_table;
pub mod rates;
mod rewiring;
pub mod study;
mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cost::read_prices;
use crate::error::{Error, Result};
use crate::fabric::{Case, ScenarioArgs};
use crate::output::{print_json, print_text};
use crate::routing::demand::TrafficArgs;
use parts::Kind;
use rates::Failures;
use study::{Question, Study};

/// Arguments of `weft whatif`.
#[derive(Debug, Args)]
pub struct WhatifArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Kinds of failures to evaluate
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_enum, default_value = "cable,switch,pod,plane")]
    #[arg(help_heading = "Failures")]
    fail: Vec<Kind>,
    /// Evaluate pairs of failures too
    #[arg(long, help_heading = "Failures")]
    pairs: bool,
    /// Number of pairs to evaluate at most, and of states to draw by rates
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    #[arg(help_heading = "Failures")]
    states: u32,
    /// Failure rates: TOML file with [[part]] kind, tier, mtbf, mttr
    #[arg(long, value_name = "FILE", help_heading = "Failures")]
    rates: Option<PathBuf>,
    /// Of several matrices their mean
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Service level, as a fraction of what the healthy network carries
    #[arg(long, value_name = "FRACTION", default_value_t = 0.9, value_parser = level, help_heading = "Failures")]
    level: f64,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Failures")]
    seed: u64,
    /// Evaluate a plan of growth instead of failures: TOML file with service_level and [[step]] name, set
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fail", "pairs", "states", "rates", "level", "seed"])]
    #[arg(help_heading = "Growth")]
    plan: Option<PathBuf>,
    /// Price list for the plan
    #[arg(long, value_name = "FILE", requires = "plan", help_heading = "Growth")]
    prices: Option<PathBuf>,
    /// Write whatif.json, whatif.html and, without a plan, states.csv to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it. Exit code 1: a plan does not meet its service level.
///
/// # Errors
/// What is wrong with the scenario, the rates, the plan or the matrices; a folder that cannot be written.
pub fn run(args: &WhatifArgs) -> Result<ExitCode> {
    match &args.plan {
        Some(plan) => run_plan(args, plan),
        None => run_failures(args).map(|()| ExitCode::SUCCESS),
    }
}

fn run_plan(args: &WhatifArgs, plan: &Path) -> Result<ExitCode> {
    let prices = args.prices.as_deref().map(read_prices).transpose()?;
    let growth = plan::grow(plan, &args.scenario, &args.traffic, prices.as_ref())?;
    if let Some(folder) = &args.out {
        let json = serde_json::to_string_pretty(&growth).expect("results are JSON") + "\n";
        write_files(folder, &[("whatif.html", plan_page::render(&growth)), ("whatif.json", json)])?;
    }
    if args.json {
        print_json(&growth)?
    } else {
        print_text(&plan_table::render(&growth))?
    }
    Ok(if growth.met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_failures(args: &WhatifArgs) -> Result<()> {
    let Case { run, fabric, network, .. } = args.scenario.first_case(!args.traffic.is_given())?;
    let demand = args.traffic.on(run.as_ref(), &fabric, &network)?;
    let parts = parts::all(&fabric, &network, &args.fail);
    if parts.is_empty() {
        let message = format!("{} has no such parts", fabric.title());
        return Err(Error::usage(message, "name others with --fail: cable, switch, pod, plane"));
    }
    let failures = args
        .rates
        .as_deref()
        .map(|path| rates::read(path).and_then(|rates| Failures::checked(path, &parts, &rates)))
        .transpose()?;
    let question = Question { pairs: args.pairs, states: args.states as usize, level: args.level, seed: args.seed };
    let mut study = study::study(&network, &parts, &demand.mean(), failures.as_ref(), question);
    study.fabric = fabric.title().to_owned();
    study.traffic = demand.name;
    if let Some(folder) = &args.out {
        let json = serde_json::to_string_pretty(&study).expect("results are JSON") + "\n";
        let page = page::render(&network, &study);
        write_files(folder, &[("states.csv", states(&study)), ("whatif.html", page), ("whatif.json", json)])?;
    }
    if args.json { print_json(&study) } else { print_text(&table::render(&study)) }
}

fn write_files(folder: &Path, files: &[(&str, String)]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(())
}

/// All states that were enumerated.
fn states(study: &Study) -> String {
    let mut out = "failed,carried,throughput,worst_pair,from,to,disconnected\n".to_owned();
    for state in study.single.iter().chain(&study.pair_states) {
        let [from, to] = state.worst_racks.as_ref().map_or(["", ""], |racks| racks.each_ref().map(|r| &**r));
        let failed = state.failed.join(" + ");
        let (carried, throughput, worst) = (state.carried, state.throughput, state.worst_pair);
        let _ = writeln!(out, "{failed},{carried},{throughput},{worst},{from},{to},{}", state.disconnected);
    }
    out
}

fn level(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|level| *level > 0.0 && *level <= 1.0).ok_or_else(|| "a fraction above 0 and at most 1".to_owned())
}
