//! The order of a study's runs: simulations in parallel, then labs one after another. Reports their progress.

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
        one: impl Fn(usize, &mut dyn FnMut(f64)) -> Result<Completed> + Sync,
    ) -> Result<Vec<Completed>> {
        let numbered = |i: usize| {
            let mut done = 0.0f64;
            let completed = one(i, &mut |fraction| {
                done = done.max(fraction.min(NEARLY));
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

/// The progress of a run that has been executed, but not yet measured and written.
const NEARLY: f64 = 0.99;
