//! NetLord in a lab: a daemon in each switch, an agent in each host, VMs behind the agents.
//!
//! ```text
//!   /run/weft/labs/NAME/netlord/
//!     tenants.toml                    which VIFs there are, virtual routers, rules: all agents read it, and take changes
//!     paths.toml                      in a lab with a directory: SPAIN's tables, of all edge switches
//!     NODE.{tenants,paths}.toml       likewise: an agent's own, which it keeps as the directory's store has them
//!     NODE.toml, NODE.sock, NODE.log  a daemon's configuration, where it is asked, what it says
//!   /sys/fs/bpf/weft-labs/NAME/NODE/  its eBPF programs and maps
//! ```
//! The program is the one that runs on real hosts and switches, `weft-agent`; the lab starts it and knows its files, and nothing else of it.

mod counted;
mod devices;
mod directory;
mod files;
pub mod ovs;
mod provider;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Deadline, Stopwatch};
use crate::directory::{Directory, TENANTS};
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::tenants::{CoreSwitch, Netlord, Vm};
use crate::plan::{Node, Plan, Role};
use crate::programs::{self, AGENT, DIRECTORY, READY_WITHIN, Started, pause, wait_for};
use crate::vl2::{OverlayStatus, OverlayTimes};

pub(crate) use counted::totals;
pub use directory::publish;
use files::Files;

/// The files of a lab's overlay.
pub fn folder(lab: &Path) -> PathBuf {
    lab.join("netlord")
}

/// Where a daemon is asked.
pub fn socket(lab: &Path, node: &Node) -> PathBuf {
    folder(lab).join(format!("{}.sock", files::name_of(node)))
}

/// A daemon's configuration.
pub fn config(lab: &Path, node: &Node) -> PathBuf {
    folder(lab).join(format!("{}.toml", files::name_of(node)))
}

/// The tenants' file: that which the agents read, or what is published ([`publish`]) in a lab with a directory.
pub fn tenants_file(lab: &Path) -> PathBuf {
    folder(lab).join(TENANTS)
}

/// Gives VMs their addresses; their devices are up.
pub(crate) fn addresses(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    let Some(netlord) = &plan.tenants else { return Ok(()) };
    netns::each(&netlord.vms, stop, |vm| {
        let namespace = &plan.nodes[vm.node].namespace;
        netns::enter(namespace)?;
        netns::set(&crate::commands::overlay_sysctls(), namespace)?;
        netns::batch("ip", &devices::of_vm(vm), namespace)?;
        if netlord.core == CoreSwitch::Ovs { ovs::write_checksums("eth0", namespace) } else { Ok(()) }
    })?;
    let hosts: Vec<(usize, &Node)> = plan.nodes.iter().enumerate().filter(|(_, n)| n.role == Role::Host).collect();
    netns::each(&hosts, stop, |(at, node)| {
        netns::enter(&node.namespace)?;
        netns::batch("ip", &devices::of_host(netlord, *at, node), &node.namespace)
    })?;
    Ok(())
}

/// Starts all daemons, and returns when every agent knows its place, and every edge switch its servers.
pub(crate) fn start(plan: &Plan, lab: &Path, stop: &AtomicBool) -> Result<OverlayTimes> {
    let Some(netlord) = &plan.tenants else { return Ok(OverlayTimes::default()) };
    let files = Files::write(plan, netlord, lab)?;
    netns::mount_bpf()?;
    let watch = Stopwatch::new();
    let server = netlord.provider.as_ref().map(|it| provider::start(plan, it, &files)).transpose()?;
    for bridge in netlord.switches.iter().filter(|s| netlord.is_ovs(s.node)) {
        ovs::start(&files.folder, &plan.nodes[bridge.node], bridge, &netlord.fib)?;
    }
    for role in [Role::Switch, Role::Host] {
        let nodes: Vec<&Node> = with_agents(plan).filter(|n| n.role == role).collect();
        let started = netns::each(&nodes, stop, |node| start_one(&files, node))?;
        wait_for(&started, stop)?;
    }
    // One that has ended says why.
    if let Some(server) = server {
        server.is_ready()?;
    }
    wait_for_places(plan, lab, stop)?;
    if let Some(provider) = netlord.provider.as_ref().filter(|_| netlord.core == CoreSwitch::Ovs) {
        netns::each(&provider.leases, stop, |lease| {
            let namespace = &plan.nodes[lease.node].namespace;
            netns::enter(namespace)?;
            ovs::write_checksums(files::PROVIDER_DEVICE, namespace)
        })?;
    }
    let agents_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    // Its servers are reached by the agents' addresses.
    if let Some(directory) = Directory::of(plan, &files.folder) {
        directory.start(stop)?;
        directory.publish()?;
    }
    let directory_s = watch.elapsed().as_secs_f64();
    Ok(OverlayTimes { directory_s, agents_s, rss_bytes: status(plan).rss_bytes })
}

fn start_one(files: &Files, node: &Node) -> Result<Started> {
    let name = files::name_of(node);
    let arguments = ["run".to_owned(), "--config".to_owned(), files.text(&format!("{name}.toml"))];
    programs::start(&programs::find(AGENT)?, &arguments, &node.namespace, &files.folder.join(format!("{name}.log")))
}

/// Starts the daemon of a node again, after it has ended. It takes over what is in the kernel.
///
/// # Errors
/// [`LabError`] if it does not say that it is ready.
pub fn restart(plan: &Plan, node: &Node, stop: &AtomicBool) -> Result<()> {
    let files = Files { folder: folder(&crate::state::path(&plan.name)) };
    let started = start_one(&files, node)?;
    wait_for(&[started], stop)
}

