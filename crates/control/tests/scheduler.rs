//! The scheduler driven by hand: inputs in, outputs compared as lists.

use std::sync::Arc;

use weft_control::controller::{Controller, FlowCounter, Input, Output};
use weft_control::hedera::{Hedera, HederaConfig, Placer, place_once};
use weft_control::time::{Duration, Instant};
use weft_fabric::routing::FlowKey;
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::{BitsPerSec, Bytes, CableId, Fabric, Health, HostId, LinkId};

const PLACERS: [Placer; 4] = [Placer::FirstFit, Placer::Annealing, Placer::AnnealingPerFlow, Placer::EdgeColoring];

fn fabric(k: u32) -> Arc<Fabric> {
    Arc::new(fat_tree(k, Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::from_us(1) }).unwrap())
}

fn scheduler(placer: Placer) -> Hedera {
    Hedera::new(fabric(4), HederaConfig { placer, ..HederaConfig::default() }).unwrap()
}

fn flow(number: u32, src: u32, dst: u32) -> FlowKey {
    FlowKey::of_flow(number, HostId(src), HostId(dst))
}

fn secs(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn drain(machine: &mut Hedera) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll()).collect()
}

/// A round at `now` in which all of these flows have sent at 500 Mbps since they began at 0.
fn round(machine: &mut Hedera, now: u64, flows: &[FlowKey]) -> Vec<Output> {
    machine.handle(secs(now), Input::Timer);
    assert_eq!(drain(machine), [Output::ReadFlowCounters]);
    let bytes = Bytes(now * 62_500_000);
    let mut counters: Vec<_> = flows.iter().map(|&flow| FlowCounter { flow, bytes, read_at: secs(now), path: &[] }).collect();
    counters.sort_by_key(|c| c.flow);
    machine.handle(secs(now), Input::FlowCounters(&counters));
    drain(machine)
}

fn paths_set(outputs: &[Output]) -> Vec<FlowKey> {
    outputs.iter().filter_map(|o| if let Output::SetPath { flow, .. } = o { Some(*flow) } else { None }).collect()
}

#[test]
fn it_polls_every_period() {
    let mut machine = scheduler(Placer::FirstFit);
    assert_eq!(machine.deadline(), Some(secs(5)));
    machine.handle(secs(3), Input::Timer);
    assert_eq!(drain(&mut machine), [], "too early");
    machine.handle(secs(5), Input::Timer);
    assert_eq!(drain(&mut machine), [Output::ReadFlowCounters]);
    assert_eq!(machine.deadline(), Some(secs(10)));
    machine.handle(secs(21), Input::Timer);
    assert_eq!(drain(&mut machine), [Output::ReadFlowCounters], "missed turns are not made up for");
    assert_eq!(machine.deadline(), Some(secs(25)));
}

#[test]
fn large_flows_get_disjoint_paths_once() {
    for placer in PLACERS {
        let mut machine = scheduler(placer);
        let flows = [flow(0, 0, 8), flow(1, 1, 9), flow(2, 4, 10), flow(3, 5, 11)];
        let outputs = round(&mut machine, 5, &flows);
        let mut links: Vec<_> = outputs
            .iter()
            .flat_map(|o| match o {
                Output::SetPath { path, .. } => path.to_vec(),
                other => panic!("{placer:?}: {other:?}"),
            })
            .collect();
        assert_eq!(links.len(), 4 * 6, "{placer:?}");
        links.sort();
        links.dedup();
        assert_eq!(links.len(), 4 * 6, "{placer:?}: no link is shared");
        assert_eq!(round(&mut machine, 10, &flows), [], "{placer:?}: nothing changed");
        let record = machine.record();
        assert_eq!((record.rounds, record.large_flows, record.moves), (2, 8, 4), "{placer:?}");
    }
}

#[test]
fn small_flows_and_neighbours_are_left_alone() {
    for placer in PLACERS {
        let mut machine = scheduler(placer);
        machine.handle(secs(5), Input::Timer);
        let counter = |flow, bytes| FlowCounter { flow, bytes: Bytes(bytes), read_at: secs(5), path: &[] };
        let counters = [counter(flow(7, 0, 1), 500_000_000), counter(flow(3, 0, 8), 60_000_000)];
        machine.handle(secs(5), Input::FlowCounters(&counters));
        assert_eq!(drain(&mut machine), [Output::ReadFlowCounters], "{placer:?}");
        assert_eq!(machine.record().large_flows, 1, "the flow within the rack is large, but has one path only");
    }
}

#[test]
fn flows_on_a_failed_part_move_at_once() {
    for placer in PLACERS {
        let mut machine = scheduler(placer);
        let flows = [flow(0, 0, 8), flow(1, 1, 9)];
        let outputs = round(&mut machine, 5, &flows);
        let Output::SetPath { flow: moved, path } = &outputs[0] else { panic!("{outputs:?}") };
        // The link from the aggregation switch up to the core.
        let cable = path[2].cable();
        machine.handle(secs(7), Input::Failed(Part::Cable(cable)));
        for output in drain(&mut machine) {
            match output {
                Output::SetPath { flow, path } => assert!(flow != *moved || path.iter().all(|l| l.cable() != cable)),
                Output::ClearPath { flow } => assert_eq!(flow, *moved),
                _ => panic!("{placer:?}"),
            }
        }
        assert!(machine.record().moves > 2, "{placer:?}");
        machine.handle(secs(8), Input::Failed(Part::Cable(cable)));
        machine.handle(secs(8), Input::Restored(Part::Cable(cable)));
        assert_eq!(drain(&mut machine), [], "{placer:?}");
    }
}

