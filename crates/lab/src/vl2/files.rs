//! Configurations of VL2's agents.

use std::fmt::Write as _;
use std::net::IpAddr;

use weft_control::directory::auth::Secret;
use weft_control::wire::vl2::attach::{self, AttachKey};

use crate::agents::{OverlayFiles, name_of, pins};
use crate::directory::ETCD_PORTS;
use crate::directory::{Directory, principal};
use crate::error::Result;
use crate::plan::directory::Store;
use crate::plan::vl2::{AA4, AA6, LocatorKind, MULTICAST, Vl2, Vl2Host};
use crate::plan::{Plan, PortId, Role};

/// Writes the configurations of all agents.
pub(super) fn write(plan: &Plan, vl2: &Vl2, files: &OverlayFiles, secret: &Secret) -> Result<()> {
    let nodes = plan.nodes.iter().enumerate().filter(|(_, n)| n.role != Role::Outside);
    nodes.map(|(i, _)| i).try_for_each(|node| configure(plan, vl2, files, node, secret))
}

/// Writes the configuration of a node's agent.
pub(super) fn configure(plan: &Plan, vl2: &Vl2, files: &OverlayFiles, node: usize, secret: &Secret) -> Result<()> {
    let text = match vl2.host(node) {
        Some(host) => of_host(plan, vl2, files, host),
        None => of_switch(plan, vl2, files, node, secret),
    };
    files.write(&format!("{}.toml", name_of(&plan.nodes[node])), &text)
}

/// The keys of every agent.
fn common(plan: &Plan, files: &OverlayFiles, node: usize) -> String {
    let name = name_of(&plan.nodes[node]);
    let servers = Directory::of(plan, files).map_or_else(String::new, |it| it.list());
    format!(
        "metrics = \"off\"\nprincipal = {}\nkey = \"{}\"\ndirectory = {servers}\nprefixes = [\"{AA4}\", \"{AA6}\"]\nla = \"{}\"\nsocket = \"{}\"\npins = \"{}\"\n",
        principal(node).0,
        files.text(&format!("{name}.key")),
        plan.nodes[node].locator,
        files.text(&format!("{name}.sock")),
        pins(&plan.name).join(name).display(),
    )
}

fn of_host(plan: &Plan, vl2: &Vl2, files: &OverlayFiles, host: &Vl2Host) -> String {
    let mut text = String::from("role = \"host\"\ndevice = \"eth0\"\n");
    text += &common(plan, files, host.node);
    let kind = if vl2.locator == LocatorKind::Tor { "tor" } else { "host" };
    let via = if vl2.groups.is_empty() { "none" } else { "group" };
    let _ = writeln!(text, "locator = \"{kind}\"\nintermediate = \"{via}\"\nentropy = \"{}\"", host.entropy);
    if plan.has_multicast() {
        let _ = writeln!(text, "multicast = \"{MULTICAST}\"");
    }
    if vl2.locator == LocatorKind::Tor {
        let _ = writeln!(text, "tor = \"{}:{}\"", plan.nodes[host.tor].locator, attach::PORT);
    }
    if vl2.dhcp {
        let _ = writeln!(text, "follow_device = true");
    }
    let _ = write!(text, "\n[limits]\npeers = {PEERS}\nflows = {FLOWS}\n");
    if let Some(scheduler) = &vl2.scheduler {
        let _ = write!(text, "\n[placement]\nscheduler = \"{}\"\n", scheduler.address(plan));
    }
    text += &locator_traffic(plan, vl2, host);
    // What is leased is attached when the NIC has it.
    let configured = (!vl2.dhcp).then(|| host.aa4.into()).into_iter().chain([IpAddr::V6(host.aa6)]);
    configured.for_each(|address| _ = write!(text, "\n[[address]]\naddress = \"{address}\"\n"));
    text
}

/// What may arrive for a host's locators besides the operator's usual traffic: the outside's, the lab's etcd, and requests to its DHCP server.
fn locator_traffic(plan: &Plan, vl2: &Vl2, host: &Vl2Host) -> String {
    let pool = plan.outside.iter().filter_map(|it| it.address_of(host.node)).map(|it| format!("open = [\"{it}\"]\n"));
    let has_etcd = vl2.directory.store == Store::Etcd && vl2.directory.hosts.first() == Some(&host.node);
    let etcd = has_etcd.then(|| format!("\"tcp/{}-{}\"", ETCD_PORTS[0], ETCD_PORTS[1]));
    let dhcp = (vl2.dhcp_server() == Some(host.node)).then(|| "\"udp/67\"".to_owned());
    let allowed: Vec<String> = etcd.into_iter().chain(dhcp).collect();
    let allow = (!allowed.is_empty()).then(|| format!("allow = [{}]\n", allowed.join(", ")));
    let keys: String = pool.chain(allow).collect();
    if keys.is_empty() { keys } else { format!("\n[locator_traffic]\n{keys}") }
}

