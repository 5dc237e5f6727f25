//! Open vSwitch for a core switch: an independent bridge without support for NetLord.
//!
//! ```text
//!   /run/weft/labs/NAME/netlord/NODE-ovs/     its files
//! ```

use std::path::Path;

use crate::agents::{self, OverlayFiles, name_of};
use crate::error::{LabError, Result};
use crate::ovs::{Configuration, Switch};
use crate::plan::netlord::{Bridge, Fib};
use crate::plan::{Node, Plan};

/// Starts it in the switch's namespace, and returns when it forwards.
pub(super) fn start(files: &OverlayFiles, node: &Node, bridge: &Bridge, fib: &Fib) -> Result<()> {
    switch(files.folder(), node).start(configuration(node, bridge, fib), "fail_mode=standalone")
}

/// The addresses that a switch has learned, each with its VLAN.
///
/// # Errors
/// [`LabError`] if it does not answer.
pub fn learned(plan: &Plan, node: &Node) -> Result<Vec<(String, u16)>, LabError> {
    let text = switch(&agents::folder(plan), node).ask(&["fdb/show", "br0"])?;
    // port VLAN MAC age, below a line of headings.
    let of = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(((*words.get(2)?).to_owned(), words.get(1)?.parse().ok()?))
    };
    Ok(text.lines().filter_map(of).collect())
}

fn switch<'a>(above: &Path, node: &'a Node) -> Switch<'a> {
    Switch::new(above.join(format!("{}-ovs", name_of(node))), node)
}

fn configuration(node: &Node, bridge: &Bridge, fib: &Fib) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.add("add-br br0");
    let (entries, ageing) = (fib.entries.max(10), fib.ageing_s);
    configuration.add(&format!(
        "set bridge br0 datapath_type=netdev other_config:mac-table-size={entries} other_config:mac-aging-time={ageing}"
    ));
    for (port, of_bridge) in node.ports.iter().zip(&bridge.ports) {
        let vlans: Vec<String> = of_bridge.vlans.iter().map(u16::to_string).collect();
        configuration.add_port(&port.name, &format!("vlan_mode=trunk trunks={}", vlans.join(",")), "");
    }
    configuration
}
