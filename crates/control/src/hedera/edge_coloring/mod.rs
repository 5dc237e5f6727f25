//! Placement by edge colouring: beyond Hedera, which calls the placement on three-tier fat-trees open and anneals.
//!
//! A fat-tree is a Clos of Closes, and its labels are chosen level by level:
//!
//! ```text
//!   stage 0   flows between racks    colour = aggregation position    a cell is the link edge switch - aggregation switch
//!   stage 1   of each position, the flows between pods
//!                                    colour = core below it           a cell is the link aggregation switch - core
//! ```
//! If no NIC is overloaded, a rack with k/2 hosts has flows for k/2 links at most, and so has a pod in each position: by König's
//! theorem each stage colours flows of one size without conflict ([`coloring`]), and every flow gets what a non-blocking switch
//! would give it. The same holds of a leaf-spine, with one stage, and of nested Closes of any height.
//!
//! Cost: near-linear in the flows where they fit, as in every case of equal demands; where demands are unequal and racks full, a fixed
//! number of moves in vain a flow on top.
//!
//! Beyond flows of one size:
//! - *unequal demands, many flows a host*: cells hold any number of flows up to their capacity; the largest flows go first;
//! - *failed links*: their cells have no capacity; a stage also respects what the levels above can still carry of each colour;
//! - *from round to round*: a flow keeps its colours while they fit; only new flows and those on an alternating path move;
//! - *what is still too much*, or left on a failed link, moves to the label that adds the least excess ([`best_fit`]). The same greedy rule places all flows
//!   where labels are not nested, as in a VL2 Clos whose ToRs have two aggregation switches each.

pub mod best_fit;
pub mod coloring;

use weft_fabric::routing::RootLabel;

use crate::hedera::climbs::Climbs;
use crate::hedera::network::{Candidate, Network, Occasion, Place, Units};
use best_fit::BestFit;
use coloring::{Coloring, NewEdge, Side};

/// The placer. Its memory is the flows' own labels.
#[derive(Clone, Debug)]
pub struct EdgeColoring {
    stages: Option<Stages>,
    turns: Vec<u8>,
    order: Vec<u32>,
}

/// The colours of a nested fabric.
#[derive(Clone, Debug)]
struct Stages {
    /// By level and column, the columns of the next level below it.
    children: Vec<Vec<Vec<u32>>>,
    /// By level and column, the first label of it.
    first_label: Vec<Vec<RootLabel>>,
}

impl EdgeColoring {
    /// Looks for the structure of the fabric.
    pub fn new(network: &Network) -> Self {
        Self { stages: Stages::find(network.climbs()), turns: Vec::new(), order: Vec::new() }
    }

    /// Largest first, equal demands in the order of the flows.
    fn sort(&mut self, flows: &[Candidate]) {
        self.order.clear();
        self.order.extend(0..flows.len() as u32);
        self.order.sort_by_key(|&i| std::cmp::Reverse(flows[i as usize].demand));
    }

    fn color(&mut self, network: &Network, flows: &mut [Candidate]) {
        let (fabric, climbs) = (network.fabric(), network.climbs());
        let turn = |f: &Candidate| climbs.turn_of_groups(fabric.rack_of(f.src), fabric.rack_of(f.dst)) as u8;
        self.turns.clear();
        self.turns.extend(flows.iter().map(turn));
        let Some(stages) = &self.stages else { unreachable!("only called for nested fabrics") };
        let columns: Vec<u32> = (0..climbs.up().first().map_or(0, |l| l.columns()) as u32).collect();
        let mut stage = Stage { network, stages, turns: &self.turns, flows };
        stage.color(0, &columns, &self.order);
    }
}

impl Place for EdgeColoring {
    fn place(&mut self, network: &Network, flows: &mut [Candidate], _: Occasion) {
        self.sort(flows);
        let mut best_fit;
        if self.stages.is_some() {
            self.color(network, flows);
            best_fit = BestFit::new(network, flows);
            flows.iter_mut().for_each(|flow| best_fit.rescue(network, flow));
        } else {
            best_fit = BestFit::new(network, &[]);
            let order = self.order.iter().map(|&i| i as usize);
            order.clone().for_each(|i| best_fit.keep(network, &mut flows[i]));
            for i in order {
                if flows[i].label.is_none() {
                    best_fit.insert(network, &mut flows[i]);
                }
            }
        }
        let mut most = IMPROVEMENTS;
        while most > 0 && best_fit.improve(network, flows, &mut most) {}
    }
}

