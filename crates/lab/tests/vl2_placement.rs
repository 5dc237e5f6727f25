//! Large flows over VL2's agents, placed by `weft-scheduler` on kernel switches: placed, kept while the scheduler is killed, moved off an intermediate switch that
//! fails. As root, with the programs built; elsewhere they report that they are skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // The test waits for programs by the wall clock.

mod support;

use std::sync::Arc;

use serde_json::Value;
use support::overlay::{GO, ask, counter};
use support::{TestLab, name, programs, serial};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant};
use weft_lab::events::{Change, Event, Program};
use weft_lab::openflow::SchedulerStatus;
use weft_lab::plan::openflow::{SchedulerKind, SchedulerSpec};
use weft_lab::plan::vl2::{LocatorKind, Vl2Spec};
use weft_lab::plan::{Plan, Routing, Settings, Timers};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;
use weft_lab::{Lab, openflow};

/// Two racks below two intermediate switches: between the racks there are two paths.
const TWO_PATHS: Shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 3 };

fn fabric() -> Fabric {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: Duration::ZERO };
    TWO_PATHS.build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char) -> Plan {
    let settings = Settings {
        name: name(letter),
        routing: Routing::Frr,
        timers: Timers::FAST,
        scale: 1.0,
        seed: 1,
        switch_queue: Bytes(50_000),
        nic_queue: Bytes(1_600_000),
    };
    let overlay = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 2, services: Vec::new(), external: Vec::new() };
    let scheduler = SchedulerSpec { kind: SchedulerKind::FirstFit, period_ns: 300_000_000, ..SchedulerSpec::default() };
    let plan = Plan::new(fabric, &settings).and_then(|plan| plan.with_vl2(fabric, &overlay));
    plan.and_then(|plan| plan.with_agent_scheduler(fabric, scheduler)).expect("a plan")
}

fn is_possible() -> bool {
    programs(&["weft-agent", "weft-directory", "weft-scheduler"])
}

fn flow(src: u32, dst: u32) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite }
}

fn at(ms: u64, change: Change) -> Event {
    Event { at: Instant::ZERO + Duration::from_ms(ms), change }
}

fn run(letter: char, flows: Vec<FlowSpec>, events: Vec<Event>, seconds: u64) -> Option<Outcome> {
    if !is_possible() {
        return None;
    }
    let _serial = serial();
    let fabric = fabric();
    let job = Job {
        plan: plan(&fabric, letter),
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
    Some(execute(&fabric, job, &GO, &mut |_| {}).expect("it runs"))
}

/// The lab with a TCP stream from each of hosts 0 and 1 to hosts 3 and 4, by iperf's means: the shell's.
struct Stream(std::process::Child);

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes without end from one host to another, in processes of their own.
fn stream(lab: &TestLab, from: usize, to: usize, port: u16) -> [Stream; 2] {
    let hosts = &lab.plan().overlay.vl2().expect("VL2").hosts;
    let name = |index: usize| lab.plan().nodes[hosts[index].node].name.clone();
    let python = |node: &str, text: String| {
        let spawned = lab.at(node, || std::process::Command::new("python3").args(["-c", &text]).spawn());
        Stream(spawned.expect("python runs"))
    };
    let address = hosts[to].aa4;
    let receive =
        format!("import socket\ns = socket.create_server(('{address}', {port}))\nc, _ = s.accept()\nwhile c.recv(1 << 16): pass");
    let send = format!(
        "import socket, time\nfor _ in range(50):\n  try:\n    c = socket.create_connection(('{address}', {port}), 5)\n    break\n  except OSError: time.sleep(0.1)\nc.settimeout(None)\nwhile True: c.sendall(bytes(1 << 16))"
    );
    [python(&name(to), receive), python(&name(from), send)]
}

fn wait_for(lab: &TestLab, what: &str, is: impl Fn(&SchedulerStatus) -> bool) -> SchedulerStatus {
    let start = std::time::Instant::now();
    loop {
        let status = openflow::status(lab.plan()).unwrap_or_default();
        if is(&status) {
            return status;
        }
        assert!(start.elapsed() < support::TIMEOUT, "{what}: {status:#?} {:#}", ask(lab, "h0")["placement"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The intermediate switch of the only elephant of a host.
fn over(lab: &TestLab, host: &str) -> Value {
    ask(lab, host)["placement"]["flows"][0]["over"].clone()
}

#[test]
fn elephants_are_placed_apart_and_outlive_the_scheduler() {
    if !is_possible() {
        return;
    }
    let serial = serial();
    let (lab, times) = Lab::up(plan(&fabric(), 'a'), std::path::Path::new("test.toml"), &GO).expect("it comes up");
    eprintln!("up: {times:?}");
    let lab = TestLab::new(lab, serial);
    let status = openflow::status(lab.plan()).expect("it answers");
    assert!(status.ready && status.verdict == "ok" && (status.reporting, status.agents) == (6, 6), "{status:?}");
    let streams = [stream(&lab, 0, 3, 6000), stream(&lab, 1, 4, 6000)];
    let status = wait_for(&lab, "both flows are placed", |status| status.in_force == 2);
    let first = [over(&lab, "h0"), over(&lab, "h1")];
    assert!(first[0].is_string() && first[1].is_string() && first[0] != first[1], "{first:?}");
    eprintln!("control loop: {:?} ms in {} loops", status.loop_mean_ms, status.loops);
    let placed = counter(&ask(&lab, "h0"), "pushed_placed");

    // Killed: flows keep their paths, and nobody else is disturbed.
    assert!(openflow::scheduler::kill(lab.plan()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!([over(&lab, "h0"), over(&lab, "h1")], first);
    assert!(counter(&ask(&lab, "h0"), "pushed_placed") > placed, "packets still go there");
    let late = stream(&lab, 2, 3, 6001);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(over(&lab, "h2").is_null(), "without a scheduler a new flow takes the default");

    // Restarted: it learns what is placed, and places the new flow within a few rounds.
    openflow::scheduler::restart(lab.plan(), &GO).expect("it starts");
    wait_for(&lab, "the flows are learnt", |status| status.in_force >= 2);
    let status = openflow::status(lab.plan()).expect("it answers");
    assert!(status.failed_intermediates.is_empty(), "{status:?}");

    // A flow that ends takes its placement with it.
    drop(late);
    drop(streams);
    wait_for(&lab, "all flows end", |status| status.placements == 0);
    assert_eq!(ask(&lab, "h0")["placement"]["placed"], 0);
}

#[test]
fn an_intermediate_that_fails_is_left_and_used_again() {
    let core = Part::parse(&fabric(), "switch core0").expect("a switch");
    let events = vec![
        at(3000, Change::Kill(Program::Scheduler)),
        at(5000, Change::Restart(Program::Scheduler)),
        at(8000, Change::Fail(core)),
        at(14_000, Change::Restore(core)),
    ];
    let Some(outcome) = run('b', vec![flow(0, 3), flow(1, 4)], events, 20) else { return };
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.bytes.0).sum();
    eprintln!("{delivered} bytes, {:?}", outcome.control);
    let lab = outcome.lab.expect("a lab's");
    assert_eq!(lab.broken, 0);
    // Two flows of 20 Mbps each, but for six seconds over one path: 68 of 80 MB without headers and losses.
    assert!(delivered > 45_000_000, "{delivered} bytes in 20 s");
    assert!(outcome.control.rounds >= 40 && outcome.control.moves >= 2, "{:?}", outcome.control);
}
