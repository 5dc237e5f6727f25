//! What a lab consists of, told from a fabric alone: no root, no kernel, no clock.
//!
//! ```text
//!   h0                                   pod0-edge0                             pod0-agg0
//!   lo                                   lo 10.1.1.1/32                         lo 10.1.0.1/32
//!   eth0 10.1.1.2/32 ----- p0            p2 172.16.0.0/31 ------- p0 172.16.0.1/31
//!   default via 10.1.1.1, mtu 1500       10.1.1.2 dev p0                        10.1.1.0/24 via 172.16.0.0
//!                                        unreachable 10.1.1.0/24
//!                                        10.1.2.0/24 via 172.16.0.1 or 172.16.0.3
//! ```
//! - A switch has its locator on `lo`; one with hosts leads a prefix, of which the fabric learns one route, and knows each of its hosts.
//!   There is no broadcast domain: what a host sends is routed by its ToR, to its neighbours too, as locators are.
//! - Links between switches are numbered (172.16.0.0/13, a /31 each), and ICMP errors come from the port that a packet came in by. So
//!   a traceroute tells cables, not only switches.
//! - All devices carry [`MTU_FABRIC`] bytes; a host's routes say [`MTU_HOST`]. What is put into a tunnel at the host fits.
//! - A host with several NICs has a locator for each, below the switch that it leads to, and leaves by the NIC whose locator it sends
//!   from (Subways section 4.3). Its switches' own locators are then 172.24.0.0/13.

mod addresses;
mod name;
pub mod outside;
pub mod overlay;
mod routes;
pub mod tenants;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_fabric::addressing::AddressError;
use weft_fabric::rng::{self, Stream};
use weft_fabric::{BitsPerSec, Bytes, Fabric, LinkId, NodeId};

pub use addresses::Net;
pub use name::{LabName, NAMESPACE_PREFIX, NameError};

use addresses::Addresses;

/// Bytes of the largest packet that a link carries.
pub const MTU_FABRIC: u32 = 1600;
/// Bytes of the largest packet that a host sends by its routes: what remains for headers is for tunnels.
pub const MTU_HOST: u32 = 1500;
/// The slowest link that is shaped: below it one full packet takes an eighth of a second.
pub const RATE_MIN: BitsPerSec = BitsPerSec(100_000);

/// Next hops of a route at the most: FRR takes no more.
pub const ECMP_WIDTH: usize = 64;

/// How the TCP of hosts is controlled.
pub const CONGESTION_CONTROL: &str = "cubic";

/// What a lab is to be, besides its fabric.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What distinguishes its namespaces from those of other labs.
    pub name: LabName,
    /// Who finds the routes.
    pub routing: Routing,
    /// How soon OSPF notices.
    pub timers: Timers,
    /// What rates of links are multiplied with.
    pub scale: f64,
    /// Seed of the hash seeds.
    pub seed: u64,
    /// Bytes that wait at a port of a switch at the most.
    pub switch_queue: Bytes,
    /// The same at a host's NIC.
    pub nic_queue: Bytes,
}

/// Who finds the routes between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// The plan: kernel routes that nobody changes. A port without carrier is passed over.
    Static,
    /// FRR: OSPF with BFD.
    Frr,
}

/// OSPF's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// From one hello to the next, in seconds.
    pub hello_s: u16,
    /// A neighbour that has said nothing for so long is dead, in seconds.
    pub dead_s: u16,
    /// Whether BFD watches every neighbour too.
    pub bfd: bool,
    /// Whether a link counts as a broadcast network, as OSPF takes Ethernet for: who has come up waits for the dead interval before it
    /// chooses a designated router, and routes avoid the link meanwhile.
    pub broadcast: bool,
    /// Whether routes are computed, and changes told, at FRR's usual pace, which spares the processors of real switches.
    pub patient: bool,
}

