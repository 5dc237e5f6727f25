//! A server moves to another ToR while its connections go on (VL2 section 4.2.4): its AA stays, its LA is another.
//!
//! ```text
//!   agent of the host: detach --> old ToR delivers no more, and has senders corrected
//!   end of the cable: out of the old ToR's namespace, into the new one's; addresses, routes, rate
//!   agents of the host and of both ToRs: read their configurations anew (SIGHUP) --> attach --> ToR's table, directory
//! ```
//! The host's end of the cable stays where it is, and so do its AAs, its sockets, and the eBPF programs at it.

use std::sync::atomic::AtomicBool;

use weft_fabric::topology::Part;
use weft_fabric::{Fabric, NodeId};

use super::wanted::{Verb, Wanted};
use super::{Change, EventError, programs};
use crate::error::Result;
use crate::plan::overlay::LocatorKind;
use crate::plan::tenants::Netlord;
use crate::plan::{Plan, PortId, Role};
use crate::vl2::control;
use crate::{commands, ebpf, netlord, netns};

/// Who moves where, as indices into [`Plan::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub host: usize,
    pub tor: usize,
}

/// The moves among events, with their positions.
pub(super) fn routes(plan: &Plan, wanted: &[Wanted<'_>]) -> Result<Vec<(usize, Route)>, (usize, EventError)> {
    let mut moves: Vec<(usize, Route)> = Vec::new();
    for (index, event) in wanted.iter().enumerate().filter(|(_, e)| e.verb == Verb::Move) {
        let route = parse(plan, event.object).map_err(|error| (index, error))?;
        let before = moves.iter().rev().find(|(_, r)| r.host == route.host).map(|(_, r)| r.tor);
        let now = before.or_else(|| plan.overlay.as_ref().and_then(|vl2| vl2.host(route.host)).map(|h| h.tor));
        if now == Some(route.tor) {
            let (host, tor) = (&plan.nodes[route.host].name, &plan.nodes[route.tor].name);
            return Err((index, EventError::new(format!("{host} is at {tor} already"), "name another ToR")));
        }
        moves.push((index, route));
    }
    Ok(moves)
}

/// Reads `host h1 to tor2`.
fn parse(plan: &Plan, text: &str) -> Result<Route, EventError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["host", host, "to", tor] = words[..] else {
        return Err(EventError::new(format!("`{text}` does not say who moves where"), "write such as \"host h1 to tor2\""));
    };
    let Some(vl2) = &plan.overlay else {
        let help = "add `[overlay]` with kind = \"vl2\", or leave the event out";
        return Err(EventError::new("addresses that stay with a server that moves are those of an overlay", help));
    };
    let route = Route { host: programs::node(plan, host)?, tor: programs::node(plan, tor)? };
    let is_external = plan.outside.as_ref().is_some_and(|outside| outside.address_of(route.host).is_some());
    let (message, help) = if plan.nodes[route.host].role != Role::Host {
        (format!("{host} is a switch, and only servers move"), "name a host, such as \"host h1 to tor2\"")
    } else if !vl2.is_tor(route.tor) {
        (format!("{tor} is no ToR"), "name a switch that has hosts")
    } else if vl2.locator == LocatorKind::Host {
        let help = "write locator = \"tor\" in [overlay]";
        ("hosts that are their own locators have no ToR that corrects stale caches when they move".to_owned(), help)
    } else if vl2.directory.contains(&route.host) {
        (format!("a directory server runs on {host}"), "move a host with a lower number, or have fewer `servers` in [directory]")
    } else if is_external {
        (format!("{host} is reached from outside, by routes that stay"), "leave it out of `overlay.external`, or move another")
    } else {
        return Ok(route);
    };
    Err(EventError::new(message, help))
}

/// Whether a part is none of a move: neither a server that moves, nor its cable, nor a ToR that it leaves or comes to.
pub(super) fn stays(plan: &Plan, fabric: &Fabric, part: Part) -> Result<(), EventError> {
    let Some(vl2) = &plan.overlay else { return Ok(()) };
    let ends = match part {
        Part::Node(node) => vec![node.index()],
        Part::Cable(cable) => {
            let link = fabric.link(cable.links()[0]);
            [link.from, link.to].into_iter().filter(|&n| fabric.as_host(n).is_some()).map(NodeId::index).collect()
        }
    };
    let touched = |host: usize| {
        let first = vl2.host(host).map(|h| h.tor);
        let tors = vl2.moves.iter().filter(|m| m.host == host).map(|m| m.tor).chain(first);
        ends.contains(&host) || matches!(part, Part::Node(_)) && tors.into_iter().any(|tor| ends.contains(&tor))
    };
    match vl2.moves.iter().find(|m| touched(m.host)) {
        None => Ok(()),
        Some(moved) => Err(EventError::new(
            format!("{} moves in this run: neither it nor its ToRs can fail", plan.nodes[moved.host].name),
            "let another part fail, or make two scenarios of it",
        )),
    }
}

