//! The one contract between any scheduler and any world.
//!
//! ```text
//!              counters, topology changes                paths
//!   world  ------------- Input ------------>  Controller  ------ Output ----->  world
//!              handle(now, input)                         poll() until None
//!                                             deadline(): when to send Input::Timer
//! ```
//! The worlds differ in what they do with an [`Output`]: a simulator changes its model, a real network sends OpenFlow messages.

use weft_fabric::record::ControlRecord;
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::Part;
use weft_fabric::{Bytes, Instant};

/// A scheduler as a sans-I/O machine.
pub trait Controller: Send {
    /// Tells the machine what happened at `now`. Time never goes back.
    fn handle(&mut self, now: Instant, input: Input<'_>);

    /// The next thing to do, in order; call until `None` after each `handle`.
    fn poll(&mut self) -> Option<Output>;

    /// When to call `handle` with [`Input::Timer`]; `None` if there is nothing to wait for.
    fn deadline(&self) -> Option<Instant>;

    /// What has been done so far.
    fn record(&self) -> ControlRecord;
}

/// What a world tells a controller.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The deadline has come.
    Timer,
    /// The answer to [`Output::ReadFlowCounters`]: every flow that the edge switches count, in ascending order of flow keys.
    /// A flow that is no longer listed has ended.
    FlowCounters(&'a [FlowCounter]),
    /// A flow has ended (an OpenFlow flow-removed message).
    FlowRemoved(FlowKey),
    /// A part has failed.
    Failed(Part),
    /// A part works again.
    Restored(Part),
}

/// An edge switch's counter of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounter {
    /// The flow.
    pub flow: FlowKey,
    /// Bytes since the flow began.
    pub bytes: Bytes,
    /// When the switch read the counter: rates are computed from this, not from the arrival of the answer.
    pub read_at: Instant,
}

/// What a controller wants of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Read the counters of all flows at the edge switches.
    ReadFlowCounters,
    /// Send the flow along this path from now on, NIC to NIC.
    SetPath {
        /// The flow.
        flow: FlowKey,
        /// Directed links.
        path: Path,
    },
    /// Leave the flow to the switches' own hashing again.
    ClearPath {
        /// The flow.
        flow: FlowKey,
    },
}
