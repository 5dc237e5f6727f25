//! The one contract between any scheduler and any world.
//!
//! ```text
//!              counters, topology changes            paths, weights, detours
//!   world  ------------- Input ------------>  Controller  ------ Output ----->  world
//!              handle(now, input)                         poll() until None
//!                                             deadline(): when to send Input::Timer
//! ```
//! The worlds differ in what they do with an [`Output`]: a simulator changes its model, a real network sends OpenFlow messages.

use crate::time::{Duration, Instant};
use weft_fabric::record::ControlRecord;
use weft_fabric::routing::{AccessPath, Direction, FlowKey, Path};
use weft_fabric::topology::Part;
use weft_fabric::{Bytes, HostId, LinkId};

/// A scheduler as a sans-I/O machine.
pub trait Controller: Send {
    /// Passes an input that happened at `now`. Time never goes back.
    fn handle(&mut self, now: Instant, input: Input<'_>);

    /// The next thing to do, in order; call until `None` after each `handle`.
    fn poll(&mut self) -> Option<Output>;

    /// When to call `handle` with [`Input::Timer`]; `None` if there is nothing to wait for.
    fn deadline(&self) -> Option<Instant>;

    /// What has been done so far.
    fn record(&self) -> ControlRecord;
}

/// An input of a controller.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The deadline has come.
    Timer,
    /// The answer to [`Output::ReadFlowCounters`]: every flow that the edge switches count, in ascending order of flow keys.
    /// A flow that is no longer listed has ended.
    FlowCounters(&'a [FlowCounter<'a>]),
    /// The answer to [`Output::ReadLinkCounters`].
    LinkCounters(LinkCounters<'a>),
    /// Another scheduler has placed this flow, and it takes this path, NIC to NIC: what a scheduler that takes over begins with. Comes once,
    /// before the flow is among the counters; if it ends before, [`Input::FlowRemoved`] follows.
    Placed(FlowKey, &'a [LinkId]),
    /// A flow has ended; its last counter (an OpenFlow flow-removed message has it too).
    FlowRemoved(FlowCounter<'a>),
    /// A part has failed.
    Failed(Part),
    /// A part works again.
    Restored(Part),
    /// Whether a host can take detours and forward for others: one that cannot has none, and none leads through it. Before the first word all can.
    Detours(HostId, bool),
}

/// An edge switch's counter of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounter<'a> {
    /// The flow.
    pub flow: FlowKey,
    /// Bytes since the flow began.
    pub bytes: Bytes,
    /// When the switch read the counter: rates are computed from this, not from the arrival of the answer.
    pub read_at: Instant,
    /// The links that it takes now, NIC to NIC; the last ones if it stands still, empty if it never had a path.
    pub path: &'a [LinkId],
}

/// The ports' counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCounters<'a> {
    /// By link: bytes that its sending port has sent since the start.
    pub bytes: &'a [Bytes],
    /// When they were read.
    pub read_at: Instant,
}

/// What a controller wants of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Read the counters of all flows at the edge switches.
    ReadFlowCounters,
    /// Read the counters of all ports.
    ReadLinkCounters,
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
    /// Flows that begin from now on leave (or reach) the host by these access paths; `None`: by its NICs again
    /// (see [`Router::set_access_paths`](weft_fabric::routing::Router::set_access_paths)).
    SetAccessPaths {
        /// The host.
        host: HostId,
        /// Whether it sends or receives.
        direction: Direction,
        /// Its access paths and their weights.
        paths: Option<Vec<AccessPath>>,
    },
    /// The flow leaves and arrives by these paths from now on, and is hashed between their ToRs
    /// (see [`Router::route_through`](weft_fabric::routing::Router::route_through)). If that is not possible it stays where it is.
    Rebind {
        /// The flow.
        flow: FlowKey,
        /// From its source to a ToR.
        leaving: Path,
        /// From a ToR to its destination.
        arriving: Path,
        /// The flow moves once it has sent nothing for so long, so that packets keep their order. A world without packets moves it at
        /// once: there is no order to keep.
        gap: Duration,
    },
}
