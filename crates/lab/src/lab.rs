//! Up and down: from a plan to a running lab, and back to nothing.
//!
//! ```text
//!   folder, locked -> namespaces, sysctls -> cables -> addresses, routes, rates -> FRR, converged -> overlay -> `built`
//!         |                  any error, or a request to stop: down                        |
//!         +---------<---------------------------<--------------------------------<--------+
//! ```

use std::path::Path;
use std::sync::atomic::AtomicBool;

use nix::unistd::geteuid;
use serde::Serialize;

use crate::agents::{self, OverlayStatus, OverlayTimes};
use crate::batch::batch;
use crate::clock::{self, Stopwatch};
use crate::congestion::{self, SysctlGuard};
use crate::error::{LabError, Result};
use crate::openflow::SchedulerStatus;
use crate::plan::{CONGESTION_CONTROL, LabName, NAMESPACE_PREFIX, Node, Plan, Role, Routing};
use crate::state::{self, Folder, Phase, Process, Record};
use crate::{commands, ebpf, frr, limits, neighbours, netns, openflow, overlay, sysctl};

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct Lab {
    /// What it is.
    pub record: Record,
}

/// How long each part of `up` took, in seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// Namespaces and their settings.
    pub namespaces_s: f64,
    /// Cables between them.
    pub cables_s: f64,
    /// Addresses, routes and rates.
    pub devices_s: f64,
    /// FRR started and converged, or all switches started and their rules installed; 0 with static routes.
    pub routing_s: f64,
    /// The overlay, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayTimes>,
}

/// A lab as `status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its name.
    pub name: LabName,
    /// Its phase.
    pub phase: Phase,
    /// The run that it belongs to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The scenario that it was made from; absent if its record is lost.
    pub scenario: Option<String>,
    /// What the fabric is, in a line.
    pub fabric: Option<String>,
    /// Who finds the routes.
    pub routing: Option<Routing>,
    /// What rates were multiplied with.
    pub scale: Option<f64>,
    /// Hosts of the plan.
    pub hosts: usize,
    /// Switches of the plan.
    pub switches: usize,
    /// Tenants' VMs of the plan, with NetLord.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vms: Option<usize>,
    /// Namespaces that exist.
    pub namespaces: usize,
    /// Processes in them.
    pub processes: usize,
    /// Routing daemons of the plan.
    pub daemons: usize,
    /// Seconds since it was made.
    pub age_s: Option<u64>,
    /// The scheduler of its switches, if they have one and it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerStatus>,
    /// The programs of its overlay, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayStatus>,
}

/// The run that a lab belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Its process.
    pub pid: u32,
    /// Whether it still runs: else it was killed, and `weft lab down` removes the lab.
    pub alive: bool,
}

/// Fails without root.
///
/// # Errors
/// [`LabError::NotRoot`].
pub fn need_root() -> Result<()> {
    if geteuid().is_root() { Ok(()) } else { Err(LabError::NotRoot) }
}

impl Lab {
    /// Builds a lab, after it has removed what a crash left of one of the same name. When `stop` is set, it ends soon and leaves nothing.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left in any case.
    pub fn up(plan: Plan, scenario: &Path, stop: &AtomicBool) -> Result<(Self, Times)> {
        Self::up_for(None, plan, scenario, stop)
    }

    /// As [`Self::up`], for a lab that belongs to a process.
    pub(crate) fn up_for(owner: Option<Process>, plan: Plan, scenario: &Path, stop: &AtomicBool) -> Result<(Self, Times)> {
        need_root()?;
        limits::check(&plan)?;
        overlay::check(&plan)?;
        if plan.openflow.is_some() {
            openflow::check()?;
        }
        let folder = match Folder::create(&plan.name)? {
            Some(folder) => folder,
            None => replace_broken(&plan.name)?,
        };
        let record = Record { scenario: scenario.to_owned(), since_unix_s: clock::unix_seconds(), owner, plan };
        match build(&record, &folder, stop) {
            Ok(times) => Ok((Self { record }, times)),
            Err(e) => {
                if let Err(also) = tear_down(&record.plan.name, folder) {
                    tracing::warn!("parts of the lab are left, which `weft lab down` removes: {also}");
                }
                Err(e)
            }
        }
    }

