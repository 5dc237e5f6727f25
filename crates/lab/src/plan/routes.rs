//! Routes: to one's own hosts, and along all shortest paths to all locators, as OSPF with equal costs finds them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::{Hop, Net, Node, Role, Route, RouteTarget};

/// Fills in `local` and `fabric` of all nodes, whose ports and addresses are there.
pub(super) fn fill(nodes: &mut [Node]) {
    for i in 0..nodes.len() {
        nodes[i].local = match nodes[i].role {
            Role::Host => of_host(nodes, i),
            Role::Switch => of_own_hosts(nodes, i),
            Role::Outside | Role::Vm => Vec::new(),
        };
    }
    let switches: Vec<usize> = (0..nodes.len()).filter(|&i| nodes[i].role == Role::Switch).collect();
    for &destination in &switches {
        let distance = distances(nodes, &[destination]);
        for &i in switches.iter().filter(|&&i| i != destination) {
            let hops = nearer(nodes, i, &distance);
            // Parts of the fabric that only hosts connect have no route to each other.
            if !hops.is_empty() {
                let routes = destinations(&nodes[destination]).map(|to| Route { to, target: RouteTarget::Via(hops.clone()) });
                let routes: Vec<Route> = routes.collect();
                nodes[i].fabric.extend(routes);
            }
        }
    }
}

/// What a switch announces: its prefix, and its locator if that is not of the prefix.
fn destinations(switch: &Node) -> impl Iterator<Item = Net> + use<> {
    let own = Net::host(switch.locator);
    let apart = switch.prefix.is_none_or(|p| !p.contains(own.address));
    switch.prefix.into_iter().chain(apart.then_some(own))
}

/// A default route by each port: the first for packets without a source address yet, each for those from the port's address.
fn of_host(nodes: &[Node], host: usize) -> Vec<Route> {
    let gateway = |port: usize| Hop { gateway: nodes[nodes[host].ports[port].peer.node].locator, port };
    (0..nodes[host].ports.len()).map(|port| Route { to: Net::DEFAULT, target: RouteTarget::Gateway(gateway(port)) }).collect()
}

fn of_own_hosts(nodes: &[Node], switch: usize) -> Vec<Route> {
    let own = nodes[switch].ports.iter().enumerate().filter_map(|(i, port)| {
        let peer = &nodes[port.peer.node];
        let address = peer.ports[port.peer.port].address.filter(|_| peer.role == Role::Host)?.address;
        Some(Route { to: Net::host(address), target: RouteTarget::Direct(i) })
    });
    let rest = nodes[switch].prefix.map(|to| Route { to, target: RouteTarget::Unreachable });
    own.chain(rest).collect()
}

/// Routes to a destination that several switches announce, at all others.
pub(super) fn add_routes(nodes: &mut [Node], announced_by: &[usize], to: Net) {
    let distance = distances(nodes, announced_by);
    for i in 0..nodes.len() {
        if nodes[i].role != Role::Switch || announced_by.contains(&i) {
            continue;
        }
        let hops = nearer(nodes, i, &distance);
        if !hops.is_empty() {
            nodes[i].fabric.push(Route { to, target: RouteTarget::Via(hops) });
        }
    }
}

/// Links from each switch to the nearest of the destinations; `None` for hosts, which do not forward, and what cannot reach any.
fn distances(nodes: &[Node], destinations: &[usize]) -> Vec<Option<u32>> {
    let mut distance = vec![None; nodes.len()];
    destinations.iter().for_each(|&destination| distance[destination] = Some(0));
    let mut queue: VecDeque<usize> = destinations.iter().copied().collect();
    while let Some(at) = queue.pop_front() {
        let next = distance[at].map(|d| d + 1);
        for peer in nodes[at].ports.iter().map(|p| p.peer.node).filter(|&p| nodes[p].role == Role::Switch) {
            if distance[peer].is_none() {
                distance[peer] = next;
                queue.push_back(peer);
            }
        }
    }
    distance
}

/// The neighbours that are a link nearer.
fn nearer(nodes: &[Node], at: usize, distance: &[Option<u32>]) -> Vec<Hop> {
    let Some(here) = distance[at] else { return Vec::new() };
    let leads_nearer = |peer: usize| distance[peer].is_some_and(|d| d + 1 == here);
    let ports = nodes[at].ports.iter().enumerate().filter(|(_, p)| leads_nearer(p.peer.node));
    ports.map(|(port, p)| Hop { gateway: address_of(nodes, p.peer.node, p.peer.port), port }).collect()
}

fn address_of(nodes: &[Node], node: usize, port: usize) -> Ipv4Addr {
    nodes[node].ports[port].address.expect("ports between switches are numbered").address
}
