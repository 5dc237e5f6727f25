use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use weft_fabric::topology::shapes::subways::{RackSize, SubwaysSpec, SubwaysType};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric};

use super::*;
use crate::commands;

const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };

fn settings(name: &str, routing: Routing) -> Settings {
    Settings {
        name: name.parse().expect("a name"),
        routing,
        timers: Timers::FAST,
        scale: 0.01,
        seed: 1,
        switch_queue: Bytes(102_400),
        nic_queue: Bytes(1_600_000),
    }
}

fn plan(shape: Shape) -> Plan {
    let fabric = shape.build(LINK, LINK).expect("a fabric");
    Plan::new(&fabric, &settings("t", Routing::Static)).expect("a plan")
}

/// The text of all that `up` runs.
fn script(plan: &Plan) -> String {
    let mut text = format!("== cables\n{}", commands::cables(plan));
    for node in &plan.nodes {
        write!(text, "== {}\n{}", node.namespace, commands::devices(node, false)).expect("a text grows");
        write!(text, "{}{}", commands::routes(node, plan.routing, plan.ecmp_width()), commands::shaping(node))
            .expect("a text grows");
    }
    text
}

/// Where a packet of a host goes, choosing by turns among next hops: the nodes that it meets.
fn walk(plan: &Plan, from: usize, port: usize, to: Ipv4Addr, turn: &mut usize) -> Vec<usize> {
    let (mut at, mut out, mut path) = (from, port, vec![from]);
    loop {
        at = plan.nodes[at].ports[out].peer.node;
        path.push(at);
        let node = &plan.nodes[at];
        if node.role == Role::Host || path.len() > 20 {
            return path;
        }
        let routes = node.local.iter().chain(&node.fabric).filter(|r| r.to.contains(to));
        out = match routes.max_by_key(|r| r.to.len).map(|r| &r.target) {
            Some(RouteTarget::Direct(port)) => *port,
            Some(RouteTarget::Via(hops)) => {
                *turn += 1;
                hops[*turn % hops.len()].port
            }
            _ => return path,
        };
    }
}

fn check(fabric: &Fabric, plan: &Plan) {
    addresses_are_unique(plan);
    let seeds: BTreeSet<u32> = plan.nodes.iter().map(|n| n.hash_seed).collect();
    assert!(seeds.len() == plan.nodes.len() && !seeds.contains(&0));
    assert_eq!(plan.cables().count(), fabric.cables().len());
    let hosts: Vec<usize> = (0..plan.nodes.len()).filter(|&i| plan.nodes[i].role == Role::Host).collect();
    let mut turn = 0;
    for &from in &hosts {
        for port in 0..plan.nodes[from].ports.len() {
            for &to in hosts.iter().filter(|&&to| to != from).step_by(hosts.len().div_ceil(12)) {
                for address in plan.nodes[to].ports.iter().map(|p| p.address.expect("a locator").address) {
                    let path = walk(plan, from, port, address, &mut turn);
                    assert_eq!(path.last(), Some(&to), "{} to {address}: {path:?}", plan.nodes[from].name);
                }
            }
        }
    }
}

fn addresses_are_unique(plan: &Plan) {
    let mut owners: BTreeMap<Ipv4Addr, &str> = BTreeMap::new();
    let mut namespaces = BTreeSet::new();
    for node in &plan.nodes {
        assert!(namespaces.insert(&node.namespace), "{} twice", node.namespace);
        let own = (node.role == Role::Switch).then_some(node.locator);
        for address in node.ports.iter().filter_map(|p| Some(p.address?.address)).chain(own) {
            assert_eq!(owners.insert(address, &node.name), None, "{address} twice");
        }
        for (i, port) in node.ports.iter().enumerate() {
            assert!(port.name.len() <= 15, "the kernel's names are short");
            let back = plan.port(port.peer).peer;
            assert_eq!(plan.port(back).name, node.ports[i].name, "a cable leads back");
        }
    }
}

#[test]
fn a_small_fabric_in_full() {
    let shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 2 };
    insta::assert_snapshot!(script(&plan(shape)));
}

#[test]
fn a_host_with_two_nics_has_two_ways() {
    let spec = SubwaysSpec::testbed(SubwaysType::Type1);
    let fabric = Shape::Subways(spec).build(LINK, LINK).expect("a fabric");
    let plan = Plan::new(&fabric, &settings("t", Routing::Static)).expect("a plan");
    check(&fabric, &plan);
    insta::assert_snapshot!(format!(
        "{}{}",
        commands::devices(&plan.nodes[0], false),
        commands::routes(&plan.nodes[0], plan.routing, plan.ecmp_width())
    ));
}

#[test]
fn settings_of_a_host_and_a_switch() {
    let plan = plan(Shape::Switch { hosts: 2 });
    let text = |n: &Node| n.sysctls(Routing::Static).iter().map(|(k, v)| format!("{k} = {v}\n")).collect::<String>();
    let (host, switch) = (&plan.nodes[0], &plan.nodes[2]);
    insta::assert_snapshot!(format!("{}:\n{}{}:\n{}", host.name, text(host), switch.name, text(switch)));
}

#[test]
fn rates_are_scaled_and_never_too_slow() {
    let fabric = Shape::FatTree { k: 4 }.build(LINK, LINK).expect("a fabric");
    let at = |scale| Plan::new(&fabric, &Settings { scale, ..settings("t", Routing::Frr) });
    assert_eq!(at(0.01).expect("a plan").nodes[0].ports[0].rate_bps, 10_000_000);
    let error = at(0.00001).expect_err("10 kbps");
    assert!(matches!(&error, PlanError::TooSlow { scaled: BitsPerSec(10_000), .. }), "{error}");
    assert!(error.to_string().contains("world.scale"), "{error}");
}

#[test]
fn a_record_keeps_the_plan() {
    let plan = plan(Shape::FatTree { k: 4 });
    let text = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let kinds = [SubwaysType::Type0, SubwaysType::Type1, SubwaysType::Type2, SubwaysType::McLag];
    let subways = (prop::sample::select(kinds.to_vec()), 2..5u32, 1..3u32, 1..5u32, 2..4u32).prop_map(
        |(kind, racks, clusters, servers, levels)| {
            Shape::Subways(SubwaysSpec {
                racks_per_cluster: racks,
                clusters: Some(clusters),
                rack: RackSize::Servers(servers),
                levels,
                ..SubwaysSpec::new(kind)
            })
        },
    );
    prop_oneof![
        (1..4u32).prop_map(|k| Shape::FatTree { k: 2 * k }),
        (1..5u32, 1..4u32, 1..5u32).prop_map(|(edges, cores, hosts_per_edge)| Shape::TwoLevel { edges, cores, hosts_per_edge }),
        (1..4u32, 1..4u32, 1..6u32).prop_map(|(a, i, hosts_per_tor)| Shape::Clos {
            agg_ports: 2 * a,
            int_ports: 2 * i,
            hosts_per_tor
        }),
        (1..6u32, 1..4u32).prop_map(|(switches, hosts_per_switch)| Shape::Clique { switches, hosts_per_switch }),
        (1..300u32).prop_map(|hosts| Shape::Switch { hosts }),
        subways,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 64 / 256, ..ProptestConfig::default() })]
    #[test]
    fn every_host_reaches_every_other_one(shape in shapes(), seed: u64) {
        let Ok(fabric) = shape.build(LINK, LINK) else { return Ok(()) };
        let plan = Plan::new(&fabric, &Settings { seed, ..settings("t", Routing::Static) }).expect("a plan");
        check(&fabric, &plan);
    }
}
