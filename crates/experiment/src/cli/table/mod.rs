//! Tables for people: `weft run`, `weft check`.

mod expectations;
mod fabric;
mod grid;
mod quantity;

use serde_json::{Map, Value};

use crate::metrics::words;
use crate::summary::{RunSummary, Summary};
pub use fabric::of_fabric;
use grid::{Grid, WIDTH};
pub use grid::{align, new_table, wrapped};
pub use quantity::show;

/// How much of a summary is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Settings, goodput, % of ideal switch, verdict: within 80 columns.
    Few,
    /// Every metric, however wide.
    All,
}

impl Columns {
    const fn width(self) -> Option<u16> {
        match self {
            Self::Few => Some(WIDTH),
            Self::All => None,
        }
    }
}

/// The table of a run or a sweep, and the comparison with published results below it.
pub fn of_runs(summary: &Summary, columns: Columns) -> String {
    let runs = &summary.runs;
    let settings = Settings::of(runs);
    let mut shown = shown_metrics(runs, columns);
    let mut lines = lines_of_runs(runs, &settings, &shown, columns);
    // Numbers are not cut: what does not fit is left out.
    while let Some(width) = columns.width()
        && lines.iter().any(|line| line.chars().count() > usize::from(width))
        && shown.len() > 1
    {
        shown.pop();
        lines = lines_of_runs(runs, &settings, &shown, columns);
    }
    let table = lines.join("\n");
    let (searches, labs, skipped) = (of_searches(runs), of_labs(runs), of_skipped(runs));
    let (faults, compared) = (of_faults(runs), expectations::of_expectations(runs, columns));
    let seeds = of_seeds(runs);
    format!("{}\n\n{table}\n{seeds}{searches}{labs}{faults}{skipped}{compared}", summary.title)
}

/// The header, the rule, and a line per run with its settings and these metrics.
fn lines_of_runs(runs: &[RunSummary], settings: &Settings, shown: &[String], columns: Columns) -> Vec<String> {
    let titles = settings.titles().into_iter().chain(shown.iter().map(|m| words::label(m)));
    let mut grid = Grid::new(0..settings.titles().len(), titles.chain(["verdict".to_owned()]).collect());
    for run in runs {
        let metrics = shown.iter().map(|m| run.metrics.get(m).map_or("-".to_owned(), |v| show(m, v)));
        grid.row(settings.cells(run).into_iter().chain(metrics).chain([expectations::verdict_of_run(run)]).collect());
    }
    grid.lines(columns.width())
}

/// One scenario of `weft check`.
pub fn of_check(path: &str, title: &str, wall_s: f64, runs: &[RunSummary]) -> String {
    let (seeds, skipped, labs, faults) = (of_seeds(runs), of_skipped(runs), of_labs(runs), of_faults(runs));
    let compared = expectations::of_expectations(runs, Columns::Few);
    format!("{path} ({}): {title}\n{seeds}{skipped}{labs}{faults}{compared}\n", show("wall_s", wall_s))
}

/// Goodput and its share of the ideal switch; where a workload has no goodput, the first metrics that it has.
fn shown_metrics(runs: &[RunSummary], columns: Columns) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for (name, _) in runs.iter().flat_map(|r| r.metrics.iter()) {
        if !known.iter().any(|k| k == name) {
            known.push(name.to_owned());
        }
    }
    if columns == Columns::All {
        return known;
    }
    let has = |name: &&str| known.iter().any(|k| k == name);
    let share = ["optimal_fraction", "goodput_fraction", "efficiency"].into_iter().find(has);
    let mut shown: Vec<String> = ["goodput_bps"].into_iter().filter(has).chain(share).map(str::to_owned).collect();
    if shown.is_empty() {
        let telling =
            |name: &&String| !words::of(name).is_none_or(|w| w.better.is_empty()) && !INCIDENTAL.contains(&name.as_str());
        shown = known.iter().filter(telling).take(FEW).cloned().collect();
    }
    let searched = runs.iter().filter_map(|r| r.search.as_ref()).map(|s| s.metric.clone());
    for metric in searched {
        if !shown.contains(&metric) {
            shown.push(metric);
        }
    }
    shown
}

/// Metrics of the machine, not of the network.
const INCIDENTAL: &[&str] = &["wall_s", "rss_bytes", "cpu_idle_fraction", "cpu_per_gbit_s"];
/// Metrics shown of a workload without goodput.
const FEW: usize = 3;

/// Over how many seeds the runs are averaged.
fn of_seeds(runs: &[RunSummary]) -> String {
    let most = runs.iter().map(|run| run.per_seed.len()).max().unwrap_or(0);
    match most {
        0 => String::new(),
        _ => format!("means of {most} seeds; --json and summary.json have each seed, and 95 % intervals\n"),
    }
}

/// Runs that were not executed, and why.
fn of_skipped(runs: &[RunSummary]) -> String {
    runs.iter().filter_map(|r| Some(format!("SKIPPED {}: {}\n", settings_text(&r.set), r.skipped.as_ref()?))).collect()
}

