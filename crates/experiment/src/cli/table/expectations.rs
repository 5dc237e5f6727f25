//! The comparison with published results: what the paper states, what was aimed at, what was measured.

use super::grid::Grid;
use super::quantity::{digits, ratio, show};
use super::{Columns, settings_text};
use crate::expect::{Status, Verdict};
use crate::metrics::words;
use crate::summary::RunSummary;

/// A run's verdict in a word: the worst of its expectations.
pub(super) fn verdict_of_run(run: &RunSummary) -> String {
    if run.skipped.is_some() {
        return "skipped".to_owned();
    }
    if is_untrusted(run) {
        return UNTRUSTED.to_owned();
    }
    if !run.comparable && !run.expect.is_empty() {
        return NOT_COMPARABLE.to_owned();
    }
    let all = run.expect.len();
    let missed = run.expect.iter().filter(|v| v.verdict == Status::Miss).count();
    match (all, missed) {
        (0, _) => "-".to_owned(),
        (1, 1) => "MISS".to_owned(),
        (_, 1..) => format!("MISS ({missed} of {all})"),
        _ if run.expect.iter().any(|v| v.known) => "known miss".to_owned(),
        _ => "OK".to_owned(),
    }
}

const UNTRUSTED: &str = "UNTRUSTED";
/// Settings were overridden that the expectations take for granted.
const NOT_COMPARABLE: &str = "not comparable";

/// Whether the run is of a lab that is not trusted.
fn is_untrusted(run: &RunSummary) -> bool {
    run.lab.as_ref().is_some_and(|lab| !lab.trusted)
}

/// All expectations of all runs: one line each below the line of their source and metric.
pub(super) fn of_expectations(runs: &[RunSummary], columns: Columns) -> String {
    let all = grouped(runs);
    if all.is_empty() {
        return String::new();
    }
    let several = runs.iter().any(|r| !r.set.is_empty());
    let has_paper = all.iter().any(|(_, _, v)| v.paper.is_some());
    let has_bound = all.iter().any(|(_, _, v)| v.paper.is_none());
    let has_interval = all.iter().any(|(_, _, v)| v.ci95.is_some());
    let compared = [has_paper.then_some("paper"), has_bound.then_some("bound")].into_iter().flatten();
    let titles = ["verdict"]
        .into_iter()
        .chain(several.then_some("run"))
        .chain(compared)
        .chain(["measured"])
        .chain(has_interval.then_some("ci95"))
        .chain(["deviation"]);
    let mut grid = Grid::new(1..1 + usize::from(several), titles.map(str::to_owned).collect());
    let mut causes: Vec<&str> = Vec::new();
    for (_, run, verdict) in &all {
        let compared = [has_paper.then(|| paper(verdict, columns)), has_bound.then(|| bound(verdict))].into_iter().flatten();
        let shown = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |v| value(verdict, v));
        let interval = has_interval.then(|| shown(verdict.ci95));
        let measured = [shown(verdict.measured)].into_iter().chain(interval).chain([deviation(verdict)]);
        let run = several.then(|| settings_text(&run.set));
        grid.row([verdict_text(verdict, &mut causes)].into_iter().chain(run).chain(compared).chain(measured).collect());
    }
    let lines = grid.lines(columns.width());
    let mut text = format!("\nComparison with published results\n{}{}\n{}\n", of_overrides(runs), lines[0], lines[1]);
    for (i, ((heading, ..), line)) in all.iter().zip(&lines[2..]).enumerate() {
        if i == 0 || all[i - 1].0 != *heading {
            text += &format!("{}\n", columns.fit(heading, 2));
        }
        text += &format!("{line}\n");
    }
    if all.iter().any(|(_, _, v)| v.uncertain) {
        let uncertain =
            "~ the mean's 95 % interval (ci95) is wider than the tolerance, or spans a bound: more seeds may decide otherwise";
        text += &format!("{}\n", columns.fit(uncertain, 2));
    }
    causes.iter().enumerate().for_each(|(i, cause)| text += &format!("{}\n", columns.fit(&format!("[{}] {cause}", i + 1), 4)));
    text
}

