//! NetLord in a plan (NetLord section 3): switches that are bridges, SPAIN's VLANs, tenants' VMs behind the agents of their hosts.
//!
//! ```text
//!   acme-vm1        h0                          edge0 02:4e:4c:00:00:01          core0
//!   eth0 -------- vif1 | weft-agent | eth0 ---- p0 (port 1)   p2 --------------- p0
//!   10.0.0.1/24                                 bridge, last hop                 bridge
//!   globex-vm1 --- vif2
//!   10.0.0.1/24
//! ```
//! - **Switches** have no addresses and no routes: each is a learning bridge with VLANs. One with hosts has a MAC address of its own, and numbers its hosts' ports from 1.
//! - **Hosts** with several NICs have a location for each, and their agents spread VMs over them (section 3.7).
//! - **VLANs**: SPAIN's from 1, and from 4094 downwards trees that reach all hosts' ports.
//! - **VMs** are namespaces called TENANT-VIF, each with one VIF: `eth0`, whose other end is `vif1`, `vif2`, ... in the host's namespace. Their MTU leaves room for the
//!   encapsulation. They are nodes of the plan, after those of the fabric.

mod bridges;
mod layout;
mod moves;
mod provider;
mod reach;

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use weft_control::wire::netlord::OVERHEAD;
use weft_fabric::routing::spain::SpainConfig;

pub use provider::{Lease, Provider, ProviderSpec};
pub use reach::{Exchange, Reach};

use super::{MTU_FABRIC, Net};

/// NetLord as a scenario asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetlordSpec {
    /// The tenants' file.
    pub file: String,
    /// The hosts of each tenant, on which its VIFs are placed in turn.
    pub placements: Vec<Placement>,
    /// How SPAIN's paths are found.
    pub spain: SpainConfig,
    /// The switches' tables.
    pub fib: Fib,
    /// Rate limits of tenants at the edge switches.
    pub limits: Vec<TenantLimit>,
    /// The kind of the switches without hosts.
    pub core: CoreSwitch,
    /// The addresses of the hosts' agents in tenant 1, if they are to have any.
    pub provider: Option<ProviderSpec>,
    /// The interval of SPAIN's chirps, in microseconds; `None`: the agents' default.
    pub chirp_us: Option<u64>,
}

/// The kind of the switches without hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreSwitch {
    /// The bridge of the edge switches, without NetLord's last hop.
    #[default]
    Ebpf,
    /// Open vSwitch.
    Ovs,
}

/// A tenant's hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its name.
    pub tenant: String,
    /// By index.
    pub hosts: Vec<u32>,
}

/// A switch's table of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fib {
    /// Addresses that it holds.
    pub entries: u32,
    /// The age at which an address is removed, in seconds since it was last seen.
    pub ageing_s: u64,
    /// Addresses learned per second, at most; 0: no limit.
    pub learn_per_second: u32,
}

/// A tenant's rate limit at the edge switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantLimit {
    /// Its id.
    pub tenant: u32,
    /// The rate, such as `5Mbps`; `None`: it may send nothing.
    pub rate: Option<String>,
}

