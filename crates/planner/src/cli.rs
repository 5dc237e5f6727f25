//! The command line of `weft-planner`. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: `--check` missed an expectation, or a plan of `whatif` its service level; 2: an error, with its remedy.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::analyze::{self, AnalyzeCommand};
use crate::cost::{self, CostArgs};
use crate::cuts::{self, CutsArgs};
use crate::design::{self, DesignArgs};
use crate::error::Error;
use crate::evaluate::{self, EvaluateArgs};
use crate::export::{self, ExportArgs};
use crate::optimum::{self, OptimumArgs};
use crate::whatif::{self, WhatifArgs};

/// Study traffic and failures from logs, and price networks.
#[derive(Debug, Parser)]
#[command(name = "weft-planner", bin_name = "weft", version, about, long_about = None, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Study the traffic or the failures of a network from its logs
    #[command(subcommand, after_help = ANALYZE)]
    Analyze(AnalyzeCommand),
    /// Compute the effect of failures on a fabric, or of a plan of growth
    #[command(after_help = WHATIF)]
    Whatif(WhatifArgs),
    /// Compare routings with the optimum
    #[command(after_help = OPTIMUM)]
    Optimum(OptimumArgs),
    /// Compute maximum flows, edge connectivity and bisection
    #[command(after_help = CUTS)]
    Cuts(CutsArgs),
    /// Price networks: switches, optics, cables, racks, power
    #[command(after_help = COST)]
    Cost(CostArgs),
    /// Search for the best fabrics for a number of servers
    #[command(after_help = DESIGN)]
    Design(DesignArgs),
    /// Write the flows of a run as an IPFIX log
    #[command(after_help = EXPORT)]
    Export(ExportArgs),
    /// Measure what a scenario expects of the planner, for `weft check`
    #[command(hide = true)]
    Evaluate(EvaluateArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

/// Examples at the end of `weft analyze --help`.
const ANALYZE: &str = "\
Examples:
  weft analyze traffic flows.csv --hosts racks.csv --out study
  weft analyze traffic @vl2/figure3 --check
  weft analyze failures failures.csv --fabric mine.toml";

/// Examples at the end of `weft whatif --help`.
const WHATIF: &str = "\
Examples:
  weft whatif @first --set fabric.k=4 --fail cable,switch
  weft whatif clos.toml --pairs --rates rates.toml --out failures
  weft whatif @data/growth/clos --plan @data/growth/plan \\
      --prices @data/prices-illustrative";

/// Examples at the end of `weft optimum --help`.
const OPTIMUM: &str = "\
Examples:
  weft optimum @first --set fabric.k=4         the scenario's own traffic
  weft optimum @vl2/figure9 --traffic uniform  a traffic pattern
  weft optimum mine.toml --matrices study/matrix.csv --out best";

/// Examples at the end of `weft cuts --help`.
const CUTS: &str = "\
Examples:
  weft cuts @first --set fabric.k=4
  weft cuts @vl2/figure9 --pair tor0:tor3 --without tor0-agg0";

/// Examples at the end of `weft cost --help`.
const COST: &str = "\
Examples:
  weft cost mine.toml --prices @data/prices-illustrative
  weft cost fat-tree.toml clos.toml --prices prices.toml --out costs
  weft cost @data/section6/tree --prices @data/prices-vl2-tree \\
      --without-edge-and-cables";

/// Examples at the end of `weft design --help`.
const DESIGN: &str = "\
Examples:
  weft design --servers 1000 --speed 10Gbps --budget 900000
  weft design --servers 1000 --speed 10Gbps --at-least 0.5 --top 3
  weft design --servers 1000 --speed 10Gbps --prices prices.toml --out designs";

/// Examples at the end of `weft export --help`.
const EXPORT: &str = "\
Examples:
  weft export results/first/000 --ipfix run.ipfix --hosts racks.csv
  weft export run --ipfix run.ipfix";

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match Program::try_parse_from(arguments) {
        Ok(program) => program,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let wrap = io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| Box::new(miette::MietteHandlerOpts::new().wrap_lines(wrap).build())));
    let result = match program.command {
        Command::Analyze(command) => analyze::run(&command),
        Command::Whatif(args) => whatif::run(&args),
        Command::Optimum(args) => optimum::run(&args),
        Command::Cuts(args) => cuts::run(&args).map(done),
        Command::Cost(args) => cost::run(&args).map(done),
        Command::Design(args) => design::run(&args).map(done),
        Command::Export(args) => export::run(&args).map(done),
        Command::Evaluate(args) => evaluate::run(&args).map(done),
        Command::Manual { folder } => clap_mangen::generate_to(Program::command().name("weft-planner"), &folder)
            .map(done)
            .map_err(|cause| Error::io("write to", &folder, cause)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{:?}", miette::Report::new(error));
            ExitCode::from(2)
        }
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
