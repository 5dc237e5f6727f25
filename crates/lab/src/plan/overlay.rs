//! What VL2 lays over a lab (VL2 section 4.2): application addresses, outer source addresses, anycast addresses, principals.
//!
//! ```text
//!   h0                              tor0                                     int0
//!   eth0 10.1.1.2/32                lo    10.1.1.1/32                        lo 10.0.0.1/32
//!   eth0 20.0.0.1/8, fd20::1/64     rack  100.64.0.0/22                      lo 100.127.0.1/32       its group's, as long as it serves it
//!   20.0.0.0/8 dev eth0 mtu 1560    100.64.1.0/24 via 10.1.1.2 dev p0
//!                                   unreachable 100.64.0.0/22
//! ```
//! - **AA.** Host h is 20.0.0.1 + h and fd20:: + 1 + h, on the NIC that has its locator. Switches have no route to them.
//! - **Outer sources.** A host fills the last byte of its own /24 with the flow's hash. The /24s of a rack are next to each other, so that the fabric learns one
//!   prefix of them; the first is left out, since the ToR has its first address, and a kernel drops what comes from its own.
//! - **Anycast.** A group's address stands on `lo` of those intermediate switches that serve it, and OSPF announces it. The plan has all alive; who serves it
//!   when some fail is the agents' business.

mod moves;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use weft_control::vl2::groups::{Groups, GroupsError};
use weft_fabric::Fabric;

pub use moves::Move;

use super::routes::{distances, nearer};
use super::{Hop, MTU_FABRIC, Net, Plan, PlanError, Role, Route, Way};

/// What is to be laid over a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Who strips the last header.
    pub locator: LocatorKind,
    /// Next hops that switches can spread over.
    pub ecmp_width: u16,
    /// Who may talk to whom; hosts of none of them make up one of their own.
    pub services: Vec<ServiceSpec>,
    /// Hosts that are to be reached from outside, by index; none: there is no outside.
    pub external: Vec<u32>,
}

/// A service as a scenario has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name.
    pub name: String,
    /// Its hosts, by index.
    pub hosts: Vec<u32>,
    /// Whose hosts may find these; `*`: all.
    pub allow: Vec<String>,
}

/// Who strips the last header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocatorKind {
    /// The destination's ToR.
    Tor,
    /// The destination.
    Host,
}

/// The overlay of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vl2 {
    /// Who strips the last header.
    pub locator: LocatorKind,
    /// Next hops that switches can spread over.
    pub ecmp_width: u16,
    /// The services, from id 1.
    pub services: Vec<Service>,
    /// The anycast addresses of the groups, from group 1.
    pub groups: Vec<Ipv4Addr>,
    /// The intermediate switches, as indices into [`Plan::nodes`].
    pub intermediates: Vec<usize>,
    /// By host, in the order of the plan.
    pub hosts: Vec<OverlayHost>,
    /// Where directory servers run, as indices into [`Plan::nodes`]; their store, if it is a program of its own, beside the first.
    pub directory: Vec<usize>,
    /// Where they keep mappings.
    #[serde(default)]
    pub store: Store,
    /// Servers that will move, in the order in which they do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
}

/// Where directory servers keep mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// The only one itself.
    #[default]
    Embedded,
    /// All of them in an etcd of the lab's own, with one member.
    Etcd,
}

/// A service of an overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its number in the directory.
    pub id: u32,
    /// Whose hosts may find these.
    pub allow: Vec<String>,
}

/// What a host has of an overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlayHost {
    /// Index into [`Plan::nodes`].
    pub node: usize,
    /// Its ToR, likewise.
    pub tor: usize,
    /// The ToR's port to it.
    pub port: usize,
    /// Its application addresses.
    pub aa4: Ipv4Addr,
    /// The same, IPv6.
    pub aa6: Ipv6Addr,
    /// Its outer sources.
    pub entropy: Net,
    /// Its service's number.
    pub service: u32,
    /// The group through whose intermediates it is reached; 0 where there are none.
    pub group: u16,
}

