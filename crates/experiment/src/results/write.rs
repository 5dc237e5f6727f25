//! The files of a run, and those of a study.

use std::path::Path;

use weft_fabric::record::Outcome;

use super::folder::Folder;
use super::provenance::{write_provenance, write_scenarios};
use super::tables::write_tables;
use crate::error::Result;
use crate::expect::Verdict;
use crate::metrics;
use crate::report::{self, Expectation, RunInput, RunReport};
use crate::scenario::Run;
use crate::study::Study;
use crate::summary::{Completed, LabSummary, Summary};
use crate::world::Executed;

/// Begins the results folder of a study, with the resolved scenario in it.
///
/// # Errors
/// A folder that is not ours, or cannot be written.
pub fn begin(study: &Study, out: &Path) -> Result<Folder> {
    let folder = Folder::prepare(out, study.runs.len())?;
    write_scenarios(&folder, study)?;
    Ok(folder)
}

/// Writes what is known only at the end of all runs, and puts the folder in its place.
///
/// # Errors
/// Files that cannot be written.
pub fn finish(folder: Folder, study: &Study, summary: &Summary, completed: Vec<Completed>) -> Result<()> {
    write_summary(&folder, summary, completed.into_iter().map(|c| c.report))?;
    write_provenance(&folder, study, summary)?;
    folder.publish()
}

/// Writes the tables of a run, and reduces it to its part of the page; `ideal` is the same workload on a non-blocking switch.
///
/// # Errors
/// Files that cannot be written.
pub fn write_run(
    folder: &Folder,
    index: usize,
    study: &Study,
    run: &Run,
    executed: &Executed,
    ideal: Option<&Outcome>,
    lab: Option<&LabSummary>,
) -> Result<RunReport> {
    let Executed { fabric, outcome, .. } = executed;
    write_tables(&folder.of_run(index)?, fabric, outcome, run.scenario.traffic.services())?;
    Ok(report::collect(RunInput {
        name: folder.name_of_run(index),
        set: run.variant.set.clone(),
        seed: run.scenario.world.seed,
        other_seeds: run.scenario.world.other_seeds.clone(),
        metrics: &[],
        expect: &[],
        fabric,
        outcome,
        ideal,
        optimum_bps: None,
        distrust: lab.map_or_else(Vec::new, |lab| lab.distrust.clone()),
        overrides: study.source.incomparable_settings(),
        events: run.scenario.events.iter().map(Into::into).collect(),
    }))
}

/// Writes `summary.json` of the study and of each run, and the page.
fn write_summary(folder: &Folder, summary: &Summary, reports: impl Iterator<Item = Option<RunReport>>) -> Result<()> {
    let json = |s: &Summary| serde_json::to_string_pretty(s).expect("a summary is JSON") + "\n";
    if summary.runs.len() > 1 {
        for (i, run) in summary.runs.iter().enumerate() {
            let one = Summary { runs: vec![run.clone()], ..summary.clone() };
            folder.write(&format!("{}/summary.json", folder.name_of_run(i)), &json(&one))?;
        }
    }
    folder.write("summary.json", &json(summary))?;
    let repeats = |name: &str| !metrics::WALL_CLOCK.contains(&name);
    let judged = reports.zip(&summary.runs).filter_map(|(report, run)| {
        let mut report = report?;
        let metrics: Vec<(String, f64)> =
            run.metrics.iter().filter(|(name, _)| repeats(name)).map(|(name, value)| (name.to_owned(), value)).collect();
        let expect: Vec<Expectation> = run.expect.iter().filter(|v| repeats(&v.metric)).map(Expectation::from).collect();
        report.judge(&metrics, &expect);
        Some(report)
    });
    folder.write("report.html", &report::render(&summary.title, &judged.collect::<Vec<_>>()))
}

impl From<&Verdict> for Expectation {
    fn from(v: &Verdict) -> Self {
        Self {
            source: v.source.clone(),
            metric: v.metric.clone(),
            kind: v.kind,
            paper: v.paper,
            at_least: v.at_least,
            at_most: v.at_most,
            measured: v.measured,
            ci95: v.ci95,
            within: v.within.clone(),
            ok: v.ok,
            known: v.cause.clone().filter(|_| v.known),
        }
    }
}
