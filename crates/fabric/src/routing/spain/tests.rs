//! Plans against what must hold of any, and against slow references.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::time::Duration;
use crate::topology::metrics::max_flow::FlowNetwork;
use crate::topology::shapes::{Cabling, Shape};
use crate::topology::{FabricBuilder, Link};
use crate::units::BitsPerSec;

pub(in crate::routing) const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };

pub(in crate::routing) fn shape(shape: Shape) -> Fabric {
    shape.build(LINK, LINK).unwrap()
}

fn plan(fabric: &Fabric, paths: u32) -> Plan {
    Plan::new(fabric, &SpainConfig { paths, ..SpainConfig::default() }).unwrap()
}

/// A connected graph of switches, some of which have a host: a random tree and random cables besides, some of them parallel.
pub(in crate::routing) fn graphs() -> impl Strategy<Value = Fabric> {
    (2usize..10).prop_flat_map(|switches| {
        let tree = prop::collection::vec(any::<u32>(), switches - 1);
        let more = prop::collection::vec((0..switches, 0..switches), 0..18);
        let hosts = prop::collection::vec(any::<bool>(), switches);
        (tree, more, hosts).prop_map(move |(tree, more, hosts)| {
            let mut fabric = FabricBuilder::new("random");
            let ids: Vec<SwitchId> = (0..switches).map(|i| fabric.switch(format!("s{i}"), 1, None)).collect();
            for (i, has) in hosts.iter().enumerate() {
                if *has || i < 2 {
                    let host = fabric.host(format!("h{i}"), None);
                    fabric.cable(host, ids[i], LINK.rate, LINK.delay);
                }
            }
            for (i, above) in tree.iter().enumerate() {
                fabric.cable(ids[i + 1], ids[*above as usize % (i + 1)], LINK.rate, LINK.delay);
            }
            for (a, b) in more.into_iter().filter(|(a, b)| a != b) {
                fabric.cable(ids[a], ids[b], LINK.rate, LINK.delay);
            }
            fabric.build().unwrap()
        })
    })
}

/// The two switches of a cable.
fn ends(fabric: &Fabric, cable: CableId) -> [usize; 2] {
    let Link { from, to, .. } = *fabric.link(cable.links()[0]);
    [from, to].map(|n| fabric.as_switch(n).expect("a cable between switches").index())
}

/// Cables without a loop: each joins two parts that were apart. Plain labels, no union-find.
pub(in crate::routing) fn is_forest(fabric: &Fabric, cables: &[CableId]) -> bool {
    let mut label: Vec<usize> = (0..fabric.switch_count()).collect();
    cables.iter().all(|&cable| {
        let [a, b] = ends(fabric, cable).map(|s| label[s]);
        label.iter_mut().filter(|l| **l == a).for_each(|l| *l = b);
        a != b
    })
}

/// The largest number of edge-disjoint paths, by Dinic's algorithm.
fn max_disjoint(fabric: &Fabric, a: SwitchId, b: SwitchId) -> u64 {
    let mut net = FlowNetwork::new(fabric.switch_count());
    for cable in fabric.cables().filter(|c| fabric.as_host(fabric.link(c.links()[0]).from).is_none()) {
        let [a, b] = ends(fabric, cable);
        net.arc(a, b, 1, 1);
    }
    net.maximise(a.index(), b.index())
}

/// Hops between two switches, by relaxing all cables until nothing changes.
fn hops(fabric: &Fabric, from: SwitchId) -> Vec<usize> {
    let mut hops = vec![usize::MAX / 2; fabric.switch_count()];
    hops[from.index()] = 0;
    for _ in 0..fabric.switch_count() {
        for cable in fabric.cables().filter(|c| fabric.as_host(fabric.link(c.links()[0]).from).is_none()) {
            let [a, b] = ends(fabric, cable);
            hops[a] = hops[a].min(hops[b] + 1);
            hops[b] = hops[b].min(hops[a] + 1);
        }
    }
    hops
}

