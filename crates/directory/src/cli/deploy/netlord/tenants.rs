//! The tenants' file of an inventory, and where its VIFs are.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;

use serde_json::{Value, json};
use toml::Spanned;
use weft_control::directory::{Key, Locator};
use weft_control::netlord::tenants::{Tenants, TenantsError, VifSpec};

use super::inventory::{Host, Netlord, NumberOrName, Rule, Vif};
use crate::cli::deploy::files::heading;
use crate::cli::deploy::inventory::Inventory;

/// The tenants, checked.
///
/// # Errors
/// The first thing that is wrong with them.
pub(in crate::cli::deploy) fn tenants(inventory: &Inventory, netlord: &Netlord) -> Result<Tenants, TenantsError> {
    Tenants::parse(&text(inventory, netlord, &netlord.rule))
}

/// The same with other rules than the inventory's.
///
/// # Errors
/// As [`tenants`].
pub(in crate::cli::deploy) fn with_rules(
    inventory: &Inventory,
    netlord: &Netlord,
    rules: &[Rule],
) -> Result<Tenants, TenantsError> {
    Tenants::parse(&text(inventory, netlord, rules))
}

/// The file that agents read.
pub(super) fn file(inventory: &Inventory, netlord: &Netlord) -> String {
    heading(inventory) + &netlord.tenants.to_text()
}

/// As the inventory has them.
fn text(inventory: &Inventory, netlord: &Netlord, rules: &[Rule]) -> String {
    let service = netlord.service.as_ref().and_then(|it| inventory.service_id(it.get_ref())).unwrap_or(0);
    let mut text = format!("version = {}\nservice = {service}\n", inventory.version.get_ref());
    for tenant in &netlord.tenant {
        let _ = write!(text, "[[tenant]]\nid = {}\nname = {}\n", tenant.id.get_ref(), quoted(&tenant.name));
        if let Some(spaces) = &tenant.spaces {
            let _ = writeln!(text, "spaces = [{}]", joined(spaces.iter().map(|it| it.get_ref().to_string())));
        }
        if let Some(readers) = &tenant.readers {
            let principals = readers.iter().filter_map(|it| principal_of(netlord, it.get_ref()));
            let _ = writeln!(text, "readers = [{}]", joined(principals.map(|it| it.to_string())));
        }
    }
    for router in &netlord.router {
        let _ = write!(text, "[[router]]\ntenant = {}\nname = {}\n", quoted(&router.tenant), quoted(&router.name));
        let interfaces = router.interfaces.iter().map(|it| {
            let (space, mac, address) = (it.space.get_ref(), quoted(&it.mac), quoted(&it.address));
            format!("{{ space = {space}, mac = {mac}, address = {address} }}")
        });
        let _ = writeln!(text, "interfaces = [{}]", joined(interfaces));
    }
    netlord.vif.iter().for_each(|it| vif(it, &mut text));
    for it in &netlord.route {
        let _ = write!(text, "[[route]]\ntenant = {}\nrouter = {}\n", quoted(&it.tenant), quoted(&it.router));
        let _ = write!(text, "to = {}\nvia = {}\n", quoted(&it.to), quoted(&it.via));
    }
    rules.iter().for_each(|it| rule(it, &mut text));
    text
}

fn vif(it: &Vif, text: &mut String) {
    let _ = write!(text, "[[vif]]\ntenant = {}\nname = {}\n", quoted(&it.tenant), quoted(&it.name));
    if let Some(space) = &it.space {
        let _ = writeln!(text, "space = {}", number_or_name(space.get_ref()));
    }
    let _ = write!(text, "mac = {}\naddresses = [{}]\n", quoted(&it.mac), joined(it.addresses.iter().map(quoted)));
}

fn rule(it: &Rule, text: &mut String) {
    let _ = write!(text, "[[rule]]\ntenant = {}\nrouter = {}\n", quoted(&it.tenant), quoted(&it.router));
    let _ = writeln!(text, "action = {}", quoted(&it.action));
    for (key, value) in [("from", &it.from), ("to", &it.to)] {
        text.extend(value.as_ref().map(|value| format!("{key} = {}\n", quoted(value))));
    }
    for (key, value) in [("protocol", &it.protocol), ("port", &it.port)] {
        text.extend(value.as_ref().map(|value| format!("{key} = {}\n", number_or_name(value.get_ref()))));
    }
}

fn principal_of(netlord: &Netlord, host: &str) -> Option<u32> {
    let host = netlord.host.iter().find(|it| it.name.get_ref() == host)?;
    host.principal.as_ref().map(|it| *it.get_ref())
}

/// The bindings of placed VIFs, as `weft directory import` reads them: a key for the MAC address, and one for each address.
pub(in crate::cli::deploy) fn bindings(netlord: &Netlord) -> Vec<Value> {
    let tenants = &netlord.tenants;
    let specs: BTreeMap<(&str, &str), &VifSpec> =
        tenants.vifs().map(|(tenant, spec)| ((tenant.name.as_str(), spec.name.as_str()), spec)).collect();
    let of_host = |host: &Host| -> Vec<Value> {
        let (Some(locator), Some(owner)) = (locator(netlord, host), &host.principal) else { return Vec::new() };
        let found = netlord.vifs_of(host).filter_map(|it| specs.get(&(it.tenant.get_ref().as_str(), it.name.get_ref().as_str())));
        found.flat_map(|spec| bindings_of(spec, locator, tenants.service.0, owner)).collect()
    };
    netlord.host.iter().flat_map(of_host).collect()
}

fn bindings_of(spec: &VifSpec, locator: Locator, service: u32, owner: &Spanned<u32>) -> Vec<Value> {
    let (tenant, space, mac) = (spec.vif.tenant, spec.vif.space, spec.vif.mac);
    let (locator, owner) = (locator.to_string(), owner.get_ref());
    let mut lines = vec![
        json!({ "key": Key::TenantMac(tenant, space, mac).to_string(), "locator": locator, "service": service, "owner": owner }),
    ];
    for ip in &spec.addresses {
        let key = match *ip {
            IpAddr::V4(ip) => Key::TenantIp4(tenant, space, ip),
            IpAddr::V6(ip) => Key::TenantIp6(tenant, space, ip),
        };
        let (key, mac) = (key.to_string(), mac.to_string());
        lines.push(json!({ "key": key, "locator": locator, "service": service, "owner": owner, "mac": mac }));
    }
    lines
}

/// Where a server is: it has one uplink.
fn locator(netlord: &Netlord, host: &Host) -> Option<Locator> {
    let uplink = host.uplinks.first()?;
    let (switch, _) = uplink.switch_and_interface()?;
    let switch = netlord.switch.iter().find(|it| it.name.get_ref() == switch)?;
    Some(Locator::Edge { switch: switch.mac.as_ref()?.get_ref().parse().ok()?, port: *uplink.number.get_ref() })
}

fn number_or_name(value: &NumberOrName) -> String {
    match value {
        NumberOrName::Number(number) => number.to_string(),
        NumberOrName::Name(name) => in_quotes(name),
    }
}

fn quoted(text: &Spanned<String>) -> String {
    in_quotes(text.get_ref())
}

/// As TOML has it, whatever is in it.
fn in_quotes(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn joined<T: Display>(values: impl Iterator<Item = T>) -> String {
    values.map(|it| it.to_string()).collect::<Vec<_>>().join(", ")
}
