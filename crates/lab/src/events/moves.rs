//! Events that move servers (VL2) or VMs (NetLord), and those that forge: who moves where, and what cannot move.

use weft_fabric::topology::Part;
use weft_fabric::{Fabric, NodeId};

use super::spec::{EventSpec, Verb};
use super::{Change, EventError, programs};
use crate::error::Result;
use crate::plan::netlord::Netlord;
use crate::plan::vl2::LocatorKind;
use crate::plan::{Plan, Role};

/// A server that moves to a ToR, both as indices into [`Plan::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub host: usize,
    pub tor: usize,
}

/// The moves of servers among events, with their indices.
pub(super) fn of_hosts(plan: &Plan, specs: &[EventSpec<'_>]) -> Result<Vec<(usize, Move)>, (usize, EventError)> {
    let mut moves: Vec<(usize, Move)> = Vec::new();
    for (index, event) in specs.iter().enumerate().filter(|(_, e)| e.verb == Verb::Move) {
        let moved = parse(plan, event.object).map_err(|error| (index, error))?;
        let before = moves.iter().rev().find(|(_, m)| m.host == moved.host).map(|(_, m)| m.tor);
        let now = before.or_else(|| plan.overlay.vl2().and_then(|vl2| vl2.host(moved.host)).map(|h| h.tor));
        if now == Some(moved.tor) {
            let [host, tor] = [moved.host, moved.tor].map(|node| plan.nodes[node].name.clone());
            return Err((index, EventError::AtTor { host, tor }));
        }
        moves.push((index, moved));
    }
    Ok(moves)
}

/// Reads `host h1 to tor2`.
fn parse(plan: &Plan, text: &str) -> Result<Move, EventError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["host", host, "to", tor] = words[..] else {
        return Err(EventError::HostMove { text: text.to_owned() });
    };
    let vl2 = plan.overlay.vl2().ok_or(EventError::NotVl2)?;
    let moved = Move { host: programs::node(plan, host)?, tor: programs::node(plan, tor)? };
    let is_external = plan.outside.as_ref().is_some_and(|outside| outside.address_of(moved.host).is_some());
    let name = |name: &str| name.to_owned();
    Err(if plan.nodes[moved.host].role != Role::Host {
        EventError::SwitchMove { name: name(host) }
    } else if !vl2.is_tor(moved.tor) {
        EventError::NotATor { name: name(tor) }
    } else if vl2.locator == LocatorKind::Host {
        EventError::HostLocators
    } else if vl2.directory.hosts.contains(&moved.host) {
        EventError::DirectoryHost { host: name(host) }
    } else if is_external {
        EventError::ExternalHost { host: name(host) }
    } else {
        return Ok(moved);
    })
}

/// Checks that a part is not involved in a move: that it is neither a server that moves, nor its cable, nor its old or new ToR.
pub(super) fn check_not_moving(plan: &Plan, fabric: &Fabric, part: Part) -> Result<(), EventError> {
    let Some(vl2) = plan.overlay.vl2() else { return Ok(()) };
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
        Some(moved) => Err(EventError::FailsAndMoves { host: plan.nodes[moved.host].name.clone() }),
    }
}

/// The moves of VMs among events, in order.
pub(super) fn of_vms(plan: &Plan, specs: &[EventSpec<'_>]) -> Result<Vec<Change>, (usize, EventError)> {
    let Some(netlord) = plan.overlay.netlord() else { return Ok(Vec::new()) };
    let mut hosts: Vec<usize> = netlord.vms.iter().map(|vm| vm.host).collect();
    let mut moves = Vec::new();
    for (index, event) in specs.iter().enumerate().filter(|(_, e)| e.verb == Verb::Move) {
        let (vm, to) = parse_vm(plan, netlord, event.object).map_err(|error| (index, error))?;
        if std::mem::replace(&mut hosts[vm], to) == to {
            let [vm, host] = [netlord.vms[vm].node, to].map(|node| plan.nodes[node].name.clone());
            return Err((index, EventError::OnHost { vm, host }));
        }
        moves.push(Change::MoveVm { vm, to });
    }
    Ok(moves)
}

/// Reads `vm acme-web1 to h3`.
fn parse_vm(plan: &Plan, netlord: &Netlord, text: &str) -> Result<(usize, usize), EventError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["vm", vm, "to", host] = words[..] else {
        return Err(EventError::VmMove { text: text.to_owned() });
    };
    let found = vm_of(plan, netlord, vm)?;
    let to = programs::node(plan, host)?;
    match plan.nodes[to].role {
        Role::Host => Ok((found, to)),
        _ => Err(EventError::NotAHost { name: host.to_owned() }),
    }
}

/// Reads `vm acme-web1`, the VM that forges.
pub(super) fn forger(plan: &Plan, text: &str) -> Result<usize, EventError> {
    let netlord = plan.overlay.netlord().ok_or(EventError::NotNetlord)?;
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["vm", vm] => vm_of(plan, netlord, vm),
        _ => Err(EventError::Forger { text: text.to_owned() }),
    }
}

fn vm_of(plan: &Plan, netlord: &Netlord, name: &str) -> Result<usize, EventError> {
    netlord.vms.iter().position(|it| plan.nodes[it.node].name == name).ok_or_else(|| {
        let known = netlord.vms.iter().take(4).map(|it| plan.nodes[it.node].name.clone()).collect();
        EventError::NoVm { name: name.to_owned(), known }
    })
}
