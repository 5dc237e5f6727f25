//! What user space reads and writes of the planes' tables.

use std::collections::BTreeSet;

use weft_control::netlord::{EdgePort, Location, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{MacAddr, TenantId};

/// A VIF that an earlier process left in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritedVif {
    /// Its interface.
    pub ifindex: u32,
    /// What it is.
    pub vif: Vif,
}

/// VIFs of this server, and remote ones with their places, that an earlier process left in the tables.
pub type Inherited = (Vec<InheritedVif>, Vec<(Vif, Location)>);

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its interface.
    pub device: String,
    /// Its number, if a server hangs on it.
    pub number: Option<EdgePort>,
    /// The VLANs that it carries with a tag.
    pub vlans: BTreeSet<VlanId>,
    /// The VLAN of what comes and leaves without a tag.
    pub native: Option<VlanId>,
    /// The server's MAC address, if it is known.
    pub server: Option<MacAddr>,
}

impl Port {
    /// Whether it has frames of a VLAN, tagged or not.
    pub fn is_in(&self, vlan: VlanId) -> bool {
        self.native == Some(vlan) || self.vlans.contains(&vlan)
    }
}

/// What the fabric does with a tenant's packets, by the tenant's bits of the outer destination (sections 4.1 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Drops them.
    Deny,
    /// Passes so many bytes a second, outer headers included, and so many at once.
    Rate {
        /// In the long run.
        bytes_per_second: u64,
        /// At once.
        burst_bytes: u64,
    },
}

/// What of a tenant a switch has passed at its last hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TenantTraffic {
    pub tenant: TenantId,
    pub packets: u64,
    pub bytes: u64,
    pub denied: u64,
    pub limited: u64,
}

/// A learned address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibEntry {
    /// Whose.
    pub mac: MacAddr,
    /// In which VLAN.
    pub vlan: u16,
    /// At which port's interface.
    pub ifindex: u32,
    /// When it was last heard of, by the kernel's monotonic clock.
    pub seen_ns: u64,
}