/// How a lab was run, a line each.
fn of_labs(runs: &[RunSummary]) -> String {
    let line = |run: &RunSummary| {
        let lab = run.lab.as_ref()?;
        let settings = if runs.len() > 1 { format!(" {}", settings_text(&run.set)) } else { String::new() };
        let routing =
            lab.ospf.as_ref().map_or_else(|| routing_text(lab.routing).to_owned(), |timers| format!("OSPF with {timers} timers"));
        let idle = run.metrics.get("cpu_idle_fraction").map_or("unknown".to_owned(), |i| format!("{:.0} %", i * 100.0));
        let queues =
            lab.regime.map_or_else(String::new, |regime| format!(", full queue {}", quantity::show("queue_s", regime.queue_s)));
        let warnings: String = lab.distrust.iter().map(|why| format!("UNTRUSTED: {}\n", why.text())).collect();
        Some(format!("lab{settings}: real packets, link rates x {}, {routing}, idle CPU {idle}{queues}\n{warnings}", lab.scale))
    };
    runs.iter().filter_map(line).collect()
}

/// What computes the routes, if not OSPF.
fn routing_text(routing: &str) -> &'static str {
    match routing {
        "spain" => "SPAIN VLANs",
        "openflow" => "OpenFlow rules",
        _ => "static routes",
    }
}

/// What flows noticed of failures and moves in labs.
fn of_faults(runs: &[RunSummary]) -> String {
    let faults = |run: &RunSummary| run.lab.iter().flat_map(|lab| &lab.faults).cloned().collect::<Vec<_>>();
    if runs.iter().all(|run| faults(run).is_empty()) {
        return String::new();
    }
    let settings = runs.len() > 1;
    let datagrams = runs.iter().flat_map(faults).any(|fault| fault.gap_s.is_some());
    let titles = settings.then_some("run").into_iter().chain(["event", "time", "flows", "longest outage"]);
    let titles = titles.chain(datagrams.then_some("of datagrams"));
    let mut grid = Grid::new(0..1 + usize::from(settings), titles.map(str::to_owned).collect());
    for run in runs {
        for fault in faults(run) {
            let time = |time: Option<f64>| time.map_or("-".to_owned(), |time| show("outage_s", time));
            let cells = [fault.event, show("at_s", fault.at_s), fault.flows.to_string(), time(fault.silent_s)];
            let cells = cells.into_iter().chain(datagrams.then(|| time(fault.gap_s)));
            grid.row(settings.then(|| settings_text(&run.set)).into_iter().chain(cells).collect());
        }
    }
    format!("\nEvents\n{}\n", grid.lines(Some(WIDTH)).join("\n"))
}

/// The result of each search, a line each.
fn of_searches(runs: &[RunSummary]) -> String {
    let line = |run: &RunSummary| {
        let s = run.search.as_ref()?;
        let (word, bound) = s.at_most.map_or(("at least", s.at_least), |b| ("at most", Some(b)));
        let goal = format!("{} {word} {}", s.metric, bound.map_or(String::new(), |b| show(&s.metric, b)));
        let others: Map<_, _> =
            run.set.iter().filter(|(key, _)| **key != s.key).map(|(key, v)| (key.clone(), v.clone())).collect();
        let which = if others.is_empty() { String::new() } else { format!("{}: ", settings_text(&others)) };
        Some(match (s.value, s.fails_at) {
            (None, _) => format!("{which}no {} in the range meets {goal}; the smallest is shown ({} trials)\n", s.key, s.trials),
            (Some(v), None) => format!("{which}every {} up to {v} meets {goal} ({} trials)\n", s.key, s.trials),
            (Some(v), Some(f)) => {
                format!("{which}largest {} with {goal}: {v}; {f} does not meet it ({} trials)\n", s.key, s.trials)
            }
        })
    };
    runs.iter().filter_map(line).collect()
}

/// The settings by which runs differ: a column for each that all runs have, one column for the rest.
struct Settings {
    columns: Vec<String>,
    rest: Vec<String>,
}

impl Settings {
    /// Settings whose value is not the same in all runs, and those that were searched for.
    fn of(runs: &[RunSummary]) -> Self {
        let mut keys: Vec<String> = Vec::new();
        for run in runs {
            for key in run.set.keys() {
                let searched = run.search.as_ref().is_some_and(|s| s.key == *key);
                if !keys.contains(key) && (searched || runs.iter().any(|r| r.set.get(key) != run.set.get(key))) {
                    keys.push(key.clone());
                }
            }
        }
        let (columns, rest) = keys.into_iter().partition(|key| runs.iter().all(|r| r.set.contains_key(key)));
        Self { columns, rest }
    }

    fn titles(&self) -> Vec<String> {
        let short = self.columns.iter().map(|key| short_key(key).to_owned());
        short.chain((!self.rest.is_empty()).then(|| "settings".to_owned())).collect()
    }

    fn cells(&self, run: &RunSummary) -> Vec<String> {
        let own = self.columns.iter().map(|key| run.set.get(key).map_or(String::new(), plain));
        let rest = || -> Vec<String> {
            self.rest.iter().filter_map(|key| Some(format!("{}={}", short_key(key), plain(run.set.get(key)?)))).collect()
        };
        own.chain((!self.rest.is_empty()).then(|| rest().join(" "))).collect()
    }
}

/// `scheduler` for `control.scheduler`, `transport` for `transport.kind`.
fn short_key(key: &str) -> &str {
    let key = key.strip_suffix(".kind").unwrap_or(key);
    key.rsplit('.').next().unwrap_or(key)
}

/// The settings of a run: values that say enough alone without their key, `annealing k=4`.
fn settings_text(set: &Map<String, Value>) -> String {
    let one = |(key, value): (&String, &Value)| {
        let text = plain(value);
        let speaks =
            text.starts_with(|c: char| c.is_ascii_alphabetic()) && !["none", "true", "false", "inf"].contains(&text.as_str());
        if speaks { text } else { format!("{}={text}", short_key(key)) }
    };
    set.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
