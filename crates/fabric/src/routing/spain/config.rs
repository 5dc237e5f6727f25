//! Configuration of the switches: the VLANs of each port. Static, until the topology changes (NetLord section 3.6).

use crate::ids::{CableId, SwitchId};
use crate::topology::Fabric;

use super::{Plan, VlanId};

/// A switch's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The switch.
    pub switch: SwitchId,
    /// Its ports, in the order in which its cables were added.
    pub ports: Vec<PortConfig>,
}

/// A port's VLANs, all of them tagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The cable that is plugged in.
    pub cable: CableId,
    /// Ascending, those of the trees that reach all agents at the end. A port to a host has all that reach the switch.
    pub vlans: Vec<VlanId>,
}

impl Plan {
    /// The configuration of all switches, ascending.
    pub fn switch_configs(&self, fabric: &Fabric) -> Vec<SwitchConfig> {
        let mut by_cable = vec![Vec::new(); fabric.cables().len()];
        let mut trees: Vec<(VlanId, &[CableId])> = self.trees().collect();
        trees.reverse();
        for (vlan, cables) in self.vlans().chain(trees) {
            for cable in cables {
                by_cable[cable.index()].push(vlan);
            }
        }
        fabric.switches().map(|switch| self.config(fabric, switch, &by_cable)).collect()
    }

    fn config(&self, fabric: &Fabric, switch: SwitchId, by_cable: &[Vec<VlanId>]) -> SwitchConfig {
        let out = fabric.out(fabric.switch_node(switch));
        // An edge switch is on every tree, though on a fabric of one switch no cable is.
        let trees = self.trees().map(|(vlan, _)| vlan).filter(|_| self.place[switch.index()].is_some());
        let mut all: Vec<VlanId> = out.iter().flat_map(|l| &by_cable[l.cable().index()]).copied().chain(trees).collect();
        all.sort_unstable();
        all.dedup();
        let port = |cable: CableId, to_host: bool| {
            let vlans = if to_host { all.clone() } else { by_cable[cable.index()].clone() };
            PortConfig { cable, vlans }
        };
        let ports = out.iter().map(|&l| port(l.cable(), fabric.as_host(fabric.link(l).to).is_some())).collect();
        SwitchConfig { switch, ports }
    }
}
