use proptest::prelude::*;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::*;
use crate::ids::NodeId;
use crate::rng::{Stream, stream};
use crate::time::Duration;
use crate::topology::metrics::max_flow::FlowNetwork;
use crate::topology::shapes::{Cabling, Shape};
use crate::topology::{FabricBuilder, Part};
use crate::units::BitsPerSec;

const G: f64 = 1e9;
const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
const FAST: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };

fn built(shape: Shape) -> (Fabric, Health) {
    let fabric = shape.build(LINK, LINK).expect("a fabric");
    let health = Health::new(&fabric);
    (fabric, health)
}

fn stride(fabric: &Fabric, by: usize) -> Vec<Demand> {
    let n = fabric.host_count();
    (0..n).map(|i| (HostId::from(i), HostId::from((i + by) % n), G)).collect()
}

fn permutation(fabric: &Fabric, seed: u64) -> Vec<Demand> {
    let mut to: Vec<HostId> = fabric.hosts().collect();
    to.shuffle(&mut stream(seed, Stream::Traffic));
    fabric.hosts().zip(to).filter(|(a, b)| a != b).map(|(a, b)| (a, b, G)).collect()
}

fn close(a: Option<f64>, b: f64) {
    assert!(a.is_some_and(|a| (a - b).abs() < 1e-6), "{a:?} is not {b}");
}

#[test]
fn permutations_fit_into_fabrics_with_full_bisection() {
    for shape in [Shape::FatTree { k: 4 }, Shape::FatTree { k: 8 }, Shape::two_level_of_ports(8), Shape::Switch { hosts: 9 }] {
        let (fabric, health) = built(shape);
        for seed in 0..5 {
            close(splittable_fraction(&fabric, &health, &permutation(&fabric, seed)), 1.0);
        }
    }
    let clos = Shape::Clos { agg_ports: 6, int_ports: 4, hosts_per_tor: 20 }.build(LINK, FAST).unwrap();
    close(splittable_fraction(&clos, &Health::new(&clos), &permutation(&clos, 3)), 1.0);
    // The testbed takes the program: its aggregation switches are not alike.
    let testbed = Shape::VL2_TESTBED.build(LINK, FAST).unwrap();
    close(splittable_fraction(&testbed, &Health::new(&testbed), &stride(&testbed, 20)), 1.0);
}

#[test]
fn over_subscription_divides() {
    let (fabric, health) = built(Shape::TwoLevel { edges: 4, cores: 3, hosts_per_edge: 6 });
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 6)), 0.5);
    // Two flows out of each NIC.
    let twice = [stride(&fabric, 6), stride(&fabric, 12)].concat();
    close(splittable_fraction(&fabric, &health, &twice), 0.25);
    let tree = Shape::Tree {
        tors: 8,
        hosts_per_tor: 10,
        tors_per_pod: Some(4),
        redundancy: 2,
        tor_oversubscription: 5.0,
        top_oversubscription: 20.0,
    };
    let (fabric, health) = built(tree);
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 10)), 0.2);
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 40)), 0.05);
}

#[test]
fn nics_bound_incast() {
    let (fabric, health) = built(Shape::FatTree { k: 4 });
    let incast: Vec<Demand> = (1..9).map(|i| (HostId(i), HostId(0), G)).collect();
    close(splittable_fraction(&fabric, &health, &incast), 1.0 / 8.0);
    close(splittable_fraction(&fabric, &health, &[]), 1.0);
    close(splittable_fraction(&fabric, &health, &[(HostId(0), HostId(1), 0.25 * G)]), 1.0);
}

