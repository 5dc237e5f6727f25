//! A scheduler that takes over from another: it is handed what that one has placed, and goes on from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weft_control::controller::{Controller, FlowCounter, Input, Output};
use weft_control::hedera::{Hedera, HederaConfig, Placer, Planner};
use weft_control::time::{Duration, Instant};
use weft_fabric::routing::{FlowKey, Path, RootLabel, RootPaths};
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Bytes, Fabric, HostId, LinkId};

const PLACERS: [Placer; 4] = [Placer::FirstFit, Placer::Annealing, Placer::AnnealingPerFlow, Placer::EdgeColoring];

fn fabric(shape: &Shape) -> Arc<Fabric> {
    let cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::from_us(1) };
    Arc::new(shape.build(cabling, cabling).unwrap())
}

fn fat_tree() -> Arc<Fabric> {
    fabric(&Shape::FatTree { k: 4 })
}

fn flow(number: u32, src: u32, dst: u32) -> FlowKey {
    FlowKey::of_flow(number, HostId(src), HostId(dst))
}

fn secs(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

/// A scheduler, and the paths that its world has.
struct World {
    fabric: Arc<Fabric>,
    machine: Hedera,
    paths: BTreeMap<FlowKey, Path>,
    now: u64,
}

impl World {
    fn new(fabric: &Arc<Fabric>, placer: Placer) -> Self {
        let machine = machine(fabric, placer);
        Self { fabric: Arc::clone(fabric), machine, paths: BTreeMap::new(), now: 0 }
    }

    /// A round in which all of these flows have sent at 500 Mbps since they began at 0.
    fn round(&mut self, flows: &[FlowKey]) -> Vec<Output> {
        let sent = Bytes((self.now + 5) * 62_500_000);
        self.round_with(&flows.iter().map(|&flow| (flow, sent)).collect())
    }

    fn round_with(&mut self, sent: &BTreeMap<FlowKey, Bytes>) -> Vec<Output> {
        self.now += 5;
        let read_at = secs(self.now);
        self.machine.handle(read_at, Input::Timer);
        assert_eq!(self.machine.poll(), Some(Output::ReadFlowCounters));
        let path = |flow| self.paths.get(flow).map_or(&[][..], |path| &path[..]);
        let counters = sent.iter().map(|(flow, &bytes)| FlowCounter { flow: *flow, bytes, read_at, path: path(flow) });
        self.machine.handle(read_at, Input::FlowCounters(&counters.collect::<Vec<_>>()));
        self.outputs()
    }

    fn input(&mut self, input: Input<'_>) -> Vec<Output> {
        self.machine.handle(secs(self.now), input);
        self.outputs()
    }

    fn end(&mut self, flow: FlowKey) -> Vec<Output> {
        self.paths.remove(&flow);
        self.input(Input::FlowRemoved(FlowCounter { flow, bytes: Bytes(0), read_at: secs(self.now), path: &[] }))
    }

    fn outputs(&mut self) -> Vec<Output> {
        let outputs: Vec<Output> = std::iter::from_fn(|| self.machine.poll()).collect();
        for output in &outputs {
            match output {
                Output::SetPath { flow, path } => drop(self.paths.insert(*flow, path.clone())),
                Output::ClearPath { flow } => drop(self.paths.remove(flow)),
                _ => panic!("{output:?}"),
            }
        }
        outputs
    }

    /// Another scheduler takes over. Returns what it does before its first round.
    fn take_over(&mut self, placer: Placer) -> Vec<Output> {
        self.machine = machine(&self.fabric, placer);
        let paths = self.paths.clone();
        paths.iter().flat_map(|(&flow, path)| self.input(Input::Placed(flow, path))).collect()
    }

    /// Gives a flow the path of a label, as if a scheduler had placed it there.
    fn set(&mut self, flow: FlowKey, label: u32) -> Path {
        let path = RootPaths::new(Arc::clone(&self.fabric)).path(flow.src, flow.dst, RootLabel(label));
        self.paths.insert(flow, path.clone());
        path
    }

    fn path(&self, flow: FlowKey) -> &Path {
        self.paths.get(&flow).unwrap_or_else(|| panic!("{flow:?} is not placed: {:?}", self.paths))
    }

    /// Whether no link between switches has more than the demands of the flows that take it.
    fn all_fit(&self, flows: &[FlowKey]) -> bool {
        let demands = Planner::new(Arc::clone(&self.fabric), &HederaConfig::default()).unwrap().demands(flows).unwrap();
        let mut loads: BTreeMap<LinkId, f64> = BTreeMap::new();
        for (flow, demand) in flows.iter().zip(demands) {
            self.paths.get(flow).iter().flat_map(|path| path.iter()).for_each(|&link| *loads.entry(link).or_default() += demand);
        }
        loads.values().all(|&load| load < 1.0 + 1e-9)
    }
}

fn machine(fabric: &Arc<Fabric>, placer: Placer) -> Hedera {
    Hedera::new(Arc::clone(fabric), HederaConfig { placer, ..HederaConfig::default() }).unwrap()
}

fn share(a: &Path, b: &Path) -> bool {
    a[1..a.len() - 1].iter().any(|link| b.contains(link))
}

#[test]
fn placed_flows_keep_their_paths_and_nothing_is_sent() {
    // From pod to pod and within pods; on paths that a scheduler with an empty memory would not choose.
    let flows = [flow(0, 0, 8), flow(1, 1, 2), flow(2, 5, 9), flow(3, 8, 12), flow(4, 9, 11), flow(5, 13, 4)];
    for placer in PLACERS {
        let mut world = World::new(&fat_tree(), placer);
        for (&flow, label) in flows.iter().zip([3, 1, 0, 2, 0, 3]) {
            world.set(flow, label);
        }
        assert!(world.all_fit(&flows));
        let before = world.paths.clone();
        assert_eq!(world.take_over(placer), [], "{placer:?}");
        assert_eq!(world.round(&flows), [], "{placer:?}");
        assert_eq!(world.round(&flows), [], "{placer:?}");
        assert_eq!(world.paths, before);
        assert_eq!((world.machine.record().large_flows, world.machine.record().moves), (12, 0), "{placer:?}");
    }
}

#[test]
fn new_flows_are_placed_around_placed_ones() {
    for placer in PLACERS {
        let mut world = World::new(&fat_tree(), placer);
        let (old, new) = (flow(7, 1, 9), flow(1, 0, 8));
        let path = world.set(old, 0);
        world.take_over(placer);
        world.round(&[new, old]);
        assert!(!share(world.path(new), world.path(old)), "{placer:?}: each needs all of a link");
        // Annealing may move any flow for a new one.
        assert!(!matches!(placer, Placer::FirstFit | Placer::EdgeColoring) || world.path(old) == &path, "{placer:?}");
    }
}

#[test]
fn a_placed_flow_is_large_although_it_sends_little_now() {
    let mut world = World::new(&fat_tree(), Placer::FirstFit);
    let (old, new) = (flow(7, 1, 9), flow(1, 0, 8));
    let path = world.set(old, 0);
    world.take_over(Placer::FirstFit);
    world.round_with(&BTreeMap::from([(new, Bytes(500_000_000)), (old, Bytes(1000))]));
    assert_eq!(world.machine.record().large_flows, 2);
    assert!(!share(world.path(new), &path));
}

#[test]
fn a_placed_flow_waits_for_the_counters_of_its_switch() {
    let mut world = World::new(&fat_tree(), Placer::FirstFit);
    let old = flow(7, 0, 8);
    let path = world.set(old, 3);
    world.take_over(Placer::FirstFit);
    assert_eq!(world.round(&[]), []);
    assert_eq!(world.round(&[old]), []);
    assert_eq!(world.path(old), &path);
    let new = flow(1, 1, 9);
    world.round(&[new, old]);
    assert!(!share(world.path(new), &path));
}

#[test]
fn a_placed_flow_on_a_failed_part_is_hashed_at_once_and_placed_by_the_next_round() {
    for (placer, failed_before) in PLACERS.into_iter().flat_map(|placer| [(placer, true), (placer, false)]) {
        let mut world = World::new(&fat_tree(), placer);
        let old = flow(7, 0, 8);
        let cable = world.set(old, 2)[2].cable();
        let part = Input::Failed(Part::Cable(cable));
        let outputs = if failed_before {
            let path = world.paths.clone();
            world.machine = machine(&world.fabric, placer);
            assert_eq!(world.input(part), []);
            world.input(Input::Placed(old, &path[&old]))
        } else {
            assert_eq!(world.take_over(placer), []);
            world.input(part)
        };
        assert_eq!(outputs, [Output::ClearPath { flow: old }], "{placer:?}");
        let outputs = world.round(&[old]);
        assert!(matches!(outputs[..], [Output::SetPath { .. }]), "{placer:?}: {outputs:?}");
        assert!(world.path(old).iter().all(|link| link.cable() != cable), "{placer:?}");
        assert_eq!(world.round(&[old]), [], "{placer:?}");
    }
}

#[test]
fn a_path_that_no_placer_gives_is_cleared() {
    let mut world = World::new(&fat_tree(), Placer::FirstFit);
    let old = flow(7, 0, 8);
    let path = world.set(flow(1, 4, 8), 0);
    assert_eq!(world.input(Input::Placed(old, &path)), [Output::ClearPath { flow: old }]);
    assert_eq!(world.input(Input::Placed(flow(2, 0, 1), &path)), [Output::ClearPath { flow: flow(2, 0, 1) }]);
    let outputs = world.round(&[old]);
    assert!(matches!(outputs[..], [Output::SetPath { .. }]), "{outputs:?}");
}

#[test]
fn a_placed_flow_that_ends_frees_its_path() {
    // Before its first round, after it, and by no longer being listed.
    for end in 0..3 {
        let mut world = World::new(&fat_tree(), Placer::FirstFit);
        let (old, new) = (flow(7, 0, 8), flow(9, 0, 8));
        let path = world.set(old, 0);
        world.take_over(Placer::FirstFit);
        if end == 0 {
            assert_eq!(world.end(old), []);
        } else {
            assert_eq!(world.round(&[old]), []);
        }
        if end == 1 {
            assert_eq!(world.end(old), []);
            assert_eq!(world.end(old), []);
        }
        world.paths.remove(&old);
        world.round(&[new]);
        assert_eq!(world.path(new), &path, "{end}: the first of all paths is free");
        // Its key is that of another flow later, which sends little.
        world.round_with(&BTreeMap::from([(old, Bytes(1000)), (new, Bytes(1_000_000_000))]));
        assert!(!world.paths.contains_key(&old), "{end}");
    }
}

#[test]
fn a_rule_that_comes_back_with_its_switch_is_removed_or_replaced() {
    let mut world = World::new(&fat_tree(), Placer::FirstFit);
    let flows = [flow(1, 0, 8), flow(2, 1, 8)];
    world.round(&flows);
    let path = world.path(flows[0]).clone();
    let other = world.set(flows[0], 3);
    assert_ne!(path, other);
    assert_eq!(world.input(Input::Placed(flows[0], &other)), []);
    assert_eq!(world.round(&flows), [Output::SetPath { flow: flows[0], path }]);
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::FatTree { k: 4 }),
        Just(Shape::FatTree { k: 6 }),
        Just(Shape::TwoLevel { edges: 4, cores: 3, hosts_per_edge: 4 }),
        Just(Shape::ClosExplicit { intermediates: 3, aggregations: 4, tors: 6, uplinks_per_tor: 2, hosts_per_tor: 3 }),
    ]
}

