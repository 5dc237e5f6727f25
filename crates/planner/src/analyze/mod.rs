//! `weft analyze`: what logs show of a network's traffic (VL2 sections 3.1 to 3.3).
//!
//! ```text
//!   files --formats--> FlowRecord --duplicates--> Study: sizes, starts, concurrency, matrices, hosts
//!                          |                          |
//!                        Tally (what was left out)    `--> TrafficReport --> table, JSON, CSV, HTML
//! ```

mod args;
mod burst;
mod cluster;
mod concurrency;
mod duplicates;
pub mod formats;
mod hose;
mod hosts;
mod matrix;
pub mod report;
mod sketch;
mod study;
mod tally;

use crate::cli::{print_json, print_text};
use crate::error::Result;

pub use args::AnalyzeCommand;
pub use hosts::HostMap;
pub use sketch::LogHistogram;
pub use study::{Settings, Study};
pub use tally::Tally;

/// Runs a command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format; a log that the settings do not fit.
pub fn run(command: &AnalyzeCommand) -> Result<()> {
    match command {
        AnalyzeCommand::Traffic(args) => traffic(args),
    }
}

fn traffic(args: &args::TrafficArgs) -> Result<()> {
    let report = study_files(args)?;
    if let Some(folder) = &args.out {
        report::write_folder(folder, &report)?;
    }
    if args.json { print_json(&report) } else { print_text(&report::table::render(&report)) }
}

fn study_files(args: &args::TrafficArgs) -> Result<report::TrafficReport> {
    let map = args.hosts.as_deref().map(HostMap::read).transpose()?;
    let mut study = Study::new(args.settings(), map);
    for path in &args.files {
        study.read(path)?;
    }
    study.finish()
}
