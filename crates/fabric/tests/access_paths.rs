//! How hosts with several NICs choose their paths: closed forms, and a reference that lists all pairs.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::routing::access_paths::{cut, nic_paths};
use weft_fabric::routing::{AccessPath, Direction, FlowKey, Path, Router, Routing, RoutingKind};
use weft_fabric::topology::{FabricBuilder, Part};
use weft_fabric::{BitsPerSec, Duration, Fabric, Health, HostId, LinkId, NodeId, SwitchId};

const GBPS: u64 = 1_000_000_000;

/// A ring of `racks` ToRs; the two hosts of rack i are on the ToRs i to i + ports - 1. ToR i is in cluster i mod `clusters`, whose two
/// aggregation switches lead to two cores. NICs on odd ToRs have 2.5 times the speed of the others if `mixed`.
fn ring(racks: usize, ports: usize, clusters: usize, mixed: bool) -> Arc<Fabric> {
    let mut b = FabricBuilder::new("ring");
    let tors: Vec<_> = (0..racks).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
    let aggs: Vec<_> = (0..2 * clusters).map(|i| b.switch(format!("agg{i}"), 2, None)).collect();
    let cores: Vec<_> = (0..2).map(|i| b.switch(format!("core{i}"), 3, None)).collect();
    for i in 0..2 * racks {
        let host = b.host(format!("h{i}"), None);
        for port in 0..ports {
            let tor = (i / 2 + port) % racks;
            let rate = if mixed && tor % 2 == 1 { 25 * GBPS } else { 10 * GBPS };
            b.cable(host, tors[tor], BitsPerSec(rate), Duration::ZERO);
        }
    }
    for (i, &tor) in tors.iter().enumerate() {
        for j in 0..2 {
            b.cable(tor, aggs[2 * (i % clusters) + j], BitsPerSec(40 * GBPS), Duration::ZERO);
        }
    }
    for &agg in &aggs {
        cores.iter().for_each(|&core| b.cable(agg, core, BitsPerSec(40 * GBPS), Duration::ZERO));
    }
    Arc::new(b.build().unwrap())
}

fn router(fabric: &Arc<Fabric>, kind: RoutingKind) -> Router {
    Router::new(Arc::clone(fabric), Routing { kind, ..Routing::default() }, 1)
}

/// How many of `flows` flows take each (first, last) link.
fn ends(router: &mut Router, src: u32, dst: u32, flows: u32) -> BTreeMap<(LinkId, LinkId), u32> {
    let mut count = BTreeMap::new();
    for n in 0..flows {
        let path = router.route(&FlowKey::of_flow(n, HostId(src), HostId(dst))).unwrap();
        *count.entry((path[0], path[path.len() - 1])).or_default() += 1;
    }
    count
}

fn near(measured: u32, of: u32, share: f64) {
    let (n, deviation) = (f64::from(of), (f64::from(of) * share * (1.0 - share)).sqrt());
    assert!((f64::from(measured) - n * share).abs() < 5.0 * deviation + 1e-9, "{measured} of {of}, expected {share}");
}

#[test]
fn a_shared_tor_comes_first_and_both_ends_are_drawn_independently_else() {
    let fabric = ring(12, 3, 1, false);
    let mut router = router(&fabric, RoutingKind::Ecmp);
    let nic = |host: u32, n: usize| fabric.out(HostId(host).node())[n];
    let same = ends(&mut router, 0, 1, 9_000);
    assert_eq!(same.len(), 3);
    same.values().for_each(|&n| near(n, 9_000, 1.0 / 3.0));
    // Racks 0 and 1 share two ToRs.
    let beside = ends(&mut router, 0, 2, 9_000);
    assert_eq!(beside.keys().copied().collect::<Vec<_>>(), [1, 2].map(|n| (nic(0, n), nic(2, n - 1).reverse())));
    let far = ends(&mut router, 0, 12, 18_000);
    assert_eq!(far.len(), 9);
    far.values().for_each(|&n| near(n, 18_000, 1.0 / 9.0));
}

/// Section 4.3: 10 and 25 GbE networks get 2/7 and 5/7 of the flows, and a flow stays in its network.
#[test]
fn networks_side_by_side_are_weighted_by_speed() {
    let fabric = ring(12, 2, 2, true);
    let mut router = router(&fabric, RoutingKind::Ecmp);
    for (src, dst) in [(0, 12), (0, 8)] {
        let pairs = ends(&mut router, src, dst, 14_000);
        assert_eq!(pairs.len(), 2, "not over the core where a cluster has both ends");
        for (&(first, last), &n) in &pairs {
            let rates = [first, last].map(|l| fabric.link(l).capacity.0 / GBPS);
            assert_eq!(rates[0], rates[1]);
            near(n, 14_000, rates[0] as f64 / 35.0);
        }
    }
}

