//! Maximum flows and smallest cuts between the switches of a network, exact: Dinic's algorithm on whole bits per second, or on cables.
//!
//! Arcs between switches are as they are. A rack takes part only as an end, through the NICs of its hosts: nothing passes through hosts.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::topology::metrics::max_flow::FlowNetwork;

use crate::network::{Index, Network};

/// What an arc carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bits per second.
    Capacity,
    /// Cables: a flow is then a number of paths no two of which share a cable, and a cut a number of cables.
    Cables,
}

/// The flow network of what works.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Of switches: node 0 is the first after the racks.
    flow: FlowNetwork,
    racks: usize,
    source: usize,
    sink: usize,
    /// By switch: the arcs from the source and to the sink, which carry nothing while it is no end.
    ends: Vec<[usize; 2]>,
    /// By arc between working switches, of each pair of directions one: the arc of the network, and that of the flow network.
    between: Vec<(usize, usize)>,
    /// By rack: its switches with the capacity of its NICs, or the number of their cables.
    nics: Vec<Vec<(Index, u64)>>,
    /// Switches that work.
    switches: Vec<Index>,
}

impl Cuts {
    /// Of the parts of a network that work.
    pub fn new(network: &Network, measure: Measure) -> Self {
        let (racks, count) = (network.racks(), network.len() - network.racks());
        let (source, sink) = (count, count + 1);
        let mut flow = FlowNetwork::new(count + 2);
        let of = |arc: usize| {
            let it = &network.arcs()[arc];
            match measure {
                _ if !network.carries(arc) => 0,
                Measure::Capacity => it.capacity as u64,
                Measure::Cables => u64::from(it.cables),
            }
        };
        let (mut between, mut nics) = (Vec::new(), vec![Vec::new(); racks]);
        for (arc, it) in network.arcs().iter().enumerate().filter(|(arc, _)| network.carries(*arc)) {
            if network.is_rack(it.from) {
                nics[it.from as usize].push((it.to, of(arc)));
            } else if it.from < it.to && !network.is_rack(it.to) {
                let [from, to] = [it.from, it.to].map(|node| node as usize - racks);
                let id = flow.arc(from, to, of(arc), of(network.reverse(arc)));
                between.push((arc, id));
            }
        }
        let ends = (0..count).map(|node| [flow.arc(source, node, 0, 0), flow.arc(node, sink, 0, 0)]).collect();
        let switches = (racks..network.len()).map(|node| node as Index).filter(|&node| network.is_up(node)).collect();
        Self { flow, racks, source, sink, ends, between, nics, switches }
    }

    /// The largest flow from one switch to another.
    pub fn flow(&mut self, from: Index, to: Index) -> u64 {
        self.flow.reset();
        self.flow.maximise(self.at(from), self.at(to))
    }

    /// An end that takes any amount: a switch.
    pub fn switch_end(switch: Index) -> Vec<(Index, u64)> {
        vec![(switch, UNLIMITED)]
    }

    /// The hosts of some racks: what their NICs carry, by switch.
    pub fn racks_end(&self, racks: &[usize]) -> Vec<(Index, u64)> {
        let mut by_switch: BTreeMap<Index, u64> = BTreeMap::new();
        for &(switch, nics) in racks.iter().flat_map(|&rack| &self.nics[rack]) {
            *by_switch.entry(switch).or_default() += nics;
        }
        by_switch.into_iter().collect()
    }

    /// The largest flow from one end to another: switches, each once, with what each adds or takes at most.
    pub fn flow_of(&mut self, from: &[(Index, u64)], to: &[(Index, u64)]) -> u64 {
        for (side, end) in [from, to].into_iter().enumerate() {
            end.iter().for_each(|&(node, most)| self.flow.set_one_way(self.ends[self.at(node)][side], most));
        }
        self.flow.reset();
        let found = self.flow.maximise(self.source, self.sink);
        for (side, end) in [from, to].into_iter().enumerate() {
            end.iter().for_each(|&(node, _)| self.flow.set_one_way(self.ends[self.at(node)][side], 0));
        }
        found
    }

    /// The arcs of the network that part the ends of the flow that [`Self::flow`] found last: a smallest cut.
    pub fn cut(&mut self, network: &Network, from: Index) -> Vec<usize> {
        let side = self.flow.reachable(self.at(from));
        let of = |&(arc, _): &(usize, usize)| {
            let it = &network.arcs()[arc];
            match (side[self.at(it.from)], side[self.at(it.to)]) {
                (true, false) => Some(arc),
                (false, true) => Some(network.reverse(arc)),
                _ => None,
            }
        };
        self.between.iter().filter_map(of).collect()
    }

    /// The smallest flow between any two of these switches, and two that have no more; `None` of fewer than two. Of cables it is the edge connectivity.
    ///
    /// Flows must be the same in both directions. A smallest cut parts some switch from all before it: so the smallest of the flows from each switch to those before it
    /// together is enough. Each ends once it is no smaller than the smallest so far.
    pub fn connectivity(&mut self, among: &[Index]) -> Option<(u64, [Index; 2])> {
        let (&first, others) = among.split_first()?;
        let mut least: Option<(u64, [Index; 2])> = None;
        let mut before = first;
        for &switch in others {
            self.flow.set_one_way(self.ends[self.at(before)][1], UNLIMITED);
            self.flow.reset();
            let enough = least.map_or(u64::MAX, |(flow, _)| flow);
            let flow = self.flow.maximise_up_to(self.at(switch), self.sink, enough);
            if flow < enough {
                least = Some((flow, [switch, first]));
            }
            before = switch;
        }
        among.iter().for_each(|&switch| self.flow.set_one_way(self.ends[self.at(switch)][1], 0));
        least
    }

    /// The node of a switch in the flow network.
    fn at(&self, switch: Index) -> usize {
        switch as usize - self.racks
    }

    /// Switches that work.
    pub fn switches(&self) -> &[Index] {
        &self.switches
    }

    /// Cables between switches that work.
    pub fn cables(&self, network: &Network) -> u64 {
        self.between.iter().map(|&(arc, _)| u64::from(network.arcs()[arc].cables)).sum()
    }

    /// The switches of racks that work.
    pub fn edge_switches(&self) -> Vec<Index> {
        let edges: BTreeSet<Index> = self.nics.iter().flatten().map(|&(switch, _)| switch).collect();
        edges.into_iter().collect()
    }
}

/// More than any fabric's links carry together, in bits per second, and less than would overflow in sums.
const UNLIMITED: u64 = 1 << 62;
