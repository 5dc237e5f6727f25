//! Shortest paths: for each target, the set of links that lead a switch one hop nearer.
//!
//! Racks and switches that have the same neighbours share all but the last hop: the 32 racks of a pod of a fat-tree with 64 ports, say. For each such
//! neighbourhood there is a row of distances, computed by breadth-first search when a target is first asked for, in O(links), and one of sets, each computed when
//! it is asked for; both are kept until the fabric's health changes. Sets are interned: in a regular fabric a switch has one set for "up" and one for each way
//! down, so that a row has one 32-bit number a switch. A host with one NIC has no place in a row: it has no choice.

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
    goals: Vec<Option<Goal>>,
    rows: Vec<Row>,
    /// By neighbourhood, ascending.
    row_of: FxHashMap<Box<[u32]>, u32>,
    sets: Sets,
    scratch: Scratch,
}

/// One target.
#[derive(Clone, Debug)]
struct Goal {
    /// The target's switches that are up.
    switches: Box<[u32]>,
    /// Toward the switches beside these.
    row: u32,
    /// The numbers of the sets that lead to one of the switches themselves, by the column that they would have in a row.
    last_hops: FxHashMap<u32, u32>,
}

/// Switches that are beside a target: a path from elsewhere crosses one of them before it reaches the target, whichever of their neighbours that is.
#[derive(Clone, Debug)]
struct Row {
    /// By switch: hops to the nearest of them, or [`UNREACHED`].
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
            goals: vec![None; targets],
            rows: Vec::new(),
            row_of: FxHashMap::default(),
            sets: Sets { bounds: vec![(0, 0)], members: Vec::new(), interned: FxHashMap::default() },
            scratch: Scratch { last, ..Scratch::default() },
        }
    }

    /// Forgets all rows: something failed or came back.
    pub fn invalidate(&mut self) {
        self.goals.fill(None);
        self.rows.clear();
        self.row_of.clear();
    }

    /// The links over which `node` comes one hop nearer to `target`, in the order of its cables;
    /// empty at the target itself, and where there is no path.
    pub fn toward(&mut self, health: &Health, target: Target, node: NodeId) -> &[LinkId] {
        let index = self.goal_index(target);
        if self.goals[index].is_none() {
            self.goals[index] = Some(self.goal(health, target));
        }
        let Self { fabric, graph, multi_homed, goals, rows, sets, scratch: Scratch { set, last, .. }, .. } = self;
        let Goal { switches, row, last_hops } = goals[index].as_mut().expect("computed above");
        let Row { distance: hops, sets: row } = &mut rows[*row as usize];
        // To the target: one more than to the switches beside it.
        let distance = |switch: u32| if switches.contains(&switch) { 0 } else { hops[switch as usize].saturating_add(1) };
        let switch_of = |l: LinkId| fabric.as_switch(fabric.link(l).to).map(|switch| switch.0);
        let (column, is_beside) = match (fabric.as_switch(node), fabric.out(node)) {
            (Some(switch), _) => match hops[switch.index()] {
                0 => (switch.index(), true),
                UNREACHED => return &[],
                _ if switches.contains(&switch.0) => return &[],
                _ => (switch.index(), false),
            },
            (None, nic @ [only]) => {
                let switch = switch_of(*only).expect("hosts touch only switches");
                return if health.is_up(*only) && distance(switch) != UNREACHED { nic } else { &[] };
            }
            (None, nics) => {
                let place = multi_homed.binary_search(&HostId(node.0)).expect("it has several NICs");
                (graph.len() + place, nics.iter().any(|&l| switch_of(l).is_some_and(|switch| switches.contains(&switch))))
            }
        };
        let known = if is_beside { last_hops.entry(column as u32).or_insert(UNKNOWN) } else { &mut row[column] };
        if *known == UNKNOWN {
            set.clear();
            if let Some(switch) = fabric.as_switch(node) {
                let nearer = |to: u32, link| distance(to) == hops[column] && health.is_up(link);
                set.extend(graph.arcs(switch.0).iter().filter(|a| nearer(a.to, a.link)).map(|a| a.link));
            } else {
                let up = fabric.out(node).iter().filter(|&&l| health.is_up(l));
                let of = |l: LinkId| switch_of(l).map_or(UNREACHED, distance);
                let nearest = up.clone().map(|&l| of(l)).min().unwrap_or(UNREACHED);
                set.extend(up.filter(|&&l| nearest != UNREACHED && of(l) == nearest));
            }
            *known = sets.intern_near(set, &mut last[column]);
        }
        sets.members(*known)
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

    fn goal_index(&self, target: Target) -> usize {
        match target {
            Target::Rack(rack) => rack.index(),
            Target::Switch(switch) => self.fabric.racks().len() + switch.index(),
        }
    }

    fn goal(&mut self, health: &Health, target: Target) -> Goal {
        let mut switches = match target {
            Target::Rack(rack) => self.fabric.racks()[rack.index()].switches.clone(),
            Target::Switch(switch) => vec![switch],
        };
        switches.retain(|&switch| health.node_is_up(self.fabric.switch_node(switch)));
        let switches: Box<[u32]> = switches.into_iter().map(|switch| switch.0).collect();
        let arcs = switches.iter().flat_map(|&switch| self.graph.arcs(switch));
        let mut beside: Vec<u32> = arcs.filter(|arc| health.is_up(arc.link.reverse())).map(|arc| arc.to).collect();
        beside.retain(|switch| !switches.contains(switch));
        beside.sort_unstable();
        beside.dedup();
        let row = if let Some(&row) = self.row_of.get(&beside[..]) {
            row
        } else {
            let row = self.search(health, &beside);
            self.rows.push(row);
            let row = self.rows.len() as u32 - 1;
            self.row_of.insert(beside.into(), row);
            row
        };
        Goal { switches, row, last_hops: FxHashMap::default() }
    }

    /// Breadth-first from some switches against the direction of the links. Hosts never forward.
    fn search(&mut self, health: &Health, from: &[u32]) -> Row {
        let Self { graph, multi_homed, scratch: Scratch { queue, .. }, .. } = self;
        let mut distance = vec![UNREACHED; graph.len()];
        queue.clear();
        queue.extend(from);
        from.iter().for_each(|&switch| distance[switch as usize] = 0);
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
