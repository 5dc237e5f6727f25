//! Open vSwitch as the switches of a lab, and the scheduler that steers them over OpenFlow.
//!
//! ```text
//!   /run/weft/labs/NAME/
//!     scheduler/     fabric.weft, scheduler.toml; openflow.sock, to which switches connect; scheduler.sock, its status; scheduler.log
//!     openflow/NODE/ the files of a switch; br0.controller is a link to openflow.sock: Open vSwitch connects to no other socket
//! ```
//! The control network is apart from the fabric: Unix sockets, which reach into every namespace.

pub mod scheduler;
mod switches;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::batch::batch;
use crate::error::Result;
use crate::names::SCHEDULER;
use crate::plan::openflow::Openflow;
use crate::plan::{Node, Plan, Role};
use crate::programs::find;
use crate::{commands, netns, ovs, state};

pub use scheduler::{SchedulerStatus, status};

/// Checks that the programs are installed, before anything is made.
///
/// # Errors
/// [`LabError::NoProgram`](crate::LabError::NoProgram), [`LabError::Missing`](crate::LabError::Missing).
pub(crate) fn check() -> Result<()> {
    find(SCHEDULER)?;
    ovs::check()
}

/// Configures the devices of a node, in the namespace of the thread.
pub(crate) fn configure_devices(node: &Node) -> Result<()> {
    let place = &node.namespace;
    if node.role == Role::Switch {
        return batch("ip", &commands::openflow::switch(node), place);
    }
    batch("ip", &(commands::openflow::host(node) + &commands::devices(node, false)), place)?;
    ovs::write_checksums(&node.ports[0].name, place)
}

/// Starts the scheduler and all switches; returns when every switch has its rules.
pub(crate) fn start(plan: &Plan, openflow: &Openflow, stop: &AtomicBool) -> Result<()> {
    scheduler::write(plan, openflow)?;
    let started = scheduler::start(plan, stop)?;
    let switches: Vec<&Node> = plan.switches().collect();
    netns::each_of(&switches, STARTS, stop, |node| switches::start(plan, node))?;
    // With BFD, a cable works once both of its ends have heard each other.
    scheduler::wait_until_ready(plan, Some(&started), stop)
}

/// The folder of the scheduler's files, and of the socket to which switches connect.
fn folder(plan: &Plan) -> PathBuf {
    state::path(&plan.name).join("scheduler")
}

/// Switches that start at a time.
const STARTS: usize = 8;