    /// The lab of that name, if it is up.
    ///
    /// # Errors
    /// [`LabError::NoLab`], [`LabError::Busy`] or [`LabError::Broken`].
    pub fn open(name: &LabName) -> Result<Self> {
        let record = state::read(name)?;
        match state::phase(name) {
            Phase::Up => Ok(Self { record }),
            Phase::Busy => Err(LabError::Busy(name.clone())),
            Phase::Broken => Err(LabError::Broken(name.clone())),
        }
    }

    /// Waits until FRR has found all routes of the plan, and BFD all neighbours, as after a repair; or until all switches have the scheduler's rules.
    ///
    /// # Errors
    /// [`LabError::NotConverged`] or [`LabError::NotConnected`] after a minute, [`LabError::Interrupted`] when `stop` is set.
    pub fn converge(&self, stop: &AtomicBool) -> Result<()> {
        let plan = &self.record.plan;
        match plan.routing {
            Routing::Static => Ok(()),
            Routing::Frr => frr::converge(plan, &state::daemons(&state::path(&plan.name)), stop),
            Routing::Openflow => openflow::scheduler::wait_until_ready(plan, None, stop),
        }
    }

    /// A node by its name.
    ///
    /// # Errors
    /// [`LabError::NoNode`], with the names of some nodes.
    pub fn node(&self, name: &str) -> Result<&Node> {
        let plan = &self.record.plan;
        plan.node(name).ok_or_else(|| {
            let of = |role| plan.nodes.iter().filter(move |n| n.role == role).map(|n| n.name.as_str());
            let known = of(Role::Host).take(2).chain(of(Role::Switch).take(2)).map(str::to_owned).collect();
            LabError::NoNode { lab: plan.name.clone(), node: name.to_owned(), known }
        })
    }
}

/// Removes a lab and everything that belongs to it, in any state. Whether there was anything.
///
/// # Errors
/// [`LabError::Busy`] while another process builds it.
pub fn down(name: &LabName) -> Result<bool> {
    need_root()?;
    match Folder::lock(name) {
        Ok(folder) => tear_down(name, folder).map(|()| true),
        Err(LabError::NoLab(_)) => remove_namespaces(&name.namespace_prefix()),
        Err(e) => Err(e),
    }
}

/// Names of all labs, including those of which only namespaces are left.
pub fn names() -> Vec<LabName> {
    let mut names = state::names();
    names.extend(netns::names(NAMESPACE_PREFIX).iter().filter_map(|n| LabName::of_namespace(n)));
    names.sort_unstable();
    names.dedup();
    names
}

/// The status of a lab.
pub fn status(name: &LabName) -> Status {
    let namespaces = netns::names(&name.namespace_prefix());
    let known = state::read(name);
    let phase = match &known {
        Err(LabError::NoLab(_)) => Phase::Broken,
        _ => state::phase(name),
    };
    let record = known.ok();
    let plan = record.as_ref().map(|r| &r.plan);
    let daemons = plan.filter(|p| p.routing == Routing::Frr).map_or(0, frr::daemons_of);
    Status {
        name: name.clone(),
        phase,
        owner: record.as_ref().and_then(|r| r.owner).map(|it| Owner { pid: it.pid, alive: it.is_alive() }),
        scenario: record.as_ref().map(|r| r.scenario.display().to_string()),
        fabric: plan.map(|p| p.fabric.clone()),
        routing: plan.map(|p| p.routing),
        scale: plan.map(|p| p.scale),
        hosts: plan.map_or(0, |p| p.hosts().count()),
        switches: plan.map_or(0, |p| p.switches().count()),
        vms: plan.and_then(|p| Some(p.overlay.netlord()?.vms.len())),
        processes: netns::processes(&namespaces).len(),
        namespaces: namespaces.len(),
        daemons,
        age_s: record.as_ref().map(|r| clock::unix_seconds().saturating_sub(r.since_unix_s)),
        scheduler: plan.and_then(openflow::status),
        overlay: plan.and_then(agents::status),
    }
}

