//! Tables for people.

use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};

use crate::expect::Verdict;
use crate::run::{RunSummary, Summary};

/// Metrics that the table of `weft run` shows where a run knows them; `summary.json` holds all.
const SHOWN: &[(&str, &str)] = &[
    ("goodput_bps", "goodput"),
    ("goodput_fraction", "of NIC bound"),
    ("optimal_fraction", "of non-blocking"),
    ("splittable_fraction", "splittable"),
    ("loss_fraction", "lost"),
    ("completion_s", "completion"),
    ("fct_mean_s", "FCT mean"),
    ("fct_p99_s", "FCT p99"),
    ("jain_flows", "Jain"),
    ("outage_s", "outage"),
    ("move_outage_s", "outage of moves"),
    ("moves", "moves"),
    ("demand_wall_s", "estimation"),
    ("place_wall_s", "placement"),
    ("control_loop_s", "control loop"),
    ("wall_s", "wall"),
];

/// The table of a run or a sweep, with what the paper says below it.
pub fn of_runs(summary: &Summary) -> String {
    let settings = varying(&summary.runs);
    let shown: Vec<_> = SHOWN.iter().filter(|(m, _)| summary.runs.iter().any(|r| r.metrics.get(m).is_some())).collect();
    let mut table = new_table();
    let titles = settings.iter().map(String::as_str).chain(shown.iter().map(|(_, title)| *title));
    table.set_header(titles);
    for run in &summary.runs {
        let values = settings.iter().map(|key| run.set.get(key).map_or(String::new(), plain));
        let metrics = shown.iter().map(|(m, _)| run.metrics.get(m).map_or("-".to_owned(), |v| show(m, v)));
        table.add_row(values.chain(metrics));
    }
    align(&mut table, settings.len());
    let (searches, labs, skipped) = (of_searches(&summary.runs), of_labs(&summary.runs), of_skipped(&summary.runs));
    let faults = of_faults(&summary.runs);
    format!("{}\n{table}\n{searches}{labs}{faults}{skipped}{}", summary.title, of_expectations(&summary.runs))
}

/// One scenario of `weft check`.
pub fn of_check(path: &str, title: &str, wall_s: f64, runs: &[RunSummary]) -> String {
    let (skipped, labs, faults) = (of_skipped(runs), of_labs(runs), of_faults(runs));
    format!("{path} ({}): {title}\n{}{skipped}{labs}{faults}\n", show("wall_s", wall_s), of_expectations(runs))
}

/// Runs that were not carried, and why.
fn of_skipped(runs: &[RunSummary]) -> String {
    runs.iter().filter_map(|r| Some(format!("SKIPPED {}: {}\n", settings_text(&r.set), r.skipped.as_ref()?))).collect()
}

/// What labs say of themselves, a line each.
fn of_labs(runs: &[RunSummary]) -> String {
    let line = |run: &RunSummary| {
        let lab = run.lab.as_ref()?;
        let settings = if runs.len() > 1 { format!(" {}", settings_text(&run.set)) } else { String::new() };
        let routing = lab.ospf.as_ref().map_or_else(
            || if lab.routing == "spain" { "SPAIN's VLANs" } else { "static routes" }.to_owned(),
            |timers| format!("OSPF with {timers} timers"),
        );
        let idle = run.metrics.get("cpu_idle_fraction").map_or("an unknown part".to_owned(), |i| format!("{:.0} %", i * 100.0));
        let verdict = if lab.trusted { "" } else { ": NOT TO BE TRUSTED, lower world.scale" };
        Some(format!(
            "lab{settings}: real packets, rates times {}, {routing}, processors idle for {idle} of the run{verdict}\n",
            lab.scale
        ))
    };
    runs.iter().filter_map(line).collect()
}

