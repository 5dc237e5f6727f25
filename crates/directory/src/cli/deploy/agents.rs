//! The files of machines with an agent: its configuration, its key, and a drop-in of its unit.

use std::fmt::Write as _;

use toml::Spanned;
use weft_control::wire::vl2::attach;

use super::error::Result;
use super::files::{CONFIG, DROP_IN, File, Files, KEY, heading, of_machine, principal, quoted};
use super::inventory::{Host, Inventory, LocatorMode, Switch, SwitchRole};
use super::keys::{Keys, key_path};
use crate::cli::connect::Auth;

/// Adds the files of a host.
pub(super) fn host(inventory: &Inventory, host: &Host, keys: &mut Keys, files: &mut Files) -> Result<()> {
    let (network, folder) = (&inventory.network, of_machine(host.name.get_ref()));
    let is_locator = network.locator == LocatorMode::Host;
    let mut text = heading(inventory) + "role = \"host\"\n";
    let _ = writeln!(text, "device = \"{}\"", host.device.get_ref());
    text += &common(inventory, *host.principal.get_ref(), *host.la.get_ref());
    let _ = writeln!(text, "locator = \"{}\"", if is_locator { "host" } else { "tor" });
    let _ = writeln!(text, "intermediate = \"{}\"", if inventory.anycast().is_empty() { "none" } else { "group" });
    let _ = writeln!(text, "entropy = \"{}\"", host.entropy.get_ref());
    if let Some(tor) = inventory.tor(host).filter(|it| it.agent && !is_locator) {
        let _ = writeln!(text, "tor = \"{}:{}\"", tor.la.get_ref(), attach::PORT);
    }
    if let Some(multicast) = &network.multicast {
        let _ = writeln!(text, "multicast = \"{}\"", multicast.get_ref());
    }
    if let Some(time) = &inventory.agent.fail_static {
        let _ = writeln!(text, "fail_static = \"{}\"", time.get_ref());
    }
    if is_locator && inventory.auth() == Auth::Tls {
        text += TLS;
        certificate(&folder, &host.principal, keys, files)?;
    }
    text += &host.limits.section(&inventory.agent.limits);
    if let Some(placement) = &inventory.agent.placement {
        let _ = write!(text, "\n[placement]\nscheduler = [{}]\n", quoted(placement.scheduler.get_ref()));
        if let Some(bytes) = &placement.elephant {
            let _ = writeln!(text, "elephant = \"{}\"", bytes.get_ref());
        }
    }
    for address in &host.addresses {
        let _ = write!(text, "\n[[address]]\naddress = \"{}\"\n", address.get_ref());
    }
    files.insert(format!("{folder}{CONFIG}"), File::plain(text));
    files.insert(format!("{folder}{KEY}"), key(&host.principal, keys));
    files.insert(format!("{folder}{DROP_IN}"), File::plain(drop_in(inventory, host)));
    Ok(())
}

/// Adds the files of a switch. Its configuration has the attach keys of its hosts.
pub(super) fn switch(inventory: &Inventory, switch: &Switch, keys: &Keys, files: &mut Files) {
    let Some(number) = &switch.principal else { return };
    let folder = of_machine(switch.name.get_ref());
    let mut text = heading(inventory) + "role = \"switch\"\n";
    text += &common(inventory, *number.get_ref(), *switch.la.get_ref());
    let _ = writeln!(text, "ports = [{}]\nsocket = \"/run/weft/agent.sock\"", quoted(&switch.ports));
    if switch.role == SwitchRole::Intermediate {
        let (switches, anycast) = (quoted(inventory.intermediates()), quoted(inventory.anycast()));
        let width = inventory.network.ecmp_width;
        let _ = write!(text, "\n[intermediate]\nswitches = [{switches}]\nanycast = [{anycast}]\necmp_width = {width}\n");
    }
    if switch.role == SwitchRole::Tor && inventory.network.locator == LocatorMode::Tor {
        text += "\n[tor]\n";
        for host in inventory.hosts_of(switch) {
            let Some(port) = &host.port else { continue };
            let key = attach::AttachKey::of(&keys.key_of(principal(&host.principal))).to_hex();
            let (number, port, la) = (host.principal.get_ref(), port.get_ref(), host.la.get_ref());
            let _ = write!(
                text,
                "\n[[tor.host]]\nprincipal = {number}\nattach_key = \"{key}\"\nport = \"{port}\"\naddress = \"{la}\"\n"
            );
        }
    }
    let is_private = text.contains("attach_key");
    files.insert(format!("{folder}{CONFIG}"), File { content: text, is_private, is_key: false });
    files.insert(format!("{folder}{KEY}"), key(number, keys));
}

/// Adds an agent's certificate and key for TLS, with the authority's certificate.
pub(super) fn certificate(folder: &str, number: &Spanned<u32>, keys: &mut Keys, files: &mut Files) -> Result<()> {
    let path = format!("{folder}etc/weft/agent.pem");
    let pair = keys.certificate(&path, principal(number), &[])?;
    files.insert(key_path(&path), File::key(pair.key));
    files.insert(path, File::certificate(pair.certificate));
    files.insert(format!("{folder}etc/weft/ca.pem"), File::certificate(keys.authority().to_owned()));
    Ok(())
}

/// The key of a principal.
pub(super) fn key(number: &Spanned<u32>, keys: &Keys) -> File {
    File::key(keys.key_of(principal(number)).to_hex() + "\n")
}

/// The keys of a configuration for these files.
pub(super) const TLS: &str =
    "auth = \"tls\"\ncert = \"/etc/weft/agent.pem\"\ncert_key = \"/etc/weft/agent.pem.key\"\nca = \"/etc/weft/ca.pem\"\n";

/// The keys that all configurations have.
fn common(inventory: &Inventory, principal: u32, la: std::net::Ipv4Addr) -> String {
    let on_exit = inventory.agent.on_exit.name();
    format!(
        "principal = {principal}\nkey = \"/{KEY}\"\ndirectory = [{}]\nprefixes = [{}]\nla = \"{la}\"\non_exit = \"{on_exit}\"\nmetrics = \"{}\"\n",
        quoted(inventory.contact_addresses()),
        quoted(inventory.network.prefixes.get_ref()),
        inventory.agent.metrics.get_ref(),
    )
}

/// The unit gives the NIC the application addresses before the agent starts, and tries again until the NIC is there.
fn drop_in(inventory: &Inventory, host: &Host) -> String {
    let device = host.device.get_ref();
    let mut text = heading(inventory) + "[Unit]\nStartLimitIntervalSec=0\n\n[Service]\n";
    for address in host.addresses.iter().map(toml::Spanned::get_ref) {
        let prefix = inventory.network.prefixes.get_ref().iter().find(|it| it.contains(*address));
        let length = prefix.map_or(32, weft_control::prefix::Prefix::length);
        let nodad = if address.is_ipv6() { " nodad" } else { "" };
        let _ = writeln!(text, "ExecStartPre=ip address replace {address}/{length} dev {device}{nodad}");
    }
    text
}
