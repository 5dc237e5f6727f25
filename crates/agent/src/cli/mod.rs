//! The command line of `weft-agent`. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: the answer is no; 2: an error, with its remedy.

mod commands;
mod run;
mod show;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weft_directory::daemon::command_line;

use crate::error::Error;

/// The agent of a host or a switch, and commands to a running one.
#[derive(Debug, Parser)]
#[command(name = "weft agent", bin_name = "weft agent", version, about, long_about = None, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent until SIGTERM or SIGINT
    Run(run::RunArgs),
    /// How the running agent is
    Status(commands::StatusArgs),
    /// Make an address one of this host's
    Attach(commands::AttachArgs),
    /// Take an address away from this host
    Detach(commands::DetachArgs),
    /// Make an interface a tenant's VIF, or no longer (NetLord)
    Vif(commands::VifArgs),
    /// Which path a flow takes, probed hop by hop
    Trace(trace::TraceArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match command_line::parse::<Program>(arguments) {
        Ok(program) => program,
        Err(code) => return code,
    };
    command_line::exit_code(match program.command.unwrap_or(Command::Run(program.run)) {
        Command::Run(args) => run::run(&args),
        Command::Status(args) => commands::status(&args),
        Command::Attach(args) => commands::attach(&args),
        Command::Detach(args) => commands::detach(&args),
        Command::Vif(args) => commands::vif(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Manual { folder } => command_line::write_manual::<Program>("weft-agent", &folder)
            .map(|()| true)
            .map_err(|cause| Error::File { action: "write to", path: folder, cause }),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
