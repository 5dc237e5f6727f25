//! Where a flow goes: `h0:5000-h9:80`.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_fabric::Fabric;
use weft_fabric::routing::FlowKey;

use crate::core::Core;

/// Explains a flow.
///
/// # Errors
/// What is wrong with its name, and what helps.
pub(crate) fn explain(core: &mut Core, text: &str) -> Result<Value, (String, String)> {
    let fabric = &Arc::clone(core.network.identities().fabric());
    let flow = parse(fabric, text)?;
    let placement = core.network.placements().find(|p| p.flow == flow);
    let (state, path) = match &placement {
        Some(placement) => ("placed", Some(&placement.path)),
        None => ("hashed", None),
    };
    let links = path.map(|path| path.iter().map(|&l| fabric.link_name(l)).collect::<Vec<_>>());
    let counter = core.network.counter(&flow).map(|(bytes, rate)| json!({ "bytes": bytes.0, "mean_bps": rate }));
    let choices: Vec<Value> = core
        .network
        .choices_of(flow.dst)
        .into_iter()
        .map(|(switch, ports)| json!({ "switch": fabric.node(fabric.switch_node(switch)).name, "ports": ports }))
        .collect();
    Ok(json!({ "flow": text, "state": state, "path": links, "counter": counter, "equal_paths_at": choices }))
}

/// Reads the name of a flow.
///
/// # Errors
/// What is wrong with it, and what helps.
pub(crate) fn parse(fabric: &Fabric, text: &str) -> Result<FlowKey, (String, String)> {
    let host = |name: &str| {
        let host = fabric.node_by_name(name).and_then(|node| fabric.as_host(node));
        host.ok_or_else(|| (format!("the fabric has no host `{name}`"), "names are those of the fabric's file".to_owned()))
    };
    let end = |text: &str| {
        let (name, port) = text.rsplit_once(':')?;
        Some((host(name), port.parse().ok()?))
    };
    let mut unknown = None;
    // Names of hosts may contain `-`: every split is tried.
    for (at, _) in text.match_indices('-') {
        let (Some((src, sport)), Some((dst, dport))) = (end(&text[..at]), end(&text[at + 1..])) else { continue };
        match src.and_then(|src| Ok((src, dst?))) {
            Ok((src, dst)) => return Ok(FlowKey { src, dst, sport, dport }),
            Err(error) => unknown = unknown.or(Some(error)),
        }
    }
    let form = || (format!("`{text}` is no flow"), "write hosts and TCP ports: h0:5000-h9:80".to_owned());
    Err(unknown.unwrap_or_else(form))
}
