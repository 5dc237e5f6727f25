use proptest::prelude::*;

use super::subways::{RackSize, SubwaysSpec, SubwaysType, Uplinks};
use super::{Cabling, Shape};
use crate::ids::{HostId, NodeId};
use crate::time::Duration;
use crate::topology::{Fabric, FabricError};
use crate::units::BitsPerSec;

const HOST: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
const SWITCH: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(2) };

fn built(shape: Shape) -> Fabric {
    shape.build(HOST, SWITCH).unwrap_or_else(|e| panic!("{shape:?}: {e}"))
}

fn tier_counts(fabric: &Fabric) -> Vec<usize> {
    (1..=fabric.top_tier()).map(|t| fabric.switches_of_tier(t).count()).collect()
}

fn degree(fabric: &Fabric, name: &str) -> usize {
    fabric.out(fabric.node_by_name(name).expect(name)).len()
}

fn neighbours(fabric: &Fabric, name: &str) -> Vec<String> {
    let node = fabric.node_by_name(name).expect(name);
    fabric.out(node).iter().map(|&l| fabric.node(fabric.link(l).to).name.to_string()).collect()
}

/// What every fabric promises: pods are the components below the roots, and hosts ascend by rack and by pod.
fn check_promises(fabric: &Fabric) {
    let top = fabric.top_tier();
    if top > 1 {
        let mut component: Vec<usize> = (0..fabric.nodes().len()).collect();
        fn root(of: &mut [usize], mut i: usize) -> usize {
            while of[i] != i {
                of[i] = of[of[i]];
                i = of[i];
            }
            i
        }
        for link in fabric.links() {
            if fabric.node(link.from).tier < top && fabric.node(link.to).tier < top {
                let (a, b) = (root(&mut component, link.from.index()), root(&mut component, link.to.index()));
                component[a] = b;
            }
        }
        let mut of_component = std::collections::BTreeMap::new();
        let mut of_pod = std::collections::BTreeMap::new();
        for i in 0..fabric.nodes().len() {
            let node = fabric.node(NodeId::from(i));
            assert_eq!(node.pod.is_none(), node.tier == top, "{}", node.name);
            if let Some(pod) = node.pod {
                let c = root(&mut component, i);
                assert_eq!(*of_component.entry(c).or_insert(pod), pod, "{}", node.name);
                assert_eq!(*of_pod.entry(pod).or_insert(c), c, "{}", node.name);
            }
        }
        assert_eq!(of_pod.keys().copied().collect::<Vec<_>>(), (0..of_pod.len() as u32).collect::<Vec<_>>());
    } else {
        assert!(fabric.hosts().all(|h| fabric.pod_of(h) == 0));
    }
    let places: Vec<_> = fabric.hosts().map(|h| (fabric.pod_of(h), fabric.rack_of(h))).collect();
    assert!(places.is_sorted(), "hosts ascend by pod and rack");
    assert!(fabric.hosts().enumerate().all(|(i, h)| &*fabric.node(h.node()).name == format!("h{i}").as_str()));
}

#[test]
fn fat_tree_counts() {
    for k in [2, 4, 8, 16] {
        let fabric = built(Shape::FatTree { k });
        check_promises(&fabric);
        let k = k as usize;
        assert_eq!(fabric.host_count(), k * k * k / 4);
        assert_eq!(tier_counts(&fabric), [k * k / 2, k * k / 2, k * k / 4]);
        assert_eq!(fabric.links().len() / 2, 3 * k * k * k / 4);
        assert!(fabric.switches().all(|s| fabric.out(fabric.switch_node(s)).len() == k));
    }
}

#[test]
fn two_level_counts() {
    let fabric = built(Shape::TwoLevel { edges: 16, cores: 16, hosts_per_edge: 5 });
    check_promises(&fabric);
    assert_eq!((fabric.host_count(), tier_counts(&fabric)), (80, vec![16, 16]));
    assert_eq!((degree(&fabric, "edge3"), degree(&fabric, "core3")), (21, 16));
    let by_ports = built(Shape::two_level_of_ports(8));
    assert_eq!(by_ports.host_count(), 32);
    assert!(by_ports.switches().all(|s| by_ports.out(by_ports.switch_node(s)).len() == 8));
}

/// VL2 section 6: 24-port switches connect about 3,000 servers.
#[test]
fn clos_counts() {
    let fabric = built(Shape::Clos { agg_ports: 24, int_ports: 24, hosts_per_tor: 20 });
    check_promises(&fabric);
    assert_eq!((fabric.host_count(), tier_counts(&fabric)), (2_880, vec![144, 24, 12]));
    for t in 2..=3 {
        assert!(fabric.switches_of_tier(t).all(|s| fabric.out(fabric.switch_node(s)).len() == 24));
    }
    assert_eq!(degree(&fabric, "tor17"), 22);
    assert_eq!(fabric.pod_of(HostId(2_879)), 11);
    let uneven = built(Shape::Clos { agg_ports: 6, int_ports: 4, hosts_per_tor: 3 });
    check_promises(&uneven);
    assert_eq!((uneven.host_count(), tier_counts(&uneven)), (18, vec![6, 4, 3]));
}

