//! The command line of `weft-scheduler`. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: the answer is no; 2: an error, with its remedy.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use tokio_rustls::TlsAcceptor;
use weft_directory::client::TlsFiles;
use weft_directory::daemon::command_line::{self, LogForm, print_json, print_text};
use weft_directory::daemon::socket::ask;
use weft_directory::daemon::start_log;
use weft_directory::daemon::tls::server_config;
use weft_fabric::BitsPerSec;

use crate::config::{Config, Listen, Steered};
use crate::discover::Job;
use crate::error::{Error, Result};
use crate::requests::Request;
use crate::{access, agents, daemon};

/// Examples at the end of `weft scheduler --help`.
const EXAMPLES: &str = "\
Examples:
  weft scheduler discover --rate 10Gbps --out .    write a configuration
  weft scheduler run --config scheduler.toml --check
  weft scheduler status --config scheduler.toml
  weft scheduler explain h0:5000-h9:80             print the path of a flow";

/// Run the scheduler of large flows (Hedera) or of flows over NICs (Subways), or query a running one.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[command(name = "weft scheduler", bin_name = "weft scheduler", version, about, long_about = None, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the scheduler until SIGTERM or SIGINT
    Run(RunArgs),
    /// Print the state of the running scheduler
    Status(AskArgs),
    /// List the flows that it has placed, with their paths
    Placements(AskArgs),
    /// Print the path of a flow, or where switches choose it by hash
    Explain {
        /// Flow, by hosts and TCP ports: h0:5000-h9:80
        flow: String,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Discover switches, cables and hosts, and write a configuration for them
    Discover(DiscoverArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Format of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    log: LogForm,
    /// Print the line READY as JSON, when the scheduler is ready
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DiscoverArgs {
    /// Address at which switches connect: tcp:ADDRESS:PORT, tls:ADDRESS:PORT or unix:PATH; repeatable
    #[arg(long, value_name = "ADDRESS", default_value = "tcp:0.0.0.0:6653")]
    listen: Vec<Listen>,
    /// Certificate of the scheduler for `tls:` addresses (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["cert_key", "ca"])]
    cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Certificate authority of the switches (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    ca: Option<PathBuf>,
    /// Folder to write fabric.weft and scheduler.toml to
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// Rate of all cables, such as 10Gbps [default: as reported by the switches]
    #[arg(long)]
    rate: Option<BitsPerSec>,
}

#[derive(Debug, Args)]
struct ConfigArg {
    /// Configuration of the scheduler
    #[arg(long, value_name = "FILE", env = "WEFT_SCHEDULER_CONFIG", default_value = "/etc/weft/scheduler.toml")]
    config: PathBuf,
}

#[derive(Debug, Args)]
struct AskArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match command_line::parse::<Program>(arguments) {
        Ok(program) => program,
        Err(code) => return code,
    };
    command_line::exit_code(match program.command {
        Command::Run(args) => run(&args),
        Command::Status(args) => status(&args),
        Command::Placements(args) => placements(&args),
        Command::Explain { flow, ask } => explain(flow, &ask),
        Command::Discover(args) => discover(args),
        Command::Manual { folder } => command_line::write_manual::<Program>("weft-scheduler", &folder)
            .map(|()| true)
            .map_err(|cause| Error::Manual { path: folder, cause }),
    })
}

fn run(args: &RunArgs) -> Result<bool> {
    let file = &args.config.config;
    let config = Config::read(file)?;
    if args.check {
        print_text(&format!("{} is right\n", file.display()))?;
        return Ok(true);
    }
    start_log(args.log == LogForm::Json);
    match config {
        Steered::Switches(config) => daemon::run(*config, args.json)?,
        Steered::Agents(config) => agents::run(&config, args.json)?,
        Steered::Access(config) => access::run(&config, args.json)?,
    }
    Ok(true)
}

fn discover(args: DiscoverArgs) -> Result<bool> {
    let DiscoverArgs { listen, cert, cert_key, ca, out, rate } = args;
    let files = cert.zip(cert_key).zip(ca).map(|((certificate, key), authority)| TlsFiles { certificate, key, authority });
    let tls = files.map(|files| server_config(&files).map(|config| (files, TlsAcceptor::from(config)))).transpose()?;
    let needs = listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
    if needs != tls.is_some() {
        return Err(Error::Certificates { needs });
    }
    print_text(&crate::discover::run(&Job { listen, tls, folder: out, rate })?)?;
    Ok(true)
}

impl AskArgs {
    fn ask(&self, request: &Request) -> Result<Value> {
        Ok(ask(&Config::socket_of(&self.config.config)?, request, ANSWER)?)
    }
}

fn status(args: &AskArgs) -> Result<bool> {
    let status = args.ask(&Request::Status)?;
    if args.json {
        print_json(&status)?;
    } else {
        let text = |name: &str| status[name].as_str().unwrap_or_default();
        let mut out = format!("{}: {}\n", text("verdict"), text("summary"));
        let problems = status["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
        problems.for_each(|problem| out += &format!("  {problem}\n"));
        let number = |name: &str| status[name].as_f64().unwrap_or_default();
        out += &format!(
            "  {} rounds, {:.1} large flows in each, {} moves\n",
            number("rounds"),
            number("large_flows"),
            number("moves")
        );
        if let Some(mean) = status["loop_mean_ms"].as_f64() {
            let (count, max) = (number("loops"), number("loop_max_ms"));
            out += &format!("  control loop: {mean:.2} ms on average, {max:.2} ms at most, measured {count} times\n");
        }
        print_text(&out)?;
    }
    let is_well = status["problems"].as_array().is_some_and(Vec::is_empty);
    Ok(status["verdict"] == "ok" || status["verdict"] == "standby" && is_well)
}

fn placements(args: &AskArgs) -> Result<bool> {
    let answer = args.ask(&Request::Placements)?;
    if args.json {
        print_json(&answer)?;
        return Ok(true);
    }
    let mut out = String::new();
    for placement in answer["placements"].as_array().into_iter().flatten() {
        let text = |name: &str| placement[name].as_str().unwrap_or_default();
        let flow = format!("{}:{}-{}:{}", text("src"), placement["sport"], text("dst"), placement["dport"]);
        out += &format!("{flow}  {}\n", text("switches"));
    }
    print_text(&out)?;
    Ok(true)
}

fn explain(flow: String, args: &AskArgs) -> Result<bool> {
    let answer = args.ask(&Request::Explain { flow })?;
    if args.json {
        print_json(&answer)?;
        return Ok(true);
    }
    let mut out = format!("{}: {}\n", answer["flow"].as_str().unwrap_or_default(), answer["state"].as_str().unwrap_or_default());
    for link in answer["path"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out += &format!("  {link}\n");
    }
    if answer["path"].is_null() {
        for choice in answer["equal_paths_at"].as_array().into_iter().flatten() {
            out +=
                &format!("  {} chooses by hash among ports {}\n", choice["switch"].as_str().unwrap_or_default(), choice["ports"]);
        }
    }
    if let Some(rate) = answer["counter"]["mean_bps"].as_f64() {
        out += &format!("  {:.2} Mbit/s on average, {} bytes\n", rate / 1e6, answer["counter"]["bytes"]);
    }
    print_text(&out)?;
    Ok(true)
}

/// For the scheduler to answer.
const ANSWER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
