//! What routings carry: loads of links, and what follows from them.
//!
//! ECMP: every switch spreads what it forwards evenly over its next hops on shortest paths, a cable like any other. VLB sends everything by a switch of the highest
//! tier, all evenly, and with ECMP to it and from it (VL2 section 4.2). With single paths, a pair of racks has one next hop everywhere.
//!
//! A matrix is routed node by node of its destinations: breadth-first search from there, then all that goes there moves from the farthest node to the
//! nearest. That takes one visit of each arc per destination, a fraction of a millisecond for hundreds of racks.

use serde::Serialize;

use crate::network::{Index, Network};
use crate::routing::matrix::Matrix;

/// A routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Equal-cost multipath.
    Ecmp,
    /// Shortest paths, split by the capacity that each next hop has towards the destination (weighted ECMP).
    Wcmp,
    /// Valiant load balancing over the highest tier.
    Vlb,
    /// One shortest path per pair of racks.
    Single,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ecmp, Self::Wcmp, Self::Vlb, Self::Single];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ecmp => "ecmp",
            Self::Wcmp => "wcmp",
            Self::Vlb => "vlb",
            Self::Single => "single",
        }
    }
}

/// What a matrix has of a network, as fractions of its rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The largest fraction of all rates, at once, for which no arc is over its capacity; of pairs that are connected. May be above 1.
    pub throughput: f64,
    /// What is carried if every pair slows down, by itself, to what its busiest arc allows; a pair that is not connected carries nothing.
    pub carried: f64,
    /// The pair with the smallest fraction, and that fraction; 0 for one that is not connected.
    pub worst: Option<Pair>,
    /// Pairs with traffic that are not connected.
    pub disconnected: usize,
}

/// Two racks and the fraction of their rate that is carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The sending rack.
    pub src: usize,
    /// The receiving rack.
    pub dst: usize,
    /// The carried fraction of their rate, at most 1.
    pub fraction: f64,
}

/// Computes loads; its memory serves many matrices.
#[derive(Debug, Default)]
pub struct Router {
    load: Vec<f64>,
    amount: Vec<f64>,
    /// By destination: nodes from near to far, and by node its distance.
    trees: Vec<Tree>,
    worst: Vec<f64>,
    /// By node: what it can carry to the destination, in bits per second.
    onward: Vec<f64>,
}

/// How a node splits what it sends over its next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// By their cables.
    Cables,
    /// By what can be carried over them to the destination.
    Capacity,
}

#[derive(Debug, Default)]
struct Tree {
    order: Vec<Index>,
    distance: Vec<u16>,
}

impl Router {
    /// What ECMP makes of a matrix.
    pub fn evaluate(&mut self, network: &Network, matrix: &Matrix) -> Outcome {
        self.shortest(network, matrix, Split::Cables);
        let throughput = 1.0 / network.busiest(&self.load);
        let mut outcome = Outcome { throughput, carried: 0.0, worst: None, disconnected: 0 };
        self.pairs(network, matrix, &mut outcome);
        outcome
    }

    /// Loads of all arcs in bits per second by a routing, of pairs that are connected.
    pub fn route(&mut self, network: &Network, matrix: &Matrix, scheme: Scheme) -> &[f64] {
        match scheme {
            Scheme::Ecmp => self.shortest(network, matrix, Split::Cables),
            Scheme::Wcmp => self.shortest(network, matrix, Split::Capacity),
            Scheme::Vlb => self.vlb(network, |rack| matrix.sent(rack), |rack| matrix.received(rack)),
            Scheme::Single => self.single(network, matrix),
        }
        &self.load
    }

    /// Loads of all arcs in bits per second by VLB, which depend on what each rack sends and receives alone.
    pub fn route_vlb(&mut self, network: &Network, sent: &[f64], received: &[f64]) -> &[f64] {
        self.vlb(network, |rack| sent[rack], |rack| received[rack]);
        &self.load
    }

    /// The largest utilisation of a link by a routing, of pairs that are connected.
    pub fn busiest(&mut self, network: &Network, matrix: &Matrix, scheme: Scheme) -> f64 {
        network.busiest(self.route(network, matrix, scheme))
    }

    fn start(&mut self, network: &Network, destinations: usize) {
        self.load.clear();
        self.load.resize(network.arcs().len(), 0.0);
        self.trees.resize_with(destinations.max(self.trees.len()), Tree::default);
    }

    fn shortest(&mut self, network: &Network, matrix: &Matrix, split: Split) {
        self.start(network, network.racks());
        for dst in 0..network.racks() {
            self.search(network, dst, dst as Index);
            for src in 0..network.racks() {
                self.amount[src] = if self.trees[dst].reaches(src as Index) { matrix.rate(src, dst) } else { 0.0 };
            }
            self.spread(network, dst, split);
        }
    }

    fn vlb(&mut self, network: &Network, sent: impl Fn(usize) -> f64, received: impl Fn(usize) -> f64) {
        let roots: Vec<Index> = network.roots().filter(|&root| network.is_up(root)).collect();
        self.start(network, 1);
        for &root in &roots {
            self.search(network, 0, root);
            for src in 0..network.racks() {
                self.amount[src] = if self.trees[0].reaches(src as Index) { sent(src) / roots.len() as f64 } else { 0.0 };
            }
            self.spread(network, 0, Split::Cables);
        }
        for dst in 0..network.racks() {
            self.search(network, 0, dst as Index);
            for &root in roots.iter().filter(|&&root| self.trees[0].reaches(root)) {
                self.amount[root as usize] = received(dst) / roots.len() as f64;
            }
            self.spread(network, 0, Split::Cables);
        }
    }

