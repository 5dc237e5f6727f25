//! The files of NetLord's directory: secret, keys of the agents, policy, mappings of VMs to locations. Its servers have addresses in tenant 1.

use serde_json::{Value, json};
use weft_control::netlord::tenants::Tenants;

use crate::agents::{OverlayFiles, name_of};
use crate::directory::{Directory, mapping_lines, new_secret, principal};
use crate::error::Result;
use crate::plan::netlord::{Netlord, Vm};
use crate::plan::{Plan, Role};

/// Writes all of them, if the plan has a directory.
pub(super) fn write(plan: &Plan, netlord: &Netlord, files: &OverlayFiles) -> Result<()> {
    let Some(directory) = Directory::of(plan, files) else { return Ok(()) };
    let secret = new_secret()?;
    files.write("secret", &format!("{}\n", secret.to_hex()))?;
    for (at, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Host) {
        files.write(&format!("{}.key", name_of(node)), &format!("{}\n", secret.key_of(principal(at)).to_hex()))?;
    }
    let service = service(netlord);
    let policy =
        format!("version = 1\n\n[[service]]\nname = \"tenants\"\nid = {service}\nallow = []\n{}", directory.principals());
    files.write("policy.toml", &policy)?;
    let all: Vec<Value> = netlord.vms.iter().flat_map(|vm| bindings(plan, netlord, vm, vm.host)).collect();
    files.write("mappings.jsonl", &mapping_lines(&all))
}

/// Reports the new location of a VM to the directory of a plan, if there is one.
pub(super) fn place(plan: &Plan, netlord: &Netlord, vm: &Vm, host: usize) -> Result<()> {
    let files = OverlayFiles::of(plan);
    let Some(directory) = Directory::of(plan, &files) else { return Ok(()) };
    files.write(MOVED, &mapping_lines(&bindings(plan, netlord, vm, host)))?;
    directory.import(MOVED)
}

/// Publishes the tenants' file and SPAIN's tables of a lab as documents of its directory's store; each agent keeps copies of them.
///
/// # Errors
/// [`LabError`](crate::LabError) if the store has newer documents.
pub fn publish(plan: &Plan) -> Result<()> {
    Directory::of_lab(plan).map_or(Ok(()), |directory| directory.publish())
}

/// The mappings of a VM on a host: of its MAC address, and of each of its addresses.
fn bindings(plan: &Plan, netlord: &Netlord, vm: &Vm, host: usize) -> Vec<Value> {
    let at = plan.nodes[host].ports[0].peer;
    let place = netlord.switch(at.node).and_then(|switch| Some((switch.mac.as_ref()?, switch.ports[at.port].number?)));
    let Some((switch, port)) = place else { return Vec::new() };
    let (owner, service, space) = (principal(host).0, service(netlord), format!("tenant:{}/{}", vm.id, vm.space));
    let binding = |name: String, mac: Option<&str>| json!({ "key": format!("{space}/{name}"), "locator": format!("edge:{switch}/{port}"), "mac": mac, "service": service, "owner": owner });
    let by_address = vm.addresses.iter().map(|(ip, _)| binding(ip.to_string(), Some(&vm.mac)));
    std::iter::once(binding(vm.mac.clone(), None)).chain(by_address).collect()
}

/// The service of all mappings: that of the tenants' file, or 1.
fn service(netlord: &Netlord) -> u32 {
    Tenants::parse(&netlord.file).map_or(0, |tenants| tenants.service.0).max(1)
}

const MOVED: &str = "moved.jsonl";
