//! Subways on real packets: agents of hosts and ToRs below the controllers (section 5.2).
//!
//! ```text
//!   data plane --flows, NICs--> AccessHost --Report--> AccessNetwork --LinkCounters, FlowCounters, Failed--> Subways
//!              <--slots, moves--            <-Orders--               <--SetAccessPaths, Rebind--------------
//!   ports' counters of a ToR --> TorReporter --Report----^
//! ```
//! - `addresses`: who is who between a fabric and the addresses of its NICs.
//! - `host`: an agent's part. It gives the data plane the pairs of NICs from which new flows draw, moves flows, and reports them. Without a scheduler NICs count by their speed.
//! - `tor`: the part of a ToR's agent, which reports what its ports count.
//! - Detours (section 6): `host/detours` and `network/detours`.
//! - `network`: the scheduler's part. Agents as a world for a [`Controller`](crate::controller::Controller).
//!
//! A host is known by the address of its first NIC. Between two hosts, TCP's packets bear the addresses of the NICs that they leave and arrive by, and so choose both
//! ToRs (sections 4.3 and 5.1); each host gives its own programs the packets with first addresses.

mod addresses;
mod host;
mod network;
mod tor;

#[cfg(test)]
mod tests;

pub use addresses::{AccessAddresses, AddressesError};
pub use host::{AccessHost, FlowState, HostConfig, HostCounts, HostInput, HostOutput, SLOTS};
pub use network::{
    AccessNetwork, AccessRefusals, DetourStatus, Member, NetworkInput, NetworkOutput, NetworkSettings, NetworkStatus, TorLoad,
};
pub use tor::{TorConfig, TorReporter};

use crate::time::Duration;

/// From one report to the next before a scheduler says otherwise.
const EVERY: Duration = Duration::from_secs(1);
/// The least and the most that it may say.
const EVERY_MIN: Duration = Duration::from_ms(20);
/// See [`EVERY_MIN`].
const EVERY_MAX: Duration = Duration::from_secs(1);