#[test]
fn weights_that_a_controller_sets_are_followed() {
    let fabric = ring(6, 2, 1, false);
    let mut router = router(&fabric, RoutingKind::Ecmp);
    let nic = |host: u32, n: usize| fabric.out(HostId(host).node())[n];
    let paths = |links: [LinkId; 2], weights: [u64; 2]| {
        Some((0..2).map(|i| AccessPath { links: Path::from_slice(&[links[i]]), weight: weights[i], limit: None }).collect())
    };
    router.set_access_paths(HostId(0), Direction::Out, paths([nic(0, 0), nic(0, 1)], [3, 1]));
    router.set_access_paths(HostId(6), Direction::In, paths([nic(6, 0).reverse(), nic(6, 1).reverse()], [0, 7]));
    let pairs = ends(&mut router, 0, 6, 8_000);
    near(pairs[&(nic(0, 0), nic(6, 1).reverse())], 8_000, 0.75);
    near(pairs[&(nic(0, 1), nic(6, 1).reverse())], 8_000, 0.25);
    // Not where a ToR is shared, and not for others.
    assert_eq!(ends(&mut router, 0, 2, 100).len(), 1);
    assert_eq!(ends(&mut router, 2, 8, 1_000).len(), 4);
    router.set_access_paths(HostId(0), Direction::Out, None);
    router.set_access_paths(HostId(6), Direction::In, paths([nic(6, 0).reverse(), nic(6, 1).reverse()], [0, 0]));
    ends(&mut router, 0, 6, 8_000).values().for_each(|&n| near(n, 8_000, 0.25));
}

#[test]
fn a_detour_passes_servers_on_both_sides_and_never_itself() {
    let fabric = ring(12, 2, 1, false);
    let nic = |host: u32, n: usize| fabric.out(HostId(host).node())[n];
    // Host 4 (ToRs 2, 3) leaves over host 2 (1, 2) and host 0 (0, 1); host 14 (ToRs 7, 8) is reached over host 16 (8, 9).
    let leaving = Path::from_slice(&[nic(4, 0), nic(2, 1).reverse(), nic(2, 0), nic(0, 1).reverse(), nic(0, 0)]);
    let arriving = Path::from_slice(&[nic(16, 1).reverse(), nic(16, 0), nic(14, 1).reverse()]);
    let path = |links: &Path, weight| AccessPath { links: links.clone(), weight, limit: None };
    for kind in [RoutingKind::Ecmp, RoutingKind::SinglePath, RoutingKind::Vlb] {
        let mut router = router(&fabric, kind);
        router.set_access_paths(HostId(4), Direction::Out, Some(vec![path(&leaving, 1)]));
        router.set_access_paths(HostId(14), Direction::In, Some(vec![path(&arriving, 1)]));
        let key = FlowKey::of_flow(3, HostId(4), HostId(14));
        let path = router.route(&key).unwrap();
        let (a, b) = cut(&fabric, &path);
        assert_eq!((&path[..a], &path[b..]), (&leaving[..], &arriving[..]));
        assert_eq!(b - a, if kind == RoutingKind::Vlb { 4 } else { 2 });
        assert_eq!(router.route_through(&key, &leaving, &arriving), Some(path));
        // A neighbour of the destination shares a ToR with neither way's far end, but 13 (ToRs 6, 7) does with 14.
        assert_eq!(router.route(&FlowKey::of_flow(4, HostId(13), HostId(14))).unwrap().len(), 2);
        // Host 23 (ToRs 11, 0) is on the detour's last ToR: flows that arrive by it turn there.
        let to_last = (0..20).map(|n| router.route(&FlowKey::of_flow(n, HostId(4), HostId(23))).unwrap());
        let turning = to_last.filter(|path| path[..5] == leaving[..] && path.len() == 6).count();
        assert_eq!(turning > 0, kind != RoutingKind::SinglePath);
        // What fails on a path takes the path out of use; then flows use the NICs.
        let mut health = Health::new(&fabric);
        health.fail(&fabric, Part::Node(NodeId(2)));
        router.health_changed(&health);
        assert_eq!(router.route_through(&key, &leaving, &arriving), None);
        let path = router.route(&key).unwrap();
        assert_eq!(cut(&fabric, &path).0, 1);
        assert!(health.path_is_up(&path));
    }
}

