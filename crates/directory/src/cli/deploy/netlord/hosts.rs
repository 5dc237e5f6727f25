//! The files of NetLord's servers: the agent's configuration, the tenants that it reads, its key, a drop-in of its unit.

use std::fmt::Write as _;

use super::inventory::{Host, Netlord};
use super::tenants;
use crate::cli::connect::Auth;
use crate::cli::deploy::agents::{certificate, key};
use crate::cli::deploy::error::Result;
use crate::cli::deploy::files::{CONFIG, DROP_IN, File, Files, KEY, TENANTS, heading, of_machine, quoted};
use crate::cli::deploy::inventory::Inventory;
use crate::cli::deploy::keys::Keys;

/// Adds the files of a server. Without a directory it reads the tenants from a file.
pub(super) fn host(inventory: &Inventory, netlord: &Netlord, host: &Host, keys: &mut Keys, files: &mut Files) -> Result<()> {
    let folder = of_machine(host.name.get_ref());
    let principal = host.principal.as_ref().filter(|_| inventory.has_directory());
    let mut text = config(inventory, netlord, host);
    if let Some(number) = principal {
        text += &directory(inventory, *number.get_ref());
        if inventory.auth() == Auth::Tls {
            certificate(&folder, number, keys, files)?;
        }
        files.insert(format!("{folder}{KEY}"), key(number, keys));
    } else {
        files.insert(format!("{folder}{TENANTS}"), File::plain(tenants::file(inventory, netlord)));
    }
    text += &host.limits.section(&netlord.limits);
    for uplink in &host.uplinks {
        let _ = write!(text, "\n[[uplink]]\ndevice = \"{}\"\n", uplink.device.get_ref());
    }
    for vif in netlord.vifs_of(host) {
        let Some(device) = &vif.device else { continue };
        let (device, tenant, name) = (device.get_ref(), vif.tenant.get_ref(), vif.name.get_ref());
        let _ = write!(text, "\n[[vif]]\ndevice = \"{device}\"\ntenant = \"{tenant}\"\nname = \"{name}\"\n");
    }
    paths(netlord, host, &mut text);
    files.insert(format!("{folder}{CONFIG}"), File::plain(text));
    files.insert(format!("{folder}{DROP_IN}"), File::plain(drop_in(inventory, principal.is_some())));
    Ok(())
}

/// The keys above all tables, and the provider's address.
fn config(inventory: &Inventory, netlord: &Netlord, host: &Host) -> String {
    let tenants = if inventory.has_directory() { RECEIVED.to_owned() } else { format!("/{TENANTS}") };
    let mut text = heading(inventory)
        + &format!("overlay = \"netlord\"\nrole = \"host\"\ntenants = \"{tenants}\"\n")
        + &format!("special_vlan = {:?}\non_exit = \"{}\"\n", netlord.layout.special, inventory.agent.on_exit.name())
        + &format!("metrics = \"{}\"\n", inventory.agent.metrics.get_ref());
    if netlord.is_pull() {
        text += "locations = \"directory\"\n";
    }
    if let Some(address) = &host.provider {
        let _ = write!(text, "\n[provider]\naddress = \"{}\"\n", address.get_ref());
    }
    text
}

/// Whom the agent asks, and that it keeps the tenants as the directory has them.
fn directory(inventory: &Inventory, principal: u32) -> String {
    let servers = quoted(inventory.contact_addresses());
    let mut text = format!("\n[directory]\nservers = [{servers}]\nprincipal = {principal}\nkey = \"/{KEY}\"\n");
    if let Some(time) = &inventory.agent.fail_static {
        let _ = writeln!(text, "fail_static = \"{}\"", time.get_ref());
    }
    text += "\n[repository]\n";
    text += match inventory.auth() {
        Auth::Mac => "auth = \"mac\"\n",
        Auth::Tls => crate::cli::deploy::agents::TLS,
    };
    text
}

/// The VLANs from each uplink to each other edge switch.
fn paths(netlord: &Netlord, host: &Host, text: &mut String) {
    for uplink in &host.uplinks {
        let found = uplink.switch_and_interface();
        let switch = found.and_then(|(name, _)| netlord.switch.iter().find(|it| it.name.get_ref() == name));
        let mac = switch.and_then(|it| it.mac.as_ref()?.get_ref().parse().ok());
        for (to, vlans) in mac.iter().filter_map(|mac| netlord.layout.paths.get(mac)).flatten() {
            let device = uplink.device.get_ref();
            let _ = write!(text, "\n[[path]]\nuplink = \"{device}\"\nswitch = \"{to}\"\nvlans = \"{vlans}\"\n");
        }
    }
}

/// The unit tries again until the interfaces are there. What the agent receives is kept in a folder that it may write to.
fn drop_in(inventory: &Inventory, receives: bool) -> String {
    let folder = if receives { "StateDirectory=weft\n" } else { "" };
    heading(inventory) + "[Unit]\nStartLimitIntervalSec=0\n\n[Service]\n" + folder
}

/// Where an agent keeps the tenants that it receives, in its unit's `StateDirectory`.
const RECEIVED: &str = "/var/lib/weft/tenants.toml";
