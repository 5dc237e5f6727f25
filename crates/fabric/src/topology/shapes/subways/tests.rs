use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Balancing, RackSize, Speeds, SubwaysSpec, SubwaysType, SubwaysWiring, Trunk, Uplinks, Wiring};
use crate::ids::HostId;
use crate::time::Duration;
use crate::topology::shapes::{Cabling, Shape};
use crate::topology::{Fabric, FabricError, Metrics};
use crate::units::BitsPerSec;

const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };

fn built(spec: &SubwaysSpec) -> (Fabric, SubwaysWiring) {
    let fabric = Shape::Subways(*spec).build(LINK, LINK).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    (fabric, spec.wiring(LINK, LINK).expect("it has been built"))
}

fn refusal(spec: SubwaysSpec) -> (&'static str, String) {
    match Shape::Subways(spec).build(LINK, LINK) {
        Err(FabricError::Parameter { parameter, rule, .. }) => (parameter, rule),
        Err(other) => panic!("{spec:?}: {other}"),
        Ok(fabric) => panic!("{spec:?} is built: {}", fabric.title()),
    }
}

fn neighbours(fabric: &Fabric, name: &str) -> Vec<String> {
    let node = fabric.node_by_name(name).expect(name);
    fabric.out(node).iter().map(|&l| fabric.node(fabric.link(l).to).name.to_string()).collect()
}

fn tier_counts(fabric: &Fabric) -> Vec<usize> {
    (1..=fabric.top_tier()).map(|t| fabric.switches_of_tier(t).count()).collect()
}

/// What every Subways fabric promises (sections 4.1 to 4.3), read off the graph.
fn check(fabric: &Fabric, w: &SubwaysWiring) {
    assert_eq!((fabric.host_count() as u32, fabric.racks().len() as u32), (w.hosts(), w.tors()), "a rack a ToR");
    let mut server_ports = vec![0u32; w.tors() as usize];
    let mut joined: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); w.tors() as usize];
    for (r, rack) in (0u32..).zip(fabric.racks()) {
        let tors: Vec<u32> = rack.switches.iter().map(|s| s.0).collect();
        assert_eq!(tors[0], r, "rack i has ToR i");
        assert_eq!(
            rack.hosts.iter().map(|h| h.0).collect::<Vec<_>>(),
            (r * w.servers_per_rack..(r + 1) * w.servers_per_rack).collect::<Vec<_>>()
        );
        assert!(rack.hosts.iter().all(|&h| fabric.pod_of(h) == w.cluster_of(r)));
        let distinct: BTreeSet<u32> = tors.iter().copied().collect();
        if w.kind.wiring() == Wiring::Trunk {
            assert_eq!(distinct.len(), 1);
            assert_eq!(tors.len() as u32, if w.trunk == Trunk::Flow { w.ports } else { 1 });
        } else {
            assert_eq!(distinct.len() as u32, w.ports, "p ToRs");
            assert_eq!(tors.len() as u32, w.ports);
        }
        for tor in &distinct {
            assert_eq!(w.loop_of(*tor), w.loop_of(r));
            joined[*tor as usize].extend(&distinct);
        }
        for host in &rack.hosts {
            assert_eq!(
                fabric.nic_capacity(*host).0,
                w.ports_of_rack(r).iter().map(|&t| w.port_link(w.network_of(w.cluster_of(t))).rate.0).sum::<u64>()
            );
            w.ports_of_rack(r).iter().for_each(|&t| server_ports[t as usize] += 1);
        }
    }
    assert!(server_ports.iter().all(|&q| q == w.server_ports()), "every ToR has q server ports: {server_ports:?}");
    for tor in 0..w.tors() {
        let scanned: Vec<u32> = (0..w.tors()).filter(|&r| w.ports_of_rack(r).contains(&tor)).collect();
        assert_eq!(w.racks_of_tor(tor).to_vec(), scanned);
    }
    check_loops(w, &joined);
    for t in 0..w.tors() {
        let node = fabric.node(fabric.switch_node(crate::SwitchId(t)));
        assert_eq!((node.pod, &*node.name), (Some(w.cluster_of(t)), &*format!("tor{t}")));
    }
    let mut of_cluster: BTreeMap<u32, u32> = BTreeMap::new();
    (0..w.tors()).for_each(|t| *of_cluster.entry(w.cluster_of(t)).or_default() += 1);
    assert!(of_cluster.len() as u32 == w.clusters && of_cluster.values().all(|&n| n == w.racks_per_cluster), "{of_cluster:?}");
}

