//! Runs, from start to end: prepare, execute, measure, compare, write.

use std::path::Path;

use crate::error::Result;
use crate::ideal::Ideals;
use crate::measure::{Measured, measure, measure_cost};
use crate::repeats::{OfSeed, Repeats};
use crate::results::{self, Folder};
use crate::scenario::Run;
use crate::schedule::{OnProgress, Parts, Schedule, first_and_others};
use crate::study::Study;
use crate::summary::{Completed, LabSummary, Summary};
use crate::trials;
use crate::wall::Stopwatch;
use crate::world::{Prepared, execute};

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
    if completed.iter().all(|one| one.repeats.are_equal()) {
        study.warn_equal_seeds();
    }
    study.warn_late_events(|index| completed[index].ended);
    let summary = Summary::compare(study, out, &completed);
    if let Some(folder) = folder {
        results::finish(folder, study, &summary, completed)?;
    }
    Ok(summary)
}

/// Prepares one run, after the search for its setting if it has one, and executes it with each of its seeds; the records of the first are
/// written.
fn run_one(
    study: &Study,
    index: usize,
    folder: Option<&Folder>,
    ideals: &Ideals,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Completed> {
    let (prepared, found) = trials::prepare(study, index, progress)?;
    let run = found.as_ref().map_or(&study.runs[index], |found| &found.run);
    let (clock, preparation_s) = (Stopwatch::start(), prepared.seconds);
    let parts = Parts::new(1 + run.scenario.world.other_seeds.len(), progress);
    let first =
        || run_seed(study, run, prepared, ideals, folder.map(|folder| (folder, index)), &mut |done| parts.update(0, done));
    let other = |number: usize| -> Result<Completed> {
        let run = run.with_seed(run.scenario.world.other_seeds[number], &study.source)?;
        run_seed(study, &run, study.prepare_run(&run)?, ideals, None, &mut |done| parts.update(1 + number, done))
    };
    let (first, others) = first_and_others(run.scenario.world.kind, first, run.scenario.world.other_seeds.len(), other)?;
    let seeds: Vec<u64> = run.scenario.world.seeds().collect();
    let ended = std::iter::once(&first).chain(&others).filter_map(|one| one.ended).max();
    let mut completed = Completed { found, ended, ..first };
    for other in &others {
        if let (Some(lab), Some(other)) = (&mut completed.lab, &other.lab) {
            lab.merge(other);
        }
    }
    take_notes(&mut completed, &others);
    let measured = std::iter::once(std::mem::take(&mut completed.repeats)).chain(others.into_iter().map(|one| one.repeats));
    completed.repeats =
        Repeats::of(seeds.into_iter().zip(measured).map(|(seed, one)| OfSeed { seed, metrics: one.mean }).collect());
    measure_cost(preparation_s + clock.seconds(), &mut completed.repeats.mean);
    Ok(completed)
}

/// The notes of a run are those of its first seed that has any. A scheduler that was idle with one seed was not studied.
fn take_notes(completed: &mut Completed, others: &[Completed]) {
    if completed.notes.is_empty() {
        completed.notes = others.iter().map(|one| one.notes.clone()).find(|notes| !notes.is_empty()).unwrap_or_default();
    }
    completed.idle_scheduler =
        completed.idle_scheduler.take().or_else(|| others.iter().find_map(|one| one.idle_scheduler.clone()));
    if let Some(report) = &mut completed.report {
        report.body.notes.clone_from(&completed.notes);
    }
}

/// Executes a run with its seed, measures it, and writes its records if there is a place for them.
fn run_seed(
    study: &Study,
    run: &Run,
    prepared: Prepared,
    ideals: &Ideals,
    to: Option<(&Folder, usize)>,
    progress: &mut dyn FnMut(f64),
) -> Result<Completed> {
    let executed = execute(prepared, &run.scenario, study.cores_per_run(), progress)?;
    let ideal = ideals.of(&executed, run, &mut || progress(1.0))?;
    let Measured { metrics: mean, notes, idle_scheduler } = measure(&executed, run, ideal.as_deref())?;
    progress(1.0);
    let lab = LabSummary::of(&executed, run);
    let write = |(folder, index)| results::write_run(folder, index, study, run, &executed, ideal.as_deref(), lab.as_ref());
    let report = to.map(write).transpose()?;
    let repeats = Repeats { mean, ..Repeats::default() };
    let ended = Some(executed.outcome.ended);
    Ok(Completed { repeats, report, lab, ended, notes, idle_scheduler, ..Completed::default() })
}
