//! What comes into the agent's machine and what goes out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_fabric::MacAddr;

use super::maps::MapChange;
use super::{Location, Reached, Tenants, UplinkId, Vif, VifId};
use crate::wire::packet::ethernet::VlanId;

/// What happens to an agent.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The tenants, from now on; ignored if older than what is known.
    Configure(Arc<Tenants>),
    /// An interface to the fabric is up, with this MAC address and MTU; `None`: it is down.
    Uplink {
        /// Which.
        uplink: UplinkId,
        /// Its address and MTU.
        up: Option<(MacAddr, u16)>,
    },
    /// A VIF starts on this server.
    Attach {
        /// Its number.
        id: VifId,
        /// What it is.
        vif: Vif,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// A VIF has stopped.
    Detach(VifId),
    /// A VM has sent a frame.
    FromVif {
        /// By which VIF.
        id: VifId,
        /// Its bytes, from the Ethernet header.
        frame: &'a [u8],
    },
    /// A frame came from the fabric.
    FromFabric {
        /// By which interface.
        uplink: UplinkId,
        /// Its bytes.
        frame: &'a [u8],
    },
    /// The data plane has a remote VIF in its maps since before this agent was started.
    Adopt {
        /// Which.
        vif: Vif,
        /// Where it is.
        at: Location,
    },
    /// The directory servers, from now on.
    Servers(&'a [SocketAddr]),
    /// The VLANs from an interface to an edge switch from now on, that of the shortest path first; none: there is no path.
    Paths {
        /// From which interface, to which edge switch.
        to: Reached,
        /// By which VLANs.
        vlans: &'a [VlanId],
    },
    /// The data plane has sent a frame whose VLAN it chose by itself.
    PathUsed {
        /// By which interface.
        uplink: UplinkId,
        /// To where.
        to: Location,
        /// By which VLAN.
        vlan: VlanId,
    },
    /// A frame has come that the data plane has delivered by itself: its VLAN works.
    PathHeard {
        /// To which interface.
        uplink: UplinkId,
        /// From where.
        from: Location,
        /// By which VLAN.
        vlan: VlanId,
    },
    /// A datagram came from a directory server.
    Datagram {
        /// Of which.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The deadline has come.
    Timer,
}

/// What an agent wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Hand a frame to a VM.
    ToVif {
        /// By which VIF.
        id: VifId,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// Send a frame to the fabric.
    ToFabric {
        /// By which interface.
        uplink: UplinkId,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// Send a datagram to a directory server.
    Datagram {
        /// Which.
        to: SocketAddr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The place of an interface on its edge switch is known, or not any more: the address in tenant 1 can be had, or must be acquired again.
    Located {
        /// Which.
        uplink: UplinkId,
        /// Its place.
        at: Option<Location>,
    },
    /// The VLANs that flows from an interface to an edge switch choose among have changed: for a data plane that chooses by itself.
    Paths {
        /// From which interface, to which edge switch.
        to: Reached,
        /// By which VLANs; none: there is no path.
        vlans: Vec<VlanId>,
    },
    /// A data plane that decides by maps is to change them.
    Map(MapChange),
}
