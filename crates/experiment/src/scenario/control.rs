//! `[control]`: who picks the paths.

use weft_fabric::Duration;
use weft_fabric::routing::{HashFields, Routing, RoutingKind};

use crate::error::KeyError;
use crate::scenario::keys::Keys;

/// Who picks the paths, and how quickly failures are noticed.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// What switches do by themselves.
    pub routing: Routing,
    /// The central scheduler.
    pub scheduler: Scheduler,
    /// Time from one scheduling round to the next.
    pub period: Duration,
    /// From which rate a flow counts as large, as a fraction of its source's NIC.
    pub threshold: f64,
    /// Iterations of simulated annealing a round.
    pub iterations: u32,
    /// Annealing's `c` in units of the initial temperature; `None` takes the paper's (0.5 for 16 hosts, else 1000).
    pub annealing_c: Option<f64>,
    /// Whether demand estimation and placement of the first flows are timed.
    pub measure: bool,
    /// From a failure until routing avoids it.
    pub reconverge: Duration,
    /// From a repair until routing uses it again.
    pub restore_delay: Duration,
}

/// The central schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Nobody: the switches alone.
    None,
    /// Hedera section 4.3.
    FirstFit,
    /// Hedera section 4.4: a core a destination host.
    Annealing,
    /// The baseline of section 4.4: a core a flow.
    AnnealingPerFlow,
    /// Koenig colouring of the Clos of Closes.
    EdgeColoring,
}

const SCHEDULERS: &[(&str, Scheduler)] = &[
    ("none", Scheduler::None),
    ("first-fit", Scheduler::FirstFit),
    ("annealing", Scheduler::Annealing),
    ("annealing-per-flow", Scheduler::AnnealingPerFlow),
    ("edge-coloring", Scheduler::EdgeColoring),
];

const ROUTINGS: &[(&str, RoutingKind)] =
    &[("ecmp", RoutingKind::Ecmp), ("single-path", RoutingKind::SinglePath), ("vlb", RoutingKind::Vlb)];

const HASHES: &[(&str, HashFields)] = &[("5-tuple", HashFields::FiveTuple), ("dst", HashFields::Dst)];

impl Control {
    /// Reads `[control]`.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let control = Self {
            routing: Routing {
                kind: keys.word("routing", ROUTINGS, RoutingKind::Ecmp)?,
                hash: keys.word("hash", HASHES, HashFields::FiveTuple)?,
                polarised: keys.or("polarised", false)?,
            },
            scheduler: keys.word("scheduler", SCHEDULERS, Scheduler::None)?,
            period: keys.or("period", Duration::from_secs(5))?,
            threshold: keys.or("threshold", 0.1)?,
            iterations: keys.or("iterations", 1000)?,
            annealing_c: keys.opt("annealing_c")?,
            measure: keys.or("measure", false)?,
            reconverge: keys.or("reconverge", Duration::ZERO)?,
            restore_delay: keys.or("restore_delay", Duration::ZERO)?,
        };
        keys.done()?;
        if control.period == Duration::ZERO {
            return Err(keys.error("period", "the scheduler cannot run all the time", "write a period such as \"5s\""));
        }
        if !(control.threshold > 0.0 && control.threshold <= 1.0) {
            return Err(keys.error(
                "threshold",
                "a threshold is a fraction of the NIC",
                "write a number above 0 and at most 1, such as 0.1",
            ));
        }
        if control.measure && control.scheduler == Scheduler::None {
            return Err(keys.error("measure", "there is no scheduler to measure", "choose a `scheduler`"));
        }
        if control.iterations == 0 {
            return Err(keys.error(
                "iterations",
                "annealing that tries nothing leaves every flow where it was",
                "write 1 or more; 1000 is the paper's number",
            ));
        }
        if control.annealing_c.is_some_and(|c| c <= 0.0) {
            return Err(keys.error("annealing_c", "annealing's c must be positive", "leave it out for the paper's value"));
        }
        Ok(control)
    }
}
