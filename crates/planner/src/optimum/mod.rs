//! `weft optimum`: how much of what is possible a routing reaches, over a series of traffic matrices (VL2 section 5.2, figure 15).
//!
//! ```text
//!   scenario --> Network (links between switches)
//!                   |
//!   matrices --> Router: ECMP, weighted ECMP, VLB, single paths --.
//!           |--> optimum: the best routing for each matrix, with certified bounds --+--> Links: each link's largest load --> Report, metrics
//!           |--> oblivious: the best routing for all of them --|
//!           |--> others: SPAIN --|
//!           `--> schedulers: flows by hash and by Hedera's placers --'
//! ```

mod compare;
pub mod others;
mod report;
pub mod schedulers;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weft_experiment::metrics::{Metrics, OF_ROUTINGS};
use weft_experiment::scenario::source::Source;
use weft_experiment::wall::Stopwatch;

use crate::error::{Error, Result};
use crate::fabric::{Case, ScenarioArgs, cases_of};
use crate::judge::{self, Shown, judge};
use crate::output::{print_json, print_text};
use crate::routing::demand::TrafficArgs;

use others::Other;
use schedulers::{FLOWS, Setup};

pub use compare::{Comparison, compare};
pub use report::{Report, RunReport};

/// Arguments of `weft optimum`.
#[derive(Debug, Args)]
pub struct OptimumArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Gap between the bounds of the optimum at which to stop
    #[arg(long, value_name = "FRACTION", default_value_t = TOLERANCE, value_parser = tolerance)]
    tolerance: f64,
    /// End with exit code 1 if an `[[expect]]` of the scenario is missed
    #[arg(long)]
    check: bool,
    /// Write optimum.json and optimum.csv to this folder
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
    if args.check && source.is_none() {
        return Err(Error::usage(
            "a fabric file has no [[expect]]: nothing would be checked",
            "leave --check out, or name a scenario",
        ));
    }
    let mut runs = compare_all(&cases, &args.traffic, args.tolerance)?;
    let judged = match &source {
        Some(source) if !args.traffic.is_given() => judge(source, runs.iter().map(|run| run.metrics.clone()), OF_ROUTINGS)?,
        _ => Vec::new(),
    };
    runs.iter_mut().zip(&judged).for_each(|(run, judged)| run.expect.clone_from(&judged.expect));
    let report = Report { tolerance: args.tolerance, runs };
    if let Some(folder) = &args.out {
        report.write(folder)?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&table::render(&report))?;
    }
    let shown = Shown { check: args.check, json: args.json, seconds: clock.seconds() };
    source.map_or(Ok(ExitCode::SUCCESS), |source| judge::conclude(&source, &judged, &shown))
}

/// What a scenario's runs measure, with the default settings.
///
/// # Errors
/// What is wrong with the scenario.
pub fn evaluate(source: &Source) -> Result<Vec<Metrics>> {
    let runs = compare_all(&cases_of(source, true)?, &TrafficArgs::default(), TOLERANCE)?;
    Ok(runs.into_iter().map(|run| run.metrics).collect())
}

fn compare_all(cases: &[Case], traffic: &TrafficArgs, tolerance: f64) -> Result<Vec<RunReport>> {
    let mut runs = Vec::new();
    for case in cases {
        let demand = traffic.on(case.run.as_ref(), &case.fabric, &case.network)?;
        let network = case.network.clone().with_fast_nics();
        let mut others: Vec<Other> = others::spain(&case.fabric, &network, &demand.matrices).into_iter().collect();
        others.extend(match &case.run {
            Some(run) if demand.is_of_flows => schedulers::on_flows(run, &case.fabric, &network),
            run => schedulers::on_matrices(&Setup::of(run.as_ref()), &case.fabric, &network, &demand.matrices, FLOWS),
        });
        let comparison = compare(&network, &demand.matrices, &others, tolerance);
        runs.push(RunReport::new(case, demand, comparison));
    }
    Ok(runs)
}

const TOLERANCE: f64 = 0.02;

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|it| *it >= 0.001 && *it < 1.0).ok_or_else(|| "a fraction from 0.001 to below 1".to_owned())
}