impl Timers {
    /// A data centre's: hellos each second, BFD each 100 ms.
    pub const FAST: Self = Self { hello_s: 1, dead_s: 4, bfd: true, broadcast: false, patient: false };
    /// OSPF's own on Ethernet.
    pub const DEFAULT: Self = Self { hello_s: 10, dead_s: 40, bfd: false, broadcast: true, patient: true };
}

/// All that is to stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The lab's name.
    pub name: LabName,
    /// What the fabric is, in a line.
    pub fabric: String,
    /// Who finds the routes.
    pub routing: Routing,
    /// How soon OSPF notices.
    pub timers: Timers,
    /// What rates were multiplied with.
    pub scale: f64,
    /// Hosts, then switches, by the fabric's node id.
    pub nodes: Vec<Node>,
    /// What is laid over it, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<overlay::Vl2>,
    /// Who reaches it from outside, if anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<outside::Outside>,
    /// NetLord, if that is laid over it: then switches are bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<tenants::Netlord>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The fabric's name for it.
    pub name: String,
    /// The name under /run/netns.
    pub namespace: String,
    /// Host or switch.
    pub role: Role,
    /// A switch's locator, on `lo`; of a host that of its first port.
    pub locator: Ipv4Addr,
    /// The locators of the hosts at this switch, if it has any.
    pub prefix: Option<Net>,
    /// `net.ipv4.fib_multipath_hash_seed`: never 0, and no two are alike.
    pub hash_seed: u32,
    /// In the order of the fabric's links.
    pub ports: Vec<Port>,
    /// Routes that hold whoever routes: to the switch's own hosts, or to a host's switch.
    pub local: Vec<Route>,
    /// Shortest paths to all locators of the fabric: what static routing installs, and OSPF must find.
    pub fabric: Vec<Route>,
    /// Prefixes of its hosts besides `prefix`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Net>,
    /// Addresses on `lo` besides the locator: those that other switches have too, and a host's that is known outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anycast: Vec<Ipv4Addr>,
}

/// What a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends and receives.
    Host,
    /// Forwards.
    Switch,
    /// Forwards, and is no part of the fabric.
    Outside,
    /// A tenant's, behind the agent of a host.
    Vm,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// `eth0` at hosts, `p0` at switches.
    pub name: String,
    /// Its address; ports of switches to hosts have none.
    pub address: Option<Net>,
    /// The other end.
    pub peer: PortId,
    /// What the port sends at.
    pub rate_bps: u64,
    /// What may be sent at once after a pause.
    pub burst_bytes: u64,
    /// What may wait; 0: nothing has to, for the port sends as fast as it can, as between a host and its VMs.
    pub queue_bytes: u64,
}

/// A port of a node, both as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortId {
    /// Index into [`Plan::nodes`].
    pub node: usize,
    /// Index into [`Node::ports`].
    pub port: usize,
}

/// Who talks: a host, or a tenant's VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its namespace, as an index into [`Plan::nodes`].
    pub node: usize,
    /// The host that it is, or that it is on, likewise.
    pub host: usize,
    /// The addresses by which programs there talk.
    pub addresses: Vec<Ipv4Addr>,
}

/// A route of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Which addresses.
    pub to: Net,
    /// Where they are.
    pub way: Way,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// To one of these, by the flow's hash.
    Via(Vec<Hop>),
    /// To the address itself, at this port.
    Direct(usize),
    /// To a host's switch, by this port, for what is sent from its address.
    Gateway(Hop),
    /// To the host with this address, at this port: it has them all.
    Behind(Hop),
    /// Nowhere.
    Unreachable,
}

/// A neighbour's address and the port that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hop {
    /// The neighbour.
    pub gateway: Ipv4Addr,
    /// Index into [`Node::ports`].
    pub port: usize,
}

