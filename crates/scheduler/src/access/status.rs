//! How a scheduler of Subways' hosts is: a verdict, problems, and what it has done.

use serde_json::{Map, Value, json};
use weft_control::subways::agents::{AccessNetwork, DetourStatus, NetworkStatus};
use weft_control::time::{Duration, Instant};
use weft_control::wire::subways::{FIRST_DETOUR, Forwarded, NicPair};
use weft_fabric::routing::{Direction, FlowKey};

use crate::explain::parse;

/// The status as JSON. `ready`: all agents report.
pub(super) fn status(network: &AccessNetwork, now: Instant) -> Value {
    let (status, record) = (network.status(now), network.controller().record());
    let agents = network.agents();
    let (ready, problems) = (status.away.is_empty(), problems(network, &status));
    let verdict = match (ready, problems.is_empty()) {
        _ if status.is_superseded => "superseded",
        (false, _) => "waiting",
        (true, true) => "ok",
        (true, false) => "degraded",
    };
    let summary = format!("{} of {agents} agents of hosts and ToRs report; {} flows", status.reporting, status.flows);
    let fabric = network.addresses().fabric();
    let tors: Vec<Value> = network
        .loads()
        .map(|load| {
            let name = &fabric.node(fabric.switch_node(load.switch)).name;
            json!({ "tor": name, "left_out_bps": load.out, "left_in_bps": load.into })
        })
        .collect();
    let ms = |length: Duration| length.as_secs_f64() * 1e3;
    let dropped: Map<String, Value> = status.refusals.iter().map(|(reason, value)| (reason.to_owned(), json!(value))).collect();
    json!({
        "verdict": verdict, "summary": summary, "problems": problems, "ready": ready,
        "agents": agents, "reporting": status.reporting,
        "rounds": record.rounds, "late_rounds": status.late_rounds, "moves": record.moves,
        "counted_flows": status.flows, "tors": tors, "failed_cables": status.down.len(),
        "loops": status.loops.count, "loop_mean_ms": status.loops.mean().map(ms), "loop_max_ms": ms(status.loops.max),
        "detours": status.detours.map(|it| detours(&it)),
        "dropped": dropped,
    })
}

/// Of a scheduler with detours.
fn detours(status: &DetourStatus) -> Value {
    let Forwarded { packets, bytes, refused, over_rate } = status.forwarded;
    json!({
        "hosts": status.participants, "detours": status.detours, "flows": status.flows,
        "forwarded_packets": packets, "forwarded_bytes": bytes, "refused": refused, "over_rate": over_rate,
    })
}

/// All flows that hosts report, with the ToRs that they leave and arrive by.
pub(super) fn placements(network: &AccessNetwork) -> Value {
    let fabric = network.addresses().fabric();
    let flows: Vec<Value> = network
        .flows()
        .map(|(key, nics, bytes)| {
            let FlowKey { src, dst, sport, dport } = key;
            let [src, dst] = [src, dst].map(|host| fabric.node(host.node()).name.to_string());
            let [out, into] = tors(network, &key, nics);
            json!({
                "src": src, "sport": sport, "dst": dst, "dport": dport, "switches": format!("{out} {into}"),
                "out": out, "in": into, "bytes": bytes,
            })
        })
        .collect();
    json!({ "placements": flows })
}

/// Explains a flow.
///
/// # Errors
/// What is wrong with its name, and what helps.
pub(super) fn explain(network: &AccessNetwork, text: &str) -> Result<Value, (String, String)> {
    let flow = parse(network.addresses().fabric(), text)?;
    let found = network.flows().find(|(key, ..)| *key == flow);
    let state = match &found {
        Some((key, nics, _)) => {
            let [out, into] = tors(network, key, *nics);
            format!("leaves over {out}, arrives over {into}")
        }
        None => "drawn by its host from the weights of ToRs".to_owned(),
    };
    let counter = found.map(|(.., bytes)| json!({ "bytes": bytes }));
    Ok(json!({ "flow": text, "state": state, "path": [], "counter": counter }))
}

/// The names of the ToRs that a flow leaves and arrives by; of a detour the remote ones.
fn tors(network: &AccessNetwork, key: &FlowKey, nics: NicPair) -> [String; 2] {
    let fabric = network.addresses().fabric();
    [(key.src, Direction::Out, nics.out), (key.dst, Direction::In, nics.into)].map(|(host, direction, number)| {
        let tor = network.remote_tor(host, direction, number);
        let name = tor.map_or_else(String::new, |tor| fabric.node(fabric.switch_node(tor)).name.to_string());
        if number >= FIRST_DETOUR { format!("detour:{name}") } else { name }
    })
}

fn problems(network: &AccessNetwork, status: &NetworkStatus) -> Vec<String> {
    let mut problems = Vec::new();
    if status.is_superseded {
        problems.push("agents obey another scheduler, which started later: stop one of the two".to_owned());
    }
    if !status.away.is_empty() {
        let more = status.away.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        problems.push(format!("no reports of the agents of {}{more}", status.away[..status.away.len().min(SHOWN)].join(", ")));
    }
    let fabric = network.addresses().fabric();
    let down = status.down.iter().map(|cable| format!("the cable {} is down", fabric.link_name(cable.links()[0])));
    problems.extend(down.take(SHOWN));
    if status.refusals.untagged > 0 {
        let count = status.refusals.untagged;
        problems.push(format!("{count} reports were not tagged with the key of their agent: is `placement_key` right?"));
    }
    problems
}

/// Names that a problem lists.
const SHOWN: usize = 8;