/// All hosts of one switch to another: one cable directly, one over each of the other switches.
#[test]
fn a_clique_uses_detours() {
    let (fabric, health) = built(Shape::Clique { switches: 6, hosts_per_switch: 8 });
    let flows: Vec<Demand> = (0..8).map(|i| (HostId(i), HostId(8 + i), G)).collect();
    close(splittable_fraction(&fabric, &health, &flows), 5.0 / 8.0);
    let (fabric, health) = built(Shape::Clique { switches: 4, hosts_per_switch: 2 });
    // A stride by a switch: each sends 2 and has 3 cables; a detour takes two, so 1 direct + d detoured, 1 + 2 d <= 3.
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 2)), 1.0);
    let (fabric, health) = built(Shape::Clique { switches: 4, hosts_per_switch: 6 });
    // 12 directed cables; of 6 f a switch one unit goes directly, the rest over two cables: 4 + 2 * 4 (6 f - 1) = 12.
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 6)), 1.0 / 3.0);
}

/// With a core down, a pod of four hosts keeps three of four links up, and only uneven splitting fills them.
#[test]
fn failures() {
    let (fabric, mut health) = built(Shape::FatTree { k: 4 });
    let flows = stride(&fabric, 4);
    health.fail(&fabric, Part::parse(&fabric, "switch core0").unwrap());
    close(even_split::fraction(&fabric, &health, &flows), 0.5);
    close(splittable_fraction(&fabric, &health, &flows), 0.75);
    health.fail(&fabric, Part::parse(&fabric, "link h3-edge1").unwrap());
    close(splittable_fraction(&fabric, &health, &flows), 0.0);
    let others: Vec<Demand> = flows.into_iter().filter(|f| f.0 != HostId(3) && f.1 != HostId(3)).collect();
    // Pod 1 receives from three hosts now, but pod 2 still from four.
    close(splittable_fraction(&fabric, &health, &others), 0.75);
}

#[test]
fn several_nics_add_up() {
    let mut b = FabricBuilder::new("two NICs each, on two planes");
    let planes = [0, 1].map(|i| b.switch(format!("s{i}"), 1, None));
    for i in 0..4 {
        let host = b.host(format!("h{i}"), None);
        planes.into_iter().for_each(|s| b.cable(host, s, LINK.rate, LINK.delay));
    }
    let fabric = b.build().unwrap();
    let mut health = Health::new(&fabric);
    let flows: Vec<Demand> = (0..4).map(|i| (HostId(i), HostId((i + 1) % 4), 2.0 * G)).collect();
    close(splittable_fraction(&fabric, &health, &flows), 1.0);
    // h0 keeps one NIC: what it sends and receives halves, and so does the fraction of all.
    health.fail(&fabric, Part::parse(&fabric, "link h0-s1").unwrap());
    close(splittable_fraction(&fabric, &health, &flows), 0.5);
    health.fail(&fabric, Part::parse(&fabric, "link h1-s0").unwrap());
    close(splittable_fraction(&fabric, &health, &flows[2..3]), 1.0);
    close(splittable_fraction(&fabric, &health, &flows[..1]), 0.0);
}

