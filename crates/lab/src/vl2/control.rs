//! Programs of an overlay that are ended and started anew while the lab is in use, and what they are told when a server moves.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::files::Files;
use super::{folder, pins, socket, start_agent, wait_until_attached};
use crate::error::Result;
use crate::netlord;
use crate::plan::overlay::OverlayHost;
use crate::plan::{Node, Plan, Role};
use crate::programs::{self, AGENT, ask, find, wait_for};
use crate::state;

/// Ends the agent of a node at once; its eBPF programs go on. Whether it ran.
pub(crate) fn kill_agent(node: &Node) -> bool {
    programs::kill(&node.namespace, &[AGENT]) > 0
}

/// Starts agents that do not run, and waits until they are ready.
pub(crate) fn start_agents_of(plan: &Plan, nodes: &[usize], stop: &AtomicBool) -> Result<()> {
    if plan.tenants.is_some() {
        return nodes.iter().try_for_each(|&node| netlord::restart(plan, &plan.nodes[node], stop));
    }
    let (program, files) = (find(AGENT)?, files(plan));
    let started = nodes.iter().map(|&i| start_agent(&program, &plan.nodes[i], &files)).collect::<Result<Vec<_>>>()?;
    wait_for(&started, stop)
}

/// Ends the programs of these names in a node's namespace at once. How many there were.
pub(crate) fn kill_programs(node: &Node, names: &[&str]) -> usize {
    programs::kill(&node.namespace, names)
}

/// Has the agent of a host give its addresses up, so that its ToR delivers to them no more; `false` if it does not answer.
pub(crate) fn detach(plan: &Plan, host: &OverlayHost) -> bool {
    let socket = socket(&state::path(&plan.name), &plan.nodes[host.node]);
    let detached = |address: String| {
        let request = json!({"command": "detach", "address": address, "timeout_ms": DETACH_WITHIN.as_millis() as u64});
        let answer = programs::request(&socket, &request, 2 * DETACH_WITHIN);
        answer.is_some_and(|a| a["ok"]["outcome"] == "detached")
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| detached(host.aa6.to_string()));
        detached(host.aa4.to_string()) & other.join().unwrap_or(false)
    })
}

/// Has the agents of a host that has moved, and of the ToRs that it has left and come to, read what they are to do now, and waits until its addresses are attached. One that
/// does not run is started if it is needed.
pub(crate) fn follow_move(plan: &Plan, host: usize, old_tor: usize, stop: &AtomicBool) -> Result<()> {
    let Some(vl2) = &plan.overlay else { return Ok(()) };
    let Some(moved) = vl2.host(host) else { return Ok(()) };
    let files = files(plan);
    files.rewrite(plan, vl2, &[host, moved.tor, old_tor], &pins(&plan.name))?;
    let told = |&node: &usize| programs::hang_up(&plan.nodes[node].namespace, AGENT) > 0;
    let missing: Vec<usize> = [moved.tor, host].into_iter().filter(|node| !told(node)).collect();
    start_agents_of(plan, &missing, stop)?;
    told(&old_tor);
    wait_until_attached(plan, &[moved], &files, stop)
}

/// What the agents of all nodes have dropped, by reason; those that do not answer are left out.
pub(crate) fn drops(plan: &Plan) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let lab = state::path(&plan.name);
    let has_agent = |n: &&Node| plan.has_agents() && matches!(n.role, Role::Host | Role::Switch);
    for node in plan.nodes.iter().filter(has_agent) {
        let socket = if plan.tenants.is_some() { netlord::socket(&lab, node) } else { socket(&lab, node) };
        let status = ask(&socket).unwrap_or_default();
        let of_node = status["ok"]["drops"].as_object().into_iter().flatten();
        for (reason, count) in of_node.filter_map(|(r, n)| Some((r, n.as_u64()?))) {
            *all.entry(reason.clone()).or_default() += count;
        }
    }
    all
}

/// Packets that agents have dropped because hosts are kept apart: between those who may not talk, and from addresses that are not the sender's.
pub(crate) fn isolation_drops(plan: &Plan) -> u64 {
    let reasons: &[&str] = if plan.tenants.is_some() { &netlord::ISOLATION } else { &ISOLATION };
    drops(plan).iter().filter(|(reason, _)| reasons.contains(&reason.as_str())).map(|(_, count)| count).sum()
}

fn files(plan: &Plan) -> Files {
    Files { folder: folder(&state::path(&plan.name)) }
}

/// Reasons of drops that keep hosts apart.
const ISOLATION: [&str; 4] = ["forged_source", "held_forbidden", "out_forbidden", "in_forbidden"];
const DETACH_WITHIN: Duration = Duration::from_secs(5);
