//! `weft bench`: the cases of `scenarios/bench/`, run by the ordinary engine.

mod agent;
mod goals;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use weft_fabric::routing::{FlowKey, Router};
use weft_fabric::traffic::{Size, flows_known_at_start};
use weft_sim::packet::bare_loop;

use crate::bundle;
use crate::cli::{print_json, print_text, table};
use crate::error::{Error, Result};
use crate::run;
use crate::scenario::source::Overrides;
use crate::study::Study;
use crate::wall::Stopwatch;
use goals::Goal;

/// Arguments of `weft bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The engine to measure
    #[arg(value_enum)]
    set: Set,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Runs of each case; the fastest one counts, with `agent` the median
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: usize,
    /// With `agent`: duration of each run, in seconds [default: that of the case]
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// With `agent`: overlay to compare with plain forwarding [default: both]
    #[arg(long, value_enum, value_name = "OVERLAY")]
    overlay: Option<Overlay>,
    /// Folder of the cases
    #[arg(long, default_value = "@bench", value_name = "DIR")]
    scenarios: PathBuf,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
    /// Run one case in this process and print it (each case has a process of its own, for its memory)
    #[arg(long, hide = true, value_name = "FILE")]
    only: Option<PathBuf>,
}

/// Examples at the end of `weft bench --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft bench flow                              all cases of the flow world
  weft bench packet --case 1024-1024 --runs 1  one case, once
  weft bench agent --overlay vl2 --json        cost of VL2's agents, as root";

/// Overlays that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overlay {
    Vl2,
    Netlord,
}

/// Sets of cases: the first part of their files' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The flow world
    Flow,
    /// The packet world
    Packet,
    /// Hedera's algorithms
    Control,
    /// Overlays compared with plain forwarding, in the lab (needs root)
    Agent,
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
    /// `packet`: packets sent over links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hops: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hops_per_s: Option<f64>,
    /// `packet`: hops a second of the bare loop, best of five, in the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bare_hops_per_s: Option<f64>,
    /// `control`: demand estimation alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    demand_s: Option<f64>,
    /// `control`: placement alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place_s: Option<f64>,
}

