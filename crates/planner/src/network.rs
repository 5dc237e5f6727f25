//! A fabric between racks: racks and switches as nodes, parallel cables as one arc. Hosts of a rack are alike, so what racks exchange is routed once for
//! all of them; a fabric of 2,880 servers has 144 racks.

use weft_fabric::ids::{CableId, NodeId, RackId};
use weft_fabric::{Fabric, Health};

/// A node: racks come first, in the fabric's order, then switches.
pub type Index = u32;

/// One direction between two nodes.
#[derive(Clone, Debug)]
pub struct Arc {
    /// The sending node.
    pub from: Index,
    /// The receiving node.
    pub to: Index,
    /// Cables that are up; those of a rack's hosts count together.
    pub cables: u32,
    /// Bits per second of the cables that are up, together.
    pub capacity: f64,
}

/// The graph of what works.
#[derive(Clone, Debug)]
pub struct Network {
    racks: usize,
    names: Vec<String>,
    /// Hosts of each rack, and what their NICs carry together, in bits per second.
    hosts: Vec<(usize, f64)>,
    arcs: Vec<Arc>,
    /// By node: where its outgoing arcs begin in `arcs`, which are sorted by `from`.
    start: Vec<u32>,
    /// By arc: the arc in the other direction.
    reverse: Vec<u32>,
    /// By cable between switches: its arc in one direction, and its rates in this and the other.
    of_cable: Vec<Option<(u32, [f64; 2])>>,
    up: Vec<bool>,
    roots: Vec<Index>,
}

impl Network {
    /// Of the parts of a fabric that are up.
    pub fn new(fabric: &Fabric, health: &Health) -> Self {
        let racks = fabric.racks().len();
        let node = |id: NodeId| (racks + id.index() - fabric.host_count()) as Index;
        // (from, to) -> cables and capacity; the graph is small, so pairs are sorted.
        let mut pairs: Vec<(Index, Index, u32, f64, Option<CableId>)> = Vec::new();
        for cable in fabric.cables() {
            let [there, back] = cable.links().map(|l| fabric.link(l));
            let ends = [there, back].map(|link| match fabric.as_host(link.from) {
                Some(host) => fabric.rack_of(host).index() as Index,
                None => node(link.from),
            });
            let between_switches = ends.iter().all(|&end| end as usize >= racks).then_some(cable);
            let is_up = health.is_up(cable.links()[0]);
            for (from, to, link) in [(ends[0], ends[1], there), (ends[1], ends[0], back)] {
                pairs.push((from, to, u32::from(is_up), if is_up { link.capacity.as_f64() } else { 0.0 }, between_switches));
            }
        }
        pairs.sort_by_key(|&(from, to, ..)| (from, to));
        let mut arcs: Vec<Arc> = Vec::new();
        let mut of_cable = vec![None; fabric.cables().len()];
        for (from, to, cables, capacity, cable) in pairs {
            match arcs.last_mut().filter(|arc| (arc.from, arc.to) == (from, to)) {
                Some(arc) => {
                    arc.cables += cables;
                    arc.capacity += capacity;
                }
                None => arcs.push(Arc { from, to, cables, capacity }),
            }
            if let (Some(cable), true) = (cable, from < to) {
                let rate = |link| fabric.link(link).capacity.as_f64();
                let [there, back] = cable.links();
                let is_there = node(fabric.link(there).from) == from;
                let rates = if is_there { [rate(there), rate(back)] } else { [rate(back), rate(there)] };
                of_cable[cable.index()] = Some((arcs.len() as u32 - 1, rates));
            }
        }
        let nodes = racks + fabric.switch_count();
        let start: Vec<u32> = (0..=nodes as u32).map(|n| arcs.partition_point(|arc| arc.from < n) as u32).collect();
        let find = |from, to| {
            arcs.binary_search_by_key(&(from, to), |arc| (arc.from, arc.to)).expect("cables have two directions") as u32
        };
        let reverse = arcs.iter().map(|arc| find(arc.to, arc.from)).collect();
        let names = (0..racks)
            .map(|rack| rack_name(fabric, RackId::from(rack)))
            .chain(fabric.switches().map(|s| fabric.node(fabric.switch_node(s)).name.to_string()));
        let nics = |rack: &weft_fabric::topology::Rack| rack.hosts.iter().map(|&h| fabric.nic_capacity(h).as_f64()).sum();
        let hosts = fabric.racks().iter().map(|rack| (rack.hosts.len(), nics(rack))).collect();
        let mut up = vec![true; nodes];
        for switch in fabric.switches() {
            let id = fabric.switch_node(switch);
            up[node(id) as usize] = health.node_is_up(id);
        }
        let roots = fabric.switches_of_tier(fabric.top_tier()).map(|s| node(fabric.switch_node(s))).collect();
        Self { racks, names: names.collect(), hosts, arcs, start, reverse, of_cable, up, roots }
    }

    /// Number of racks.
    pub fn racks(&self) -> usize {
        self.racks
    }

    /// Racks and switches.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: a fabric has hosts.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a node; a rack has that of its switches.
    pub fn name(&self, node: Index) -> &str {
        &self.names[node as usize]
    }

