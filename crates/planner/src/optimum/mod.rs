//! `weft optimum`: how much of what is possible a routing reaches, over a series of traffic matrices (VL2 section 5.2, figure 15).
//!
//! ```text
//!   scenario --> Network (links between switches)
//!                   |
//!   matrices --> Router: ECMP, weighted ECMP, VLB, single paths --.
//!           |--> optimum: the best routing for each matrix, with certified bounds --+--> Links: each link's largest load --> Report, metrics
//!           |--> oblivious: the best routing for all of them --|
//!           `--> others: SPAIN; flows by hash and by schedulers --'
//! ```

mod compare;
pub mod others;
mod report;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weft_experiment::cli::table::of_check;
use weft_experiment::expect::Status;
use weft_experiment::wall::Stopwatch;

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::fabric::ScenarioArgs;
use crate::routing::demand::TrafficArgs;

use others::Other;

pub use compare::{Comparison, compare};
pub use report::{Report, RunReport};

/// Arguments of `weft optimum`.
#[derive(Debug, Args)]
pub struct OptimumArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// How near the bounds of the optimum come to each other
    #[arg(long, value_name = "FRACTION", default_value_t = 0.02, value_parser = tolerance)]
    tolerance: f64,
    /// End with exit code 1 if an [[expect]] of the scenario is missed
    #[arg(long)]
    check: bool,
    /// Write optimum.json and optimum.csv into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// What is wrong with the scenario or the matrices; a folder that cannot be written.
pub fn run(args: &OptimumArgs) -> Result<ExitCode> {
    let clock = Stopwatch::start();
    let (source, cases) = args.scenario.cases(!args.traffic.is_given())?;
    if args.check && !cases.iter().any(|case| case.run.as_ref().is_some_and(|run| !run.scenario.expect.is_empty())) {
        return Err(Error::usage("the scenario has no [[expect]]: nothing would be checked", "leave --check out, or add some"));
    }
    let mut runs = Vec::new();
    for case in &cases {
        let demand = args.traffic.on(case.run.as_ref(), &case.fabric, &case.network)?;
        let network = case.network.clone().with_fast_nics();
        let mut others: Vec<Other> = others::spain(&case.fabric, &network, &demand.matrices).into_iter().collect();
        if let (Some(run), true) = (&case.run, demand.is_of_flows) {
            others.extend(others::schedulers(run, &case.fabric, &network));
        }
        let comparison = compare(&network, &demand.matrices, &others, args.tolerance);
        runs.push(RunReport::new(case, demand, comparison));
    }
    report::judge(source.as_ref(), &cases, &mut runs);
    let report = Report { tolerance: args.tolerance, runs };
    if let Some(folder) = &args.out {
        report.write(folder)?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&table::render(&report))?;
        let judged = report.summaries();
        if let (Some(source), true) = (&source, judged.iter().any(|run| !run.expect.is_empty())) {
            print_text(&format!("\n{}", of_check(source.name(), &report.title(&cases), clock.seconds(), &judged)))?;
        }
    }
    let is_missed = report.runs.iter().flat_map(|run| &run.expect).any(|verdict| verdict.verdict == Status::Miss);
    Ok(if args.check && is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|it| *it >= 0.001 && *it < 1.0).ok_or_else(|| "a fraction from 0.001 to below 1".to_owned())
}
