//! `weft deploy check`: a planned folder, or a machine, compared with the inventory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use weft_control::netlord::PROVIDER;

use super::error::{DeployError, Result};
use super::files::{ADMINISTRATION, File, Files, OWN, UNITS, of_machine};
use super::folder::{Manifest, digest, is_interrupted};
use super::inventory::Inventory;
use super::netlord::inventory::{Role, Vif};
use crate::cli::connect::ConnectArgs;
use crate::cli::transfer;
use crate::daemon::socket::ask;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// The file, unit or daemon.
    pub what: String,
    /// How it differs.
    pub difference: String,
}

impl Difference {
    fn new(what: impl Into<String>, difference: impl Into<String>) -> Self {
        Self { what: what.into(), difference: difference.into() }
    }
}

/// What a folder has, compared with what a plan of the inventory has.
pub(super) fn folder(dir: &Path, manifest: &Manifest, files: &Files) -> Vec<Difference> {
    let mut found = Vec::new();
    if is_interrupted(dir) {
        found.push(Difference::new(".staging", "an update of the folder was interrupted: plan again"));
    }
    if !manifest.is_own_version() {
        found.push(Difference::new("manifest.json", format!("written by version {} of weft: plan again", manifest.weft)));
    }
    for (path, file) in files {
        found.extend(in_folder(&dir.join(path), file, manifest.digest_of(path)).map(|it| Difference::new(path, it)));
    }
    let is_kept_elsewhere = |path: &str| path == format!("{ADMINISTRATION}ca.key");
    let gone = manifest.files.keys().filter(|path| !files.contains_key(*path) && !is_kept_elsewhere(path));
    found.extend(gone.map(|path| Difference::new(path, "stale: the inventory has it no longer")));
    found
}