#[test]
fn what_is_too_large_is_left_alone() {
    let (fabric, mut health) = built(Shape::FatTree { k: 16 });
    close(splittable_fraction(&fabric, &health, &stride(&fabric, 64)), 1.0);
    health.fail(&fabric, Part::parse(&fabric, "switch core0").unwrap());
    assert_eq!(splittable_fraction(&fabric, &health, &stride(&fabric, 64)), None);
    // A tenth of the rates fits however it is split.
    let light: Vec<Demand> = stride(&fabric, 64).into_iter().map(|(a, b, rate)| (a, b, rate / 10.0)).collect();
    close(splittable_fraction(&fabric, &health, &light), 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 24 / 256))]

    /// Where symmetry says that even splitting is optimal, the program finds nothing better.
    #[test]
    fn the_program_agrees_with_even_splitting(seed: u64, flows in 1usize..40, shape in 0usize..4) {
        let shape = [
            Shape::FatTree { k: 4 },
            Shape::Clos { agg_ports: 4, int_ports: 4, hosts_per_tor: 3 },
            Shape::TwoLevel { edges: 4, cores: 3, hosts_per_edge: 6 },
            Shape::Clos { agg_ports: 6, int_ports: 4, hosts_per_tor: 4 },
        ][shape];
        let (fabric, health) = built(shape);
        let mut rng = stream(seed, Stream::Traffic);
        let n = fabric.host_count() as u32;
        let flows: Vec<Demand> = (0..flows)
            .map(|_| {
                let src = rng.random_range(0..n);
                let dst = (src + rng.random_range(1..n)) % n;
                (HostId(src), HostId(dst), f64::from(rng.random_range(1..100u32)) * 1e7)
            })
            .collect();
        let even = even_split::fraction(&fabric, &health, &flows).unwrap();
        let upper = cuts::fraction(&fabric, &health, &flows);
        prop_assert!((even - upper).abs() < 1e-9 * upper, "{} {}", even, upper);
        let exact = program::fraction(&fabric, &health, &flows, f64::from(u16::MAX)).expect("small");
        // The program knows no NICs: it is bounded by them beside it.
        prop_assert!((exact.min(upper) - even).abs() < 1e-6 * even, "{} {}", exact, even);
    }

    /// One flow alone is a maximum flow, on any graph.
    #[test]
    fn one_flow_is_a_maximum_flow(seed: u64, switches in 2usize..8, cables in 0usize..14) {
        let mut rng = stream(seed, Stream::Traffic);
        let mut b = FabricBuilder::new("random");
        let nodes: Vec<_> = (0..switches).map(|i| b.switch(format!("s{i}"), 1, None)).collect();
        let mut net = FlowNetwork::new(switches);
        for i in 0..switches - 1 + cables {
            let a = if i + 1 < switches { i + 1 } else { rng.random_range(0..switches) };
            let c = if i + 1 < switches { rng.random_range(0..a) } else { (a + rng.random_range(1..switches)) % switches };
            let rate = rng.random_range(1..20u64);
            b.cable(nodes[a], nodes[c], BitsPerSec(rate), Duration::ZERO);
            net.arc(a, c, rate, rate);
        }
        for i in [0, switches - 1] {
            let host = b.host(format!("h{i}"), None);
            b.cable(host, nodes[i], BitsPerSec(1_000), Duration::ZERO);
        }
        let fabric = b.build().unwrap();
        let flow = net.maximise(0, switches - 1) as f64;
        let found = splittable_fraction(&fabric, &Health::new(&fabric), &[(HostId(0), HostId(1), 1_000.0)]);
        prop_assert!((found.unwrap() - flow / 1_000.0).abs() < 1e-9, "{:?} {}", found, flow);
    }

    /// Even splitting puts what leaves the sources on the links, and all of it arrives.
    #[test]
    fn even_splitting_conserves_flow(seed: u64, failures in 0usize..4) {
        let (fabric, mut health) = built(Shape::FatTree { k: 4 });
        let mut rng = stream(seed, Stream::Traffic);
        for _ in 0..failures {
            let switch = rng.random_range(8..fabric.switch_count() as u32);
            health.fail(&fabric, Part::Node(fabric.switch_node(crate::SwitchId(switch))));
        }
        let flows = permutation(&fabric, seed);
        if let Some(load) = even_split::loads(&fabric, &health, &flows) {
            for i in 0..fabric.nodes().len() {
                let node = NodeId::from(i);
                let out: f64 = fabric.out(node).iter().map(|l| load[l.index()]).sum();
                let into: f64 = fabric.out(node).iter().map(|l| load[l.reverse().index()]).sum();
                let sent: f64 = flows.iter().filter(|f| f.0.node() == node).map(|f| f.2).sum();
                let received: f64 = flows.iter().filter(|f| f.1.node() == node).map(|f| f.2).sum();
                prop_assert!((out + received - into - sent).abs() < 1.0);
                prop_assert!(fabric.out(node).iter().all(|&l| load[l.index()] == 0.0 || health.is_up(l)));
            }
        }
    }
}
