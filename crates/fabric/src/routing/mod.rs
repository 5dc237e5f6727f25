//! Which path a flow takes through a fabric.
//!
//! [`next_hops::NextHops`] holds the shortest paths; [`router::Router`] picks one for a flow as the switches would (single path, ECMP, VLB),
//! or lists those among which its packets choose (spray, flowlets);
//! [`access_paths`] describes how hosts with several NICs choose among theirs; [`roots::RootPaths`] names paths by the root that they cross, as a
//! central scheduler does; [`spain`] packs several paths into VLANs; [`trees`] finds trees that reach all switches;
//! [`optimal::splittable_fraction`] is the upper bound of all of them.

pub mod access_paths;
pub mod next_hops;
pub mod optimal;
pub mod roots;
pub mod router;
pub mod spain;
pub mod trees;

use smallvec::SmallVec;

use crate::ids::{HostId, LinkId};
use crate::rng::mix;

pub use access_paths::{AccessPath, Direction, subflow_nics};
pub use next_hops::NextHops;
pub use roots::{RootLabel, RootPaths};
pub use router::{Router, Routing, RoutingKind, Spread};

/// Directed links from the source's NIC to the destination's NIC. A three-tier fabric needs at most six, and two more for each
/// server that forwards on a detour.
pub type Path = SmallVec<[LinkId; 8]>;

/// A flow as switches see it: the five-tuple, with hosts for addresses; the protocol is TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

/// Which header fields switches hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashFields {
    /// Addresses, ports and protocol.
    #[default]
    FiveTuple,
    /// The destination address alone: the static hashing of the Hedera testbed (section 6.2).
    Dst,
}

impl FlowKey {
    /// The key of the `number`-th flow of a run: the ports together count flows, so keys are unique.
    pub const fn of_flow(number: u32, src: HostId, dst: HostId) -> Self {
        Self { src, dst, sport: (number >> 16) as u16, dport: number as u16 }
    }

    /// The key of what the receiver sends back.
    #[must_use]
    pub const fn reverse(self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport }
    }

    /// The key of a subflow of this flow; subflow 0 is the flow itself. Unique for up to 2^28 flows and 16 subflows.
    #[must_use]
    pub const fn subflow(&self, number: u32) -> Self {
        Self { sport: self.sport ^ (number << 12) as u16, ..*self }
    }

    /// The key as switches see it after so many re-hashes (VL2 section 4.2.2): other hashes, and so other paths. Without any it is the same.
    #[must_use]
    pub const fn salted(&self, salt: u32) -> Self {
        if salt == 0 {
            return *self;
        }
        let change = mix(salt as u64);
        Self { sport: self.sport ^ change as u16, dport: self.dport ^ (change >> 16) as u16, ..*self }
    }

    /// The fields that a switch hashes, in 64 well-mixed bits; a switch mixes its own seed in ([`router`]).
    #[inline]
    pub const fn entropy(&self, fields: HashFields) -> u64 {
        match fields {
            HashFields::FiveTuple => {
                let addresses = mix((self.src.0 as u64) << 32 | self.dst.0 as u64);
                mix(addresses ^ ((self.sport as u64) << 16 | self.dport as u64 | 6 << 32))
            }
            HashFields::Dst => mix(self.dst.0 as u64 ^ 0x5bd1_e995_0000_0000),
        }
    }
}
