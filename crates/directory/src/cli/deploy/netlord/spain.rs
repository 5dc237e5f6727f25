//! The fabric of an inventory: its cables as SPAIN's VLANs, and what each port of a switch and each pair of edge switches has of them.
//!
//! ```text
//!   switches, cables, uplinks --> Fabric --SPAIN--> Layout --> [[port]] of switches, [[path]] of servers
//! ```

use std::collections::BTreeMap;

use weft_control::netlord::vlans::Vlans;
use weft_fabric::routing::spain::{Plan, SpainConfig, SpainError, VlanId};
use weft_fabric::topology::{Fabric, FabricBuilder, FabricError};
use weft_fabric::{BitsPerSec, Duration, MacAddr, SwitchId};

use super::inventory::{Netlord, Role};
use super::layout::{Layout, Port};

/// Why there is no layout.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli::deploy) enum LayoutError {
    #[error(transparent)]
    Fabric(#[from] FabricError),
    #[error(transparent)]
    Spain(#[from] SpainError),
}

/// The devices of a switch and their ports' numbers, in the order of its cables.
type Devices = Vec<(String, Option<u16>)>;

/// Plans the VLANs. Ends of cables are written as switch and interface, and of switches that there are.
///
/// # Errors
/// [`LayoutError`] if the switches are not all connected, or need too many VLANs.
pub(in crate::cli::deploy) fn layout(netlord: &Netlord) -> Result<Layout, LayoutError> {
    let (fabric, devices) = fabric(netlord)?;
    let is_edge = |id: &SwitchId| netlord.switch[id.index()].role == Role::Edge;
    let config = SpainConfig { paths: *netlord.paths.get_ref(), trees: *netlord.trees.get_ref(), ..SpainConfig::default() };
    let plan = Plan::between(&fabric, fabric.switches().filter(is_edge).collect(), &config)?;
    let configs = plan.switch_configs(&fabric).into_iter();
    let ports = configs.zip(devices).map(|(config, devices)| {
        let of = |((device, number), vlans)| Port { device, vlans, number };
        let vlans = config.ports.iter().map(|it| of_numbers(it.vlans.iter().copied()));
        let name = netlord.switch[config.switch.index()].name.get_ref().clone();
        (name, devices.into_iter().zip(vlans).map(of).collect())
    });
    let ports = ports.collect();
    let special = plan.trees().map(|(vlan, _)| vlan.0).collect();
    Ok(Layout { special, ports, paths: paths(netlord, &plan) })
}

/// The VLANs between all edge switches.
fn paths(netlord: &Netlord, plan: &Plan) -> BTreeMap<MacAddr, BTreeMap<MacAddr, Vlans>> {
    let edges: Vec<(SwitchId, MacAddr)> = plan.edges().iter().filter_map(|&id| Some((id, mac_of(netlord, id)?))).collect();
    let from = |&(id, mac): &(SwitchId, MacAddr)| {
        let others = edges.iter().filter(|(other, _)| *other != id);
        let table = others.map(|&(other, to)| (to, of_numbers(plan.vlans_between(id, other)))).collect();
        (mac, table)
    };
    edges.iter().map(from).collect()
}

fn mac_of(netlord: &Netlord, id: SwitchId) -> Option<MacAddr> {
    netlord.switch[id.index()].mac.as_ref()?.get_ref().parse().ok()
}

fn of_numbers(vlans: impl Iterator<Item = VlanId>) -> Vlans {
    Vlans::of(vlans.map(|it| it.0))
}

/// The switches in the order of the inventory, cables first, then servers.
fn fabric(netlord: &Netlord) -> Result<(Fabric, Vec<Devices>), FabricError> {
    let mut builder = FabricBuilder::new("inventory");
    let mut switches: BTreeMap<&str, SwitchId> = BTreeMap::new();
    for switch in &netlord.switch {
        let tier = if switch.role == Role::Edge { 1 } else { 2 };
        switches.insert(switch.name.get_ref(), builder.switch(switch.name.get_ref().as_str(), tier, None));
    }
    let mut devices: Vec<Devices> = netlord.switch.iter().map(|_| Devices::new()).collect();
    let end = |text: &str| {
        let (switch, device) = text.split_once(':')?;
        Some((*switches.get(switch)?, device.to_owned()))
    };
    let mut plug = |(id, device): (SwitchId, String), number| devices[id.index()].push((device, number));
    for cable in &netlord.cable {
        let ends = cable.ends.get_ref();
        let [Some(a), Some(b)] = [0, 1].map(|at| ends.get(at).and_then(|it| end(it.get_ref()))) else { continue };
        builder.cable(a.0, b.0, RATE, Duration::ZERO);
        plug(a, None);
        plug(b, None);
    }
    for host in &netlord.host {
        let node = builder.host(host.name.get_ref().as_str(), None);
        for uplink in &host.uplinks {
            let Some(at) = end(uplink.port.get_ref()) else { continue };
            builder.cable(node, at.0, RATE, Duration::ZERO);
            plug(at, Some(*uplink.number.get_ref()));
        }
    }
    Ok((builder.build()?, devices))
}

/// SPAIN counts hops, whatever the rates.
const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