/// A fabric that no lab can be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlanError {
    #[error(transparent)]
    Addresses(#[from] AddressError),
    #[error("{cables} cables between switches are more than 172.16.0.0/13 can number: use a smaller fabric")]
    TooManyCables { cables: usize },
    #[error("the link `{link}` of {rate} makes {scaled} in the lab, less than {RATE_MIN}: raise `world.scale` of {scale}")]
    TooSlow { link: String, rate: BitsPerSec, scaled: BitsPerSec, scale: f64 },
    #[error("{host} has several NICs, and the VL2 overlay knows hosts of one: leave out `[overlay]`, or use another fabric")]
    SeveralNics { host: String },
    #[error(
        "{host} has several NICs, and the directory has one place for a VM: leave out `overlay.locations`, by which agents say so themselves, or use another fabric"
    )]
    SeveralPlaces { host: String },
    #[error("NetLord cannot be laid over the fabric: {0}")]
    Tenants(String),
    #[error("{hosts} hosts need more outer source addresses than 100.64.0.0/10 has: use a smaller fabric")]
    TooManySources { hosts: usize },
    #[error("nothing can lead outside: the fabric has no switches above its ToRs")]
    NoBorder,
    #[error(
        "{hosts} hosts are to be reached from outside, and 203.0.113.0/24 has addresses for {max}: name fewer in `overlay.external`"
    )]
    PoolTooSmall { hosts: usize, max: usize },
    #[error(
        "{servers} directory servers: each has a host of its own, of which there are {hosts}, and several share a store: raise or lower `directory.servers`, or write store = \"etcd\""
    )]
    DirectoryServers { servers: u16, hosts: usize },
    #[error("no locator of {tor} is left for a host that moves there: move it to another switch")]
    NoRoom { tor: String },
    #[error(transparent)]
    Groups(#[from] weft_control::vl2::groups::GroupsError),
}

impl PlanError {
    /// The key of a scenario that it is about.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::TooSlow { .. } => "world.scale",
            Self::PoolTooSmall { .. } | Self::NoBorder => "overlay.external",
            Self::DirectoryServers { .. } => "directory.servers",
            Self::SeveralPlaces { .. } => "overlay.locations",
            Self::SeveralNics { .. } | Self::Tenants(_) | Self::TooManySources { .. } | Self::NoRoom { .. } | Self::Groups(_) => {
                "overlay"
            }
            Self::Addresses(_) | Self::TooManyCables { .. } => "fabric",
        }
    }
}

