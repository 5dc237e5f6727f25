//! Trees over the switches of a fabric: the one that a spanning tree protocol finds, and several that share as few cables as they can.
//!
//! ```text
//!   spanning_tree    breadth first from the root, over what works        one tree, of shortest paths
//!   broadcast_trees  1  a tree with the least used cables (Prim)
//!                    2  a cable of two trees is replaced in one of them, by cables that no tree has or by one of another tree, which is replaced there
//!                    3  branches that lead nowhere are taken off
//! ```
//! A tree is a list of cables, ascending. If the switches are not all joined it is one tree for each part of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::ids::{CableId, SwitchId};
use crate::topology::switch_graph::SwitchGraph;
use crate::topology::{Fabric, Health};

/// The spanning tree of what works: breadth first from the first working switch of the highest tier, as an operator would set the bridges' priorities.
pub fn spanning_tree(fabric: &Fabric, health: &Health) -> Vec<CableId> {
    let graph = SwitchGraph::new(fabric);
    let mut seen = vec![false; graph.len()];
    let mut tree = Vec::new();
    for root in (0..=fabric.top_tier()).rev().flat_map(|tier| fabric.switches_of_tier(tier)) {
        if !health.node_is_up(fabric.switch_node(root)) || std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        let mut queue = VecDeque::from([root.0]);
        while let Some(switch) = queue.pop_front() {
            for arc in graph.arcs(switch).iter().filter(|arc| health.is_up(arc.link)) {
                if !std::mem::replace(&mut seen[arc.to as usize], true) {
                    tree.push(arc.link.cable());
                    queue.push_back(arc.to);
                }
            }
        }
    }
    tree.sort_unstable();
    tree
}

/// Takes the branches off a tree that lead to none of these switches.
pub fn prune(fabric: &Fabric, is_wanted: impl Fn(SwitchId) -> bool, tree: &mut Vec<CableId>) {
    loop {
        let mut degree = vec![0u32; fabric.switch_count()];
        tree.iter().flat_map(|&cable| ends(fabric, cable)).for_each(|end| degree[end.index()] += 1);
        let before = tree.len();
        tree.retain(|&cable| ends(fabric, cable).iter().all(|&end| degree[end.index()] > 1 || is_wanted(end)));
        if tree.len() == before {
            return;
        }
    }
}

/// Up to `count` trees that each reach all these switches and share as few cables as this search finds: none where all switches are among them and there are
/// so many disjoint spanning trees. Each has a cable that no other has, so there may be fewer; the first is always there. Later ones avoid the switches that
/// forward in those before where that costs no shared cable.
pub fn broadcast_trees(fabric: &Fabric, edges: &[SwitchId], count: usize) -> Vec<Vec<CableId>> {
    let graph = SwitchGraph::new(fabric);
    let mut is_edge = vec![false; graph.len()];
    edges.iter().for_each(|edge| is_edge[edge.index()] = true);
    let mut use_ = Use { cables: vec![0; fabric.cables().len()], switches: vec![0; graph.len()] };
    let mut trees: Vec<Vec<CableId>> = Vec::new();
    for _ in 0..count.max(1) {
        let mut tree = least_used(&graph, &use_);
        prune(fabric, |s| is_edge[s.index()], &mut tree);
        use_.count(fabric, &tree);
        trees.push(tree);
    }
    separate(fabric, &graph, &mut trees, &mut use_.cables);
    for tree in &mut trees {
        prune(fabric, |s| is_edge[s.index()], tree);
        tree.sort_unstable();
    }
    let mut kept: Vec<Vec<CableId>> = Vec::new();
    for tree in trees {
        if kept.is_empty() || tree.iter().any(|cable| kept.iter().all(|other| !other.contains(cable))) {
            kept.push(tree);
        }
    }
    kept
}

/// What earlier trees have.
struct Use {
    /// By cable: trees that have it.
    cables: Vec<u32>,
    /// By switch: trees in which it forwards.
    switches: Vec<u32>,
}

impl Use {
    fn count(&mut self, fabric: &Fabric, tree: &[CableId]) {
        let mut degree = vec![0u32; self.switches.len()];
        for &cable in tree {
            self.cables[cable.index()] += 1;
            ends(fabric, cable).iter().for_each(|end| degree[end.index()] += 1);
        }
        self.switches.iter_mut().zip(degree).for_each(|(uses, degree)| *uses += u32::from(degree > 1));
    }
}

