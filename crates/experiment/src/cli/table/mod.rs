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

    /// A text as wide as the columns: wrapped, with further lines indented by so many spaces, or as it is.
    fn fit(self, text: &str, indent: usize) -> String {
        match self {
            Self::Few => wrapped(text, indent),
            Self::All => text.to_owned(),
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
    let (seeds, notes) = (of_seeds(runs), of_notes(runs, columns));
    format!("{}\n\n{table}\n{seeds}{searches}{labs}{faults}{skipped}{notes}{compared}", summary.title)
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

/// One scenario of `weft check`, within 80 columns.
pub fn of_check(path: &str, title: &str, wall_s: f64, runs: &[RunSummary]) -> String {
    of_check_in(Columns::Few, path, title, wall_s, runs)
}

/// One scenario of `weft check`; with [`Columns::All`] no run's name is cut, and tolerances are shown.
pub fn of_check_in(columns: Columns, path: &str, title: &str, wall_s: f64, runs: &[RunSummary]) -> String {
    let (seeds, skipped, labs, faults) = (of_seeds(runs), of_skipped(runs), of_labs(runs), of_faults(runs));
    let (notes, compared) = (of_notes(runs, columns), expectations::of_expectations(runs, columns));
    format!("{path} ({}): {title}\n{seeds}{skipped}{labs}{faults}{notes}{compared}\n", show("wall_s", wall_s))
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

/// What a reader of the figures has to know. A sentence that stands in several notes is printed once.
fn of_notes(runs: &[RunSummary], columns: Columns) -> String {
    let mut printed: Vec<&str> = Vec::new();
    let mut lines = String::new();
    for note in runs.iter().flat_map(|run| &run.notes) {
        let new: Vec<&str> = note.split(". ").filter(|sentence| !printed.contains(sentence)).collect();
        if !new.is_empty() {
            lines += &format!("{}\n", columns.fit(&format!("note: {}", new.join(". ")), 2));
        }
        printed.extend(new);
    }
    lines
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
        let warnings: String = lab.reasons().into_iter().map(|why| format!("UNTRUSTED: {why}\n")).collect();
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
        let rest = || {
            let given = by_short_key(self.rest.iter().filter_map(|key| Some((key, run.set.get(key)?))));
            given.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect::<Vec<_>>().join(" ")
        };
        own.chain((!self.rest.is_empty()).then(rest)).collect()
    }
}

/// `scheduler` for `control.scheduler`, `transport` for `transport.kind`.
fn short_key(key: &str) -> &str {
    let key = key.strip_suffix(".kind").unwrap_or(key);
    key.rsplit('.').next().unwrap_or(key)
}

/// Settings by their short keys, in order, with each distinct value once: `start` has `60s` and `80s` of `traffic[2].start`, `traffic[3].start`.
fn by_short_key<'s>(settings: impl Iterator<Item = (&'s String, &'s Value)>) -> Vec<(&'s str, Vec<String>)> {
    let mut given: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in settings {
        let (key, value) = (short_key(key), plain(value));
        let at = given.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            given.push((key, Vec::new()));
            given.len() - 1
        });
        if !given[at].1.contains(&value) {
            given[at].1.push(value);
        }
    }
    given
}

/// The settings of a run: values that are clear alone without their key, `annealing k=4`; several values of a key with commas, `bursts start=60s,80s`.
fn settings_text(set: &Map<String, Value>) -> String {
    let is_clear = |text: &String| {
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && !["none", "true", "false", "inf"].contains(&text.as_str())
    };
    let one = |(key, values): (&str, Vec<String>)| {
        let text = values.join(",");
        if values.iter().all(is_clear) { text } else { format!("{key}={text}") }
    };
    by_short_key(set.iter()).into_iter().map(one).collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(settings: &Value) -> Map<String, Value> {
        settings.as_object().expect("an object").clone()
    }

    /// Runs that differ by settings of several `[[traffic]]`, as those of VL2's figure 11.
    #[test]
    fn a_label_has_each_distinct_value_once() {
        let later = json!({ "traffic[1].name": "later", "traffic[2].name": "later" });
        assert_eq!(settings_text(&set(&later)), "later");
        let bursts = json!({ "traffic[2].name": "bursts", "traffic[3].start": "60s", "traffic[4].start": "80s" });
        assert_eq!(settings_text(&set(&bursts)), "bursts start=60s,80s");
        let mixed =
            json!({ "traffic[0].name": "none", "traffic[1].name": "long", "control.scheduler": "annealing", "fabric.k": 4 });
        for part in ["name=none,long", "annealing", "k=4"] {
            assert!(settings_text(&set(&mixed)).split(' ').any(|it| it == part), "{part}");
        }
        let all = [later, bursts].map(|settings| set(&settings));
        let rest: Vec<String> = all.iter().flat_map(|set| set.keys().cloned()).collect();
        let labels = all.map(|set| by_short_key(rest.iter().filter_map(|key| Some((key, set.get(key)?)))).len());
        assert_eq!(labels, [1, 2], "a name; a name and starts");
    }
}
