//! What NetLord lays over a lab (NetLord section 3): switches that are bridges, SPAIN's VLANs, tenants' VMs behind the agents of their hosts.
//!
//! ```text
//!   acme-vm1        h0                          edge0 02:4e:4c:00:00:01          core0
//!   eth0 -------- vif1 | weft-agent | eth0 ---- p0 (port 1)   p2 --------------- p0
//!   10.0.0.1/24                                 bridge, last hop                 bridge
//!   globex-vm1 --- vif2
//!   10.0.0.1/24
//! ```
//! - **Switches** have no addresses and no routes: each is a learning bridge with VLANs. One with hosts has a MAC address of its own, and numbers its hosts' ports from 1.
//! - **Hosts** with several NICs have a place for each, and their agents spread VMs over them (section 3.7).
//! - **VLANs**: SPAIN's from 1, and from 4094 downwards trees that reach all hosts' ports.
//! - **VMs** are namespaces called TENANT-VIF, each with one VIF: `eth0`, whose other end is `vif1`, `vif2`, ... in the host's namespace. Their MTU leaves room for the
//!   encapsulation. They are nodes of the plan, after those of the fabric.

mod bridges;
mod provider;
mod reach;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use weft_control::netlord::PUBLIC;
use weft_control::netlord::tenants::{Tenant, Tenants, VifSpec};
use weft_control::wire::netlord::OVERHEAD;
use weft_fabric::Fabric;
use weft_fabric::routing::spain::{Plan as Spain, SpainConfig};

pub use provider::{Lease, Provider, ProviderSpec, Serving};
pub use reach::{Reach, Sent};

use super::{MTU_FABRIC, Net, Node, Plan, PlanError, Port, PortId, Role, Routing};

/// What is to be laid over a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSpec {
    /// The tenants' file.
    pub file: String,
    /// Where each tenant's VIFs are: on these hosts in turn.
    pub placements: Vec<Placement>,
    /// How paths are found.
    pub spain: SpainConfig,
    /// The switches' tables.
    pub fib: Fib,
    /// What the edge switches let tenants send.
    pub limits: Vec<TenantLimit>,
    /// What the switches without hosts are.
    pub core: CoreSwitch,
    /// The addresses of the hosts' agents in tenant 1; none: they have none.
    pub provider: Option<ProviderSpec>,
    /// From one of SPAIN's chirps to the next, in microseconds; none: what agents usually take.
    pub chirp_us: Option<u64>,
}

/// What the switches without hosts are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreSwitch {
    /// The bridge that the edge switches are, without their last hop.
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
    /// An address that was silent for so long is forgotten, in seconds.
    pub ageing_s: u64,
    /// Addresses that are learned a second; 0: as many as come.
    pub learn_per_second: u32,
}

