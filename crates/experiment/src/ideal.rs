//! The upper bound: the same flows on a non-blocking switch. Runs of a sweep that differ only in control share one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use weft_fabric::record::Outcome;
use weft_fabric::topology::shapes::ideal_of;

use crate::error::{KeyError, Problem, Result};
use crate::scenario::Run;
use crate::world::flow::execute_ideal;
use crate::world::{Executed, Rest};

type Slot = Arc<OnceLock<std::result::Result<Arc<Outcome>, String>>>;

/// Ideal runs by the part of the scenario that they depend on.
#[derive(Debug, Default)]
pub struct Ideals(Mutex<BTreeMap<String, Slot>>);

impl Ideals {
    /// The ideal run of `run`, executed once; `None` if the scenario does not want it or the world does not know it. `on_progress` is
    /// called often while it is executed.
    ///
    /// # Errors
    /// Settings that the ideal run cannot have.
    pub fn of(&self, executed: &Executed, run: &Run, on_progress: &mut dyn FnMut()) -> Result<Option<Arc<Outcome>>> {
        let Executed { fabric, rest: Rest::Flows(flows, _), .. } = executed else { return Ok(None) };
        if !run.scenario.wants_ideal() {
            return Ok(None);
        }
        let slot = {
            let mut slots = self.0.lock().expect("no run panics while it holds this");
            Arc::clone(slots.entry(run.ideal_key()).or_default())
        };
        let outcome = slot.get_or_init(|| {
            let ideal = Arc::new(ideal_of(fabric));
            execute_ideal(fabric, &ideal, &run.scenario, flows, on_progress).map(Arc::new).map_err(|e| e.to_string())
        });
        match outcome {
            Ok(outcome) => Ok(Some(Arc::clone(outcome))),
            Err(message) => Err(KeyError::at("traffic", Problem::Rule { message: message.clone(), help: None }).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::source::Overrides;
    use crate::study::Study;
    use crate::world::execute;

    /// The caller can end a run while its ideal is executed, in the flow world and in the packet world.
    #[test]
    fn the_ideal_run_reports_progress() {
        for world in ["rates = \"max-min\"", "kind = \"packet\""] {
            let text = format!(
                "[fabric]\nkind = \"fat-tree\"\nk = 4\n\
                 [traffic]\npattern = \"random\"\nsize = \"1MB\"\narrivals = \"poisson\"\nload = 0.5\n\
                 [world]\nduration = \"1s\"\nideal = true\n{world}\n"
            );
            let study = Study::from_table(text.parse().unwrap(), "".into(), &Overrides::default()).unwrap();
            let run = &study.runs[0];
            let executed = execute(study.prepare(0).unwrap(), &run.scenario, 1, &mut |_| {}).unwrap();
            let (ideals, mut calls) = (Ideals::default(), 0);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ideals.of(&executed, run, &mut || {
                    calls += 1;
                    if calls == 3 {
                        std::panic::resume_unwind(Box::new("enough"));
                    }
                })
            }));
            assert!(ended.is_err(), "{world}: {calls} calls");
            // The next run that needs it executes it.
            assert!(ideals.of(&executed, run, &mut || {}).unwrap().is_some());
        }
    }
}
