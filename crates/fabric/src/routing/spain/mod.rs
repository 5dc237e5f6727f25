//! SPAIN: several paths between edge switches by VLANs that each are a forest (NetLord section 3.4).
//!
//! ```text
//!   fabric --Finder--> paths of each pair --Packing, in several orders--> VLANs --> table of the agents, configuration of the switches
//!
//!        core0   core1            VLAN 1            VLAN 2
//!        / | \   / | \             core0             core1
//!      every edge to every        / | \             / | \
//!      edge0 edge1 edge2      edge0 edge1 edge2  edge0 edge1 edge2
//! ```
//! Properties that the tests check: a VLAN has no loop; every path of a pair lies in one VLAN, and no two of them in the same; a pair has as
//! many edge-disjoint paths as a maximum flow finds, up to the number that is wanted.
//!
//! No two paths of a pair fit in one loop-free VLAN, so the largest number of paths of any pair is a bound that no packing goes below.
//! Links count as hops, whatever their rates.

mod config;
mod pack;
mod paths;
#[cfg(test)]
pub(super) mod tests;

use rand::seq::SliceRandom;

use crate::ids::{CableId, SwitchId};
use crate::rng::{Stream, stream};
use crate::routing::trees::broadcast_trees;
use crate::topology::Fabric;
use crate::topology::switch_graph::SwitchGraph;

pub use config::{PortConfig, SwitchConfig};
use pack::Packing;
use paths::{Cables, Finder, cable};

/// A VLAN, from 1 to [`MAX_VLANS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(pub u16);

/// 12 bits, without 0 (no VLAN) and 4,095 (reserved).
pub const MAX_VLANS: usize = 4_094;
/// Trees that reach all edge switches.
pub const MAX_TREES: u32 = 16;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpainConfig {
    /// At most so many paths for a pair.
    pub paths: u32,
    /// At most so many orders are tried.
    pub orders: u32,
    /// Seed of the orders.
    pub seed: u64,
    /// Trees that reach all edge switches, each in a VLAN of its own, at most: broadcasts between agents use them.
    pub trees: u32,
}

impl Default for SpainConfig {
    fn default() -> Self {
        Self { paths: 16, orders: 8, seed: 1, trees: 2 }
    }
}

/// What cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SpainError {
    #[error(
        "the paths need {needed} VLANs, and 12 bits hold {most} beside those that reach all: ask for fewer than {paths} paths of a pair"
    )]
    TooManyVlans { needed: usize, most: usize, paths: u32 },
    #[error("a pair of switches needs 1 path or more, not 0")]
    NoPaths,
    #[error("agents need 1 to {MAX_TREES} trees that reach all of them, not {0}")]
    Trees(u32),
}

/// Paths and VLANs of a fabric.
#[derive(Clone, Debug)]
pub struct Plan {
    edges: Vec<SwitchId>,
    /// By switch: its place in `edges`.
    place: Vec<Option<u32>>,
    /// The cables of each VLAN, ascending.
    vlans: Vec<Vec<CableId>>,
    /// Those of the trees that reach all edge switches.
    trees: Vec<Vec<CableId>>,
    paths: PathTable,
    bound: usize,
    diversity: Diversity,
}

/// The paths of all pairs, one after the other; those of a pair go from the edge switch of the lower place to that of the higher.
#[derive(Clone, Debug, Default)]
struct PathTable {
    /// By pair, and one more: its first path.
    first: Vec<u32>,
    /// By path, and one more: its first cable.
    begin: Vec<u32>,
    cables: Vec<u32>,
    /// By path.
    vlan: Vec<u16>,
}

/// How many paths pairs have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Diversity {
    /// Pairs of edge switches.
    pub pairs: u64,
    /// Paths of a pair: the fewest, the mean, the most.
    pub paths: [f64; 3],
    /// Those among them that share no cable with another.
    pub disjoint: [f64; 3],
    /// Hops of the longest path.
    pub longest: u32,
    /// Cables between switches, and those that lie in a VLAN.
    pub cables: [u32; 2],
}

