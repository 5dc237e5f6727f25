//! How a scheduler of agents is: a verdict, problems, and what it has done.

use serde_json::{Map, Value, json};
use weft_control::time::{Duration, Instant};
use weft_control::vl2::placement::{AgentNetwork, NetworkStatus};
use weft_fabric::routing::FlowKey;
use weft_fabric::{HostId, SwitchId};

/// The status as JSON. `ready`: all agents report.
pub(super) fn status(network: &AgentNetwork, now: Instant) -> Value {
    let status = network.status(now);
    let record = network.controller().map(|it| it.record()).unwrap_or_default();
    let agents = network.identities().fabric().host_count();
    let (ready, problems) = (status.away.is_empty(), problems(network, &status));
    let verdict = match (ready, problems.is_empty()) {
        _ if status.is_superseded => "superseded",
        (false, _) => "waiting",
        (true, true) => "ok",
        (true, false) => "degraded",
    };
    let placements = network.placements().count();
    let summary = format!(
        "{} of {agents} agents report; {placements} flows placed, {} of them in force, {} counted",
        status.reporting, status.in_force, status.counted_flows
    );
    let ms = |length: Duration| length.as_secs_f64() * 1e3;
    let dropped: Map<String, Value> = status.refusals.iter().map(|(reason, value)| (reason.to_owned(), json!(value))).collect();
    json!({
        "verdict": verdict, "summary": summary, "problems": problems, "ready": ready,
        "agents": agents, "reporting": status.reporting,
        "rounds": record.rounds, "late_rounds": status.late_rounds, "moves": record.moves,
        "large_flows": record.large_flows as f64 / record.rounds.max(1) as f64,
        "placements": placements, "in_force": status.in_force, "counted_flows": status.counted_flows,
        "loops": status.loops.count, "loop_mean_ms": status.loops.mean().map(ms), "loop_max_ms": ms(status.loops.max),
        "failed_intermediates": status.failed.iter().map(|&it| name(network, it)).collect::<Vec<_>>(), "dropped": dropped,
    })
}

/// The placed flows as JSON.
pub(super) fn placements(network: &AgentNetwork) -> Value {
    let fabric = network.identities().fabric();
    let host = |host: HostId| fabric.node(host.node()).name.to_string();
    let placements: Vec<Value> = network
        .placements()
        .map(|(FlowKey { src, dst, sport, dport }, path, intermediate)| {
            let links: Vec<u32> = path.iter().map(|link| link.0).collect();
            let nodes: Vec<String> =
                path.iter().skip(1).map(|&link| fabric.node(fabric.link(link).from).name.to_string()).collect();
            json!({
                "src": host(src), "sport": sport, "dst": host(dst), "dport": dport, "path": links, "switches": nodes.join(" "),
                "via": intermediate.to_string(),
            })
        })
        .collect();
    json!({ "placements": placements })
}

/// The name of a switch.
pub(super) fn name(network: &AgentNetwork, switch: SwitchId) -> String {
    let fabric = network.identities().fabric();
    fabric.node(fabric.switch_node(switch)).name.to_string()
}

fn problems(network: &AgentNetwork, status: &NetworkStatus) -> Vec<String> {
    let mut problems = Vec::new();
    if status.is_superseded {
        problems.push("agents obey another scheduler, which started later: stop one of the two".to_owned());
    }
    let fabric = network.identities().fabric();
    if !status.away.is_empty() {
        let names: Vec<String> = status.away.iter().take(SHOWN).map(|it| fabric.node(it.node()).name.to_string()).collect();
        let more = status.away.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        problems.push(format!("no reports of the agents of {}{more}", names.join(", ")));
    }
    if !status.failed.is_empty() {
        let names: Vec<String> = status.failed.iter().map(|&it| name(network, it)).collect();
        problems.push(format!("intermediate switches that do not answer agents: {}", names.join(", ")));
    }
    if status.refusals.untagged > 0 {
        problems.push(format!(
            "{} reports were not tagged with the key of their host: is `placement_key` right?",
            status.refusals.untagged
        ));
    }
    if status.refusals.unplaceable > 0 {
        problems.push(format!("{} paths cross no switch of [agents.intermediates]", status.refusals.unplaceable));
    }
    problems
}

/// Names that a problem lists.
const SHOWN: usize = 8;
