//! The arguments of `weft analyze`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toml::Value;
use weft_experiment::scenario::dotted::parse_set;
use weft_fabric::time::Duration;

use super::emit::Form;
use super::study::Settings;
use crate::failures::FailureArgs;

/// The commands of `weft analyze`.
#[derive(Debug, Subcommand)]
pub enum AnalyzeCommand {
    /// Study flow sizes, concurrency and traffic matrices (VL2 section 3)
    Traffic(TrafficArgs),
    /// Study durations, groups and downtime of failures (VL2 section 3.4)
    Failures(FailureArgs),
}

/// Arguments of `weft analyze traffic`.
#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// Flow logs and captures, each recognised by its content; or a scenario (`@...` is a bundled one), which is simulated
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Locations of hosts: CSV with the columns address, rack, and if known pod and service
    #[arg(long, value_name = "MAP", help_heading = "Input")]
    pub hosts: Option<PathBuf>,
    /// Length of the intervals of traffic matrices [default: 100s, or that of a scenario's matrices]
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Input")]
    pub interval: Option<Duration>,
    /// In packet captures: end a flow after this time without a packet
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval, help_heading = "Input")]
    pub idle: Duration,
    /// Assume that the logs sample 1 packet in N, where they do not state it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Input")]
    pub sampling: Option<u32>,
    /// Skip and count records that cannot be read, instead of ending with an error
    #[arg(long, help_heading = "Input")]
    pub keep_going: bool,
    /// Write a scenario with this traffic, for `weft run`, and the data file that it reads
    #[arg(long, value_name = "SCENARIO", help_heading = "Scenario to write")]
    pub emit: Option<PathBuf>,
    /// Form of the scenario's traffic: distributions, or the flows themselves
    #[arg(long, value_enum, default_value_t, requires = "emit", help_heading = "Scenario to write")]
    pub emit_as: Form,
    /// Replace the names of hosts, racks, services and exporters by hashes, with the key in this file
    #[arg(long, value_name = "KEYFILE", help_heading = "Results")]
    pub anonymize: Option<PathBuf>,
    /// Override a key of the scenario: world.seed=2
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set, help_heading = "Input")]
    pub set: Vec<(String, Value)>,
    /// End with exit code 1 if an `[[expect]]` of the scenario is missed
    #[arg(long, help_heading = "Results")]
    pub check: bool,
    /// Write traffic.json, traffic.html, and tables as CSV and Parquet to this folder
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

impl TrafficArgs {
    /// The length of intervals, if it is given.
    pub fn interval_ns(&self) -> Option<i64> {
        self.interval.map(nanoseconds)
    }

    /// What the study is set to.
    pub fn settings(&self) -> Settings {
        Settings {
            interval_ns: self.interval_ns().unwrap_or(Settings::default().interval_ns),
            idle_ns: nanoseconds(self.idle),
            sampling: self.sampling,
            keep_going: self.keep_going,
        }
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_ps() / 1_000).expect("fewer picoseconds than 2^64")
}

fn interval(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|e: weft_fabric::units::UnitError| e.to_string())?;
    if time < Duration::from_ms(1) { Err("it is shorter than 1 ms".to_owned()) } else { Ok(time) }
}
