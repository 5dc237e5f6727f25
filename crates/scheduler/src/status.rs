//! How the scheduler is: a verdict, problems, and what it has done.

use serde_json::{Value, json};
use weft_control::openflow::network::Status;
use weft_control::time::Instant;
use weft_fabric::routing::FlowKey;
use weft_fabric::{LinkId, SwitchId};

use crate::core::Core;
use crate::leader::ElectionState;

/// The status as JSON. `ready`: all switches have all of their rules.
pub(crate) fn status(core: &Core, now: Instant) -> Value {
    let network = &core.network;
    let (status, fabric) = (network.status(), network.identities().fabric());
    let record = network.controller().map(|c| c.record()).unwrap_or_default();
    let switches = fabric.switch_count();
    let ready = status.installed == switches;
    let problems = problems(core, &status, now);
    let leader = core.election.as_ref().and_then(ElectionState::leader);
    let verdict = match (ready, problems.is_empty()) {
        _ if leader.is_some() => "standby",
        _ if !status.superseded.is_empty() => "superseded",
        (true, true) => "ok",
        (false, _) if status.connected < switches => "waiting",
        (false, _) => "installing",
        (true, false) => "degraded",
    };
    let connected = core.sessions().count();
    let summary = match leader {
        Some(leader) => format!("{leader} leads; {connected} of {switches} switches connected"),
        None => format!(
            "{connected} of {switches} switches connected, {} have their rules; {} flows placed, {} counted",
            status.installed,
            network.placements().len(),
            status.counted_flows,
        ),
    };
    let sessions: Vec<Value> = core
        .sessions()
        .map(|(switch, version, peer)| {
            let datapath = format!("{:016x}", network.identities().datapath(switch));
            json!({ "switch": name(core, switch), "datapath": datapath, "version": version.to_string(), "peer": peer })
        })
        .collect();
    json!({
        "verdict": verdict, "summary": summary, "problems": problems, "ready": ready,
        "leader": leader, "switches": switches, "connected": connected, "installed": status.installed,
        "rounds": record.rounds, "late_rounds": status.late_rounds, "moves": record.moves,
        "large_flows": record.large_flows as f64 / record.rounds.max(1) as f64,
        "placements": network.placements().len(), "counted_flows": status.counted_flows,
        "failed_cables": status.failed_cables, "miscabled": status.miscabled.len(), "refused": status.refused.iter().map(|r| r.1).sum::<u64>(),
        "sessions": sessions,
    })
}

/// The placed flows as JSON.
pub(crate) fn placements(core: &Core) -> Value {
    let fabric = core.network.identities().fabric();
    let name = |host: weft_fabric::HostId| fabric.node(host.node()).name.to_string();
    let of = |placement: weft_control::openflow::network::Placement| {
        let FlowKey { src, dst, sport, dport } = placement.flow;
        let path: Vec<u32> = placement.path.iter().map(|l| l.0).collect();
        let nodes: Vec<String> =
            placement.path.iter().skip(1).map(|&l| fabric.node(fabric.link(l).from).name.to_string()).collect();
        json!({ "src": name(src), "sport": sport, "dst": name(dst), "dport": dport, "path": path, "switches": nodes.join(" ") })
    };
    json!({ "placements": core.network.placements().map(of).collect::<Vec<_>>() })
}

fn problems(core: &Core, status: &Status, now: Instant) -> Vec<String> {
    let mut problems = Vec::new();
    let names = |switches: &mut dyn Iterator<Item = SwitchId>| {
        let all: Vec<String> = switches.map(|s| name(core, s)).collect();
        match all.len() {
            0..=SHOWN => all.join(", "),
            more => format!("{} and {} more", all[..SHOWN].join(", "), more - SHOWN),
        }
    };
    problems.extend(core.election.as_ref().and_then(ElectionState::problem));
    if !core.leads() {
        return problems;
    }
    if !status.away.is_empty() {
        problems.push(format!("not connected: {}", names(&mut status.away.iter().copied())));
    }
    if !status.superseded.is_empty() {
        let which = names(&mut status.superseded.iter().copied());
        problems.push(format!("another controller, started later, is master of: {which}"));
    }
    for &(switch, port) in status.missing_ports.iter().take(SHOWN) {
        let link = core.network.identities().link_of(switch, port);
        let fabric = core.network.identities().fabric();
        let cable = link.map(|l| fabric.link_name(l)).unwrap_or_default();
        problems.push(format!("{} has no port {port} for the cable {cable}", name(core, switch)));
    }
    if !status.polarised.is_empty() {
        let which = names(&mut status.polarised.iter().copied());
        problems.push(format!("OpenFlow 1.3 cannot set the hash of groups, so traffic may polarise: {which}"));
    }
    if !status.refused.is_empty() {
        let which = names(&mut status.refused.iter().map(|r| r.0));
        problems.push(format!("rules or requests were refused (the log says which): {which}"));
    }
    let port = |link: LinkId| {
        let (identities, fabric) = (core.network.identities(), core.network.identities().fabric());
        format!("{} port {}", fabric.node(fabric.link(link).from).name, identities.port(link))
    };
    let other_end = |link: LinkId| port(link.reverse());
    for &[a, b] in status.miscabled.iter().take(SHOWN) {
        let fabric = format!("{} to {} and {} to {}", port(a), other_end(a), port(b), other_end(b));
        problems.push(format!("a cable connects {} and {}; the fabric connects {fabric}", port(a), port(b)));
    }
    let silent: Vec<String> =
        status.silent.iter().take(SHOWN).map(|&link| format!("{} from {}", port(link), other_end(link))).collect();
    if !silent.is_empty() {
        let more = status.silent.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        problems.push(format!(
            "no LLDP comes to {}{more}: whether these cables are as the fabric says is not known",
            silent.join(", ")
        ));
    }
    if status.failed_cables > 0 {
        let why = if status.miscabled.is_empty() { "are down" } else { "are down, or lead elsewhere, and not used" };
        problems.push(format!("{} cables {why}", status.failed_cables));
    }
    for (datapath, times) in core.strangers(now).take(SHOWN) {
        problems.push(format!("datapath {datapath:016x} is no switch of the fabric, and has connected {times} times"));
    }
    problems
}

fn name(core: &Core, switch: SwitchId) -> String {
    let fabric = core.network.identities().fabric();
    fabric.node(fabric.switch_node(switch)).name.to_string()
}

/// Names that a problem lists.
const SHOWN: usize = 8;
