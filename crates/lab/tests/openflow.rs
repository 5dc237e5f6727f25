//! Labs whose switches are Open vSwitch, with rules of `weft-scheduler`: reachability, failures, a scheduler that is killed, flows that move apart. As root, with
//! `weft-scheduler` built; elsewhere they report that they are skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // waits for programs by the wall clock

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use support::{TestLab, name, programs, serial, settings};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant};
use weft_lab::events::{Change, Event, Program};
use weft_lab::openflow::SchedulerStatus;
use weft_lab::plan::openflow::{SchedulerKind, SchedulerSpec};
use weft_lab::plan::{Plan, Routing, Settings};
use weft_lab::probe::{connectivity, ping, trace};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;
use weft_lab::{Lab, LabError, openflow};

static GO: AtomicBool = AtomicBool::new(false);

fn fabric(shape: Shape) -> Fabric {
    let link = Cabling { rate: BitsPerSec(4_000_000), delay: Duration::ZERO };
    shape.build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char, kind: SchedulerKind) -> Plan {
    let settings = Settings { switch_queue: Bytes(50_000), ..settings(name(letter), Routing::Openflow, 1.0) };
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

fn wait_for(lab: &TestLab, what: &str, is: impl Fn(&SchedulerStatus) -> bool) -> SchedulerStatus {
    let start = std::time::Instant::now();
    loop {
        let status = openflow::status(lab.plan()).unwrap_or_default();
        if is(&status) {
            return status;
        }
        assert!(start.elapsed().as_secs() < 20, "{what}: {status:#?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
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
fn a_switch_that_hangs_is_avoided_by_bfd() {
    let Some(lab) = stand(TWO_PATHS, 'e', SchedulerKind::FirstFit) else { return };
    let core = std::path::Path::new("/run/weft/labs").join(lab.plan().name.to_string()).join("openflow/core0/ovs.pid");
    let pid = std::fs::read_to_string(core).expect("its process");
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").args([name, pid.trim()]).status().expect("kill runs");
        assert!(status.success());
    };
    signal("-STOP");
    let start = std::time::Instant::now();
    // Its ports stay up, and its own connection is given up after 15 s.
    wait_for(&lab, "its cables fail", |status| status.failed_cables == 2);
    let found = start.elapsed();
    let result = ping::all(lab.plan(), 84, &GO);
    signal("-CONT");
    let result = result.expect("it runs");
    assert_eq!((result.answered, result.pairs), (12, 12));
    assert!(found.as_secs_f64() < 5.0, "{found:?}");
    eprintln!("BFD found a switch that hangs in {found:?}");
    wait_for(&lab, "its cables work again", |status| status.failed_cables == 0);
}

#[test]
fn cables_that_are_not_as_the_fabric_says_are_named_and_not_used() {
    let Some(lab) = stand(Shape::TwoLevel { edges: 2, cores: 3, hosts_per_edge: 2 }, 'f', SchedulerKind::FirstFit) else {
        return;
    };
    let config = openflow::scheduler::config(lab.plan());
    let right = std::fs::read_to_string(&config).expect("it is there");
    let restart = |text: &str| {
        std::fs::write(&config, text).expect("it is written");
        assert!(openflow::scheduler::kill(lab.plan()));
        openflow::scheduler::restart(lab.plan(), &GO).expect("it starts");
    };
    restart(&format!("{right}\n[[switch]]\nname = \"edge0\"\nports = {{ core0 = 4, core1 = 3 }}\n"));
    let status = wait_for(&lab, "they are found", |status| status.miscabled == 2);
    let named = "a cable connects edge0 port 4 and core1 port 1; the fabric connects edge0 port 4 to core0 port 1 and core1 port 1 to edge0 port 3";
    assert!(status.problems.iter().any(|problem| problem == named), "{:#?}", status.problems);
    assert_eq!((status.failed_cables, status.verdict.as_str()), (2, "degraded"));
    let result = ping::all(lab.plan(), 84, &GO).expect("it runs");
    assert_eq!((result.answered, result.pairs), (12, 12));
    restart(&right);
    wait_for(&lab, "all is as it should be", |status| status.verdict == "ok");
}

#[test]
fn a_fabric_of_which_nothing_is_known_is_discovered_and_steered() {
    let Some(lab) = stand(Shape::FatTree { k: 4 }, 'g', SchedulerKind::FirstFit) else { return };
    let config = openflow::scheduler::config(lab.plan());
    let folder = config.parent().expect("a folder");
    let found = folder.join("found");
    assert!(openflow::scheduler::kill(lab.plan()));
    let socket = folder.join("openflow.sock");
    let mut command = std::process::Command::new(weft_lab::programs::find("weft-scheduler").expect("it is built"));
    command.arg("discover").arg("--listen").arg(format!("unix:{}", socket.display())).arg("--out").arg(&found);
    let discover = std::thread::spawn(move || command.output().expect("it runs"));
    // Switches try again each second.
    std::thread::sleep(std::time::Duration::from_secs(4));
    for host in lab.plan().hosts() {
        lab.at(&host.name, || std::process::Command::new("ping").args(["-c1", "-W1", "10.200.0.1"]).output().expect("ping runs"));
    }
    let output = discover.join().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("20 switches, 32 cables between them, 16 hosts"), "{text}");
    // It left nothing behind, and what it wrote steers the fabric.
    let read = |name: &str| std::fs::read_to_string(found.join(name)).expect("it is written");
    std::fs::write(folder.join("fabric.weft"), read("fabric.weft")).expect("it is written");
    let at_the_lab = "socket = \"scheduler.sock\"\nmetrics = \"off\"\n";
    std::fs::write(&config, format!("{at_the_lab}{}", read("scheduler.toml"))).expect("it is written");
    openflow::scheduler::restart(lab.plan(), &GO).expect("it starts");
    let status = wait_for(&lab, "all is as it was found", |status| status.verdict == "ok");
    assert_eq!((status.switches, status.miscabled, status.failed_cables), (20, 0, 0));
    let result = ping::all(lab.plan(), 84, &GO).expect("it runs");
    assert_eq!((result.answered, result.pairs), (240, 240));
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
        router: Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1),
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        transport: Transport::Tcp,
        events,
        duration: Some(Duration::from_secs(seconds)),
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    };
    let outcome = execute(&fabric, job, &GO, &mut |_| {}).expect("it runs");
    Some((fabric, outcome))
}