/// What flows noticed of what failed, ended or moved in labs.
fn of_faults(runs: &[RunSummary]) -> String {
    let faults = |run: &RunSummary| run.lab.iter().flat_map(|lab| &lab.faults).cloned().collect::<Vec<_>>();
    if runs.iter().all(|run| faults(run).is_empty()) {
        return String::new();
    }
    let settings = runs.len() > 1;
    let mut table = new_table();
    let beats = runs.iter().flat_map(faults).any(|fault| fault.gap_s.is_some());
    let titles = settings.then_some("run").into_iter().chain(["at", "event", "flows", "none silent for longer than"]);
    table.set_header(titles.chain(beats.then_some("datagrams")));
    for run in runs {
        for fault in faults(run) {
            let time = |time: Option<f64>| time.map_or("-".to_owned(), |time| show("outage_s", time));
            let cells = [show("at_s", fault.at_s), fault.event, fault.flows.to_string(), time(fault.silent_s)];
            let cells = cells.into_iter().chain(beats.then(|| time(fault.gap_s)));
            table.add_row(settings.then(|| settings_text(&run.set)).into_iter().chain(cells));
        }
    }
    align(&mut table, 2 + usize::from(settings));
    format!("{table}\n")
}

fn of_expectations(runs: &[RunSummary]) -> String {
    if runs.iter().all(|r| r.expect.is_empty()) {
        return String::new();
    }
    let mut table = new_table();
    table.set_header(["", "source", "run", "metric", "paper", "measured", "within"]);
    let mut causes = Vec::new();
    for run in runs {
        for verdict in &run.expect {
            let mark = match (verdict.ok, &verdict.cause) {
                (true, _) => "ok".to_owned(),
                (false, None) => "MISS".to_owned(),
                (false, Some(cause)) => {
                    let number = causes.iter().position(|c| c == cause).unwrap_or_else(|| {
                        causes.push(cause.clone());
                        causes.len() - 1
                    });
                    format!("MISS [{}]", number + 1)
                }
            };
            table.add_row([
                mark,
                verdict.source.clone(),
                settings_text(&run.set),
                metric_text(verdict),
                show_verdict(verdict, Some(verdict.paper)),
                show_verdict(verdict, verdict.measured),
                verdict.within.clone(),
            ]);
        }
    }
    align(&mut table, 4);
    let notes: Vec<String> = causes.iter().enumerate().map(|(i, c)| format!("[{}] {c}\n", i + 1)).collect();
    format!("{table}\n{}", notes.concat())
}

fn metric_text(verdict: &Verdict) -> String {
    match &verdict.over {
        None => verdict.metric.clone(),
        Some(over) => format!("{} over {}", verdict.metric, settings_text(over)),
    }
}

fn show_verdict(verdict: &Verdict, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if verdict.over.is_some() => format!("{v:.3}"),
        Some(v) => show(&verdict.metric, v),
    }
}

