//! `weft-agent bench`: measures, and prints a table or JSON.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::{Options, OverlayKind, run};

/// What the benchmark is asked.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Rounds; each measures every kind once, in turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// How long each stream lasts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// What is compared with plain forwarding
    #[arg(long, value_enum, default_value_t)]
    pub overlay: OverlayKind,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Measures. Only the result goes to stdout.
pub fn main(args: &BenchArgs) -> ExitCode {
    let options = Options {
        runs: args.runs,
        seconds: Duration::from_secs(args.seconds.into()),
        overlay: args.overlay,
        ..Options::default()
    };
    match run(&options, |step| eprintln!("{step}")) {
        Ok(report) => {
            let text = if args.json { serde_json::to_string(&report).expect("a report is plain data") } else { report.table() };
            // A closed stdout is not an error.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\n  help: {}", error.help());
            ExitCode::from(2)
        }
    }
}
