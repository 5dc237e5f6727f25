//! `weft analyze failures`: durations, groups and downtime of failures (VL2 section 3.4), and what of them a fabric's redundancy hides.
//!
//! ```text
//!   start,end,device,kind,cause --log--> failures --stats--> report
//!                                            `--hidden--> hosts cut off on a fabric
//! ```

mod hidden;
mod log;
mod stats;
mod table;

use std::path::PathBuf;

use clap::Args;
use weft_fabric::time::Duration;

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::fabric;

pub use log::{Failure, parse};
pub use stats::FailureReport;

/// Arguments of `weft analyze failures`.
#[derive(Debug, Args)]
pub struct FailureArgs {
    /// A log of failures: CSV with the columns start, end, device, kind, cause
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A scenario or fabric file whose switches and cables the devices are: what its redundancy hides
    #[arg(long, value_name = "SCENARIO")]
    pub fabric: Option<PathBuf>,
    /// Failures that are no longer are left out (VL2 section 3.4: 30 s)
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub min: Duration,
    /// Failures that begin no later than this after the one before belong to one group
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub window: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format.
pub fn run(args: &FailureArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| Error::io("read", &args.file, e))?;
    let failures =
        parse(&text).map_err(|(line, message, help)| Error::input(&args.file, format!("line {line}"), message, help))?;
    let mut report = FailureReport::of(failures, args.min.as_secs_f64(), args.window.as_secs_f64());
    if let Some(path) = &args.fabric {
        report.hidden = Some(hidden::of(&report.failures, &fabric::read(path, &[])?));
    }
    if args.json { print_json(&report) } else { print_text(&table::render(&report)) }
}
