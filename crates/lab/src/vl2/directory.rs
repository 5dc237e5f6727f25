//! The files of VL2's directory: secret, keys of the agents, policy, mappings.

use std::fmt::Write as _;

use serde_json::json;
use weft_control::directory::auth::Secret;
use weft_control::vl2::agent::DIRECTORY_GROUP;

use crate::agents::{OverlayFiles, name_of};
use crate::directory::{Directory, mapping_lines, new_secret, principal};
use crate::error::{LabError, Result};
use crate::plan::vl2::{LocatorKind, Vl2};
use crate::plan::{Plan, Role};

/// Writes all of them, and returns the secret.
pub(super) fn write(plan: &Plan, vl2: &Vl2, files: &OverlayFiles) -> Result<Secret> {
    let secret = new_secret()?;
    files.write("secret", &format!("{}\n", secret.to_hex()))?;
    files.write("policy.toml", &policy(plan, vl2, files))?;
    files.write("mappings.jsonl", &mappings(plan, vl2))?;
    for (i, node) in plan.nodes.iter().enumerate().filter(|(_, n)| n.role != Role::Outside) {
        files.write(&format!("{}.key", name_of(node)), &format!("{}\n", secret.key_of(principal(i)).to_hex()))?;
    }
    Ok(secret)
}

/// Reads the secret of a lab that is up.
pub(super) fn read_secret(files: &OverlayFiles) -> Result<Secret> {
    let path = files.path("secret");
    let text = std::fs::read_to_string(&path).map_err(|e| LabError::io("read", &path, e))?;
    Secret::parse(text.trim()).map_err(|e| LabError::io("read", &path, std::io::Error::other(e.to_string())))
}

/// The services, and the principals with their rights.
pub(super) fn policy(plan: &Plan, vl2: &Vl2, files: &OverlayFiles) -> String {
    let mut text = String::from("version = 1\n");
    for service in &vl2.services {
        let names: Vec<String> = service.allow.iter().map(|name| format!("\"{name}\"")).collect();
        let (name, id) = (&service.name, service.id);
        let _ = write!(text, "\n[[service]]\nname = \"{name}\"\nid = {id}\nallow = [{}]\n", names.join(", "));
    }
    text += &Directory::of(plan, files).map_or_else(String::new, |it| it.principals());
    for (i, node) in plan.nodes.iter().enumerate().filter(|(_, n)| n.role != Role::Outside) {
        let role = if node.role == Role::Host { "host" } else { "switch" };
        let moves =
            (vl2.locator == LocatorKind::Tor) == (node.role == Role::Switch) && (vl2.is_tor(i) || node.role == Role::Host);
        if moves || node.role == Role::Switch {
            let _ = write!(text, "\n[[principal]]\nid = {}\nrole = \"{role}\"\n", principal(i).0);
        }
        if moves {
            let _ = writeln!(text, "locators = [\"{}\"]", node.locator);
        }
    }
    text
}

/// The directory's entries, one per line.
pub(super) fn mappings(plan: &Plan, vl2: &Vl2) -> String {
    let mut lines: Vec<serde_json::Value> = Vec::new();
    for (id, address) in (1u16..).zip(&vl2.groups) {
        lines.push(json!({"key": format!("group:{id}"), "addresses": [address]}));
    }
    let servers: Vec<String> = vl2.directory.hosts.iter().map(|&at| plan.nodes[at].locator.to_string()).collect();
    lines.push(json!({"key": format!("group:{}", DIRECTORY_GROUP.0), "addresses": servers}));
    for host in &vl2.hosts {
        let locator = match vl2.locator {
            LocatorKind::Tor => plan.nodes[host.tor].locator,
            LocatorKind::Host => plan.nodes[host.node].locator,
        };
        for address in [host.aa4.to_string(), host.aa6.to_string()] {
            lines.push(json!({
                "key": address, "locator": locator, "group": host.group, "service": host.service, "owner": principal(host.node).0,
            }));
        }
    }
    mapping_lines(&lines)
}
