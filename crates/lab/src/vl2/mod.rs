//! VL2 in a lab: a directory, and an agent in each host and switch.
//!
//! ```text
//!   /run/weft/labs/NAME/vl2/
//!     secret, policy.toml, mappings.jsonl, store/    the directory's; logs of the servers in server0.log, server1.log ...
//!     etcd/, etcd.log                                the store that several servers share
//!     NODE.toml, NODE.key                            an agent's configuration and its principal's key
//!     NODE.sock, NODE.log                            its socket and its log
//!     lease.sh, NODE.dhcp.log, dhcp.log, dhcp.leases with DHCP: the clients' script and logs, the server's log and leases
//! ```

mod agents;
mod directory;
mod files;
pub(crate) mod moves;

use std::sync::atomic::AtomicBool;

use crate::agents::{OverlayFiles, name_of};
use crate::batch::batch;
use crate::clock::Stopwatch;
use crate::commands;
use crate::dhcp::{self, Server};
use crate::directory::Directory;
use crate::error::Result;
use crate::names::SCHEDULER;
use crate::openflow::scheduler::start_for_agents;
use crate::plan::vl2::{AA4, Vl2};
use crate::plan::{Net, Plan};
use crate::programs::find;
use crate::{netns, sysctl};

/// Checks that the directory's programs are installed.
///
/// # Errors
/// [`LabError::NoProgram`](crate::LabError::NoProgram), [`LabError::NoEtcd`](crate::LabError::NoEtcd).
pub(crate) fn check(vl2: &Vl2) -> Result<()> {
    if vl2.scheduler.is_some() {
        find(SCHEDULER)?;
    }
    if vl2.dhcp {
        Server::check()?;
        dhcp::check_client()?;
    }
    Directory::check(vl2.directory.store)
}

/// Gives hosts their application addresses; their devices are up.
pub(crate) fn configure_addresses(plan: &Plan, vl2: &Vl2, stop: &AtomicBool) -> Result<()> {
    netns::each(&vl2.hosts, stop, |host| {
        let namespace = &plan.nodes[host.node].namespace;
        netns::enter(namespace)?;
        sysctl::set(&commands::ipv6_sysctls(), namespace)?;
        batch("ip", &commands::vl2::host(host, vl2.dhcp), namespace)
    })?;
    Ok(())
}

/// Starts all programs, and returns when every agent has attached its addresses. The times of the directory and of the agents, in seconds.
pub(crate) fn start(plan: &Plan, vl2: &Vl2, stop: &AtomicBool) -> Result<(f64, f64)> {
    let files = OverlayFiles::of(plan);
    files.create()?;
    let secret = directory::write(plan, vl2, &files)?;
    files::write(plan, vl2, &files, &secret)?;
    let watch = Stopwatch::new();
    Directory::of(plan, &files).map_or(Ok(()), |it| it.start(stop))?;
    let directory_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::new();
    if let Some(server) = vl2.dhcp_server() {
        start_dhcp(plan, vl2, server, &files)?;
    }
    agents::start(plan, stop)?;
    if let Some(scheduler) = &vl2.scheduler {
        start_for_agents(plan, scheduler, &secret, stop)?;
    }
    Ok((directory_s, watch.elapsed().as_secs_f64()))
}

/// Starts the DHCP server, and a client in each host. They reach each other once the agents of the ToRs relay.
fn start_dhcp(plan: &Plan, vl2: &Vl2, server: usize, files: &OverlayFiles) -> Result<()> {
    let subnet = Net::try_from(AA4.to_owned()).expect("a prefix");
    let leases = vl2.hosts.iter().map(|host| (host.mac(), host.aa4)).collect();
    Server { node: &plan.nodes[server], subnet, leases }.start(files)?;
    let script = files.write_script("lease.sh", &commands::vl2::lease_script())?;
    let mut nodes = vl2.hosts.iter().map(|host| &plan.nodes[host.node]);
    nodes.try_for_each(|node| dhcp::start_client(node, name_of(node), &script, files))
}

/// Reasons of drops that keep hosts apart: forged addresses, services that may not communicate, and ways around the overlay.
pub(crate) const ISOLATION_DROPS: [&str; 7] =
    ["forged_source", "forged_tunnel", "forged_outer", "held_forbidden", "out_forbidden", "in_forbidden", "locator_refused"];
/// Reasons of drops that forged packets may have besides, and others too.
pub(crate) const MALFORMED_DROPS: [&str; 4] = ["foreign_resolution", "outer_fragment", "malformed", "plain"];