/// Waits until all daemons say that all is well.
fn wait_for_places(plan: &Plan, lab: &Path, stop: &AtomicBool) -> Result<()> {
    let deadline = Deadline::after(READY_WITHIN);
    let mut waiting: Vec<&Node> = with_agents(plan).collect();
    loop {
        waiting.retain(|node| !is_well(&socket(lab, node)));
        let Some(node) = waiting.first() else { return Ok(()) };
        if deadline.has_passed() {
            let status = programs::ask(&socket(lab, node)).unwrap_or_default();
            let problems = status["ok"]["problems"].to_string();
            let message = format!("it is not well after {} s: {problems}", READY_WITHIN.as_secs());
            return Err(LabError::Program { program: AGENT.to_owned(), place: node.name.clone(), message });
        }
        pause(stop)?;
    }
}

fn is_well(socket: &Path) -> bool {
    programs::ask(socket).is_some_and(|status| status["ok"]["verdict"] == "ok")
}

/// What runs of a plan's overlay.
pub fn status(plan: &Plan) -> OverlayStatus {
    let namespaces: Vec<String> = plan.nodes.iter().map(|n| n.namespace.clone()).collect();
    let running = programs::running(&namespaces);
    let agents = |node: &Node| running.iter().any(|p| p.program == AGENT && p.namespace == node.namespace);
    let missing: Vec<String> = with_agents(plan).filter(|n| !agents(n)).map(|n| n.name.clone()).collect();
    let count = with_agents(plan).count();
    OverlayStatus {
        agents: count,
        running: count - missing.len(),
        missing,
        directory_servers: plan
            .tenants
            .as_ref()
            .and_then(|it| it.provider.as_ref()?.directory.as_ref())
            .map_or(0, |it| it.servers.len()),
        directory_running: running.iter().filter(|p| p.program == DIRECTORY).count(),
        rss_bytes: running.iter().filter(|p| [AGENT, DIRECTORY].contains(&p.program.as_str())).map(|p| p.rss_bytes).sum(),
    }
}

/// Moves a VM to another host: another name for its interface there, and the agents told. The VM's namespace, and all that is open in it, stays; it keeps its `eth0`'s addresses.
/// The plan of the lab does not know of it.
///
/// # Errors
/// [`LabError`].
pub fn migrate(plan: &Plan, vm: &Vm, to: usize) -> Result<Duration> {
    let lab = crate::state::path(&plan.name);
    let (number, from, to) = (to, &plan.nodes[vm.host], &plan.nodes[to]);
    let watch = Stopwatch::new();
    let device = &plan.nodes[vm.host].ports[vm.port].name;
    let program = programs::find(AGENT)?;
    let [old, new] = [from, to].map(|host| socket(&lab, host).display().to_string());
    programs::run(&program, &["vif", "detach", device, "--socket", &old], &from.namespace)?;
    let device = vm.moving_device();
    netns::within(&from.namespace, || {
        netns::batch("ip", &devices::move_out(&plan.nodes[vm.host].ports[vm.port].name, &device, &to.namespace), &from.namespace)
    })?;
    // Up only then, lest what the VM sends first is lost.
    let name = format!("{}/{}", vm.tenant, vm.vif);
    programs::run(&program, &["vif", "attach", &device, &name, "--socket", &new], &to.namespace)?;
    if let Some(netlord) = &plan.tenants {
        directory::place(plan, netlord, vm, number, &folder(&lab))?;
    }
    netns::within(&to.namespace, || netns::batch("ip", &format!("link set {device} up\n"), &to.namespace))?;
    // A VM stands still while it moves. This one has asked for its neighbours without a carrier, and would ask again after a second.
    let namespace = &plan.nodes[vm.node].namespace;
    netns::within(namespace, || netns::batch("ip", "neigh flush dev eth0\n", namespace))?;
    Ok(watch.elapsed())
}

/// Hosts and switches, but for those that are somebody else's.
pub(crate) fn with_agents(plan: &Plan) -> impl Iterator<Item = &Node> {
    let is_ovs = |at: usize| plan.tenants.as_ref().is_some_and(|netlord| netlord.is_ovs(at));
    let nodes = plan.nodes.iter().enumerate();
    nodes.filter(move |(at, node)| matches!(node.role, Role::Host | Role::Switch) && !is_ovs(*at)).map(|(_, node)| node)
}

/// Whether the programs are there; before anything is made.
///
/// # Errors
/// [`LabError::Missing`].
pub(crate) fn check(plan: &Plan) -> Result<()> {
    let Some(netlord) = &plan.tenants else { return Ok(()) };
    if let Some(provider) = &netlord.provider {
        provider::check()?;
        provider.directory.as_ref().map_or(Ok(()), |it| Directory::check(it.store))?;
    }
    if netlord.core == CoreSwitch::Ovs { ovs::check() } else { Ok(()) }
}

/// Reasons of drops that keep tenants apart: what VMs forge, what virtual routers and the fabric deny, and what no agent would have sent.
pub(crate) const ISOLATION: [&str; 7] =
    ["spoofed_mac", "spoofed_ip", "spoofed_gateway", "control", "denied", "forged", "bad_encapsulation"];

/// Who is whose VM.
pub fn vm<'a>(netlord: &'a Netlord, tenant: &str, vif: &str) -> Option<&'a Vm> {
    netlord.vms.iter().find(|vm| vm.tenant == tenant && vm.vif == vif)
}
