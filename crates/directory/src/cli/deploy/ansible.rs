//! The Ansible role, its inventory and the variables of each machine. YAML's strings are written as JSON's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toml::Spanned;

use super::files::{ENVIRONMENT, File, Files, STATE, TENANTS, UNITS, heading};
use super::inventory::Inventory;

/// Adds the role for the files that there are.
pub(super) fn add(inventory: &Inventory, files: &mut Files) {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let of_machines = files.iter().filter_map(|(path, file)| Some((path.strip_prefix("hosts/")?.split_once('/')?, file)));
    let mut machines: BTreeMap<&str, Vec<(&str, &File)>> = BTreeMap::new();
    of_machines.for_each(|((name, path), file)| machines.entry(name).or_default().push((path, file)));
    for (name, of_machine) in machines {
        variables.insert(format!("host_vars/{name}.yml"), heading(inventory) + &variables_of(&of_machine));
    }
    files.extend(variables.into_iter().map(|(path, text)| (path, File::plain(text))));
    files.insert("inventory.yml".to_owned(), File::plain(heading(inventory) + &groups(inventory)));
    for (path, text) in ROLE {
        files.insert((*path).to_owned(), File::plain((*text).to_owned()));
    }
}

/// What a machine has and runs.
fn variables_of(files: &[(&str, &File)]) -> String {
    let has = |start: &str| files.iter().any(|(path, _)| path.starts_with(start));
    let units: Vec<&str> = UNITS.iter().filter(|(_, path)| has(path)).map(|it| it.0).collect();
    let entry = |&(path, file): &(&str, &File)| {
        let notify = notify(path);
        let unit = if notify.ends_with("directory") { UNITS[0].0 } else { UNITS[1].0 };
        json!({ "path": format!("/{path}"), "owner": owner(path), "mode": format!("{:04o}", file.mode()), "unit": unit, "notify": notify })
    };
    let list = |is_private: bool| files.iter().filter(|it| it.1.is_private == is_private).map(entry).collect::<Vec<_>>();
    let parents: BTreeSet<&str> = files.iter().filter_map(|(path, _)| Some(path.rsplit_once('/')?.0)).collect();
    let folder = |path: &&str| {
        let is_state = owner(&format!("{path}/")) != "root";
        json!({ "path": format!("/{path}"), "owner": owner(&format!("{path}/")), "mode": if is_state { "0700" } else { "0755" } })
    };
    let lines = |values: Vec<Value>| values.iter().map(|it| format!("  - {it}\n")).collect::<String>();
    let section = |name: &str, values: Vec<Value>| {
        if values.is_empty() { format!("{name}: []\n") } else { format!("{name}:\n{}", lines(values)) }
    };
    format!("weft_units: {}\n", json!(units))
        + &section("weft_folders", parents.iter().map(folder).collect())
        + &section("weft_files", list(false))
        + &section("weft_keys", list(true))
}

/// The server runs as the user `weft`, the agent as root.
fn owner(path: &str) -> &'static str {
    if path.starts_with(STATE) { "weft" } else { "root" }
}

/// What a changed file needs.
fn notify(path: &str) -> &'static str {
    match path {
        _ if path.ends_with("policy.toml") => "Reload directory",
        _ if path.starts_with(STATE) || path == ENVIRONMENT => "Restart directory",
        TENANTS => "Read by agent",
        _ => "Restart agent",
    }
}

/// The machines by what they are; replicas come after the servers that set up their store. `management` is where Ansible reaches one, else its locator address.
fn groups(inventory: &Inventory) -> String {
    let line = |name: &Spanned<String>, management: Option<&String>, address: String| {
        let host = management.cloned().unwrap_or(address);
        format!("        {}: {}\n", json!(name.get_ref()), json!({ "ansible_host": host }))
    };
    let servers = inventory.servers_of(None).into_iter();
    let servers: String = servers.map(|it| line(&it.name, it.management.as_ref(), it.address.get_ref().to_string())).collect();
    // NetLord's machines have no locator address: their name stands for them.
    let named = |name: &Spanned<String>, management: &Option<String>| line(name, management.as_ref(), name.get_ref().clone());
    let netlord = inventory.netlord();
    let bridges = netlord.into_iter().flat_map(|it| it.agents_of_switches().map(|it| named(&it.name, &it.management)));
    let switches = inventory.agents_of_switches().map(|it| line(&it.name, it.management.as_ref(), it.la.get_ref().to_string()));
    let switches: String = switches.chain(bridges).collect();
    let of_netlord = netlord.into_iter().flat_map(|it| it.host.iter().map(|it| named(&it.name, &it.management)));
    let hosts = inventory.host.iter().map(|it| line(&it.name, it.management.as_ref(), it.la.get_ref().to_string()));
    let hosts: String = hosts.chain(of_netlord).collect();
    let group = |name: &str, lines: &str| {
        if lines.is_empty() { format!("    {name}: {{}}\n") } else { format!("    {name}:\n      hosts:\n{lines}") }
    };
    "all:\n  children:\n".to_owned()
        + &group("weft_servers", &servers)
        + &group("weft_switches", &switches)
        + &group("weft_hosts", &hosts)
}

/// The parts that are the same for every inventory.
const ROLE: &[(&str, &str)] = &[
    ("site.yml", include_str!("role/site.yml")),
    ("roles/weft/tasks/main.yml", include_str!("role/tasks/main.yml")),
    ("roles/weft/handlers/main.yml", include_str!("role/handlers/main.yml")),
    ("roles/weft/defaults/main.yml", include_str!("role/defaults/main.yml")),
];