/// The expectations with their headings, `SOURCE [METRIC]`, in the order in which these first occur: the runs of a figure stand together.
fn grouped(runs: &[RunSummary]) -> Vec<(String, &RunSummary, &Verdict)> {
    let verdicts = runs.iter().flat_map(|run| run.expect.iter().map(move |verdict| (run, verdict)));
    let mut all: Vec<_> = verdicts.map(|(run, v)| (format!("{} [{}]", v.source, metric_text(v)), run, v)).collect();
    let mut first: Vec<String> = Vec::new();
    for (heading, ..) in &all {
        if !first.contains(heading) {
            first.push(heading.clone());
        }
    }
    all.sort_by_key(|(heading, ..)| first.iter().position(|other| other == heading));
    all
}

/// The overrides for which the verdicts are "not comparable".
fn of_overrides(runs: &[RunSummary]) -> String {
    let mut overrides: Vec<&str> = Vec::new();
    for setting in runs.iter().flat_map(|run| &run.overrides) {
        if !overrides.contains(&setting.as_str()) {
            overrides.push(setting);
        }
    }
    if overrides.is_empty() {
        return String::new();
    }
    overrides
        .iter()
        .fold(format!("{NOT_COMPARABLE}, since these settings were overridden:\n"), |text, it| text + &format!("  {it}\n"))
}

fn verdict_text<'v>(verdict: &'v Verdict, causes: &mut Vec<&'v str>) -> String {
    let text = verdict_word(verdict, causes);
    if verdict.uncertain { format!("{text} ~") } else { text }
}

fn verdict_word<'v>(verdict: &'v Verdict, causes: &mut Vec<&'v str>) -> String {
    match (verdict.verdict, &verdict.cause) {
        (Status::NotComparable, _) => NOT_COMPARABLE.to_owned(),
        (Status::Untrusted, _) => UNTRUSTED.to_owned(),
        (Status::Ok, _) => "OK".to_owned(),
        (Status::Miss, None) => "MISS".to_owned(),
        (Status::KnownMiss, None) => "known".to_owned(),
        (Status::Miss | Status::KnownMiss, Some(cause)) => {
            let number = causes.iter().position(|c| c == cause).unwrap_or_else(|| {
                causes.push(cause);
                causes.len() - 1
            });
            let word = if verdict.verdict == Status::Miss { "MISS" } else { "known" };
            format!("{word} [{}]", number + 1)
        }
    }
}

fn metric_text(verdict: &Verdict) -> String {
    let label = words::label(&verdict.metric);
    match &verdict.over {
        None => label,
        Some(over) => format!("{label} / that of {}", settings_text(over)),
    }
}

/// The published value; its tolerance too where there is room.
fn paper(verdict: &Verdict, columns: Columns) -> String {
    match (verdict.paper, columns) {
        (Some(paper), Columns::Few) => value(verdict, paper),
        (Some(paper), Columns::All) => format!("{} ±{}", value(verdict, paper), verdict.within.replace('%', " %")),
        (None, _) => "-".to_owned(),
    }
}

/// The bounds, the paper's or our own.
fn bound(verdict: &Verdict) -> String {
    match (verdict.at_least, verdict.at_most) {
        (None, None) => "-".to_owned(),
        (Some(least), None) => format!(">= {}", value(verdict, least)),
        (None, Some(most)) => format!("<= {}", value(verdict, most)),
        (Some(least), Some(most)) => format!("{} to {}", value(verdict, least), value(verdict, most)),
    }
}

/// How far the measured value is from the published one, or beyond a bound.
fn deviation(verdict: &Verdict) -> String {
    let percent = |share: f64| match 100.0 * share {
        small if small.abs() < 0.05 => "0 %".to_owned(),
        negative if negative < 0.0 => format!("-{} %", digits(-negative)),
        positive => format!("+{} %", digits(positive)),
    };
    verdict.deviation().map_or_else(|| "-".to_owned(), percent)
}

fn value(verdict: &Verdict, value: f64) -> String {
    if verdict.over.is_some() { ratio(value) } else { show(&verdict.metric, value) }
}
