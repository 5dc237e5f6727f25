//! The directory of a lab of tenants: whoever places VMs says where they are, which here is the lab. Its servers are reached in tenant 1.

use std::path::Path;

use serde_json::{Value, json};
use weft_control::netlord::tenants::Tenants;

use super::files::{Files, name_of};
use crate::directory::{Directory, lines, new_secret, principal};
use crate::error::Result;
use crate::plan::tenants::{Netlord, Vm};
use crate::plan::{Plan, Role};
use crate::vl2::files::write_private;

/// Writes secret, keys, policy and mappings.
pub(super) fn write(plan: &Plan, netlord: &Netlord, files: &Files) -> Result<()> {
    let Some(directory) = Directory::of(plan, &files.folder) else { return Ok(()) };
    let secret = new_secret()?;
    let put = |name: &str, text: &str| write_private(&files.folder.join(name), text);
    put("secret", &format!("{}\n", secret.to_hex()))?;
    for (at, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Host) {
        put(&format!("{}.key", name_of(node)), &format!("{}\n", secret.key_of(principal(at)).to_hex()))?;
    }
    let service = service(netlord);
    let policy =
        format!("version = 1\n\n[[service]]\nname = \"tenants\"\nid = {service}\nallow = []\n{}", directory.principals());
    put("policy.toml", &policy)?;
    let all: Vec<Value> = netlord.vms.iter().flat_map(|vm| bindings(plan, netlord, vm, vm.host)).collect();
    put("mappings.jsonl", &lines(&all))
}

/// Tells the directory of a plan, if there is one, that a VM is on this host.
pub(super) fn place(plan: &Plan, netlord: &Netlord, vm: &Vm, host: usize, folder: &Path) -> Result<()> {
    let Some(directory) = Directory::of(plan, folder) else { return Ok(()) };
    write_private(&folder.join(MOVED), &lines(&bindings(plan, netlord, vm, host)))?;
    directory.import(MOVED)
}

/// Puts the tenants' file and SPAIN's tables of a lab that stands into its directory's store, for all agents: each keeps files of its own like these.
///
/// # Errors
/// [`LabError`](crate::LabError) if the store has newer ones.
pub fn publish(plan: &Plan) -> Result<()> {
    crate::directory::of_lab(plan, |directory| directory.publish()).unwrap_or(Ok(()))
}

/// What the directory says of a VM on a host: by its MAC address, and by each of its addresses.
fn bindings(plan: &Plan, netlord: &Netlord, vm: &Vm, host: usize) -> Vec<Value> {
    let at = plan.nodes[host].ports[0].peer;
    let place = netlord.switch(at.node).and_then(|switch| Some((switch.mac.as_ref()?, switch.ports[at.port].number?)));
    let Some((switch, port)) = place else { return Vec::new() };
    let (owner, service, space) = (principal(host).0, service(netlord), format!("tenant:{}/{}", vm.id, vm.space));
    let binding = |name: String, mac: Option<&str>| json!({ "key": format!("{space}/{name}"), "locator": format!("edge:{switch}/{port}"), "mac": mac, "service": service, "owner": owner });
    let by_address = vm.addresses.iter().map(|(ip, _)| binding(ip.to_string(), Some(&vm.mac)));
    std::iter::once(binding(vm.mac.clone(), None)).chain(by_address).collect()
}

/// The service of all bindings: what the tenants' file says, or one.
fn service(netlord: &Netlord) -> u32 {
    Tenants::parse(&netlord.file).map_or(0, |tenants| tenants.service.0).max(1)
}

const MOVED: &str = "moved.jsonl";
