//! Shortest ways: for each target, the set of links that lead a switch one hop nearer.
//!
//! A row is computed by breadth-first search when a target is first asked for, in O(links), and kept until the fabric's health
//! changes. Sets are interned: in a regular fabric a switch has one set for "up" and one for each way down, so that a row is one
//! 32-bit number a node, and a look-up is two loads.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::{LinkId, NodeId, RackId, SwitchId};
use crate::topology::{Fabric, Health};

/// Where a path leads: to the switches of a rack, or to one switch (an intermediate, a root).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any of the switches that the rack's hosts attach to, over a link that is up.
    Rack(RackId),
    /// That switch.
    Switch(SwitchId),
}

/// Next hops of every node to every target, computed when needed.
#[derive(Clone, Debug)]
pub struct NextHops {
    fabric: Arc<Fabric>,
    /// By target (racks, then switches): for each node the number of its set.
    rows: Vec<Option<Box<[u32]>>>,
    /// By set: its bounds in `members`. Set 0 is empty.
    bounds: Vec<(u32, u32)>,
    members: Vec<LinkId>,
    interned: FxHashMap<Box<[LinkId]>, u32>,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    distance: Vec<u16>,
    queue: Vec<NodeId>,
    set: Vec<LinkId>,
}

const UNREACHED: u16 = u16::MAX;

impl NextHops {
    /// No rows yet.
    pub fn new(fabric: Arc<Fabric>) -> Self {
        let targets = fabric.racks().len() + fabric.switch_count();
        Self {
            fabric,
            rows: vec![None; targets],
            bounds: vec![(0, 0)],
            members: Vec::new(),
            interned: FxHashMap::default(),
            scratch: Scratch::default(),
        }
    }

    /// Forgets all rows: something failed or came back.
    pub fn invalidate(&mut self) {
        self.rows.fill(None);
    }

    /// The links over which `node` comes one hop nearer to `target`, in the order of its cables;
    /// empty at the target itself, and where there is no way.
    pub fn toward(&mut self, health: &Health, target: Target, node: NodeId) -> &[LinkId] {
        let row = self.row_index(target);
        if self.rows[row].is_none() {
            self.rows[row] = Some(self.search(health, target));
        }
        let set = self.rows[row].as_ref().expect("computed above")[node.index()];
        let (start, end) = self.bounds[set as usize];
        &self.members[start as usize..end as usize]
    }

    fn row_index(&self, target: Target) -> usize {
        match target {
            Target::Rack(rack) => rack.index(),
            Target::Switch(switch) => self.fabric.racks().len() + switch.index(),
        }
    }

    /// Breadth-first from the target against the direction of the links. Hosts never forward.
    fn search(&mut self, health: &Health, target: Target) -> Box<[u32]> {
        let fabric = Arc::clone(&self.fabric);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.distance.clear();
        scratch.distance.resize(fabric.nodes().len(), UNREACHED);
        scratch.queue.clear();
        for switch in targets(&fabric, target) {
            let node = fabric.switch_node(switch);
            if health.node_is_up(node) {
                scratch.distance[node.index()] = 0;
                scratch.queue.push(node);
            }
        }
        let mut head = 0;
        while let Some(&node) = scratch.queue.get(head) {
            head += 1;
            if fabric.as_host(node).is_some() {
                continue;
            }
            let next = scratch.distance[node.index()] + 1;
            for &out in fabric.out(node) {
                let from = fabric.link(out).to;
                if scratch.distance[from.index()] == UNREACHED && health.is_up(out.reverse()) {
                    scratch.distance[from.index()] = next;
                    scratch.queue.push(from);
                }
            }
        }
        let row = (0..fabric.nodes().len())
            .map(|i| self.set_of(&fabric, health, NodeId::from(i), &scratch.distance, &mut scratch.set))
            .collect();
        self.scratch = scratch;
        row
    }

    fn set_of(&mut self, fabric: &Fabric, health: &Health, node: NodeId, distance: &[u16], set: &mut Vec<LinkId>) -> u32 {
        let here = distance[node.index()];
        if here == 0 || here == UNREACHED {
            return 0;
        }
        set.clear();
        set.extend(fabric.out(node).iter().filter(|&&l| {
            let to = fabric.link(l).to;
            distance[to.index()] == here - 1 && fabric.as_host(to).is_none() && health.is_up(l)
        }));
        if let Some(&known) = self.interned.get(&set[..]) {
            return known;
        }
        let id = u32::try_from(self.bounds.len()).expect("fewer than 2^32 sets");
        let start = self.members.len() as u32;
        self.members.extend_from_slice(set);
        self.bounds.push((start, self.members.len() as u32));
        self.interned.insert(set[..].into(), id);
        id
    }
}

fn targets(fabric: &Fabric, target: Target) -> Vec<SwitchId> {
    match target {
        Target::Rack(rack) => fabric.racks()[rack.index()].switches.clone(),
        Target::Switch(switch) => vec![switch],
    }
}
