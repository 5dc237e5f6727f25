//! What a lab consists of, derived from a fabric alone: no root, no kernel, no clock.
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
//!   a traceroute identifies cables, not only switches.
//! - The MTU of all devices is [`MTU_FABRIC`], that of a host's routes [`MTU_HOST`]: a packet that is put into a tunnel at the host fits.
//! - A host with several NICs has a locator for each, below the switch that it leads to, and leaves by the NIC whose locator it sends
//!   from (Subways section 4.3). Its switches' own locators are then 172.24.0.0/13.

pub mod access;
mod addresses;
pub mod directory;
mod error;
mod name;
mod net;
pub mod netlord;
pub mod openflow;
pub mod outside;
pub mod overlay;
mod record;
mod routes;
pub mod vl2;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_fabric::rng::{self, Stream};
use weft_fabric::{BitsPerSec, Bytes, Fabric, LinkId, NodeId};

pub use directory::{DirectoryServers, Store};
pub use error::PlanError;
pub use name::{LabName, NAMESPACE_PREFIX, NameError};
pub use overlay::Overlay;

use addresses::Addresses;
pub use net::Net;

/// The MTU of links, in bytes.
pub const MTU_FABRIC: u32 = 1600;
/// Bytes of the largest packet that a host sends by its routes: what remains for headers is for tunnels.
pub const MTU_HOST: u32 = 1500;
/// The lowest rate of a link, at which one full packet takes an eighth of a second.
pub const RATE_MIN: BitsPerSec = BitsPerSec(100_000);

/// Next hops of a route, at most: FRR takes no more.
pub const ECMP_WIDTH: usize = 64;

/// The congestion control of hosts.
pub const CONGESTION_CONTROL: &str = "cubic";

/// Settings of a lab, besides its fabric.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name, which distinguishes its namespaces from those of other labs.
    pub name: LabName,
    /// How routes are found.
    pub routing: Routing,
    /// OSPF's timers.
    pub timers: Timers,
    /// The factor of link rates.
    pub scale: f64,
    /// Seed of the hash seeds.
    pub seed: u64,
    /// The queue size of a switch's port.
    pub switch_queue: Bytes,
    /// The queue size of a host's NIC.
    pub nic_queue: Bytes,
}

#[cfg(test)]
impl Settings {
    /// Those of tests: small queues and a hundredth of the rates.
    pub(crate) fn for_tests(routing: Routing) -> Self {
        Self {
            name: "t".parse().expect("a name"),
            routing,
            timers: Timers::FAST,
            scale: 0.01,
            seed: 1,
            switch_queue: Bytes(100_000),
            nic_queue: Bytes(100_000),
        }
    }
}

/// How routes between switches are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// By the plan: static kernel routes. The kernel ignores next hops at ports without carrier.
    Static,
    /// By FRR: OSPF with BFD.
    Frr,
    /// By a scheduler over OpenFlow: switches are Open vSwitch and forward by rules ([`openflow`]).
    Openflow,
}

/// OSPF's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// The interval of hellos, in seconds.
    pub hello_s: u16,
    /// The dead interval, in seconds: a neighbour without hellos for that long is down.
    pub dead_s: u16,
    /// Whether BFD monitors every neighbour too.
    pub bfd: bool,
    /// Whether links are broadcast networks, OSPF's default for Ethernet: a port that comes up waits for the dead interval before it elects a designated
    /// router, and routes avoid the link until then.
    pub broadcast: bool,
    /// Whether routes are computed and changes are announced with FRR's default delays, which save processor time of real switches.
    pub patient: bool,
}

impl Timers {
    /// Timers for data centres: hellos each second, BFD each 100 ms.
    pub const FAST: Self = Self { hello_s: 1, dead_s: 4, bfd: true, broadcast: false, patient: false };
    /// OSPF's defaults for Ethernet.
    pub const DEFAULT: Self = Self { hello_s: 10, dead_s: 40, bfd: false, broadcast: true, patient: true };
}

