//! What the programs of an overlay read: secret, keys, policy, mappings, configurations.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use weft_control::directory::auth::Secret;
use weft_control::vl2::agent::DIRECTORY_GROUP;
use weft_control::wire::vl2::attach::{self, AttachKey};

use crate::directory::{self, Directory, new_secret, principal};
use crate::error::{LabError, Result};
use crate::plan::overlay::{AA4, AA6, LocatorKind, MULTICAST, OverlayHost, Vl2};
use crate::plan::{Node, Plan, PortId, Role};

/// The files of an overlay.
pub(super) struct Files {
    pub folder: PathBuf,
}

/// A node's name as files and folders have it: that of its namespace, without what all have in common.
pub(super) fn name_of(node: &Node) -> &str {
    node.namespace.splitn(3, '-').nth(2).unwrap_or(&node.namespace)
}

impl Files {
    /// Writes all of them into a new folder.
    pub fn write(plan: &Plan, vl2: &Vl2, folder: &Path, pins: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| LabError::io("make", folder, e))?;
        let files = Self { folder: folder.to_owned() };
        let secret = new_secret()?;
        files.file("secret", &format!("{}\n", secret.to_hex()))?;
        files.file("policy.toml", &policy(plan, vl2))?;
        files.file("mappings.jsonl", &mappings(plan, vl2))?;
        for (i, node) in plan.nodes.iter().enumerate().filter(|(_, n)| n.role != Role::Outside) {
            files.file(&format!("{}.key", name_of(node)), &format!("{}\n", secret.key_of(principal(i)).to_hex()))?;
            files.configure(plan, vl2, i, &secret, pins)?;
        }
        Ok(files)
    }

    /// Writes the configurations of some nodes anew, after something of the plan has changed.
    pub fn rewrite(&self, plan: &Plan, vl2: &Vl2, nodes: &[usize], pins: &Path) -> Result<()> {
        let path = self.folder.join("secret");
        let text = std::fs::read_to_string(&path).map_err(|e| LabError::io("read", &path, e))?;
        let secret = Secret::parse(text.trim()).map_err(|e| LabError::io("read", &path, std::io::Error::other(e.to_string())))?;
        nodes.iter().try_for_each(|&node| self.configure(plan, vl2, node, &secret, pins))
    }

    fn configure(&self, plan: &Plan, vl2: &Vl2, node: usize, secret: &Secret, pins: &Path) -> Result<()> {
        let text = match vl2.host(node) {
            Some(host) => self.of_host(plan, vl2, host, pins),
            None => self.of_switch(plan, vl2, node, secret, pins),
        };
        self.file(&format!("{}.toml", name_of(&plan.nodes[node])), &text)
    }

    /// The path of a file, as text; of the folder itself for no name.
    pub fn text(&self, name: &str) -> String {
        if name.is_empty() { self.folder.display().to_string() } else { self.folder.join(name).display().to_string() }
    }

    fn file(&self, name: &str, text: &str) -> Result<()> {
        write_private(&self.folder.join(name), text)
    }

    /// What every agent is told.
    fn common(&self, plan: &Plan, node: usize, pins: &Path) -> String {
        let name = name_of(&plan.nodes[node]);
        let servers = Directory::of(plan, &self.folder).map_or_else(String::new, |it| it.list());
        format!(
            "metrics = \"off\"\nprincipal = {}\nkey = \"{}\"\ndirectory = {servers}\nprefixes = [\"{AA4}\", \"{AA6}\"]\nla = \"{}\"\nsocket = \"{}\"\npins = \"{}\"\n",
            principal(node).0,
            self.text(&format!("{name}.key")),
            plan.nodes[node].locator,
            self.text(&format!("{name}.sock")),
            pins.join(name).display(),
        )
    }

    fn of_host(&self, plan: &Plan, vl2: &Vl2, host: &OverlayHost, pins: &Path) -> String {
        let mut text = String::from("role = \"host\"\ndevice = \"eth0\"\n");
        text += &self.common(plan, host.node, pins);
        let kind = if vl2.locator == LocatorKind::Tor { "tor" } else { "host" };
        let via = if vl2.groups.is_empty() { "none" } else { "group" };
        let _ = writeln!(text, "locator = \"{kind}\"\nintermediate = \"{via}\"\nentropy = \"{}\"", host.entropy);
        if plan.has_multicast() {
            let _ = writeln!(text, "multicast = \"{MULTICAST}\"");
        }
        if vl2.locator == LocatorKind::Tor {
            let _ = writeln!(text, "tor = \"{}:{}\"", plan.nodes[host.tor].locator, attach::PORT);
        }
        // Kernel memory of many hosts on one machine.
        let _ = write!(text, "\n[limits]\npeers = {PEERS}\nflows = {FLOWS}\n");
        let _ = write!(text, "\n[[address]]\naddress = \"{}\"\n\n[[address]]\naddress = \"{}\"\n", host.aa4, host.aa6);
        text
    }

    fn of_switch(&self, plan: &Plan, vl2: &Vl2, node: usize, secret: &Secret, pins: &Path) -> String {
        let mut text = String::from("role = \"switch\"\n");
        text += &self.common(plan, node, pins);
        let ports = plan.nodes[node].ports.iter().enumerate().filter(|&(port, _)| plan.is_plugged(PortId { node, port }));
        let ports: Vec<String> = ports.map(|(_, p)| format!("\"{}\"", p.name)).collect();
        let _ = writeln!(text, "ports = [{}]", ports.join(", "));
        if vl2.intermediates.contains(&node) {
            let list = |addresses: &mut dyn Iterator<Item = String>| addresses.collect::<Vec<_>>().join(", ");
            let members = list(&mut vl2.intermediates.iter().map(|&i| format!("\"{}\"", plan.nodes[i].locator)));
            let groups = list(&mut vl2.groups.iter().map(|g| format!("\"{g}\"")));
            let _ =
                writeln!(text, "\n[intermediate]\nswitches = [{members}]\nanycast = [{groups}]\necmp_width = {}", vl2.ecmp_width);
        }
        if vl2.is_tor(node) && vl2.locator == LocatorKind::Tor {
            let _ = writeln!(text, "\n[tor]");
            for host in vl2.hosts.iter().filter(|h| h.tor == node) {
                let key = AttachKey::of(&secret.key_of(principal(host.node))).to_hex();
                let (port, la) = (&plan.nodes[node].ports[host.port].name, plan.nodes[host.node].locator);
                let number = principal(host.node).0;
                let _ = write!(
                    text,
                    "\n[[tor.host]]\nprincipal = {number}\nattach_key = \"{key}\"\nport = \"{port}\"\naddress = \"{la}\"\n"
                );
            }
        }
        text
    }
}

