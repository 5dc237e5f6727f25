//! Maximum flows, edge connectivity and bisection, compared with the smallest cut over all sets of switches.

use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::Value;
use weft_fabric::topology::FabricBuilder;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Duration, Fabric, Health};
use weft_planner::cuts::graph::{Cuts, Measure};
use weft_planner::network::{Index, Network};

const GBPS: u64 = 1_000_000_000;

/// Four racks of two hosts, up to four switches above them, cables at random; of the cables between switches some are away.
fn random_network() -> impl Strategy<Value = Network> {
    let cables = prop::collection::vec((0usize..8, 0usize..8, 1u64..5), 0..20);
    (cables, prop::collection::vec(any::<bool>(), 40)).prop_map(|(cables, up)| {
        let mut builder = FabricBuilder::new("random");
        let cable = |gbps: u64| (BitsPerSec(gbps * GBPS), Duration::ZERO);
        let hosts: Vec<_> = (0..8).map(|i| builder.host(format!("h{i}"), None)).collect();
        let mut switches: Vec<_> = (0..4).map(|i| builder.switch(format!("t{i}"), 1, None)).collect();
        switches.extend((0..4).map(|i| builder.switch(format!("s{i}"), 2, None)));
        for (i, host) in hosts.iter().enumerate() {
            builder.cable(*host, switches[i / 2], cable(3).0, cable(3).1);
        }
        // Connected while nothing has failed.
        for i in 0..7usize {
            builder.cable(switches[i.div_ceil(2)], switches[4 + i / 2], cable(1).0, cable(1).1);
        }
        for &(a, b, gbps) in cables.iter().filter(|(a, b, _)| a != b) {
            builder.cable(switches[a], switches[b], cable(gbps).0, cable(gbps).1);
        }
        let fabric = builder.build().expect("it is connected");
        let mut network = Network::new(&fabric, &Health::new(&fabric));
        for (cable, up) in fabric.cables().zip(&up) {
            network.set_cable(cable, *up);
        }
        network
    })
}

/// The smallest cut over all sets of switches: what the given ends add and take at most counts where they are on the wrong side.
fn smallest_cut(network: &Network, measure: Measure, from: &[(Index, u64)], to: &[(Index, u64)]) -> u64 {
    let (racks, count) = (network.racks(), network.len() - network.racks());
    let cut = |set: u32| {
        let inside = |node: Index| set >> (node as usize - racks) & 1 == 1;
        let between: u64 = network
            .arcs()
            .iter()
            .filter(|arc| !network.is_rack(arc.from) && !network.is_rack(arc.to) && inside(arc.from) && !inside(arc.to))
            .map(|arc| if measure == Measure::Cables { u64::from(arc.cables) } else { arc.capacity as u64 })
            .sum();
        let outside: u128 = from.iter().filter(|(node, _)| !inside(*node)).map(|(_, most)| u128::from(*most)).sum();
        let taken: u128 = to.iter().filter(|(node, _)| inside(*node)).map(|(_, most)| u128::from(*most)).sum();
        u128::from(between) + outside + taken
    };
    (0..1u32 << count).map(cut).min().expect("there are sets") as u64
}