impl Plan {
    /// Plans paths between all switches that have hosts.
    ///
    /// # Errors
    /// [`SpainError`].
    pub fn new(fabric: &Fabric, config: &SpainConfig) -> Result<Self, SpainError> {
        let has_host =
            |s: &SwitchId| fabric.out(fabric.switch_node(*s)).iter().any(|&l| fabric.as_host(fabric.link(l).to).is_some());
        Self::between(fabric, fabric.switches().filter(has_host).collect(), config)
    }

    /// Plans paths between these switches, which are in ascending order.
    ///
    /// # Errors
    /// [`SpainError`].
    pub fn between(fabric: &Fabric, edges: Vec<SwitchId>, config: &SpainConfig) -> Result<Self, SpainError> {
        if config.paths == 0 {
            return Err(SpainError::NoPaths);
        }
        if !(1..=MAX_TREES).contains(&config.trees) {
            return Err(SpainError::Trees(config.trees));
        }
        let trees = broadcast_trees(fabric, &edges, config.trees as usize);
        let graph = SwitchGraph::new(fabric);
        let cables = fabric.cables().len();
        let (mut paths, mut diversity) = find(&graph, cables, &edges, config.paths as usize);
        let bound = diversity.paths[2] as usize;
        let vlans = pack(&graph, cables, &mut paths, bound, config, MAX_VLANS - trees.len())?;
        diversity.cables = [graph.arc_count() as u32 / 2, used(&vlans, cables)];
        let mut place = vec![None; fabric.switch_count()];
        for (i, edge) in edges.iter().enumerate() {
            place[edge.index()] = Some(i as u32);
        }
        let vlans = vlans.into_iter().map(|v| v.into_iter().map(CableId).collect()).collect();
        Ok(Self { edges, place, vlans, trees, paths, bound, diversity })
    }

    /// The switches that the plan joins, ascending.
    pub fn edges(&self) -> &[SwitchId] {
        &self.edges
    }

    /// The VLANs, ascending, and their cables.
    pub fn vlans(&self) -> impl ExactSizeIterator<Item = (VlanId, &[CableId])> {
        self.vlans.iter().enumerate().map(|(i, cables)| (vlan_id(i as u16), &cables[..]))
    }

    /// The VLANs of the trees that reach all edge switches, from the highest that there is downwards, and their cables. The paper has one.
    pub fn trees(&self) -> impl ExactSizeIterator<Item = (VlanId, &[CableId])> {
        self.trees.iter().enumerate().map(|(i, cables)| (VlanId((MAX_VLANS - i) as u16), &cables[..]))
    }

    /// The largest number of paths of any pair: no packing has fewer VLANs.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// How many paths pairs have.
    pub fn diversity(&self) -> Diversity {
        self.diversity
    }

    /// The VLANs with a path from one edge switch to the other, that of the shortest first; none if one of them is no edge switch, or
    /// both are the same.
    pub fn vlans_between(&self, a: SwitchId, b: SwitchId) -> impl Iterator<Item = VlanId> + '_ {
        self.range(a, b).map(|p| vlan_id(self.paths.vlan[p]))
    }

    /// The paths between two edge switches, each with its VLAN: cables from the switch of the lower number to the other.
    pub fn paths_between(&self, a: SwitchId, b: SwitchId) -> impl Iterator<Item = (VlanId, Vec<CableId>)> + '_ {
        let of = |p: usize| self.paths.begin[p] as usize..self.paths.begin[p + 1] as usize;
        self.range(a, b)
            .map(move |p| (vlan_id(self.paths.vlan[p]), self.paths.cables[of(p)].iter().map(|&c| CableId(c)).collect()))
    }

    /// The paths of a pair.
    fn range(&self, a: SwitchId, b: SwitchId) -> std::ops::Range<usize> {
        let [Some(i), Some(j)] = [a, b].map(|s| self.place.get(s.index()).copied().flatten()) else { return 0..0 };
        if i == j {
            return 0..0;
        }
        let pair = pair_number(i.min(j) as usize, i.max(j) as usize);
        self.paths.first[pair] as usize..self.paths.first[pair + 1] as usize
    }
}

