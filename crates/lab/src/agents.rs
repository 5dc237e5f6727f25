//! The agents of a lab: where their files are, how they are started, asked and watched. They are the programs that run on real hosts and switches; the lab
//! knows their files and their sockets, and nothing else of them.
//!
//! ```text
//!   /run/weft/labs/NAME/{vl2, netlord, access}/
//!     NODE.toml, NODE.sock, NODE.log      an agent's configuration, its socket, its log
//!   /sys/fs/bpf/weft-labs/NAME/NODE/      its eBPF programs and maps
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde_json::Value;

use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::names::{AGENT, DIRECTORY};
use crate::plan::{LabName, Node, Overlay, Plan, Role};
use crate::programs::{self, Environment, READY_WITHIN, StartedProgram, find, pause, wait_for};
use crate::{netns, state};

/// How long each part of an overlay took to come up, in seconds, and what it takes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverlayTimes {
    /// The directory: started, and all mappings in it.
    pub directory_s: f64,
    /// The agents: started, and ready to forward.
    pub agents_s: f64,
    /// Resident memory of all these programs, in bytes.
    pub rss_bytes: u64,
}

/// The programs of an overlay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverlayStatus {
    /// Agents of the plan.
    pub agents: usize,
    /// Agents that run.
    pub running: usize,
    /// Nodes whose agents do not run.
    pub missing: Vec<String>,
    /// Directory servers of the plan.
    pub directory_servers: usize,
    /// Directory servers that run.
    pub directory_running: usize,
    /// Resident memory of all these programs, in bytes.
    pub rss_bytes: u64,
}

/// The files of a lab's overlay.
#[derive(Clone, Debug)]
pub(crate) struct OverlayFiles {
    folder: PathBuf,
}

impl OverlayFiles {
    /// Those of a lab.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { folder: folder(plan) }
    }

    /// Those in a folder.
    #[cfg(test)]
    pub(crate) fn at(folder: &str) -> Self {
        Self { folder: folder.into() }
    }

    /// Creates the folder, which nobody but root can read.
    pub(crate) fn create(&self) -> Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|e| LabError::io("make", &self.folder, e))
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of a file as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file that nobody but root can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        self.write_with(name, text, 0o600)
    }

    /// Writes a program that nobody but root can run, and returns its path.
    pub(crate) fn write_script(&self, name: &str, text: &str) -> Result<String> {
        self.write_with(name, text, 0o700)?;
        Ok(self.text(name))
    }

    fn write_with(&self, name: &str, text: &str, mode: u32) -> Result<()> {
        let path = self.path(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|e| LabError::io("write", &path, e))
    }
}

/// The folder of the files of a lab's overlay.
pub fn folder(plan: &Plan) -> PathBuf {
    let lab = state::path(&plan.name);
    match plan.overlay {
        Overlay::None => lab,
        Overlay::Vl2(_) => lab.join("vl2"),
        Overlay::Netlord(_) => lab.join("netlord"),
        Overlay::Access(_) => lab.join("access"),
    }
}

/// The socket of an agent.
pub fn socket(plan: &Plan, node: &Node) -> PathBuf {
    folder(plan).join(format!("{}.sock", name_of(node)))
}

/// The configuration of an agent.
pub fn config(plan: &Plan, node: &Node) -> PathBuf {
    folder(plan).join(format!("{}.toml", name_of(node)))
}

/// The name of a node in names of files: that of its namespace without the prefix of the lab.
pub(crate) fn name_of(node: &Node) -> &str {
    node.namespace.splitn(3, '-').nth(2).unwrap_or(&node.namespace)
}

/// The folder of a lab's eBPF programs and maps.
pub(crate) fn pins(name: &LabName) -> PathBuf {
    Path::new(PINS).join(name.as_str())
}

/// Removes the eBPF programs and maps of a lab, which outlive its agents.
pub(crate) fn remove_pins(name: &LabName) {
    let folder = pins(name);
    // bpffs holds no other files; the folder above is removed with the last lab.
    if folder.exists() {
        let _ = fs::remove_dir_all(&folder);
    }
    if let Some(above) = folder.parent() {
        let _ = fs::remove_dir(above);
    }
}