    /// Hosts of a rack.
    pub fn hosts_of(&self, rack: usize) -> usize {
        self.hosts[rack].0
    }

    /// What the NICs of a rack's hosts carry together, in bits per second.
    pub fn nics_of(&self, rack: usize) -> f64 {
        self.hosts[rack].1
    }

    /// Whether a node is a rack.
    pub fn is_rack(&self, node: Index) -> bool {
        (node as usize) < self.racks
    }

    /// Switches of the highest tier.
    pub fn roots(&self) -> impl Iterator<Item = Index> + '_ {
        self.roots.iter().copied()
    }

    /// The same network with NICs that never limit: utilisation is then that of links between switches.
    pub fn with_fast_nics(mut self) -> Self {
        for arc in &mut self.arcs {
            if (arc.from as usize) < self.racks || (arc.to as usize) < self.racks {
                arc.capacity = f64::INFINITY;
            }
        }
        self
    }

    /// All arcs.
    pub fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// The largest utilisation of an arc, of loads in bits per second by arc.
    pub fn busiest(&self, loads: &[f64]) -> f64 {
        self.utilisation(loads).fold(0.0, f64::max)
    }

    /// The utilisation of each arc.
    pub fn utilisation<'a>(&'a self, loads: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        loads.iter().zip(&self.arcs).map(|(load, arc)| if *load > 0.0 { load / arc.capacity } else { 0.0 })
    }

    /// What a rack's switches can send to the others and receive from them, in bits per second: no routing carries more of its traffic. Infinite where another
    /// rack has one of these switches, too.
    pub fn rack_cut(&self, rack: usize) -> [f64; 2] {
        let mut cut = [0.0; 2];
        for arc in self.rack_arcs(rack) {
            for (sum, arc) in cut.iter_mut().zip([arc, self.reverse(arc)]) {
                *sum += if self.carries(arc) { self.arcs[arc].capacity } else { 0.0 };
            }
        }
        cut
    }

    /// The arcs that lead away from a rack and its switches.
    pub fn rack_arcs(&self, rack: usize) -> impl Iterator<Item = usize> + '_ {
        let own: Vec<Index> = self.out(rack as Index).map(|arc| self.arcs[arc].to).collect();
        let outer = own.clone();
        let leaves = move |&arc: &usize| {
            let to = self.arcs[arc].to;
            to as usize != rack && !outer.contains(&to)
        };
        own.into_iter().flat_map(|switch| self.out(switch)).filter(leaves)
    }

    /// A node's outgoing arcs, by index.
    pub fn out(&self, node: Index) -> std::ops::Range<usize> {
        self.start[node as usize] as usize..self.start[node as usize + 1] as usize
    }

    /// The arc in the other direction.
    pub fn reverse(&self, arc: usize) -> usize {
        self.reverse[arc] as usize
    }

    /// The arc that a link of the fabric is a part of.
    pub fn arc_of(&self, fabric: &Fabric, link: weft_fabric::LinkId) -> Option<usize> {
        let link = fabric.link(link);
        let [from, to] = [link.from, link.to].map(|node| match fabric.as_host(node) {
            Some(host) => fabric.rack_of(host).index() as Index,
            None => self.node_of(fabric, node),
        });
        self.arcs.binary_search_by_key(&(from, to), |arc| (arc.from, arc.to)).ok()
    }

    /// Whether a node works.
    pub fn is_up(&self, node: Index) -> bool {
        self.up[node as usize]
    }

    /// Whether an arc carries traffic.
    pub fn carries(&self, arc: usize) -> bool {
        let Arc { from, to, cables, .. } = self.arcs[arc];
        cables > 0 && self.is_up(from) && self.is_up(to)
    }

    /// Takes a switch away or gives it back.
    pub fn set_switch(&mut self, switch: Index, up: bool) {
        self.up[switch as usize] = up;
    }

    /// Takes one of the cables between switches away or gives it back; each once.
    pub fn set_cable(&mut self, cable: CableId, up: bool) {
        let Some((arc, rates)) = self.of_cable[cable.index()] else { return };
        for (arc, rate) in [(arc as usize, rates[0]), (self.reverse(arc as usize), rates[1])] {
            let arc = &mut self.arcs[arc];
            if up {
                (arc.cables, arc.capacity) = (arc.cables + 1, arc.capacity + rate);
            } else {
                (arc.cables, arc.capacity) = (arc.cables - 1, arc.capacity - rate);
            }
        }
    }

    /// The node of a switch.
    pub fn node_of(&self, fabric: &Fabric, switch: NodeId) -> Index {
        (self.racks + switch.index() - fabric.host_count()) as Index
    }
}

/// `tor3`, or `tor3+tor4` of hosts with two NICs.
fn rack_name(fabric: &Fabric, rack: RackId) -> String {
    let switches = &fabric.racks()[rack.index()].switches;
    let names: Vec<&str> = switches.iter().map(|s| &*fabric.node(fabric.switch_node(*s)).name).collect();
    names.join("+")
}