const fn vlan_id(index: u16) -> VlanId {
    VlanId(index + 1)
}

/// Pairs are numbered by the higher place, then the lower.
const fn pair_number(low: usize, high: usize) -> usize {
    high * (high - 1) / 2 + low
}

/// All paths, not yet in VLANs.
fn find(graph: &SwitchGraph, cables: usize, edges: &[SwitchId], k: usize) -> (PathTable, Diversity) {
    let mut table = PathTable { first: vec![0], begin: vec![0], ..PathTable::default() };
    let mut finder = Finder::new(graph, cables);
    let (mut totals, mut least, mut most, mut longest) = ([0u64; 2], [u64::MAX; 2], [0u64; 2], 0);
    for (high, target) in edges.iter().enumerate() {
        finder.aim(target.0);
        for source in &edges[..high] {
            let (paths, disjoint) = finder.paths(source.0, k);
            for (i, n) in [paths.len() as u64, disjoint as u64].into_iter().enumerate() {
                totals[i] += n;
                least[i] = least[i].min(n);
                most[i] = most[i].max(n);
            }
            for path in paths {
                longest = longest.max(path.len() as u32);
                table.cables.extend_from_slice(&path);
                table.begin.push(u32::try_from(table.cables.len()).expect("fewer than 2^32 hops in all paths together"));
            }
            table.first.push(table.begin.len() as u32 - 1);
        }
    }
    let pairs = table.first.len() as u64 - 1;
    let of = |i: usize| if pairs == 0 { [0.0; 3] } else { [least[i] as f64, totals[i] as f64 / pairs as f64, most[i] as f64] };
    (table, Diversity { pairs, paths: of(0), disjoint: of(1), longest, cables: [0; 2] })
}

/// Packs the paths in several orders, keeps the best, and says which cables each VLAN has.
fn pack(
    graph: &SwitchGraph,
    cables: usize,
    table: &mut PathTable,
    bound: usize,
    config: &SpainConfig,
    most: usize,
) -> Result<Vec<Cables>, SpainError> {
    let mut ends = vec![(0, 0); cables];
    for switch in 0..graph.len() as u32 {
        for arc in graph.arcs(switch) {
            ends[cable(arc) as usize] = (switch, arc.to);
        }
    }
    let mut order: Vec<u32> = (0..table.first.len() as u32 - 1).collect();
    let mut rng = stream(config.seed, Stream::Spain);
    let mut best: Option<(Packing, Vec<u32>)> = None;
    for turn in 0..config.orders.max(1) {
        if turn > 0 {
            order.shuffle(&mut rng);
        }
        let mut packing = Packing::new(graph.len(), cables);
        let mut vlan = vec![0u32; table.begin.len() - 1];
        for &pair in &order {
            for path in table.first[pair as usize]..table.first[pair as usize + 1] {
                let [from, to] = [path, path + 1].map(|p| table.begin[p as usize] as usize);
                vlan[path as usize] = packing.place(&table.cables[from..to], &ends);
            }
        }
        if best.as_ref().is_none_or(|(b, _)| packing.len() < b.len()) {
            best = Some((packing, vlan));
        }
        if best.as_ref().is_some_and(|(b, _)| b.len() == bound) {
            break;
        }
    }
    let (packing, vlan) = best.expect("at least one order");
    if packing.len() > most {
        return Err(SpainError::TooManyVlans { needed: packing.len(), most, paths: config.paths });
    }
    table.vlan = vlan.into_iter().map(|v| v as u16).collect();
    Ok(packing.into_cables())
}

fn used(vlans: &[Cables], cables: usize) -> u32 {
    let mut on = vec![false; cables];
    for &cable in vlans.iter().flatten() {
        on[cable as usize] = true;
    }
    on.iter().filter(|&&u| u).count() as u32
}