/// A metric's value with its unit.
pub fn show(metric: &str, value: f64) -> String {
    let metric = metric.split('.').next().unwrap_or_default();
    if metric.ends_with("_bps") {
        scaled(value, &[(1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")], "bps")
    } else if metric.ends_with("_fraction") {
        format!("{:.2} %", value * 100.0)
    } else if metric.ends_with("_s") {
        scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us")], "s")
    } else if metric.ends_with("_bytes") {
        scaled(value, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

fn scaled(value: f64, units: &[(f64, &str)], base: &str) -> String {
    match units.iter().find(|(scale, _)| value.abs() >= *scale) {
        Some((scale, unit)) => format!("{:.4} {unit}", value / scale).replace(".0000 ", " "),
        None => format!("{value} {base}"),
    }
}

/// What searches found, a line each.
fn of_searches(runs: &[RunSummary]) -> String {
    let line = |run: &RunSummary| {
        let s = run.search.as_ref()?;
        let (word, bound) = s.at_most.map_or(("at least", s.at_least), |b| ("at most", Some(b)));
        let goal = format!("{} {word} {}", s.metric, bound.map_or(String::new(), |b| show(&s.metric, b)));
        let others: serde_json::Map<_, _> =
            run.set.iter().filter(|(key, _)| **key != s.key).map(|(key, v)| (key.clone(), v.clone())).collect();
        let which = if others.is_empty() { String::new() } else { format!("{}: ", settings_text(&others)) };
        Some(match (s.value, s.fails_at) {
            (None, _) => format!("{which}no {} that was tried has {goal}: shown is the smallest ({} trials)\n", s.key, s.trials),
            (Some(v), None) => format!("{which}every {} up to {v} has {goal} ({} trials)\n", s.key, s.trials),
            (Some(v), Some(f)) => format!("{which}largest {} with {goal}: {v}; {f} misses it ({} trials)\n", s.key, s.trials),
        })
    };
    runs.iter().filter_map(line).collect()
}

/// Settings whose value is not the same in all runs, and those that were searched for.
fn varying(runs: &[RunSummary]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for run in runs {
        for key in run.set.keys() {
            let searched = run.search.as_ref().is_some_and(|s| s.key == *key);
            if !keys.contains(key) && (searched || runs.iter().any(|r| r.set.get(key) != run.set.get(key))) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

fn settings_text(set: &serde_json::Map<String, serde_json::Value>) -> String {
    let texts: Vec<String> =
        set.iter().map(|(key, v)| format!("{}={}", key.rsplit('.').next().unwrap_or(key), plain(v))).collect();
    texts.join(" ")
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table
}

pub(super) fn align(table: &mut Table, left: usize) {
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// What `weft topo` says of a fabric.
pub fn of_fabric(m: &weft_fabric::topology::Metrics) -> String {
    let rate = |bps: u64| show("_bps", bps as f64);
    let ratio =
        |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("1:{r:.3}").trim_end_matches('0').trim_end_matches('.').to_owned());
    let mut tiers = new_table();
    tiers.set_header(["tier", "switches", "ports", "down", "up", "over-subscription", "from hosts"]);
    for t in &m.tiers {
        let ports = if t.ports_min == t.ports_max { t.ports_min.to_string() } else { format!("{}-{}", t.ports_min, t.ports_max) };
        let (least, most) = (ratio(t.oversubscription_min), ratio(t.oversubscription_max));
        let over = if least == most { least } else { format!("{least} to {most}") };
        let from_hosts = ratio(t.oversubscription_from_hosts);
        tiers.add_row([t.name.clone(), t.switches.to_string(), ports, rate(t.down_bps), rate(t.up_bps), over, from_hosts]);
    }
    align(&mut tiers, 1);
    format!(
        "{}\n{} in {} and {}, {}, {}, {} in use\n{tiers}\n{}{}",
        m.title,
        counted(m.hosts, "host"),
        counted(m.racks, "rack"),
        counted(m.pods, "pod"),
        counted(m.switches, "switch"),
        counted(m.cables, "cable"),
        counted(m.ports, "port"),
        m.cabling
            .iter()
            .map(|c| format!("cables of {} between tiers {} and {}: {}\n", rate(c.capacity_bps), c.from_tier, c.to_tier, c.count))
            .collect::<String>(),
        of_paths(m)
    )
}

/// `1 rack`, `2 racks`, `3 switches`.
fn counted(n: impl std::fmt::Display, noun: &str) -> String {
    let n = n.to_string();
    let ending = match (n.as_str(), noun.ends_with("ch")) {
        ("1", _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {noun}{ending}")
}

fn of_paths(m: &weft_fabric::topology::Metrics) -> String {
    let b = &m.bisection;
    let rate = |bps: u64| show("_bps", bps as f64);
    let spread = |name: &str, s: &Option<weft_fabric::topology::metrics::Spread>| {
        s.as_ref().map_or(String::new(), |s| format!("{name}: {} to {}, {:.2} on average\n", s.min, s.max, s.mean))
    };
    let pairs = if m.paths.all_pairs { "all".to_owned() } else { "a sample of".to_owned() };
    format!(
        "bisection bandwidth: {} of {} that the NICs of half of the hosts can carry ({:.1} %)\n{}{}({pairs} {} pairs of racks)\ndiameter: {} links\n",
        rate(b.bps),
        rate(b.nic_bps),
        b.fraction * 100.0,
        spread("shortest paths between racks", &m.paths.shortest),
        spread("edge-disjoint paths between racks", &m.paths.disjoint),
        m.paths.pairs,
        m.diameter
    )
}
