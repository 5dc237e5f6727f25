//! What all simulated worlds share: the event loop around a model that carries flows over paths.
//!
//! ```text
//!   Workload --starts--> +-----------+ --paths--> +--------------------+
//!   Router   --paths---> |           |            |       model        |
//!   events   --parts---> | run loop  | <--ended-- | rates, or packets  |
//!                        +-----------+            +--------------------+
//!                          |  ^   counters, failures, ended flows
//!                          v  |   paths
//!                        Controller
//! ```
//! What happens at one instant happens in this order: flows end; parts fail or come back; routing learns of it; flows begin;
//! the controller's timer runs out; then the model settles. Within each of these, first in first out.

mod ledger;
mod limits;
mod model;
mod overlay;
mod run;
mod series;

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_fabric::routing::Router;
use weft_fabric::topology::{Fabric, Part};
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Instant};

pub(crate) use limits::Limits;
pub(crate) use model::{Ended, Look, Model};
pub use overlay::{Overlay, Services};
pub(crate) use run::{Pace, run};

/// All that a run needs besides its model.
pub(crate) struct Parts {
    pub fabric: Arc<Fabric>,
    pub router: Router,
    pub controller: Option<Box<dyn Controller>>,
    pub workload: Box<dyn Workload>,
    pub events: Vec<TimedEvent>,
    pub reconverge: Duration,
    pub restore_delay: Duration,
    pub link_samples: usize,
    pub overlay: Overlay,
}

/// Something that happens to a part of the fabric at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub change: Change,
}

/// What can happen to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails, and the switches beside it notice: the controller hears of it at once, routing after `reconverge`.
    Fail(Part),
    /// It fails and nobody notices: what it carried is lost, or stands still, until it is restored.
    FailSilent(Part),
    /// It works again: the controller hears of it at once, routing after `restore_delay`.
    Restore(Part),
}

/// Progress of a run; reported often enough that the caller can end a run promptly by unwinding, by events and not by a clock.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: Instant,
    /// When the run ends at the latest; [`Instant::MAX`] if only its flows end it.
    pub end: Instant,
    /// Flows under way.
    pub active: usize,
    /// Flows that have ended.
    pub ended: usize,
    /// Events so far.
    pub events: u64,
}
