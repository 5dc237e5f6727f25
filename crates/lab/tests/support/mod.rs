//! A lab for a test, and what tests do in it.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod overlay;
pub mod streams;
pub mod tenants;

use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Bytes, Duration};
use weft_lab::plan::{LabName, Node, Plan, Routing, Settings, Timers};
use weft_lab::{Lab, Result, Stopwatch, down, names, netns};

/// How long a test waits for an event that normally follows at once: other processes may take the processors for seconds.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A lab that is removed at the end of the test, also after a failure.
pub struct TestLab {
    pub lab: Lab,
    /// Since the lab was up.
    age: Stopwatch,
    /// Labs measure time: one test of a binary at a time.
    _serial: MutexGuard<'static, ()>,
}

impl TestLab {
    pub fn new(lab: Lab, serial: MutexGuard<'static, ()>) -> Self {
        Self { lab, age: Stopwatch::new(), _serial: serial }
    }

    /// Sleeps until the lab has been up for that long.
    pub fn wait_until_age(&self, age: std::time::Duration) {
        std::thread::sleep(age.saturating_sub(self.age.elapsed()));
    }

    pub fn plan(&self) -> &Plan {
        &self.lab.record.plan
    }

    pub fn node(&self, name: &str) -> &Node {
        self.lab.node(name).expect("a node of this fabric")
    }

    /// Does something in a node's namespace.
    pub fn at<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        netns::within(&self.node(node).namespace, || Ok(work())).expect("its namespace")
    }

    /// Runs a command of the shell in a node's namespace.
    pub fn shell(&self, node: &str, command: &str) {
        let status = self.at(node, || std::process::Command::new("sh").args(["-ec", command]).status().expect("a shell"));
        assert!(status.success(), "{command}");
    }

    /// Packets that each port of a node has sent.
    pub fn sent(&self, node: &str) -> Vec<u64> {
        let text = self.at(node, || std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters"));
        let of = |name: &str| {
            let line = text.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(':')).expect("a port");
            line.split_ascii_whitespace().nth(9).and_then(|n| n.parse().ok()).expect("packets sent")
        };
        self.node(node).ports.iter().map(|p| of(&p.name)).collect()
    }

    /// A packet from each of many ports.
    pub fn send_flows(&self, from: &str, to: &str, flows: u16) {
        let to = SocketAddrV4::new(self.node(to).locator, 9);
        self.at(from, || {
            for port in 0..flows {
                let socket = UdpSocket::bind(("0.0.0.0", 20_000 + port)).expect("a free port");
                // The "port unreachable" of an earlier packet may be reported here.
                let _ = socket.send_to(&[0; 100], to);
                std::thread::sleep(std::time::Duration::from_micros(500));
            }
        });
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let name = self.plan().name.clone();
        let removed = down(&name);
        if !std::thread::panicking() {
            assert!(removed.expect("it goes"), "it was there");
            assert!(!names().contains(&name), "nothing is left of it");
        }
    }
}

/// Whether labs can be made here; if not, says why.
pub fn possible() -> bool {
    let report = weft_lab::doctor::examine();
    let lacking: Vec<&str> = report
        .checks
        .iter()
        .filter(|c| c.state != weft_lab::doctor::State::Ok && (c.state == weft_lab::doctor::State::Missing || c.name == "FRR"))
        .map(|c| c.name)
        .collect();
    if lacking.is_empty() {
        return true;
    }
    let why = format!("a lab needs {}: `weft lab doctor` shows how to install it", lacking.join(", "));
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    false
}

pub fn name(letter: char) -> LabName {
    format!("t{:x}{letter}", std::process::id()).parse().expect("a name")
}

pub fn settings(name: LabName, routing: Routing, scale: f64) -> Settings {
    let (switch_queue, nic_queue) = (Bytes(102_400), Bytes(1_600_000));
    Settings { name, routing, timers: Timers::FAST, scale, seed: 1, switch_queue, nic_queue }
}

pub fn plan(shape: Shape, name: LabName, routing: Routing) -> Plan {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
    let fabric = shape.build(link, link).expect("a fabric");
    Plan::new(&fabric, &settings(name, routing, 0.01)).expect("a plan")
}

/// Lets one test of a binary run at a time.
pub fn serial() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn try_up(plan: Plan, stop: &AtomicBool) -> Result<Lab> {
    Lab::up(plan, std::path::Path::new("test.toml"), stop).map(|(lab, _)| lab)
}

/// A lab, or `None` where there can be none.
pub fn up(shape: Shape, letter: char, routing: Routing) -> Option<TestLab> {
    if !possible() {
        return None;
    }
    let serial = serial();
    let lab = try_up(plan(shape, name(letter), routing), &AtomicBool::new(false)).expect("it comes up");
    Some(TestLab::new(lab, serial))
}

/// Whether the programs are there, which not every build has.
pub fn programs(needed: &[&str]) -> bool {
    if !possible() {
        return false;
    }
    let Some(missing) = needed.iter().find(|program| weft_lab::programs::find(program).is_err()) else { return true };
    let why = format!("{missing} is not built: `cargo build --workspace` builds it");
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    false
}
