//! VLANs of the switches of an inventory.

use std::collections::BTreeMap;

use weft_control::netlord::vlans::Vlans;
use weft_fabric::MacAddr;

/// VLANs of all switches.
#[derive(Debug, Default)]
pub(in crate::cli::deploy) struct Layout {
    /// Those of the trees that reach all edge switches, the first first.
    pub special: Vec<u16>,
    /// By the switch's name.
    pub ports: BTreeMap<String, Vec<Port>>,
    /// From an edge switch to each other one.
    pub paths: BTreeMap<MacAddr, BTreeMap<MacAddr, Vlans>>,
}

/// A port of a switch.
#[derive(Debug)]
pub(in crate::cli::deploy) struct Port {
    pub device: String,
    pub vlans: Vlans,
    /// Of one to a server.
    pub number: Option<u16>,
}