/// Whatever fails, on the source's side, in the middle, or on the destination's: all flows have another path in a fat-tree.
#[test]
fn every_flow_on_a_failed_part_is_given_a_live_path_at_once() {
    let fabric = fabric(4);
    let between_switches = |c: &CableId| fabric.as_host(fabric.link(LinkId(2 * c.0)).from).is_none();
    let cables = fabric.cables().filter(between_switches).map(Part::Cable);
    let upper = fabric.switches().map(|s| fabric.switch_node(s)).filter(|&n| fabric.node(n).tier > 1).map(Part::Node);
    let parts: Vec<Part> = cables.chain(upper).collect();
    assert_eq!(parts.len(), 32 + 12);
    // From pod to pod, and within a pod.
    let few = [flow(0, 0, 8), flow(1, 6, 4)];
    let many: Vec<_> = (0..16).map(|i| flow(i, i, (i * 7 + 5) % 16)).filter(|f| f.src.0 / 2 != f.dst.0 / 2).collect();
    for placer in PLACERS {
        // First Fit leaves flows that fit nowhere to the hash: with few flows all fit.
        let flows = if placer == Placer::FirstFit { &few[..] } else { &many[..] };
        let mut hit = 0;
        for &part in &parts {
            let mut machine = scheduler(placer);
            let mut health = Health::new(&fabric);
            let outputs = round(&mut machine, 5, flows);
            let down = health.fail(&fabric, part);
            machine.handle(secs(7), Input::Failed(part));
            let after = drain(&mut machine);
            for output in outputs {
                let Output::SetPath { flow, path } = output else { panic!("{placer:?}: {output:?}") };
                if !path.iter().any(|l| down.contains(l)) {
                    continue;
                }
                hit += 1;
                let live = |o: &Output| matches!(o, Output::SetPath { flow: f, path } if *f == flow && path.iter().all(|l| !down.contains(l)));
                assert!(after.iter().any(live), "{placer:?}, {part:?}, {flow:?}: {after:?}");
            }
        }
        assert!(hit >= 8, "{placer:?}: {hit}");
    }
}

#[test]
fn a_flow_that_ends_frees_its_reservation() {
    for by_message in [true, false] {
        let mut machine = scheduler(Placer::FirstFit);
        // Three full-rate flows from one rack with two uplinks: two fit.
        let (a, b) = (flow(0, 0, 8), flow(1, 1, 9));
        let outputs = round(&mut machine, 5, &[a, b]);
        assert_eq!(paths_set(&outputs), [a, b]);
        if by_message {
            let gone = FlowCounter { flow: a, bytes: Bytes(0), read_at: secs(6), path: &[] };
            machine.handle(secs(6), Input::FlowRemoved(gone));
            machine.handle(secs(6), Input::FlowRemoved(gone));
        }
        let c = flow(2, 0, 12);
        let outputs = round(&mut machine, 10, &[b, c]);
        assert_eq!(paths_set(&outputs), [c], "it fits where the other one was");
    }
}

#[test]
fn the_same_seed_gives_the_same_outputs() {
    for placer in PLACERS {
        let run = || {
            let mut machine = scheduler(placer);
            let flows: Vec<_> = (0..16).map(|i| flow(i, i, (i * 7 + 5) % 16)).filter(|f| f.src != f.dst).collect();
            let mut all = round(&mut machine, 5, &flows);
            machine.handle(secs(6), Input::Failed(Part::Node(machine_root())));
            all.extend(drain(&mut machine));
            all.extend(round(&mut machine, 10, &flows[3..]));
            all
        };
        assert_eq!(run(), run(), "{placer:?}");
    }
}

fn machine_root() -> weft_fabric::NodeId {
    fabric(4).node_by_name("core1").unwrap()
}

#[test]
fn a_single_placement_reports_its_choice() {
    for placer in PLACERS {
        let flows = [flow(0, 0, 8), flow(1, 1, 9), flow(2, 0, 1)];
        let config = HederaConfig { placer, ..HederaConfig::default() };
        let placement = place_once(fabric(4), &flows, &config).unwrap();
        assert_eq!(placement.demands, [0.5, 1.0, 0.5], "{placer:?}: host 0 sends twice");
        assert_eq!(placement.energy, 0.0, "{placer:?}");
        assert_eq!(placement.paths.iter().map(|p| p.as_ref().map_or(0, |p| p.len())).collect::<Vec<_>>(), [6, 6, 0]);
    }
    assert!(place_once(fabric(4), &[flow(0, 0, 99)], &HederaConfig::default()).is_err());
}
