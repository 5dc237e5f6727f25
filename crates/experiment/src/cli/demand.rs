//! `weft demand`.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weft_control::hedera::demand::estimate;
use weft_fabric::formats::flows::demand;

use crate::bundle;
use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};

/// Arguments of `weft demand`.
#[derive(Debug, Args)]
pub struct DemandArgs {
    /// CSV file of flows: header `src,dst`, then one line per flow; `-` is standard input
    flows: PathBuf,
    /// Number of hosts [default: the largest host number + 1]
    #[arg(long, value_name = "N")]
    hosts: Option<u32>,
    /// Print one JSON document and nothing else: {"demands": [..]}
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft demand --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft demand @data/hedera-figure4.csv  the flows of Hedera's figure 4
  weft demand flows.csv --hosts 128     count hosts without flows too
  printf 'src,dst\\n0,1\\n0,2\\n' | weft demand - --json";

/// Runs it.
pub fn run(args: &DemandArgs) -> Result<ExitCode> {
    let flows = demand::parse(&read(&args.flows)?).map_err(|e| Error::format(&args.flows, e))?;
    let (src, dst): (Vec<u32>, Vec<u32>) = flows.into_iter().map(|(s, d)| (s.0, d.0)).unzip();
    let hosts = args.hosts.unwrap_or_else(|| src.iter().chain(&dst).max().map_or(0, |h| h + 1));
    if hosts > MAX_HOSTS {
        return Err(Error::usage(format!("{hosts} hosts are too many"), format!("`--hosts` ends at {MAX_HOSTS}")));
    }
    let demands =
        estimate(&src, &dst, hosts as usize).map_err(|e| Error::usage(e.to_string(), "check the file and `--hosts`"))?;
    if args.json {
        print_json(&json!({ "demands": demands }))?;
    } else {
        let lines: Vec<String> =
            src.iter().zip(&dst).zip(&demands).map(|((s, d), x)| format!("{s:>8} {d:>8}  {x:.6}\n")).collect();
        print_text(&format!("     src      dst  demand (of the NIC)\n{}", lines.concat()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// As in the file itself: estimators keep arrays of all hosts.
const MAX_HOSTS: u32 = 10_000_000;

fn read(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
        return Ok(bytes);
    }
    bundle::read(path).map(Cow::into_owned).map_err(|e| Error::named_file(path, e))
}
