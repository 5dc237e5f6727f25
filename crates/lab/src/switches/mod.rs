//! Configurations of real switches, derived from the plan of a lab with VL2 (VL2 section 4.2) or NetLord (`netlord`): docs/switches.md.
//!
//! ```text
//!   plan --> Switch (ports, addresses, static routes, decapsulation) --> config_db.json and frr.conf    SONiC
//!                                                                    --> switch.txt                      generic
//! ```
//! With VL2, a ToR has its hosts in one VLAN, whose interface has the ToR's locator and the rack's prefix; in a lab it is a device of its own. All other addresses,
//! and OSPF, are those of the lab.

mod generic;
mod netlord;
mod sonic;

use std::net::Ipv4Addr;

use crate::plan::vl2::{LocatorKind, Vl2};
use crate::plan::{Net, Node, Plan, Role, RouteTarget};

/// The language of the configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `config_db.json` and `frr.conf` of SONiC, whose ports are named by lanes: Ethernet0, Ethernet4, ...
    Sonic {
        /// Lanes of a port.
        lanes: u32,
    },
    /// `switch.txt`, in the style of many vendors' command lines.
    Generic,
}

/// The files of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The switch's name.
    pub switch: String,
    /// Addresses whose IP-in-IP packets it decapsulates.
    pub decapsulates: usize,
    /// Static routes.
    pub routes: usize,
    /// Names and contents.
    pub files: Vec<(&'static str, String)>,
}

/// Why a plan has no configurations of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExportError {
    #[error(
        "the scenario has no overlay, and plain switches need no configuration of Weft's: write [overlay] with kind = \"vl2\", or name one with tenants"
    )]
    NoOverlay,
    #[error(
        "{vlans} VLANs of SPAIN and of ports to servers are needed, numbered up to {free} at most: reduce `control.spain_paths`"
    )]
    Vlans { vlans: usize, free: u16 },
    #[error(
        "SONiC has no rates of tenants (tenant {tenant}): leave out its `limit`, write limit = \"deny\", or use `--format generic`"
    )]
    Rate { tenant: u32 },
}

/// The configurations of all switches of a plan.
///
/// # Errors
/// [`ExportError`] for a plan without VL2 and NetLord, or with limits that the format has not.
pub fn export(plan: &Plan, format: Format) -> Result<Vec<Export>, ExportError> {
    if let Some(netlord) = plan.overlay.netlord() {
        return netlord::export(plan, netlord, format);
    }
    let vl2 = plan.overlay.vl2().ok_or(ExportError::NoOverlay)?;
    let switches = plan.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Switch);
    Ok(switches.map(|(at, node)| of_switch(plan, &Switch::new(plan, vl2, at, node), format)).collect())
}

/// Files for the agents of hosts that use these switches, besides those of their own: names and contents.
pub fn for_agents(plan: &Plan) -> Vec<(&'static str, String)> {
    plan.overlay.netlord().map(|it| ("paths.toml", netlord::paths(it))).into_iter().collect()
}

fn of_switch(plan: &Plan, switch: &Switch<'_>, format: Format) -> Export {
    let files = match format {
        Format::Sonic { lanes } => {
            vec![("config_db.json", sonic::config_db(switch, lanes)), ("frr.conf", sonic::frr(plan, switch, lanes))]
        }
        Format::Generic => vec![("switch.txt", generic::text(plan, switch))],
    };
    Export { switch: switch.node.name.clone(), decapsulates: switch.tunnels.len(), routes: switch.routes.len(), files }
}

/// A switch, in the terms of both formats.
struct Switch<'a> {
    node: &'a Node,
    /// In the order of the node's ports.
    ports: Vec<SwitchPort>,
    /// The address and prefix of the VLAN of its hosts.
    rack: Option<Net>,
    /// Addresses on loopback interfaces: its locator if it is not on the VLAN, and those of its groups.
    loopbacks: Vec<Ipv4Addr>,
    /// Addresses whose IP-in-IP packets it decapsulates.
    tunnels: Vec<Ipv4Addr>,
    /// Whether it is a multicast rendezvous point, and has that address too.
    is_point: bool,
    /// The server to which it relays DHCP.
    dhcp_server: Option<Ipv4Addr>,
    routes: Vec<StaticRoute>,
}

