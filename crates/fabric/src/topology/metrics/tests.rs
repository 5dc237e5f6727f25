use super::*;
use crate::time::Duration;
use crate::topology::shapes::{Cabling, Shape};
use crate::topology::{FabricBuilder, FabricError};
use crate::units::BitsPerSec;

const G: u64 = 1_000_000_000;
const LINK_1G: Cabling = Cabling { rate: BitsPerSec(G), delay: Duration::from_us(1) };
const LINK_10G: Cabling = Cabling { rate: BitsPerSec(10 * G), delay: Duration::from_us(1) };

fn of(shape: Shape, fabric_link: Cabling) -> Metrics {
    Metrics::of(&shape.build(LINK_1G, fabric_link).expect("a fabric"))
}

fn spread(n: u64) -> Option<Spread> {
    Some(Spread { min: n, mean: n as f64, max: n })
}

#[test]
fn a_fat_tree_is_rearrangeably_non_blocking() {
    for k in [4u64, 6, 8] {
        let m = of(Shape::FatTree { k: k as u32 }, LINK_1G);
        let hosts = k * k * k / 4;
        assert_eq!((m.hosts as u64, m.racks as u64, m.pods as u64), (hosts, k * k / 2, k));
        assert_eq!((m.switches as u64, m.cables as u64, m.ports as u64), (5 * k * k / 4, 3 * hosts, 5 * k * k * k / 4));
        assert_eq!((m.bisection.bps, m.bisection.fraction), (hosts / 2 * G, 1.0));
        assert_eq!(m.bisection.unlimited_nics_bps, Some(hosts / 2 * G));
        assert_eq!(m.diameter, 6);
        let paths = m.paths.shortest.unwrap();
        assert_eq!((paths.min, paths.max), (k / 2, k * k / 4));
        // Of the k^2/2 - 1 other racks, k/2 - 1 are in the pod.
        let near = (k / 2 - 1) as f64;
        let far = (k * k / 2 - k / 2) as f64;
        let mean = (near * (k / 2) as f64 + far * (k * k / 4) as f64) / (near + far);
        assert!((paths.mean - mean).abs() < 1e-9);
        assert_eq!(m.paths.disjoint, spread(k / 2));
        assert!(m.tiers[..2].iter().all(|t| t.oversubscription_min == Some(1.0) && t.oversubscription_max == Some(1.0)));
        assert_eq!((m.tiers[2].oversubscription_max, m.tiers[2].ports_max as u64), (None, k));
    }
}

/// VL2 section 4.1: D_I D_A / 2 times the link capacity between layers; section 6: no over-subscription with 20 servers a ToR.
#[test]
fn a_vl2_clos_has_full_bisection_bandwidth() {
    let m = of(Shape::Clos { agg_ports: 8, int_ports: 4, hosts_per_tor: 20 }, LINK_10G);
    assert_eq!((m.hosts, m.pods), (160, 2));
    assert_eq!((m.tiers[0].up_bps, m.tiers[1].up_bps), (8 * 4 / 2 * 10 * G, 8 * 4 / 2 * 10 * G));
    assert_eq!(m.tiers.iter().map(|t| t.oversubscription_from_hosts).collect::<Vec<_>>(), [Some(1.0), Some(1.0), None]);
    assert_eq!(m.bisection.fraction, 1.0);
    // Two aggregation switches here, D_A/2 intermediates, two there; one of two aggregation switches inside a pod.
    assert_eq!(m.paths.shortest.map(|s| (s.min, s.max)), Some((2, 2 * 4 * 2)));
    assert_eq!(m.paths.disjoint, spread(2));
    assert_eq!(
        m.cabling.iter().map(|c| (c.from_tier, c.to_tier, c.count)).collect::<Vec<_>>(),
        [(0, 1, 160), (1, 2, 16), (2, 3, 16)]
    );
}

#[test]
fn the_vl2_testbed_is_not_oversubscribed() {
    let m = of(Shape::VL2_TESTBED, LINK_10G);
    assert_eq!((m.bisection.nic_bps, m.bisection.bps), (40 * G, 40 * G));
    assert_eq!((m.tiers[0].oversubscription_max, m.tiers[1].oversubscription_max), (Some(1.0), Some(1.0)));
    // Two aggregation switches are full of ToRs, the third has one fewer.
    assert_eq!(m.tiers[1].oversubscription_min, Some(2.0 / 3.0));
    // Every two ToRs have an aggregation switch in common.
    assert_eq!((m.switches, m.pods, m.diameter), (10, 1, 4));
}