/// A tree that shares the fewest cables with earlier ones (Prim's algorithm), then passes the fewest switches that forward in them, then is shallow. Its root is
/// a switch that forwards in the fewest of them, and of these the one with the most cables that none has.
fn least_used(graph: &SwitchGraph, use_: &Use) -> Vec<CableId> {
    let free = |s: u32| graph.arcs(s).iter().filter(|arc| use_.cables[arc.link.cable().index()] == 0).count();
    let mut roots: Vec<u32> = (0..graph.len() as u32).collect();
    roots.sort_by_key(|&s| (use_.switches[s as usize], Reverse(free(s)), s));
    let mut reached = vec![false; graph.len()];
    let mut tree = Vec::new();
    for root in roots {
        let mut border = BinaryHeap::from([Reverse((0, 0, 0u32, None, root))]);
        while let Some(Reverse((_, _, depth, cable, at))) = border.pop() {
            if std::mem::replace(&mut reached[at as usize], true) {
                continue;
            }
            tree.extend(cable);
            for arc in graph.arcs(at).iter().filter(|arc| !reached[arc.to as usize]) {
                let cable = arc.link.cable();
                let (shared, forwards) = (use_.cables[cable.index()], use_.switches[arc.to as usize]);
                border.push(Reverse((shared, forwards, depth + 1, Some(cable), arc.to)));
            }
        }
    }
    tree
}

/// Takes cables that several trees have out of one of them, where others can take their place.
fn separate(fabric: &Fabric, graph: &SwitchGraph, trees: &mut [Vec<CableId>], uses: &mut [u32]) {
    let shared: Vec<CableId> = fabric.cables().filter(|cable| uses[cable.index()] > 1).collect();
    for cable in shared {
        for at in 0..trees.len() {
            if uses[cable.index()] > 1
                && trees[at].contains(&cable)
                && let Some(better) = exchanged(fabric, graph, trees, uses, (cable, at))
            {
                trees.clone_from_slice(&better);
                uses.fill(0);
                better.iter().flatten().for_each(|cable| uses[cable.index()] += 1);
            }
        }
    }
}

/// A cable, and the number of a tree that is to do without it.
type Step = (CableId, usize);

/// The trees with one use less of a shared cable. It is replaced by a path of unused cables, or by a cable of another tree, which is replaced there in turn: the
/// shortest such chain, as in the union of matroids (Edmonds 1968).
fn exchanged(
    fabric: &Fabric,
    graph: &SwitchGraph,
    trees: &[Vec<CableId>],
    uses: &[u32],
    first: Step,
) -> Option<Vec<Vec<CableId>>> {
    let mut from: BTreeMap<Step, Option<Step>> = BTreeMap::from([(first, None)]);
    let mut queue = VecDeque::from([first]);
    while let Some(step) = queue.pop_front() {
        let (cable, at) = step;
        let sides = sides(fabric, graph, &trees[at], cable);
        if let Some(path) = path_of_unused(graph, &sides, uses) {
            let mut better = trees.to_vec();
            let (mut last, mut instead) = (Some(step), path);
            while let Some((cable, at)) = last {
                better[at].retain(|c| *c != cable);
                better[at].append(&mut instead);
                instead.push(cable);
                last = from[&(cable, at)];
            }
            let is_sound = better.iter().zip(trees).all(|(new, old)| is_as_joined(fabric, new, old));
            return is_sound.then_some(better);
        }
        for (other, tree) in trees.iter().enumerate().filter(|(other, _)| *other != at) {
            let crosses = |c: &CableId| ends(fabric, *c).map(|s| sides[s.index()]).iter().flatten().sum::<u8>() == BOTH;
            for &c in tree.iter().filter(|c| uses[c.index()] == 1 && crosses(c)) {
                from.entry((c, other)).or_insert_with(|| {
                    queue.push_back((c, other));
                    Some(step)
                });
            }
        }
    }
    None
}

/// The two sides of a tree without one of its cables, by switch: 1 and 2; none: the switch is not in the tree.
fn sides(fabric: &Fabric, graph: &SwitchGraph, tree: &[CableId], without: CableId) -> Vec<Option<u8>> {
    let mut joined: Vec<Vec<u32>> = vec![Vec::new(); graph.len()];
    for [a, b] in tree.iter().filter(|cable| **cable != without).map(|&cable| ends(fabric, cable)) {
        joined[a.index()].push(b.0);
        joined[b.index()].push(a.0);
    }
    let mut side = vec![None; graph.len()];
    for (number, end) in (1..).zip(ends(fabric, without)) {
        let mut next = vec![end.0];
        while let Some(at) = next.pop() {
            if side[at as usize].replace(number).is_none() {
                next.extend(&joined[at as usize]);
            }
        }
    }
    side
}

