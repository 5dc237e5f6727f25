//! `weft-scheduler` of a lab: its files, how it is started and asked. The lab knows its configuration and its commands, and nothing else of it.
//!
//! It runs in the namespace of the first switch, where `down` finds it, and sends no packets; or, over VL2's agents, in that of a host, from whose
//! locator it answers them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use weft_control::directory::auth::Secret;
use weft_fabric::record::ControlRecord;

use super::{folder, switches};
use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::names::SCHEDULER;
use crate::plan::access::Access;
use crate::plan::openflow::{FABRIC_FILE, Openflow, SOCKET_OF_SWITCHES};
use crate::plan::vl2::AgentScheduler;
use crate::plan::{Node, Plan};
use crate::programs::{self, READY_WITHIN, StartedProgram, find, pause};

/// What `weft-scheduler status` reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerStatus {
    /// `ok`, or a problem.
    pub verdict: String,
    /// Whether all switches are connected and have all rules.
    pub ready: bool,
    /// Switches of the fabric.
    pub switches: usize,
    /// Those that are connected.
    pub connected: usize,
    /// Rules that are installed.
    pub installed: u64,
    /// Rounds since it started.
    pub rounds: u64,
    /// Large flows per round, on average.
    pub large_flows: f64,
    /// Changes of a flow's path since it started.
    pub moves: u64,
    /// Flows that have a path of their own now.
    pub placements: usize,
    /// Cables that are down or lead elsewhere.
    pub failed_cables: usize,
    /// Cables that lead elsewhere than the fabric says.
    pub miscabled: usize,
    /// Hosts of the fabric, if it steers their agents.
    pub agents: usize,
    /// Those whose agents report.
    pub reporting: usize,
    /// Flows that are placed and where they should be.
    pub in_force: usize,
    /// How many control loops agents have measured, from a report to the changed placement without the time until a round.
    pub loops: u64,
    /// Their mean length, in milliseconds.
    pub loop_mean_ms: Option<f64>,
    /// Intermediate switches that do not answer agents.
    pub failed_intermediates: Vec<String>,
    /// Problems, such as switches that are not connected.
    pub problems: Vec<String>,
}

/// What the scheduler does during a run, also if it is killed and started again, which counts from 0.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Its counters at the start of the run, or 0 after it was killed.
    base: ControlRecord,
    /// Of schedulers that were killed.
    earlier: ControlRecord,
}

impl Activity {
    /// From now on; `None` if the lab has no scheduler.
    pub(crate) fn begin(plan: &Plan) -> Option<Self> {
        place(plan).map(|_| Self { base: counters(plan), earlier: ControlRecord::default() })
    }

    /// The scheduler is about to be killed.
    pub(crate) fn interrupt(&mut self, plan: &Plan) {
        self.earlier = self.total(plan);
        self.base = ControlRecord::default();
    }

    /// Up to now.
    pub(crate) fn total(&self, plan: &Plan) -> ControlRecord {
        let now = counters(plan);
        let sum = |of: fn(&ControlRecord) -> u64| of(&self.earlier) + of(&now).saturating_sub(of(&self.base));
        ControlRecord {
            rounds: sum(|it| it.rounds),
            large_flows: sum(|it| it.large_flows),
            moves: sum(|it| it.moves),
            ..ControlRecord::default()
        }
    }
}

/// The present counters, 0 if it does not answer.
fn counters(plan: &Plan) -> ControlRecord {
    let SchedulerStatus { rounds, large_flows, moves, .. } = status(plan).unwrap_or_default();
    let large_flows = (large_flows * rounds as f64).round() as u64;
    ControlRecord { rounds, large_flows, moves, ..ControlRecord::default() }
}

/// Its configuration.
pub fn config(plan: &Plan) -> PathBuf {
    folder(plan).join("scheduler.toml")
}

/// Its status; `None` if the lab has none, or it does not answer.
pub fn status(plan: &Plan) -> Option<SchedulerStatus> {
    place(plan)?;
    let mut command = Command::new(find(SCHEDULER).ok()?);
    command.arg("status").arg("--config").arg(config(plan)).arg("--json").stdin(Stdio::null());
    // Exit code 1 says that something is wrong, such as a cable that the run took down: it is an answer as well.
    serde_json::from_slice(&command.output().ok()?.stdout).ok()
}

/// Writes its files.
pub(super) fn write(plan: &Plan, openflow: &Openflow) -> Result<()> {
    write_files(plan, &openflow.fabric, &openflow.config(plan))
}

/// Writes its files, which nobody but root can read: over agents it has their keys.
fn write_files(plan: &Plan, fabric: &str, text: &str) -> Result<()> {
    let folder = folder(plan);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|e| LabError::io("make", &folder, e))?;
    for (path, text) in [(folder.join(FABRIC_FILE), fabric), (config(plan), text)] {
        fs::write(&path, text).map_err(|e| LabError::io("write", &path, e))?;
    }
    Ok(())
}

