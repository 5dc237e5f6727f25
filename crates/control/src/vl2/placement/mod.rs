//! Large flows over intermediate switches that a scheduler chooses: Hedera (section 3) over VL2's agents, on switches that know no OpenFlow.
//!
//! ```text
//!   data plane --elephant, counts--> host --Report--> network --FlowCounters, Failed--> Controller
//!              <--place, remove-----      <-Orders---         <--SetPath, ClearPath----
//! ```
//! - `host`: an agent's part. Reports its elephants and obeys the scheduler that started last; without one, flows stay as they are and new ones take
//!   the anycast addresses.
//! - `network`: the scheduler's part. The agents of a fabric as a world for a [`Controller`](crate::controller::Controller).
//! - `identities`: who is who between a fabric, its agents and its intermediate switches.
//!
//! On a fat-tree the switch at a path's top fixes the path; where several shortest paths lead to it, a hash decides the rest, and a path is
//! given an entropy value of its own.

mod host;
mod identities;
mod network;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

pub use host::{HostConfig, HostCounts, HostInput, HostOutput, LoopLengths, PlacementHost, SentBytes};
pub use identities::{AgentHost, AgentIdentities, AgentIdentityError};
pub use network::{AgentNetwork, AgentRefusals, NetworkInput, NetworkOutput, NetworkSettings, NetworkStatus};

/// The scheduler's choice for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The own locator of an intermediate switch, in place of an anycast address.
    pub intermediate: Ipv4Addr,
    /// In place of the flow's hash; 0: the flow's.
    pub entropy: u32,
}