/// How a file of a folder differs from a plan; `recorded` is its digest when it was written.
fn in_folder(path: &Path, file: &File, recorded: Option<&str>) -> Option<String> {
    match fs::read(path) {
        Ok(bytes) if bytes == file.content.as_bytes() => mode_of(path, file),
        Ok(bytes) if recorded == Some(digest(&bytes).as_str()) => Some("stale: the inventory has changed".to_owned()),
        Ok(_) => Some("changed by hand".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("missing".to_owned()),
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}

fn mode_of(path: &Path, file: &File) -> Option<String> {
    let mode = path.metadata().map_or(0, |it| it.mode() & 0o7777);
    // The administrator may restrict more, not less.
    (mode & !file.mode() != 0).then(|| format!("mode {mode:04o}, not {:04o}", file.mode()))
}

/// What a machine has below `root`, compared with its planned files. Without the cluster's keys, only whether its keys are there.
pub(super) fn installed(root: &Path, name: &str, files: &Files, has_keys: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    let folder = of_machine(name);
    for (path, file) in files.iter().filter_map(|(path, file)| Some((path.strip_prefix(&folder)?, file))) {
        let difference = match fs::read_to_string(root.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("missing".to_owned()),
            Err(error) => Some(format!("cannot be read: {error}")),
            Ok(text) if is_planned(&text, file, has_keys) => mode_of(&root.join(path), file),
            Ok(_) if file.is_key => Some("of another cluster or machine, or an older one".to_owned()),
            Ok(text) => Some(differs(&text, &file.content)),
        };
        found.extend(difference.map(|it| Difference::new(format!("/{path}"), it)));
    }
    let not_planned = OWN.iter().filter(|path| !files.contains_key(&format!("{folder}{path}")) && root.join(path).exists());
    found.extend(not_planned.map(|path| Difference::new(format!("/{path}"), "installed, and not in the inventory")));
    found
}

/// Without keys, keys and the lines made of them are not compared.
fn is_planned(text: &str, file: &File, has_keys: bool) -> bool {
    let is_plain = |line: &&str| !line.starts_with("attach_key = ");
    match has_keys {
        true => text == file.content,
        false => file.is_key || text.lines().filter(is_plain).eq(file.content.lines().filter(is_plain)),
    }
}

/// The first line that differs.
fn differs(text: &str, planned: &str) -> String {
    let lines = (1..).zip(text.lines().map(Some).chain([None]).zip(planned.lines().map(Some).chain([None])));
    let first = lines.into_iter().find(|(_, (has, planned))| has != planned);
    match first {
        Some((_, (_, Some(planned)))) if planned.starts_with("attach_key") => "an attach key differs".to_owned(),
        Some((line, (Some(has), Some(planned)))) => format!("line {line} is `{has}`, not `{planned}`"),
        Some((line, (None, _))) => format!("ends before line {line}"),
        Some((line, (_, None))) => format!("goes on at line {line}"),
        None => "differs".to_owned(),
    }
}

/// Whether the units of a machine are active; none without systemd.
pub(super) fn units(name: &str, files: &Files) -> Vec<Difference> {
    if !Path::new("/run/systemd/system").exists() {
        return Vec::new();
    }
    let runs = |path: &str| files.keys().any(|it| it.starts_with(&format!("{}{path}", of_machine(name))));
    let inactive = |unit: &str| {
        let output = Command::new("systemctl").args(["is-active", unit]).output();
        let said = |it: std::process::Output| String::from_utf8_lossy(&[it.stdout, it.stderr].concat()).trim().to_owned();
        let state = output.map_or_else(|error| error.to_string(), said);
        (state != "active")
            .then(|| Difference::new(format!("{unit}.service"), format!("{state}, not active: systemctl start {unit}")))
    };
    UNITS.iter().filter(|(_, path)| runs(path)).filter_map(|(unit, _)| inactive(unit)).collect()
}

/// The running agent's status, compared with the inventory.
pub(super) fn agent(inventory: &Inventory, name: &str, socket: &Path) -> Vec<Difference> {
    let planned = planned_agent(inventory, name);
    let Some(planned) = planned else { return Vec::new() };
    match ask(socket, &json!({ "command": "status" }), ANSWER) {
        Err(error) => vec![Difference::new("weft-agent", format!("{error}"))],
        Ok(status) => compare(&status, &planned),
    }
}

/// What running servers have, compared with the mappings of a folder.
///
/// # Errors
/// No server answers.
pub(super) fn mappings(dir: &Path) -> crate::cli::Result<Vec<Difference>> {
    let folder = dir.join(ADMINISTRATION);
    let settings = ConnectArgs::of_folder(folder.clone()).settings()?;
    let found = transfer::differences(&settings, &folder.join("mappings.jsonl"))?;
    Ok(found.into_iter().map(|(key, difference)| Difference::new(format!("mapping {key}"), difference)).collect())
}

/// What the status of a machine's agent should have.
enum PlannedAgent {
    Vl2 {
        principal: u32,
        la: String,
        /// None of a switch.
        addresses: Option<Vec<String>>,
    },
    Netlord {
        role: &'static str,
        /// VIFs by tenant and name, with their interfaces; those without are attached at run time, or not.
        vifs: BTreeMap<(String, String), Option<String>>,
    },
}

fn planned_agent(inventory: &Inventory, name: &str) -> Option<PlannedAgent> {
    if let Some(host) = inventory.host.iter().find(|it| it.name.get_ref() == name) {
        let addresses = host.addresses.iter().map(|it| it.get_ref().to_string()).collect();
        let (principal, la) = (*host.principal.get_ref(), host.la.get_ref().to_string());
        return Some(PlannedAgent::Vl2 { principal, la, addresses: Some(addresses) });
    }
    if let Some(netlord) = inventory.netlord() {
        if let Some(host) = netlord.host.iter().find(|it| it.name.get_ref() == name) {
            let text = |it: &toml::Spanned<String>| it.get_ref().clone();
            let of = |it: &Vif| ((text(&it.tenant), text(&it.name)), it.device.as_ref().map(text));
            return Some(PlannedAgent::Netlord { role: "host", vifs: netlord.vifs_of(host).map(of).collect() });
        }
        if let Some(switch) = netlord.agents_of_switches().find(|it| it.name.get_ref() == name) {
            let role = if switch.role == Role::Edge { "edge" } else { "core" };
            return Some(PlannedAgent::Netlord { role, vifs: BTreeMap::new() });
        }
    }
    let switch = inventory.agents_of_switches().find(|it| it.name.get_ref() == name)?;
    let principal = *switch.principal.as_ref()?.get_ref();
    Some(PlannedAgent::Vl2 { principal, la: switch.la.get_ref().to_string(), addresses: None })
}

fn compare(status: &Value, planned: &PlannedAgent) -> Vec<Difference> {
    let problems = status["problems"].as_array().into_iter().flatten();
    let mut found: Vec<String> = problems.map(|it| format!("problem: {}", it.as_str().unwrap_or_default())).collect();
    let version = status["version"].as_str().unwrap_or_default();
    if version != env!("CARGO_PKG_VERSION") {
        let own = env!("CARGO_PKG_VERSION");
        found.push(format!("runs version {version}, and {own} is installed: systemctl restart weft-agent"));
    }
    match planned {
        PlannedAgent::Vl2 { principal, la, addresses } => {
            if status["principal"] != *principal {
                found.push(format!("runs as principal {}, not {principal}: restart it", status["principal"]));
            }
            if status["la"] != **la {
                found.push(format!("has the locator address {}, not {la}", status["la"]));
            }
            found.extend(addresses.iter().flat_map(|planned| addresses_differ(status, planned)));
        }
        PlannedAgent::Netlord { role, vifs } => {
            if status["role"] != **role {
                found.push(format!("runs as {}, not as {role}: restart it", status["role"]));
            }
            found.extend(vifs_differ(status, vifs));
        }
    }
    found.into_iter().map(|it| Difference::new("weft-agent", it)).collect()
}

fn addresses_differ(status: &Value, planned: &[String]) -> Vec<String> {
    let list = status["addresses"].as_array().into_iter().flatten();
    let running: Vec<&str> = list.filter_map(|it| it["address"].as_str()).collect();
    let missing = planned.iter().filter(|it| !running.contains(&it.as_str()));
    let missing = missing.map(|it| format!("has no address {it}: restart it"));
    let more = running.iter().filter(|it| !planned.iter().any(|planned| planned == *it));
    missing.chain(more.map(|it| format!("has address {it}, which is not in the inventory"))).collect()
}

/// The provider's own VIF is none of the inventory's.
fn vifs_differ(status: &Value, planned: &BTreeMap<(String, String), Option<String>>) -> Vec<String> {
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let list = status["vifs"].as_array().into_iter().flatten().filter(|it| it["id"] != PROVIDER.0);
    let running: BTreeMap<(String, String), String> =
        list.map(|it| ((text(it, "tenant"), text(it, "name")), text(it, "device"))).collect();
    let mut found = Vec::new();
    for (vif @ (tenant, name), device) in planned {
        match (device, running.get(vif)) {
            (Some(device), None) => found.push(format!("has no VIF {tenant}/{name}: is its interface {device} there?")),
            (Some(device), Some(at)) if at != device => {
                found.push(format!("has VIF {tenant}/{name} at {at}, not at {device}: restart it"));
            }
            _ => {}
        }
    }
    let more = running.iter().filter(|(vif, _)| !planned.contains_key(*vif));
    found.extend(
        more.map(|((tenant, name), at)| format!("has VIF {tenant}/{name} at {at}, which the inventory does not place here")),
    );
    found
}

/// A machine of the inventory.
///
/// # Errors
/// [`DeployError`] if there is none of this name.
pub(super) fn known(name: &str, machines: &[String]) -> Result<()> {
    if machines.iter().any(|it| it == name) {
        return Ok(());
    }
    Err(DeployError::NoMachine { name: name.to_owned(), known: machines.join(", ") })
}

/// Where the agent of a machine listens.
pub(super) const SOCKET: &str = "run/weft/agent.sock";
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(differs("a\nb\n", "a\nc\n"), "line 2 is `b`, not `c`");
        assert_eq!(differs("a\n", "a\nc\n"), "ends before line 2");
        assert_eq!(differs("a\nb\n", "a\n"), "goes on at line 2");
    }

    #[test]
    fn a_status_is_compared_with_the_inventory() {
        let planned = PlannedAgent::Vl2 {
            principal: 7,
            la: "10.1.1.2".into(),
            addresses: Some(vec!["20.0.0.1".into(), "20.0.0.2".into()]),
        };
        let own = env!("CARGO_PKG_VERSION");
        let status = |address: &str| json!({ "problems": [], "version": own, "principal": 7, "la": "10.1.1.2", "addresses": [{ "address": "20.0.0.1" }, { "address": address }] });
        assert_eq!(compare(&status("20.0.0.2"), &planned), []);
        let other = compare(&status("20.0.0.9"), &planned);
        let lines: Vec<&str> = other.iter().map(|it| it.difference.as_str()).collect();
        assert_eq!(lines, ["has no address 20.0.0.2: restart it", "has address 20.0.0.9, which is not in the inventory"]);
        let old = json!({ "problems": ["mtu: low"], "version": "0.0.9", "principal": 8, "la": "10.1.1.3", "addresses": [{ "address": "20.0.0.1" }, { "address": "20.0.0.2" }] });
        assert_eq!(compare(&old, &planned).len(), 4);
    }

    #[test]
    fn vifs_are_compared_with_the_inventory() {
        let vif = |tenant: &str, name: &str| (tenant.to_owned(), name.to_owned());
        let vifs = BTreeMap::from([(vif("acme", "web1"), Some("tap0".to_owned())), (vif("acme", "web2"), None)]);
        let planned = PlannedAgent::Netlord { role: "host", vifs };
        let own = env!("CARGO_PKG_VERSION");
        let status = |vifs: Value| json!({ "problems": [], "version": own, "role": "host", "vifs": vifs });
        let of = |tenant: &str, name: &str, device: &str| json!({ "id": 17, "tenant": tenant, "name": name, "device": device });
        let provider = json!({ "id": 1, "tenant": "provider", "name": "weft1", "device": "weft1-vif" });
        assert_eq!(compare(&status(json!([of("acme", "web1", "tap0"), provider])), &planned), []);
        assert_eq!(compare(&status(json!([of("acme", "web1", "tap0"), of("acme", "web2", "tap7")])), &planned), []);
        let other = compare(&status(json!([of("acme", "web1", "tap1"), of("globex", "web1", "tap2")])), &planned);
        let lines: Vec<&str> = other.iter().map(|it| it.difference.as_str()).collect();
        let expected = [
            "has VIF acme/web1 at tap1, not at tap0: restart it",
            "has VIF globex/web1 at tap2, which the inventory does not place here",
        ];
        assert_eq!(lines, expected);
        let none = compare(&json!({ "problems": [], "version": own, "role": "edge", "vifs": [] }), &planned);
        assert_eq!(none.len(), 2, "{none:?}");
    }
}
