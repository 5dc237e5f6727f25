use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use weft_control::netlord::spain::SpainTables;
use weft_fabric::MacAddr;
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
        let point = plan.rendezvous_points().iter().any(|it| it.name == name).then_some(crate::plan::vl2::RENDEZVOUS);
        let own = std::iter::once(node.locator).chain(node.anycast.iter().copied()).chain(point);
        let expected = own.map(|it| it.to_string()).collect();
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

/// Whether FRR's `vtysh` is here, which checks a configuration; it has to be in CI.
fn has_vtysh() -> bool {
    let is_there = std::path::Path::new("/usr/bin/vtysh").exists();
    assert!(is_there || std::env::var_os("CI").is_none(), "vtysh is not installed: scripts/setup-lab.sh installs it");
    if !is_there {
        eprintln!("SKIPPED: vtysh is not installed");
    }
    is_there
}

/// Whether FRR knows every line.
fn frr_accepts(text: &str, name: &str) -> bool {
    let path = std::env::temp_dir().join(format!("weft-{}-{name}.conf", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    let output = Command::new("/usr/bin/vtysh").args(["--dryrun", "-f"]).arg(&path).output().expect("vtysh runs");
    std::fs::remove_file(&path).expect("the file is removed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    output.status.success() && !said.contains("Unknown command")
}

#[test]
fn frr_accepts_the_configuration() {
    if !has_vtysh() {
        return;
    }
    // Of OSPF, BFD, PIM, IGMP, MSDP and BGP: lines that are there, and that FRR would refuse if they were wrong.
    let mut left: BTreeSet<&str> =
        ["ip ospf cost 1", "ip ospf bfd profile", "ip pim hello", "ip igmp", "ip msdp mesh-group", "neighbor "].into();
    for it in export(&plan(LocatorKind::Tor, vec![0, 3]), Format::Sonic { lanes: 4 }).expect("configurations") {
        let text = file(&it, "frr.conf");
        assert!(frr_accepts(text, &it.switch), "{text}");
        for line in left.iter().copied().filter(|line| text.contains(line)).collect::<Vec<_>>() {
            assert!(!frr_accepts(&text.replace(line, &format!("x{line}")), &it.switch), "an error in `{line}` is noticed");
            left.remove(line);
        }
    }
    assert!(left.is_empty(), "in no configuration: {left:?}");
}

#[test]
fn borders_speak_bgp_and_tors_announce_the_hosts_that_the_outside_reaches() {
    let plan = plan(LocatorKind::Tor, vec![0, 3]);
    let (vl2, outside) = (plan.overlay.vl2().expect("VL2"), plan.outside.as_ref().expect("an outside"));
    for format in [Format::Sonic { lanes: 4 }, Format::Generic] {
        for it in export(&plan, format).expect("configurations") {
            let at = plan.nodes.iter().position(|node| node.name == it.switch).expect("a switch");
            let text: String =
                it.files.iter().filter(|(name, _)| *name != "config_db.json").map(|(_, text)| text.as_str()).collect();
            let is_border = outside.borders.contains(&at);
            let link = plan.nodes[at].ports.iter().find(|port| plan.nodes[port.peer.node].role == Role::Outside);
            assert_eq!(link.is_some(), is_border);
            let peer = link.map(|port| plan.port(port.peer).address.expect("an address").address);
            let neighbor = peer.map(|peer| format!("neighbor {peer} remote-as 65001"));
            assert_eq!(text.contains("router bgp 65000"), is_border, "{text}");
            assert!(neighbor.is_none_or(|line| text.contains(&line)), "{text}");
            assert_eq!(text.contains("default-information originate"), is_border);
            for &(host, address) in &outside.hosts {
                let here = vl2.host(host).expect("a host").tor == at;
                assert_eq!(text.contains(&format!("permit {address}/32")), here, "{address} at {}", it.switch);
            }
        }
    }
    for (name, database) in databases(&plan, 4) {
        let at = plan.nodes.iter().position(|node| node.name == name).expect("a switch");
        for &(host, address) in &outside.hosts {
            let route = database["STATIC_ROUTE"][format!("default|{address}/32")]["nexthop"].as_str();
            let here = vl2.host(host).expect("a host").tor == at;
            assert_eq!(route, here.then(|| plan.nodes[host].locator.to_string()).as_deref(), "{address} at {name}");
        }
    }
}

#[test]
fn multicast_has_two_rendezvous_points_and_dhcp_a_relay_in_each_rack() {
    let plan = plan(LocatorKind::Tor, Vec::new()).with_dhcp();
    let vl2 = plan.overlay.vl2().expect("VL2");
    let server = plan.nodes[vl2.dhcp_server().expect("a server")].locator.to_string();
    let points: Vec<&str> = plan.rendezvous_points().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(points, ["int0", "int1"]);
    for (name, database) in databases(&plan, 4) {
        let has_address = keys(&database, "LOOPBACK_INTERFACE").contains("Loopback1|100.127.0.0/32");
        assert_eq!(has_address, points.contains(&name.as_str()), "{name}");
        let is_tor = name.starts_with("tor");
        assert_eq!(database["VLAN"]["Vlan100"]["dhcp_servers"][0].as_str(), is_tor.then_some(server.as_str()), "{name}");
    }
    for format in [Format::Sonic { lanes: 4 }, Format::Generic] {
        for it in export(&plan, format).expect("configurations") {
            let text: String = it.files.iter().map(|(_, text)| text.as_str()).collect();
            let count = |what: &str| text.matches(what).count();
            let (is_point, is_tor) = (points.contains(&it.switch.as_str()), it.switch.starts_with("tor"));
            assert_eq!(count("ip msdp mesh-group") > 0, is_point, "{text}");
            assert_eq!(count("ip igmp"), usize::from(is_tor), "the hosts are in one VLAN: {text}");
            assert!(count("100.127.0.0 ") + count("100.127.0.0\n") > 0, "all know the rendezvous point: {text}");
        }
    }
}

/// Two hosts at each of three edge switches, two core switches; tenants may be denied or limited.
fn netlord_plan(limits: &[(u32, Option<&str>)]) -> Plan {
    use crate::plan::netlord::{CoreSwitch, Fib, NetlordSpec, Placement, TenantLimit, alike};
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
    let fabric = Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 }.build(link, link).expect("a fabric");
    let spec = NetlordSpec {
        file: alike(&[(17, "acme".to_owned(), 2), (18, "globex".to_owned(), 2)]),
        placements: ["acme", "globex"].map(|tenant| Placement { tenant: tenant.to_owned(), hosts: vec![0, 5] }).into(),
        spain: weft_fabric::routing::spain::SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 300, learn_per_second: 0 },
        limits: limits.iter().map(|&(tenant, rate)| TenantLimit { tenant, rate: rate.map(str::to_owned) }).collect(),
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    };
    Plan::new(&fabric, &Settings::for_tests(Routing::Static)).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

/// The VLANs of a port of a database, each with whether it is tagged.
fn vlans_of(database: &Value, port: &str) -> BTreeSet<(u16, bool)> {
    let members = database["VLAN_MEMBER"].as_object().into_iter().flatten();
    let own = members.filter_map(|(key, fields)| Some((key.strip_prefix("Vlan")?.strip_suffix(&format!("|{port}"))?, fields)));
    own.map(|(vlan, fields)| (vlan.parse().expect("a number"), fields["tagging_mode"] == "tagged")).collect()
}

/// Frames to an edge switch's MAC address, in each VLAN that agents may use, arrive there and nowhere twice: the exported VLANs are walked as switches flood.
#[test]
fn edge_switches_are_connected_by_the_vlans_that_agents_use() {
    let plan = netlord_plan(&[]);
    let netlord = plan.overlay.netlord().expect("NetLord");
    let all = databases(&plan, 4);
    let database = |node: usize| &all.iter().find(|(name, _)| *name == plan.nodes[node].name).expect("a switch").1;
    let agents = SpainTables::parse(&for_agents(&plan)[0].1).expect("what agents read");
    let mut walked = 0;
    for (from, table) in &agents.from {
        let node = |mac: &MacAddr| {
            netlord.switches.iter().find(|s| s.mac.as_deref() == Some(&mac.to_string())).expect("an edge switch").node
        };
        let start = node(from);
        for (to, vlans) in table {
            for vlan in vlans.list().into_iter().map(weft_control::wire::packet::ethernet::VlanId::get) {
                let (mut seen, mut open) = (BTreeSet::from([start]), vec![(start, usize::MAX)]);
                while let Some((at, by)) = open.pop() {
                    let ports = plan.nodes[at].ports.iter().enumerate().filter(|(port, it)| {
                        *port != by
                            && plan.nodes[it.peer.node].role == Role::Switch
                            && vlans_of(database(at), &format!("Ethernet{}", 4 * port)).contains(&(vlan, true))
                    });
                    for (_, port) in ports {
                        let there = vlans_of(database(port.peer.node), &format!("Ethernet{}", 4 * port.peer.port));
                        assert!(there.contains(&(vlan, true)), "both ends of a cable have VLAN {vlan}");
                        assert!(seen.insert(port.peer.node), "a loop in VLAN {vlan}");
                        open.push((port.peer.node, port.peer.port));
                    }
                }
                assert!(seen.contains(&node(to)), "VLAN {vlan} leads from {start} to {to}");
                let routed = keys(database(node(to)), "VLAN_INTERFACE").contains(&format!("Vlan{vlan}"));
                assert!(routed, "{to} routes what arrives in VLAN {vlan}");
                walked += 1;
            }
        }
    }
    assert_eq!(walked, 3 * 2 * 2, "each of three edge switches has two VLANs to each other one");
}

/// The last hop (NetLord sections 3.6 and 3.7): what is encoded for a port goes to the agent's address in a VLAN that only this port has, untagged.
#[test]
fn an_edge_switch_routes_what_is_encoded_for_its_ports() {
    let plan = netlord_plan(&[(18, None)]);
    let netlord = plan.overlay.netlord().expect("NetLord");
    for (name, database) in databases(&plan, 4) {
        let at = plan.nodes.iter().position(|node| node.name == name).expect("a switch");
        let bridge = netlord.switch(at).expect("a switch");
        assert_eq!(database["DEVICE_METADATA"]["localhost"]["mac"].as_str(), bridge.mac.as_deref(), "{name}");
        let servers: Vec<(usize, u8)> = (0..).zip(&bridge.ports).filter_map(|(port, it)| Some((port, it.number?))).collect();
        assert_eq!(keys(&database, "STATIC_ROUTE").len(), servers.len(), "{name}");
        for &(port, number) in &servers {
            let own = format!("Ethernet{}", 4 * port);
            assert_eq!(database["PORT"][&own]["alias"], format!("port{number}"), "LLDP names the port's number");
            let untagged: Vec<u16> =
                vlans_of(&database, &own).into_iter().filter(|(_, tagged)| !tagged).map(|(vlan, _)| vlan).collect();
            let [vlan] = untagged[..] else { panic!("{own} has {untagged:?} untagged") };
            let members: BTreeSet<String> =
                keys(&database, "VLAN_MEMBER").into_iter().filter(|key| key.starts_with(&format!("Vlan{vlan}|"))).collect();
            assert_eq!(members, BTreeSet::from([format!("Vlan{vlan}|{own}")]), "nobody else hears what is sent there");
            let route = &database["STATIC_ROUTE"][format!("default|{number}.0.0.0/8")];
            assert_eq!(
                (route["nexthop"].as_str(), route["ifname"].as_str()),
                (Some(&*format!("{number}.0.0.1")), Some(&*format!("Vlan{vlan}")))
            );
            assert!(keys(&database, "VLAN_INTERFACE").contains(&format!("Vlan{vlan}|{number}.0.0.0/31")), "{name}");
            let rule = &database["ACL_RULE"][format!("TENANTS|TENANT_18_PORT_{number}")];
            assert_eq!(
                (rule["DST_IP"].as_str(), rule["PACKET_ACTION"].as_str()),
                (Some(&*format!("{number}.0.0.18/32")), Some("DROP"))
            );
            // Tagged: SPAIN's and the broadcast trees, as in the lab.
            let tagged = vlans_of(&database, &own).into_iter().filter(|(_, tagged)| *tagged).count();
            assert_eq!(tagged, bridge.ports[port].vlans.len(), "{name} {own}");
        }
        assert_eq!(keys(&database, "ACL_RULE").len(), servers.len(), "{name}");
    }
    let text: String =
        export(&plan, Format::Generic).expect("configurations").iter().map(|it| file(it, "switch.txt").to_owned()).collect();
    assert_eq!(text.matches("deny ip any 0.0.0.18 255.0.0.0").count(), 3, "once per edge switch");
    assert_eq!(text.matches("ip route 1.0.0.0/8 1.0.0.1").count(), 3);
    let limited = netlord_plan(&[(17, Some("5Mbps"))]);
    assert_eq!(export(&limited, Format::Sonic { lanes: 4 }), Err(ExportError::Rate { tenant: 17 }));
    let text: String =
        export(&limited, Format::Generic).expect("configurations").iter().map(|it| file(it, "switch.txt").to_owned()).collect();
    assert!(text.contains("permit ip any 0.0.0.17 255.0.0.0 police 5Mbps"), "{text}");
}

/// Tables, fields and constraints of SONiC's YANG models that exports use: sonic-buildimage, `src/sonic-yang-models`, of November 2025 (sonic-vlan of 2024-03-07,
/// sonic-static-route of 2022-03-17, sonic-acl of 2019-07-01).
const MODELS: &[(&str, &[&str])] = &[
    ("DEVICE_METADATA", &["hostname", "mac", "docker_routing_config_mode", "frr_mgmt_framework_config"]),
    ("PORT", &["description", "alias", "mtu", "admin_status"]),
    ("INTERFACE", &[]),
    ("LOOPBACK_INTERFACE", &[]),
    ("VLAN", &["vlanid", "mtu", "dhcp_servers"]),
    ("VLAN_MEMBER", &["tagging_mode"]),
    ("VLAN_INTERFACE", &["ipv6_use_link_local_only"]),
    ("TUNNEL", &["tunnel_type", "dst_ip", "dscp_mode", "ecn_mode", "ttl_mode"]),
    ("STATIC_ROUTE", &["nexthop", "ifname", "blackhole"]),
    ("ACL_TABLE", &["policy_desc", "type", "stage", "ports"]),
    ("ACL_RULE", &["PRIORITY", "ETHER_TYPE", "DST_IP", "PACKET_ACTION"]),
];

#[test]
fn databases_keep_to_the_yang_models() {
    let plans = [
        plan(LocatorKind::Tor, vec![0]).with_dhcp(),
        plan(LocatorKind::Host, Vec::new()),
        netlord_plan(&[(17, None), (18, None)]),
    ];
    for (name, database) in plans.iter().flat_map(|plan| databases(plan, 4)) {
        for (table, entries) in database.as_object().expect("tables") {
            let (_, known) = MODELS.iter().find(|(model, _)| model == table).unwrap_or_else(|| panic!("{table} is no table"));
            for (key, fields) in entries.as_object().expect("entries") {
                let unknown: Vec<&String> =
                    fields.as_object().expect("fields").keys().filter(|field| !known.contains(&field.as_str())).collect();
                assert!(unknown.is_empty(), "{name}: {table}|{key}: {unknown:?}");
            }
        }
        let vlans = keys(&database, "VLAN");
        for vlan in &vlans {
            let number: u16 = vlan.strip_prefix("Vlan").and_then(|it| it.parse().ok()).expect("a number");
            assert!((2..=4094).contains(&number) && database["VLAN"][vlan]["vlanid"] == vlan[4..], "{name}: {vlan}");
        }
        for key in keys(&database, "VLAN_MEMBER") {
            let (vlan, port) = key.split_once('|').expect("a VLAN and a port");
            assert!(vlans.contains(vlan) && keys(&database, "PORT").contains(port), "{name}: {key}");
            assert!(!keys(&database, "INTERFACE").contains(port), "{name}: {port} is a router interface");
        }
        for port in keys(&database, "PORT") {
            let untagged = vlans_of(&database, &port).into_iter().filter(|(_, tagged)| !tagged).count();
            assert!(untagged <= 1, "{name}: {port} is untagged in {untagged} VLANs");
        }
        for table in ["INTERFACE", "VLAN_INTERFACE", "LOOPBACK_INTERFACE"] {
            let all = keys(&database, table);
            let lonely = all.iter().filter_map(|key| key.split_once('|')).find(|(interface, _)| !all.contains(*interface));
            assert_eq!(lonely, None, "{name}: {table} has an address of an interface that it has not");
        }
        let aliases: Vec<&str> =
            database["PORT"].as_object().expect("ports").values().filter_map(|it| it["alias"].as_str()).collect();
        assert_eq!(aliases.iter().collect::<BTreeSet<_>>().len(), aliases.len(), "{name}: aliases are unique");
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
fn configurations_of_an_edge_and_a_core_switch() {
    let plan = netlord_plan(&[(18, None)]);
    let mut text = String::new();
    for format in [Format::Sonic { lanes: 4 }, Format::Generic] {
        let exports = export(&plan, format).expect("configurations");
        for it in exports.iter().filter(|it| ["edge0", "core0"].contains(&it.switch.as_str())) {
            it.files.iter().for_each(|(name, content)| text += &format!("==== {}/{name}\n{content}", it.switch));
        }
    }
    for (name, content) in for_agents(&plan) {
        text += &format!("==== {name}\n{content}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_plan_without_an_overlay_is_refused() {
    let mut plan = plan(LocatorKind::Tor, vec![0]);
    plan.overlay = crate::plan::Overlay::None;
    assert_eq!(export(&plan, Format::Generic), Err(ExportError::NoOverlay));
}