impl Stages {
    /// `None` if the fabric is not nested, or its columns do not split into finer ones from level to level.
    fn find(climbs: &Climbs) -> Option<Self> {
        let levels = climbs.up();
        if !climbs.nested() || levels.is_empty() {
            return None;
        }
        let labels = || (0..climbs.labels() as u32).map(RootLabel);
        let mut first_label = Vec::new();
        for level in levels {
            let mut first = vec![None; level.columns()];
            labels().for_each(|l| {
                first[level.column(l) as usize].get_or_insert(l);
            });
            first_label.push(first.into_iter().collect::<Option<Vec<_>>>()?);
        }
        let mut children = Vec::new();
        for (lower, upper) in levels.iter().zip(&levels[1..]) {
            let mut parent = vec![None; upper.columns()];
            let agrees = |l: RootLabel| {
                let column = lower.column(l);
                *parent[upper.column(l) as usize].get_or_insert(column) == column
            };
            if !labels().all(agrees) {
                return None;
            }
            let mut below = vec![Vec::new(); lower.columns()];
            parent.iter().enumerate().for_each(|(c, p)| below[p.expect("a column has a label") as usize].push(c as u32));
            children.push(below);
        }
        Some(Self { children, first_label })
    }
}

/// One round of colouring.
struct Stage<'a> {
    network: &'a Network,
    stages: &'a Stages,
    /// By flow: how many levels it climbs.
    turns: &'a [u8],
    flows: &'a mut [Candidate],
}

impl Stage<'_> {
    /// Colours these flows, which climb beyond `level`, with columns of that level, and those of each colour by the next level.
    /// Leaves each flow a label of its column.
    fn color(&mut self, level: usize, columns: &[u32], numbers: &[u32]) {
        let climbs = self.network.climbs();
        let table = &climbs.up()[level];
        let of_column = |column: u32| columns.binary_search(&column).ok().map(|c| c as u32);
        let mut coloring = Coloring::new(columns.len(), self.sides(level, columns), numbers.len());
        let mut edge_of = vec![u32::MAX; numbers.len()];
        for (slot, &i) in numbers.iter().enumerate() {
            let wish = self.flows[i as usize].label.and_then(|label| of_column(table.column(label)));
            edge_of[slot] = wish.and_then(|colour| coloring.keep(self.edge(level, i), colour)).unwrap_or(u32::MAX);
        }
        for (slot, &i) in numbers.iter().enumerate() {
            if edge_of[slot] == u32::MAX {
                edge_of[slot] = coloring.insert(self.edge(level, i));
            }
        }
        coloring.repair();
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); columns.len()];
        for (&i, &edge) in numbers.iter().zip(&edge_of) {
            let colour = coloring.colour(edge);
            let column = columns[colour as usize];
            let flow = &mut self.flows[i as usize];
            flow.label = flow.label.filter(|&l| table.column(l) == column);
            if usize::from(self.turns[i as usize]) > level + 1 {
                next[colour as usize].push(i);
            } else if flow.label.is_none() {
                flow.label = Some(self.stages.first_label[level][column as usize]);
            }
        }
        for (colour, numbers) in next.into_iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            self.color(level + 1, &self.stages.children[level][columns[colour] as usize], &numbers);
        }
    }

    fn edge(&self, level: usize, i: u32) -> NewEdge {
        let flow = &self.flows[i as usize];
        let (fabric, table) = (self.network.fabric(), &self.network.climbs().up()[level]);
        NewEdge {
            nodes: [flow.src, flow.dst].map(|h| table.row(fabric.rack_of(h))),
            weight: flow.demand,
            leaves: usize::from(self.turns[i as usize]) > level + 1,
        }
    }

    /// Capacities of the links of a level, and of what lies above it.
    fn sides(&self, level: usize, columns: &[u32]) -> [Side; 2] {
        let climbs = self.network.climbs();
        let table = &climbs.up()[level];
        let upper = climbs.up().get(level + 1);
        let mut group = vec![0; table.rows()];
        for rack in (0..self.network.fabric().racks().len()).map(weft_fabric::RackId::from) {
            group[table.row(rack) as usize] = upper.map_or(0, |u| u.row(rack));
        }
        let rooms = |level: usize, row: u32, columns: &[u32], up: bool| -> Vec<Units> {
            let link = |&column: &u32| climbs.up()[level].at(row, column);
            let capacity = self.network.capacity();
            columns.iter().map(link).map(|l| capacity[if up { l } else { l.reverse() }.index()]).collect()
        };
        [true, false].map(|up| Side {
            room: (0..table.rows() as u32).flat_map(|row| rooms(level, row, columns, up)).collect(),
            group: group.clone(),
            upper: match upper {
                None => vec![Units::MAX / 4; columns.len()],
                Some(above) => {
                    let below = &self.stages.children[level];
                    let sum = |row: u32, &c: &u32| rooms(level + 1, row, &below[c as usize], up).iter().sum::<Units>();
                    (0..above.rows() as u32).flat_map(|row| columns.iter().map(move |c| sum(row, c))).collect()
                }
            },
        })
    }
}

