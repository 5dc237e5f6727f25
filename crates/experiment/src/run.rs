//! Runs, from start to end: prepare, execute, measure, compare, write.

use std::path::Path;

use crate::error::Result;
use crate::ideal::Ideals;
use crate::measure::{measure, measure_cost};
use crate::results::{self, Folder};
use crate::schedule::{OnProgress, Schedule};
use crate::study::Study;
use crate::summary::{Completed, LabSummary, Summary};
use crate::trials;
use crate::wall::Stopwatch;
use crate::world::execute;

/// Runs a study, as many of its runs at a time as the thread pool has threads, and writes the results folder if one is named.
///
/// # Errors
/// What is wrong with the scenario, or with the folder. Then nothing is written.
pub fn run(study: &Study, out: Option<&Path>, on_progress: OnProgress<'_>) -> Result<Summary> {
    let schedule = Schedule::of(study)?;
    let folder = out.map(|out| results::begin(study, out)).transpose()?;
    let ideals = Ideals::default();
    let completed = schedule.execute(on_progress, |index, progress| {
        run_one(study, index, folder.as_ref(), &ideals, progress).map_err(|e| study.source.at(e))
    })?;
    study.warn_late_events(|index| completed[index].ended);
    let summary = Summary::compare(study, out, &completed);
    if let Some(folder) = folder {
        results::finish(folder, study, &summary, completed)?;
    }
    Ok(summary)
}

/// Prepares one run, after the search for its setting if it has one, executes it, measures it, and writes its records.
fn run_one(
    study: &Study,
    index: usize,
    folder: Option<&Folder>,
    ideals: &Ideals,
    progress: &mut dyn FnMut(f64),
) -> Result<Completed> {
    let (prepared, found) = trials::prepare(study, index, progress)?;
    let run = found.as_ref().map_or(&study.runs[index], |found| &found.run);
    let (clock, preparation_s) = (Stopwatch::start(), prepared.seconds);
    let executed = execute(prepared, &run.scenario, study.cores_per_run(), progress)?;
    let ideal = ideals.of(&executed, run, &mut || progress(1.0))?;
    let mut metrics = measure(&executed, run, ideal.as_deref())?;
    progress(1.0);
    let lab = executed.outcome.lab.as_ref().map(|lab| LabSummary::of(lab, run));
    let write = |folder| results::write_run(folder, index, study, run, &executed, ideal.as_deref(), lab.as_ref());
    let report = folder.map(write).transpose()?;
    measure_cost(preparation_s + clock.seconds(), &mut metrics);
    Ok(Completed { metrics, report, lab, skipped: None, found, ended: Some(executed.outcome.ended) })
}