/// A case with its goals.
#[derive(Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    case: Case,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    goals: Vec<Goal>,
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
    let files = files(args)?;
    if args.set == Set::Agent {
        return agent::run(args, &files);
    }
    let mut cases = Vec::new();
    for file in files {
        let mut best: Option<Case> = None;
        for _ in 0..args.runs {
            let case = in_own_process(&file)?;
            best = Some(match best {
                Some(best) => faster(best, case),
                None => case,
            });
        }
        let case = best.expect("at least one run");
        let judged = Judged { goals: goals::of(&case), case };
        if !args.json {
            print_text(&line(&judged))?;
        }
        cases.push(judged);
    }
    if args.json {
        print_json(&serde_json::json!({ "cases": cases }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn files(args: &BenchArgs) -> Result<Vec<PathBuf>> {
    let prefix = match args.set {
        Set::Flow => "flow-",
        Set::Packet => "packet-",
        Set::Control => "control-",
        Set::Agent => match args.overlay {
            None => "agent-",
            Some(Overlay::Vl2) => "agent-vl2",
            Some(Overlay::Netlord) => "agent-netlord",
        },
    };
    let folder = &args.scenarios;
    let mut files = bundle::scenarios_below(folder).map_err(|e| Error::io("read", folder, e))?;
    files.retain(|file| {
        let name = name_of(file);
        name.starts_with(prefix) && args.case.as_ref().is_none_or(|case| name.contains(case.as_str()))
    });
    if files.is_empty() {
        return Err(Error::usage(format!("no case {prefix}*.toml in {}", folder.display()), "check `--case` and `--scenarios`"));
    }
    Ok(files)
}

fn name_of(file: &Path) -> String {
    file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
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
    let summary = run::run(&study, None, &|_, _| {})?;
    let metrics = &summary.runs[0].metrics;
    let get = |name| metrics.get(name);
    // The memory is that of the run; the bare loop comes after it.
    let bare_hops_per_s = if get("hops").is_some() { Some(bare(&study)?) } else { None };
    let (events, wall_s) = (get("events").unwrap_or(0.0), get("wall_s").unwrap_or(0.0));
    Ok(Case {
        name: name_of(file),
        hosts: study.prepare(0)?.fabric.host_count(),
        flows: get("flows").unwrap_or(0.0) as u64,
        wall_s,
        rss_bytes: get("rss_bytes").unwrap_or(0.0) as u64,
        events: events as u64,
        events_per_s: (wall_s > 0.0).then(|| events / wall_s),
        hops: get("hops"),
        hops_per_s: get("hops").filter(|_| wall_s > 0.0).map(|hops| hops / wall_s),
        bare_hops_per_s,
        demand_s: get("demand_wall_s"),
        place_s: get("place_wall_s"),
    })
}

/// Hops a second of the bare loop over the paths of a case's first flows, about as many packets, the best of five.
fn bare(study: &Study) -> Result<f64> {
    let run = &study.runs[0];
    let prepared = study.prepare(0)?;
    let fabric = &prepared.fabric;
    let mut router = Router::new(Arc::clone(fabric), run.scenario.control.routing, run.scenario.world.seed);
    let flows = prepared.flows().map(|flows| flows_known_at_start(&mut *flows.begin(), MAX_FLOWS)).unwrap_or_default();
    let mut segments = 1;
    let mut paths = Vec::with_capacity(flows.len());
    for (i, flow) in flows.iter().enumerate() {
        let key = FlowKey::of_flow(i as u32, flow.src, flow.dst);
        let mut path = |k| router.route(&k).unwrap_or_default().to_vec();
        paths.push((path(key), path(key.reverse())));
        if let Size::Finite(bytes) = flow.size {
            segments = segments.max(bytes.0.div_ceil(1460) as u32);
        }
    }
    let mut best = 0.0f64;
    for _ in 0..BARE_RUNS {
        let clock = Stopwatch::start();
        let hops = bare_loop(fabric, &paths, segments);
        best = best.max(hops as f64 / clock.seconds());
    }
    Ok(best)
}

const BARE_RUNS: usize = 5;
/// Flows of the bare loop.
const MAX_FLOWS: usize = 1_000_000;

fn faster(a: Case, b: Case) -> Case {
    let most = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| x.max(y));
    let least = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| x.min(y));
    Case {
        wall_s: a.wall_s.min(b.wall_s),
        rss_bytes: a.rss_bytes.min(b.rss_bytes),
        events_per_s: most(a.events_per_s, b.events_per_s),
        hops_per_s: most(a.hops_per_s, b.hops_per_s),
        bare_hops_per_s: most(a.bare_hops_per_s, b.bare_hops_per_s),
        demand_s: least(a.demand_s, b.demand_s),
        place_s: least(a.place_s, b.place_s),
        ..b
    }
}

/// `26.1 M hops/s (0.81 of the bare loop)`.
fn packets(case: &Case) -> String {
    let Some(hops) = case.hops_per_s else { return String::new() };
    let bare = case.bare_hops_per_s.map_or(String::new(), |b| format!(" ({:.2} of the bare loop's {:.1})", hops / b, b / 1e6));
    format!("  {:.1} M hops/s{bare}", hops / 1e6)
}

fn line(Judged { case, goals }: &Judged) -> String {
    let goals: String = goals.iter().map(|goal| format!("  {}", goal.text())).collect();
    let part = |name: &str, value: Option<f64>| value.map_or(String::new(), |v| format!("  {name} {}", table::show("wall_s", v)));
    format!(
        "{:<28} {:>6} hosts {:>7} flows  wall {}{}{}{}  peak memory {}  {} events{goals}\n",
        case.name,
        case.hosts,
        case.flows,
        table::show("wall_s", case.wall_s),
        part("estimation", case.demand_s),
        part("placement", case.place_s),
        packets(case),
        table::show("rss_bytes", case.rss_bytes as f64),
        case.events,
    )
}