/// Starts all agents, switches first, since hosts attach to their ToRs; returns when each has reported that it is ready.
pub(crate) fn start_all(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    let (program, files) = (find(AGENT)?, OverlayFiles::of(plan));
    for role in [Role::Switch, Role::Host] {
        let nodes: Vec<&Node> = plan.with_agents().filter(|n| n.role == role).collect();
        let started = netns::each(&nodes, stop, |node| start(&[], &program, node, &files))?;
        wait_for(&started, stop)?;
    }
    Ok(())
}

/// Starts the agents of some nodes again after they have ended; returns when each has reported that it is ready. They take over the state that is in the kernel.
///
/// # Errors
/// [`LabError`] if one does not become ready.
pub fn restart(plan: &Plan, nodes: &[&Node], stop: &AtomicBool) -> Result<()> {
    restart_with(&[], plan, nodes, stop)
}

/// The same, with more variables in their environment.
///
/// # Errors
/// As [`restart`].
pub fn restart_with(environment: &Environment<'_>, plan: &Plan, nodes: &[&Node], stop: &AtomicBool) -> Result<()> {
    let (program, files) = (find(AGENT)?, OverlayFiles::of(plan));
    let started = nodes.iter().map(|node| start(environment, &program, node, &files)).collect::<Result<Vec<_>>>()?;
    wait_for(&started, stop)
}

fn start(environment: &Environment<'_>, program: &Path, node: &Node, files: &OverlayFiles) -> Result<StartedProgram> {
    let name = name_of(node);
    let arguments = ["run".to_owned(), "--config".to_owned(), files.text(&format!("{name}.toml"))];
    programs::start_with(environment, program, &arguments, &node.namespace, &files.path(&format!("{name}.log")))
}

/// Ends the agent of a node at once; its eBPF programs continue. Whether it ran.
pub fn kill(node: &Node) -> bool {
    programs::kill(&node.namespace, &[AGENT]) > 0
}

/// Has the agent of a node reload its configuration. Whether it runs.
pub(crate) fn reload(node: &Node) -> bool {
    programs::reload(&node.namespace, AGENT) > 0
}

/// Waits until the status of each of these agents meets a condition, for a minute at most. Returns the nodes whose status does not.
pub(crate) fn wait_for_status<'a>(
    plan: &Plan,
    nodes: impl Iterator<Item = &'a Node>,
    stop: &AtomicBool,
    is_met: impl Fn(&Value) -> bool,
) -> Result<Vec<&'a Node>> {
    let deadline = Deadline::after(READY_WITHIN);
    let mut waiting: Vec<&Node> = nodes.collect();
    loop {
        waiting.retain(|node| !programs::ask(&socket(plan, node)).is_some_and(|status| is_met(&status["ok"])));
        if waiting.is_empty() || deadline.has_passed() {
            return Ok(waiting);
        }
        pause(stop)?;
    }
}

/// What runs of a plan's overlay; `None` if the plan has none.
pub fn status(plan: &Plan) -> Option<OverlayStatus> {
    if plan.overlay.is_none() {
        return None;
    }
    let namespaces: Vec<String> = plan.nodes.iter().map(|n| n.namespace.clone()).collect();
    let running = programs::running(&namespaces);
    let has_agent = |node: &Node| running.iter().any(|p| p.program == AGENT && p.namespace == node.namespace);
    let missing: Vec<String> = plan.with_agents().filter(|n| !has_agent(n)).map(|n| n.name.clone()).collect();
    let agents = plan.with_agents().count();
    Some(OverlayStatus {
        agents,
        running: agents - missing.len(),
        missing,
        directory_servers: plan.overlay.directory().map_or(0, |directory| directory.hosts.len()),
        directory_running: running.iter().filter(|p| p.program == DIRECTORY).count(),
        rss_bytes: running.iter().filter(|p| [AGENT, DIRECTORY].contains(&p.program.as_str())).map(|p| p.rss_bytes).sum(),
    })
}

/// Packets that all agents have dropped, by reason; agents that do not answer are left out.
pub(crate) fn drops(plan: &Plan) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for node in plan.with_agents() {
        let status = programs::ask(&socket(plan, node)).unwrap_or_default();
        let of_node = status["ok"]["drops"].as_object().into_iter().flatten();
        for (reason, count) in of_node.filter_map(|(r, n)| Some((r, n.as_u64()?))) {
            *all.entry(reason.clone()).or_default() += count;
        }
    }
    all
}

const PINS: &str = "/sys/fs/bpf/weft-labs";