/// How many flows a round may move one by one after colouring.
const IMPROVEMENTS: usize = 2_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_fabric::topology::Part;

    use super::*;
    use crate::hedera::demand::DemandEstimator;
    use crate::hedera::network::{NIC, from_units, to_units};
    use crate::hedera::testing::{bijection, clos, fat_tree, leaf_spine, random_flows};

    fn candidates(network: &Network, flows: &[weft_fabric::routing::FlowKey]) -> Vec<Candidate> {
        let (src, dst): (Vec<u32>, Vec<u32>) = flows.iter().map(|f| (f.src.0, f.dst.0)).unzip();
        let mut demands = vec![];
        DemandEstimator::default().estimate(&src, &dst, network.nic(), &mut demands).unwrap();
        flows
            .iter()
            .zip(demands)
            .filter(|(f, _)| network.has_choice(f.src, f.dst))
            .map(|(f, d)| Candidate { src: f.src, dst: f.dst, demand: to_units(d), label: None, reserved: 0 })
            .collect()
    }

    proptest! {
        #[test]
        fn any_bijection_is_free_of_conflicts(half in 1u32..9, seed: u64) {
            let network = Network::new(fat_tree(2 * half));
            let mut flows = candidates(&network, &bijection(network.fabric().host_count() as u32, seed));
            EdgeColoring::new(&network).place(&network, &mut flows, Occasion::Round);
            prop_assert!(flows.iter().all(|f| f.label.is_some()));
            prop_assert!(network.loads(&flows).iter().all(|&load| load <= NIC));
        }

        #[test]
        fn a_leaf_spine_too(leaves in 2u32..8, hosts in 1u32..6, seed: u64) {
            let network = Network::new(leaf_spine(leaves, hosts, hosts));
            let mut flows = candidates(&network, &bijection(leaves * hosts, seed));
            EdgeColoring::new(&network).place(&network, &mut flows, Occasion::Round);
            prop_assert_eq!(network.energy(&flows), 0);
        }

        #[test]
        fn random_flows_leave_almost_nothing_over(half in 2u32..7, per_host in 2u32..6, seed: u64) {
            let network = Network::new(fat_tree(2 * half));
            let hosts = network.fabric().host_count() as u32;
            let mut flows = candidates(&network, &random_flows(hosts, hosts * per_host, seed));
            EdgeColoring::new(&network).place(&network, &mut flows, Occasion::Round);
            // A heuristic: with 16 hosts and 10 unequal flows on each a third of a NIC has been seen to be left over (2.2 %).
            let limit = (0.02 * f64::from(hosts)).max(1.0);
            prop_assert!(from_units(network.energy(&flows)) < limit, "{}", from_units(network.energy(&flows)));
        }
    }

    #[test]
    fn bijections_at_every_size() {
        for (k, seeds) in [(4, 200), (8, 20), (16, 3)] {
            let network = Network::new(fat_tree(k));
            for seed in 0..seeds {
                let mut flows = candidates(&network, &bijection(network.fabric().host_count() as u32, seed));
                EdgeColoring::new(&network).place(&network, &mut flows, Occasion::Round);
                assert_eq!(network.energy(&flows), 0, "k = {k}, seed {seed}");
            }
        }
    }

    #[test]
    fn flows_stay_where_they_are_when_others_come_and_go() {
        let network = Network::new(fat_tree(8));
        let all = candidates(&network, &bijection(128, 1));
        let mut placer = EdgeColoring::new(&network);
        let mut flows = all.clone();
        placer.place(&network, &mut flows, Occasion::Round);
        let before = flows.clone();
        placer.place(&network, &mut flows, Occasion::Round);
        assert_eq!(flows, before, "nothing new, nothing moves");
        // Ten flows end, and the same pairs start again as new flows.
        for flow in flows.iter_mut().step_by(12) {
            flow.label = None;
        }
        placer.place(&network, &mut flows, Occasion::Round);
        assert_eq!(network.energy(&flows), 0);
        let moved = flows.iter().zip(&before).filter(|(a, b)| a.label != b.label).count();
        assert!(moved < 40, "{moved}");
    }

    #[test]
    fn failed_parts_are_not_used_where_there_is_another_way() {
        let mut network = Network::new(fat_tree(8));
        let mut flows = candidates(&network, &bijection(128, 3));
        flows.iter_mut().for_each(|f| f.demand = NIC / 2);
        let mut placer = EdgeColoring::new(&network);
        placer.place(&network, &mut flows, Occasion::Round);
        for part in ["switch core3", "link edge0-agg1", "link agg9-core6"] {
            network.fail(Part::parse(network.fabric(), part).unwrap());
        }
        placer.place(&network, &mut flows, Occasion::Failure);
        assert!(flows.iter().all(|f| f.label.is_some_and(|l| network.is_up(f.src, f.dst, l))));
        assert_eq!(network.energy(&flows), 0);
    }

    #[test]
    fn other_fabrics_fall_back_to_best_fit() {
        let mut network = Network::new(clos(4, 6, 3));
        let mut flows = candidates(&network, &bijection(18, 3));
        let mut placer = EdgeColoring::new(&network);
        assert!(placer.stages.is_none());
        placer.place(&network, &mut flows, Occasion::Round);
        assert_eq!(network.energy(&flows), 0);
        let before = flows.clone();
        placer.place(&network, &mut flows, Occasion::Round);
        assert_eq!(flows, before);
        network.fail(Part::parse(network.fabric(), "switch int1").unwrap());
        placer.place(&network, &mut flows, Occasion::Failure);
        assert!(flows.iter().all(|f| f.label.is_some_and(|l| network.is_up(f.src, f.dst, l))));
    }
}