/// The loops are the connected components of hosts and ToRs, their ToRs have consecutive ids, and clusters share a loop evenly.
fn check_loops(w: &SubwaysWiring, joined: &[BTreeSet<u32>]) {
    let mut reached: BTreeSet<u32> = BTreeSet::new();
    for first in (0..w.tors()).step_by(w.loop_length as usize) {
        assert!(!reached.contains(&first));
        let mut component = BTreeSet::from([first]);
        let mut queue = vec![first];
        while let Some(tor) = queue.pop() {
            queue.extend(joined[tor as usize].iter().filter(|&&t| component.insert(t)));
        }
        let whole: BTreeSet<u32> = (first..first + w.loop_length).collect();
        if w.ports > 1 {
            assert_eq!(component, whole, "the loop closes");
        }
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        whole.iter().for_each(|&t| *counts.entry(w.cluster_of(t)).or_default() += 1);
        let (least, most) = (counts.values().min().expect("some"), counts.values().max().expect("some"));
        assert!(most - least <= 1, "{counts:?}");
        assert_eq!(counts.len() as u32, w.loop_clusters.min(w.loop_length));
        reached.extend(component);
    }
}

/// Section 8.1: 12 racks of 15 servers a cluster, 6 aggregation switches at 5:1, 3 uplinks at 4:1.
#[test]
fn the_default_configuration() {
    for (kind, links) in [(SubwaysType::Type0, 1), (SubwaysType::Type1, 2), (SubwaysType::Type2, 2)] {
        let (fabric, wiring) = built(&SubwaysSpec::new(kind));
        check(&fabric, &wiring);
        assert_eq!((fabric.host_count(), tier_counts(&fabric)), (360, vec![24, 12, 18]));
        assert_eq!(fabric.links().len() / 2, 360 * links + 24 * 6 + 12 * 3);
        assert_eq!(neighbours(&fabric, "agg3").len(), 12 + 3);
        assert_eq!(neighbours(&fabric, "agg1")[12..], ["core3", "core4", "core5"]);
        assert_eq!(neighbours(&fabric, "agg7")[12..], ["core3", "core4", "core5"], "the same group in every cluster");
        let metrics = Metrics::of(&fabric);
        assert_eq!(metrics.tiers[0].oversubscription_max, Some(5.0), "the same hardware in all types");
        assert_eq!(metrics.tiers[1].oversubscription_max, Some(4.0));
    }
}