/// The application addresses.
pub const AA4: &str = "20.0.0.0/8";
/// The same, IPv6.
pub const AA6: &str = "fd20::/64";
/// Bytes of the largest packet between application addresses: two headers fit.
pub const MTU_OVERLAY: u32 = MTU_FABRIC - 40;
/// Of one header, and of Ethernet.
const OUTER: u32 = 20;
const ETHERNET: u32 = 14;
/// The service of hosts that are in none.
pub const OTHERS: &str = "others";

/// A directory server's number as a principal.
pub const PRINCIPAL_SERVER: u32 = 1;
/// The administrator's; those of further servers follow.
pub const PRINCIPAL_ADMIN: u32 = 2;
/// Directory servers at the most: principals of nodes begin with 1000.
const SERVERS_MAX: usize = 100;

impl Vl2 {
    /// The principal of a node: hosts and switches are numbered apart from servers and administrators.
    pub const fn principal(node: usize) -> u32 {
        1000 + node as u32
    }

    /// The principal of a directory server, by its number.
    pub const fn server_principal(server: usize) -> u32 {
        if server == 0 { PRINCIPAL_SERVER } else { PRINCIPAL_ADMIN + server as u32 }
    }

    /// Whether packets may go both ways between hosts of two services: each is told where the other is.
    pub fn may_talk(&self, a: u32, b: u32) -> bool {
        self.may_resolve(a, b) && self.may_resolve(b, a)
    }

    /// Whether hosts of one service may be told where those of another are.
    pub fn may_resolve(&self, asker: u32, target: u32) -> bool {
        let of = |id: u32| self.services.iter().find(|s| s.id == id);
        let (Some(asker), Some(target)) = (of(asker), of(target)) else { return false };
        asker.id == target.id || target.allow.iter().any(|name| name == "*" || *name == asker.name)
    }

    /// The host of a node.
    pub fn host(&self, node: usize) -> Option<&OverlayHost> {
        self.hosts.iter().find(|h| h.node == node)
    }

    /// Whether hosts hang on this node.
    pub fn is_tor(&self, node: usize) -> bool {
        self.hosts.iter().any(|h| h.tor == node)
    }
}

impl Plan {
    /// The plan with an overlay.
    ///
    /// # Errors
    /// [`PlanError`] if the fabric or the addresses do not allow it.
    pub fn with_overlay(mut self, fabric: &Fabric, overlay: &Overlay) -> Result<Self, PlanError> {
        if let Some(host) = self.hosts().find(|h| h.ports.len() != 1) {
            return Err(PlanError::SeveralNics { host: host.name.clone() });
        }
        let intermediates = intermediates(&self, fabric);
        let groups = groups(&self, &intermediates, overlay.ecmp_width)?;
        let (services, service_of) = services(&self, overlay);
        let mut hosts = Vec::new();
        for (node, host) in self.nodes.iter_mut().enumerate().filter(|(_, n)| n.role == Role::Host) {
            let peer = host.ports[0].peer;
            host.ports[0].rate_bps = before_headers(host.ports[0].rate_bps, !groups.is_empty());
            hosts.push(OverlayHost {
                node,
                tor: peer.node,
                port: peer.port,
                aa4: Ipv4Addr::from(AA4_BASE + 1 + node as u32),
                aa6: Ipv6Addr::from(AA6_BASE + 1 + node as u128),
                entropy: Net::DEFAULT,
                service: service_of[node],
                group: if groups.is_empty() { 0 } else { (hosts.len() % groups.len()) as u16 + 1 },
            });
        }
        // Traffic of the last host's own is the least likely: patterns begin with the first.
        let directory = hosts.last().map(|h| h.node).into_iter().collect();
        let anycast = groups.iter().map(|(address, _)| *address).collect();
        let mut vl2 = Vl2 {
            locator: overlay.locator,
            ecmp_width: overlay.ecmp_width,
            services,
            groups: anycast,
            intermediates,
            hosts,
            directory,
            store: Store::Embedded,
            moves: Vec::new(),
        };
        place_entropy(&mut self, &mut vl2)?;
        place_anycast(&mut self, &groups);
        let intermediates = vl2.intermediates.clone();
        self.overlay = Some(vl2);
        if overlay.external.is_empty() { Ok(self) } else { self.with_outside(&intermediates, &overlay.external) }
    }

