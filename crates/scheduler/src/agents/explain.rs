//! Where a flow goes: `h0:5000-h9:80`.

use serde_json::{Value, json};
use weft_control::vl2::placement::AgentNetwork;

use crate::explain::parse;

/// Explains a flow.
///
/// # Errors
/// What is wrong with its name, and what helps.
pub(super) fn explain(network: &AgentNetwork, text: &str) -> Result<Value, (String, String)> {
    let fabric = network.identities().fabric();
    let flow = parse(fabric, text)?;
    let placed = network.placements().find(|(key, ..)| *key == flow);
    let links = placed.as_ref().map(|(_, path, _)| path.iter().map(|&link| fabric.link_name(link)).collect::<Vec<_>>());
    let counter = network.counter(&flow).map(|(bytes, rate)| json!({ "bytes": bytes.0, "mean_bps": rate }));
    let state = if placed.is_some() { "placed" } else { "by its host's hash over an anycast address" };
    let via = placed.map(|(.., intermediate)| intermediate.to_string());
    Ok(json!({ "flow": text, "state": state, "path": links, "via": via, "counter": counter, "equal_paths_at": [] }))
}
