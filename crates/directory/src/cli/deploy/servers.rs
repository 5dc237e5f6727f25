//! The files of directory servers, and those of the administrator: secret, authority, policy, mappings.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::json;
use toml::Spanned;
use weft_control::prefix::Prefix;
use weft_control::vl2::agent::DIRECTORY_GROUP;

use super::error::Result;
use super::files::{ADMINISTRATION, ENVIRONMENT, File, Files, STATE, heading, of_machine, principal, quoted};
use super::inventory::{Inventory, LocatorMode, Server, SwitchRole};
use super::keys::Keys;
use super::netlord::tenants::bindings;
use super::parts::{Part, Tenants};
use crate::cli::connect::Auth;

/// The files of the administrator.
pub(super) fn administration(inventory: &Inventory, keys: &mut Keys) -> Result<Files> {
    let mut files = Files::new();
    if !inventory.has_directory() {
        return Ok(files);
    }
    let mut add = |name: &str, file: File| drop(files.insert(format!("{ADMINISTRATION}{name}"), file));
    let admin = keys.certificate(&format!("{ADMINISTRATION}admin.pem"), principal(&inventory.directory.admin), &[])?;
    add("secret", File::key(keys.secret_text()));
    add("ca.pem", File::certificate(keys.authority().to_owned()));
    if let Some(key) = keys.authority_key() {
        add("ca.key", File::key(key.to_owned()));
    }
    add("admin.pem", File::certificate(admin.certificate));
    add("admin.key", File::key(admin.key));
    add("policy.toml", File::plain(policy(inventory)));
    add("mappings.jsonl", File::plain(mappings(inventory)));
    let (servers, auth) = (quoted(inventory.contact_addresses()), auth(inventory));
    let client = format!("servers = [{servers}]\nprincipal = {}\nauth = \"{auth}\"\n", inventory.directory.admin.get_ref());
    add("client.toml", File::plain(heading(inventory) + &client));
    Ok(files)
}