    /// The plan with that many directory servers, each on a host of its own: the first on the last host, the others on other racks as far as there are any.
    ///
    /// # Errors
    /// [`PlanError::DirectoryServers`] if there are none, or fewer hosts, or several of them and no store that they could share.
    pub fn with_directory(mut self, servers: u16, store: Store) -> Result<Self, PlanError> {
        let Some(vl2) = &mut self.overlay else { return Ok(self) };
        let hosts: Vec<(usize, usize)> = vl2.hosts.iter().map(|host| (host.node, host.tor)).collect();
        vl2.directory = seats(&hosts, servers, store)?;
        vl2.store = store;
        Ok(self)
    }
}

/// The hosts on which directory servers run, of all, each with its ToR.
pub(super) fn seats(hosts: &[(usize, usize)], servers: u16, store: Store) -> Result<Vec<usize>, PlanError> {
    let most = hosts.len().min(SERVERS_MAX);
    if servers == 0 || usize::from(servers) > most || servers > 1 && store == Store::Embedded {
        return Err(PlanError::DirectoryServers { servers, hosts: most });
    }
    // From the last host back, those first that are the last of their rack.
    let behind = |at: usize| hosts[at + 1..].iter().filter(|(_, tor)| *tor == hosts[at].1).count();
    let mut order: Vec<usize> = (0..most).rev().collect();
    order.sort_by_key(|&at| behind(at));
    Ok(order.into_iter().take(servers.into()).map(|at| hosts[at].0).collect())
}

/// A host's queue counts packets as they were before its agent pushed headers: it sends as fast as its link with them carries full packets.
const fn before_headers(rate_bps: u64, are_two: bool) -> u64 {
    let packet = (MTU_OVERLAY + ETHERNET) as u64;
    rate_bps * packet / (packet + if are_two { 2 * OUTER } else { OUTER } as u64)
}

/// Switches of the highest tier, if there are any above the ToRs.
fn intermediates(plan: &Plan, fabric: &Fabric) -> Vec<usize> {
    let top = fabric.top_tier();
    let all = fabric.switches_of_tier(top).map(|s| fabric.switch_node(s).index());
    if top <= 1 { Vec::new() } else { all.filter(|&i| plan.nodes[i].prefix.is_none()).collect() }
}

/// The address of each group and its members while all live.
fn groups(plan: &Plan, intermediates: &[usize], width: u16) -> Result<Vec<(Ipv4Addr, Vec<usize>)>, PlanError> {
    if intermediates.is_empty() {
        return Ok(Vec::new());
    }
    let width = NonZeroUsize::new(width.into()).ok_or(PlanError::Groups(GroupsError::NoIntermediates))?;
    let locators: Vec<IpAddr> = intermediates.iter().map(|&i| IpAddr::V4(plan.nodes[i].locator)).collect();
    let groups = Groups::new(locators.clone(), width, None)?;
    let index = |ip: &IpAddr| locators.iter().position(|l| l == ip).map(|at| intermediates[at]);
    let of = |group| groups.members(group, |_| true).iter().filter_map(index).collect();
    Ok(groups.ids().map(|group| (Ipv4Addr::from(ANYCAST_BASE + u32::from(group.0)), of(group))).collect())
}