#[test]
fn a_tree_carries_what_its_ratios_leave() {
    let shape = Shape::Tree {
        tors: 16,
        hosts_per_tor: 20,
        tors_per_pod: Some(4),
        redundancy: 2,
        tor_oversubscription: 5.0,
        top_oversubscription: 20.0,
    };
    let m = of(shape, LINK_10G);
    assert_eq!(m.bisection.fraction, 1.0 / 20.0);
    assert_eq!((m.tiers[0].oversubscription_max, m.tiers[1].oversubscription_max), (Some(5.0), Some(4.0)));
    assert_eq!(m.tiers[1].oversubscription_from_hosts, Some(20.0));
    assert_eq!(m.paths.shortest.map(|s| (s.min, s.max)), Some((2, 8)));
}

#[test]
fn a_clique_and_a_switch() {
    let m = of(Shape::Clique { switches: 16, hosts_per_switch: 8 }, LINK_1G);
    // 8 x 8 cables cross, 64 NICs: full bisection between these halves.
    assert_eq!((m.bisection.bps, m.bisection.fraction), (64 * G, 1.0));
    assert_eq!((m.paths.shortest, m.paths.disjoint, m.diameter), (spread(1), spread(15), 3));
    assert_eq!(m.tiers[0].lateral_bps, 16 * 15 * G);
    let one = of(Shape::Switch { hosts: 5 }, LINK_1G);
    assert_eq!((one.bisection.bps, one.bisection.nic_bps, one.bisection.unlimited_nics_bps), (2 * G, 2 * G, None));
    assert_eq!((one.paths.shortest, one.paths.disjoint, one.diameter), (None, None, 2));
    let alone = of(Shape::Switch { hosts: 1 }, LINK_1G);
    assert_eq!((alone.bisection.fraction, alone.diameter), (0.0, 0));
}

#[test]
fn two_level_and_parallel_cables() {
    let m = of(Shape::TwoLevel { edges: 4, cores: 3, hosts_per_edge: 6 }, LINK_1G);
    assert_eq!((m.bisection.bps, m.bisection.fraction), (6 * G, 0.5));
    assert_eq!((m.paths.shortest, m.paths.disjoint, m.diameter), (spread(3), spread(3), 4));
    let mut b = FabricBuilder::new("two racks, two cables");
    let [s0, s1] = [0, 1].map(|i| b.switch(format!("s{i}"), 1, None));
    for (i, switch) in [s0, s1].into_iter().enumerate() {
        let host = b.host(format!("h{i}"), None);
        // Two NICs on one switch: the rack lists it twice, and it counts once.
        b.cable(host, switch, LINK_1G.rate, LINK_1G.delay);
        b.cable(host, switch, LINK_1G.rate, LINK_1G.delay);
        b.cable(s0, s1, LINK_10G.rate, LINK_10G.delay);
    }
    let m = Metrics::of(&b.build().unwrap());
    assert_eq!((m.paths.shortest, m.paths.disjoint), (spread(2), spread(2)));
    assert_eq!((m.bisection.bps, m.bisection.unlimited_nics_bps), (2 * G, Some(20 * G)));
}

#[test]
fn sums_over_the_fastest_cables_hold() {
    const P: u64 = BitsPerSec::MAX_READ.0;
    let star = |hosts, rate| {
        let mut b = FabricBuilder::new("fast");
        let [s0, s1] = [0, 1].map(|i| b.switch(format!("s{i}"), 1, None));
        b.cable(s0, s1, BitsPerSec::MAX_READ, LINK_1G.delay);
        for i in 0..hosts {
            let host = b.host(format!("h{i}"), None);
            b.cable(host, if i < hosts / 2 { s0 } else { s1 }, BitsPerSec(rate), LINK_1G.delay);
        }
        b.build()
    };
    // The most that fits into 63 bits: 9,223 cables.
    let m = Metrics::of(&star(9_222, P).unwrap());
    assert_eq!((m.bisection.nic_bps, m.bisection.bps, m.bisection.unlimited_nics_bps), (4_611 * P, P, Some(P)));
    assert_eq!((m.tiers[0].down_bps, m.tiers[0].lateral_bps), (9_222 * P, 2 * P));
    assert_eq!(star(9_223, P).unwrap_err(), FabricError::TooFastTogether { bps: 9_224 * u128::from(P) });
    assert_eq!(star(2, P + 1).unwrap_err(), FabricError::TooFast("h0".into(), "s0".into(), BitsPerSec(P + 1)));
}

#[test]
fn large_fabrics_are_measured_quickly() {
    let m = of(Shape::FatTree { k: 48 }, LINK_1G);
    assert_eq!((m.hosts, m.bisection.fraction, m.paths.all_pairs), (27_648, 1.0, true));
    assert_eq!((m.paths.shortest.unwrap().max, m.paths.disjoint), (576, spread(24)));
    let m = of(Shape::Clos { agg_ports: 144, int_ports: 144, hosts_per_tor: 20 }, LINK_10G);
    assert_eq!((m.hosts, m.bisection.fraction, m.diameter), (103_680, 1.0, 6));
    assert_eq!((m.paths.shortest.unwrap().max, m.paths.disjoint), (288, spread(2)));
}
