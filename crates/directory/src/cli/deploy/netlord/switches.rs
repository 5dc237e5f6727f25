//! The configuration of NetLord's switches.

use std::fmt::Write as _;

use weft_control::netlord::vlans::Vlans;

use super::inventory::{Netlord, Role, Switch};
use super::layout::Port;
use crate::cli::deploy::files::{CONFIG, File, Files, heading, of_machine};
use crate::cli::deploy::inventory::Inventory;

/// Adds the file of a switch.
pub(super) fn switch(inventory: &Inventory, netlord: &Netlord, switch: &Switch, files: &mut Files) {
    let layout = &netlord.layout;
    let ports = layout.ports.get(switch.name.get_ref()).map_or(&[][..], Vec::as_slice);
    let is_edge = switch.role == Role::Edge;
    let role = if is_edge { "edge" } else { "core" };
    let mut text = heading(inventory) + &format!("overlay = \"netlord\"\nrole = \"{role}\"\n");
    if let Some(mac) = &switch.mac {
        let _ = writeln!(text, "mac = \"{}\"", mac.get_ref());
    }
    if is_edge {
        let _ = writeln!(text, "lldp = \"{LLDP}\"");
    }
    // A switch without others shares limits with none.
    if is_edge && ports.iter().any(|it| it.number.is_none()) {
        let _ = writeln!(text, "special_vlan = {:?}", layout.special);
    }
    if let Some(entries) = &switch.fib_entries {
        let _ = writeln!(text, "fib_entries = {}", entries.get_ref());
    }
    let (on_exit, metrics) = (inventory.agent.on_exit.name(), inventory.agent.metrics.get_ref());
    let _ = writeln!(text, "on_exit = \"{on_exit}\"\nmetrics = \"{metrics}\"");
    ports.iter().for_each(|it| port(it, &mut text));
    if let Some(&first) = layout.special.first() {
        for device in &switch.untagged {
            let (device, vlan) = (device.get_ref(), Vlans::of([first]));
            let _ = write!(text, "\n[[port]]\ndevice = \"{device}\"\nvlans = \"{vlan}\"\nnative = {first}\n");
        }
    }
    if is_edge {
        limits(netlord, &mut text);
    }
    files.insert(format!("{}{CONFIG}", of_machine(switch.name.get_ref())), File::plain(text));
}

fn port(it: &Port, text: &mut String) {
    let _ = write!(text, "\n[[port]]\ndevice = \"{}\"\nvlans = \"{}\"\n", it.device, it.vlans);
    if let Some(number) = it.number {
        let _ = writeln!(text, "number = {number}");
    }
}

/// What tenants may send, the same on all edge switches.
fn limits(netlord: &Netlord, text: &mut String) {
    for tenant in &netlord.tenant {
        let id = tenant.id.get_ref();
        if tenant.deny {
            let _ = write!(text, "\n[[limit]]\ntenant = {id}\ndeny = true\n");
        }
        if let Some(rate) = &tenant.rate {
            let _ = write!(text, "\n[[limit]]\ntenant = {id}\nrate = \"{}\"\n", rate.get_ref());
        }
        if let Some(burst) = &tenant.burst {
            let _ = writeln!(text, "burst = \"{}\"", burst.get_ref());
        }
    }
}

/// How often edge switches announce themselves: a server that starts knows its place soon, and LLDP's usual 30 s would have the role wait for it.
const LLDP: &str = "5s";
