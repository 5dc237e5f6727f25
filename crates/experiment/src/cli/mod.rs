//! The commands of the `weft` binary. `docs/cli.md` fixes their arguments, exit codes and JSON.

mod bench;
mod check;
mod demand;
#[cfg(all(feature = "lab", target_os = "linux"))]
mod lab;
#[cfg(not(all(feature = "lab", target_os = "linux")))]
#[path = "no_lab.rs"]
mod lab;
mod new;
mod place;
mod progress;
mod run;
mod spain;
mod table;
mod topo;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use toml::Value;

use crate::error::{Error, Result};
use crate::results::remove_unfinished;
use crate::scenario::source::{Form, Overrides, parse_value};

/// Designs, simulates, emulates and runs data-centre networks.
#[derive(Debug, Parser)]
#[command(name = "weft", version, arg_required_else_help = true)]
struct Weft {
    #[command(subcommand)]
    command: Command,
    /// More diagnostics on stderr; twice for still more
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario, print a table and write a results folder
    Run(run::RunArgs),
    /// Run scenarios and compare them with what the papers say
    Check(check::CheckArgs),
    /// Build a fabric and tell what it is, or export it
    Topo(topo::TopoArgs),
    /// Estimate the natural demands of a list of flows (Hedera section 4.2)
    Demand(demand::DemandArgs),
    /// Run a scenario's scheduler once and show the paths that it chose
    Place(place::PlaceArgs),
    /// SPAIN's VLANs for a fabric: how many, how many paths pairs have, and what the switches are told (NetLord section 3.4)
    Spain(spain::SpainArgs),
    /// Measure the speed and memory of the engines
    Bench(bench::BenchArgs),
    /// Write a commented scenario to start from
    New(new::NewArgs),
    /// Build the network of real packets: namespaces, links and routing daemons
    Lab(lab::LabArgs),
    /// Test a lab that stands
    Test(lab::TestArgs),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The directory system: runs `weft-directory`
    #[command(disable_help_flag = true)]
    Directory(External),
    /// Tenants of a NetLord network: runs `weft-directory tenant`
    #[command(disable_help_flag = true)]
    Tenant(External),
    /// The agent of a host: runs `weft-agent`
    #[command(disable_help_flag = true)]
    Agent(External),
    /// The scheduler of a real network: runs `weft-scheduler`
    #[command(disable_help_flag = true)]
    Scheduler(External),
}

#[derive(Debug, Args)]
struct External {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Which form of a scenario, and what to change in it.
#[derive(Debug, Args)]
struct ScenarioArgs {
    /// Override a key of the scenario: control.scheduler=annealing
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    set: Vec<(String, Value)>,
    /// Override world.seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl ScenarioArgs {
    fn overrides(&self, form: Form) -> Result<Overrides> {
        let mut set = self.set.clone();
        if let Some(seed) = self.seed {
            let seed = i64::try_from(seed)
                .map_err(|_| Error::usage(format!("the seed {seed} is too large"), "TOML's numbers end at 2^63 - 1"))?;
            set.push(("world.seed".to_owned(), Value::Integer(seed)));
        }
        Ok(Overrides { form, set })
    }
}

fn parse_set(text: &str) -> std::result::Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), parse_value(value.trim()))),
        _ => Err("write KEY=VALUE, such as control.scheduler=annealing".to_owned()),
    }
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let weft = Weft::parse();
    let behind_keys = if let Command::Topo(args) = &weft.command { args.verbosity() } else { 0 };
    start_logging(weft.verbose.saturating_add(behind_keys));
    // Interrupted, a command leaves nothing half-written behind; 130 is what shells expect of it.
    let _ = ctrlc::set_handler(|| {
        if lab::stop() | crate::world::lab::stop() {
            return; // a lab takes itself down, and then ends the process
        }
        remove_unfinished();
        std::process::exit(INTERRUPTED.into());
    });
    // Lines are wrapped for people, and left whole for programs.
    let wrap = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| Box::new(miette::MietteHandlerOpts::new().wrap_lines(wrap).build())));
    let result = match weft.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Topo(args) => topo::run(&args),
        Command::Demand(args) => demand::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Spain(args) => spain::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::New(args) => new::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Test(args) => lab::test(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Weft::command(), "weft", &mut script);
            print_text(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
        Command::Directory(rest) => external("weft-directory", &rest.arguments),
        Command::Tenant(mut rest) => {
            rest.arguments.insert(0, "tenant".into());
            external("weft-directory", &rest.arguments)
        }
        Command::Agent(rest) => external("weft-agent", &rest.arguments),
        Command::Scheduler(rest) => external("weft-scheduler", &rest.arguments),
    };
    result.unwrap_or_else(|error| {
        if matches!(error, Error::Interrupted) {
            return ExitCode::from(INTERRUPTED);
        }
        let _ = writeln!(std::io::stderr(), "{:?}", miette::Report::new(error));
        ExitCode::from(2)
    })
}

/// As shells expect it of Ctrl-C.
const INTERRUPTED: u8 = 130;

fn start_logging(verbose: u8) {
    let level = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| level.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Runs a program that stands beside this one, or else on the PATH, as git and cargo do.
fn external(name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(name)));
    let program = beside.filter(|p| p.is_file()).unwrap_or_else(|| PathBuf::from(name));
    match std::process::Command::new(&program).args(arguments).status() {
        Ok(status) => Ok(ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(2))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::usage(
            format!("`{name}` is not installed"),
            "put it beside `weft` or on the PATH; `make build` builds weft-directory and weft-agent",
        )),
        Err(e) => Err(Error::io("run", &program, e)),
    }
}

/// Prints a JSON document to stdout. A closed pipe is not an error.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_text(&(serde_json::to_string_pretty(value).expect("results are JSON") + "\n"))
}

/// Writes a file that is there whole or as it was before. What is no file, such as a pipe, is written to.
pub(crate) fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return std::fs::write(path, text);
    }
    // A link stays: what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = path.clone().into_os_string();
    beside.push(".part");
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

fn print_text(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("write to", Path::new("standard output"), e)),
        _ => Ok(()),
    }
}
