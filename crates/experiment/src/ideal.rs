//! The best possible: the same flows on a non-blocking switch. Runs of a sweep that differ only in control share one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use weft_fabric::Fabric;
use weft_fabric::record::Outcome;
use weft_fabric::topology::shapes::ideal_of;

use crate::error::{KeyError, Result};
use crate::scenario::Run;
use crate::world;

type Slot = Arc<OnceLock<std::result::Result<Arc<Outcome>, String>>>;

/// Ideal runs by the part of the scenario that they depend on.
#[derive(Debug, Default)]
pub struct Ideals(Mutex<BTreeMap<String, Slot>>);

impl Ideals {
    /// The ideal run beside `run`, carried once; `None` if the scenario does not want it or the world does not know it. `look` hears
    /// now and then that it goes on.
    pub fn of(&self, fabric: &Arc<Fabric>, run: &Run, look: &mut dyn FnMut()) -> Result<Option<Arc<Outcome>>> {
        if !run.scenario.wants_ideal() {
            return Ok(None);
        }
        let slot = {
            let mut slots = self.0.lock().expect("no run panics while it holds this");
            Arc::clone(slots.entry(run.ideal_key()).or_default())
        };
        let outcome = slot.get_or_init(|| {
            let ideal = Arc::new(ideal_of(fabric));
            world::carry_ideal(fabric, &ideal, run, look).map(Arc::new).map_err(|e| e.to_string())
        });
        match outcome {
            Ok(outcome) => Ok(Some(Arc::clone(outcome))),
            Err(message) => Err(KeyError { key: "traffic".to_owned(), message: message.clone(), help: None }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Study;
    use crate::scenario::source::Overrides;

    /// Whoever waits can end a run while its ideal is carried: in the flow world and in that of packets.
    #[test]
    fn the_ideal_run_lets_look() {
        for world in ["rates = \"max-min\"", "kind = \"packet\""] {
            let text = format!(
                "[fabric]\nkind = \"fat-tree\"\nk = 4\n\
                 [traffic]\npattern = \"random\"\nsize = \"1MB\"\narrivals = \"poisson\"\nload = 0.5\n\
                 [world]\nduration = \"1s\"\nideal = true\n{world}\n"
            );
            let study = Study::from_table(text.parse().unwrap(), "".into(), &Overrides::default()).unwrap();
            let run = &study.runs[0];
            let fabric = Arc::new(run.scenario.fabric.build().unwrap());
            let (ideals, mut looks) = (Ideals::default(), 0);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ideals.of(&fabric, run, &mut || {
                    looks += 1;
                    if looks == 3 {
                        std::panic::resume_unwind(Box::new("enough"));
                    }
                })
            }));
            assert!(ended.is_err(), "{world}: {looks} looks");
            // The next who wants it carries it.
            assert!(ideals.of(&fabric, run, &mut || {}).unwrap().is_some());
        }
    }
}
