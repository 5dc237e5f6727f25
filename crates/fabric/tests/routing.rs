//! What routing promises, on every regular fabric and on random graphs, with parts failed or not.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use rand::seq::IndexedRandom;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::routing::next_hops::Target;
use weft_fabric::routing::{FlowKey, NextHops, Path, RootLabel, RootPaths, Router, Routing, RoutingKind};
use weft_fabric::topology::shapes::Cabling;
use weft_fabric::topology::{FabricBuilder, Part, Shape};
use weft_fabric::{BitsPerSec, CableId, Duration, Fabric, Health, HostId, LinkId, NodeId, RackId};

const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };

const TREE: Shape = Shape::Tree {
    tors: 8,
    hosts_per_tor: 3,
    tors_per_pod: Some(2),
    redundancy: 2,
    tor_oversubscription: 3.0,
    top_oversubscription: 6.0,
};

const SHAPES: [Shape; 8] = [
    Shape::FatTree { k: 4 },
    Shape::FatTree { k: 8 },
    Shape::VL2_TESTBED,
    Shape::Clos { agg_ports: 6, int_ports: 4, hosts_per_tor: 3 },
    Shape::TwoLevel { edges: 6, cores: 4, hosts_per_edge: 3 },
    TREE,
    Shape::Clique { switches: 5, hosts_per_switch: 3 },
    Shape::Switch { hosts: 6 },
];

fn built(shape: Shape) -> Arc<Fabric> {
    Arc::new(shape.build(LINK, LINK).unwrap_or_else(|e| panic!("{shape:?}: {e}")))
}

/// Two NICs a host, on neighbouring switches of a ring of racks.
fn dual_homed() -> Arc<Fabric> {
    let mut b = FabricBuilder::new("dual-homed");
    let edges: Vec<_> = (0..6).map(|i| b.switch(format!("edge{i}"), 1, None)).collect();
    let cores: Vec<_> = (0..3).map(|i| b.switch(format!("core{i}"), 2, None)).collect();
    for i in 0..24 {
        let host = b.host(format!("h{i}"), None);
        for edge in [edges[i / 4], edges[(i / 4 + 1) % 6]] {
            b.cable(host, edge, LINK.rate, LINK.delay);
        }
    }
    for &edge in &edges {
        cores.iter().for_each(|&core| b.cable(edge, core, LINK.rate, LINK.delay));
    }
    Arc::new(b.build().expect("a fabric"))
}

fn kind(kind: RoutingKind) -> Routing {
    Routing { kind, ..Routing::default() }
}

/// From NIC to NIC, link after link, through switches, over no directed link twice.
fn check_path(fabric: &Fabric, src: HostId, dst: HostId, path: &[LinkId]) {
    assert_eq!(fabric.link(path[0]).from, src.node());
    assert_eq!(fabric.link(path[path.len() - 1]).to, dst.node());
    for pair in path.windows(2) {
        assert_eq!(fabric.link(pair[0]).to, fabric.link(pair[1]).from, "consecutive");
        assert!(fabric.as_switch(fabric.link(pair[0]).to).is_some(), "hosts never forward");
    }
    assert_eq!(path.iter().collect::<BTreeSet<_>>().len(), path.len(), "no link twice");
}

fn visits_no_node_twice(fabric: &Fabric, path: &[LinkId]) -> bool {
    path.iter().map(|&l| fabric.link(l).to).collect::<BTreeSet<_>>().len() == path.len()
}

/// The reference: distances in links to a node, by relaxing every link until nothing changes.
fn distances_to(fabric: &Fabric, health: &Health, to: &[NodeId]) -> Vec<Option<usize>> {
    let mut distance = vec![None; fabric.nodes().len()];
    to.iter().filter(|&&n| health.node_is_up(n)).for_each(|n| distance[n.index()] = Some(0));
    loop {
        let mut changed = false;
        for (i, link) in fabric.links().iter().enumerate() {
            let forwards = fabric.as_switch(link.to).is_some() || to.contains(&link.to);
            if let (true, true, Some(d)) = (forwards, health.is_up(LinkId::from(i)), distance[link.to.index()])
                && distance[link.from.index()].is_none_or(|here| here > d + 1)
            {
                distance[link.from.index()] = Some(d + 1);
                changed = true;
            }
        }
        if !changed {
            return distance;
        }
    }
}

