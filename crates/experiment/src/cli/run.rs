//! `weft run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use toml::Value;
use weft_fabric::rng::mix;

use crate::bundle;
use crate::cli::progress::Bar;
use crate::cli::{ScenarioArgs, estimate, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::run;
use crate::scenario::source::{Form, Overrides, Source};

/// Arguments of `weft run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    scenario: PathBuf,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Override world.kind: flow, packet or lab
    #[arg(long, value_name = "WORLD", help_heading = "Scenario")]
    world: Option<String>,
    /// Apply the scenario's [quick] table: a small form that takes seconds
    #[arg(long, conflicts_with = "full", help_heading = "Scenario")]
    quick: bool,
    /// Apply the scenario's [full] table: the paper's size
    #[arg(long, help_heading = "Scenario")]
    full: bool,
    /// Results folder [default: results/NAME, with the form and the overridden
    /// settings]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    out: Option<PathBuf>,
    /// Print every metric, not only goodput and % of ideal switch
    #[arg(long, conflicts_with = "json", help_heading = "Results")]
    wide: bool,
    /// Print summary.json and nothing else on stdout
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// Threads: runs of a sweep in parallel, or cores of a single packet run [default: one run per core]
    #[arg(long, value_name = "N", help_heading = "Execution")]
    threads: Option<usize>,
}

/// Examples at the end of `weft run --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft run @first                            compare schedulers, 1,024 hosts
  weft run @first --set fabric.k=4 --seed 7  override keys
  weft run @hedera/figure9 --quick --wide    a figure, small, with all metrics
  weft run mine.toml --world packet --json   packet level, for a program

Choose the fidelity with --world flow|packet|lab. The flow world is fast and
models capacity exactly; the packet world adds queueing, loss, timeouts and
latency; the lab runs real packets in network namespaces (Linux, root).";

/// Runs it.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let form = match (args.quick, args.full) {
        (true, _) => Form::Quick,
        (_, true) => Form::Full,
        _ => Form::Plain,
    };
    let mut overrides = args.changes.overrides(form)?;
    overrides.set.extend(args.world.iter().map(|w| ("world.kind".to_owned(), Value::String(w.clone()))));
    let (mut study, estimate) = estimate::read(Source::read(&args.scenario, &overrides)?)?;
    // On request only: the parts of one run wait for each other all the time, which is slow on a busy machine.
    study.cores = args.threads.unwrap_or(1);
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_out(&args.scenario, &study.source)?,
    };
    let reread = |form, kind: Option<&str>| {
        let mut other = Overrides { form, set: overrides.set.clone() };
        other.set.extend(kind.map(|kind| ("world.kind".to_owned(), Value::String(kind.to_owned()))));
        Source::read(&args.scenario, &other).and_then(estimate::read)
    };
    if let Some(notice) = estimate::notice(&study, &estimate, thread_count(args.threads), reread) {
        eprint!("{notice}");
    }
    let bar = Bar::new(study.runs.len());
    let summary = in_pool(args.threads, || run::run(&study, Some(&out), &|i, part| bar.update(i, part)))?;
    bar.finish();
    let summary = summary?;
    if args.json {
        summary.log_notes();
        print_json(&summary)?;
    } else {
        let columns = if args.wide { table::Columns::All } else { table::Columns::Few };
        print_text(&table::of_runs(&summary, columns))?;
        print_text(&format!("\nresults: {}\nreport:  {}\n", out.display(), out.join("report.html").display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Threads that runs share: as asked for, else one per core.
pub fn thread_count(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Runs `work` with that many threads.
pub fn in_pool<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T> {
    if threads.is_some_and(|n| n == 0 || n > MAX_THREADS) {
        return Err(Error::usage("invalid number of threads", format!("write `--threads` with 1 to {MAX_THREADS}")));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    let pool = pool.map_err(|e| Error::usage(e.to_string(), "ask for fewer `--threads`"))?;
    Ok(pool.install(work))
}

const MAX_THREADS: usize = 1024;

/// `results/NAME`; in another form or with other settings than those of the file `results/NAME--quick,KEY=VALUE`: no result replaces that of another run.
fn default_out(scenario: &Path, source: &Source) -> Result<PathBuf> {
    let name = bundle::results_name(scenario)
        .ok_or_else(|| Error::usage(format!("{} is not a file", scenario.display()), "name a scenario file"))?;
    Ok(PathBuf::from("results").join(format!("{name}{}", settings_suffix(source))))
}

/// `--quick,KEY=VALUE,KEY=VALUE` of the form and the overrides, in characters that file systems take; a long one ends with a hash.
fn settings_suffix(source: &Source) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let changes = source.changes().map(|(key, value)| format!("{key}={}", text(value)));
    let settings: Vec<String> = source.form().map(str::to_owned).into_iter().chain(changes).collect();
    if settings.is_empty() {
        return String::new();
    }
    let settings = settings.join(",");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,".contains(c);
    let plain: String = settings.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain.len() <= SUFFIX_MAX && plain == settings {
        return format!("--{plain}");
    }
    // What was replaced or cut off still makes a folder of its own.
    let hash = settings.bytes().fold(0u64, |hash, byte| mix(hash ^ u64::from(byte)));
    format!("--{}-{:08x}", &plain[..plain.len().min(SUFFIX_MAX)], hash as u32)
}

/// Bytes of the settings in a folder's name.
const SUFFIX_MAX: usize = 80;