/// NetLord in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Netlord {
    /// The tenants' file.
    pub file: String,
    /// By switch of the plan.
    pub switches: Vec<Bridge>,
    /// The VMs.
    pub vms: Vec<Vm>,
    /// The switches' tables.
    pub fib: Fib,
    /// Rate limits of tenants at the edge switches.
    pub limits: Vec<TenantLimit>,
    /// SPAIN's VLANs.
    pub vlans: usize,
    /// The VLANs that reach all agents.
    pub special: Vec<u16>,
    /// The kind of the switches without hosts.
    pub core: CoreSwitch,
    /// The agents' addresses in tenant 1, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The interval of SPAIN's chirps, in microseconds; `None`: the agents' default.
    pub chirp_us: Option<u64>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bridge {
    /// Index into [`Plan::nodes`](super::Plan::nodes).
    pub node: usize,
    /// Its MAC address, if it has hosts.
    pub mac: Option<String>,
    /// In the order of the node's ports.
    pub ports: Vec<BridgePort>,
    /// The VLANs to each other switch that has hosts, by that one's MAC address.
    pub paths: Vec<(String, Vec<u16>)>,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BridgePort {
    /// Its VLANs, ascending.
    pub vlans: Vec<u16>,
    /// Its number, if it leads to a host.
    pub number: Option<u8>,
    /// The VLAN of untagged frames, if it accepts any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<u16>,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    /// Index into [`Plan::nodes`](super::Plan::nodes).
    pub node: usize,
    /// Its host, likewise.
    pub host: usize,
    /// The host's port to it.
    pub port: usize,
    /// The tenant's name.
    pub tenant: String,
    /// The VIF's name.
    pub vif: String,
    /// The tenant's id on the wire; for VIFs in the public space that of the public space.
    pub id: u32,
    /// Its MAC space.
    pub space: u32,
    /// Its MAC address.
    pub mac: String,
    /// Its addresses with their prefixes' lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The virtual routers' addresses in its subnets.
    pub gateways: Vec<IpAddr>,
}

/// Bytes of the largest packet that a VM sends.
pub const MTU_VM: u32 = MTU_FABRIC - OVERHEAD as u32;

impl Netlord {
    /// The number of VMs of each tenant, in the order of `vms`.
    pub fn tenant_sizes(&self) -> Vec<usize> {
        self.vms.chunk_by(|a, b| a.tenant == b.tenant).map(<[Vm]>::len).collect()
    }

    /// The switch that is a node.
    pub fn switch(&self, node: usize) -> Option<&Bridge> {
        self.switches.iter().find(|s| s.node == node)
    }

    /// A VM by its tenant's and its VIF's name.
    pub fn vm(&self, tenant: &str, vif: &str) -> Option<&Vm> {
        self.vms.iter().find(|vm| vm.tenant == tenant && vm.vif == vif)
    }

    /// The VMs of a host.
    pub fn of_host(&self, host: usize) -> impl Iterator<Item = &Vm> {
        self.vms.iter().filter(move |vm| vm.host == host)
    }

    /// Whether a switch is Open vSwitch.
    pub fn is_ovs(&self, node: usize) -> bool {
        self.core == CoreSwitch::Ovs && self.switch(node).is_some_and(|switch| switch.mac.is_none())
    }
}

/// A tenants' file of tenants with the same MAC and IP addresses: of each the id, the name and the number of VIFs.
pub fn alike(tenants: &[(u32, String, usize)]) -> String {
    let mut text = "version = 1\n".to_owned();
    for (id, name, vifs) in tenants {
        text += &format!("\n[[tenant]]\nid = {id}\nname = \"{name}\"\n");
        for n in 1..=*vifs {
            let (high, low) = (n / 256, n % 256);
            text += &format!(
                "[[vif]]\ntenant = \"{name}\"\nname = \"vm{n}\"\nmac = \"02:00:00:00:{high:02x}:{low:02x}\"\naddresses = [\"10.0.{high}.{low}\", \"fd00::{n:x}\"]\n"
            );
        }
    }
    text
}

/// VIFs of a tenant of [`alike`], at most: they are in one subnet.
pub const ALIKE_MAX: usize = 254;

/// The address at which probes reach a VM: its first of IPv4.
pub fn v4_of(vm: &Vm) -> Option<Ipv4Addr> {
    vm.addresses.iter().find_map(|(ip, _)| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None })
}

/// An address of a VM with its prefix length, in the notation of `ip`.
pub fn net_of((ip, length): (IpAddr, u8)) -> String {
    match ip {
        IpAddr::V4(address) => Net { address, len: length }.to_string(),
        IpAddr::V6(address) => format!("{address}/{length}"),
    }
}

#[cfg(test)]
mod tests;
