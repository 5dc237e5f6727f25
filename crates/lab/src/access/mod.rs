//! Agents that choose the NICs of flows in a lab, and the scheduler above them.
//!
//! ```text
//!   /run/weft/labs/NAME/access/
//!     fabric.weft                             the fabric, which every agent reads
//!     NODE.toml, NODE.key, NODE.sock, NODE.log   of a host or a ToR: its agent's configuration, key, socket and log
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use crate::agents::{OverlayFiles, name_of, pins, start_all};
use crate::clock::Stopwatch;
use crate::directory::{new_secret, principal};
use crate::error::Result;
use crate::names::SCHEDULER;
use crate::openflow::scheduler::start_for_access;
use crate::plan::access::Access;
use crate::plan::openflow::FABRIC_FILE;
use crate::plan::{MTU_HOST, Plan, Role};
use crate::programs::find;

/// Checks that the scheduler is installed.
///
/// # Errors
/// [`LabError::NoProgram`](crate::LabError::NoProgram).
pub(crate) fn check() -> Result<()> {
    find(SCHEDULER).map(|_| ())
}

/// Starts all programs, and returns when every agent reports. The time that this took, in seconds.
pub(crate) fn start(plan: &Plan, access: &Access, stop: &AtomicBool) -> Result<f64> {
    let files = OverlayFiles::of(plan);
    files.create()?;
    files.write(FABRIC_FILE, &access.fabric)?;
    let secret = new_secret()?;
    for (at, node) in plan.nodes.iter().enumerate().filter(|(at, node)| node.role == Role::Host || plan.is_edge(*at)) {
        let name = name_of(node);
        files.write(&format!("{name}.key"), &format!("{}\n", secret.key_of(principal(at)).to_hex()))?;
        files.write(&format!("{name}.toml"), &configuration(plan, access, &files, at))?;
    }
    let watch = Stopwatch::new();
    start_all(plan, stop)?;
    start_for_access(plan, access, &secret, stop)?;
    Ok(watch.elapsed().as_secs_f64())
}

/// The configuration of a host's or a ToR's agent.
fn configuration(plan: &Plan, access: &Access, files: &OverlayFiles, at: usize) -> String {
    let node = &plan.nodes[at];
    let name = name_of(node);
    let role = if node.role == Role::Host { "host" } else { "switch" };
    let detours = if node.role == Role::Host && access.detours { "detours = true\n" } else { "" };
    let mut text = format!(
        "overlay = \"none\"\nrole = \"{role}\"\nmetrics = \"off\"\nprincipal = {}\nkey = \"{}\"\nsocket = \"{}\"\npins = \"{}\"\n\n\
         [access]\nfabric = \"{FABRIC_FILE}\"\nname = {:?}\nscheduler = {}\nmtu = {MTU_HOST}\n{detours}\n[access.ports]\n",
        principal(at).0,
        files.text(&format!("{name}.key")),
        files.text(&format!("{name}.sock")),
        pins(&plan.name).join(name).display(),
        node.name,
        access.addresses(plan),
    );
    let mut ports: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for port in &node.ports {
        ports.entry(&plan.nodes[port.peer.node].name).or_default().push(&port.name);
    }
    for (peer, devices) in ports {
        let _ = writeln!(text, "{peer:?} = {devices:?}");
    }
    text
}