fn of_switch(plan: &Plan, vl2: &Vl2, files: &OverlayFiles, node: usize, secret: &Secret) -> String {
    let mut text = String::from("role = \"switch\"\n");
    text += &common(plan, files, node);
    let ports = plan.nodes[node].ports.iter().enumerate().filter(|&(port, _)| plan.is_plugged(PortId { node, port }));
    let ports: Vec<String> = ports.map(|(_, p)| format!("\"{}\"", p.name)).collect();
    let _ = writeln!(text, "ports = [{}]", ports.join(", "));
    if vl2.intermediates.contains(&node) {
        let list = |addresses: &mut dyn Iterator<Item = String>| addresses.collect::<Vec<_>>().join(", ");
        let members = list(&mut vl2.intermediates.iter().map(|&i| format!("\"{}\"", plan.nodes[i].locator)));
        let groups = list(&mut vl2.groups.iter().map(|g| format!("\"{g}\"")));
        let _ = writeln!(text, "\n[intermediate]\nswitches = [{members}]\nanycast = [{groups}]\necmp_width = {}", vl2.ecmp_width);
    }
    if vl2.is_tor(node) && vl2.locator == LocatorKind::Tor {
        let _ = writeln!(text, "\n[tor]");
        if let Some(server) = vl2.dhcp_server() {
            let _ = writeln!(text, "dhcp_server = \"{}:67\"", plan.nodes[server].locator);
        }
        for host in vl2.hosts.iter().filter(|h| h.tor == node) {
            let key = AttachKey::of(&secret.key_of(principal(host.node))).to_hex();
            let (port, la) = (&plan.nodes[node].ports[host.port].name, plan.nodes[host.node].locator);
            let number = principal(host.node).0;
            let _ = write!(
                text,
                "\n[[tor.host]]\nprincipal = {number}\nattach_key = \"{key}\"\nport = \"{port}\"\naddress = \"{la}\"\n"
            );
            let pool = plan.outside.iter().filter_map(|it| it.address_of(host.node)).map(|it| format!(", \"{it}/32\""));
            let _ = writeln!(text, "sources = [\"{}\"{}]", host.entropy, pool.collect::<String>());
        }
    }
    text
}

/// Limits of an agent's tables: kernel memory of many hosts on one machine.
const PEERS: u32 = 4096;
const FLOWS: u32 = 4096;

#[cfg(test)]
mod tests {
    use weft_control::directory::ServiceId;
    use weft_control::directory::policy::Policy;

    use super::*;
    use crate::plan::vl2::{ServiceSpec, Vl2Spec};
    use crate::plan::{Routing, Settings};
    use crate::vl2::directory::{mappings, policy};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Duration};

    fn plan(locator: LocatorKind) -> Plan {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
        let shape = Shape::ClosExplicit { intermediates: 3, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
        let fabric = shape.build(link, link).expect("a fabric");
        let settings = Settings::for_tests(Routing::Frr);
        let service = |name: &str, hosts: &[u32], allow: &[&str]| ServiceSpec {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
            allow: allow.iter().map(ToString::to_string).collect(),
        };
        let services = vec![service("web", &[0], &["db"]), service("db", &[1, 2], &["web"])];
        let spec = Vl2Spec { locator, ecmp_width: 2, services, external: Vec::new() };
        Plan::new(&fabric, &settings).and_then(|p| p.with_vl2(&fabric, &spec)).expect("a plan")
    }

    #[test]
    fn files_of_the_directory_and_the_agents() {
        let plan = plan(LocatorKind::Tor);
        let vl2 = plan.overlay.vl2().expect("VL2");
        let files = OverlayFiles::at("/lab/vl2");
        let secret = Secret::new([7; 32]);
        let node = |name: &str| plan.nodes.iter().position(|n| n.name == name).expect("a node");
        let text = [
            policy(&plan, vl2, &files),
            mappings(&plan, vl2),
            of_host(&plan, vl2, &files, &vl2.hosts[3]),
            of_switch(&plan, vl2, &files, node("tor1"), &secret),
            of_switch(&plan, vl2, &files, node("int0"), &secret),
            of_switch(&plan, vl2, &files, node("agg0"), &secret),
        ];
        insta::assert_snapshot!(text.join("\n====\n"));
    }

    #[test]
    fn the_policy_agrees_with_the_plan() {
        for locator in [LocatorKind::Tor, LocatorKind::Host] {
            let plan = plan(locator);
            let vl2 = plan.overlay.vl2().expect("VL2");
            let policy = Policy::parse(&policy(&plan, vl2, &OverlayFiles::at("/lab/vl2"))).expect("a policy");
            for (a, b) in (1..=3).flat_map(|a| (1..=3).map(move |b| (a, b))) {
                assert_eq!(policy.may_resolve(ServiceId(a), ServiceId(b)), vl2.may_resolve(a, b), "{a} {b}");
            }
            assert!(vl2.may_talk(1, 2) && !vl2.may_talk(1, 3));
            for (i, node) in plan.nodes.iter().enumerate() {
                let resolves = node.role == Role::Switch && vl2.is_tor(i) && locator == LocatorKind::Tor;
                assert_eq!(policy.resolves_addresses(principal(i)), resolves, "{}", node.name);
            }
        }
    }
}