/// VL2 section 6: 144-port switches connect 100,000 servers.
#[test]
fn a_hundred_thousand_servers() {
    let fabric = built(Shape::Clos { agg_ports: 144, int_ports: 144, hosts_per_tor: 20 });
    assert_eq!((fabric.host_count(), tier_counts(&fabric)), (103_680, vec![5_184, 144, 72]));
    assert_eq!(fabric.links().len() / 2, 103_680 + 2 * 5_184 + 144 * 72);
}

/// VL2 section 5: 6 ports used on an aggregation switch, 3 on an intermediate one, 2 uplinks and 20 servers on a ToR.
#[test]
fn the_testbed() {
    let fabric = built(Shape::VL2_TESTBED);
    check_promises(&fabric);
    assert_eq!((fabric.host_count(), tier_counts(&fabric)), (80, vec![4, 3, 3]));
    assert!((0..4).all(|t| degree(&fabric, &format!("tor{t}")) == 22));
    assert!((0..3).all(|i| degree(&fabric, &format!("int{i}")) == 3));
    let mut aggs: Vec<_> = (0..3).map(|a| degree(&fabric, &format!("agg{a}"))).collect();
    aggs.sort_unstable();
    assert_eq!(aggs, [5, 6, 6]);
    assert_eq!(neighbours(&fabric, "tor3")[20..], ["agg2", "agg0"]);
}

#[test]
fn clique_counts() {
    let fabric = built(Shape::Clique { switches: 6, hosts_per_switch: 4 });
    check_promises(&fabric);
    assert_eq!((fabric.host_count(), tier_counts(&fabric), fabric.links().len() / 2), (24, vec![6], 24 + 15));
    assert!(fabric.switches().all(|s| fabric.out(fabric.switch_node(s)).len() == 9));
    check_promises(&built(Shape::Clique { switches: 1, hosts_per_switch: 4 }));
    check_promises(&built(Shape::Switch { hosts: 7 }));
}

fn capacity(fabric: &Fabric, a: &str, b: &str) -> u64 {
    let [a, b] = [a, b].map(|n| fabric.node_by_name(n).expect(n));
    let cable = fabric.cable_between(a, b).expect("a cable");
    fabric.link(cable.links()[0]).capacity.0
}

#[test]
fn tree_capacities_follow_from_the_ratios() {
    let tree = |tors_per_pod, redundancy, tor, top| Shape::Tree {
        tors: 48,
        hosts_per_tor: 20,
        tors_per_pod,
        redundancy,
        tor_oversubscription: tor,
        top_oversubscription: top,
    };
    let fabric = built(tree(Some(12), 2, 5.0, 240.0));
    check_promises(&fabric);
    assert_eq!((fabric.host_count(), tier_counts(&fabric)), (960, vec![48, 8, 2]));
    // 20 Gbps of servers over 1:5 and 2 uplinks; 240 Gbps of a pod over 1:240 and 4 links.
    assert_eq!(capacity(&fabric, "tor13", "agg2"), 2_000_000_000);
    assert_eq!(capacity(&fabric, "agg2", "core1"), 250_000_000);
    // VL2 section 5.1: 20 servers a rack, 1:20, one uplink of 1 Gbps.
    let single = built(tree(None, 1, 20.0, 20.0));
    check_promises(&single);
    assert_eq!(tier_counts(&single), [48, 1]);
    assert_eq!(capacity(&single, "tor47", "core0"), 1_000_000_000);
    assert_eq!(single.link(single.out(single.node_by_name("core0").unwrap())[0]).delay, SWITCH.delay);
}

