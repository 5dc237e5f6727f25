//! Labs of tenants.

use std::sync::atomic::AtomicBool;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weft_lab::plan::{Plan, Routing, Settings};
use weft_lab::{Lab, agents, netns};

use super::streams::wait_until;
use super::{TestLab, name, programs, serial};

pub static GO: AtomicBool = AtomicBool::new(false);

pub fn settings(letter: char) -> Settings {
    super::settings(name(letter), Routing::Static, 0.1)
}

/// The lab, if labs are possible here.
pub fn stand(plan: Plan) -> Option<TestLab> {
    if !programs(&["weft-agent"]) {
        return None;
    }
    let serial = serial();
    let (lab, times) = Lab::up(plan, std::path::Path::new("test.toml"), &GO).expect("it comes up");
    eprintln!("up: {times:?}");
    Some(TestLab::new(lab, serial))
}

/// The status of a node's daemon.
pub fn ask(lab: &TestLab, node: &str) -> Value {
    let socket = agents::socket(lab.plan(), lab.node(node));
    weft_lab::programs::ask(&socket).expect("it answers")["ok"].take()
}

pub fn counter(status: &Value, name: &str) -> u64 {
    ["counters", "drops"].iter().find_map(|part| status[part][name].as_u64()).unwrap_or_else(|| panic!("no `{name}` in {status}"))
}

/// Kills the agent of a host.
pub fn kill_agent(lab: &TestLab, host: &str) {
    let config = agents::config(lab.plan(), lab.node(host));
    end(&config.display().to_string(), Signal::SIGKILL);
}

/// Ends the process of this lab whose command line contains a file of the lab, by a signal.
pub fn end(file: &str, signal: Signal) {
    let process = std::fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        command.contains(file).then(|| entry.file_name().to_string_lossy().parse::<i32>().ok())?
    });
    let process = process.unwrap_or_else(|| panic!("nothing runs with {file}"));
    kill(Pid::from_raw(process), signal).expect("it runs");
    wait_until("it ends", || !netns::is_running(process));
}
