use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Duration};

use super::*;
use crate::plan::vl2::Vl2Spec;
use crate::plan::{PlanError, Routing, Settings};

fn plan(locator: LocatorKind, external: Vec<u32>) -> Plan {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
    let shape = Shape::ClosExplicit { intermediates: 3, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let fabric = shape.build(link, link).expect("a fabric");
    let settings = Settings::for_tests(Routing::Frr);
    let spec = Vl2Spec { locator, ecmp_width: 2, services: Vec::new(), external };
    let laid = |plan: Plan| -> Result<Plan, PlanError> { plan.with_vl2(&fabric, &spec) };
    Plan::new(&fabric, &settings).and_then(laid).expect("a plan")
}

fn file<'a>(export: &'a Export, name: &str) -> &'a str {
    &export.files.iter().find(|(of, _)| *of == name).expect("the file").1
}

/// `(switch, config_db.json)` of all switches.
fn databases(plan: &Plan, lanes: u32) -> Vec<(String, Value)> {
    let parsed = |text: &str| serde_json::from_str(text).expect("JSON");
    let exports = export(plan, Format::Sonic { lanes }).expect("configurations");
    exports.iter().map(|it| (it.switch.clone(), parsed(file(it, "config_db.json")))).collect()
}

fn keys(database: &Value, table: &str) -> BTreeSet<String> {
    database[table].as_object().map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn a_database_has_the_ports_and_addresses_of_the_plan() {
    let plan = plan(LocatorKind::Tor, Vec::new());
    for (name, database) in databases(&plan, 4) {
        let node = plan.node(&name).expect("a switch of the plan");
        assert_eq!(keys(&database, "PORT").len(), node.ports.len(), "{name}");
        for (at, port) in node.ports.iter().enumerate() {
            let own = format!("Ethernet{}", 4 * at);
            let there = format!("{} {}", plan.nodes[port.peer.node].name, plan.port(port.peer).name);
            assert_eq!(database["PORT"][&own]["description"], there, "{name} {own}");
            let routed = port.address.map(|address| format!("{own}|{address}"));
            assert_eq!(routed.is_none(), keys(&database, "VLAN_MEMBER").contains(&format!("Vlan100|{own}")), "{name} {own}");
            assert!(routed.is_none_or(|key| keys(&database, "INTERFACE").contains(&key)), "{name} {own}");
        }
        let all = keys(&database, "LOOPBACK_INTERFACE").into_iter().chain(keys(&database, "VLAN_INTERFACE"));
        let addresses: BTreeSet<String> =
            all.filter_map(|key| Some(key.split_once('|')?.1.split_once('/')?.0.to_owned())).collect();
        let expected = std::iter::once(node.locator).chain(node.anycast.iter().copied()).map(|it| it.to_string()).collect();
        assert_eq!(addresses, expected, "{name}");
    }
}

#[test]
fn both_ends_of_each_link_are_in_one_subnet_and_name_each_other() {
    let plan = plan(LocatorKind::Tor, Vec::new());
    let all = databases(&plan, 1);
    let database = |node: usize| &all.iter().find(|(name, _)| *name == plan.nodes[node].name).expect("a switch").1;
    let mut links = 0;
    for ends in plan.cables().filter(|ends| ends.iter().all(|end| plan.nodes[end.node].role == Role::Switch)) {
        let nets = ends.map(|end| {
            let prefix = format!("Ethernet{}|", end.port);
            let key = keys(database(end.node), "INTERFACE").into_iter().find(|key| key.starts_with(&prefix)).expect("an address");
            Net::try_from(key[prefix.len()..].to_owned()).expect("an address with a prefix")
        });
        assert!(nets[0].contains(nets[1].address) || u32::from(nets[0].address) ^ u32::from(nets[1].address) == 1, "{nets:?}");
        assert_ne!(nets[0].address, nets[1].address);
        for [here, there] in [ends, [ends[1], ends[0]]] {
            let description = &database(here.node)["PORT"][format!("Ethernet{}", here.port)]["description"];
            assert_eq!(*description, format!("{} {}", plan.nodes[there.node].name, plan.port(there).name));
        }
        links += 1;
    }
    assert!(links > 0);
}

#[test]
fn tors_decapsulate_and_have_application_addresses_only_if_they_are_locators() {
    for locator in [LocatorKind::Tor, LocatorKind::Host] {
        let plan = plan(locator, Vec::new());
        let vl2 = plan.overlay.vl2().expect("VL2");
        for (name, database) in databases(&plan, 4) {
            let at = plan.nodes.iter().position(|node| node.name == name).expect("a switch");
            let node = &plan.nodes[at];
            let strips = vl2.intermediates.contains(&at) || (vl2.is_tor(at) && locator == LocatorKind::Tor);
            let found: BTreeSet<String> = database["TUNNEL"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, it)| it["dst_ip"].as_str().expect("an address").to_owned())
                .collect();
            let own = std::iter::once(node.locator).chain(node.anycast.iter().copied()).filter(|_| strips);
            assert_eq!(found, own.map(|it| it.to_string()).collect(), "{name}");
            for host in &vl2.hosts {
                let route = &database["STATIC_ROUTE"][format!("default|{}/32", host.aa4)]["nexthop"];
                let here = host.tor == at && locator == LocatorKind::Tor;
                assert_eq!(route.as_str(), here.then(|| plan.nodes[host.node].locator.to_string()).as_deref(), "{name}");
                let outer = &database["STATIC_ROUTE"][format!("default|{}", host.entropy)]["nexthop"];
                assert_eq!(outer.as_str().is_some(), host.tor == at, "{name}");
            }
        }
    }
}

#[test]
fn frr_accepts_the_configuration() {
    if !std::path::Path::new("/usr/bin/vtysh").exists() {
        assert!(std::env::var_os("CI").is_none(), "vtysh is not installed: scripts/setup-lab.sh installs it");
        eprintln!("SKIPPED: vtysh is not installed");
        return;
    }
    let check = |text: &str, name: &str| {
        let path = std::env::temp_dir().join(format!("weft-{}-{name}.conf", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let output = Command::new("/usr/bin/vtysh").args(["--dryrun", "-f"]).arg(&path).output().expect("vtysh runs");
        std::fs::remove_file(&path).expect("the file is removed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        output.status.success() && !said.contains("Unknown command")
    };
    for it in export(&plan(LocatorKind::Tor, Vec::new()), Format::Sonic { lanes: 4 }).expect("configurations") {
        let text = file(&it, "frr.conf");
        assert!(check(text, &it.switch), "{text}");
        assert!(!check(&text.replace("ip ospf cost 1", "ip ospf cosst 1"), &it.switch), "an error is noticed");
    }
}

#[test]
fn configurations_of_a_tor_and_an_intermediate_switch() {
    let plan = plan(LocatorKind::Tor, Vec::new());
    let mut text = String::new();
    for format in [Format::Sonic { lanes: 4 }, Format::Generic] {
        for it in
            export(&plan, format).expect("configurations").iter().filter(|it| ["tor0", "int0"].contains(&it.switch.as_str()))
        {
            for (name, content) in &it.files {
                text += &format!("==== {}/{name}\n{content}", it.switch);
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_plan_without_vl2_is_refused() {
    let mut plan = plan(LocatorKind::Tor, vec![0]);
    assert_eq!(export(&plan, Format::Generic), Err(ExportError::Outside));
    plan.overlay = crate::plan::Overlay::None;
    assert_eq!(export(&plan, Format::Generic), Err(ExportError::NoOverlay));
}