/// The plan of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The lab's name.
    pub name: LabName,
    /// A one-line description of the fabric.
    pub fabric: String,
    /// How routes are found.
    pub routing: Routing,
    /// OSPF's timers.
    pub timers: Timers,
    /// The factor of link rates.
    pub scale: f64,
    /// Hosts, then switches, by the fabric's node id.
    pub nodes: Vec<Node>,
    /// What is laid over it.
    #[serde(default, skip_serializing_if = "Overlay::is_none")]
    pub overlay: Overlay,
    /// The router outside of the data centre, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<outside::Outside>,
    /// What steers the switches, with [`Routing::Openflow`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<openflow::Openflow>,
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
    /// `net.ipv4.fib_multipath_hash_seed`: never 0, and different at each node.
    pub hash_seed: u32,
    /// In the order of the fabric's links.
    pub ports: Vec<Port>,
    /// Routes that do not depend on the routing: to the switch's own hosts, or to a host's switch.
    pub local: Vec<Route>,
    /// Routes along all shortest paths to all locators of the fabric, which static routing installs and OSPF must find.
    #[serde(with = "record")]
    pub fabric: Vec<Route>,
    /// Prefixes of its hosts besides `prefix`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Net>,
    /// Addresses on `lo` besides the locator: anycast addresses of a switch, and the address of a host that is reachable from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anycast: Vec<Ipv4Addr>,
}

/// The role of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends and receives.
    Host,
    /// Forwards.
    Switch,
    /// Forwards, and is no part of the fabric.
    Outside,
    /// A tenant's VM, behind the agent of a host.
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
    /// Its rate.
    pub rate_bps: u64,
    /// The burst of its token bucket.
    pub burst_bytes: u64,
    /// Its queue; 0: the port is not shaped, as between a host and its VMs.
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

/// An endpoint of traffic: a host, or a tenant's VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its namespace, as an index into [`Plan::nodes`].
    pub node: usize,
    /// The host itself, or the host of the VM, likewise.
    pub host: usize,
    /// The addresses that its programs use.
    pub addresses: Vec<Ipv4Addr>,
}

/// A route of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destination.
    pub to: Net,
    /// Where packets to them go.
    pub target: RouteTarget,
}

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteTarget {
    /// One of these next hops, by the flow's hash.
    Via(Vec<Hop>),
    /// The destination itself, at this port.
    Direct(usize),
    /// A host's switch, by this port, for packets from the port's address.
    Gateway(Hop),
    /// The host with this address, at this port, which has all addresses of the destination.
    Behind(Hop),
    /// None: packets are rejected.
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
        let title = fabric.title().to_owned();
        let (overlay, outside, openflow) = (Overlay::None, None, None);
        let plan = Self { name, fabric: title, routing, timers, scale, nodes, overlay, outside, openflow };
        if routing == Routing::Openflow { plan.with_openflow(fabric) } else { Ok(plan) }
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

    /// The switches of a host.
    pub fn edges_of(&self, host: usize) -> BTreeSet<usize> {
        self.nics(host).map(|port| port.peer.node).collect()
    }

    /// The addresses that programs on a host use: its locators, or its application address of VL2.
    pub fn addresses_of(&self, host: usize) -> Vec<Ipv4Addr> {
        match self.overlay.vl2().and_then(|vl2| vl2.host(host)) {
            Some(overlaid) => vec![overlaid.aa4],
            None => self.nodes[host].ports.iter().filter_map(|p| Some(p.address?.address)).collect(),
        }
    }

    /// The endpoints: the hosts, or the VMs of tenants.
    pub fn ends(&self) -> Vec<End> {
        if let Overlay::Netlord(netlord) = &self.overlay {
            let of = |vm: &netlord::Vm| End { node: vm.node, host: vm.host, addresses: netlord::v4_of(vm).into_iter().collect() };
            return netlord.vms.iter().map(of).collect();
        }
        let of = |host: usize| {
            let mut addresses = self.addresses_of(host);
            if self.overlay.access().is_some() {
                addresses.truncate(1);
            }
            End { node: host, host, addresses }
        };
        (0..self.hosts().count()).map(of).collect()
    }

    /// Next hops of a route, at most: those of `overlay.ecmp_width` with VL2.
    pub fn ecmp_width(&self) -> usize {
        self.overlay.vl2().map_or(ECMP_WIDTH, |vl2| usize::from(vl2.ecmp_width).clamp(1, ECMP_WIDTH))
    }

    /// The switches.
    pub fn switches(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.role == Role::Switch)
    }

    /// Whether switches forward multicast, by which a service's broadcasts are sent (VL2 section 4.2.3).
    pub fn has_multicast(&self) -> bool {
        self.overlay.vl2().is_some() && self.routing == Routing::Frr
    }

    /// The multicast rendezvous point and its second, if switches forward multicast: intermediate switches, or others where there are fewer than two.
    pub fn rendezvous_points(&self) -> Vec<&Node> {
        let Some(vl2) = self.overlay.vl2().filter(|_| self.has_multicast()) else { return Vec::new() };
        let others = (0..self.nodes.len()).filter(|at| self.nodes[*at].role == Role::Switch && !vl2.intermediates.contains(at));
        vl2.intermediates.iter().copied().chain(others).take(2).map(|at| &self.nodes[at]).collect()
    }

    /// Which of the rendezvous points a switch is, counted from 0, and the other ones; `None` if it is none.
    pub fn as_rendezvous_point(&self, switch: &Node) -> Option<(usize, Vec<&Node>)> {
        let mut points = self.rendezvous_points();
        let own = points.iter().position(|point| point.name == switch.name)?;
        points.remove(own);
        Some((own, points))
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

    /// The node that has an address, and the port, if it is not a locator on `lo`.
    pub fn owner(&self, address: Ipv4Addr) -> Option<(usize, Option<usize>)> {
        let port = |n: &Node| n.ports.iter().position(|p| p.address.is_some_and(|a| a.address == address));
        let of_ports = self.nodes.iter().enumerate().find_map(|(i, n)| port(n).map(|p| (i, Some(p))));
        of_ports.or_else(|| self.nodes.iter().position(|n| n.locator == address).map(|i| (i, None)))
    }
}