    fn single(&mut self, network: &Network, matrix: &Matrix) {
        self.start(network, 1);
        for dst in 0..network.racks() {
            self.search(network, 0, dst as Index);
            let tree = &self.trees[0];
            for src in (0..network.racks()).filter(|&src| matrix.rate(src, dst) > 0.0 && tree.reaches(src as Index)) {
                let (mut node, pair) = (src as Index, (src * network.racks() + dst) as u64);
                while node as usize != dst {
                    let hops = tree.next_hops(network, node).count();
                    let choice = weft_fabric::rng::reduce(weft_fabric::rng::mix(pair << 20 ^ u64::from(node)), hops);
                    let arc = tree.next_hops(network, node).nth(choice).expect("a choice of those there are");
                    self.load[arc] += matrix.rate(src, dst);
                    node = network.arcs()[arc].to;
                }
            }
        }
    }

    /// Searches towards a destination, and clears the amounts.
    fn search(&mut self, network: &Network, tree: usize, dst: Index) {
        self.trees[tree].search(network, dst);
        self.amount.clear();
        self.amount.resize(network.len(), 0.0);
    }

    /// Moves all amounts to a tree's destination.
    fn spread(&mut self, network: &Network, tree: usize, split: Split) {
        let Self { load, amount, trees, onward, .. } = self;
        let tree = &trees[tree];
        if split == Split::Capacity {
            tree.onward(network, onward);
        }
        for &node in tree.order.iter().skip(1).rev() {
            let rate = amount[node as usize];
            if rate > 0.0 {
                let weight = |arc: usize| {
                    let it = &network.arcs()[arc];
                    match split {
                        Split::Cables => f64::from(it.cables),
                        Split::Capacity => it.capacity.min(onward[it.to as usize]),
                    }
                };
                let all: f64 = tree.next_hops(network, node).map(weight).sum();
                for arc in tree.next_hops(network, node) {
                    let share = rate * weight(arc) / all;
                    load[arc] += share;
                    amount[network.arcs()[arc].to as usize] += share;
                }
            }
        }
    }

    /// By pair: the busiest arc that some of its traffic crosses.
    fn pairs(&mut self, network: &Network, matrix: &Matrix, outcome: &mut Outcome) {
        let (mut wanted, mut carried) = (0.0, 0.0);
        for dst in 0..network.racks() {
            let tree = &self.trees[dst];
            self.worst.clear();
            self.worst.resize(network.len(), 0.0);
            for &node in tree.order.iter().skip(1) {
                let of_arc = |arc: usize| {
                    let it = &network.arcs()[arc];
                    (self.load[arc] / it.capacity).max(self.worst[it.to as usize])
                };
                self.worst[node as usize] = tree.next_hops(network, node).map(of_arc).fold(0.0, f64::max);
            }
            for src in (0..network.racks()).filter(|&src| matrix.rate(src, dst) > 0.0) {
                let is_reached = tree.reaches(src as Index);
                let fraction = if is_reached { (1.0 / self.worst[src]).min(1.0) } else { 0.0 };
                outcome.disconnected += usize::from(!is_reached);
                wanted += matrix.rate(src, dst);
                carried += matrix.rate(src, dst) * fraction;
                if outcome.worst.is_none_or(|worst| fraction < worst.fraction) {
                    outcome.worst = Some(Pair { src, dst, fraction });
                }
            }
        }
        outcome.carried = if wanted > 0.0 { carried / wanted } else { 1.0 };
    }
}

impl Tree {
    /// Breadth-first from a node, against the direction of traffic. Other racks are ends: nothing passes through hosts.
    fn search(&mut self, network: &Network, dst: Index) {
        self.distance.clear();
        self.distance.resize(network.len(), UNREACHED);
        self.order.clear();
        self.distance[dst as usize] = 0;
        self.order.push(dst);
        let mut head = 0;
        while let Some(&node) = self.order.get(head) {
            head += 1;
            if network.is_rack(node) && node != dst {
                continue;
            }
            for arc in network.out(node) {
                let from = network.arcs()[arc].to;
                if self.distance[from as usize] == UNREACHED && network.carries(network.reverse(arc)) {
                    self.distance[from as usize] = self.distance[node as usize] + 1;
                    self.order.push(from);
                }
            }
        }
    }

    /// By node: what it can carry over its next hops. Those are nearer, and so come first.
    fn onward(&self, network: &Network, onward: &mut Vec<f64>) {
        onward.clear();
        onward.resize(network.len(), 0.0);
        onward[self.order[0] as usize] = UNLIMITED;
        for &node in self.order.iter().skip(1) {
            let over = |arc: usize| network.arcs()[arc].capacity.min(onward[network.arcs()[arc].to as usize]);
            onward[node as usize] = self.next_hops(network, node).map(over).sum();
        }
    }

    fn reaches(&self, node: Index) -> bool {
        self.distance[node as usize] != UNREACHED
    }

    /// The arcs of a node that lead nearer. Another rack is no next hop, as it would be an end.
    fn next_hops(&self, network: &Network, node: Index) -> impl Iterator<Item = usize> {
        let nearer = self.distance[node as usize].wrapping_sub(1);
        network.out(node).filter(move |&arc| {
            let to = network.arcs()[arc].to;
            self.distance[to as usize] == nearer && (!network.is_rack(to) || nearer == 0) && network.carries(arc)
        })
    }
}

const UNREACHED: u16 = u16::MAX;
/// Bits per second of what does not limit.
const UNLIMITED: f64 = 1e18;
