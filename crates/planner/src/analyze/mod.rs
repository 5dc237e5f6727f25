//! `weft analyze`: what logs show of a network's traffic (VL2 sections 3.1 to 3.3).
//!
//! ```text
//!   files --formats--> FlowRecord --duplicates--> Study: sizes, starts, concurrency, matrices, hosts
//!                          |                          |
//!                        Tally (what was left out)    `--> TrafficReport --> table, JSON, CSV, HTML
//! ```

mod anonymize;
mod args;
mod burst;
mod cluster;
mod concurrency;
mod duplicates;
mod emit;
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
use crate::failures;

pub use anonymize::Anonymizer;
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
        AnalyzeCommand::Failures(args) => failures::run(args),
    }
}

fn traffic(args: &args::TrafficArgs) -> Result<()> {
    let map = args.hosts.as_deref().map(HostMap::read).transpose()?;
    let key = args.anonymize.as_deref().map(Anonymizer::read).transpose()?;
    let mut study = Study::new(args.settings(), map, key);
    for path in &args.files {
        study.read(path)?;
    }
    let options = study.options();
    let (report, mut hosts) = study.finish()?;
    if let Some(folder) = &args.out {
        report::write_folder(folder, &report)?;
    }
    let mut written = Vec::new();
    if let Some(path) = &args.emit {
        let job = emit::Job { path, form: args.emit_as, files: &args.files, options };
        written = emit::write(&job, &report, &mut hosts)?;
    }
    if args.json {
        return print_json(&report);
    }
    print_text(&report::table::render(&report))?;
    let lines: String = written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
    print_text(&lines)
}
