//! The commands of the `weft` binary. `docs/cli.md` fixes their arguments, exit codes and JSON.

mod bench;
mod check;
mod demand;
mod estimate;
mod examples;
#[cfg(all(feature = "lab", target_os = "linux"))]
mod lab;
#[cfg(not(all(feature = "lab", target_os = "linux")))]
#[path = "no_lab.rs"]
mod lab;
mod log;
mod new;
mod place;
mod planner;
mod progress;
mod run;
mod spain;
pub mod table;
mod topo;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use toml::Value;

use crate::error::{Error, Result};
use crate::results::remove_unfinished;
use crate::scenario::dotted::parse_set;
use crate::scenario::source::{Form, Overrides};

/// Designs, simulates, emulates and runs data-centre networks.
#[derive(Debug, Parser)]
#[command(name = "weft", version, arg_required_else_help = true, after_help = EXAMPLES)]
#[command(help_template = "{about}\n\n{usage-heading} {usage}\n{before-help}Options:\n{options}{after-help}")]
struct Weft {
    #[command(subcommand)]
    command: Command,
    /// Increase log verbosity (-vv for debug)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

/// Examples at the end of `weft --help`.
const EXAMPLES: &str = "\
Examples:
  weft run @first                           compare schedulers, write a report
  weft new mine.toml && weft run mine.toml  start from a commented scenario
  weft check @hedera                        reproduce published results
  weft topo fat-tree k=8                    describe a topology
`weft COMMAND --help` lists the options of a command. Manual: docs/";

/// Examples at the end of `weft completions --help`.
const COMPLETIONS: &str = "\
Examples:
  weft completions bash > /etc/bash_completion.d/weft
  weft completions zsh > ~/.zfunc/_weft
  weft completions fish > ~/.config/fish/completions/weft.fish";

/// The commands by task, as `weft --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Experiments", &["run", "check", "new", "examples"]),
    ("Topologies and algorithms", &["topo", "demand", "place", "spain"]),
    ("Labs on this machine (Linux, root)", &["lab", "test"]),
    (
        "Networks of real hosts (`weft-directory`, `weft-agent`, `weft-scheduler`)",
        &["deploy", "directory", "tenant", "agent", "scheduler"],
    ),
    ("Planning (`weft-planner`)", &["analyze", "optimum", "cuts", "whatif", "cost", "design", "export"]),
    ("Tools", &["bench", "completions"]),
];

/// The command line's definition, with its commands listed in [`GROUPS`].
fn command() -> clap::Command {
    let command = Weft::command();
    let listed = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let line = |sub: &clap::Command| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {about}\n", sub.get_name())
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let lines = names.iter().filter_map(|name| command.find_subcommand(name)).map(line);
        text += &format!("\n{title}:\n{}", lines.collect::<String>());
    }
    let others: String =
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && !listed(sub.get_name())).map(line).collect();
    if !others.is_empty() {
        text += &format!("\nOther:\n{others}");
    }
    command.before_help(text)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario: print a table, write results and a report
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Run scenarios and compare them with published results
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Describe a topology, or export it
    Topo(topo::TopoArgs),
    /// Estimate the demands of a list of flows (Hedera section 4.2)
    #[command(after_help = demand::EXAMPLES)]
    Demand(demand::DemandArgs),
    /// Run a scenario's scheduler once and print the paths it chooses
    #[command(after_help = place::EXAMPLES)]
    Place(place::PlaceArgs),
    /// Compute SPAIN's VLANs and the configuration of the switches
    #[command(after_help = spain::EXAMPLES)]
    Spain(spain::SpainArgs),
    /// Measure the speed and memory of the engines
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::BenchArgs),
    /// List the scenarios that come with the program
    #[command(after_help = examples::EXAMPLES)]
    Examples(examples::ExamplesArgs),
    /// Write a commented scenario to start from
    #[command(after_help = new::EXAMPLES)]
    New(new::NewArgs),
    /// Build a scenario's network from namespaces, links and daemons
    Lab(lab::LabArgs),
    /// Test a running lab
    Test(lab::TestArgs),
    /// Print a shell's completion script
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell that reads the script
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist
        folder: PathBuf,
    },
    /// Write the configuration of all machines of an inventory
    #[command(disable_help_flag = true)]
    Deploy(External),
    /// Run a directory server, or query and administer running ones
    #[command(disable_help_flag = true)]
    Directory(External),
    /// Manage the tenants of a NetLord network
    #[command(disable_help_flag = true)]
    Tenant(External),
    /// Run the agent of a host or a switch, or query a running one
    #[command(disable_help_flag = true)]
    Agent(External),
    /// Run the scheduler of large flows, or query a running one
    #[command(disable_help_flag = true)]
    Scheduler(External),
    /// Study traffic and failures from logs and captures
    #[command(disable_help_flag = true)]
    Analyze(External),
    /// Compute maximum flows, edge connectivity and bisection
    #[command(disable_help_flag = true)]
    Cuts(External),
    /// Compute the effect of failures, or of a plan of growth
    #[command(disable_help_flag = true)]
    Whatif(External),
    /// Compare routings with the optimum
    #[command(disable_help_flag = true)]
    Optimum(External),
    /// Price networks: switches, optics, cables, racks, power
    #[command(disable_help_flag = true)]
    Cost(External),
    /// Search for the best fabrics for a number of servers
    #[command(disable_help_flag = true)]
    Design(External),
    /// Write the flows of a run as an IPFIX log
    #[command(disable_help_flag = true)]
    Export(External),
}

