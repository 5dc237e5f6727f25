//! Link loads when every switch spreads what it forwards evenly over its next hops: ECMP with infinitely many small flows.

use crate::ids::LinkId;
use crate::routing::optimal::Demand;
use crate::topology::switch_graph::SwitchGraph;
use crate::topology::{Fabric, Health};

/// The fraction of the flows that fits, perhaps above 1; `None` if one has no way.
pub(super) fn fraction(fabric: &Fabric, health: &Health, flows: &[Demand]) -> Option<f64> {
    let load = loads(fabric, health, flows)?;
    let fits = |(link, &load): (usize, &f64)| fabric.link(LinkId::from(link)).capacity.as_f64() / load;
    Some(load.iter().enumerate().filter(|(_, l)| **l > 0.0).map(fits).fold(f64::INFINITY, f64::min))
}

/// Load of every directed link in bits per second; `None` if a flow has no way.
pub(super) fn loads(fabric: &Fabric, health: &Health, flows: &[Demand]) -> Option<Vec<f64>> {
    let mut spread = Spread::new(fabric, health);
    // Flows to hosts with the same single switch descend together; a host with several NICs is a group of its own.
    let group = |flow: &Demand| match fabric.out(flow.1.node()) {
        [only] => (0, fabric.link(*only).to.0),
        _ => (1, flow.1.0),
    };
    let mut order: Vec<&Demand> = flows.iter().collect();
    order.sort_by_key(|f| group(f));
    for flows in order.chunk_by(|a, b| group(a) == group(b)) {
        spread.add(flows)?;
    }
    Some(spread.load)
}

struct Spread<'a> {
    fabric: &'a Fabric,
    health: &'a Health,
    graph: SwitchGraph,
    load: Vec<f64>,
    /// By switch: hops to the group's switches.
    distance: Vec<u32>,
    /// By switch: what is still to be forwarded.
    amount: Vec<f64>,
    /// Switches by distance, nearest first.
    queue: Vec<u32>,
}

impl<'a> Spread<'a> {
    fn new(fabric: &'a Fabric, health: &'a Health) -> Self {
        let graph = SwitchGraph::new(fabric);
        let switches = graph.len();
        Self {
            fabric,
            health,
            graph,
            load: vec![0.0; fabric.links().len()],
            distance: vec![UNREACHED; switches],
            amount: vec![0.0; switches],
            queue: Vec::with_capacity(switches),
        }
    }

    /// Adds flows whose destinations have the same switches.
    fn add(&mut self, flows: &[&Demand]) -> Option<()> {
        self.search(flows);
        for &&(src, dst, rate) in flows {
            self.climb(src, rate)?;
            if let [nic] = self.fabric.out(dst.node()) {
                self.health.is_up(nic.reverse()).then_some(())?;
                self.load[nic.reverse().index()] += rate;
            }
        }
        for i in (0..self.queue.len()).rev() {
            self.forward(self.queue[i]);
        }
        self.arrive(flows[0]);
        Some(())
    }

    /// Breadth-first from the destinations' switches.
    fn search(&mut self, flows: &[&Demand]) {
        self.distance.fill(UNREACHED);
        self.queue.clear();
        for &nic in self.fabric.out(flows[0].1.node()) {
            let switch = self.switch_of(nic);
            if self.distance[switch as usize] == UNREACHED && self.fabric_is_up(nic, switch, flows) {
                self.distance[switch as usize] = 0;
                self.queue.push(switch);
            }
        }
        let mut head = 0;
        while let Some(&switch) = self.queue.get(head) {
            head += 1;
            for arc in self.graph.arcs(switch) {
                if self.distance[arc.to as usize] == UNREACHED && self.health.is_up(arc.link.reverse()) {
                    self.distance[arc.to as usize] = self.distance[switch as usize] + 1;
                    self.queue.push(arc.to);
                }
            }
        }
    }

    /// A group of single-homed hosts needs its switch; a multi-homed host needs the cable too.
    fn fabric_is_up(&self, nic: LinkId, switch: u32, flows: &[&Demand]) -> bool {
        let alone = self.fabric.out(flows[0].1.node()).len() > 1;
        let node = self.fabric.switch_node(crate::SwitchId(switch));
        if alone { self.health.is_up(nic.reverse()) } else { self.health.node_is_up(node) }
    }

    fn switch_of(&self, nic: LinkId) -> u32 {
        self.fabric.as_switch(self.fabric.link(nic).to).expect("hosts touch only switches").0
    }

    /// From the source over its NICs to the nearest switches.
    fn climb(&mut self, src: crate::HostId, rate: f64) -> Option<()> {
        let fabric = self.fabric;
        let up = || fabric.out(src.node()).iter().copied().filter(|&l| self.health.is_up(l));
        let nearest = up().map(|l| self.distance[self.switch_of(l) as usize]).min().filter(|&d| d != UNREACHED)?;
        let nics: Vec<LinkId> = up().filter(|&l| self.distance[self.switch_of(l) as usize] == nearest).collect();
        let share = rate / nics.len() as f64;
        for nic in nics {
            self.load[nic.index()] += share;
            let switch = self.switch_of(nic);
            self.amount[switch as usize] += share;
        }
        Some(())
    }

    fn forward(&mut self, switch: u32) {
        let here = self.distance[switch as usize];
        if here == 0 || self.amount[switch as usize] == 0.0 {
            return;
        }
        let amount = std::mem::take(&mut self.amount[switch as usize]);
        let (distance, health) = (&self.distance, self.health);
        let nearer = || self.graph.arcs(switch).iter().filter(|a| distance[a.to as usize] == here - 1 && health.is_up(a.link));
        let share = amount / nearer().count() as f64;
        for arc in nearer() {
            self.load[arc.link.index()] += share;
            self.amount[arc.to as usize] += share;
        }
    }

    /// What has reached the last switches goes down; single-homed hosts have been charged already.
    fn arrive(&mut self, flow: &Demand) {
        let nics = self.fabric.out(flow.1.node());
        for &nic in nics {
            let switch = self.switch_of(nic);
            let amount = std::mem::take(&mut self.amount[switch as usize]);
            if nics.len() > 1 && amount > 0.0 {
                let to_it = |l: &&LinkId| self.switch_of(**l) == switch && self.health.is_up(l.reverse());
                let down: Vec<LinkId> = nics.iter().filter(to_it).map(|l| l.reverse()).collect();
                let share = amount / down.len() as f64;
                down.into_iter().for_each(|l| self.load[l.index()] += share);
            }
        }
    }
}

const UNREACHED: u32 = u32::MAX;