/// The moves of VMs among events, in their order.
pub(super) fn of_vms(plan: &Plan, wanted: &[Wanted<'_>]) -> Result<Vec<Change>, (usize, EventError)> {
    let Some(netlord) = &plan.tenants else { return Ok(Vec::new()) };
    let mut hosts: Vec<usize> = netlord.vms.iter().map(|vm| vm.host).collect();
    let mut moves = Vec::new();
    for (index, event) in wanted.iter().enumerate().filter(|(_, e)| e.verb == Verb::Move) {
        let (vm, to) = parse_vm(plan, netlord, event.object).map_err(|error| (index, error))?;
        if std::mem::replace(&mut hosts[vm], to) == to {
            let [vm, to] = [netlord.vms[vm].node, to].map(|node| &plan.nodes[node].name);
            return Err((index, EventError::new(format!("{vm} is on {to} already"), "name another host")));
        }
        moves.push(Change::MoveVm { vm, to });
    }
    Ok(moves)
}

/// Reads `vm acme-web1 to h3`.
fn parse_vm(plan: &Plan, netlord: &Netlord, text: &str) -> Result<(usize, usize), EventError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["vm", vm, "to", host] = words[..] else {
        return Err(EventError::new(format!("`{text}` does not say who moves where"), "write such as \"vm acme-web1 to h3\""));
    };
    let found = vm_of(plan, netlord, vm)?;
    let to = programs::node(plan, host)?;
    match plan.nodes[to].role {
        Role::Host => Ok((found, to)),
        _ => Err(EventError::new(format!("{host} is no host"), "name a host, such as \"vm acme-web1 to h3\"")),
    }
}

/// Reads `vm acme-web1`, who forges.
pub(super) fn forger(plan: &Plan, text: &str) -> Result<usize, EventError> {
    let Some(netlord) = &plan.tenants else {
        return Err(EventError::new(
            "VMs are those of a lab of tenants",
            "leave the event out, or write kind = \"netlord\" in [overlay]",
        ));
    };
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["vm", vm] => vm_of(plan, netlord, vm),
        _ => Err(EventError::new(format!("`{text}` does not say which VM"), "write such as \"vm acme-web1\"")),
    }
}

fn vm_of(plan: &Plan, netlord: &Netlord, name: &str) -> Result<usize, EventError> {
    netlord.vms.iter().position(|it| plan.nodes[it.node].name == name).ok_or_else(|| {
        let some: Vec<&str> = netlord.vms.iter().take(4).map(|it| plan.nodes[it.node].name.as_str()).collect();
        EventError::new(
            format!("there is no VM called `{name}`"),
            format!("VMs are called TENANT-VIF, such as {}", some.join(", ")),
        )
    })
}

/// Moves a VM; the plan says afterwards where it is.
pub(super) fn make_of_vm(plan: &mut Plan, which: usize, to: usize) -> Result<()> {
    let Some(netlord) = &plan.tenants else { return Ok(()) };
    netlord::migrate(plan, &netlord.vms[which], to)?;
    plan.move_vm(which, to);
    Ok(())
}

/// Makes a move; the plan says afterwards where everything is.
pub(super) fn make(plan: &mut Plan, which: usize, stop: &AtomicBool) -> Result<()> {
    let Some(vl2) = &plan.overlay else { return Ok(()) };
    let moved = vl2.moves[which].clone();
    let Some(overlaid) = vl2.host(moved.host).cloned() else { return Ok(()) };
    let (old, old_locator) = (plan.nodes[moved.host].ports[0].peer, plan.nodes[moved.host].locator);
    if !control::detach(plan, &overlaid) {
        tracing::warn!("the agent of {} did not give its addresses up: its ToR forgets them later", plan.nodes[moved.host].name);
    }
    let unplug = commands::unplug(plan.port(old), &plan.nodes[moved.tor], &moved.port);
    inside(plan, old.node, "ip", &unplug)?;
    plan.make_move(which);
    let PortId { node: tor, port } = plan.nodes[moved.host].ports[0].peer;
    let multicast = plan.has_multicast();
    inside(plan, tor, "ip", &commands::plug(&plan.nodes[tor], port, multicast))?;
    inside(plan, tor, "tc", &commands::shape(&plan.nodes[tor].ports[port]))?;
    netns::within(&plan.nodes[tor].namespace, || ebpf::Program::forget_hash()?.attach(&plan.nodes[tor].ports[port].name))?;
    inside(plan, moved.host, "ip", &commands::renumber(&plan.nodes[moved.host], old_locator))?;
    control::follow_move(plan, moved.host, old.node, stop)
}

fn inside(plan: &Plan, node: usize, program: &'static str, batch: &str) -> Result<()> {
    super::inside(&plan.nodes[node], program, batch)
}