/// What the edge switches let a tenant send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantLimit {
    /// Its id.
    pub tenant: u32,
    /// Bits a second, as text; none: nothing.
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
    /// What the edge switches let tenants send.
    pub limits: Vec<TenantLimit>,
    /// SPAIN's VLANs.
    pub vlans: usize,
    /// The VLANs that reach all agents.
    pub special: Vec<u16>,
    /// What the switches without hosts are.
    pub core: CoreSwitch,
    /// The agents' addresses in tenant 1, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// From one of SPAIN's chirps to the next, in microseconds; none: what agents usually take.
    pub chirp_us: Option<u64>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bridge {
    /// Index into [`Plan::nodes`].
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
    /// The VLANs that it carries, ascending.
    pub vlans: Vec<u16>,
    /// Its number, if a host hangs on it.
    pub number: Option<u8>,
    /// The VLAN of frames without a tag, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<u16>,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    /// Index into [`Plan::nodes`].
    pub node: usize,
    /// Its host, likewise.
    pub host: usize,
    /// The host's port to it.
    pub port: usize,
    /// The tenant's name.
    pub tenant: String,
    /// The VIF's name.
    pub vif: String,
    /// The tenant's id on the wire: that of the public space for VIFs in it.
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

impl Plan {
    /// The plan with NetLord laid over it: bridges in place of routers, and VMs.
    ///
    /// # Errors
    /// [`PlanError`] if the fabric cannot have it, or the tenants' file is wrong.
    pub fn with_tenants(mut self, fabric: &Fabric, spec: &TenantSpec) -> Result<Self, PlanError> {
        let tenants = Tenants::parse(&spec.file).map_err(|e| PlanError::Tenants(e.to_string()))?;
        let spain = Spain::new(fabric, &spec.spain).map_err(|e| PlanError::Tenants(e.to_string()))?;
        self.unroute();
        let switches = bridges::of(&self, fabric, &spain)?;
        let vms = self.place(&tenants, &spec.placements)?;
        self.routing = Routing::Static;
        self.tenants = Some(Netlord {
            file: spec.file.clone(),
            switches,
            vms,
            fib: spec.fib.clone(),
            limits: spec.limits.clone(),
            vlans: spain.vlans().len(),
            special: spain.trees().map(|(vlan, _)| vlan.0).collect(),
            core: spec.core,
            provider: None,
            chirp_us: spec.chirp_us,
        });
        match &spec.provider {
            Some(provider) => self.with_provider(provider),
            None => Ok(self),
        }
    }

    /// Switches know only switches, and hosts have no addresses.
    fn unroute(&mut self) {
        for node in &mut self.nodes {
            node.prefix = None;
            node.local.clear();
            node.fabric.clear();
            for port in &mut node.ports {
                port.address = None;
            }
        }
    }

    /// Makes the VMs' nodes.
    fn place(&mut self, tenants: &Tenants, placements: &[Placement]) -> Result<Vec<Vm>, PlanError> {
        let hosts: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.nodes[i].role == Role::Host).collect();
        let mut vms = Vec::new();
        for placement in placements {
            let missing = || PlanError::Tenants(format!("the tenants' file has no tenant `{}`", placement.tenant));
            let tenant = tenants.by_name(&placement.tenant).ok_or_else(missing)?;
            for (i, spec) in tenant.vifs.iter().enumerate() {
                let host = placement.hosts.get(i % placement.hosts.len().max(1));
                let host = host.and_then(|&h| hosts.get(h as usize)).ok_or_else(|| {
                    let last = hosts.len().saturating_sub(1);
                    PlanError::Tenants(format!("tenant `{}` is on hosts that are not there: they are 0 to {last}", tenant.name))
                })?;
                vms.push(self.add_vm(*host, tenant, spec)?);
            }
        }
        Ok(vms)
    }

    /// The plan as it is once a VM, by its number, has moved to a host, an index into [`Plan::nodes`]. The old host's port keeps its number, and nothing is plugged in there.
    pub(crate) fn move_vm(&mut self, which: usize, to: usize) {
        let Some(netlord) = &mut self.tenants else { return };
        let vm = &mut netlord.vms[which];
        let port = Port { name: vm.moving_device(), ..self.nodes[vm.host].ports[vm.port].clone() };
        (vm.host, vm.port) = (to, self.nodes[to].ports.len());
        self.nodes[to].ports.push(port);
        self.nodes[vm.node].ports[0].peer = PortId { node: to, port: vm.port };
    }

    fn add_vm(&mut self, host: usize, tenant: &Tenant, spec: &VifSpec) -> Result<Vm, PlanError> {
        let (name, node) = (format!("{}-{}", tenant.name, spec.name), self.nodes.len());
        if self.node(&name).is_some() {
            return Err(PlanError::Tenants(format!("two nodes would be called `{name}`: rename a VIF")));
        }
        let port = self.nodes[host].ports.len();
        let end = |name: String, peer: PortId| Port { name, address: None, peer, rate_bps: 0, burst_bytes: 0, queue_bytes: 0 };
        self.nodes[host].ports.push(end(format!("vif{port}"), PortId { node, port: 0 }));
        let v4 = spec.addresses.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
        let namespace = format!("{}{}", self.name.namespace_prefix(), name.replace('.', "_"));
        let hash_seed = self.nodes[host].hash_seed;
        self.nodes.push(Node {
            name,
            namespace,
            role: Role::Vm,
            locator: v4.unwrap_or(Ipv4Addr::UNSPECIFIED),
            prefix: None,
            hash_seed,
            ports: vec![end("eth0".to_owned(), PortId { node: host, port })],
            local: Vec::new(),
            fabric: Vec::new(),
            blocks: Vec::new(),
            anycast: Vec::new(),
        });
        let (addresses, gateways) = subnets(tenant, spec);
        Ok(Vm {
            node,
            host,
            port,
            tenant: tenant.name.clone(),
            vif: spec.name.clone(),
            id: spec.vif.tenant.0,
            space: spec.vif.space.0,
            mac: spec.vif.mac.to_string(),
            addresses,
            gateways,
        })
    }
}