#[derive(Debug, Args)]
struct External {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl External {
    /// The arguments, after the program's own command.
    fn behind(self, command: &str) -> Vec<OsString> {
        std::iter::once(command.into()).chain(self.arguments).collect()
    }
}

/// Which form of a scenario, and what to change in it.
#[derive(Debug, Args)]
struct ScenarioArgs {
    /// Override a key of the scenario: control.scheduler=annealing
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set, help_heading = "Scenario")]
    set: Vec<(String, Value)>,
    /// Override world.seed
    #[arg(long, value_name = "N", help_heading = "Scenario")]
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

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let weft = Weft::from_arg_matches(&command().get_matches()).unwrap_or_else(|e| e.exit());
    let behind_keys = if let Command::Topo(args) = &weft.command { args.verbosity() } else { 0 };
    log::start(weft.verbose.saturating_add(behind_keys));
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
        Command::Examples(args) => examples::run(&args),
        Command::New(args) => new::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Test(args) => lab::test(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "weft", &mut script);
            print_text(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
        Command::Manual { folder } => clap_mangen::generate_to(command(), &folder)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|e| Error::io("write to", &folder, e)),
        Command::Directory(rest) => external("weft-directory", &rest.arguments),
        Command::Deploy(rest) => external("weft-directory", &rest.behind("deploy")),
        Command::Tenant(rest) => external("weft-directory", &rest.behind("tenant")),
        Command::Agent(rest) => external("weft-agent", &rest.arguments),
        Command::Scheduler(rest) => external("weft-scheduler", &rest.arguments),
        Command::Whatif(rest) => external("weft-planner", &rest.behind("whatif")),
        Command::Optimum(rest) => external("weft-planner", &rest.behind("optimum")),
        Command::Analyze(rest) => external("weft-planner", &rest.behind("analyze")),
        Command::Cuts(rest) => external("weft-planner", &rest.behind("cuts")),
        Command::Cost(rest) => external("weft-planner", &rest.behind("cost")),
        Command::Design(rest) => external("weft-planner", &rest.behind("design")),
        Command::Export(rest) => external("weft-planner", &rest.behind("export")),
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

/// Replaces this process by a program in the same folder, or else on the PATH, as git and cargo do.
fn external(name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let program = program_named(name);
    replace_by(std::process::Command::new(&program).args(arguments)).map_err(|e| not_started(name, &program, e))
}

/// A program of Weft: in the folder of this one, or else on the PATH.
fn program_named(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(name)));
    beside.filter(|p| p.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

fn not_started(name: &str, program: &Path, cause: std::io::Error) -> Error {
    if cause.kind() != std::io::ErrorKind::NotFound {
        return Error::io("run", program, cause);
    }
    Error::usage(
        format!("`{name}` is not installed"),
        "put it beside `weft` or on the PATH; `make build` builds weft-directory, weft-agent, weft-scheduler and weft-planner",
    )
}

/// Replaces this process, so that a signal to it reaches the program. Returns only if that fails.
#[cfg(unix)]
fn replace_by(command: &mut std::process::Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

/// Runs the program and waits for it, where a process cannot be replaced.
#[cfg(not(unix))]
fn replace_by(command: &mut std::process::Command) -> std::io::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

/// Prints a JSON document to stdout. A closed pipe is not an error.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_text(&(serde_json::to_string_pretty(value).expect("results are JSON") + "\n"))
}

fn print_text(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("write to", Path::new("standard output"), e)),
        _ => Ok(()),
    }
}
