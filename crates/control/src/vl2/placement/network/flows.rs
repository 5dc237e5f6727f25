//! Paths and the placements that make flows take them.

use weft_fabric::rng::mix;
use weft_fabric::routing::next_hops::Target;
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::{LinkId, NodeId};

use super::AgentNetwork;
use crate::vl2::placement::Placement;

impl AgentNetwork {
    /// The placement for a path: the switch at its top. Where several shortest paths lead to it or down from it, the path has an entropy value of its own.
    pub(in crate::vl2::placement) fn placement_of(&mut self, path: &Path) -> Option<Placement> {
        let fabric = std::sync::Arc::clone(self.identities.fabric());
        let ends = path.iter().map(|&link| fabric.link(link).to).filter_map(|node| fabric.as_switch(node));
        let top = ends.rev().max_by_key(|&switch| fabric.node(fabric.switch_node(switch)).tier)?;
        let intermediate = self.identities.locator(top)?;
        let rack = fabric.rack_of(fabric.as_host(fabric.link(*path.last()?).to)?);
        let mut has_passed = false;
        let mut has_choice = false;
        for &link in &path[1..] {
            let node = fabric.link(link).from;
            has_passed |= fabric.as_switch(node) == Some(top);
            let target = if has_passed { Target::Rack(rack) } else { Target::Switch(top) };
            has_choice |= self.next_hops.toward(&self.health, target, node).len() > 1;
        }
        let entropy = if has_choice { path.iter().fold(1, |hash, link| mix(hash ^ u64::from(link.0))) as u32 | 1 } else { 0 };
        Some(Placement { intermediate, entropy })
    }

    /// A path of a flow over an intermediate switch: the one that a scheduler takes a flow to have that was placed before it started.
    pub(in crate::vl2::placement) fn path_over(&mut self, key: FlowKey, placement: Placement) -> Option<Path> {
        let fabric = std::sync::Arc::clone(self.identities.fabric());
        let top = self.identities.switch_of(placement.intermediate)?;
        let mut path = Path::from_slice(fabric.out(key.src.node()));
        let step = |network: &mut Self, path: &mut Path, target: Target| -> Option<NodeId> {
            let node = fabric.link(*path.last()?).to;
            let next: Option<LinkId> = network.next_hops.toward(&network.health, target, node).first().copied();
            path.push(next?);
            (path.len() <= HOPS_MAX).then_some(node)
        };
        while fabric.as_switch(fabric.link(*path.last()?).to) != Some(top) {
            step(self, &mut path, Target::Switch(top))?;
        }
        let down = fabric.out(key.dst.node()).first()?.reverse();
        let edge = fabric.link(down).from;
        while fabric.link(*path.last()?).to != edge {
            step(self, &mut path, Target::Rack(fabric.rack_of(key.dst)))?;
        }
        path.push(down);
        Some(path)
    }
}

/// Links of a path, at most.
const HOPS_MAX: usize = 16;
