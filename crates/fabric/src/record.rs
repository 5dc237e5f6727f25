//! What every world returns of a run, so that one report compares them.

use crate::ids::{FlowId, HostId, LinkId};
use crate::routing::Path;
use crate::time::Instant;
use crate::units::Bytes;

/// One flow. The order of the records is that of the ids.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRecord {
    /// Number of the flow from 0.
    pub id: FlowId,
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// When it wanted to begin.
    pub start: Instant,
    /// When its last byte was delivered; `None` if it did not finish.
    pub end: Option<Instant>,
    /// Bytes delivered.
    pub bytes: Bytes,
    /// Directed links from NIC to NIC; the last ones used if it was moved; empty if it never had a path.
    pub path: Path,
}

/// Bytes that a directed link carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// The link.
    pub id: LinkId,
    /// Bytes sent over it.
    pub bytes: Bytes,
}

/// The whole network at one instant. Between two samples the delivered bytes grow linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Bytes delivered to all hosts since the start.
    pub delivered: f64,
    /// Flows under way.
    pub active: u32,
    /// The most that the NICs of the active senders and receivers could carry until the next sample, in bits per second:
    /// the smaller of the two sums.
    pub nic_bound_bps: f64,
}

/// Mean utilisation of a link over a span of time; spans without traffic are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSample {
    /// End of the span.
    pub at: Instant,
    /// The link.
    pub link: LinkId,
    /// Fraction of the capacity.
    pub utilisation: f64,
}

/// All that a world says of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// By id.
    pub flows: Vec<FlowRecord>,
    /// By id, every link.
    pub links: Vec<LinkRecord>,
    /// By time, then link.
    pub link_series: Vec<LinkSample>,
    /// By time; the first is at 0 and the last at the end of the run.
    pub samples: Vec<Sample>,
    /// When the run ended: its duration, or the end of the last flow.
    pub ended: Instant,
    /// Events (max-min) or flow updates (AIMD) processed.
    pub events: u64,
    /// What the scheduler did, if there was one.
    pub control: ControlRecord,
}

/// What the scheduler did over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlRecord {
    /// Scheduling rounds.
    pub rounds: u64,
    /// Large flows seen, summed over the rounds.
    pub large_flows: u64,
    /// Changes of a flow's path.
    pub moves: u64,
    /// Detours from rack to rack that were in force, summed over the rounds.
    pub detours: u64,
}