/// Random flows; with `permutation` each host sends one at most and receives one.
fn flows(hosts: u32, count: usize, seed: u64, permutation: bool) -> Vec<FlowKey> {
    let mut state = seed;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below)) as u32
    };
    let mut order: Vec<u32> = (0..hosts).collect();
    (1..hosts).rev().for_each(|i| order.swap(i as usize, draw(i + 1) as usize));
    let next = |host: usize| order[(host + 1) % order.len()];
    let of_cycle: Vec<FlowKey> = (0..count.min(order.len())).map(|i| flow(i as u32, order[i], next(i))).collect();
    if permutation {
        return of_cycle;
    }
    (0..count as u32).map(|i| (i, draw(hosts), draw(hosts))).filter(|(_, a, b)| a != b).map(|(i, a, b)| flow(i, a, b)).collect()
}

proptest! {
    /// Flows begin and end for three rounds; the fourth is done by the scheduler that has placed them, and by another one.
    #[test]
    fn another_scheduler_does_what_the_first_would(
        shape in shape(), count in 1..60usize, seed: u64, permutation: bool, placer in prop::sample::select(&PLACERS[..])
    ) {
        let fabric = fabric(&shape);
        let mut all = flows(fabric.host_count() as u32, count, seed, permutation);
        all.sort();
        let mut world = World::new(&fabric, placer);
        for ended in [all.len(), all.len() / 5, all.len() / 2] {
            let old: Vec<FlowKey> = all.iter().enumerate().filter(|(i, _)| *i != ended).map(|(_, &flow)| flow).collect();
            world.paths.retain(|flow, _| old.contains(flow));
            world.round(&old);
        }
        let left: Vec<FlowKey> = all.iter().copied().skip(1).step_by(2).collect();
        all.iter().filter(|flow| !left.contains(flow)).for_each(|&flow| drop(world.end(flow)));
        let mut second = World { machine: machine(&fabric, placer), fabric: Arc::clone(&fabric), paths: world.paths.clone(), now: world.now };
        prop_assert_eq!(second.take_over(placer), []);
        let fitted = second.all_fit(&left) && left.iter().all(|flow| second.paths.contains_key(flow) || !has_choice(&fabric, *flow));
        let (kept, sent) = (second.paths.clone(), second.round(&left));
        match placer {
            // First Fit leaves what is placed; reservations of the first may be larger or smaller than demands are now. Once all have ended, all is free.
            Placer::FirstFit => {
                prop_assert!(kept.iter().all(|(flow, path)| second.paths.get(flow) == Some(path)), "{:?}", sent);
                left.iter().for_each(|&flow| drop(second.end(flow)));
                let mut fresh = World { now: second.now, ..World::new(&fabric, placer) };
                prop_assert_eq!(second.round(&all), fresh.round(&all));
            }
            // Its memory is the labels of the flows.
            Placer::EdgeColoring => prop_assert_eq!(sent, world.round(&left)),
            // A search ends at once where all fit.
            Placer::AnnealingPerFlow => prop_assert!(!fitted || sent.is_empty(), "{:?}", sent),
            // A core for each destination, none of them more often than it has to be.
            Placer::Annealing => prop_assert!(!fitted || !permutation || sent.is_empty(), "{:?}", sent),
        }
    }
}

fn has_choice(fabric: &Fabric, flow: FlowKey) -> bool {
    fabric.rack_of(flow.src) != fabric.rack_of(flow.dst)
}
