//! A tenants' file from tenants: what [`Tenants::parse`] reads back as the same.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::super::PUBLIC;
use super::check::PUBLIC_NAME;
use super::edit::quoted;
use super::{Action, Interface, Protocol, Router, Rule, Tenant, Tenants, VifSpec};

impl Tenants {
    /// The file, in order of ids.
    pub fn to_text(&self) -> String {
        let mut out = format!("version = {}\nservice = {}\n", self.version, self.service.0);
        self.tenants.values().for_each(|it| tenant(it, &mut out));
        out
    }
}

fn tenant(it: &Tenant, out: &mut String) {
    let spaces: Vec<u32> = it.spaces.iter().map(|space| space.0).collect();
    let _ = write!(out, "\n[[tenant]]\nid = {}\nname = {}\nspaces = {spaces:?}\n", it.id.0, quoted(&it.name));
    if let Some(readers) = &it.readers {
        let readers: Vec<u32> = readers.iter().map(|principal| principal.0).collect();
        let _ = writeln!(out, "readers = {readers:?}");
    }
    it.vifs.iter().for_each(|vif| write_vif(&it.name, vif, out));
    it.routers.iter().for_each(|router| write_router(&it.name, router, out));
}

fn write_vif(tenant: &str, it: &VifSpec, out: &mut String) {
    let (space, addresses) = (space_of(it), strings(&it.addresses));
    let space = if it.vif.tenant == PUBLIC { quoted(&space) } else { space };
    let _ = write!(out, "\n[[vif]]\ntenant = {}\nname = {}\nspace = {space}\n", quoted(tenant), quoted(&it.name));
    let _ = writeln!(out, "mac = \"{}\"", it.vif.mac);
    if !addresses.is_empty() {
        let _ = writeln!(out, "addresses = {addresses:?}");
    }
}

fn write_router(tenant: &str, it: &Router, out: &mut String) {
    let (tenant, router) = (quoted(tenant), quoted(&it.name));
    let _ = write!(out, "\n[[router]]\ntenant = {tenant}\nname = {router}\ninterfaces = [\n");
    for interface in &it.interfaces {
        let (space, mac, address) = (interface.space.0, interface.mac, address_of(interface));
        let _ = writeln!(out, "  {{ space = {space}, mac = \"{mac}\", address = \"{address}\" }},");
    }
    out.push_str("]\n");
    for route in &it.routes {
        let _ = write!(out, "\n[[route]]\ntenant = {tenant}\nrouter = {router}\n");
        let _ = write!(out, "to = \"{}\"\nvia = \"{}\"\n", route.to, route.via);
    }
    for rule in &it.rules {
        let _ = write!(out, "\n[[rule]]\ntenant = {tenant}\nrouter = {router}\n");
        for (key, value) in keys_of(rule) {
            let value = if value.parse::<u32>().is_ok() { value } else { quoted(&value) };
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}

/// The MAC space of a VIF, as the file has it.
pub(super) fn space_of(it: &VifSpec) -> String {
    if it.vif.tenant == PUBLIC { PUBLIC_NAME.to_owned() } else { it.vif.space.0.to_string() }
}

/// Addresses, as the file has them.
pub(super) fn strings(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// The address of an interface, with its prefix length.
pub(super) fn address_of(it: &Interface) -> String {
    format!("{}/{}", it.address, it.subnet.length())
}

/// The keys of a rule and their values.
pub(super) fn keys_of(it: &Rule) -> Vec<(&'static str, String)> {
    let mut keys = vec![("action", if it.action == Action::Allow { "allow" } else { "deny" }.to_owned())];
    if let Some(protocol) = it.protocol {
        let name = match protocol {
            Protocol::Icmp => "icmp".to_owned(),
            Protocol::Number(6) => "tcp".to_owned(),
            Protocol::Number(17) => "udp".to_owned(),
            Protocol::Number(number) => number.to_string(),
        };
        keys.push(("protocol", name));
    }
    for (key, prefix) in [("from", it.from), ("to", it.to)] {
        keys.extend(prefix.map(|prefix| (key, prefix.to_string())));
    }
    match it.ports {
        Some((low, high)) if low == high => keys.push(("port", low.to_string())),
        Some((low, high)) => keys.push(("port", format!("{low}-{high}"))),
        None => {}
    }
    keys
}
