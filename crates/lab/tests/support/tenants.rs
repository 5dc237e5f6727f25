//! Labs of tenants.

use std::sync::atomic::AtomicBool;

use serde_json::Value;
use weft_fabric::Bytes;
use weft_lab::plan::{Plan, Routing, Settings, Timers};
use weft_lab::{Lab, Stopwatch, netlord, netns, state};

use super::{TestLab, name, programs, turn};

pub static GO: AtomicBool = AtomicBool::new(false);

pub fn settings(letter: char) -> Settings {
    Settings {
        name: name(letter),
        routing: Routing::Static,
        timers: Timers::FAST,
        scale: 0.1,
        seed: 1,
        switch_queue: Bytes(102_400),
        nic_queue: Bytes(1_600_000),
    }
}

/// The lab, if there can be one here.
pub fn stand(plan: Plan) -> Option<TestLab> {
    if !programs(&["weft-agent"]) {
        return None;
    }
    let turn = turn();
    let (lab, times) = Lab::up(plan, std::path::Path::new("test.toml"), &GO).expect("it comes up");
    eprintln!("up: {times:?}");
    Some(TestLab::new(lab, turn))
}

/// The status of a node's daemon.
pub fn ask(lab: &TestLab, node: &str) -> Value {
    let socket = netlord::socket(&state::path(&lab.plan().name), lab.node(node));
    weft_lab::programs::ask(&socket).expect("it answers")["ok"].take()
}

pub fn counter(status: &Value, name: &str) -> u64 {
    ["counters", "drops"].iter().find_map(|part| status[part][name].as_u64()).unwrap_or_else(|| panic!("no `{name}` in {status}"))
}

/// Ends the agent of a host at once.
pub fn kill_agent(lab: &TestLab, host: &str) {
    let config = netlord::config(&state::path(&lab.plan().name), lab.node(host));
    end(&config.display().to_string(), libc::SIGKILL);
}

/// Ends the process of this lab whose command line has a file of the lab's, by a signal.
pub fn end(file: &str, signal: i32) {
    let process = std::fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        command.contains(file).then(|| entry.file_name().to_string_lossy().parse::<i32>().ok())?
    });
    let process = process.unwrap_or_else(|| panic!("nothing runs with {file}"));
    // SAFETY: it only sends a signal, to a process of this very lab.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    let watch = Stopwatch::new();
    while netns::is_running(process) {
        assert!(watch.elapsed() < super::PATIENCE, "it ends");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
