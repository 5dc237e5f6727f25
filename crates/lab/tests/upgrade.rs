//! A rolling upgrade of a VL2 network, and back, while a stream flows: all directory servers and agents are restarted one after another, as programs that speak the
//! next version of the protocols, with tables of other sizes at the hosts. The same of a NetLord network, whose switches get the other tables. As root, with `weft-agent` and `weft-directory` built; elsewhere it says that it is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use support::TestLab;
use support::overlay::{GO, ask, counter, host, overlay, plan_of, stand, version};
use support::streams::{outage, wait_until};
use support::tenants;
use weft_fabric::BitsPerSec;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_lab::plan::netlord::{CoreSwitch, Fib, NetlordSpec, Placement, TenantLimit, alike};
use weft_lab::plan::vl2::{LocatorKind, Vl2Spec};
use weft_lab::plan::{Node, Plan, Role};
use weft_lab::{agents, directory};

/// What a stream may pause at a restart: 100 ms, and what a busy machine with a processor for ten programs needs besides.
const PAUSE: Duration = Duration::from_secs(1);

/// Restarts everything, servers first, as programs of the present or the next version.
fn restart_all(lab: &TestLab, next: bool) {
    let plan = lab.plan();
    for server in 0..overlay(lab).directory.hosts.len() {
        assert!(directory::kill_server(plan, server));
        directory::restart_server_with(version(next), plan, server, &GO).expect("it starts again");
    }
    let of_role = |role| plan.nodes.iter().filter(move |node| node.role == role);
    let switches: Vec<&Node> = of_role(Role::Switch).collect();
    for group in switches.chunks(2).map(<[_]>::to_vec).chain(of_role(Role::Host).map(|node| vec![node])) {
        for node in &group {
            if node.role == Role::Host {
                resize(lab, node, if next { 8192 } else { 4096 });
            }
            assert!(agents::kill(node));
        }
        agents::restart_with(version(next), plan, &group, &GO).expect("they start again");
    }
}

/// Gives the tables of a host other limits.
fn resize(lab: &TestLab, node: &Node, entries: u32) {
    let path = agents::config(lab.plan(), node);
    let text = std::fs::read_to_string(&path).expect("its configuration");
    let limits = text.split("[limits]").nth(1).expect("limits");
    let old = limits.lines().find_map(|line| line.strip_prefix("peers = ")).expect("peers");
    let text = text.replace(&format!("peers = {old}"), &format!("peers = {entries}"));
    std::fs::write(&path, text.replace(&format!("flows = {old}"), &format!("flows = {entries}"))).expect("it is written");
}

#[test]
fn a_rolling_upgrade_and_the_way_back_stop_no_stream() {
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 1 };
    let spec = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 2, services: vec![], external: Vec::new() };
    let Some(lab) = stand(plan_of(shape, 'u', spec)) else { return };
    let (from, to) = (host(&lab, 0), host(&lab, 1));
    let name = |node: usize| lab.plan().nodes[node].name.clone();
    let (source, target) = (name(from.node), name(to.node));
    let mut before = 0;
    for (next, protocol) in [(true, 2), (false, 1)] {
        let paused = outage(&lab, &source, &target, to.aa4.into(), || restart_all(&lab, next));
        let status = ask(&lab, &source);
        eprintln!("all speak version {protocol}: the stream paused for {paused:?}");
        assert!(paused < PAUSE, "{paused:?} at a restart as version {protocol}");
        for node in [&source, &target] {
            let status = ask(&lab, node);
            let log = agents::socket(lab.plan(), lab.node(node)).with_extension("log");
            let log = std::fs::read_to_string(log).expect("a log");
            assert!(log.contains("is replaced") && log.contains("peers"), "its tables have another size: {log}");
            assert_eq!((status["protocol"].as_u64(), status["adopted"].as_bool()), (Some(protocol), Some(true)), "{status}");
        }
        let sent = counter(&status, "pushed_two");
        assert!(sent > before, "counters go on: {before} and {sent}");
        before = sent;
        // Directory, ToR and host agree again: an address is attached by the message of a version that both speak.
        wait_until("addresses are attached", || {
            let all = ask(&lab, &source);
            all["addresses"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|it| it["attached"] == true))
        });
    }
}

/// Two VMs of a tenant with a rate, behind two edge switches.
fn tenants_plan() -> Plan {
    let shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 1 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let spec = NetlordSpec {
        file: alike(&[(17, "acme".to_owned(), 2)]),
        placements: vec![Placement { tenant: "acme".to_owned(), hosts: vec![0, 1] }],
        spain: SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 300, learn_per_second: 0 },
        limits: vec![TenantLimit { tenant: 17, rate: Some("80Mbps".to_owned()) }],
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    };
    Plan::new(&fabric, &tenants::settings('v')).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

/// Restarts all daemons of a role one after another, with this instead of that in their configurations.
fn restart_tenants(lab: &TestLab, role: Role, (old, new): (&str, &str)) {
    let plan = lab.plan();
    for node in plan.nodes.iter().filter(|node| node.role == role) {
        let path = agents::config(plan, node);
        let text = std::fs::read_to_string(&path).expect("its configuration");
        assert!(text.contains(old), "{text}");
        std::fs::write(&path, text.replace(old, new)).expect("it is written");
        assert!(agents::kill(node));
        agents::restart(plan, &[node], &tenants::GO).expect("it starts again");
    }
}

#[test]
fn a_rolling_restart_of_netlord_and_the_way_back_stop_no_stream() {
    let Some(lab) = tenants::stand(tenants_plan()) else { return };
    let paused = |act: &dyn Fn()| {
        let paused = outage(&lab, "acme-vm1", "acme-vm2", [10, 0, 0, 2].into(), act);
        eprintln!("the stream paused for {paused:?}");
        assert!(paused < PAUSE, "{paused:?}");
    };
    let entries = |entries: u32| format!("fib_entries = {entries}");
    for sizes in [(64, 128), (128, 64)] {
        paused(&|| {
            restart_tenants(&lab, Role::Host, ("", ""));
            restart_tenants(&lab, Role::Switch, (&entries(sizes.0), &entries(sizes.1)));
        });
        for node in lab.plan().nodes.iter().filter(|node| matches!(node.role, Role::Switch | Role::Host)) {
            let status = tenants::ask(&lab, &node.name);
            assert_eq!(status["adopted"], true, "{}: {status}", node.name);
            if node.role == Role::Switch {
                assert_eq!(status["fib"]["limit"], sizes.1, "{status}");
            }
        }
        let shared = || tenants::ask(&lab, "edge1")["shared_limits"]["switches"].as_array().map_or(0, Vec::len);
        wait_until("edge switches hear each other again", || shared() == 1);
    }
    // Hosts know where they are although no switch says so within half a minute.
    paused(&|| restart_tenants(&lab, Role::Switch, ("lldp = \"1s\"", "lldp = \"30s\"")));
    paused(&|| restart_tenants(&lab, Role::Host, ("", "")));
}
