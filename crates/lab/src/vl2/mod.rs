//! VL2 in a lab: a directory, and an agent in each host and switch.
//!
//! ```text
//!   /run/weft/labs/NAME/vl2/
//!     secret, policy.toml, mappings.jsonl, store/    the directory's; logs of the servers in server0.log, server1.log ...
//!     etcd/, etcd.log                                the store that several servers share
//!     NODE.toml, NODE.key                            an agent's configuration and its principal's key
//!     NODE.sock, NODE.log                            its socket and its log
//! ```

mod agents;
mod directory;
mod files;
pub(crate) mod moves;

use std::sync::atomic::AtomicBool;

use crate::agents::OverlayFiles;
use crate::batch::batch;
use crate::clock::Stopwatch;
use crate::commands;
use crate::directory::Directory;
use crate::error::Result;
use crate::names::SCHEDULER;
use crate::openflow::scheduler::start_for_agents;
use crate::plan::Plan;
use crate::plan::vl2::Vl2;
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
    Directory::check(vl2.directory.store)
}

/// Gives hosts their application addresses; their devices are up.
pub(crate) fn configure_addresses(plan: &Plan, vl2: &Vl2, stop: &AtomicBool) -> Result<()> {
    netns::each(&vl2.hosts, stop, |host| {
        let namespace = &plan.nodes[host.node].namespace;
        netns::enter(namespace)?;
        sysctl::set(&commands::ipv6_sysctls(), namespace)?;
        batch("ip", &commands::vl2::host(host), namespace)
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
    agents::start(plan, stop)?;
    if let Some(scheduler) = &vl2.scheduler {
        start_for_agents(plan, scheduler, &secret, stop)?;
    }
    Ok((directory_s, watch.elapsed().as_secs_f64()))
}

/// Reasons of drops that keep hosts apart: forged addresses, services that may not communicate, and ways around the overlay.
pub(crate) const ISOLATION_DROPS: [&str; 7] =
    ["forged_source", "forged_tunnel", "forged_outer", "held_forbidden", "out_forbidden", "in_forbidden", "locator_refused"];
/// Reasons of drops that forged packets may have besides, and others too.
pub(crate) const MALFORMED_DROPS: [&str; 4] = ["foreign_resolution", "outer_fragment", "malformed", "plain"];
