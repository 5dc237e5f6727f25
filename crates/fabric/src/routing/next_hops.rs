//! Shortest paths: for each target, the set of links that lead a switch one hop nearer.
//!
//! The distances of a row are computed by breadth-first search when a target is first asked for, in O(links), the set of a switch when that
//! switch is; both are kept until the fabric's health changes. Sets are interned: in a regular fabric a switch has one set for "up" and one
//! for each way down, so that a row has one 32-bit number a switch, and a lookup is two loads. A host with one NIC has no place in a row: it
//! has no choice.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::{HostId, LinkId, NodeId, RackId, SwitchId};
use crate::topology::switch_graph::SwitchGraph;
use crate::topology::{Fabric, Health};

/// Where a path leads: to the switches of a rack, or to one switch (an intermediate, a root).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The nearest of the switches that the rack's hosts attach to.
    Rack(RackId),
    /// That switch.
    Switch(SwitchId),
}

/// Next hops of every node to every target, computed when needed.
#[derive(Clone, Debug)]
pub struct NextHops {
    fabric: Arc<Fabric>,
    graph: Arc<SwitchGraph>,
    /// Hosts with several NICs, ascending.
    multi_homed: Arc<[HostId]>,
    /// By target: racks, then switches.
    rows: Vec<Option<Row>>,
    sets: Sets,
    scratch: Scratch,
}

/// One target.
#[derive(Clone, Debug)]
struct Row {
    /// By switch: hops to the target, or [`UNREACHED`].
    distance: Box<[u16]>,
    /// By switch, then by multi-homed host: the number of its set, or [`UNKNOWN`].
    sets: Box<[u32]>,
}

/// Sets of links, each stored once.
#[derive(Clone, Debug)]
struct Sets {
    /// By set: its bounds in `members`.
    bounds: Vec<(u32, u32)>,
    members: Vec<LinkId>,
    interned: FxHashMap<Box<[LinkId]>, u32>,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    queue: Vec<u32>,
    set: Vec<LinkId>,
    /// By switch, then by multi-homed host: its set in another row, most often the same.
    last: Vec<u32>,
}

const UNREACHED: u16 = u16::MAX;
/// The set without links: at the target, and where there is no path.
const EMPTY: u32 = 0;
/// A set that nobody has asked for.
const UNKNOWN: u32 = u32::MAX;

impl NextHops {
    /// No rows yet.
    pub fn new(fabric: Arc<Fabric>) -> Self {
        let targets = fabric.racks().len() + fabric.switch_count();
        let multi_homed: Arc<[HostId]> = fabric.hosts().filter(|h| fabric.out(h.node()).len() > 1).collect();
        let last = vec![EMPTY; fabric.switch_count() + multi_homed.len()];
        Self {
            graph: Arc::new(SwitchGraph::new(&fabric)),
            multi_homed,
            fabric,
            rows: vec![None; targets],
            sets: Sets { bounds: vec![(0, 0)], members: Vec::new(), interned: FxHashMap::default() },
            scratch: Scratch { last, ..Scratch::default() },
        }
    }

    /// Forgets all rows: something failed or came back.
    pub fn invalidate(&mut self) {
        self.rows.fill(None);
    }