/// A port of a switch.
struct SwitchPort {
    /// The node and the port at the other end.
    to: String,
    /// Its address; `None`: it is in the VLAN of the hosts.
    address: Option<Net>,
    /// Whether it leads to another switch of the fabric; OSPF and PIM run there.
    is_fabric: bool,
}

/// A static route.
struct StaticRoute {
    /// The destination.
    to: String,
    target: Target,
}

/// The target of a static route.
enum Target {
    /// A host in the VLAN.
    Via(Ipv4Addr),
    /// The destination itself, in the VLAN.
    OnLink,
    /// None: packets are dropped.
    Drop,
}

/// The node and the port at the other end of a port's cable.
fn peer_name(plan: &Plan, port: &crate::plan::Port) -> String {
    format!("{} {}", plan.nodes[port.peer.node].name, plan.port(port.peer).name)
}

impl<'a> Switch<'a> {
    fn new(plan: &Plan, vl2: &Vl2, at: usize, node: &'a Node) -> Self {
        let is_fabric = |port: &crate::plan::Port| plan.nodes[port.peer.node].role == Role::Switch;
        let port = |port| SwitchPort { to: peer_name(plan, port), address: port.address, is_fabric: is_fabric(port) };
        let ports = node.ports.iter().map(port).collect();
        let rack = node.prefix.map(|prefix| {
            let address = if prefix.contains(node.locator) { node.locator } else { prefix.address };
            Net { address, len: prefix.len }
        });
        let own = rack.is_none_or(|net| net.address != node.locator).then_some(node.locator);
        let is_intermediate = vl2.intermediates.contains(&at);
        let strips = is_intermediate || (vl2.locator == LocatorKind::Tor && vl2.is_tor(at));
        let anycast = node.anycast.iter().copied();
        Self {
            node,
            ports,
            rack,
            loopbacks: own.into_iter().chain(anycast.clone()).collect(),
            tunnels: if strips { std::iter::once(node.locator).chain(anycast).collect() } else { Vec::new() },
            is_point: plan.as_rendezvous_point(node).is_some(),
            dhcp_server: vl2.dhcp_server().filter(|_| vl2.is_tor(at)).map(|server| plan.nodes[server].locator),
            routes: routes(plan, vl2, at, node),
        }
    }
}

/// Routes to the outer sources of hosts, and, if the ToR decapsulates, to their application addresses.
fn routes(plan: &Plan, vl2: &Vl2, at: usize, node: &Node) -> Vec<StaticRoute> {
    let mut routes = Vec::new();
    let mut add = |to: String, target: Target| routes.push(StaticRoute { to, target });
    for route in &node.local {
        match &route.target {
            RouteTarget::Behind(hop) => add(route.to.to_string(), Target::Via(hop.gateway)),
            RouteTarget::Unreachable if node.blocks.contains(&route.to) => add(route.to.to_string(), Target::Drop),
            // Hosts, and the rest of their prefix, are those of the VLAN.
            RouteTarget::Unreachable | RouteTarget::Direct(_) | RouteTarget::Via(_) | RouteTarget::Gateway(_) => {}
        }
    }
    for host in vl2.hosts.iter().filter(|host| host.tor == at && vl2.locator == LocatorKind::Tor) {
        add(Net::host(host.aa4).to_string(), Target::Via(plan.nodes[host.node].locator));
        add(format!("{}/128", host.aa6), Target::OnLink);
    }
    routes
}

/// Prefixes whose static routes a switch announces: outer sources of its hosts, and locators by which the outside reaches some of them.
fn announced(plan: &Plan, node: &Node) -> Vec<String> {
    let is_own = |&&(host, _): &&(usize, Ipv4Addr)| std::ptr::eq(&plan.nodes[plan.nodes[host].ports[0].peer.node], node);
    let outside =
        plan.outside.iter().flat_map(|outside| outside.hosts.iter().filter(is_own)).map(|&(_, address)| Net::host(address));
    node.blocks.iter().copied().chain(outside).map(|net| net.to_string()).collect()
}

/// The VLAN of a ToR's hosts; each ToR has its own.
const RACK_VLAN: u16 = 100;

#[cfg(test)]
mod tests;