impl Plan {
    /// Plans a lab.
    ///
    /// # Errors
    /// [`PlanError`] if addresses do not suffice or a link becomes too slow.
    pub fn new(fabric: &Fabric, settings: &Settings) -> Result<Self, PlanError> {
        let addresses = Addresses::new(fabric)?;
        let namespaces = name::namespaces(fabric, &settings.name);
        let seeds = hash_seeds(settings.seed, fabric.nodes().len());
        let mut nodes = Vec::with_capacity(namespaces.len());
        for (i, (namespace, hash_seed)) in namespaces.into_iter().zip(seeds).enumerate() {
            let id = NodeId::from(i);
            let links = fabric.out(id);
            let ports = links.iter().map(|&link| port(fabric, link, &addresses, settings)).collect::<Result<Vec<_>, _>>()?;
            nodes.push(Node {
                name: fabric.node(id).name.to_string(),
                namespace,
                role: if fabric.as_host(id).is_some() { Role::Host } else { Role::Switch },
                locator: addresses.locator(id),
                prefix: fabric.as_switch(id).and_then(|s| addresses.prefix(s)),
                hash_seed,
                ports,
                local: Vec::new(),
                fabric: Vec::new(),
                blocks: Vec::new(),
                anycast: Vec::new(),
            });
        }
        routes::fill(&mut nodes);
        let Settings { name, routing, timers, scale, .. } = settings.clone();
        let fabric = fabric.title().to_owned();
        Ok(Self { name, fabric, routing, timers, scale, nodes, overlay: None, outside: None, tenants: None })
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.role == Role::Host)
    }

    /// The ports of a host that lead to switches: its NICs.
    pub fn nics(&self, host: usize) -> impl Iterator<Item = &Port> {
        self.nodes[host].ports.iter().filter(|port| self.nodes[port.peer.node].role == Role::Switch)
    }

    /// The switches that a host hangs on.
    pub fn edges_of(&self, host: usize) -> BTreeSet<usize> {
        self.nics(host).map(|port| port.peer.node).collect()
    }

    /// The addresses by which programs on a host talk: its locators, or what an overlay gives it.
    pub fn addresses_of(&self, host: usize) -> Vec<Ipv4Addr> {
        match self.overlay.as_ref().and_then(|vl2| vl2.host(host)) {
            Some(overlaid) => vec![overlaid.aa4],
            None => self.nodes[host].ports.iter().filter_map(|p| Some(p.address?.address)).collect(),
        }
    }

    /// Those who talk: the hosts, or the VMs of tenants.
    pub fn ends(&self) -> Vec<End> {
        if let Some(netlord) = &self.tenants {
            let of = |vm: &tenants::Vm| End { node: vm.node, host: vm.host, addresses: tenants::v4_of(vm).into_iter().collect() };
            return netlord.vms.iter().map(of).collect();
        }
        let of = |host: usize| End { node: host, host, addresses: self.addresses_of(host) };
        (0..self.hosts().count()).map(of).collect()
    }

    /// Next hops of a route at the most: what an overlay says that switches can spread over.
    pub fn ecmp_width(&self) -> usize {
        self.overlay.as_ref().map_or(ECMP_WIDTH, |vl2| usize::from(vl2.ecmp_width).clamp(1, ECMP_WIDTH))
    }

    /// The switches.
    pub fn switches(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.role == Role::Switch)
    }

    /// Whether an agent runs on hosts and switches.
    pub const fn has_agents(&self) -> bool {
        self.overlay.is_some() || self.tenants.is_some()
    }

    /// Where directory servers run, as indices into `nodes`, and where they keep mappings; none: there are none.
    pub fn directory(&self) -> Option<(&[usize], overlay::Store)> {
        let of_tenants = || self.tenants.as_ref()?.provider.as_ref()?.directory.as_ref();
        let of_vl2 = self.overlay.as_ref().map(|vl2| (&vl2.directory[..], vl2.store));
        of_vl2.or_else(|| of_tenants().map(|serving| (&serving.servers[..], serving.store)))
    }

    /// Whether switches forward multicast: what a service broadcasts is sent so (VL2 section 4.2.3).
    pub fn has_multicast(&self) -> bool {
        self.overlay.is_some() && self.routing == Routing::Frr
    }

    /// Both ends of each cable, each once.
    pub fn cables(&self) -> impl Iterator<Item = [PortId; 2]> + '_ {
        let ports = |node: usize| (0..self.nodes[node].ports.len()).map(move |port| PortId { node, port });
        (0..self.nodes.len()).flat_map(ports).filter_map(|here| {
            let there = self.port(here).peer;
            ((here.node, here.port) < (there.node, there.port)).then_some([here, there])
        })
    }

    /// A port.
    pub fn port(&self, id: PortId) -> &Port {
        &self.nodes[id.node].ports[id.port]
    }

    /// The node and the port that have an address: its own, or for a locator on `lo` without a port.
    pub fn owner(&self, address: Ipv4Addr) -> Option<(usize, Option<usize>)> {
        let port = |n: &Node| n.ports.iter().position(|p| p.address.is_some_and(|a| a.address == address));
        let of_ports = self.nodes.iter().enumerate().find_map(|(i, n)| port(n).map(|p| (i, Some(p))));
        of_ports.or_else(|| self.nodes.iter().position(|n| n.locator == address).map(|i| (i, None)))
    }
}

