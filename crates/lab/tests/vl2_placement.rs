//! Large flows over VL2's agents, placed by `weft-scheduler` on kernel switches: placed, kept while the scheduler is killed, moved off an intermediate switch that
//! fails. As root, with the programs built; elsewhere they report that they are skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // The test waits for programs by the wall clock.

mod support;

use std::sync::Arc;

use serde_json::Value;
use support::overlay::{GO, ask, counter};
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
use weft_lab::plan::vl2::{LocatorKind, Vl2Spec};
use weft_lab::plan::{Plan, Routing, Settings, Store};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;
use weft_lab::{Lab, agents, openflow};

/// Two racks below two intermediate switches: between the racks there are two paths.
const TWO_PATHS: Shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 3 };

fn fabric() -> Fabric {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: Duration::ZERO };
    TWO_PATHS.build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char) -> Plan {
    plan_with(fabric, letter, 1, Store::Embedded)
}

fn plan_with(fabric: &Fabric, letter: char, servers: u16, store: Store) -> Plan {
    let settings = Settings { switch_queue: Bytes(50_000), ..settings(name(letter), Routing::Frr, 1.0) };
    let overlay = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 2, services: Vec::new(), external: Vec::new() };
    let scheduler = SchedulerSpec { kind: SchedulerKind::FirstFit, period_ns: 300_000_000, ..SchedulerSpec::default() };
    let plan = Plan::new(fabric, &settings).and_then(|plan| plan.with_vl2(fabric, &overlay));
    let plan = plan.and_then(|plan| plan.with_directory(servers, store));
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

/// A scheduler of agents that a test has started beside that of the lab, in a folder of the lab's.
struct SecondScheduler {
    folder: std::path::PathBuf,
    process: std::process::Child,
}

impl SecondScheduler {
    /// On another host, with a configuration of the lab's.
    fn start(lab: &TestLab, host: &str, text: &str) -> Self {
        let first = openflow::scheduler::config(lab.plan());
        let folder = first.with_file_name("second");
        std::fs::create_dir_all(&folder).expect("a folder");
        let (from, to) = (address(lab, "h5"), address(lab, host));
        assert!(text.contains(&from), "{text}");
        let fabric = first.with_file_name("fabric.weft");
        std::fs::copy(&fabric, folder.join("fabric.weft")).expect("the fabric");
        let config = folder.join("scheduler.toml");
        std::fs::write(&config, text.replace(&from, &to)).expect("its configuration");
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let mut command = std::process::Command::new(weft_lab::programs::find("weft-scheduler").expect("it is built"));
        command.args(["run", "--config"]).arg(&config).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let process = lab.at(host, || command.stderr(log).spawn()).expect("it starts");
        Self { folder, process }
    }

    fn status(&self) -> Value {
        let mut command = std::process::Command::new(weft_lab::programs::find("weft-scheduler").expect("it is built"));
        let output = command.args(["status", "--json", "--config"]).arg(self.folder.join("scheduler.toml")).output();
        serde_json::from_slice(&output.expect("it runs").stdout).unwrap_or_default()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let start = std::time::Instant::now();
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(start.elapsed() < support::TIMEOUT, "{what}: {status:#} {log}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for SecondScheduler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where a scheduler on a host has agents report.
fn address(lab: &TestLab, host: &str) -> String {
    format!("{}:5305", lab.node(host).locator)
}

/// A scheduler's configuration with another table.
fn with_table(text: &str, table: &str) -> String {
    text.replacen("[scheduler]", &format!("{table}[scheduler]"), 1)
}

/// A lease in etcd decides which of two schedulers leads (`[standby]`); agents report to both. The leader is killed: the other one learns what is placed, and
/// places what is new.
#[test]
fn a_standby_takes_over_by_the_lease() {
    if !is_possible() {
        return;
    }
    let serial = serial();
    let plan = plan_with(&fabric(), 'c', 1, Store::Etcd);
    let (lab, _) = Lab::up(plan, std::path::Path::new("test.toml"), &GO).expect("it comes up");
    let lab = TestLab::new(lab, serial);
    let vl2 = lab.plan().overlay.vl2().expect("VL2");
    let etcd = lab.plan().nodes[vl2.directory.hosts[0]].locator;
    let standby = |name: &str| format!("[standby]\netcd = [\"http://{etcd}:2379\"]\nname = \"{name}\"\nplaintext = true\n\n");
    // The lab's own leads, and agents know both.
    let config = openflow::scheduler::config(lab.plan());
    let text = std::fs::read_to_string(&config).expect("its configuration");
    assert!(openflow::scheduler::kill(lab.plan()));
    std::fs::write(&config, with_table(&text, &standby("a"))).expect("its configuration");
    let hosts: Vec<&weft_lab::plan::Node> = vl2.hosts.iter().map(|host| &lab.plan().nodes[host.node]).collect();
    for host in &hosts {
        let config = agents::config(lab.plan(), host);
        let text = std::fs::read_to_string(&config).expect("an agent's configuration");
        let (first, second) = (address(&lab, "h5"), address(&lab, "h4"));
        let both = text.replacen(&format!("scheduler = \"{first}\""), &format!("scheduler = [\"{first}\", \"{second}\"]"), 1);
        assert_ne!(both, text);
        std::fs::write(&config, both).expect("an agent's configuration");
        assert!(agents::kill(host));
    }
    agents::restart(lab.plan(), &hosts, &GO).expect("they start again");
    openflow::scheduler::restart(lab.plan(), &GO).expect("it leads, and all agents report");
    let second = SecondScheduler::start(&lab, "h4", &with_table(&text, &standby("b")));
    second.wait_for("it is the standby", |status| status["verdict"] == "standby" && status["leader"] == "a");

    let streams = [stream(&lab, 0, 3, 6000), stream(&lab, 1, 4, 6000)];
    wait_for(&lab, "both flows are placed", |status| status.in_force == 2);
    let paths = || [over(&lab, "h0"), over(&lab, "h1")];
    let before = paths();
    assert_ne!(before[0], before[1], "each has a core to itself");

    assert!(openflow::scheduler::kill(lab.plan()));
    let killed = std::time::Instant::now();
    second.wait_for("it leads", |status| status["verdict"] == "ok" || status["verdict"] == "waiting");
    let led = killed.elapsed();
    second.wait_for("it has learnt what is placed", |status| status["in_force"] == 2 && status["verdict"] == "ok");
    let learnt = killed.elapsed();
    eprintln!("leads after {led:?}, has learnt after {learnt:?}");
    assert!((std::time::Duration::from_secs(1)..std::time::Duration::from_secs(8)).contains(&led), "{led:?} with a lease of 3 s");

    // Its rounds move nothing.
    let rounds = |status: &Value| status["rounds"].as_u64().unwrap_or(0);
    let first = rounds(&second.status());
    let status = second.wait_for("rounds go on", |status| rounds(status) >= first + 10);
    assert_eq!((paths(), status["moves"].as_u64()), (before, Some(0)), "{status:#}");

    // It goes on: flows that end are forgotten, and new ones are placed apart.
    drop(streams);
    second.wait_for("all flows end", |status| status["placements"] == 0);
    let _streams = [stream(&lab, 0, 3, 6001), stream(&lab, 1, 4, 6001)];
    second.wait_for("new flows are placed apart", |status| status["in_force"] == 2 && paths()[0] != paths()[1]);
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
