//! The switches: ports, VLANs, MAC addresses.

use std::collections::BTreeMap;

use weft_control::netlord::{EdgePort, edge_mac};
use weft_fabric::routing::spain::Plan as Spain;
use weft_fabric::{Fabric, SwitchId};

use super::{Bridge, BridgePort};
use crate::plan::{Plan, PlanError, Role};

/// Ports, VLANs and MAC addresses of all switches.
pub(super) fn of(plan: &Plan, fabric: &Fabric, spain: &Spain) -> Result<Vec<Bridge>, PlanError> {
    let macs: BTreeMap<SwitchId, String> =
        (1u32..).zip(spain.edges()).map(|(i, &edge)| (edge, edge_mac(i).to_string())).collect();
    let configs = spain.switch_configs(fabric);
    let mut bridges = Vec::with_capacity(configs.len());
    for config in &configs {
        let node = fabric.switch_node(config.switch).index();
        let too_many = || PlanError::TooManyPorts { switch: plan.nodes[node].name.clone() };
        let mut number = 0u16;
        let mut ports = Vec::with_capacity(config.ports.len());
        for (at, port) in config.ports.iter().enumerate() {
            let is_host = plan.nodes[plan.nodes[node].ports[at].peer.node].role == Role::Host;
            number += u16::from(is_host);
            let vlans: Vec<u16> = port.vlans.iter().map(|v| v.0).collect();
            let number = if is_host { Some(EdgePort::new(number)) } else { None };
            let number = number.map(|it| it.ok_or_else(too_many)).transpose()?;
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
