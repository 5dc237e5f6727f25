//! NetLord: tenants with MAC and IP addresses of their own, over switches that know only switches.
//!
//! ```text
//!   VM -- VIF --> agent --outer Ethernet, VLAN, IPv4--> edge switch ~~~ fabric ~~~ edge switch --p.0.0.0/8--> agent -- VIF --> VM
//!                   |                                                                                          |
//!                   +-- where is (tenant, space, MAC)?  push: NL-ARP among agents | pull: the directory -------+
//! ```
//! What goes over the wire: [`wire::netlord`](crate::wire::netlord), specified in `docs/protocol-netlord.md`; the tenants' file and the agent's
//! rules: `docs/tenants.md`. Sections are those of the NetLord paper.

pub mod agent;
pub mod dhcp;
pub mod limits;
pub mod locations;
pub mod nl_arp;
pub mod paths;
pub mod pull;
pub mod sources;
pub mod spain;
pub mod tenants;
pub mod vlans;

use std::fmt;

use weft_fabric::{MacAddr, TenantId};

pub use crate::directory::MacSpace;

/// The tenant of the provider: agents among themselves (section 3.7).
pub const PROVIDER: TenantId = TenantId(1);
/// The tenant of the address space that all tenants share (section 3.2).
pub const PUBLIC: TenantId = TenantId(2);
/// The first id that a tenant can have.
pub const FIRST_TENANT: u32 = 3;
/// The greatest MAC space id: as an IPv4 source, 126.255.255.255. What is beyond, and 0, hosts and switches drop as martian.
pub const LAST_SPACE: u32 = 0x7eff_ffff;

/// A port of an edge switch to a server: 1 to 126 (section 3.5; hosts drop what is to 127/8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgePort(u8);

impl EdgePort {
    /// The last port.
    pub const LAST: u8 = 126;

    /// The port of this number, if it is one.
    pub const fn new(port: u16) -> Option<Self> {
        if port >= 1 && port <= Self::LAST as u16 { Some(Self(port as u8)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for EdgePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An interface of a server to the fabric, as the server numbers them. Each may lead to an edge switch of its own (section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UplinkId(pub u8);

/// Where a server is: its edge switch, and the port there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The edge switch.
    pub switch: MacAddr,
    /// Its port to the server.
    pub port: EdgePort,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.switch, self.port)
    }
}

/// A virtual interface of a tenant's VM (section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vif {
    /// Whose.
    pub tenant: TenantId,
    /// In which of its MAC spaces.
    pub space: MacSpace,
    /// Its address there.
    pub mac: MacAddr,
}

impl fmt::Display for Vif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant:{}/{}/{}", self.tenant.0, self.space.0, self.mac)
    }
}

/// Whether a MAC space has this id on the wire.
pub const fn is_space(space: MacSpace) -> bool {
    space.0 >= 1 && space.0 <= LAST_SPACE
}

/// Whether it is the address of one interface: not a group's, not zero.
pub const fn is_unicast(mac: MacAddr) -> bool {
    let [a, b, c, d, e, f] = mac.0;
    a & 1 == 0 && (a | b | c | d | e | f) != 0
}

/// The MAC address of an edge switch where nobody has chosen another: locally administered, with the switch's number, from 1, at the end.
pub const fn edge_mac(number: u32) -> MacAddr {
    let [_, a, b, c] = number.to_be_bytes();
    MacAddr([0x02, 0x4e, 0x4c, a, b, c])
}
