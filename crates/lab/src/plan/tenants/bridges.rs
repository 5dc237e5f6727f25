//! The switches: ports, VLANs, MAC addresses, and the tree that reaches all agents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_control::netlord::EdgePort;
use weft_fabric::routing::spain::Plan as Spain;
use weft_fabric::{CableId, Fabric, SwitchId};

use super::{Bridge, BridgePort, Plan, PlanError, Role, SPECIAL_VLAN};

/// Ports, VLANs and MAC addresses of all switches.
pub(super) fn of(plan: &Plan, fabric: &Fabric, spain: &Spain) -> Result<Vec<Bridge>, PlanError> {
    let tree = special_tree(fabric);
    let macs: BTreeMap<SwitchId, String> = (1u32..).zip(spain.edges()).map(|(i, &edge)| (edge, mac(i))).collect();
    let configs = spain.switch_configs(fabric);
    let mut bridges = Vec::with_capacity(configs.len());
    for config in &configs {
        let node = fabric.switch_node(config.switch).index();
        let mut number = 0u16;
        let mut ports = Vec::with_capacity(config.ports.len());
        for (at, port) in config.ports.iter().enumerate() {
            let is_host = plan.nodes[plan.nodes[node].ports[at].peer.node].role == Role::Host;
            number += u16::from(is_host);
            let mut vlans: Vec<u16> = port.vlans.iter().map(|v| v.0).collect();
            if is_host || tree.contains(&port.cable) {
                vlans.push(SPECIAL_VLAN);
            }
            let number = if is_host { Some(EdgePort::new(number)) } else { None };
            let number = number.map(|it| it.ok_or_else(|| too_many(plan, node))).transpose()?;
            ports.push(BridgePort { vlans, number: number.map(EdgePort::get), native: None });
        }
        let others = spain.edges().iter().filter(|&&edge| edge != config.switch && macs.contains_key(&config.switch));
        let paths = others.map(|&edge| {
            let vlans: Vec<u16> = spain.vlans_between(config.switch, edge).map(|v| v.0).collect();
            (macs[&edge].clone(), vlans)
        });
        bridges.push(Bridge { node, mac: macs.get(&config.switch).cloned(), ports, paths: paths.collect() });
    }
    Ok(bridges)
}

fn too_many(plan: &Plan, node: usize) -> PlanError {
    PlanError::Tenants(format!(
        "{} has more than 126 hosts, and NetLord numbers a switch's ports to them from 1 to 126",
        plan.nodes[node].name
    ))
}

/// Locally administered; the switch's number at the end.
fn mac(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("02:4e:4c:{a:02x}:{b:02x}:{c:02x}")
}

/// The cables of a tree that reaches all switches with hosts, by breadth from the switch that has the most cables to others.
fn special_tree(fabric: &Fabric) -> BTreeSet<CableId> {
    let trunks = |switch: SwitchId| {
        let out = fabric.out(fabric.switch_node(switch)).iter();
        out.filter_map(|&link| Some((link.cable(), fabric.as_switch(fabric.link(link).to)?)))
    };
    let mut roots: Vec<SwitchId> = fabric.switches().collect();
    roots.sort_by_key(|&switch| (std::cmp::Reverse(trunks(switch).count()), switch));
    let (mut reached, mut tree) = (BTreeSet::new(), BTreeSet::new());
    for root in roots {
        let mut next = VecDeque::from([root]);
        if !reached.insert(root) {
            continue;
        }
        while let Some(at) = next.pop_front() {
            for (cable, to) in trunks(at) {
                if reached.insert(to) {
                    tree.insert(cable);
                    next.push_back(to);
                }
            }
        }
    }
    prune(fabric, &mut tree);
    tree
}

/// Takes off the tree what leads to no host.
fn prune(fabric: &Fabric, tree: &mut BTreeSet<CableId>) {
    let has_host = |switch: SwitchId| {
        let mut out = fabric.out(fabric.switch_node(switch)).iter();
        out.any(|&link| fabric.as_host(fabric.link(link).to).is_some())
    };
    loop {
        let leaf = |switch: SwitchId| {
            let out = fabric.out(fabric.switch_node(switch)).iter();
            let mut here = out.map(|link| link.cable()).filter(|cable| tree.contains(cable));
            let one = here.next()?;
            (here.next().is_none() && !has_host(switch)).then_some(one)
        };
        let Some(cable) = fabric.switches().find_map(leaf) else { return };
        tree.remove(&cable);
    }
}
