//! `weft bench`: the cases of `scenarios/bench/`, carried by the ordinary engine.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::cli::{print_json, print_text, table};
use crate::error::{Error, Result};
use crate::run;
use crate::scenario::Study;
use crate::scenario::source::Overrides;

/// Arguments of `weft bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Which engine
    #[arg(value_enum)]
    set: Set,
    /// Only cases whose name contains this
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Runs of each case; the fastest counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: usize,
    /// Where the cases are
    #[arg(long, default_value = "scenarios/bench", value_name = "DIR")]
    scenarios: PathBuf,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
    /// Run one case in this process and print it (each case has a process of its own, for its memory)
    #[arg(long, hide = true, value_name = "FILE")]
    only: Option<PathBuf>,
}

/// Sets of cases: the first part of their files' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The flow world
    Flow,
    /// Hedera's algorithms
    Control,
}

/// One measured case.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Case {
    name: String,
    hosts: usize,
    flows: u64,
    wall_s: f64,
    rss_bytes: u64,
    events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events_per_s: Option<f64>,
    /// `control`: demand estimation alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    demand_s: Option<f64>,
    /// `control`: placement alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place_s: Option<f64>,
}

/// Runs it.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if let Some(file) = &args.only {
        print_json(&measure(file)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.runs == 0 {
        return Err(Error::usage("a case that is not run cannot be measured", "write `--runs 1` or more"));
    }
    let mut cases = Vec::new();
    for file in files(args)? {
        let mut best: Option<Case> = None;
        for _ in 0..args.runs {
            let case = in_own_process(&file)?;
            best = Some(match best {
                Some(best) => faster(best, case),
                None => case,
            });
        }
        let case = best.expect("at least one run");
        if !args.json {
            print_text(&line(&case))?;
        }
        cases.push(case);
    }
    if args.json {
        print_json(&serde_json::json!({ "cases": cases }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn files(args: &BenchArgs) -> Result<Vec<PathBuf>> {
    let prefix = match args.set {
        Set::Flow => "flow-",
        Set::Control => "control-",
    };
    let folder = &args.scenarios;
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io("read", folder, e))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| {
        let name = name_of(f);
        f.extension().is_some_and(|e| e == "toml")
            && name.starts_with(prefix)
            && args.case.as_ref().is_none_or(|c| name.contains(c.as_str()))
    });
    files.sort();
    if files.is_empty() {
        return Err(Error::usage(format!("no case {prefix}*.toml in {}", folder.display()), "check `--case` and `--scenarios`"));
    }
    Ok(files)
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// A process of its own for each run: its peak memory is that of the case alone.
fn in_own_process(file: &Path) -> Result<Case> {
    let exe = std::env::current_exe().map_err(|e| Error::io("find", Path::new("weft"), e))?;
    let output =
        Command::new(&exe).args(["bench", "flow", "--only"]).arg(file).output().map_err(|e| Error::io("run", &exe, e))?;
    if !output.status.success() {
        return Err(Error::usage(String::from_utf8_lossy(&output.stderr).trim().to_owned(), "mend the case"));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Error::usage(format!("a case printed no result: {e}"), "run it with `weft run`"))
}

fn measure(file: &Path) -> Result<Case> {
    let study = Study::read(file, &Overrides::default())?;
    let hosts = study.runs[0].scenario.fabric.build().map_err(|e| study.source.at(e))?.host_count();
    let summary = run::run(&study, None, &|_, _| {})?;
    let metrics = &summary.runs[0].metrics;
    let get = |name| metrics.get(name);
    let (events, wall_s) = (get("events").unwrap_or(0.0), get("wall_s").unwrap_or(0.0));
    Ok(Case {
        name: name_of(file),
        hosts,
        flows: get("flows").unwrap_or(0.0) as u64,
        wall_s,
        rss_bytes: get("rss_bytes").unwrap_or(0.0) as u64,
        events: events as u64,
        events_per_s: (wall_s > 0.0).then(|| events / wall_s),
        demand_s: get("demand_wall_s"),
        place_s: get("place_wall_s"),
    })
}

fn faster(a: Case, b: Case) -> Case {
    let least = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| x.min(y));
    Case {
        wall_s: a.wall_s.min(b.wall_s),
        rss_bytes: a.rss_bytes.min(b.rss_bytes),
        events_per_s: a.events_per_s.zip(b.events_per_s).map(|(x, y)| x.max(y)),
        demand_s: least(a.demand_s, b.demand_s),
        place_s: least(a.place_s, b.place_s),
        ..b
    }
}

fn line(case: &Case) -> String {
    let part = |name: &str, value: Option<f64>| value.map_or(String::new(), |v| format!("  {name} {}", table::show("wall_s", v)));
    format!(
        "{:<28} {:>6} hosts {:>7} flows  wall {}{}{}  peak memory {}  {} events\n",
        case.name,
        case.hosts,
        case.flows,
        table::show("wall_s", case.wall_s),
        part("estimation", case.demand_s),
        part("placement", case.place_s),
        table::show("rss_bytes", case.rss_bytes as f64),
        case.events,
    )
}