/// What the ends of a cable between the two sides add up to.
const BOTH: u8 = 3;

/// The shortest path of unused cables from one side to the other over switches that are in neither.
fn path_of_unused(graph: &SwitchGraph, sides: &[Option<u8>], uses: &[u32]) -> Option<Vec<CableId>> {
    let mut back: Vec<Option<(u32, CableId)>> = vec![None; graph.len()];
    let mut queue: VecDeque<u32> = (0..graph.len() as u32).filter(|&s| sides[s as usize] == Some(1)).collect();
    while let Some(at) = queue.pop_front() {
        for arc in graph.arcs(at).iter().filter(|arc| uses[arc.link.cable().index()] == 0) {
            if sides[arc.to as usize] == Some(1) || back[arc.to as usize].is_some() {
                continue;
            }
            back[arc.to as usize] = Some((at, arc.link.cable()));
            if sides[arc.to as usize].is_some() {
                let path = std::iter::successors(back[arc.to as usize], |&(before, _)| back[before as usize]);
                return Some(path.map(|(_, cable)| cable).collect());
            }
            queue.push_back(arc.to);
        }
    }
    None
}

/// Whether a tree has no loop and joins what another one joins.
fn is_as_joined(fabric: &Fabric, tree: &[CableId], other: &[CableId]) -> bool {
    let mut label: Vec<u32> = (0..fabric.switch_count() as u32).collect();
    let is_forest = tree.iter().all(|&cable| {
        let [a, b] = ends(fabric, cable).map(|s| label[s.index()]);
        label.iter_mut().filter(|l| **l == a).for_each(|l| *l = b);
        a != b
    });
    is_forest && other.iter().map(|&cable| ends(fabric, cable).map(|s| label[s.index()])).all(|[a, b]| a == b)
}