/// Starts the scheduler of VL2's agents, which run; returns when all of them report.
pub(crate) fn start_for_agents(plan: &Plan, scheduler: &AgentScheduler, secret: &Secret, stop: &AtomicBool) -> Result<()> {
    write_files(plan, &scheduler.fabric, &scheduler.config(plan, secret))?;
    let started = start(plan, stop)?;
    wait_until_ready(plan, Some(&started), stop)
}

/// Starts the scheduler of hosts with several NICs, whose agents run; returns when all of them report.
pub(crate) fn start_for_access(plan: &Plan, access: &Access, secret: &Secret, stop: &AtomicBool) -> Result<()> {
    write_files(plan, &access.fabric, &access.config(plan, secret))?;
    let started = start(plan, stop)?;
    wait_until_ready(plan, Some(&started), stop)
}

/// Starts it; returns when switches can connect.
pub(super) fn start(plan: &Plan, stop: &AtomicBool) -> Result<StartedProgram> {
    let (program, log, socket) = (find(SCHEDULER)?, folder(plan).join("scheduler.log"), folder(plan).join(SOCKET_OF_SWITCHES));
    let place = place(plan).expect("a lab with a scheduler");
    // That of one that was killed: it would seem to be there at once.
    let _ = fs::remove_file(&socket);
    let arguments = ["run".to_owned(), "--config".to_owned(), config(plan).display().to_string()];
    let started = programs::start(&program, &arguments, &place.namespace, &log)?;
    if plan.openflow.is_none() {
        programs::wait_for(std::slice::from_ref(&started), stop)?;
        return Ok(started);
    }
    let deadline = Deadline::after(READY_WITHIN);
    while !socket.exists() {
        started.is_ready()?;
        if deadline.has_passed() {
            return Err(started.failed(&format!("it does not listen after {} s", READY_WITHIN.as_secs())));
        }
        pause(stop)?;
    }
    Ok(started)
}

/// Waits until all switches are connected and have their rules, and all cables work.
pub(crate) fn wait_until_ready(plan: &Plan, started: Option<&StartedProgram>, stop: &AtomicBool) -> Result<()> {
    wait(plan, started, stop, |status| status.ready && status.failed_cables == 0)
}

fn wait(
    plan: &Plan,
    started: Option<&StartedProgram>,
    stop: &AtomicBool,
    is_over: impl Fn(&SchedulerStatus) -> bool,
) -> Result<()> {
    let deadline = Deadline::after(READY_WITHIN);
    loop {
        let status = status(plan);
        if status.as_ref().is_some_and(&is_over) {
            return Ok(());
        }
        started.map_or(Ok(true), StartedProgram::is_ready)?;
        if deadline.has_passed() {
            return Err(not_ready(plan, status));
        }
        pause(stop)?;
    }
}

fn not_ready(plan: &Plan, status: Option<SchedulerStatus>) -> LabError {
    let seconds = READY_WITHIN.as_secs();
    let switches: Vec<String> =
        plan.switches().filter(|node| !switches::is_connected(plan, node)).map(|node| node.name.clone()).collect();
    let problem = match status {
        None => "it does not answer".to_owned(),
        Some(it) => {
            if it.agents > 0 {
                let SchedulerStatus { agents, reporting, problems, .. } = it;
                return LabError::NotReporting { seconds, agents, reporting, problem: problems.join("; ") };
            }
            let SchedulerStatus { switches, connected, installed, problems, .. } = it;
            let problems = if problems.is_empty() { String::new() } else { format!(": {}", problems.join("; ")) };
            format!("of {switches} switches {connected} are connected, {installed} have all rules{problems}")
        }
    };
    LabError::NotConnected { seconds, switches, problem }
}

/// Kills it. Whether it ran.
pub fn kill(plan: &Plan) -> bool {
    place(plan).is_some_and(|place| programs::kill(&place.namespace, &[SCHEDULER]) > 0)
}

/// Starts it again with the files of its first start; returns when all switches have connected again.
///
/// # Errors
/// [`LabError`] if it does not start, or not all switches connect.
pub fn restart(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    let started = start(plan, stop)?;
    // A cable may have been taken down.
    wait(plan, Some(&started), stop, |status| status.ready)
}

/// Whether a lab has a scheduler.
pub(crate) fn is_there(plan: &Plan) -> bool {
    place(plan).is_some()
}

/// The switch or host in whose namespace it runs; `None` if the lab has no scheduler.
fn place(plan: &Plan) -> Option<&Node> {
    let over_agents = plan.overlay.vl2().and_then(|vl2| vl2.scheduler.as_ref());
    let of_switches = || plan.openflow.as_ref().and_then(|_| plan.switches().next());
    let over_agents = over_agents.map(|scheduler| scheduler.host).or_else(|| plan.overlay.access().map(|access| access.host));
    over_agents.map(|host| &plan.nodes[host]).or_else(of_switches)
}
