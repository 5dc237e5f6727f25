//! The order of a study's runs: simulations in parallel, then labs one after another. Reports their progress.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::error::Result;
use crate::scenario::world::Kind;
use crate::study::Study;
use crate::summary::Completed;
use crate::world::lab;

/// Receives the progress of runs, from several threads: the run's number and the fraction of it that is done, which never decreases. It is
/// called often and may unwind to end the run: what was written is then removed.
pub type OnProgress<'a> = &'a (dyn Fn(usize, f64) + Sync);

/// Which runs of a study run when.
#[derive(Debug)]
pub struct Schedule {
    simulated: Vec<usize>,
    labs: Vec<usize>,
    /// Why labs are skipped, if they are.
    without_lab: Option<String>,
}

impl Schedule {
    /// Orders the runs of a study. Where no lab can come up, labs are skipped if there are simulations besides.
    ///
    /// # Errors
    /// Labs alone where none can come up.
    pub fn of(study: &Study) -> Result<Self> {
        let is_lab = |i: &usize| study.runs[*i].scenario.world.kind == Kind::Lab;
        let (labs, simulated): (Vec<usize>, Vec<usize>) = (0..study.runs.len()).partition(is_lab);
        let mut without_lab = study.without_lab.clone();
        if without_lab.is_none() && !simulated.is_empty() {
            without_lab = lab::unavailable();
        }
        if !labs.is_empty() && without_lab.is_none() {
            lab::need()?;
        }
        Ok(Self { simulated, labs, without_lab })
    }

    /// Calls `one` for every run that is not skipped, with its number and what receives its progress. The result is in the order of the
    /// study.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn execute(
        self,
        on_progress: OnProgress<'_>,
        one: impl Fn(usize, &(dyn Fn(f64) + Sync)) -> Result<Completed> + Sync,
    ) -> Result<Vec<Completed>> {
        let numbered = |i: usize| {
            let done = Mutex::new(0.0f64);
            let completed = one(i, &|fraction| {
                let done = {
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    *done = done.max(fraction.min(NEARLY));
                    *done
                };
                on_progress(i, done);
            })?;
            on_progress(i, 1.0);
            Ok((i, completed))
        };
        let mut completed = self.simulated.into_par_iter().map(numbered).collect::<Result<Vec<_>>>()?;
        // A lab has the machine for itself.
        for i in self.labs {
            completed.push(match &self.without_lab {
                Some(reason) => (i, Completed { skipped: Some(reason.clone()), ..Completed::default() }),
                None => numbered(i)?,
            });
        }
        completed.sort_by_key(|(i, _)| *i);
        Ok(completed.into_iter().map(|(_, completed)| completed).collect())
    }
}

/// The first of several repeats of a run, and so many others: in parallel, but one after another in the lab.
///
/// # Errors
/// The first error of a repeat.
pub fn first_and_others<T: Send>(
    world: Kind,
    first: impl FnOnce() -> Result<T> + Send,
    others: usize,
    other: impl Fn(usize) -> Result<T> + Sync,
) -> Result<(T, Vec<T>)> {
    if world == Kind::Lab {
        return Ok((first()?, (0..others).map(other).collect::<Result<_>>()?));
    }
    let (first, others) = rayon::join(first, || (0..others).into_par_iter().map(&other).collect::<Result<_>>());
    Ok((first?, others?))
}

/// The progress of a run in equal parts, which several threads report.
pub struct Parts<'a> {
    done: Mutex<Vec<f64>>,
    on_progress: &'a (dyn Fn(f64) + Sync),
}

impl<'a> Parts<'a> {
    /// So many parts, none of which has begun.
    pub fn new(parts: usize, on_progress: &'a (dyn Fn(f64) + Sync)) -> Self {
        Self { done: Mutex::new(vec![0.0; parts]), on_progress }
    }

    /// So much of a part is done.
    pub fn update(&self, part: usize, fraction: f64) {
        let all = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done[part] = fraction;
            done.iter().sum::<f64>() / done.len() as f64
        };
        (self.on_progress)(all);
    }
}

/// The progress of a run that has been executed, but not yet measured and written.
const NEARLY: f64 = 0.99;