fn ends(fabric: &Fabric, cable: CableId) -> [SwitchId; 2] {
    let link = fabric.link(cable.links()[0]);
    [link.from, link.to].map(|node| fabric.as_switch(node).expect("a cable between switches"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::spain::tests::{LINK, graphs, is_forest, shape};
    use crate::topology::shapes::Shape;
    use crate::topology::{FabricBuilder, Part};
    use proptest::prelude::*;

    fn with_hosts(fabric: &Fabric) -> Vec<SwitchId> {
        let has_host =
            |s: &SwitchId| fabric.out(fabric.switch_node(*s)).iter().any(|&l| fabric.as_host(fabric.link(l).to).is_some());
        fabric.switches().filter(has_host).collect()
    }

    /// Whether cables join all these switches.
    fn joins(fabric: &Fabric, cables: &[CableId], switches: &[SwitchId]) -> bool {
        let mut label: Vec<usize> = (0..fabric.switch_count()).collect();
        for [a, b] in cables.iter().map(|&cable| ends(fabric, cable)) {
            let [a, b] = [a, b].map(|s| label[s.index()]);
            label.iter_mut().filter(|l| **l == a).for_each(|l| *l = b);
        }
        switches.iter().all(|s| label[s.index()] == label[switches[0].index()])
    }

    fn shared(trees: &[Vec<CableId>]) -> usize {
        let all: std::collections::BTreeSet<CableId> = trees.iter().flatten().copied().collect();
        trees.iter().map(Vec::len).sum::<usize>() - all.len()
    }

    #[test]
    fn regular_fabrics_have_trees_that_share_no_cable() {
        for (form, count) in [
            (Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 }, 2),
            (Shape::TwoLevel { edges: 16, cores: 16, hosts_per_edge: 1 }, 4),
            (Shape::FatTree { k: 4 }, 2),
            (Shape::FatTree { k: 8 }, 4),
            (Shape::Clique { switches: 4, hosts_per_switch: 1 }, 2),
            (Shape::Clique { switches: 5, hosts_per_switch: 1 }, 2),
            (Shape::Clique { switches: 6, hosts_per_switch: 1 }, 3),
        ] {
            let fabric = shape(form);
            let trees = broadcast_trees(&fabric, &with_hosts(&fabric), count);
            assert_eq!((trees.len(), shared(&trees)), (count, 0), "{form:?}");
        }
    }

    #[test]
    fn one_way_is_one_tree() {
        let fabric = shape(Shape::Switch { hosts: 4 });
        assert_eq!(broadcast_trees(&fabric, &with_hosts(&fabric), 2), [vec![]]);
        let fabric = shape(Shape::TwoLevel { edges: 3, cores: 1, hosts_per_edge: 1 });
        assert_eq!(broadcast_trees(&fabric, &with_hosts(&fabric), 2).len(), 1);
    }

    /// All paths to divide `n` things: the group of each, numbered in the order of their first.
    fn partitions(n: usize) -> Vec<Vec<usize>> {
        (0..n).fold(vec![vec![]], |all, _| {
            let wider = |part: &Vec<usize>| {
                let groups = part.iter().max().map_or(0, |m| m + 1);
                (0..=groups).map(|g| part.iter().copied().chain([g]).collect()).collect::<Vec<_>>()
            };
            all.iter().flat_map(wider).collect()
        })
    }

    /// The trees of a thousand edge switches: quick enough for a plan.
    #[test]
    fn a_large_fabric_has_its_trees() {
        let fabric = shape(Shape::TwoLevel { edges: 1_000, cores: 16, hosts_per_edge: 1 });
        let trees = broadcast_trees(&fabric, &with_hosts(&fabric), 2);
        assert_eq!((trees.len(), shared(&trees), trees[0].len()), (2, 0, 1_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 200 / 256))]
        #[test]
        fn every_tree_reaches_all_and_has_no_loop(fabric in graphs(), count in 1usize..4) {
            let edges = with_hosts(&fabric);
            let trees = broadcast_trees(&fabric, &edges, count);
            prop_assert!((1..=count).contains(&trees.len()));
            for (i, tree) in trees.iter().enumerate() {
                prop_assert!(is_forest(&fabric, tree) && joins(&fabric, tree, &edges));
                prop_assert!(i == 0 || tree.iter().any(|c| trees[..i].iter().all(|t| !t.contains(c))), "a tree twice");
            }
        }

        /// Tutte and Nash-Williams: there are k disjoint spanning trees if and only if every division into p groups is crossed by k (p - 1) cables.
        #[test]
        fn where_there_are_disjoint_spanning_trees_they_are_found(
            n in 2usize..7, cables in prop::collection::vec((0usize..7, 0usize..7), 0..20), count in 2usize..4,
        ) {
            let mut builder = FabricBuilder::new("random");
            let ids: Vec<SwitchId> = (0..n).map(|i| builder.switch(format!("s{i}"), 1, None)).collect();
            let line = (1..n).map(|i| (i - 1, i));
            let cables: Vec<(usize, usize)> = line.chain(cables.iter().map(|(a, b)| (a % n, b % n))).filter(|(a, b)| a != b).collect();
            for (i, &id) in ids.iter().enumerate() {
                let host = builder.host(format!("h{i}"), None);
                builder.cable(host, id, LINK.rate, LINK.delay);
            }
            for &(a, b) in &cables {
                builder.cable(ids[a], ids[b], LINK.rate, LINK.delay);
            }
            let fabric = builder.build().unwrap();
            let crossed = |part: &Vec<usize>| cables.iter().filter(|(a, b)| part[*a] != part[*b]).count();
            let groups = |part: &Vec<usize>| part.iter().max().map_or(0, |m| m + 1);
            let is_possible = partitions(n).iter().all(|part| crossed(part) >= count * (groups(part) - 1));
            let trees = broadcast_trees(&fabric, &ids, count);
            prop_assert_eq!(trees.len() == count && shared(&trees) == 0, is_possible);
        }

        #[test]
        fn the_spanning_tree_joins_what_works(fabric in graphs(), dead in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
            let mut health = Health::new(&fabric);
            let cables: Vec<CableId> = fabric.cables().filter(|c| fabric.as_host(fabric.link(c.links()[0]).from).is_none()).collect();
            for index in dead {
                health.fail(&fabric, Part::Cable(*index.get(&cables)));
            }
            let working: Vec<CableId> = cables.into_iter().filter(|c| health.is_up(c.links()[0])).collect();
            let tree = spanning_tree(&fabric, &health);
            prop_assert!(is_forest(&fabric, &tree) && tree.iter().all(|c| working.contains(c)));
            for a in fabric.switches() {
                for b in fabric.switches() {
                    prop_assert_eq!(joins(&fabric, &tree, &[a, b]), joins(&fabric, &working, &[a, b]));
                }
            }
        }
    }
}