#[test]
fn parameters_out_of_range_are_refused_with_rule_and_remedy() {
    let explicit = |intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor| Shape::ClosExplicit {
        intermediates,
        aggregations,
        tors,
        uplinks_per_tor,
        hosts_per_tor,
    };
    let tree = |tors_per_pod, redundancy, tor, top| Shape::Tree {
        tors: 12,
        hosts_per_tor: 20,
        tors_per_pod,
        redundancy,
        tor_oversubscription: tor,
        top_oversubscription: top,
    };
    let refused = [
        (Shape::FatTree { k: 0 }, "k"),
        (Shape::FatTree { k: 5 }, "k"),
        (Shape::FatTree { k: 130 }, "k"),
        (Shape::two_level_of_ports(0), "k"),
        (Shape::two_level_of_ports(7), "k"),
        (Shape::two_level_of_ports(u32::MAX - 1), "k"),
        (Shape::TwoLevel { edges: 0, cores: 1, hosts_per_edge: 1 }, "edges"),
        (Shape::TwoLevel { edges: 1, cores: 0, hosts_per_edge: 1 }, "cores"),
        (Shape::TwoLevel { edges: 1, cores: 1, hosts_per_edge: 0 }, "hosts_per_edge"),
        (Shape::TwoLevel { edges: u32::MAX, cores: u32::MAX, hosts_per_edge: u32::MAX }, "edges"),
        (Shape::Clos { agg_ports: 3, int_ports: 4, hosts_per_tor: 20 }, "agg_ports"),
        (Shape::Clos { agg_ports: 4, int_ports: 0, hosts_per_tor: 20 }, "int_ports"),
        (Shape::Clos { agg_ports: 4, int_ports: 4, hosts_per_tor: 0 }, "hosts_per_tor"),
        (Shape::Clos { agg_ports: 2_048, int_ports: 2_048, hosts_per_tor: 20 }, "tors"),
        (explicit(3, 3, 4, 4, 20), "uplinks_per_tor"),
        (explicit(3, 9, 4, 2, 20), "aggregations"),
        (explicit(0, 3, 4, 2, 20), "intermediates"),
        (explicit(u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX), "tors"),
        (tree(Some(5), 2, 5.0, 20.0), "tors_per_pod"),
        (tree(Some(0), 2, 5.0, 20.0), "tors_per_pod"),
        (tree(Some(6), 0, 5.0, 20.0), "redundancy"),
        (tree(Some(6), 2, 5.0, 4.0), "top_oversubscription"),
        (tree(Some(6), 2, f64::NAN, 4.0), "tor_oversubscription"),
        (tree(None, 2, 0.0, 4.0), "tor_oversubscription"),
        (Shape::Clique { switches: 0, hosts_per_switch: 1 }, "switches"),
        (Shape::Clique { switches: u32::MAX, hosts_per_switch: u32::MAX }, "switches"),
        (Shape::Switch { hosts: 0 }, "hosts"),
        (Shape::Switch { hosts: u32::MAX }, "hosts"),
    ];
    for (shape, name) in refused {
        match shape.build(HOST, SWITCH) {
            Err(FabricError::Parameter { parameter, rule, .. }) => {
                assert_eq!(parameter, name, "{shape:?}");
                assert!(["set", "choose", "lower", "1 for"].iter().any(|verb| rule.contains(verb)), "a remedy: {rule}");
            }
            other => panic!("{shape:?}: {other:?}"),
        }
    }
    let no_rate = Cabling { rate: BitsPerSec(0), ..HOST };
    assert!(matches!(Shape::FatTree { k: 4 }.build(no_rate, SWITCH), Err(FabricError::NoCapacity(..))));
    assert!(matches!(tree(None, 2, 5.0, 5.0).build(no_rate, SWITCH), Err(FabricError::Parameter { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 64 / 256))]

    #[test]
    fn explicit_clos_spreads_tors_evenly(
        intermediates in 1u32..5, aggregations in 1u32..14, tors in 1u32..30, uplinks_per_tor in 1u32..6, hosts_per_tor in 1u32..3,
    ) {
        let shape = Shape::ClosExplicit { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor };
        if let Ok(fabric) = shape.build(HOST, SWITCH) {
            check_promises(&fabric);
            let down: Vec<_> = (0..aggregations).map(|a| degree(&fabric, &format!("agg{a}")) as u32 - intermediates).collect();
            let blocks = aggregations / uplinks_per_tor;
            let most = if aggregations % uplinks_per_tor == 0 { tors.div_ceil(blocks) } else { (tors * uplinks_per_tor).div_ceil(aggregations) };
            prop_assert_eq!(down.iter().copied().max(), Some(most));
            prop_assert!(down.iter().min() >= Some(&(most - 1).max(1)), "{:?}", down);
        } else {
            prop_assert!(uplinks_per_tor > aggregations || tors * uplinks_per_tor < aggregations);
        }
    }

    #[test]
    fn any_parameters_build_or_are_refused(a in count(), b in count(), c in count(), r in 0u32..4, x: f64, y: f64) {
        for shape in [
            Shape::FatTree { k: a },
            Shape::two_level_of_ports(a),
            Shape::TwoLevel { edges: a, cores: b, hosts_per_edge: c },
            Shape::Clos { agg_ports: a, int_ports: b, hosts_per_tor: c },
            Shape::ClosExplicit { intermediates: a, aggregations: b, tors: c, uplinks_per_tor: r, hosts_per_tor: a },
            Shape::Tree { tors: a, hosts_per_tor: b, tors_per_pod: Some(c), redundancy: r, tor_oversubscription: x, top_oversubscription: y },
            Shape::Clique { switches: a, hosts_per_switch: b },
            Shape::Switch { hosts: a },
            Shape::Subways(SubwaysSpec { ports: r, rack: RackSize::Servers(a), racks_per_cluster: b, clusters: Some(c), tor_uplinks: Uplinks::Oversubscription(x), ..SubwaysSpec::new(SubwaysType::Type1) }),
            Shape::Subways(SubwaysSpec { rack: RackSize::ServerPorts(a), racks_per_cluster: b, loop_length: Some(c), agg_uplinks: Uplinks::Oversubscription(y), ..SubwaysSpec::new(SubwaysType::Type2) }),
        ] {
            if let Ok(fabric) = shape.build(HOST, SWITCH) {
                prop_assert!(fabric.host_count() > 0);
            }
        }
    }
}

/// Small, or far too large: what lies between takes long to build and shows nothing new.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..20, (1u32 << 21)..=u32::MAX]
}