proptest! {
    #[test]
    fn flows_equal_the_smallest_cut(network in random_network(), pair in (0u32..8, 0u32..8)) {
        let racks = network.racks() as Index;
        let (a, b) = (racks + pair.0, racks + pair.1);
        for measure in [Measure::Capacity, Measure::Cables] {
            let mut cuts = Cuts::new(&network, measure);
            if a != b {
                let [from, to] = [a, b].map(Cuts::switch_end);
                let flow = cuts.flow(a, b);
                prop_assert_eq!(flow, smallest_cut(&network, measure, &from, &to));
                prop_assert_eq!(flow, cuts.between(&from, &to).flow());
                cuts.flow(a, b);
                let cut = cuts.cut(&network, a);
                let of = |arc: usize| match measure {
                    Measure::Capacity => network.arcs()[arc].capacity as u64,
                    Measure::Cables => u64::from(network.arcs()[arc].cables),
                };
                prop_assert_eq!(cut.into_iter().map(of).sum::<u64>(), flow);
            }
            // Through NICs, rack 0 and 2 to the others.
            let [from, to] = [[0, 2], [1, 3]].map(|racks| cuts.racks_end(&racks));
            prop_assert_eq!(cuts.between(&from, &to).flow(), smallest_cut(&network, measure, &from, &to));
        }
    }

    #[test]
    fn connectivity_is_the_smallest_of_all_pairs(network in random_network()) {
        let mut cuts = Cuts::new(&network, Measure::Cables);
        for among in [cuts.switches().to_vec(), cuts.edge_switches()] {
            let (least, [a, b]) = cuts.connectivity(&among).expect("there are several");
            let pairs = among.iter().flat_map(|&a| among.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
            let by_sets = pairs.map(|(a, b)| smallest_cut(&network, Measure::Cables, &Cuts::switch_end(a), &Cuts::switch_end(b)));
            prop_assert_eq!(Some(least), by_sets.min());
            prop_assert_eq!(cuts.flow(a, b), least);
        }
    }
}

/// `weft topo` measures the same bisection of healthy fabrics.
#[test]
fn bisection_is_that_of_the_topology() {
    let cabling = |gbps| Cabling { rate: BitsPerSec(gbps * GBPS), delay: Duration::ZERO };
    let shapes = [
        Shape::FatTree { k: 4 },
        Shape::Clique { switches: 6, hosts_per_switch: 4 },
        Shape::Tree {
            tors: 8,
            hosts_per_tor: 4,
            tors_per_pod: Some(2),
            redundancy: 2,
            tor_oversubscription: 2.0,
            top_oversubscription: 4.0,
        },
    ];
    for shape in shapes {
        let fabric: Fabric = shape.build(cabling(1), cabling(1)).expect("a fabric");
        let network = Network::new(&fabric, &Health::new(&fabric));
        let cuts = Cuts::new(&network, Measure::Capacity);
        let all: Vec<usize> = (0..network.racks()).collect();
        let [from, to] = [&all[..all.len() / 2], &all[all.len() / 2..]].map(|racks| cuts.racks_end(racks));
        assert_eq!(
            cuts.between(&from, &to).flow(),
            weft_fabric::topology::Metrics::of(&fabric).bisection.bps,
            "{}",
            fabric.title()
        );
    }
}

fn planner(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-planner")).args(arguments).current_dir(folder).output().expect("it starts")
}

/// A fat-tree of 4 pods: 2 cables part an edge switch. Without one of its 2 uplinks it has a single one, and half of the flow.
#[test]
fn the_command_reports_flows_and_cuts() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("f.toml"), "[fabric]\nkind = \"fat-tree\"\nk = 4\nlink = \"1Gbps\"\n").expect("written");
    let json = |more: &[&str]| -> Value {
        let arguments = [&["cuts", "f.toml", "--json", "--pair", "edge0:edge4", "--pair", "agg0:core3"], more].concat();
        let output = planner(&arguments, folder.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let healthy = json(&[]);
    assert_eq!((&healthy["edge_connectivity"]["cables"], &healthy["between_racks"]["cables"]), (&2.into(), &2.into()));
    assert_eq!((&healthy["cables"], &healthy["flows"][0]["bps"]), (&32.into(), &2_000_000_000u64.into()));
    // agg0 has 4 cables, and core3 as many.
    assert_eq!(
        (&healthy["flows"][1]["disjoint_paths"], &healthy["bisection"]["in_order_bps"]),
        (&4.into(), &8_000_000_000u64.into())
    );
    assert!(healthy.get("seconds").is_none());
    let failed = json(&["--without", "agg0-edge0,core0", "--repeat", "2"]);
    assert_eq!(failed["edge_connectivity"]["cables"], 1);
    assert_eq!(failed["edge_connectivity"]["cut"][0]["cables"], 1);
    assert_eq!((&failed["flows"][0]["bps"], &failed["switches"]), (&1_000_000_000u64.into(), &19.into()));
    // 7 uplinks of the first half, and 6 cables to the other pods by the cores that are left: 2 pods x (4 - 1).
    assert_eq!(
        (&failed["bisection"]["in_order_bps"], &failed["bisection"]["nic_bps"]),
        (&6_000_000_000u64.into(), &8_000_000_000u64.into())
    );
    assert!(failed["bisection"]["smallest_bps"].as_u64() <= failed["bisection"]["in_order_bps"].as_u64());
    assert!(failed["seconds"]["flows"].as_f64().is_some_and(|it| it > 0.0));
    let table = String::from_utf8(planner(&["cuts", "f.toml", "--pair", "edge0:edge4"], folder.path()).stdout).expect("text");
    assert!(table.contains("2 cables part edge1 from edge0") && table.contains("2Gbps"), "{table}");
}

/// Each is an error with its place and the next step, exit code 2.
#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("f.toml"), "[fabric]\nkind = \"fat-tree\"\nk = 4\n").expect("written");
    for (arguments, place) in [
        (&["--pair", "edge0"][..], "no `:`"),
        (&["--pair", "edge0:edge9"], "`edge9`"),
        (&["--pair", "edge0:edge0"], "the same"),
        (&["--pair", "core0:edge0", "--without", "core0"], "`core0`"),
        (&["--pair", "core0:edge0", "--without", "edge0"], "`edge0`"),
        (&["--without", "edge0-core0"], "`edge0-core0`"),
        (&["--without", "edge0-agg0,agg0-edge0"], "not so many"),
        (&["--without", "h0-edge0"], "cable of a host"),
    ] {
        let output = planner(&[&["cuts", "f.toml"], arguments].concat(), folder.path());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(place) && message.contains("help"), "{arguments:?}: {message}");
    }
}