#[test]
fn racks_are_wired_as_section_4_says() {
    let (type_0, _) = built(&SubwaysSpec::new(SubwaysType::Type0));
    assert_eq!(neighbours(&type_0, "h15"), ["tor1"]);
    assert_eq!(type_0.link(type_0.out(HostId(15).node())[0]).capacity, BitsPerSec(20_000_000_000));
    let (by_flow, _) = built(&SubwaysSpec { trunk: Trunk::Flow, ..SubwaysSpec::new(SubwaysType::Type0) });
    assert_eq!(neighbours(&by_flow, "h15"), ["tor1", "tor1"]);
    // p = 2: its own, and that of the closest rack to the left.
    let (type_1, _) = built(&SubwaysSpec::new(SubwaysType::Type1));
    assert_eq!(neighbours(&type_1, "h15"), ["tor1", "tor0"]);
    assert_eq!(neighbours(&type_1, "h0"), ["tor0", "tor11"], "the loop closes");
    // Figure 2: 3 ports, one clockwise, one counter-clockwise.
    let figure_2 = SubwaysSpec {
        ports: 3,
        racks_per_cluster: 9,
        tor_uplinks: Uplinks::Count(3),
        agg_uplinks: Uplinks::Count(3),
        ..SubwaysSpec::new(SubwaysType::Type1)
    };
    assert_eq!(neighbours(&built(&figure_2).0, "h0"), ["tor0", "tor1", "tor8"]);
    let four = SubwaysSpec { ports: 4, ..SubwaysSpec::new(SubwaysType::Type1) };
    assert_eq!(neighbours(&built(&four).0, "h75"), ["tor5", "tor6", "tor4", "tor3"]);
    // Figure 3b: 9 ToRs dealt to 2 clusters; both loops together are even.
    let figure_3b = SubwaysSpec { kind: SubwaysType::Type2, ..figure_2 };
    let (_, wiring) = built(&figure_3b);
    assert_eq!((0..18).map(|t| wiring.cluster_of(t)).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    // Multihoming is l = p.
    let (_, multihomed) = built(&SubwaysSpec { ports: 3, ..SubwaysSpec::new(SubwaysType::McLag) });
    let type_1 = SubwaysSpec { ports: 3, loop_length: Some(3), ..SubwaysSpec::new(SubwaysType::Type1) };
    assert!((0..24).all(|r| multihomed.ports_of_rack(r) == built(&type_1).1.ports_of_rack(r)));
}

/// Section 8.2: 16 dual-ported servers, 4 ToRs, 2 aggregation switches, 4:1.
#[test]
fn the_testbed() {
    for kind in [SubwaysType::Type0, SubwaysType::Type1] {
        let (fabric, wiring) = built(&SubwaysSpec::testbed(kind));
        check(&fabric, &wiring);
        assert_eq!((fabric.host_count(), tier_counts(&fabric)), (16, vec![4, 2]));
        assert_eq!(neighbours(&fabric, "agg1"), ["tor0", "tor1", "tor2", "tor3"]);
        assert_eq!(Metrics::of(&fabric).tiers[0].oversubscription_max, Some(4.0));
    }
    let explicit = SubwaysSpec { tor_uplinks: Uplinks::Count(2), ..SubwaysSpec::testbed(SubwaysType::Type1) };
    assert_eq!(built(&explicit).1.aggregations, 2);
}

/// Section 8.6: 6, 12 and 18 aggregation switches for 2, 4 and 6 ports.
#[test]
fn aggregation_switches_follow_the_ports() {
    for (ports, aggregations) in [(1, 3), (2, 6), (4, 12), (6, 18)] {
        for kind in [SubwaysType::Type0, SubwaysType::Type1, SubwaysType::Type2] {
            let (fabric, wiring) = built(&SubwaysSpec { ports, ..SubwaysSpec::new(kind) });
            check(&fabric, &wiring);
            assert_eq!(wiring.aggregations, aggregations);
        }
    }
}

/// Sections 4.3 and 8.4: networks of 10 and 25 Gbps that only servers join, at the same over-subscription.
#[test]
fn parallel_interconnects_have_switches_and_a_speed_of_their_own() {
    let rates = [BitsPerSec(10_000_000_000), BitsPerSec(25_000_000_000)];
    let spec = SubwaysSpec { speeds: Speeds::new(&rates).expect("two"), ..SubwaysSpec::new(SubwaysType::Type2D) };
    let (fabric, wiring) = built(&spec);
    check(&fabric, &wiring);
    assert_eq!(tier_counts(&fabric), [24, 12, 36]);
    for link in fabric.links() {
        let tor = |node| fabric.as_switch(node).filter(|s| s.0 < 24).map(|s| s.0 % 2);
        if let Some(network) = tor(link.from).or(tor(link.to)) {
            assert_eq!(link.capacity, rates[network as usize]);
        }
    }
    let above = |tor| neighbours(&fabric, tor).into_iter().filter(|n| n.starts_with("agg")).collect::<Vec<_>>();
    assert!(above("tor3") == above("tor1") && above("tor3") != above("tor0"));
    let metrics = Metrics::of(&fabric);
    assert_eq!((metrics.tiers[0].oversubscription_min, metrics.tiers[0].oversubscription_max), (Some(5.0), Some(5.0)));
    let equal = SubwaysSpec { speeds: Speeds::new(&[rates[0]; 2]).expect("two"), ..spec };
    assert_eq!(tier_counts(&built(&equal).0), [24, 12, 36]);
    assert_eq!(fabric.nic_capacity(HostId(0)), BitsPerSec(35_000_000_000));
}

#[test]
fn impossible_wirings_are_refused_with_a_remedy() {
    let one = SubwaysSpec::new(SubwaysType::Type1);
    let two = SubwaysSpec::new(SubwaysType::Type2);
    let zero = SubwaysSpec::new(SubwaysType::Type0);
    let speeds = |rates: &[u64]| Speeds::new(&rates.iter().map(|&r| BitsPerSec(r)).collect::<Vec<_>>()).expect("few");
    let cases: [(SubwaysSpec, &str, &str); 27] = [
        (SubwaysSpec { ports: 0, ..one }, "ports", "set it to 1"),
        (SubwaysSpec { ports: 65, racks_per_cluster: 100, ..one }, "ports", "lower it to 64"),
        (SubwaysSpec { rack: RackSize::Servers(0), ..one }, "servers_per_rack", "set it to 1"),
        (SubwaysSpec { rack: RackSize::ServerPorts(31), ..one }, "server_ports", "choose 30 or 32"),
        (SubwaysSpec { rack: RackSize::ServerPorts(1), ..one }, "server_ports", "choose 2"),
        (SubwaysSpec { racks_per_cluster: 0, ..one }, "racks_per_cluster", "set it to 1"),
        (SubwaysSpec { clusters: Some(0), ..one }, "clusters", "set it to 1"),
        (SubwaysSpec { clusters: Some(u32::MAX), ..one }, "clusters", "lower it"),
        (SubwaysSpec { racks_per_cluster: u32::MAX, ..one }, "racks_per_cluster", "lower it"),
        (SubwaysSpec { loop_length: Some(5), ..one }, "loop", "choose one of 2, 3, 4, 6, 12"),
        (SubwaysSpec { loop_length: Some(2), ports: 3, ..one }, "loop", "raise it to 3"),
        (SubwaysSpec { loop_length: Some(24), ..one }, "loop", "a cluster has 12 racks: lower it"),
        (SubwaysSpec { loop_length: Some(0), ..one }, "loop", "set it to 1"),
        (SubwaysSpec { loop_length: Some(4), ..zero }, "loop", "leave it out"),
        (SubwaysSpec { loop_length: Some(4), ..SubwaysSpec::new(SubwaysType::McLag) }, "loop", "leave it out"),
        (SubwaysSpec { ports: 5, ..SubwaysSpec::new(SubwaysType::McLag) }, "ports", "choose one of 1, 2, 3, 4, 6, 12"),
        (SubwaysSpec { loop_clusters: Some(2), ..one }, "loop_clusters", "choose type 2"),
        (SubwaysSpec { clusters: Some(1), ..two }, "clusters", "raise it to 2"),
        (SubwaysSpec { clusters: Some(3), ..two }, "clusters", "choose 2 or 4"),
        (SubwaysSpec { clusters: Some(2), levels: 2, ..one }, "clusters", "choose 1"),
        (SubwaysSpec { levels: 4, ..one }, "levels", "set it to 3"),
        (
            SubwaysSpec { tor_uplinks: Uplinks::Oversubscription(7.0), ..one },
            "tor_oversubscription",
            "choose 6 (5 links) or 7.5 (4 links)",
        ),
        (SubwaysSpec { agg_uplinks: Uplinks::Oversubscription(30.0), ..one }, "agg_oversubscription", "choose 12 (1 links)"),
        (SubwaysSpec { tor_uplinks: Uplinks::Oversubscription(f64::NAN), ..one }, "tor_oversubscription", "choose a number"),
        (SubwaysSpec { tor_uplinks: Uplinks::Count(0), ..one }, "aggregations", "set it to 1"),
        (SubwaysSpec { speeds: speeds(&[10, 25]), ..one }, "speeds", "set type to 2"),
        (SubwaysSpec { speeds: speeds(&[10, 0]), ..two }, "speeds", "set every speed"),
    ];
    for (spec, parameter, remedy) in cases {
        let (named, rule) = refusal(spec);
        assert_eq!(named, parameter, "{spec:?}: {rule}");
        assert!(rule.contains(remedy), "{parameter}: {rule}");
    }
    let (named, _) = refusal(SubwaysSpec { speeds: speeds(&[1, 2, 3]), ..two });
    assert_eq!(named, "speeds", "a server of 2 ports misses one of 3 interconnects");
    let (named, rule) = refusal(SubwaysSpec { speeds: speeds(&[1, 2]), loop_length: Some(3), ..two });
    assert!(named == "loop" && rule.contains("choose one of 2, 4, 6, 12"), "{rule}");
    let no_rate = Cabling { rate: BitsPerSec(0), ..LINK };
    assert!(matches!(Shape::Subways(one).build(no_rate, LINK), Err(FabricError::Parameter { parameter: "host_link", .. })));
}

#[test]
fn names_say_wiring_and_balancing() {
    for (name, kind) in SubwaysType::ALL {
        assert_eq!((kind.to_string().as_str(), name.parse()), (name, Ok(kind)));
        let balancing = match name {
            n if n.ends_with("LB") => Balancing::Adaptive,
            n if n.ends_with('D') => Balancing::Detour,
            _ => Balancing::None,
        };
        assert_eq!(kind.balancing(), balancing, "{name}");
    }
    let spec = SubwaysSpec::new(SubwaysType::Type2D);
    assert_eq!(
        built(&spec).0.title(),
        "Subways type 2D, 2 ports, 15 servers a rack, 2 clusters of 12 racks, loops of 12 over 2 clusters"
    );
}

prop_compose! {
    fn any_spec()(
        kind in 0usize..8, ports in 1u32..7, servers in 1u32..5, racks in 1u32..13, blocks in 1u32..4, across in 1u32..4, divisor in 1u32..7,
        up in 1u32..4, agg_up in 1u32..4, networks in 0usize..4, flow: bool, two_levels: bool,
    ) -> SubwaysSpec {
        let kind = SubwaysType::ALL[kind].1;
        let type_2 = kind.wiring() == Wiring::SharedClusters;
        let looped = matches!(kind.wiring(), Wiring::SharedTors | Wiring::SharedClusters);
        SubwaysSpec {
            ports,
            rack: RackSize::Servers(servers),
            racks_per_cluster: racks,
            clusters: (!two_levels).then_some(if type_2 { blocks * across } else { blocks }),
            loop_length: (looped && racks % divisor == 0).then_some(racks / divisor),
            loop_clusters: (type_2 && !two_levels).then_some(across),
            tor_uplinks: Uplinks::Count(up),
            agg_uplinks: Uplinks::Count(agg_up),
            levels: if two_levels { 2 } else { 3 },
            speeds: Speeds::new(&[LINK.rate, BitsPerSec(25_000_000_000), BitsPerSec(40_000_000_000)][..if type_2 { networks } else { 0 }]).expect("few"),
            trunk: if flow { Trunk::Flow } else { Trunk::Packet },
            ..SubwaysSpec::new(kind)
        }
    }
}

proptest! {
    #[test]
    fn what_is_built_keeps_every_promise(spec in any_spec()) {
        match Shape::Subways(spec).build(LINK, LINK) {
            Ok(fabric) => check(&fabric, &spec.wiring(LINK, LINK).expect("built")),
            Err(FabricError::Parameter { .. }) => {}
            Err(other) => prop_assert!(false, "{spec:?}: {other}"),
        }
    }

    #[test]
    fn the_nearest_over_subscriptions_are_named(ratio in 0.5f64..40.0) {
        let spec = SubwaysSpec { tor_uplinks: Uplinks::Oversubscription(ratio), ..SubwaysSpec::new(SubwaysType::Type1) };
        let Err(FabricError::Parameter { parameter: named, rule, .. }) = spec.wiring(LINK, LINK) else { return Ok(()) };
        prop_assert_eq!(named, "tor_oversubscription");
        for word in rule.split("choose ").nth(1).expect("choices").split(" or ").filter(|w| w.contains("links)")) {
            let nearest: f64 = word.split(' ').next().expect("a number").parse().expect("a number");
            let whole = 30.0 / nearest;
            prop_assert!((whole - whole.round()).abs() < 0.01, "{}", rule);
        }
    }
}
