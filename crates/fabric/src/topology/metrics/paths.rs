//! Path diversity: in how many paths one rack reaches another.

use serde::Serialize;

use crate::ids::RackId;
use crate::topology::Fabric;
use crate::topology::metrics::max_flow::FlowNetwork;
use crate::topology::switch_graph::SwitchGraph;

/// Paths between two different racks. Parallel cables count apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paths {
    /// Ordered pairs of racks that were looked at for `shortest` and the diameter.
    pub pairs: u64,
    /// Whether these are all pairs: beyond about 10,000 racks only some, evenly spaced, are sources.
    pub all_pairs: bool,
    /// Equal-cost shortest paths from the switches of one rack to those of the other: what ECMP spreads over.
    /// `None` if there is one rack.
    pub shortest: Option<Spread>,
    /// The most paths, of any length, no two of which share a cable: the cables that must fail to part the racks.
    /// Of up to 64 pairs, evenly spaced; `None` if no pair of racks has switches of its own.
    pub disjoint: Option<Spread>,
}

/// The distribution of a count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Most.
    pub max: u64,
}

impl Spread {
    fn of(values: impl Iterator<Item = u64>) -> Option<Self> {
        let (mut min, mut max, mut sum, mut count) = (u64::MAX, 0, 0.0, 0u64);
        for value in values {
            min = min.min(value);
            max = max.max(value);
            sum += value as f64;
            count += 1;
        }
        (count > 0).then(|| Self { min, mean: sum / count as f64, max })
    }
}

/// The paths, and the diameter in links.
pub(super) fn measure(fabric: &Fabric, graph: &SwitchGraph) -> (Paths, u32) {
    let racks = fabric.racks().len();
    let work = (graph.arc_count() + graph.len() + racks).max(1);
    let sources = (WORK / work).clamp(1, racks);
    let mut search = Search::new(graph.len());
    let mut counts = Vec::with_capacity(sources * (racks - 1));
    let mut farthest = if fabric.racks().iter().any(|r| r.hosts.len() > 1) { 2 } else { 0 };
    for i in 0..sources {
        let source = RackId::from(i * racks / sources);
        search.search_from(fabric, graph, source);
        for (r, rack) in fabric.racks().iter().enumerate().filter(|&(r, _)| r != source.index()) {
            let nearest = rack.switches.iter().map(|s| search.distance[s.index()]).min().expect("a rack has a switch");
            farthest = farthest.max(nearest + 2);
            let ends = distinct(rack.switches.iter().map(|s| s.0)).filter(|&s| search.distance[s as usize] == nearest);
            let paths = ends.map(|s| search.paths[s as usize]).fold(0, u64::saturating_add);
            debug_assert!(r < racks && paths > 0);
            counts.push(paths);
        }
    }
    let paths = Paths {
        pairs: counts.len() as u64,
        all_pairs: sources == racks,
        shortest: Spread::of(counts.into_iter()),
        disjoint: disjoint(fabric, graph),
    };
    (paths, farthest)
}

/// Breadth-first search that counts shortest paths.
struct Search {
    distance: Vec<u32>,
    paths: Vec<u64>,
    queue: Vec<u32>,
}

impl Search {
    fn new(switches: usize) -> Self {
        Self { distance: vec![0; switches], paths: vec![0; switches], queue: Vec::with_capacity(switches) }
    }

    fn search_from(&mut self, fabric: &Fabric, graph: &SwitchGraph, source: RackId) {
        self.distance.fill(u32::MAX);
        self.paths.fill(0);
        self.queue.clear();
        for switch in distinct(fabric.racks()[source.index()].switches.iter().map(|s| s.0)) {
            self.distance[switch as usize] = 0;
            self.paths[switch as usize] = 1;
            self.queue.push(switch);
        }
        let mut head = 0;
        while let Some(&switch) = self.queue.get(head) {
            head += 1;
            let (next, paths) = (self.distance[switch as usize] + 1, self.paths[switch as usize]);
            for arc in graph.arcs(switch) {
                let to = arc.to as usize;
                if self.distance[to] == u32::MAX {
                    self.distance[to] = next;
                    self.queue.push(arc.to);
                }
                if self.distance[to] == next {
                    self.paths[to] = self.paths[to].saturating_add(paths);
                }
            }
        }
    }
}

/// A host with two NICs on one switch lists it twice.
fn distinct(switches: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let mut list: Vec<u32> = switches.collect();
    list.sort_unstable();
    list.dedup();
    list.into_iter()
}

fn disjoint(fabric: &Fabric, graph: &SwitchGraph) -> Option<Spread> {
    let racks = fabric.racks().len();
    let mut unit = FlowNetwork::new(graph.len() + 2);
    for switch in 0..graph.len() as u32 {
        for arc in graph.arcs(switch).iter().filter(|a| a.link.0.is_multiple_of(2)) {
            unit.arc(switch as usize, arc.to as usize, 1, 1);
        }
    }
    let (source, sink) = (graph.len(), graph.len() + 1);
    // Any switch may be an end: the arcs from the source and to the sink are there from the start, without capacity.
    let ends: Vec<[usize; 2]> = (0..graph.len()).map(|s| [unit.arc(source, s, 0, 0), unit.arc(s, sink, 0, 0)]).collect();
    let pairs = racks.min(DISJOINT_PAIRS);
    Spread::of((0..pairs).filter_map(|i| {
        let a = i * racks / pairs;
        // A different distance for each: pairs in the same pod, in the next one, and far apart.
        let b = (a + 1 + i * (racks - 1).max(1) / pairs) % racks;
        let [from, to] = [a, b].map(|r| &fabric.racks()[r].switches);
        if a == b || from.iter().any(|s| to.contains(s)) {
            return None;
        }
        let set = |unit: &mut FlowNetwork, capacity| {
            from.iter().for_each(|s| unit.set_one_way(ends[s.index()][0], capacity));
            to.iter().for_each(|s| unit.set_one_way(ends[s.index()][1], capacity));
        };
        set(&mut unit, u64::from(u32::MAX));
        unit.reset();
        let count = unit.maximise(source, sink);
        set(&mut unit, 0);
        Some(count)
    }))
}

/// At most so many arcs are visited by the searches for shortest paths: half a second.
const WORK: usize = 400_000_000;
/// Pairs of racks whose disjoint paths are counted.
const DISJOINT_PAIRS: usize = 64;
