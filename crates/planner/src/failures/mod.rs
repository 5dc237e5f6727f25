//! `weft analyze failures`: durations, groups and downtime of failures (VL2 section 3.4), and what of them a fabric's redundancy hides.
//!
//! ```text
//!   start,end,device,kind,cause --log--> failures --stats--> report
//!                                            `--hidden--> hosts cut off on a fabric
//! ```

mod drawn;
mod hidden;
mod log;
mod stats;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use toml::Value;
use weft_experiment::bundle;
use weft_experiment::metrics::{Metrics, OF_FAILURES};
use weft_experiment::scenario::dotted::parse_set;
use weft_experiment::scenario::keys::Keys;
use weft_experiment::scenario::read_fabric_of;
use weft_experiment::scenario::source::{Form, Overrides, Source, Variant};
use weft_experiment::wall::Stopwatch;
use weft_fabric::time::Duration;

use crate::error::{Error, Result};
use crate::fabric::{self, is_scenario};
use crate::judge::{self, judge, seed_of};
use crate::output::{print_json, print_text};
use drawn::Drawn;

pub use log::{Failure, parse};
pub use stats::FailureReport;

/// Arguments of `weft analyze failures`.
#[derive(Debug, Args)]
pub struct FailureArgs {
    /// A log of failures, CSV with the columns start, end, device, kind, cause; or a scenario with `[failures]` (`@...` is a bundled one)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Scenario or fabric file with the devices of the log: also compute what its redundancy hides
    #[arg(long, value_name = "SCENARIO")]
    pub fabric: Option<PathBuf>,
    /// Ignore failures that are not longer than this (VL2 section 3.4: 30 s)
    #[arg(long, value_name = "TIME", default_value = MIN)]
    pub min: Duration,
    /// Group failures that begin within this time after the previous one
    #[arg(long, value_name = "TIME", default_value = WINDOW)]
    pub window: Duration,
    /// Override a key of the scenario: world.seed=2
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    pub set: Vec<(String, Value)>,
    /// End with exit code 1 if an `[[expect]]` of the scenario is missed
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format.
pub fn run(args: &FailureArgs) -> Result<ExitCode> {
    if is_scenario(&args.file) {
        return of_scenario(args);
    }
    if args.check || !args.set.is_empty() {
        return Err(Error::usage("a log has no [[expect]] and no keys", "leave out --check and --set, or name a scenario"));
    }
    let mut report = FailureReport::of(read(&args.file)?, args.min.as_secs_f64(), args.window.as_secs_f64());
    if let Some(path) = &args.fabric {
        report.hidden = Some(hidden::of(&report.failures, &fabric::read(path, &[])?));
    }
    show(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// What a scenario's runs measure, with the default settings.
///
/// # Errors
/// What is wrong with the scenario.
pub fn evaluate(source: &Source) -> Result<Vec<Metrics>> {
    let [min_s, window_s] = [MIN, WINDOW].map(|it| it.parse::<Duration>().expect("a time").as_secs_f64());
    let studied = source.variants()?.into_iter().map(|variant| study(source, &variant, min_s, window_s));
    studied.map(|report| Ok(metrics(&report?))).collect()
}

/// Studies the failures of a scenario with a single run.
fn of_scenario(args: &FailureArgs) -> Result<ExitCode> {
    if let Some(path) = &args.fabric {
        let message = format!("{} has a fabric of its own: {} is none for it", args.file.display(), path.display());
        return Err(Error::usage(message, "leave --fabric out"));
    }
    let clock = Stopwatch::start();
    let source = Source::read(&args.file, &Overrides { form: Form::Plain, set: args.set.clone() })?;
    let variants = source.variants()?;
    let [variant] = &variants[..] else {
        let message = format!("{} has {} runs", args.file.display(), variants.len());
        return Err(Error::usage(message, "choose one of them with --set KEY=VALUE for each key of [sweep]"));
    };
    let report = study(&source, variant, args.min.as_secs_f64(), args.window.as_secs_f64())?;
    let judged = judge(&source, std::iter::once(metrics(&report)), OF_FAILURES)?;
    show(args, &report)?;
    judge::conclude(&source, &judged, &judge::Shown { check: args.check, json: args.json, seconds: clock.seconds() })
}

/// Studies the failures that a scenario describes, on its fabric.
fn study(source: &Source, variant: &Variant, min_s: f64, window_s: f64) -> Result<FailureReport> {
    let fabric = read_fabric_of(variant, source)?.build().map_err(|e| source.at(e))?;
    let failures = match Spec::read(variant, source)? {
        Spec::Log(path) => read(&path)?,
        Spec::Drawn(drawn) => drawn::draw(drawn, &fabric, seed_of(variant)),
    };
    let report = FailureReport::of(failures, min_s, window_s);
    let hidden = Some(hidden::of(&report.failures, &fabric));
    Ok(FailureReport { hidden, ..report })
}

/// `[failures]` of a scenario.
enum Spec {
    /// A log.
    Log(PathBuf),
    /// Drawn at random.
    Drawn(Drawn),
}

impl Spec {
    fn read(variant: &Variant, source: &Source) -> Result<Self> {
        let read = || {
            let root = Keys::new("", &variant.table);
            if !root.has("failures") {
                return Err(root.error(
                    "failures",
                    "it describes no failures",
                    "add a [failures] table with `log`, or with `days`",
                ));
            }
            let keys = root.table("failures")?;
            let spec = match keys.opt::<String>("log")? {
                Some(log) => Self::Log(bundle::resolve(&source.folder, &log)),
                None => Self::Drawn(Drawn { days: keys.need("days")?, groups_per_day: keys.or("groups_per_day", 20.0)? }),
            };
            keys.done()?;
            if let Self::Drawn(Drawn { days, groups_per_day }) = spec {
                keys.check_range("days", days, 1.0..=3_660.0, "write days = 365")?;
                keys.check_range("groups_per_day", groups_per_day, 0.01..=100.0, "leave it out for 20")?;
            }
            Ok(spec)
        };
        Ok(read().map_err(|e| source.at(e))?)
    }
}

fn read(path: &Path) -> Result<Vec<Failure>> {
    let text = bundle::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    parse(&text).map_err(|(line, message, help)| Error::input(path, format!("line {line}"), message, help))
}

fn metrics(report: &FailureReport) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("resolved_10min_fraction", report.resolved.in_10_minutes);
    metrics.put("resolved_1h_fraction", report.resolved.in_1_hour);
    metrics.put("resolved_1d_fraction", report.resolved.in_1_day);
    metrics.put("longer_10d_fraction", report.resolved.longer_than_10_days);
    metrics.put("groups_below_4_fraction", report.groups_below_4);
    metrics.put("groups_below_20_fraction", report.groups_below_20);
    metrics.put_some("group_size_max", report.group_sizes.as_ref().map(|sizes| sizes.max));
    if let Some(hidden) = &report.hidden {
        metrics.put("place_down_fraction", hidden.whole_place_down as f64 / hidden.replayed as f64);
        metrics.put("hidden_fraction", hidden.hidden_fraction);
    }
    metrics
}

fn show(args: &FailureArgs, report: &FailureReport) -> Result<()> {
    if args.json { print_json(report) } else { print_text(&table::render(report)) }
}

const MIN: &str = "30s";
const WINDOW: &str = "60s";
