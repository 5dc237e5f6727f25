//! Devices of hosts and of Open vSwitch, as batches for `ip`.

use std::fmt::Write as _;

use crate::plan::openflow::mac_of;
use crate::plan::{Node, Role};

/// `ip`, in the namespace of a switch: its ports are up, without addresses.
pub fn switch(node: &Node) -> String {
    debug_assert_eq!(node.role, Role::Switch);
    let mut batch = String::from("link set lo up\n");
    for port in &node.ports {
        writeln!(batch, "link set {} up", port.name).expect("a text grows");
    }
    batch
}

/// `ip`, in the namespace of a host, before its device is up: the MAC address that the switches' rules know.
pub fn host(node: &Node) -> String {
    debug_assert_eq!(node.role, Role::Host);
    format!("link set {} address {}\n", node.ports[0].name, mac_of(node.locator))
}