/// The services, and that of each node.
fn services(plan: &Plan, overlay: &Overlay) -> (Vec<Service>, Vec<u32>) {
    let mut of_node = vec![0; plan.nodes.len()];
    let mut services = Vec::new();
    for (id, spec) in (1u32..).zip(&overlay.services) {
        services.push(Service { name: spec.name.clone(), id, allow: spec.allow.clone() });
        for &host in spec.hosts.iter().filter(|&&h| (h as usize) < plan.hosts().count()) {
            of_node[host as usize] = id;
        }
    }
    let id = services.len() as u32 + 1;
    let left: Vec<usize> = (0..plan.hosts().count()).filter(|&h| of_node[h] == 0).collect();
    if !left.is_empty() {
        services.push(Service { name: OTHERS.to_owned(), id, allow: Vec::new() });
        left.into_iter().for_each(|h| of_node[h] = id);
    }
    (services, of_node)
}

/// A block of /24s for each ToR, one for each of its hosts, and the routes to them.
fn place_entropy(plan: &mut Plan, vl2: &mut Vl2) -> Result<(), PlanError> {
    let mut next: u64 = ENTROPY_BASE.into();
    let tors: Vec<usize> = (0..plan.nodes.len()).filter(|&i| vl2.is_tor(i)).collect();
    for &tor in &tors {
        let count = vl2.hosts.iter().filter(|h| h.tor == tor).count() as u64;
        let size = (count + 1).next_power_of_two() * 256;
        let first = next.next_multiple_of(size);
        next = first + size;
        if next > ENTROPY_END.into() {
            return Err(PlanError::TooManySources { hosts: vl2.hosts.len() });
        }
        let block = Net { address: Ipv4Addr::from(first as u32), len: 32 - size.trailing_zeros() as u8 };
        for (i, host) in (1u32..).zip(vl2.hosts.iter_mut().filter(|h| h.tor == tor)) {
            host.entropy = Net { address: Ipv4Addr::from(first as u32 + 256 * i), len: 24 };
            let hop = Hop { gateway: plan.nodes[host.node].locator, port: host.port };
            plan.nodes[tor].local.push(Route { to: host.entropy, way: Way::Behind(hop) });
        }
        plan.nodes[tor].local.push(Route { to: block, way: Way::Unreachable });
        plan.nodes[tor].blocks.push(block);
        add_routes(plan, &[tor], block);
    }
    Ok(())
}

/// Each group's address at its members, and the routes to the nearest of them.
fn place_anycast(plan: &mut Plan, groups: &[(Ipv4Addr, Vec<usize>)]) {
    for (address, members) in groups {
        for &member in members {
            plan.nodes[member].anycast.push(*address);
        }
        add_routes(plan, members, Net::host(*address));
    }
}

/// Routes to a destination that several switches announce, at all others.
pub(super) fn add_routes(plan: &mut Plan, announced_by: &[usize], to: Net) {
    let distance = distances(&plan.nodes, announced_by);
    for i in 0..plan.nodes.len() {
        if plan.nodes[i].role != Role::Switch || announced_by.contains(&i) {
            continue;
        }
        let hops = nearer(&plan.nodes, i, &distance);
        if !hops.is_empty() {
            plan.nodes[i].fabric.push(Route { to, way: Way::Via(hops) });
        }
    }
}

const AA4_BASE: u32 = 20 << 24;
const AA6_BASE: u128 = 0xfd20 << 112;
/// 100.64.0.0 to 100.126.255.255: outer sources.
const ENTROPY_BASE: u32 = 100 << 24 | 64 << 16;
const ENTROPY_END: u32 = ANYCAST_BASE;
/// 100.127.0.0/16: groups.
const ANYCAST_BASE: u32 = 100 << 24 | 127 << 16;
/// The multicast groups of services: 239.1.0.0 and the service's number.
pub const MULTICAST: &str = "239.1.0.0/16";

#[cfg(test)]
mod tests;