/// Adds the files of a server's machine.
pub(super) fn server(inventory: &Inventory, server: &Server, keys: &mut Keys, files: &mut Files) -> Result<()> {
    let folder = of_machine(server.name.get_ref());
    let state = format!("{folder}{STATE}");
    let names =
        [server.address.get_ref().to_string(), server.name.get_ref().clone(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let path = format!("{state}server.pem");
    let pair = keys.certificate(&path, principal(&server.principal), &names)?;
    files.insert(path, File::certificate(pair.certificate));
    files.insert(format!("{state}server.key"), File::key(pair.key));
    files.insert(format!("{state}secret"), File::key(keys.secret_text()));
    files.insert(format!("{state}ca.pem"), File::certificate(keys.authority().to_owned()));
    files.insert(format!("{state}policy.toml"), File::plain(policy(inventory)));
    let environment = format!("LISTEN={}\nARGUMENTS={}\n", inventory.address_of(server), arguments(inventory, server));
    files.insert(format!("{folder}{ENVIRONMENT}"), File::plain(heading(inventory) + &environment));
    Ok(())
}

/// The arguments of `weft directory serve`, but for its address.
fn arguments(inventory: &Inventory, server: &Server) -> String {
    let (number, metrics) = (server.principal.get_ref(), inventory.directory.metrics.get_ref());
    let mut arguments = format!("--principal {number} --auth {} --metrics {metrics}", auth(inventory));
    let part = inventory.part_of(server);
    if let Some(part) = part {
        let _ = write!(arguments, " --part {}", part.name.get_ref());
    }
    if server.replica {
        arguments += " --replica";
    }
    for peer in inventory.servers_of(part).into_iter().filter(|it| it.name.get_ref() != server.name.get_ref()) {
        let _ = write!(arguments, " --peer {}", inventory.address_of(peer));
    }
    if let Some(etcd) = inventory.etcd_of(part) {
        let _ = write!(arguments, " --store etcd:{}", etcd.get_ref().join(","));
        for (option, file) in inventory.directory.etcd_files() {
            let _ = write!(arguments, " --{option} {}", file.get_ref());
        }
        if inventory.directory.etcd_plaintext {
            arguments += " --etcd-plaintext";
        }
    }
    arguments
}

fn auth(inventory: &Inventory) -> &'static str {
    match inventory.auth() {
        Auth::Tls => "tls",
        Auth::Mac => "mac",
    }
}

/// The parts, the services, and the principals with their rights.
fn policy(inventory: &Inventory) -> String {
    let mut text = heading(inventory) + &format!("version = {}\n", inventory.version.get_ref());
    text.extend(inventory.directory.part.iter().map(|part| part_section(part, &inventory.addresses_of(Some(part)))));
    for service in &inventory.service {
        let names = |list: &[Spanned<String>]| quoted(list.iter().map(Spanned::get_ref));
        let (name, id) = (service.name.get_ref(), service.id.get_ref());
        let _ = write!(text, "\n[[service]]\nname = \"{name}\"\nid = {id}\nallow = [{}]\n", names(&service.allow));
        if !service.deny.is_empty() {
            let _ = writeln!(text, "deny = [{}]", names(&service.deny));
        }
    }
    let mut add = |principal: u32, role: &str, locator: Option<String>| {
        let _ = write!(text, "\n[[principal]]\nid = {principal}\nrole = \"{role}\"\n");
        if let Some(locator) = locator {
            let _ = writeln!(text, "locators = [\"{locator}\"]");
        }
    };
    inventory.directory.server.iter().for_each(|it| add(*it.principal.get_ref(), "server", None));
    add(*inventory.directory.admin.get_ref(), "admin", None);
    let is_tor = inventory.network.locator == LocatorMode::Tor;
    for switch in inventory.agents_of_switches() {
        let writes = is_tor && switch.role == SwitchRole::Tor;
        if let Some(number) = &switch.principal {
            add(*number.get_ref(), "switch", writes.then(|| switch.la.get_ref().to_string()));
        }
    }
    for host in inventory.host.iter().filter(|_| !is_tor) {
        add(*host.principal.get_ref(), "host", Some(host.la.get_ref().to_string()));
    }
    text
}

/// A part's section of the policy.
fn part_section(part: &Part, servers: &[SocketAddr]) -> String {
    let mut text = format!("\n[[part]]\nname = \"{}\"\nservers = [{}]\n", part.name.get_ref(), quoted(servers));
    if part.default {
        text += "default = true\n";
    }
    let mut keys = |start: &str, prefixes: &[Spanned<Prefix>], tenants: &[Spanned<Tenants>]| {
        if !prefixes.is_empty() {
            let _ = writeln!(text, "{start}prefixes = [{}]", quoted(prefixes.iter().map(Spanned::get_ref)));
        }
        if !tenants.is_empty() {
            let _ = writeln!(text, "{start}tenants = [{}]", quoted(tenants.iter().map(Spanned::get_ref)));
        }
    };
    keys("", &part.prefixes, &part.tenants);
    keys("incoming.", &part.incoming.prefixes, &part.incoming.tenants);
    text
}

/// The directory's entries, one per line, as `weft directory import` reads them.
fn mappings(inventory: &Inventory) -> String {
    let mut lines = Vec::new();
    for (id, address) in (1u16..).zip(inventory.anycast()) {
        lines.push(json!({"key": format!("group:{id}"), "addresses": [address]}));
    }
    let servers: Vec<String> = inventory.contact_addresses().iter().map(|it| it.ip().to_string()).collect();
    lines.push(json!({"key": format!("group:{}", DIRECTORY_GROUP.0), "addresses": servers}));
    for host in &inventory.host {
        let tor = inventory.tor(host).filter(|_| inventory.network.locator == LocatorMode::Tor);
        let locator = tor.map_or(host.la.get_ref(), |it| it.la.get_ref());
        let (group, owner) = (inventory.group(host), host.principal.get_ref());
        let service = inventory.service_id(host.service.get_ref());
        for address in host.addresses.iter().map(Spanned::get_ref) {
            lines.push(json!({"key": address, "locator": locator, "group": group, "service": service, "owner": owner}));
        }
    }
    lines.extend(inventory.netlord().filter(|it| it.is_pull()).into_iter().flat_map(bindings));
    let heading = json!({"weft_directory": 1, "revision": 0, "entries": lines.len()});
    std::iter::once(heading).chain(lines).map(|line| line.to_string() + "\n").collect()
}
