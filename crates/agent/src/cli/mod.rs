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

/// Examples at the end of `weft agent --help`.
const EXAMPLES: &str = "\
Examples:
  weft agent --config agent.toml --check  check a configuration
  weft agent run --config agent.toml      run the agent
  weft agent status                       print the state of the running agent
  weft agent trace 20.0.0.1 20.0.0.2      trace the path of a flow";

/// Run the agent of a host or a switch, or query a running one.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
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
    /// Print the state of the running agent
    Status(commands::StatusArgs),
    /// Attach an application address to this host
    Attach(commands::AttachArgs),
    /// Detach an application address from this host
    Detach(commands::DetachArgs),
    /// Attach a tenant's VIF to an interface, or detach it (NetLord)
    Vif(commands::VifArgs),
    /// Trace the path of a flow hop by hop, with probes
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
