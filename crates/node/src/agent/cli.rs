//! The command line of `weft-agent`. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: the answer is no; 2: an error, with its remedy.

mod commands;
mod show;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::config::Config;
use super::netlord::{self, NetlordConfig};
use super::{host, switch};
use crate::bench_agent::{self, BenchArgs};
use crate::cli::{Result, begin, conclude};
use crate::server::start_log;

/// The agent of a host or a switch, and commands to a running one.
#[derive(Debug, Parser)]
#[command(name = "weft agent", bin_name = "weft agent", version, about, long_about = None, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent until told to stop
    Run(RunArgs),
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
    /// What the overlay costs beside plain forwarding and VXLAN; needs root, leaves nothing
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/weft/agent.toml")]
    config: PathBuf,
    /// Only say whether the configuration is right
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    options: RunOptions,
}

/// What the command line adds to the configuration.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunOptions {
    /// Leave the eBPF programs and maps in place at the end
    #[arg(long)]
    pub keep: bool,
    /// Form of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log: LogForm,
    /// Print the line READY as JSON
    #[arg(long)]
    pub json: bool,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match begin::<Program>(arguments) {
        Ok(program) => program,
        Err(code) => return code,
    };
    conclude(match program.command.unwrap_or(Command::Run(program.run)) {
        Command::Run(args) => run(&args),
        Command::Status(args) => commands::status(&args),
        Command::Attach(args) => commands::attach(&args),
        Command::Detach(args) => commands::detach(&args),
        Command::Vif(args) => commands::vif(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => return bench_agent::main(&args),
    })
}

fn run(args: &RunArgs) -> Result<bool> {
    let config = Config::read(&args.config)?;
    if args.check {
        crate::cli::print_text(&format!("{} is right\n", args.config.display()))?;
        return Ok(true);
    }
    start_log(args.options.log == LogForm::Json);
    match config {
        Config::Host(config) => host::run(*config, &args.config, args.options),
        Config::Switch(config) => switch::run(*config, &args.config, args.options),
        Config::Netlord(NetlordConfig::Host(config)) => netlord::host::run(*config, &args.config, args.options),
        Config::Netlord(NetlordConfig::Switch(config)) => netlord::switch::run(*config, &args.config, args.options),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