impl Node {
    /// `/proc/sys` settings of the namespace, in the order in which they are written; before there are links, which inherit them.
    pub fn sysctls(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            // Any of several shortest paths may bring a packet.
            ("net/ipv4/conf/all/rp_filter", "0".to_owned()),
            ("net/ipv4/conf/default/rp_filter", "0".to_owned()),
            // Ports and addresses, not addresses alone; another seed in each switch, or traffic polarises.
            ("net/ipv4/fib_multipath_hash_policy", "1".to_owned()),
            ("net/ipv4/fib_multipath_hash_seed", self.hash_seed.to_string()),
            // The underlay is IPv4; whoever needs IPv6 on a device of his own switches it on there.
            ("net/ipv6/conf/all/disable_ipv6", "1".to_owned()),
            ("net/ipv6/conf/default/disable_ipv6", "1".to_owned()),
        ];
        settings.extend(match self.role {
            // Inherited otherwise, and BBR is the default of some systems.
            Role::Host | Role::Vm => vec![("net/ipv4/tcp_congestion_control", CONGESTION_CONTROL.to_owned())],
            Role::Switch | Role::Outside => vec![
                ("net/ipv4/ip_forward", "1".to_owned()),
                ("net/ipv4/conf/all/ignore_routes_with_linkdown", "1".to_owned()),
                ("net/ipv4/conf/default/ignore_routes_with_linkdown", "1".to_owned()),
                ("net/ipv4/conf/all/send_redirects", "0".to_owned()),
                ("net/ipv4/conf/default/send_redirects", "0".to_owned()),
                // Traceroutes tell the port, and none goes unanswered.
                ("net/ipv4/icmp_errors_use_inbound_ifaddr", "1".to_owned()),
                ("net/ipv4/icmp_ratelimit", "0".to_owned()),
                ("net/ipv4/icmp_msgs_per_sec", "100000".to_owned()),
                ("net/ipv4/icmp_msgs_burst", "10000".to_owned()),
            ],
        });
        settings
    }
}

fn port(fabric: &Fabric, link: LinkId, addresses: &Addresses, settings: &Settings) -> Result<Port, PlanError> {
    let (from, to) = (fabric.link(link).from, fabric.link(link).to);
    let is_host = fabric.as_host(from).is_some();
    let rate = scaled(fabric, link, settings.scale)?;
    let index = |node: NodeId, l: LinkId| fabric.out(node).iter().position(|&o| o == l).expect("a node lists its links");
    let queue = if is_host { settings.nic_queue } else { settings.switch_queue };
    Ok(Port {
        name: format!("{}{}", if is_host { "eth" } else { "p" }, index(from, link)),
        address: addresses.port(link),
        peer: PortId { node: to.index(), port: index(to, link.reverse()) },
        rate_bps: rate.0,
        burst_bytes: burst(rate),
        queue_bytes: queue.0.max(u64::from(MTU_FABRIC) * 2),
    })
}

fn scaled(fabric: &Fabric, link: LinkId, scale: f64) -> Result<BitsPerSec, PlanError> {
    let rate = fabric.link(link).capacity;
    let scaled = BitsPerSec((rate.as_f64() * scale).round() as u64);
    if scaled < RATE_MIN {
        return Err(PlanError::TooSlow { link: fabric.link_name(link), rate, scaled, scale });
    }
    Ok(scaled)
}

/// What a timer that comes 4 ms late may send at once, so that the rate is kept; several full packets at the least.
fn burst(rate: BitsPerSec) -> u64 {
    (rate.0 / 8 / 250).max(u64::from(MTU_FABRIC) * 5)
}

/// Different ones for all nodes, none of them 0, which stands for the kernel's own.
fn hash_seeds(seed: u64, nodes: usize) -> Vec<u32> {
    let base = rng::mix(seed ^ rng::mix(Stream::HashSeeds as u64)) as u32;
    // An odd factor permutes 32 bits, so no two nodes meet; one of 2^32 starting points would give 0.
    let of = |i: usize| base.wrapping_add(i as u32).wrapping_mul(0x9E37_79B1);
    (0..nodes).map(|i| if of(i) == 0 { of(nodes) } else { of(i) }).collect()
}

#[cfg(test)]
mod tests;