fn build(record: &Record, folder: &Folder, stop: &AtomicBool) -> Result<Times> {
    let plan = &record.plan;
    folder.record(record)?;
    netns::prepare()?;
    // Those of a lab whose folder was removed by hand.
    remove_namespaces(&plan.name.namespace_prefix())?;
    let mut times = Times::default();
    let watch = Stopwatch::new();
    neighbours::reserve(plan)?;
    let guard = SysctlGuard::allow(CONGESTION_CONTROL, folder.path())?;
    netns::each(&plan.nodes, stop, |node| {
        netns::create(&node.namespace)?;
        sysctl::set(&node.sysctls(plan.routing), &node.namespace)
    })?;
    drop(guard);
    times.namespaces_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    batch("ip", &commands::cables(plan), "all namespaces")?;
    times.cables_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    let program = ebpf::Program::forget_hash()?;
    // All devices before any route: a port without its peer has no carrier.
    netns::each(&plan.nodes, stop, |node| {
        netns::enter(&node.namespace)?;
        // Queues first: the kernel changes those of a device that is up only after a grace period.
        batch("tc", &commands::shaping(node), &node.namespace)?;
        configure_devices(plan, node)?;
        // The kernel forwards nothing at hosts, VMs and switches that are bridges.
        let is_bridged = plan.overlay.netlord().is_some() || plan.openflow.is_some();
        let forwards = !matches!(node.role, Role::Host | Role::Vm) && !is_bridged;
        if forwards { ebpf::forget_hashes(&program, plan, node) } else { Ok(()) }
    })?;
    netns::each(&plan.nodes, stop, |node| {
        netns::enter(&node.namespace)?;
        batch("ip", &commands::routes(node, plan.routing, plan.ecmp_width()), &node.namespace)
    })?;
    overlay::configure_addresses(plan, stop)?;
    times.devices_s = watch.elapsed().as_secs_f64();
    if plan.routing == Routing::Frr {
        let watch = Stopwatch::new();
        frr::start(plan, &state::daemons(folder.path()), stop)?;
        frr::converge(plan, &state::daemons(folder.path()), stop)?;
        times.routing_s = watch.elapsed().as_secs_f64();
    }
    if let Some(openflow) = &plan.openflow {
        let watch = Stopwatch::new();
        openflow::start(plan, openflow, stop)?;
        times.routing_s = watch.elapsed().as_secs_f64();
    }
    times.overlay = overlay::start(plan, stop)?;
    folder.built()?;
    Ok(times)
}

/// Configures the devices of a node, in the namespace of the thread.
fn configure_devices(plan: &Plan, node: &Node) -> Result<()> {
    match plan.routing {
        Routing::Openflow => openflow::configure_devices(node),
        Routing::Static | Routing::Frr => {
            let point = plan.as_rendezvous_point(node).map(|_| commands::vl2::rendezvous()).unwrap_or_default();
            batch("ip", &(commands::devices(node, plan.has_multicast()) + &point), &node.namespace)
        }
    }
}

/// The folder of a new lab in place of one that a crash left.
fn replace_broken(name: &LabName) -> Result<Folder> {
    let folder = Folder::lock(name)?;
    if folder.is_built() {
        return Err(LabError::Exists(name.clone()));
    }
    tracing::warn!("removing what a crash left of the lab `{name}`");
    tear_down(name, folder)?;
    Folder::create(name)?.ok_or_else(|| LabError::Busy(name.clone()))
}

fn tear_down(name: &LabName, folder: Folder) -> Result<()> {
    remove_namespaces(&name.namespace_prefix())?;
    agents::remove_pins(name);
    congestion::restore(folder.path())?;
    folder.remove()?;
    neighbours::release()
}

fn remove_namespaces(prefix: &str) -> Result<bool> {
    let namespaces = netns::names(prefix);
    netns::end_processes(&namespaces);
    for namespace in &namespaces {
        netns::remove(namespace)?;
    }
    Ok(!namespaces.is_empty())
}