fn check(fabric: &Fabric, plan: &Plan, wanted: u32) {
    let vlans: Vec<(VlanId, &[CableId])> = plan.vlans().collect();
    assert!(vlans.len() >= plan.bound());
    for (vlan, cables) in &vlans {
        assert!(is_forest(fabric, cables), "a loop in {vlan:?}");
    }
    for (j, &b) in plan.edges().iter().enumerate() {
        let nearest = hops(fabric, b);
        for &a in &plan.edges()[..j] {
            let paths: Vec<(VlanId, Vec<CableId>)> = plan.paths_between(a, b).collect();
            assert_eq!(plan.vlans_between(b, a).collect::<Vec<_>>(), paths.iter().map(|p| p.0).collect::<Vec<_>>());
            let different: BTreeSet<VlanId> = paths.iter().map(|p| p.0).collect();
            assert_eq!(different.len(), paths.len(), "two paths of a pair in one VLAN");
            for (vlan, path) in &paths {
                let mut at = a.index();
                for &cable in path {
                    let [x, y] = ends(fabric, cable);
                    assert!(at == x || at == y, "a path that jumps");
                    at = if at == x { y } else { x };
                    assert!(vlans[usize::from(vlan.0) - 1].1.contains(&cable), "a path that leaves its VLAN");
                }
                assert_eq!(at, b.index());
            }
            // The first paths are disjoint, as many as there can be: then each may be longer than the shortest path, which would cut others off.
            let most = max_disjoint(fabric, a, b).min(u64::from(wanted)) as usize;
            assert!(paths[0].1.len() == nearest[a.index()] || most > 1, "the only disjoint path is a shortest one");
            assert!(paths[..most].is_sorted_by_key(|p| p.1.len()), "the shortest disjoint path comes first");
            assert!(paths.len() >= most, "{} paths where {most} disjoint ones are possible", paths.len());
            let cables: Vec<CableId> = paths[..most].iter().flat_map(|p| p.1.clone()).collect();
            assert_eq!(cables.iter().collect::<BTreeSet<_>>().len(), cables.len(), "a cable in two of {most} disjoint paths");
            assert!(paths[most..].iter().all(|p| p.1.len() == nearest[a.index()]), "a longer path that shares cables");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 300 / 256))]
    #[test]
    fn vlans_are_forests_and_paths_are_as_disjoint_as_can_be(fabric in graphs(), paths in 1u32..7, seed: u64) {
        let plan = Plan::new(&fabric, &SpainConfig { paths, orders: 3, seed, ..SpainConfig::default() }).unwrap();
        check(&fabric, &plan, paths);
    }
}

#[test]
fn a_two_level_fat_tree_needs_a_vlan_for_each_core() {
    let fabric = shape(Shape::TwoLevel { edges: 16, cores: 16, hosts_per_edge: 1 });
    let plan = plan(&fabric, 16);
    check(&fabric, &plan, 16);
    assert_eq!((plan.vlans().len(), plan.bound()), (16, 16));
    // Each a star around a core.
    for (vlan, cables) in plan.vlans() {
        let core = ends(&fabric, cables[0])[1];
        assert!(cables.len() == 16 && cables.iter().all(|&c| ends(&fabric, c)[1] == core), "{vlan:?}");
    }
}

#[test]
fn a_clique_needs_a_vlan_for_each_root() {
    for roots in [3, 4, 6, 9, 16] {
        let fabric = shape(Shape::Clique { switches: roots, hosts_per_switch: 1 });
        let plan = plan(&fabric, 16);
        check(&fabric, &plan, 16);
        assert_eq!((plan.vlans().len(), plan.bound()), (roots as usize, roots as usize - 1), "clique of {roots}");
    }
}

#[test]
fn six_of_sixteen_switches_of_a_clique_need_six_vlans() {
    let fabric = shape(Shape::Clique { switches: 16, hosts_per_switch: 1 });
    let edges = (0..6).map(SwitchId).collect();
    let plan = Plan::between(&fabric, edges, &SpainConfig { paths: 5, ..SpainConfig::default() }).unwrap();
    check(&fabric, &plan, 5);
    assert_eq!((plan.vlans().len(), plan.bound()), (6, 5));
}

