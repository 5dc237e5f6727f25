//! Valiant Load Balancing by routes alone (VL2 section 4.2.2, without tunnels): what comes from below goes on up, by the flow's hash, until it
//! has reached an intermediate switch; only from there on does it take the way to its destination.
//!
//! ```text
//!   int0  int1  int2       198.18.0.1 on lo of each; main table: OSPF's routes down
//!    | \  / | \ / |
//!   agg0   agg1  ...       from below: table 200, default by the ways to 198.18.0.1      from above: main table
//!    |  \ /  |
//!   tor0   tor1            from a host: table 200, likewise
//! ```
//! With FRR the intermediate switches announce one anycast address, and zebra keeps table 200's default route on OSPF's ways to it (a recursive
//! static route): a link that OSPF does not use yet is not used here either. Without it table 200 has all ports up, and the kernel passes over those
//! without carrier. Hosts of one rack meet at an intermediate too, as with VL2's agents.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weft_fabric::{Fabric, NodeId};

use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::plan::{Net, Node, Plan, Port, Role, Routing};
use crate::{frr, netns, state};

/// Installs it in all switches, and waits until FRR has found the ways.
pub(crate) fn install(plan: &Plan, fabric: &Fabric, stop: &AtomicBool) -> Result<()> {
    let switches: Vec<usize> = (0..plan.nodes.len()).filter(|&i| plan.nodes[i].role == Role::Switch).collect();
    netns::each(&switches, stop, |&i| {
        let node = &plan.nodes[i];
        netns::enter(&node.namespace)?;
        netns::batch("ip", &rules(plan, fabric, i), &node.namespace)?;
        match plan.routing {
            Routing::Static => netns::batch("ip", &routes(plan, fabric, i, &|_| true), &node.namespace),
            Routing::Frr => follow_ospf(plan, fabric, i),
        }
    })?;
    match plan.routing {
        Routing::Static => Ok(()),
        Routing::Frr => converge(plan, fabric, &switches, stop),
    }
}

/// `ip`, in the namespace of a switch: what comes from below goes by the table; nothing for an intermediate one.
fn rules(plan: &Plan, fabric: &Fabric, switch: usize) -> String {
    let below = |p: &&Port| ups(plan, fabric, switch).next().is_some() && tier(fabric, p.peer.node) < tier(fabric, switch);
    let rule = |p: &Port| format!("rule add iif {} lookup {TABLE} pref {PREFERENCE}\n", p.name);
    plan.nodes[switch].ports.iter().filter(below).map(rule).collect()
}

/// `ip`, in the namespace of a switch without FRR, some of whose ports, by their indices, can be used: the table.
pub(crate) fn routes(plan: &Plan, fabric: &Fabric, switch: usize, usable: &dyn Fn(usize) -> bool) -> String {
    let mut hops = String::new();
    for (_, port) in ups(plan, fabric, switch).filter(|(i, _)| usable(*i)) {
        if let Some(gateway) = plan.port(port.peer).address {
            write!(hops, " nexthop via {} dev {}", gateway.address, port.name).expect("a text grows");
        }
    }
    if hops.is_empty() { hops } else { format!("route add default table {TABLE}{hops}\n") }
}

/// An intermediate switch announces the anycast address, the others keep their table on the ways to it. In the switch's namespace.
fn follow_ospf(plan: &Plan, fabric: &Fabric, switch: usize) -> Result<()> {
    let node = &plan.nodes[switch];
    let folder = state::daemons(&state::path(&plan.name));
    let anycast = Net::host(ANYCAST);
    if ups(plan, fabric, switch).next().is_some() {
        return frr::start_staticd(plan, node, &folder, &default_route());
    }
    netns::batch("ip", &format!("addr add {anycast} dev lo\n"), &node.namespace)?;
    frr::announce(plan, node, &folder, anycast)
}

/// The same for a switch whose daemons have been started again, in its namespace: its devices have what they had.
pub(crate) fn follow_again(plan: &Plan, fabric: &Fabric, switch: usize) -> Result<()> {
    let node = &plan.nodes[switch];
    let folder = state::daemons(&state::path(&plan.name));
    if ups(plan, fabric, switch).next().is_some() {
        return frr::start_staticd(plan, node, &folder, &default_route());
    }
    frr::announce(plan, node, &folder, Net::host(ANYCAST))
}

/// For staticd: table 200 follows OSPF's ways to the anycast address.
fn default_route() -> String {
    format!("ip route 0.0.0.0/0 {ANYCAST} table {TABLE}\n")
}

/// Waits until every switch's table has all its ports up.
fn converge(plan: &Plan, fabric: &Fabric, switches: &[usize], stop: &AtomicBool) -> Result<()> {
    let within = WITHIN + Duration::from_secs(plan.timers.dead_s.into());
    let deadline = Deadline::after(within);
    loop {
        let missing = netns::each(switches, stop, |&i| {
            let node = &plan.nodes[i];
            netns::enter(&node.namespace)?;
            Ok(ups(plan, fabric, i).count().saturating_sub(next_hops(node)?))
        })?;
        let Some(example) = missing.iter().position(|&m| m > 0) else { return Ok(()) };
        if deadline.has_passed() {
            let example = format!("the way up at {}", plan.nodes[switches[example]].name);
            return Err(LabError::NotConverged { seconds: within.as_secs(), missing: missing.iter().sum(), example });
        }
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        std::thread::sleep(POLL);
    }
}

/// Next hops of the table's default route, in the namespace that the thread is in.
fn next_hops(node: &Node) -> Result<usize> {
    // There is no such table before its first route.
    let text = netns::output("ip", &["-j", "route", "show", "table", "all", "default"], &node.namespace)?;
    let routes: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let route = routes.iter().find(|r| r["table"].as_str() == Some(&TABLE.to_string()));
    Ok(route.map_or(0, |r| r["nexthops"].as_array().map_or(1, Vec::len)))
}

/// Ports that lead up, and their indices.
fn ups<'a>(plan: &'a Plan, fabric: &'a Fabric, switch: usize) -> impl Iterator<Item = (usize, &'a Port)> {
    let ports = plan.nodes[switch].ports.iter().enumerate();
    ports.filter(move |(_, p)| tier(fabric, p.peer.node) > tier(fabric, switch))
}

fn tier(fabric: &Fabric, node: usize) -> u8 {
    fabric.node(NodeId::from(node)).tier
}

/// Of the intermediate switches together; of the addresses that are kept for measurements of networks (RFC 2544).
const ANYCAST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const TABLE: u32 = 200;
/// Before the main table.
const PREFERENCE: u32 = 100;
const WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