    /// The links over which `node` comes one hop nearer to `target`, in the order of its cables;
    /// empty at the target itself, and where there is no path.
    pub fn toward(&mut self, health: &Health, target: Target, node: NodeId) -> &[LinkId] {
        let index = self.row_index(target);
        if self.rows[index].is_none() {
            self.rows[index] = Some(self.search(health, target));
        }
        let Row { distance, sets } = self.rows[index].as_mut().expect("computed above");
        let column = match (self.fabric.as_switch(node), self.fabric.out(node)) {
            (Some(switch), _) => switch.index(),
            (None, nic @ [only]) => {
                let switch = self.fabric.as_switch(self.fabric.link(*only).to).expect("hosts touch only switches");
                return if health.is_up(*only) && distance[switch.index()] != UNREACHED { nic } else { &[] };
            }
            (None, _) => self.graph.len() + self.multi_homed.binary_search(&HostId(node.0)).expect("it has several NICs"),
        };
        if sets[column] == UNKNOWN {
            let Scratch { set, last, .. } = &mut self.scratch;
            set.clear();
            if let Some(switch) = self.fabric.as_switch(node) {
                let here = distance[column];
                if here != 0 && here != UNREACHED {
                    let nearer = |to: u32, link| distance[to as usize] == here - 1 && health.is_up(link);
                    set.extend(self.graph.arcs(switch.0).iter().filter(|a| nearer(a.to, a.link)).map(|a| a.link));
                }
            } else {
                let up = self.fabric.out(node).iter().filter(|&&l| health.is_up(l));
                let of = |l: LinkId| distance[self.fabric.link(l).to.index() - self.fabric.host_count()];
                let nearest = up.clone().map(|&l| of(l)).min().unwrap_or(UNREACHED);
                set.extend(up.filter(|&&l| nearest != UNREACHED && of(l) == nearest));
            }
            sets[column] = self.sets.intern_near(set, &mut last[column]);
        }
        self.sets.members(sets[column])
    }

    /// How many links a switch is from another; `None` if there is no path.
    pub fn distance(&mut self, health: &Health, from: NodeId, to: SwitchId) -> Option<usize> {
        let mut node = from;
        for links in 0.. {
            let Some(&next) = self.toward(health, Target::Switch(to), node).first() else {
                return (node == self.fabric.switch_node(to)).then_some(links);
            };
            node = self.fabric.link(next).to;
        }
        unreachable!("every hop comes nearer")
    }

    fn row_index(&self, target: Target) -> usize {
        match target {
            Target::Rack(rack) => rack.index(),
            Target::Switch(switch) => self.fabric.racks().len() + switch.index(),
        }
    }

    /// Breadth-first from the target against the direction of the links. Hosts never forward.
    fn search(&mut self, health: &Health, target: Target) -> Row {
        let Self { fabric, graph, multi_homed, scratch: Scratch { queue, .. }, .. } = self;
        let mut distance = vec![UNREACHED; graph.len()];
        queue.clear();
        for switch in targets(fabric, target) {
            if health.node_is_up(fabric.switch_node(switch)) && distance[switch.index()] == UNREACHED {
                distance[switch.index()] = 0;
                queue.push(switch.0);
            }
        }
        let mut head = 0;
        while let Some(&switch) = queue.get(head) {
            head += 1;
            let next = distance[switch as usize] + 1;
            for arc in graph.arcs(switch) {
                if distance[arc.to as usize] == UNREACHED && health.is_up(arc.link.reverse()) {
                    distance[arc.to as usize] = next;
                    queue.push(arc.to);
                }
            }
        }
        Row { distance: distance.into(), sets: vec![UNKNOWN; graph.len() + multi_homed.len()].into() }
    }
}

impl Sets {
    fn members(&self, set: u32) -> &[LinkId] {
        let (start, end) = self.bounds[set as usize];
        &self.members[start as usize..end as usize]
    }

    /// The number of a set that is likely to be `guess`, which becomes that number.
    fn intern_near(&mut self, set: &[LinkId], guess: &mut u32) -> u32 {
        if self.members(*guess) != set {
            *guess = self.intern(set);
        }
        *guess
    }

    fn intern(&mut self, set: &[LinkId]) -> u32 {
        if set.is_empty() {
            return EMPTY;
        }
        if let Some(&known) = self.interned.get(set) {
            return known;
        }
        let id = u32::try_from(self.bounds.len()).expect("fewer than 2^32 sets");
        let start = self.members.len() as u32;
        self.members.extend_from_slice(set);
        self.bounds.push((start, self.members.len() as u32));
        self.interned.insert(set.into(), id);
        id
    }
}

fn targets(fabric: &Fabric, target: Target) -> Vec<SwitchId> {
    match target {
        Target::Rack(rack) => fabric.racks()[rack.index()].switches.clone(),
        Target::Switch(switch) => vec![switch],
    }
}