#[test]
fn a_path_is_cut_where_it_leaves_the_servers() {
    let fabric = ring(12, 2, 1, false);
    let mut router = router(&fabric, RoutingKind::Ecmp);
    let path = router.route(&FlowKey::of_flow(0, HostId(0), HostId(1))).unwrap();
    assert_eq!((path.len(), cut(&fabric, &path)), (2, (1, 1)));
    let path = router.route(&FlowKey::of_flow(0, HostId(0), HostId(12))).unwrap();
    assert_eq!((path.len(), cut(&fabric, &path)), (4, (1, 3)));
}

/// Links from switch to switch, by relaxing all links until nothing changes.
fn hops(fabric: &Fabric, health: &Health, from: NodeId, to: NodeId) -> Option<usize> {
    let mut distance = vec![None; fabric.nodes().len()];
    distance[to.index()] = Some(0);
    loop {
        let mut changed = false;
        for (i, link) in fabric.links().iter().enumerate() {
            let switches = [link.from, link.to].iter().all(|&n| fabric.as_switch(n).is_some());
            if let (true, true, Some(d)) = (switches, health.is_up(LinkId::from(i)), distance[link.to.index()])
                && distance[link.from.index()].is_none_or(|here| here > d + 1)
            {
                distance[link.from.index()] = Some(d + 1);
                changed = true;
            }
        }
        if !changed {
            return distance[from.index()];
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 24 / 256))]

    /// Every path begins and ends with NICs whose ToRs are as near to each other as any pair that is up, and takes a shortest path.
    #[test]
    fn routes_join_the_nearest_tors(seed: u64, ports in 1usize..5, clusters in 1usize..4, failures in 0usize..6, mixed: bool) {
        let fabric = ring(6, ports, clusters, mixed);
        let mut rng = stream(seed, Stream::Traffic);
        let mut health = Health::new(&fabric);
        for _ in 0..failures {
            let part = if rng.random() {
                Part::Cable(LinkId(rng.random_range(0..fabric.links().len() as u32)).cable())
            } else {
                Part::Node(fabric.switch_node(SwitchId(rng.random_range(0..fabric.switch_count() as u32))))
            };
            health.fail(&fabric, part);
        }
        let mut router = router(&fabric, RoutingKind::Ecmp);
        router.health_changed(&health);
        for n in 0..40 {
            let src = rng.random_range(0..12);
            let (src, dst) = (HostId(src), HostId((src + rng.random_range(1..12)) % 12));
            let mut nearest = None;
            for l in nic_paths(&fabric, &health, src, Direction::Out) {
                for a in nic_paths(&fabric, &health, dst, Direction::In) {
                    let tors = (l.tor(&fabric, Direction::Out), a.tor(&fabric, Direction::In));
                    nearest = [nearest, hops(&fabric, &health, tors.0, tors.1)].into_iter().flatten().min();
                }
            }
            let path = router.route(&FlowKey::of_flow(n, src, dst));
            prop_assert_eq!(path.as_ref().map(|p| p.len()), nearest.map(|n| n + 2));
            if let Some(path) = path {
                prop_assert!(health.path_is_up(&path));
                prop_assert!(path.windows(2).all(|w| fabric.link(w[0]).to == fabric.link(w[1]).from));
            }
        }
    }
}

/// The probabilities of pairs are the frequencies with which flows take them, also where the two draws depend on each other.
#[test]
fn pairs_have_the_probabilities_with_which_flows_take_them() {
    for (clusters, mixed, src, dst) in [(1, true, 0, 12), (2, true, 0, 12), (2, false, 0, 9), (3, true, 0, 16), (1, true, 0, 1)] {
        let fabric = ring(12, 3, clusters, mixed);
        let mut router = router(&fabric, RoutingKind::Ecmp);
        let pairs = router.access_pairs(HostId(src), HostId(dst));
        let sum: f64 = pairs.iter().map(|(.., p)| p).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let mut taken = ends(&mut router, src, dst, 10_000);
        for (leaving, arriving, p) in pairs {
            near(taken.remove(&(leaving.links[0], arriving.links[0])).unwrap_or(0), 10_000, p);
        }
        assert!(taken.is_empty(), "pairs that no flow should take: {taken:?}");
    }
}
