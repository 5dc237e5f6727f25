//! An address that VMs on different servers take over from each other, as VRRP does, one that nobody may take, and a VIF that two servers have. As root, with `weft-agent` built; elsewhere it says
//! that it is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;

use support::TestLab;
use support::streams::wait_until;
use support::tenants::{ask, counter, settings, stand};
use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::netlord::{Here, NlArp};
use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, MacAddr, TenantId};
use weft_lab::frames;
use weft_lab::plan::Plan;
use weft_lab::plan::netlord::{CoreSwitch, Fib, NetlordSpec, Placement};

const TENANTS: &str = r#"
version = 1
[[tenant]]
id = 17
name = "acme"
[[vif]]
tenant = "acme"
name = "a"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1"]
[[vif]]
tenant = "acme"
name = "b"
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.2"]
[[vif]]
tenant = "acme"
name = "c"
mac = "02:00:00:00:00:03"
addresses = ["10.0.0.3"]
"#;

fn plan() -> Plan {
    let shape = Shape::TwoLevel { edges: 3, cores: 1, hosts_per_edge: 1 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let spec = NetlordSpec {
        file: TENANTS.to_owned(),
        placements: vec![Placement { tenant: "acme".to_owned(), hosts: vec![0, 1, 2] }],
        spain: SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 300, learn_per_second: 0 },
        limits: Vec::new(),
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    };
    Plan::new(&fabric, &settings('t')).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

fn shell(lab: &TestLab, vm: &str, command: &str) -> bool {
    let output = lab.at(vm, || Command::new("sh").args(["-c", command]).output().expect("a shell"));
    output.status.success()
}

/// Says to all that the VM has an address.
fn announce(lab: &TestLab, vm: &str, mac: u8, address: Ipv4Addr) {
    let frame = Arp::question((MacAddr([2, 0, 0, 0, 0, mac]), address), address).frame();
    lab.at(vm, || frames::socket("eth0", 0x0806).expect("a packet socket").write_all(&frame).expect("it is sent"));
}

/// Whether VM c, which knows no neighbour, reaches an address at this MAC address.
fn is_at(lab: &TestLab, address: Ipv4Addr, mac: u8) -> bool {
    let ping = format!(
        "ip neigh flush dev eth0; ping -n -c 1 -W 1 {address} && ip neigh show {address} | grep -qi 02:00:00:00:00:0{mac}"
    );
    shell(lab, "acme-c", &ping)
}

#[test]
fn an_address_is_where_it_was_announced_last_unless_another_is_configured_with_it() {
    let Some(lab) = stand(plan()) else { return };
    let shared = Ipv4Addr::new(10, 0, 0, 100);
    for (vm, other, mac) in [("acme-a", "acme-b", 1), ("acme-b", "acme-a", 2), ("acme-a", "acme-b", 1)] {
        // Of announcements less than 100 ms apart the greater MAC address wins.
        std::thread::sleep(std::time::Duration::from_millis(150));
        let _ = shell(&lab, other, &format!("ip addr del {shared}/24 dev eth0"));
        assert!(shell(&lab, vm, &format!("ip addr add {shared}/24 dev eth0")));
        announce(&lab, vm, mac, shared);
        wait_until("the address has moved", || is_at(&lab, shared, mac));
    }
    let hosts: Vec<String> = lab.plan().hosts().map(|host| host.name.clone()).collect();
    let count = |host: usize, name: &str| counter(&ask(&lab, &hosts[host]), name);
    assert_eq!([0, 1].map(|host| count(host, "addresses_taken")), [1, 1]);
    assert_eq!([0, 1].map(|host| count(host, "addresses_lost")), [1, 1]);
    // What b is configured with stays there, however often a announces it.
    let own = Ipv4Addr::new(10, 0, 0, 2);
    for _ in 0..10 {
        announce(&lab, "acme-a", 1, own);
    }
    wait_until("b's agent has heard it", || count(1, "addresses_defended") > 0);
    wait_until("the address is where it was", || is_at(&lab, own, 2));
    assert!(count(0, "takeovers_limited") > 0);
}

/// Another server's agent announces a VIF that is here: `status` names it and both places, as long as both may have it.
#[test]
fn a_vif_on_two_servers_is_a_problem_with_both_places() {
    let Some(lab) = stand(plan()) else { return };
    let hosts: Vec<String> = lab.plan().hosts().map(|host| host.name.clone()).collect();
    let place = |host: usize| {
        let uplink = ask(&lab, &hosts[host])["uplinks"][0].take();
        let switch = uplink["switch"].as_str().expect("its switch").parse().expect("a MAC address");
        Location { switch, port: EdgePort::new(uplink["port"].as_u64().expect("its port") as u16).expect("a port") }
    };
    let (here, there) = (place(0), place(2));
    let vif = Vif { tenant: TenantId(17), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, 1]) };
    let special = lab.plan().overlay.netlord().expect("NetLord").special[0];
    let mut frame = Vec::new();
    NlArp::Here(Here { vif, ip4: None, ip6: None }).emit(there, VlanId::new(special).expect("a VLAN"), &mut frame);
    lab.at(&hosts[2], || frames::socket("eth0", 0x8100).expect("a packet socket").write_all(&frame).expect("it is sent"));
    wait_until("it is heard", || counter(&ask(&lab, &hosts[0]), "vifs_announced_elsewhere") == 1);
    let problems = || ask(&lab, &hosts[0])["problems"].to_string();
    assert!(!problems().contains("VIF a"), "it may be moving");
    let both =
        format!("here, at port {} of switch {}, and at port {} of switch {}", here.port, here.switch, there.port, there.switch);
    wait_until("it is a problem", || problems().contains(&both) && problems().contains("VIF a of acme"));
}