fn pairs(fabric: &Fabric) -> Vec<(HostId, HostId)> {
    let step = (fabric.host_count() / 16).max(1);
    let hosts = || fabric.hosts().step_by(step);
    hosts().flat_map(|a| hosts().map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
}

#[test]
fn single_path_and_ecmp_take_shortest_paths() {
    for fabric in SHAPES.map(built).into_iter().chain([dual_homed()]) {
        let health = Health::new(&fabric);
        for k in [RoutingKind::SinglePath, RoutingKind::Ecmp] {
            let mut router = Router::new(Arc::clone(&fabric), kind(k), 1);
            for (n, (src, dst)) in pairs(&fabric).into_iter().enumerate() {
                let path = router.route(&FlowKey::of_flow(n as u32, src, dst)).expect("healthy");
                check_path(&fabric, src, dst, &path);
                let reference = distances_to(&fabric, &health, &[dst.node()])[src.index()];
                assert_eq!(Some(path.len()), reference, "{}", fabric.title());
                if k == RoutingKind::SinglePath {
                    assert_eq!(Some(path), router.route(&FlowKey::of_flow(n as u32 + 7_777, src, dst)));
                }
            }
        }
    }
}

#[test]
fn vlb_crosses_an_intermediate_and_uses_all_of_them() {
    for (fabric, vlb_local) in SHAPES.map(built).into_iter().flat_map(|f| [(Arc::clone(&f), true), (f, false)]) {
        let roots: BTreeSet<NodeId> = fabric.switches_of_tier(fabric.top_tier()).map(|s| fabric.switch_node(s)).collect();
        let mut router = Router::new(Arc::clone(&fabric), Routing { vlb_local, ..kind(RoutingKind::Vlb) }, 1);
        let mut used = BTreeSet::new();
        for (n, (src, dst)) in pairs(&fabric).into_iter().cycle().take(2_000).enumerate() {
            let path = router.route(&FlowKey::of_flow(n as u32, src, dst)).expect("healthy");
            let crossed: BTreeSet<_> = path.iter().map(|&l| fabric.link(l).to).filter(|n| roots.contains(n)).collect();
            let local = fabric.rack_of(src) == fabric.rack_of(dst);
            if local && !vlb_local {
                assert_eq!(path.len(), 2, "not outside of the rack");
                check_path(&fabric, src, dst, &path);
            } else {
                assert!(!crossed.is_empty());
                used.extend(crossed);
            }
            if !local {
                check_path(&fabric, src, dst, &path);
            }
        }
        assert!(fabric.racks().len() == 1 || used == roots, "{}", fabric.title());
    }
}

/// Flows from one rack to another pod cross every core equally often if switches have seeds of their own; with one seed the
/// aggregation switch repeats the choice of the edge switch, and only k/2 of the k^2/4 cores are ever used.
#[test]
fn one_seed_polarises() {
    for k in [4usize, 8] {
        let fabric = built(Shape::FatTree { k: k as u32 });
        let cores_used = |polarised| {
            let mut router = Router::new(Arc::clone(&fabric), Routing { polarised, ..Routing::default() }, 3);
            let mut count = vec![0; fabric.nodes().len()];
            for n in 0..8_000 {
                let path = router.route(&FlowKey::of_flow(n, HostId(0), HostId::from(fabric.host_count() - 1))).expect("healthy");
                count[fabric.link(path[2]).to.index()] += 1;
            }
            count.retain(|&c| c > 0);
            count
        };
        assert_eq!(cores_used(true).len(), k / 2);
        let spread = cores_used(false);
        assert_eq!(spread.len(), k * k / 4);
        // 8,000 flows on 4 or 16 cores: five standard deviations.
        let mean = 8_000.0 / spread.len() as f64;
        assert!(spread.iter().all(|&c| (f64::from(c) - mean).abs() < 5.0 * mean.sqrt()), "{spread:?}");
    }
}

#[test]
fn flows_of_a_dead_intermediate_spread_over_the_others_and_the_rest_stay() {
    let fabric = built(Shape::Clos { agg_ports: 10, int_ports: 4, hosts_per_tor: 1 });
    let mut router = Router::new(Arc::clone(&fabric), kind(RoutingKind::Vlb), 5);
    let mut health = Health::new(&fabric);
    let keys: Vec<_> = (0..20_000).map(|n| FlowKey::of_flow(n, HostId(0), HostId(9))).collect();
    let via = |router: &mut Router| -> Vec<NodeId> {
        keys.iter().map(|k| fabric.link(router.route(k).expect("a path")[2]).to).collect()
    };
    let before = via(&mut router);
    for name in ["int0", "int3"] {
        health.fail(&fabric, Part::parse(&fabric, &format!("switch {name}")).unwrap());
    }
    router.health_changed(&health);
    let after = via(&mut router);
    let mut moved = std::collections::BTreeMap::new();
    for (a, b) in before.iter().zip(&after) {
        if health.node_is_up(*a) {
            assert_eq!(a, b, "nothing was wrong with it");
        } else {
            *moved.entry(*b).or_insert(0u32) += 1;
        }
    }
    assert_eq!(moved.len(), 3);
    assert!(moved.values().all(|&n| (2_300..3_000).contains(&n)), "a third each of about 8,000: {moved:?}");
    for name in ["int1", "int2"] {
        health.fail(&fabric, Part::parse(&fabric, &format!("switch {name}")).unwrap());
    }
    router.health_changed(&health);
    let last = fabric.node_by_name("int4").unwrap();
    assert!(via(&mut router).iter().all(|&n| n == last));
    router.health_changed(&Health::new(&fabric));
    assert_eq!(via(&mut router), before);
}

#[test]
fn a_host_with_a_nic_left_is_reached() {
    let fabric = dual_homed();
    for k in [RoutingKind::SinglePath, RoutingKind::Ecmp, RoutingKind::Vlb] {
        let mut router = Router::new(Arc::clone(&fabric), kind(k), 2);
        for nic in 0..2 {
            let mut health = Health::new(&fabric);
            health.fail(&fabric, Part::Cable(fabric.out(NodeId(9))[nic].cable()));
            router.health_changed(&health);
            for n in 0..200 {
                for (src, dst) in
                    [(HostId(0), HostId(9)), (HostId(9), HostId(0)), (HostId(8), HostId(9)), (HostId(13), HostId(9))]
                {
                    let path = router.route(&FlowKey::of_flow(n, src, dst)).expect("one NIC is left");
                    check_path(&fabric, src, dst, &path);
                    assert!(health.path_is_up(&path));
                }
            }
        }
    }
}

#[test]
fn every_label_is_a_path() {
    let shapes = SHAPES.into_iter().filter(|s| !matches!(s, Shape::Switch { .. }));
    for fabric in shapes.map(built).chain([dual_homed()]) {
        let health = Health::new(&fabric);
        let roots = RootPaths::new(Arc::clone(&fabric));
        for (src, dst) in pairs(&fabric) {
            let shortest = distances_to(&fabric, &health, &[dst.node()])[src.index()];
            for label in (0..roots.label_count() as u32).map(RootLabel) {
                let path = roots.path(src, dst, label);
                check_path(&fabric, src, dst, &path);
                assert!(visits_no_node_twice(&fabric, &path), "it turns where the halves first meet");
                assert!(path.len() <= 2 + 2 * roots.height());
                // Hosts below different roots' worth of switches cross the root of the label.
                let root = fabric.switch_node(roots.root_of(label));
                let crosses = path.iter().any(|&l| fabric.link(l).to == root);
                assert!(crosses || path.len() < 2 + 2 * roots.height());
                assert!(fabric.top_tier() == 1 || Some(path.len()) >= shortest);
            }
        }
    }
}

/// In a fat-tree a core fixes the path, and below it there is one way to a host (Hedera section 3.1).
#[test]
fn a_label_of_a_fat_tree_is_a_core() {
    for k in [4usize, 8] {
        let fabric = built(Shape::FatTree { k: k as u32 });
        let roots = RootPaths::new(Arc::clone(&fabric));
        assert_eq!((roots.label_count(), roots.height()), (k * k / 4, 2));
        let dst = HostId(1);
        let mut all = BTreeSet::new();
        for label in (0..roots.label_count() as u32).map(RootLabel) {
            assert_eq!(roots.root_of(label), roots.roots()[label.0 as usize]);
            let down: BTreeSet<Path> = fabric
                .hosts()
                .filter(|&src| fabric.pod_of(src) != fabric.pod_of(dst))
                .map(|src| {
                    let path = roots.path(src, dst, label);
                    assert_eq!(path.len(), 6);
                    all.insert((src, path.clone()));
                    Path::from_slice(&path[3..])
                })
                .collect();
            assert_eq!(down.len(), 1, "every source comes down the same path");
        }
        let far = fabric.host_count() - fabric.host_count() / k;
        assert_eq!(all.len(), far * k * k / 4, "labels are different paths");
    }
}

#[test]
fn labels_of_a_clos_choose_both_aggregation_switches() {
    let fabric = built(Shape::Clos { agg_ports: 6, int_ports: 8, hosts_per_tor: 1 });
    let roots = RootPaths::new(Arc::clone(&fabric));
    assert_eq!(roots.label_count(), 3 * 2 * 2);
    let paths: BTreeSet<Path> = (0..12).map(|l| roots.path(HostId(0), HostId(11), RootLabel(l))).collect();
    assert_eq!(paths.len(), 12);
}

/// The paper sizes: 27,648 hosts (Hedera section 2.2) and 103,680 servers (VL2 section 6), in a second or two.
#[test]
fn large_fabrics_are_routed_quickly() {
    for (shape, labels) in
        [(Shape::FatTree { k: 48 }, 576), (Shape::Clos { agg_ports: 144, int_ports: 144, hosts_per_tor: 20 }, 72 * 2 * 2)]
    {
        let fabric = built(shape);
        let health = Health::new(&fabric);
        let roots = RootPaths::new(Arc::clone(&fabric));
        assert_eq!(roots.label_count(), labels);
        let last = HostId::from(fabric.host_count() - 1);
        check_path(&fabric, HostId(0), last, &roots.path(HostId(0), last, RootLabel(labels as u32 - 1)));
        let mut next_hops = NextHops::new(Arc::clone(&fabric));
        let racks = (0..fabric.racks().len()).map(|r| Target::Rack(RackId::from(r)));
        assert!(racks.into_iter().all(|rack| next_hops.toward(&health, rack, last.node()).len() == 1));
    }
}

/// Fails random parts; hosts stay up.
fn break_some(fabric: &Fabric, seed: u64, count: usize) -> Health {
    let mut rng = stream(seed, Stream::Traffic);
    let mut health = Health::new(fabric);
    let switches: Vec<_> = fabric.switches().collect();
    for _ in 0..count {
        let part = if rng.random::<bool>() {
            Part::Cable(CableId(rng.random_range(0..fabric.cables().len() as u32)))
        } else {
            Part::Node(fabric.switch_node(*switches.choose(&mut rng).expect("a switch")))
        };
        health.fail(fabric, part);
    }
    health
}

/// From every node to every rack and switch: by the distances of a breadth-first search for each.
fn check_next_hops(fabric: &Arc<Fabric>, health: &Health) -> Result<(), TestCaseError> {
    let mut next_hops = NextHops::new(Arc::clone(fabric));
    let racks = (0..fabric.racks().len()).map(|r| Target::Rack(RackId::from(r)));
    for target in racks.chain(fabric.switches().map(Target::Switch)) {
        let ends: Vec<NodeId> = match target {
            Target::Rack(rack) => fabric.racks()[rack.index()].switches.iter().map(|&s| fabric.switch_node(s)).collect(),
            Target::Switch(switch) => vec![fabric.switch_node(switch)],
        };
        let distance = distances_to(fabric, health, &ends);
        for node in (0..fabric.nodes().len()).map(NodeId::from) {
            let nearer = |l: &LinkId| {
                let to = fabric.link(*l).to;
                let forwards = fabric.as_switch(to).is_some();
                forwards
                    && health.is_up(*l)
                    && distance[node.index()].is_some_and(|d| d > 0 && distance[to.index()] == Some(d - 1))
            };
            let expected: Vec<LinkId> = fabric.out(node).iter().copied().filter(nearer).collect();
            prop_assert_eq!(next_hops.toward(health, target, node), &expected[..]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 48 / 256))]

    #[test]
    fn repaired_routes_avoid_what_failed(shape in 0usize..9, seed: u64, failures in 0usize..8) {
        let fabric = SHAPES.get(shape).map_or_else(dual_homed, |&s| built(s));
        let health = break_some(&fabric, seed, failures);
        for k in [RoutingKind::SinglePath, RoutingKind::Ecmp, RoutingKind::Vlb] {
            let mut router = Router::new(Arc::clone(&fabric), kind(k), seed);
            let before: Vec<_> = pairs(&fabric).into_iter().map(|(s, d)| router.route(&FlowKey::of_flow(1, s, d))).collect();
            router.health_changed(&health);
            for (n, (src, dst)) in pairs(&fabric).into_iter().enumerate() {
                let path = router.route(&FlowKey::of_flow(n as u32, src, dst));
                let shortest = distances_to(&fabric, &health, &[dst.node()])[src.index()];
                if let Some(path) = &path {
                    check_path(&fabric, src, dst, path);
                    prop_assert!(health.path_is_up(path));
                }
                match k {
                    RoutingKind::Vlb => prop_assert!(path.is_none() || shortest.is_some()),
                    // A host that has lost a NIC is reached by one of the others, perhaps not the nearest.
                    _ if fabric.out(dst.node()).iter().any(|&l| !health.is_up(l)) => prop_assert_eq!(path.is_some(), shortest.is_some()),
                    _ => prop_assert_eq!(path.map(|p| p.len()), shortest),
                }
            }
            router.health_changed(&Health::new(&fabric));
            let after: Vec<_> = pairs(&fabric).into_iter().map(|(s, d)| router.route(&FlowKey::of_flow(1, s, d))).collect();
            prop_assert_eq!(before, after);
        }
    }

    /// On random connected graphs with parallel cables and hosts of one to three NICs.
    #[test]
    fn next_hops_equal_the_reference(seed: u64, switches in 1usize..9, cables in 0usize..14, failures in 0usize..5) {
        let mut rng = stream(seed, Stream::Traffic);
        let mut b = FabricBuilder::new("random");
        let nodes: Vec<_> = (0..switches).map(|i| b.switch(format!("s{i}"), 1, None)).collect();
        for i in 1..switches {
            b.cable(nodes[i], nodes[rng.random_range(0..i)], LINK.rate, LINK.delay);
        }
        for _ in 0..if switches > 1 { cables } else { 0 } {
            let a = rng.random_range(0..switches);
            let c = (a + rng.random_range(1..switches)) % switches;
            b.cable(nodes[a], nodes[c], LINK.rate, LINK.delay);
        }
        for i in 0..rng.random_range(1..8) {
            let host = b.host(format!("h{i}"), None);
            for _ in 0..rng.random_range(1..4) {
                b.cable(host, *nodes.choose(&mut rng).expect("a switch"), LINK.rate, LINK.delay);
            }
        }
        let fabric = Arc::new(b.build().expect("a fabric"));
        let health = break_some(&fabric, seed, failures);
        check_next_hops(&fabric, &health)?;
    }

    /// Where racks share their neighbours, before and after failures.
    #[test]
    fn next_hops_of_regular_fabrics_equal_the_reference(shape in 0usize..9, seed: u64, failures in 0usize..8) {
        let fabric = SHAPES.get(shape).map_or_else(dual_homed, |&s| built(s));
        check_next_hops(&fabric, &break_some(&fabric, seed, failures))?;
    }
}

/// Spray and flowlets choose among all shortest paths, each as likely as even draws at every switch make it.
#[test]
fn a_spread_is_all_shortest_paths_with_their_probabilities() {
    for fabric in SHAPES.map(built).into_iter().chain([dual_homed()]) {
        for k in [RoutingKind::Spray, RoutingKind::Flowlet { gap: Duration::from_us(7) }] {
            let mut router = Router::new(Arc::clone(&fabric), kind(k), 1);
            for (n, (src, dst)) in pairs(&fabric).into_iter().enumerate() {
                let key = FlowKey::of_flow(n as u32, src, dst);
                let spread = router.spread(&key).expect("healthy");
                assert_eq!(Some(spread.gap), k.gap());
                let ecmp = router.route(&key).expect("healthy");
                let distinct: BTreeSet<&Path> = spread.paths.iter().map(|(path, _)| path).collect();
                assert!(distinct.len() == spread.paths.len() && distinct.contains(&ecmp), "{}", fabric.title());
                for (path, probability) in &spread.paths {
                    check_path(&fabric, src, dst, path);
                    assert_eq!((path.len(), path[0]), (ecmp.len(), ecmp[0]), "the host keeps to a NIC");
                    assert!(*probability > 0.0);
                }
                let sum: f64 = spread.paths.iter().map(|(_, probability)| probability).sum();
                assert!((sum - 1.0).abs() < 1e-12, "{sum}");
            }
        }
        let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
        assert_eq!(router.spread(&FlowKey::of_flow(0, HostId(0), HostId(1))), None);
    }
    let fabric = built(Shape::FatTree { k: 8 });
    let mut router = Router::new(Arc::clone(&fabric), kind(RoutingKind::Spray), 1);
    let of = |router: &mut Router| router.spread(&FlowKey::of_flow(0, HostId(0), HostId(127))).expect("a path").paths;
    let paths = of(&mut router);
    assert!(paths.len() == 16 && paths.iter().all(|(_, p)| *p == 1.0 / 16.0));
    // Without one of the four cores of the first group, an aggregation switch draws among three: its paths are likelier than the others.
    let mut health = Health::new(&fabric);
    health.fail(&fabric, Part::Node(fabric.link(paths[0].0[2]).to));
    router.health_changed(&health);
    let mut weights: Vec<f64> = of(&mut router).iter().map(|(_, p)| *p).collect();
    weights.sort_by(f64::total_cmp);
    assert_eq!(weights, [[1.0 / 16.0; 12].as_slice(), &[1.0 / 12.0; 3]].concat());
}

/// Rings of switches in a row, joined at single switches, have more paths than are kept: those are drawn.
#[test]
fn of_too_many_paths_some_are_drawn() {
    let mut b = FabricBuilder::new("rings");
    let mut middles = Vec::new();
    let [from, to] = ["a", "b"].map(|name| b.host(name, None));
    let mut joint = b.switch("s0", 1, None);
    b.cable(from, joint, LINK.rate, LINK.delay);
    for ring in 0..12 {
        let next = b.switch(format!("s{}", ring + 1), 1, None);
        for side in 0..2 {
            let name = format!("m{ring}.{side}");
            let middle = b.switch(name.clone(), 2, None);
            b.cable(joint, middle, LINK.rate, LINK.delay);
            b.cable(middle, next, LINK.rate, LINK.delay);
            middles.push(name);
        }
        joint = next;
    }
    b.cable(to, joint, LINK.rate, LINK.delay);
    let fabric = Arc::new(b.build().expect("a fabric"));
    let mut router = Router::new(Arc::clone(&fabric), kind(RoutingKind::Spray), 1);
    let spread = router.spread(&FlowKey::of_flow(0, HostId(0), HostId(1))).expect("a path");
    assert_eq!(spread.paths.len(), 1_024);
    let mut crossed = vec![0; fabric.nodes().len()];
    for (path, _) in &spread.paths {
        check_path(&fabric, HostId(0), HostId(1), path);
        path.iter().for_each(|l| crossed[fabric.link(*l).to.index()] += 1);
    }
    // Half of 1,024 in five standard deviations.
    for name in middles {
        let times = crossed[fabric.node_by_name(&name).expect("it is there").index()];
        assert!((512 - 80..=512 + 80).contains(&times), "{name}: {times}");
    }
}
