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
    count: usize,
    /// By switch: the arc to a further node, which stands for several switches. It carries nothing but in [`Self::connectivity`].
    to_all: Vec<usize>,
    links: Vec<Link>,
    /// By rack: its switches with the capacity of its NICs, or the number of their cables.
    nics: Vec<Vec<(Index, u64)>>,
    /// Switches that work.
    switches: Vec<Index>,
}

/// Cables between two switches that work.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The arc of the network in one direction.
    arc: usize,
    ends: [usize; 2],
    /// What it carries in this direction and in the other.
    room: [u64; 2],
}

/// A flow network between two ends.
#[derive(Clone, Debug)]
pub struct Between {
    flow: FlowNetwork,
    ends: [usize; 2],
}

impl Between {
    /// The largest flow.
    pub fn flow(&mut self) -> u64 {
        self.flow.reset();
        self.flow.maximise(self.ends[0], self.ends[1])
    }
}

impl Cuts {
    /// Of the parts of a network that work.
    pub fn new(network: &Network, measure: Measure) -> Self {
        let (racks, count) = (network.racks(), network.len() - network.racks());
        let of = |arc: usize| {
            let it = &network.arcs()[arc];
            match measure {
                _ if !network.carries(arc) => 0,
                Measure::Capacity => it.capacity as u64,
                Measure::Cables => u64::from(it.cables),
            }
        };
        let (mut links, mut nics) = (Vec::new(), vec![Vec::new(); racks]);
        for (arc, it) in network.arcs().iter().enumerate().filter(|(arc, _)| network.carries(*arc)) {
            if network.is_rack(it.from) {
                nics[it.from as usize].push((it.to, of(arc)));
            } else if it.from < it.to && !network.is_rack(it.to) {
                let ends = [it.from, it.to].map(|node| node as usize - racks);
                links.push(Link { arc, ends, room: [of(arc), of(network.reverse(arc))] });
            }
        }
        let mut flow = flow_network(count + 1, &links);
        let to_all = (0..count).map(|switch| flow.arc(switch, count, 0, 0)).collect();
        let switches = (racks..network.len()).map(|node| node as Index).filter(|&node| network.is_up(node)).collect();
        Self { flow, racks, count, to_all, links, nics, switches }
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

    /// The flow network from one end to another: switches, each once, with what each adds or takes at most.
    pub fn between(&self, from: &[(Index, u64)], to: &[(Index, u64)]) -> Between {
        let (source, sink) = (self.count, self.count + 1);
        let mut flow = flow_network(self.count + 2, &self.links);
        for &(switch, most) in from {
            flow.arc(source, self.at(switch), most, 0);
        }
        for &(switch, most) in to {
            flow.arc(self.at(switch), sink, most, 0);
        }
        Between { flow, ends: [source, sink] }
    }

    /// The arcs of the network that part the ends of the flow that [`Self::flow`] found last: a smallest cut.
    pub fn cut(&mut self, network: &Network, from: Index) -> Vec<usize> {
        let side = self.flow.reachable(self.at(from));
        let of = |link: &Link| match link.ends.map(|end| side[end]) {
            [true, false] => Some(link.arc),
            [false, true] => Some(network.reverse(link.arc)),
            _ => None,
        };
        self.links.iter().filter_map(of).collect()
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
            self.flow.set_one_way(self.to_all[self.at(before)], UNLIMITED);
            self.flow.reset();
            let enough = least.map_or(u64::MAX, |(flow, _)| flow);
            let flow = self.flow.maximise_up_to(self.at(switch), self.count, enough);
            if flow < enough {
                least = Some((flow, [switch, first]));
            }
            before = switch;
        }
        among.iter().for_each(|&switch| self.flow.set_one_way(self.to_all[self.at(switch)], 0));
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
        self.links.iter().map(|link| u64::from(network.arcs()[link.arc].cables)).sum()
    }

    /// The switches of racks that work.
    pub fn edge_switches(&self) -> Vec<Index> {
        let edges: BTreeSet<Index> = self.nics.iter().flatten().map(|&(switch, _)| switch).collect();
        edges.into_iter().collect()
    }
}

/// Switches, further nodes, and the links between switches.
fn flow_network(nodes: usize, links: &[Link]) -> FlowNetwork {
    let mut flow = FlowNetwork::new(nodes);
    for link in links {
        flow.arc(link.ends[0], link.ends[1], link.room[0], link.room[1]);
    }
    flow
}

/// More than any fabric's links carry together, in bits per second, and less than would overflow in sums.
const UNLIMITED: u64 = 1 << 62;
