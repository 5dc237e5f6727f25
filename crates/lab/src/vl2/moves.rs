//! A server moves to another ToR while its connections continue (VL2 section 4.2.4): its AA stays, its LA changes.
//!
//! ```text
//!   agent of the host: detach --> the old ToR delivers no more, and has senders corrected
//!   end of the cable: out of the old ToR's namespace, into the new one's; addresses, routes, rate
//!   agents of the host and of both ToRs: reload their configurations (SIGHUP) --> attach --> ToR's table, directory
//! ```
//! The host's end of the cable stays, and so do its AAs, its sockets, and the eBPF programs at it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::agents::wait_until_attached;
use super::{directory, files};
use crate::agents::{OverlayFiles, reload, restart, socket};
use crate::batch::run_batch;
use crate::error::Result;
use crate::plan::vl2::Vl2Host;
use crate::plan::{Node, Plan, PortId};
use crate::{commands, ebpf, netns, programs};

/// Makes a move, by its number in the plan, which says afterwards where everything is.
pub(crate) fn migrate(plan: &mut Plan, which: usize, stop: &AtomicBool) -> Result<()> {
    let Some(vl2) = plan.overlay.vl2() else { return Ok(()) };
    let moved = vl2.moves[which].clone();
    let Some(host) = vl2.host(moved.host).cloned() else { return Ok(()) };
    let (old, old_locator) = (plan.nodes[moved.host].ports[0].peer, plan.nodes[moved.host].locator);
    if !detach(plan, &host) {
        tracing::warn!(
            "the agent of {} did not detach its addresses: its ToR removes them when they time out",
            plan.nodes[moved.host].name
        );
    }
    let unplug = commands::vl2::unplug(plan.port(old), &plan.nodes[moved.tor], &moved.port);
    run_batch(&plan.nodes[old.node], "ip", &unplug)?;
    plan.make_move(which);
    let PortId { node: tor, port } = plan.nodes[moved.host].ports[0].peer;
    let (tor, host, multicast) = (&plan.nodes[tor], &plan.nodes[moved.host], plan.has_multicast());
    run_batch(tor, "ip", &commands::vl2::plug(tor, port, multicast))?;
    run_batch(tor, "tc", &commands::shape(&tor.ports[port]))?;
    netns::within(&tor.namespace, || ebpf::Program::forget_hash()?.attach([tor.ports[port].name.as_str()]))?;
    run_batch(host, "ip", &commands::vl2::renumber(host, old_locator))?;
    reload_agents(plan, moved.host, old.node, stop)
}

/// Has the agent of a host detach its addresses, so that its ToR delivers to them no more; `false` if it does not confirm.
fn detach(plan: &Plan, host: &Vl2Host) -> bool {
    let socket = socket(plan, &plan.nodes[host.node]);
    let detached = |address: String| {
        let request = json!({"command": "detach", "address": address, "timeout_ms": DETACH_TIMEOUT.as_millis() as u64});
        let answer = programs::request(&socket, &request, 2 * DETACH_TIMEOUT);
        answer.is_some_and(|a| a["ok"]["outcome"] == "detached")
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| detached(host.aa6.to_string()));
        detached(host.aa4.to_string()) & other.join().unwrap_or(false)
    })
}

/// Has the agents of a host that has moved, and of its old and new ToR, reload their configurations, and waits until the host's addresses are attached. Those of
/// the host and of the new ToR are started if they do not run.
fn reload_agents(plan: &Plan, host: usize, old_tor: usize, stop: &AtomicBool) -> Result<()> {
    let Some(vl2) = plan.overlay.vl2() else { return Ok(()) };
    let Some(moved) = vl2.host(host) else { return Ok(()) };
    let files = OverlayFiles::of(plan);
    let secret = directory::read_secret(&files)?;
    [host, moved.tor, old_tor].into_iter().try_for_each(|node| files::configure(plan, vl2, &files, node, &secret))?;
    let needed = [moved.tor, host].map(|node| &plan.nodes[node]);
    let missing: Vec<&Node> = needed.into_iter().filter(|node| !reload(node)).collect();
    restart(plan, &missing, stop)?;
    reload(&plan.nodes[old_tor]);
    wait_until_attached(plan, std::iter::once(&plan.nodes[host]), stop)
}

const DETACH_TIMEOUT: Duration = Duration::from_secs(5);