impl Node {
    /// `/proc/sys` settings of the namespace, in the order in which they are written; before there are links, which inherit them.
    pub fn sysctls(&self, routing: Routing) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            // Packets may arrive by any of several shortest paths.
            ("net/ipv4/conf/all/rp_filter", "0".to_owned()),
            ("net/ipv4/conf/default/rp_filter", "0".to_owned()),
            // Hashes of ports and addresses, with a different seed at each switch: otherwise traffic would polarise.
            ("net/ipv4/fib_multipath_hash_policy", "1".to_owned()),
            ("net/ipv4/fib_multipath_hash_seed", self.hash_seed.to_string()),
            // The underlay is IPv4; overlays enable IPv6 on single devices.
            ("net/ipv6/conf/all/disable_ipv6", "1".to_owned()),
            ("net/ipv6/conf/default/disable_ipv6", "1".to_owned()),
        ];
        settings.extend(match self.role {
            Role::Host | Role::Vm => vec![
                // Otherwise inherited, and BBR is the default of some systems.
                ("net/ipv4/tcp_congestion_control", CONGESTION_CONTROL.to_owned()),
                // Packets of the segments of a millisecond. Where round trips are short, the default is up to 64 kB at any rate, of which two may wait in the
                // NIC: 100 ms at 10 Mbps, before the host's acknowledgements.
                ("net/ipv4/tcp_tso_rtt_log", "0".to_owned()),
            ],
            // The kernel forwards nothing there.
            Role::Switch if routing == Routing::Openflow => Vec::new(),
            Role::Switch | Role::Outside => vec![
                ("net/ipv4/ip_forward", "1".to_owned()),
                ("net/ipv4/conf/all/ignore_routes_with_linkdown", "1".to_owned()),
                ("net/ipv4/conf/default/ignore_routes_with_linkdown", "1".to_owned()),
                ("net/ipv4/conf/all/send_redirects", "0".to_owned()),
                ("net/ipv4/conf/default/send_redirects", "0".to_owned()),
                // ICMP errors identify the port, and are not rate-limited.
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

/// What a timer that fires 4 ms late may send at once, so that the rate is kept; at least several full packets.
fn burst(rate: BitsPerSec) -> u64 {
    (rate.0 / 8 / 250).max(u64::from(MTU_FABRIC) * 5)
}

/// Different seeds for all nodes; none is 0, which selects a random seed of the kernel.
fn hash_seeds(seed: u64, nodes: usize) -> Vec<u32> {
    let base = rng::mix(seed ^ rng::mix(Stream::HashSeeds as u64)) as u32;
    // An odd factor permutes 32 bits, so no two nodes meet; one of 2^32 starting points would give 0.
    let of = |i: usize| base.wrapping_add(i as u32).wrapping_mul(0x9E37_79B1);
    (0..nodes).map(|i| if of(i) == 0 { of(nodes) } else { of(i) }).collect()
}

#[cfg(test)]
mod tests;