/// Writes a file that nobody else can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|e| LabError::io("write", path, e))
}

/// Services, and who is more than a host.
fn policy(plan: &Plan, vl2: &Vl2) -> String {
    let mut text = String::from("version = 1\n");
    for service in &vl2.services {
        let names: Vec<String> = service.allow.iter().map(|name| format!("\"{name}\"")).collect();
        let (name, id) = (&service.name, service.id);
        let _ = write!(text, "\n[[service]]\nname = \"{name}\"\nid = {id}\nallow = [{}]\n", names.join(", "));
    }
    text += &Directory::of(plan, Path::new("")).map_or_else(String::new, |it| it.principals());
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

/// The directory's entries, a line each.
fn mappings(plan: &Plan, vl2: &Vl2) -> String {
    let mut lines: Vec<serde_json::Value> = Vec::new();
    for (id, address) in (1u16..).zip(&vl2.groups) {
        lines.push(json!({"key": format!("group:{id}"), "addresses": [address]}));
    }
    let servers: Vec<String> = vl2.directory.iter().map(|&at| plan.nodes[at].locator.to_string()).collect();
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
    directory::lines(&lines)
}

const PEERS: u32 = 4096;
const FLOWS: u32 = 4096;

#[cfg(test)]
mod tests {
    use weft_control::directory::ServiceId;
    use weft_control::directory::policy::Policy;

    use super::*;
    use crate::plan::overlay::{Overlay, ServiceSpec};
    use crate::plan::{Routing, Settings};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Bytes, Duration};

    fn plan(locator: LocatorKind) -> Plan {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
        let shape = Shape::ClosExplicit { intermediates: 3, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
        let fabric = shape.build(link, link).expect("a fabric");
        let settings = Settings {
            name: "t".parse().expect("a name"),
            routing: Routing::Frr,
            timers: crate::plan::Timers::FAST,
            scale: 0.01,
            seed: 1,
            switch_queue: Bytes(100_000),
            nic_queue: Bytes(100_000),
        };
        let service = |name: &str, hosts: &[u32], allow: &[&str]| ServiceSpec {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
            allow: allow.iter().map(ToString::to_string).collect(),
        };
        let services = vec![service("web", &[0], &["db"]), service("db", &[1, 2], &["web"])];
        let overlay = Overlay { locator, ecmp_width: 2, services, external: Vec::new() };
        Plan::new(&fabric, &settings).and_then(|p| p.with_overlay(&fabric, &overlay)).expect("a plan")
    }

    #[test]
    fn an_overlay_as_its_programs_read_it() {
        let plan = plan(LocatorKind::Tor);
        let vl2 = plan.overlay.as_ref().expect("an overlay");
        let files = Files { folder: PathBuf::from("/lab/vl2") };
        let secret = Secret::new([7; 32]);
        let node = |name: &str| plan.nodes.iter().position(|n| n.name == name).expect("a node");
        let pins = Path::new("/pins");
        let text = [
            policy(&plan, vl2),
            mappings(&plan, vl2),
            files.of_host(&plan, vl2, &vl2.hosts[3], pins),
            files.of_switch(&plan, vl2, node("tor1"), &secret, pins),
            files.of_switch(&plan, vl2, node("int0"), &secret, pins),
            files.of_switch(&plan, vl2, node("agg0"), &secret, pins),
        ];
        insta::assert_snapshot!(text.join("\n====\n"));
    }

    #[test]
    fn the_policy_is_one_and_says_what_the_plan_says() {
        for locator in [LocatorKind::Tor, LocatorKind::Host] {
            let plan = plan(locator);
            let vl2 = plan.overlay.as_ref().expect("an overlay");
            let policy = Policy::parse(&policy(&plan, vl2)).expect("a policy");
            for (a, b) in (1..=3).flat_map(|a| (1..=3).map(move |b| (a, b))) {
                assert_eq!(policy.may_resolve(ServiceId(a), ServiceId(b)), vl2.may_resolve(a, b), "{a} {b}");
            }
            assert!(vl2.may_talk(1, 2) && !vl2.may_talk(1, 3));
            for (i, node) in plan.nodes.iter().enumerate() {
                let brings = node.role == Role::Switch && vl2.is_tor(i) && locator == LocatorKind::Tor;
                assert_eq!(policy.resolves_addresses(principal(i)), brings, "{}", node.name);
            }
        }
    }
}
