//! What comes into the agent's machine and what goes out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_fabric::{MacAddr, TenantId};

use super::super::MacSpace;
use super::super::tenants::Router;
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

/// A change of a data plane's maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// A VIF is on this server; `None`: not any more.
    Local {
        /// Which.
        vif: Vif,
        /// Its interface.
        id: Option<VifId>,
    },
    /// A VIF that is sent to is at this place; `None`: not known any more, frames to it go to the agent.
    Remote {
        /// Which.
        vif: Vif,
        /// Where.
        at: Option<Location>,
    },
    /// A VIF has this address. It holds as long as `Local` or `Remote` has the VIF.
    Neighbour {
        /// In whose,
        tenant: TenantId,
        /// and which MAC space.
        space: MacSpace,
        /// The address.
        ip: IpAddr,
        /// The VIF's MAC address.
        mac: MacAddr,
    },
    /// A tenant's virtual routers, in place of those before; none: it has none, or no VIF here any more.
    Routers {
        /// Whose.
        tenant: TenantId,
        /// All of them, with routes and rules in order.
        routers: Vec<Router>,
    },
    /// A virtual router has passed a packet on: others with the same of all this would go the same path, until something changes.
    Routed(RoutedFlow),
}

/// What a virtual router did with a packet, and what of the packet decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedFlow {
    /// From which VIF,
    pub id: VifId,
    /// to which MAC address of a router,
    pub router: MacAddr,
    /// from this address,
    pub source: IpAddr,
    /// to this one,
    pub destination: IpAddr,
    /// of this protocol
    pub protocol: u8,
    /// and to this port; 0 if the protocol has none.
    pub port: u16,
    /// Where it goes.
    pub to: Vif,
    /// The last router's MAC address there: the frame's source.
    pub from: MacAddr,
}