impl Vm {
    /// What the host's end of its interface is called on a host that it has moved to.
    pub(crate) fn moving_device(&self) -> String {
        format!("mig{}", self.node)
    }
}

impl Netlord {
    /// VMs of each tenant of the scenario, which come one tenant after the other.
    pub fn tenant_sizes(&self) -> Vec<usize> {
        self.vms.chunk_by(|a, b| a.tenant == b.tenant).map(<[Vm]>::len).collect()
    }

    /// The switch that is a node.
    pub fn switch(&self, node: usize) -> Option<&Bridge> {
        self.switches.iter().find(|s| s.node == node)
    }

    /// The VMs of a host.
    pub fn of_host(&self, host: usize) -> impl Iterator<Item = &Vm> {
        self.vms.iter().filter(move |vm| vm.host == host)
    }

    /// Whether a switch is Open vSwitch.
    pub fn is_ovs(&self, node: usize) -> bool {
        self.core == CoreSwitch::Ovs && self.switch(node).is_some_and(|switch| switch.mac.is_none())
    }

    /// Whether two VMs are in one MAC space: they reach each other, whatever virtual routers' rules say.
    pub fn is_joined(&self, a: &Vm, b: &Vm) -> bool {
        (a.id, a.space) == (b.id, b.space)
    }

    /// Whether two VMs are different tenants'. VIFs in the public space are all of one.
    pub fn is_apart(&self, a: &Vm, b: &Vm) -> bool {
        a.id != b.id
    }
}

/// A VIF's addresses with the lengths that its virtual router's subnets have, and the router's addresses there.
fn subnets(tenant: &Tenant, spec: &VifSpec) -> (Vec<(IpAddr, u8)>, Vec<IpAddr>) {
    let interfaces = || tenant.routers.iter().flat_map(|router| &router.interfaces);
    let here = |ip: IpAddr| interfaces().find(|it| it.space == spec.vif.space && it.subnet.contains(ip));
    let is_public = spec.vif.tenant == PUBLIC;
    let length = |ip: IpAddr| here(ip).filter(|_| !is_public).map_or(if ip.is_ipv4() { 24 } else { 64 }, |it| it.subnet.length());
    let gateways: BTreeSet<IpAddr> =
        spec.addresses.iter().filter(|_| !is_public).filter_map(|&ip| here(ip).map(|it| it.address)).collect();
    (spec.addresses.iter().map(|&ip| (ip, length(ip))).collect(), gateways.into_iter().collect())
}

/// A tenants' file of so many tenants that are alike: each has the same MAC and IP addresses.
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

/// VIFs of a tenant among [`alike`] ones at the most: they are in one subnet.
pub const ALIKE_MOST: usize = 254;

/// The address of a VM that pings ask: its first of IPv4.
pub fn v4_of(vm: &Vm) -> Option<Ipv4Addr> {
    vm.addresses.iter().find_map(|(ip, _)| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None })
}

/// The prefix of an address of a VM, as `ip` writes it.
pub fn net_of((ip, length): (IpAddr, u8)) -> String {
    match ip {
        IpAddr::V4(address) => Net { address, len: length }.to_string(),
        IpAddr::V6(address) => format!("{address}/{length}"),
    }
}

#[cfg(test)]
mod tests;
