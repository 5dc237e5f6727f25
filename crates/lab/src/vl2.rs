//! VL2 in a lab: a directory, and an agent in each host and switch.
//!
//! ```text
//!   /run/weft/labs/NAME/vl2/
//!     secret, policy.toml, mappings.jsonl, store/    the directory's; the servers' logs in server0.log, server1.log ...
//!     etcd/, etcd.log                                its store, where several servers share one
//!     NODE.toml, NODE.key                            an agent's configuration and its principal's key
//!     NODE.sock, NODE.log                            where it is asked, and what it says
//!   /sys/fs/bpf/weft-labs/NAME/NODE/                 its eBPF programs and maps
//! ```
//! The programs are those that run on real hosts, `weft-directory` and `weft-agent`; the lab starts them and knows their files, and nothing else of them.

pub(crate) mod control;
pub(crate) mod files;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::clock::{Deadline, Stopwatch};
use crate::commands;
use crate::directory::Directory;
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::overlay::{OverlayHost, Vl2};
use crate::plan::{LabName, Node, Plan, Role};
use crate::programs::{self, AGENT, DIRECTORY, READY_WITHIN, Started, find, pause, wait_for};

use files::Files;

/// How long each part of an overlay took to come up, in seconds, and what it takes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverlayTimes {
    /// The directory: started, and all mappings in it.
    pub directory_s: f64,
    /// The agents: started, and all that they must be told.
    pub agents_s: f64,
    /// Resident memory of all these programs, in bytes.
    pub rss_bytes: u64,
}

/// What there is of an overlay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverlayStatus {
    /// Agents that the plan asks for.
    pub agents: usize,
    /// Agents that run.
    pub running: usize,
    /// Nodes whose agents do not.
    pub missing: Vec<String>,
    /// Directory servers that the plan asks for, and that run.
    pub directory_servers: usize,
    /// Those that run.
    pub directory_running: usize,
    /// Resident memory of all these programs, in bytes.
    pub rss_bytes: u64,
}

/// The files of a lab's overlay.
pub fn folder(lab: &Path) -> PathBuf {
    lab.join("vl2")
}

/// Where an agent is asked.
pub fn socket(lab: &Path, node: &Node) -> PathBuf {
    folder(lab).join(format!("{}.sock", files::name_of(node)))
}

/// Whether the programs are there; before anything is made.
///
/// # Errors
/// [`LabError::Missing`].
pub(crate) fn check(plan: &Plan) -> Result<()> {
    if plan.overlay.is_some() || plan.tenants.is_some() {
        find(AGENT)?;
    }
    plan.overlay.as_ref().map_or(Ok(()), |vl2| Directory::check(vl2.store))
}

/// Gives hosts their application addresses; their devices are up.
pub(crate) fn addresses(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    let Some(vl2) = &plan.overlay else { return Ok(()) };
    netns::each(&vl2.hosts, stop, |host| {
        let namespace = &plan.nodes[host.node].namespace;
        netns::enter(namespace)?;
        netns::set(&commands::overlay_sysctls(), namespace)?;
        netns::batch("ip", &commands::overlay(host), namespace)
    })?;
    Ok(())
}

/// Starts all programs, and returns when every agent has attached its addresses.
pub(crate) fn start(plan: &Plan, lab: &Path, stop: &AtomicBool) -> Result<OverlayTimes> {
    let Some(vl2) = &plan.overlay else { return Ok(OverlayTimes::default()) };
    let files = Files::write(plan, vl2, &folder(lab), &pins(&plan.name))?;
    netns::mount_bpf()?;
    let watch = Stopwatch::new();
    Directory::of(plan, &files.folder).map_or(Ok(()), |it| it.start(stop))?;
    let directory_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    start_agents(plan, vl2, &files, stop)?;
    let agents_s = watch.elapsed().as_secs_f64();
    Ok(OverlayTimes { directory_s, agents_s, rss_bytes: status(plan).rss_bytes })
}

/// What runs of a plan's overlay.
pub fn status(plan: &Plan) -> OverlayStatus {
    let Some(vl2) = &plan.overlay else { return OverlayStatus::default() };
    let namespaces: Vec<String> = plan.nodes.iter().map(|n| n.namespace.clone()).collect();
    let running = programs::running(&namespaces);
    let agents = |node: &Node| running.iter().any(|p| p.program == AGENT && p.namespace == node.namespace);
    let with_agent = || plan.nodes.iter().filter(|n| n.role != Role::Outside);
    let missing: Vec<String> = with_agent().filter(|n| !agents(n)).map(|n| n.name.clone()).collect();
    OverlayStatus {
        agents: with_agent().count(),
        running: with_agent().count() - missing.len(),
        missing,
        directory_servers: vl2.directory.len(),
        directory_running: running.iter().filter(|p| p.program == DIRECTORY).count(),
        rss_bytes: running.iter().filter(|p| [AGENT, DIRECTORY].contains(&p.program.as_str())).map(|p| p.rss_bytes).sum(),
    }
}

/// Removes what outlives the programs: their eBPF programs and maps.
pub(crate) fn clean(name: &LabName) {
    let folder = pins(name);
    // bpffs holds no other files; whoever removes the last lab removes the folder above too.
    if folder.exists() {
        let _ = fs::remove_dir_all(&folder);
    }
    if let Some(above) = folder.parent() {
        let _ = fs::remove_dir(above);
    }
}

/// Switches first: hosts tell them where they are.
fn start_agents(plan: &Plan, vl2: &Vl2, files: &Files, stop: &AtomicBool) -> Result<()> {
    let program = find(AGENT)?;
    let start = |node: &&Node| start_agent(&program, node, files);
    for role in [Role::Switch, Role::Host] {
        let nodes: Vec<&Node> = plan.nodes.iter().filter(|n| n.role == role).collect();
        let started = netns::each(&nodes, stop, start)?;
        wait_for(&started, stop)?;
    }
    let hosts: Vec<&OverlayHost> = vl2.hosts.iter().collect();
    wait_until_attached(plan, &hosts, files, stop)
}

fn start_agent(program: &Path, node: &Node, files: &Files) -> Result<Started> {
    let name = files::name_of(node);
    let arguments = ["run".to_owned(), "--config".to_owned(), files.text(&format!("{name}.toml"))];
    programs::start(program, &arguments, &node.namespace, &files.folder.join(format!("{name}.log")))
}

/// Waits until these hosts' addresses are attached: an agent tells its ToR, and that the directory, after it has begun.
fn wait_until_attached(plan: &Plan, hosts: &[&OverlayHost], files: &Files, stop: &AtomicBool) -> Result<()> {
    let deadline = Deadline::after(READY_WITHIN);
    let mut waiting = hosts.to_vec();
    loop {
        waiting.retain(|host| !programs::is_attached(&socket_of(files, &plan.nodes[host.node])));
        let Some(host) = waiting.first() else { return Ok(()) };
        if deadline.has_passed() {
            let node = plan.nodes[host.node].name.clone();
            return Err(LabError::NotAttached { node, seconds: READY_WITHIN.as_secs(), others: waiting.len() - 1 });
        }
        pause(stop)?;
    }
}

fn socket_of(files: &Files, node: &Node) -> PathBuf {
    files.folder.join(format!("{}.sock", files::name_of(node)))
}

pub(crate) fn pins(name: &LabName) -> PathBuf {
    Path::new(PINS).join(name.as_str())
}

const PINS: &str = "/sys/fs/bpf/weft-labs";
