//! What can fail: cables and switches, and the switches that fail together.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weft_fabric::Fabric;
use weft_fabric::ids::{CableId, NodeId};

use crate::network::{Index, Network};

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A cable between two switches. That of a host costs this host, and is left out.
    Cable,
    /// A switch.
    Switch,
    /// All switches of a pod: their power, or the row.
    Pod,
    /// Switches of the highest tier with the same neighbours, where there are several such sets: a plane of a fat-tree.
    Plane,
}

/// A part that fails as a whole.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its kind.
    pub kind: Kind,
    /// `link tor0-agg1`, `switch agg1`, `pod 3`, `plane of core0`.
    pub name: String,
    /// The tier of a switch, or the higher one of a cable; 0 for sets.
    pub tier: u8,
    members: Members,
}

#[derive(Clone, Debug)]
enum Members {
    Cable(CableId),
    Switches(Vec<Index>),
}

impl Part {
    /// Takes it away. Parts may overlap (a switch and its pod): [`restore`] gives all back.
    fn fail(&self, network: &mut Network) {
        match &self.members {
            Members::Cable(cable) => network.set_cable(*cable, false),
            Members::Switches(switches) => switches.iter().for_each(|&switch| network.set_switch(switch, false)),
        }
    }

    fn restore(&self, network: &mut Network) {
        match &self.members {
            Members::Cable(cable) => network.set_cable(*cable, true),
            Members::Switches(switches) => switches.iter().for_each(|&switch| network.set_switch(switch, true)),
        }
    }
}

/// Evaluates something while these parts, each named once, are away.
pub fn without<T>(network: &mut Network, parts: &[&Part], evaluate: impl FnOnce(&Network) -> T) -> T {
    parts.iter().for_each(|part| part.fail(network));
    let result = evaluate(network);
    parts.iter().for_each(|part| part.restore(network));
    result
}

/// All parts of these kinds, in the fabric's order.
pub fn all(fabric: &Fabric, network: &Network, kinds: &[Kind]) -> Vec<Part> {
    let of = |kind| match kind {
        Kind::Cable => cables(fabric),
        Kind::Switch => switches(fabric, network),
        Kind::Pod => pods(fabric, network),
        Kind::Plane => planes(fabric, network),
    };
    kinds.iter().flat_map(|&kind| of(kind)).collect()
}

fn cables(fabric: &Fabric) -> Vec<Part> {
    let part = |cable: CableId| {
        let link = cable.links()[0];
        let tiers = [fabric.link(link).from, fabric.link(link).to].map(|end| fabric.node(end).tier);
        let name = format!("link {}", fabric.link_name(link));
        (tiers[0].min(tiers[1]) > 0).then(|| Part {
            kind: Kind::Cable,
            name,
            tier: tiers[0].max(tiers[1]),
            members: Members::Cable(cable),
        })
    };
    fabric.cables().filter_map(part).collect()
}

fn switches(fabric: &Fabric, network: &Network) -> Vec<Part> {
    let part = |id: NodeId| {
        let node = fabric.node(id);
        let members = Members::Switches(vec![network.node_of(fabric, id)]);
        Part { kind: Kind::Switch, name: format!("switch {}", node.name), tier: node.tier, members }
    };
    fabric.switches().map(|s| part(fabric.switch_node(s))).collect()
}

fn pods(fabric: &Fabric, network: &Network) -> Vec<Part> {
    let mut pods: BTreeMap<u32, Vec<Index>> = BTreeMap::new();
    for id in fabric.switches().map(|s| fabric.switch_node(s)) {
        if let Some(pod) = fabric.node(id).pod {
            pods.entry(pod).or_default().push(network.node_of(fabric, id));
        }
    }
    let several = pods.len() > 1;
    let part =
        |(pod, switches)| Part { kind: Kind::Pod, name: format!("pod {pod}"), tier: 0, members: Members::Switches(switches) };
    pods.into_iter().filter(|_| several).map(part).collect()
}

fn planes(fabric: &Fabric, network: &Network) -> Vec<Part> {
    let mut planes: BTreeMap<Vec<NodeId>, Vec<NodeId>> = BTreeMap::new();
    for id in fabric.switches_of_tier(fabric.top_tier()).map(|s| fabric.switch_node(s)) {
        let mut below: Vec<NodeId> = fabric.out(id).iter().map(|&l| fabric.link(l).to).collect();
        below.sort_unstable();
        planes.entry(below).or_default().push(id);
    }
    let several = planes.len() > 1 && planes.values().any(|plane| plane.len() > 1);
    let part = |plane: Vec<NodeId>| {
        let members = Members::Switches(plane.iter().map(|&id| network.node_of(fabric, id)).collect());
        Part { kind: Kind::Plane, name: format!("plane of {}", fabric.node(plane[0]).name), tier: 0, members }
    };
    let mut planes: Vec<Vec<NodeId>> = planes.into_values().filter(|_| several).collect();
    planes.sort_unstable();
    planes.into_iter().map(part).collect()
}
