//! Valiant Load Balancing by routes alone (VL2 section 4.2.2, without tunnels): packets from below go up, by the flow's hash, to an intermediate switch,
//! and from there to their destination.
//!
//! ```text
//!   int0  int1  int2       198.18.0.1 on lo of each; main table: OSPF's routes down
//!    | \  / | \ / |
//!   agg0   agg1  ...       from below: table 200, default by the paths to 198.18.0.1     from above: main table
//!    |  \ /  |
//!   tor0   tor1            from a host: table 200, likewise
//! ```
//! With FRR the intermediate switches announce one anycast address, and zebra resolves table 200's default route to OSPF's next hops for it (a recursive
//! static route): links that OSPF does not use yet are not used here either. With static routes table 200 has all uplinks, and the kernel ignores those
//! without carrier. Packets between hosts of one rack cross an intermediate switch too, which VL2's agents spare them.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weft_fabric::{Fabric, NodeId};

use crate::batch::batch;
use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::plan::{Net, Node, Plan, Port, Role, Routing};
use crate::programs::pause;
use crate::{frr, netns, state};

/// Installs it in all switches, and waits until FRR has found the routes.
pub(crate) fn install(plan: &Plan, fabric: &Fabric, stop: &AtomicBool) -> Result<()> {
    let switches: Vec<usize> = (0..plan.nodes.len()).filter(|&i| plan.nodes[i].role == Role::Switch).collect();
    netns::each(&switches, stop, |&i| {
        let node = &plan.nodes[i];
        netns::enter(&node.namespace)?;
        batch("ip", &rules(plan, fabric, i), &node.namespace)?;
        match plan.routing {
            Routing::Static => batch("ip", &routes(plan, fabric, i, &|_| true), &node.namespace),
            Routing::Frr => follow_ospf(plan, fabric, i),
            Routing::Openflow => Ok(()),
        }
    })?;
    match plan.routing {
        Routing::Static | Routing::Openflow => Ok(()),
        Routing::Frr => converge(plan, fabric, &switches, stop),
    }
}

/// `ip`, in the namespace of a switch: packets from below use the table; nothing for an intermediate switch.
fn rules(plan: &Plan, fabric: &Fabric, switch: usize) -> String {
    let below = |p: &&Port| uplinks(plan, fabric, switch).next().is_some() && tier(fabric, p.peer.node) < tier(fabric, switch);
    let rule = |p: &Port| format!("rule add iif {} lookup {TABLE} pref {PREFERENCE}\n", p.name);
    plan.nodes[switch].ports.iter().filter(below).map(rule).collect()
}

/// `ip`, in the namespace of a switch without FRR, some of whose ports, by their indices, can be used: the table.
pub(crate) fn routes(plan: &Plan, fabric: &Fabric, switch: usize, usable: &dyn Fn(usize) -> bool) -> String {
    let mut hops = String::new();
    for (_, port) in uplinks(plan, fabric, switch).filter(|(i, _)| usable(*i)) {
        if let Some(gateway) = plan.port(port.peer).address {
            write!(hops, " nexthop via {} dev {}", gateway.address, port.name).expect("a text grows");
        }
    }
    if hops.is_empty() { hops } else { format!("route add default table {TABLE}{hops}\n") }
}

/// An intermediate switch announces the anycast address, the others resolve their table's route to it. In the switch's namespace.
fn follow_ospf(plan: &Plan, fabric: &Fabric, switch: usize) -> Result<()> {
    let node = &plan.nodes[switch];
    let folder = state::daemons(&state::path(&plan.name));
    let anycast = Net::host(ANYCAST);
    if uplinks(plan, fabric, switch).next().is_some() {
        return frr::start_staticd(plan, node, &folder, &default_route());
    }
    batch("ip", &format!("addr add {anycast} dev lo\n"), &node.namespace)?;
    frr::announce(plan, node, &folder, anycast)
}

/// As [`follow_ospf`] for a switch whose daemons have been started again, in its namespace: its addresses are still configured.
pub(crate) fn reconfigure(plan: &Plan, fabric: &Fabric, switch: usize) -> Result<()> {
    let node = &plan.nodes[switch];
    let folder = state::daemons(&state::path(&plan.name));
    if uplinks(plan, fabric, switch).next().is_some() {
        return frr::start_staticd(plan, node, &folder, &default_route());
    }
    frr::announce(plan, node, &folder, Net::host(ANYCAST))
}

/// For staticd: table 200 follows OSPF's routes to the anycast address.
fn default_route() -> String {
    format!("ip route 0.0.0.0/0 {ANYCAST} table {TABLE}\n")
}

/// Waits until every switch's table has all its uplinks.
fn converge(plan: &Plan, fabric: &Fabric, switches: &[usize], stop: &AtomicBool) -> Result<()> {
    let timeout = TIMEOUT + Duration::from_secs(plan.timers.dead_s.into());
    let deadline = Deadline::after(timeout);
    loop {
        let missing = netns::each(switches, stop, |&i| {
            let node = &plan.nodes[i];
            netns::enter(&node.namespace)?;
            Ok(uplinks(plan, fabric, i).count().saturating_sub(next_hops(node)?))
        })?;
        let Some(example) = missing.iter().position(|&m| m > 0) else { return Ok(()) };
        if deadline.has_passed() {
            let example = format!("uplinks of {}", plan.nodes[switches[example]].name);
            return Err(LabError::NotConverged { seconds: timeout.as_secs(), missing: missing.iter().sum(), example });
        }
        pause(stop)?;
    }
}

/// Next hops of the table's default route, in the namespace that the thread is in.
fn next_hops(node: &Node) -> Result<usize> {
    // The table does not exist before its first route.
    let text = netns::output("ip", &["-j", "route", "show", "table", "all", "default"], &node.namespace)?;
    let routes: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let route = routes.iter().find(|r| r["table"].as_str() == Some(&TABLE.to_string()));
    Ok(route.map_or(0, |r| r["nexthops"].as_array().map_or(1, Vec::len)))
}

/// Ports to switches of a higher tier, and their indices.
fn uplinks<'a>(plan: &'a Plan, fabric: &'a Fabric, switch: usize) -> impl Iterator<Item = (usize, &'a Port)> {
    let ports = plan.nodes[switch].ports.iter().enumerate();
    ports.filter(move |(_, p)| tier(fabric, p.peer.node) > tier(fabric, switch))
}

fn tier(fabric: &Fabric, node: usize) -> u8 {
    fabric.node(NodeId::from(node)).tier
}

/// The anycast address of the intermediate switches, from the range for benchmarks (RFC 2544).
const ANYCAST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const TABLE: u32 = 200;
/// The priority of the rule, before the main table.
const PREFERENCE: u32 = 100;
/// How long to wait for the routes, besides the dead interval.
const TIMEOUT: Duration = Duration::from_secs(30);
