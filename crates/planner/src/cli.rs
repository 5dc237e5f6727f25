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

/// Studies traffic and failures from logs, and prices networks.
#[derive(Debug, Parser)]
#[command(name = "weft-planner", bin_name = "weft", version, about, long_about = None, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Study the traffic or the failures of a network from its logs
    #[command(subcommand)]
    Analyze(AnalyzeCommand),
    /// Compute what failures cost a fabric, and what a plan of growth does
    Whatif(WhatifArgs),
    /// Compare routings with the best possible one
    Optimum(OptimumArgs),
    /// Compute maximum flows, edge connectivity and bisection
    Cuts(CutsArgs),
    /// Price networks: switches, optics, cables, racks, power
    Cost(CostArgs),
    /// Search fabrics for the best ones for a number of servers
    Design(DesignArgs),
    /// Write the flows of a run as a log (IPFIX)
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
