//! Labs with VL2, and the status of their agents.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Fabric};
use weft_lab::plan::vl2::{Vl2, Vl2Host, Vl2Spec};
use weft_lab::plan::{Plan, Routing};
use weft_lab::programs::Environment;
use weft_lab::{Lab, agents};

use super::{TestLab, name, possible, serial, settings};

pub static GO: AtomicBool = AtomicBool::new(false);

pub fn fabric_of(shape: Shape) -> Fabric {
    let link = Cabling { rate: BitsPerSec(10_000_000_000), delay: weft_fabric::Duration::ZERO };
    shape.build(link, link).expect("a fabric")
}

pub fn plan_of(shape: Shape, letter: char, overlay: Vl2Spec) -> Plan {
    let fabric = fabric_of(shape);
    let settings = settings(name(letter), Routing::Frr, 0.01);
    Plan::new(&fabric, &settings).and_then(|plan| plan.with_vl2(&fabric, &overlay)).expect("a plan")
}

pub fn stand(plan: Plan) -> Option<TestLab> {
    if !possible() {
        return None;
    }
    if let Some(missing) = ["weft-agent", "weft-directory"].into_iter().find(|program| weft_lab::programs::find(program).is_err())
    {
        let why = format!("{missing} is not built: `cargo build -p weft-directory -p weft-agent` builds it");
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("SKIPPED: {why}");
        return None;
    }
    let serial = serial();
    let built = Lab::up(plan, std::path::Path::new("test.toml"), &GO);
    let (lab, times) = built.expect("it comes up");
    eprintln!("up: {times:?}");
    Some(TestLab::new(lab, serial))
}

pub fn overlay(lab: &TestLab) -> &Vl2 {
    lab.plan().overlay.vl2().expect("VL2")
}

pub fn host(lab: &TestLab, index: usize) -> &Vl2Host {
    &overlay(lab).hosts[index]
}

/// The status of a node's agent.
pub fn ask(lab: &TestLab, node: &str) -> Value {
    let socket = agents::socket(lab.plan(), lab.node(node));
    let output = agent(&["status", "--json", "--socket", &socket.display().to_string()]);
    serde_json::from_str(&output).expect("JSON")
}

pub fn agent(arguments: &[&str]) -> String {
    let output =
        Command::new(weft_lab::programs::find("weft-agent").expect("it is built")).args(arguments).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn counter(status: &Value, name: &str) -> u64 {
    ["counters", "drops"].iter().find_map(|part| status[part][name].as_u64()).unwrap_or_else(|| panic!("no `{name}` in {status}"))
}

/// The environment of programs of the present or the next version of the protocols.
pub fn version(next: bool) -> &'static Environment<'static> {
    if next { &[("WEFT_PROTOCOL", "next")] } else { &[] }
}

/// What the provisioning system does when an address moves: it has another owner, of the same service, and is still where it was.
pub fn provision(lab: &TestLab, address: Ipv4Addr, locator: Ipv4Addr, owner: &Vl2Host) {
    let plan = lab.plan();
    let at = &plan.nodes[overlay(lab).directory.hosts[0]];
    let (principal, service, group) =
        (Plan::principal(owner.node).to_string(), owner.service.to_string(), owner.group.to_string());
    let (folder, server) = (agents::folder(plan).display().to_string(), format!("{}:5303", at.locator));
    let mut command = Command::new(weft_lab::programs::find("weft-directory").expect("it is built"));
    command.args(["put", &address.to_string(), &locator.to_string()]);
    command.args(["--owner", &principal, "--service", &service, "--group", &group]);
    command.args(["--dir", &folder, "--servers", &server, "--principal", "2", "--auth", "mac"]);
    let output = lab.at(&at.name, || command.output().expect("it runs"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The groups that have a member among switches that are up, by the status of their agents.
pub fn groups_held(lab: &TestLab, except: Option<&str>) -> BTreeMap<u64, Vec<String>> {
    let mut held: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for &at in &overlay(lab).intermediates {
        let name = &lab.plan().nodes[at].name;
        if Some(name.as_str()) == except {
            continue;
        }
        for group in ask(lab, name)["groups"].as_array().expect("groups") {
            if group["served"] == true {
                held.entry(group["group"].as_u64().expect("a number")).or_default().push(name.clone());
            }
        }
    }
    held
}

/// Sends a signal to programs in a node's namespace, to all at once.
pub fn signal(lab: &TestLab, node: &str, programs: &[&str], signal: &str) {
    let namespace = &lab.node(node).namespace;
    let pids = Command::new("ip").args(["netns", "pids", namespace]).output().expect("ip").stdout;
    let pids = String::from_utf8_lossy(&pids).into_owned();
    let is_one = |pid: &&str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        programs.contains(&name.trim())
    };
    let found: Vec<&str> = pids.lines().filter(is_one).collect();
    assert_eq!(found.len(), programs.len(), "{programs:?} run at {node}");
    assert!(Command::new("kill").arg(format!("-{signal}")).args(found).status().expect("kill").success());
}