#[test]
fn regular_fabrics_are_packed_near_the_bound() {
    let cases = [
        (Shape::FatTree { k: 4 }, 4, 4),
        (Shape::FatTree { k: 8 }, 16, 16),
        (Shape::ClosExplicit { intermediates: 3, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 1 }, 2, 3),
        (Shape::Switch { hosts: 4 }, 0, 0),
    ];
    for (kind, bound, most) in cases {
        let fabric = shape(kind);
        let plan = plan(&fabric, 16);
        check(&fabric, &plan, 16);
        assert_eq!(plan.bound(), bound, "{kind:?}");
        assert!(plan.vlans().len() <= most, "{kind:?}: {} VLANs, the bound is {bound}", plan.vlans().len());
    }
}

#[test]
fn beyond_twelve_bits_it_says_how_many_it_needs() {
    // Two switches with 5,000 cables: each path needs a VLAN of its own.
    let mut fabric = FabricBuilder::new("a thick cable");
    let ids: Vec<SwitchId> = (0..2).map(|i| fabric.switch(format!("s{i}"), 1, None)).collect();
    for (i, &id) in ids.iter().enumerate() {
        let host = fabric.host(format!("h{i}"), None);
        fabric.cable(host, id, LINK.rate, LINK.delay);
    }
    for _ in 0..5_000 {
        fabric.cable(ids[0], ids[1], LINK.rate, LINK.delay);
    }
    let fabric = fabric.build().unwrap();
    let error = Plan::new(&fabric, &SpainConfig { paths: 9_999, ..SpainConfig::default() }).unwrap_err();
    assert_eq!(error, SpainError::TooManyVlans { needed: 5_000, most: 4_092, paths: 9_999 });
    assert_eq!(plan(&fabric, 4_000).vlans().len(), 4_000);
    assert_eq!(Plan::new(&fabric, &SpainConfig { paths: 0, ..SpainConfig::default() }).unwrap_err(), SpainError::NoPaths);
    assert_eq!(Plan::new(&fabric, &SpainConfig { trees: 0, ..SpainConfig::default() }).unwrap_err(), SpainError::Trees(0));
}

#[test]
fn switches_are_configured_with_the_vlans_of_each_port() {
    let fabric = shape(Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 1 });
    let configs = plan(&fabric, 16).switch_configs(&fabric);
    let ports: Vec<Vec<u16>> = configs.iter().flat_map(|c| &c.ports).map(|p| p.vlans.iter().map(|v| v.0).collect()).collect();
    // Paths over each core, and a tree for all around each.
    let (all, one, two) = (vec![1, 2, 4093, 4094], vec![1, 4094], vec![2, 4093]);
    assert_eq!(ports, [&all, &one, &two, &all, &one, &two, &one, &one, &two, &two].map(Vec::clone));
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let fabric = shape(Shape::FatTree { k: 4 });
    let vlans = |seed| {
        let plan = Plan::new(&fabric, &SpainConfig { seed, ..SpainConfig::default() }).unwrap();
        plan.vlans().map(|(v, c)| (v, c.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(vlans(3), vlans(3));
}

#[test]
fn two_disjoint_paths_rather_than_the_shortest() {
    // 0 - 2 - 3 - 1 is the shortest path, and cuts off both 0 - 2 - 4 - 5 - 1 and 0 - 6 - 7 - 3 - 1.
    let mut fabric = FabricBuilder::new("a trap");
    let ids: Vec<SwitchId> = (0..8).map(|i| fabric.switch(format!("s{i}"), 1, None)).collect();
    for (i, &id) in ids[..2].iter().enumerate() {
        let host = fabric.host(format!("h{i}"), None);
        fabric.cable(host, id, LINK.rate, LINK.delay);
    }
    for (a, b) in [(0, 2), (2, 3), (3, 1), (2, 4), (4, 5), (5, 1), (0, 6), (6, 7), (7, 3)] {
        fabric.cable(ids[a], ids[b], LINK.rate, LINK.delay);
    }
    let fabric = fabric.build().unwrap();
    for (wanted, lengths) in [(1, &[3][..]), (2, &[4, 4]), (3, &[4, 4, 3])] {
        let plan = plan(&fabric, wanted);
        check(&fabric, &plan, wanted);
        let paths = plan.paths_between(ids[0], ids[1]);
        assert_eq!(paths.map(|p| p.1.len()).collect::<Vec<_>>(), lengths);
    }
}
