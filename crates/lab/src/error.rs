//! Errors of labs, each with the next step.

use std::path::{Path, PathBuf};

use crate::names::SCHEDULER;
use crate::plan::{LabName, PlanError};

/// The result of functions that change the system.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// An error for the user.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LabError {
    #[error("a lab creates network namespaces and links, which only root may do")]
    NotRoot,
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("the lab `{0}` is up already")]
    Exists(LabName),
    #[error("there is no lab `{0}`")]
    NoLab(LabName),
    #[error("another `weft` is building or removing the lab `{0}`")]
    Busy(LabName),
    #[error("the lab `{0}` is incomplete: its `weft lab up` was killed, or it was made by another version")]
    Broken(LabName),
    #[error("the lab `{lab}` has no node `{node}`")]
    NoNode { lab: LabName, node: String, known: Vec<String> },
    #[error("`{node}` is no host of this lab: flows are between hosts")]
    NotAHost { node: String },
    #[error("the lab `{0}` has bridges in place of routers: there are no routes to follow")]
    Bridged(LabName),
    #[error("`{program}` is not installed")]
    Missing { program: String, package: &'static str },
    #[error("{program} in {place}: `{command}`: {message}")]
    Command { program: &'static str, place: String, command: String, message: String },
    #[error("cannot {what} {}: {cause}", path.display())]
    Io { what: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("cannot {what} in {place}: {cause}")]
    Kernel { what: &'static str, place: String, cause: std::io::Error },
    #[error("OSPF has not found all routes after {seconds} s: {missing} are missing, such as {example}")]
    NotConverged { seconds: u64, missing: usize, example: String },
    #[error("the switches have no rules after {seconds} s: {problem}{}", not_connected(switches))]
    NotConnected { seconds: u64, switches: Vec<String>, problem: String },
    #[error("after {seconds} s {reporting} of {agents} agents report to the scheduler: {problem}")]
    NotReporting { seconds: u64, agents: usize, reporting: usize, problem: String },
    #[error("the switches of the lab `{0}` forward by OpenFlow rules: there are no routes to follow")]
    Openflow(LabName),
    #[error("{daemon} of {node} did not start: {message}")]
    Daemon { daemon: &'static str, node: String, message: String },
    #[error("{program} is neither beside this program nor on the PATH")]
    NoProgram { program: String },
    #[error("several directory servers share an etcd, and there is none")]
    NoEtcd,
    #[error("{program} in {place}: {message}")]
    Program { program: String, place: String, message: String },
    #[error("the addresses of {node} are not attached after {seconds} s, nor those of {others} others")]
    NotAttached { node: String, seconds: u64, others: usize },
    #[error("the kernel has no MPTCP with a path manager in user space: {cause}")]
    NoMptcp { cause: std::io::Error },
    #[error("the lab needs {needed} {of}, and the system permits {left} more")]
    Limit { of: &'static str, needed: u64, left: u64, remedy: &'static str },
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// The next step, if there is one.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NotRoot => "run it as root: `sudo weft lab ...`; `weft run` with a simulated world needs no root".to_owned(),
            Self::Plan(_) | Self::Interrupted => return None,
            Self::Limit { remedy, .. } => (*remedy).to_owned(),
            Self::Exists(name) => {
                format!("`weft lab down --name {name}` removes it; `weft lab up --name OTHER` creates another one")
            }
            Self::NoLab(_) => "`weft lab status` lists all labs; `weft lab up SCENARIO` creates one".to_owned(),
            Self::Busy(_) => "wait until it has ended, or press Ctrl-C there".to_owned(),
            Self::Broken(name) => format!("`weft lab down --name {name}` removes what is left of it"),
            Self::NoNode { lab, known, .. } => {
                format!("its nodes are {}, and so on: `weft lab status --name {lab}` lists them", known.join(", "))
            }
            Self::NotAHost { .. } => "name two hosts, such as `h0` and `h1`".to_owned(),
            Self::Bridged(_) => "`weft agent status` of a host lists the VLANs to each edge switch".to_owned(),
            Self::Openflow(_) => {
                "`weft-scheduler placements --config FILE` lists the paths of large flows; FILE is scheduler/scheduler.toml in the lab's folder of /run/weft/labs"
                    .to_owned()
            }
            Self::Missing { package, .. } => format!("install the package `{package}` (scripts/setup-lab.sh does)"),
            Self::NoProgram { program } if program == SCHEDULER => {
                "`make build` builds it; or write routing = \"frr\" in [world], and no `scheduler`".to_owned()
            }
            Self::NoProgram { .. } => "`make build` builds it; or leave `[overlay]` out of the scenario".to_owned(),
            Self::NoEtcd => {
                "scripts/setup-etcd.sh installs it; or write `directory.store = \"embedded\"` for one server".to_owned()
            }
            Self::Program { program, .. } if program == SCHEDULER => "`weft lab doctor` shows what this system lacks".to_owned(),
            Self::Program { .. } | Self::NotAttached { .. } => {
                "`weft lab doctor` shows what this system lacks; `--set overlay.kind=none` runs without the overlay".to_owned()
            }
            Self::NoMptcp { .. } => {
                "use Linux 5.19 or newer with CONFIG_MPTCP, and `sysctl net.mptcp.enabled=1`; or leave `transport.kind` out".to_owned()
            }
            Self::Command { .. } | Self::Kernel { .. } => "`weft lab doctor` shows what this system lacks".to_owned(),
            Self::Io { .. } => "the lab keeps its state in /run/weft and its namespaces in /run/netns".to_owned(),
            Self::NotConnected { .. } => {
                "a machine at its limit needs a smaller fabric; `weft lab up --routing static` needs neither Open vSwitch nor a scheduler".to_owned()
            }
            Self::NotReporting { .. } => {
                "a machine at its limit needs a smaller fabric; `--set control.scheduler=none` runs without the scheduler".to_owned()
            }
            Self::NotConverged { .. } | Self::Daemon { .. } => {
                "`weft lab up --routing static` needs no FRR; a machine at its limit needs a smaller fabric".to_owned()
            }
        })
    }

    pub(crate) fn io(what: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), cause }
    }
}

/// The names of switches that are not connected, as the end of a sentence.
fn not_connected(switches: &[String]) -> String {
    match switches {
        [] => String::new(),
        names => format!("; not connected: {}", names.join(", ")),
    }
}
