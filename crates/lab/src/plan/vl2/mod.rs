//! VL2 in a plan (VL2 section 4.2): application addresses, outer source addresses, anycast addresses, services.
//!
//! ```text
//!   h0                              tor0                                     int0
//!   eth0 10.1.1.2/32                lo    10.1.1.1/32                        lo 10.0.0.1/32
//!   eth0 20.0.0.1/8, fd20::1/64     rack  100.64.0.0/22                      lo 100.127.0.1/32       its group's, as long as it serves it
//!   20.0.0.0/8 dev eth0 mtu 1560    100.64.1.0/24 via 10.1.1.2 dev p0
//!                                   unreachable 100.64.0.0/22
//! ```
//! - **AA.** Host h is 20.0.0.1 + h and fd20:: + 1 + h, on the NIC that has its locator. Switches have no route to them. A DHCP server may lease those of IPv4.
//! - **Outer sources.** A host fills the last byte of its own /24 with the flow's hash. The /24s of a rack are next to each other, so that the fabric learns one
//!   prefix of them; the first is left out, since the ToR has its first address, and a kernel drops what comes from its own.
//! - **Anycast.** A group's address stands on `lo` of those intermediate switches that serve it, and OSPF announces it. The plan has all alive; who serves it
//!   when some fail is the agents' business.

mod addresses;
mod layout;
mod moves;
mod reach;
mod scheduler;

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

pub use moves::Move;
pub use scheduler::AgentScheduler;

use super::directory::DirectoryServers;
use super::{MTU_FABRIC, Net};

/// VL2 as a scenario asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vl2Spec {
    /// The node that removes the last outer header.
    pub locator: LocatorKind,
    /// Next hops that switches can spread over.
    pub ecmp_width: u16,
    /// The services; hosts of none of them form a service of their own.
    pub services: Vec<ServiceSpec>,
    /// Hosts that are to be reached from outside, by index; none: there is no outside.
    pub external: Vec<u32>,
}

/// A service of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name.
    pub name: String,
    /// Its hosts, by index.
    pub hosts: Vec<u32>,
    /// The services whose hosts may resolve its addresses; `*`: all.
    pub allow: Vec<String>,
}

/// The node that removes the last outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocatorKind {
    /// The destination's ToR.
    Tor,
    /// The destination.
    Host,
}

/// VL2 in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vl2 {
    /// The node that removes the last outer header.
    pub locator: LocatorKind,
    /// Next hops that switches can spread over.
    pub ecmp_width: u16,
    /// The services, from id 1.
    pub services: Vec<Service>,
    /// The anycast addresses of the groups, from group 1.
    pub groups: Vec<Ipv4Addr>,
    /// The intermediate switches, as indices into [`Plan::nodes`](super::Plan::nodes).
    pub intermediates: Vec<usize>,
    /// By host, in the order of the plan.
    pub hosts: Vec<Vl2Host>,
    /// The directory servers.
    pub directory: DirectoryServers,
    /// Whether hosts lease their application addresses of IPv4 by DHCP (VL2 section 4.2.3); otherwise the lab configures them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dhcp: bool,
    /// Servers that will move, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// The scheduler of the agents, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<AgentScheduler>,
}

/// A service of an overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its number in the directory.
    pub id: u32,
    /// The services whose hosts may resolve its addresses.
    pub allow: Vec<String>,
}

/// A host's part of VL2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vl2Host {
    /// Index into [`Plan::nodes`](super::Plan::nodes).
    pub node: usize,
    /// Its ToR, likewise.
    pub tor: usize,
    /// The ToR's port to it.
    pub port: usize,
    /// Its application address of IPv4.
    pub aa4: Ipv4Addr,
    /// Its application address of IPv6.
    pub aa6: Ipv6Addr,
    /// Its outer sources.
    pub entropy: Net,
    /// Its service's number.
    pub service: u32,
    /// The group of intermediate switches through which it is reached; 0 without intermediate switches.
    pub group: u16,
}

impl Vl2Host {
    /// The MAC address of its NIC where a DHCP server knows hosts by it: locally administered, the node's number at the end.
    pub fn mac(&self) -> String {
        let [_, a, b, c] = (self.node as u32 + 1).to_be_bytes();
        format!("02:56:4c:{a:02x}:{b:02x}:{c:02x}")
    }
}

/// The prefix of application addresses of IPv4.
pub const AA4: &str = "20.0.0.0/8";
/// The prefix of application addresses of IPv6.
pub const AA6: &str = "fd20::/64";
/// Bytes of the largest packet between application addresses: two outer headers fit.
pub const MTU_OVERLAY: u32 = MTU_FABRIC - 40;
/// The service of hosts that belong to no other one.
pub const OTHERS: &str = "others";

impl Vl2 {
    /// The host of a node.
    pub fn host(&self, node: usize) -> Option<&Vl2Host> {
        self.hosts.iter().find(|h| h.node == node)
    }

    /// The node of the DHCP server, beside the first directory server; `None`: addresses are configured.
    pub fn dhcp_server(&self) -> Option<usize> {
        self.directory.hosts.first().copied().filter(|_| self.dhcp)
    }

    /// Whether hosts are attached to this node.
    pub fn is_tor(&self, node: usize) -> bool {
        self.hosts.iter().any(|h| h.tor == node)
    }
}

/// The address of the multicast rendezvous point: that before the first group's.
pub const RENDEZVOUS: Ipv4Addr = Ipv4Addr::from_bits(addresses::ANYCAST_BASE);
/// The multicast groups of services: 239.1.0.0 and the service's number.
pub const MULTICAST: &str = "239.1.0.0/16";

#[cfg(test)]
mod tests;
