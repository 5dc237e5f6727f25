//! Labs whose switches are Open vSwitch, with rules of `weft-scheduler`: reachability, failures, a scheduler that is killed, flows that move apart. As root, with
//! `weft-scheduler` built; elsewhere they report that they are skipped.
#![cfg(target_os = "linux")]

mod support;

use std::sync::atomic::AtomicBool;

use support::{TestLab, name, programs, serial};
use weft_fabric::record::Outcome;
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant};
use weft_lab::events::{Change, Event, Program};
use weft_lab::plan::openflow::{SchedulerKind, SchedulerSpec};
use weft_lab::plan::{Plan, Routing, Settings, Timers};
use weft_lab::probe::{connectivity, ping, trace};
use weft_lab::run::{Job, Load, execute};
use weft_lab::{Lab, LabError, openflow};

static GO: AtomicBool = AtomicBool::new(false);

fn fabric(shape: Shape) -> Fabric {
    let link = Cabling { rate: BitsPerSec(4_000_000), delay: Duration::ZERO };
    shape.build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char, kind: SchedulerKind) -> Plan {
    let settings = Settings {
        name: name(letter),
        routing: Routing::Openflow,
        timers: Timers::FAST,
        scale: 1.0,
        seed: 1,
        switch_queue: Bytes(50_000),
        nic_queue: Bytes(1_600_000),
    };
    let scheduler = SchedulerSpec { kind, period_ns: 500_000_000, ..SchedulerSpec::default() };
    Plan::new(fabric, &settings).expect("a plan").with_scheduler(scheduler)
}

/// The lab, if labs are possible here.
fn stand(shape: Shape, letter: char, kind: SchedulerKind) -> Option<TestLab> {
    if !is_possible() {
        return None;
    }
    let serial = serial();
    let (lab, times) = Lab::up(plan(&fabric(shape), letter, kind), std::path::Path::new("test.toml"), &GO).expect("it comes up");
    eprintln!("up: {times:?}");
    Some(TestLab::new(lab, serial))
}

fn is_possible() -> bool {
    if !programs(&["weft-scheduler"]) {
        return false;
    }
    let has_ovs = std::path::Path::new("/usr/sbin/ovs-vswitchd").exists();
    let why = "no Open vSwitch: scripts/setup-lab.sh installs it";
    assert!(has_ovs || std::env::var_os("CI").is_none(), "{why}");
    if !has_ovs {
        eprintln!("SKIPPED: {why}");
    }
    has_ovs
}

/// Two racks below two core switches: between the racks there are two paths.
const TWO_PATHS: Shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 2 };

#[test]
fn all_hosts_of_a_fat_tree_reach_each_other() {
    let Some(lab) = stand(Shape::FatTree { k: 4 }, 'a', SchedulerKind::FirstFit) else { return };
    let result = ping::all(lab.plan(), 84, &GO).expect("it runs");
    assert_eq!((result.answered, result.pairs), (240, 240));
    let status = openflow::status(lab.plan()).expect("it answers");
    assert!(status.ready && status.verdict == "ok" && (status.connected, status.switches) == (20, 20), "{status:?}");
    let flow = trace::Flow::new(lab.node("h0"), lab.node("h8"), trace::Protocol::Udp, 40_000, 33_434).expect("a flow");
    assert!(matches!(trace::follow(lab.plan(), flow), Err(LabError::Openflow(_))), "there are no routes");
}

#[test]
fn flows_are_spread_and_survive_a_failed_link() {
    let Some(lab) = stand(TWO_PATHS, 'b', SchedulerKind::FirstFit) else { return };
    let result = connectivity::test(lab.plan(), &GO).expect("it runs");
    assert!(result.ok, "{:#?}", result.cases);
}

#[test]
fn switches_forward_while_the_scheduler_is_away_and_it_counts_on_when_it_is_back() {
    let flow = |src: u32, dst: u32| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
    let at = |ms: u64, change: Change| Event { at: Instant::ZERO + Duration::from_ms(ms), change };
    let events = vec![at(2000, Change::Kill(Program::Scheduler)), at(4000, Change::Restart(Program::Scheduler))];
    let Some((fabric, outcome)) = run(TWO_PATHS, 'c', SchedulerKind::FirstFit, vec![flow(0, 2), flow(1, 3)], events, 8) else {
        return;
    };
    // Two flows of two paths, each of which carries one: at least half of what both could have.
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.bytes.0).sum();
    assert!(delivered > 4_000_000 / 8 * 8, "{delivered} bytes in 8 s");
    let control = outcome.control;
    assert!(control.rounds >= 6 && control.large_flows >= 6, "{control:?}: two rounds per second, two of eight seconds without");
    assert_eq!(outcome.lab.expect("a lab's").broken, 0);
    assert!(outcome.links.iter().filter(|link| link.bytes.0 > 100_000).count() >= 8, "links are counted: {:?}", fabric.title());
}

#[test]
fn a_failed_switch_is_avoided_and_used_again() {
    let flow = |src: u32, dst: u32| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
    let fabric = fabric(TWO_PATHS);
    let core = Part::parse(&fabric, "switch core0").expect("a switch");
    let at = |ms: u64, change: Change| Event { at: Instant::ZERO + Duration::from_ms(ms), change };
    let events = vec![at(2000, Change::Fail(core)), at(5000, Change::Restore(core))];
    let flows = vec![flow(0, 2), flow(1, 3), flow(2, 0), flow(3, 1)];
    let Some((_, outcome)) = run(TWO_PATHS, 'd', SchedulerKind::None, flows, events, 8) else { return };
    let lab = outcome.lab.expect("a lab's");
    assert_eq!(lab.broken, 0);
    for fault in &lab.faults {
        let outage = fault.gap.map_or(0.0, Duration::as_secs_f64);
        assert!(outage < 1.5, "{}: {outage} s without datagrams", fault.verb);
    }
}

fn run(
    shape: Shape,
    letter: char,
    kind: SchedulerKind,
    flows: Vec<FlowSpec>,
    events: Vec<Event>,
    seconds: u64,
) -> Option<(Fabric, Outcome)> {
    if !is_possible() {
        return None;
    }
    let _serial = serial();
    let fabric = fabric(shape);
    let job = Job {
        plan: plan(&fabric, letter, kind),
        scenario: "test.toml".into(),
        vlb: false,
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        events,
        duration: Some(Duration::from_secs(seconds)),
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    };
    let outcome = execute(&fabric, job, &GO, &mut |_| {}).expect("it runs");
    Some((fabric, outcome))
}
