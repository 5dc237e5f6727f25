//! NetLord in a lab: an agent in each switch and each host, VMs behind the agents of the hosts.
//!
//! ```text
//!   /run/weft/labs/NAME/netlord/
//!     tenants.toml                    VIFs, virtual routers, rules: all agents read it, and reload it when it changes
//!     paths.toml                      in a lab with a directory: SPAIN's tables, of all edge switches
//!     NODE.{tenants,paths}.toml       in a lab with a directory: an agent's copies of these documents of the directory's store
//!     NODE.toml, NODE.sock, NODE.log  an agent's configuration, its socket, its log
//! ```

pub(crate) mod agents;
mod counters;
mod directory;
mod files;
pub(crate) mod moves;
pub mod ovs;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::agents::{OverlayFiles, folder};
use crate::batch::batch;
use crate::clock::Stopwatch;
use crate::dhcp::Server;
use crate::directory::{Directory, TENANTS};
use crate::error::Result;
use crate::ovs::write_checksums;
use crate::plan::netlord::{CoreSwitch, Netlord, Provider};
use crate::plan::{Node, Plan, Role};
use crate::{commands, netns, sysctl};

pub(crate) use counters::totals;
pub use directory::publish;
pub use moves::migrate_vm;

/// The tenants' file, which the agents read; in a lab with a directory it is published by [`publish`].
pub fn tenants_file(plan: &Plan) -> PathBuf {
    folder(plan).join(TENANTS)
}

/// Checks that the programs are installed, before anything is made.
///
/// # Errors
/// [`LabError::Missing`](crate::LabError::Missing), and those of the directory.
pub(crate) fn check(netlord: &Netlord) -> Result<()> {
    if let Some(provider) = &netlord.provider {
        Server::check()?;
        provider.directory.as_ref().map_or(Ok(()), |it| Directory::check(it.store))?;
    }
    if netlord.core == CoreSwitch::Ovs { crate::ovs::check() } else { Ok(()) }
}

/// Gives VMs their addresses; their devices are up.
pub(crate) fn configure_addresses(plan: &Plan, netlord: &Netlord, stop: &AtomicBool) -> Result<()> {
    netns::each(&netlord.vms, stop, |vm| {
        let namespace = &plan.nodes[vm.node].namespace;
        netns::enter(namespace)?;
        sysctl::set(&commands::ipv6_sysctls(), namespace)?;
        batch("ip", &commands::netlord::vm(plan, vm), namespace)?;
        if netlord.core == CoreSwitch::Ovs { write_checksums("eth0", namespace) } else { Ok(()) }
    })?;
    let hosts: Vec<(usize, &Node)> = plan.nodes.iter().enumerate().filter(|(_, n)| n.role == Role::Host).collect();
    netns::each(&hosts, stop, |(at, node)| {
        netns::enter(&node.namespace)?;
        batch("ip", &commands::netlord::host(netlord, *at, node), &node.namespace)
    })?;
    Ok(())
}

/// Starts all programs, and returns when every agent knows its location, and every edge switch its hosts. The times of the directory and of the agents, in seconds.
pub(crate) fn start(plan: &Plan, netlord: &Netlord, stop: &AtomicBool) -> Result<(f64, f64)> {
    let files = OverlayFiles::of(plan);
    files.create()?;
    files::write(plan, netlord, &files)?;
    directory::write(plan, netlord, &files)?;
    let watch = Stopwatch::new();
    let server = netlord.provider.as_ref().map(|it| dhcp_server(plan, it).start(&files)).transpose()?;
    for bridge in netlord.switches.iter().filter(|s| netlord.is_ovs(s.node)) {
        ovs::start(&files, &plan.nodes[bridge.node], bridge, &netlord.fib)?;
    }
    agents::start(plan, stop)?;
    // If the server has ended, agents would wait in vain.
    if let Some(server) = server {
        server.is_ready()?;
    }
    agents::wait_until_healthy(plan, stop)?;
    if let Some(provider) = netlord.provider.as_ref().filter(|_| netlord.core == CoreSwitch::Ovs) {
        netns::each(&provider.leases, stop, |lease| {
            let namespace = &plan.nodes[lease.node].namespace;
            netns::enter(namespace)?;
            write_checksums(files::PROVIDER_DEVICE, namespace)
        })?;
    }
    let agents_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    // After the agents, by whose addresses its servers are reached.
    if let Some(directory) = Directory::of(plan, &files) {
        directory.start(stop)?;
        directory.publish()?;
    }
    Ok((watch.elapsed().as_secs_f64(), agents_s))
}

/// The server of the hosts' addresses in tenant 1, on the VLAN that reaches all agents.
fn dhcp_server<'a>(plan: &'a Plan, provider: &Provider) -> Server<'a> {
    let leases = provider.leases.iter().map(|lease| (lease.mac.clone(), lease.address)).collect();
    Server { node: &plan.nodes[provider.server], subnet: provider.subnet, leases }
}

/// Reasons of drops that keep tenants apart: frames that VMs forge, that virtual routers or the fabric deny, and that no agent would have sent.
pub(crate) const ISOLATION_DROPS: [&str; 7] =
    ["spoofed_mac", "spoofed_ip", "spoofed_gateway", "control", "denied", "forged", "bad_encapsulation"];
