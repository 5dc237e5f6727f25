//! Addresses in tenant 1 on real packets (NetLord section 3.7): leased by dnsmasq over the plain fabric, used through the encapsulation. As root; elsewhere it says that it
//! is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use serde_json::Value;
use support::TestLab;
use support::tenants::{GO, ask, counter, kill_agent, settings, stand};
use weft_fabric::BitsPerSec;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_lab::plan::tenants::{CoreSwitch, Fib, Lease, Placement, Provider, TenantSpec, alike};
use weft_lab::plan::{Net, Plan};
use weft_lab::probe::ping::{self, Addresses};
use weft_lab::{Stopwatch, netlord};

/// Two edge switches of two hosts; the tenant's VMs have addresses of the provider's subnet.
fn plan(letter: char) -> Plan {
    let shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 2 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let spec = TenantSpec {
        file: alike(&[(17, "acme".to_owned(), 2)]),
        placements: vec![Placement { tenant: "acme".to_owned(), hosts: vec![0, 3] }],
        spain: SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 2, learn_per_second: 0 },
        limits: vec![],
        core: CoreSwitch::Ebpf,
        provider: Some(Net { address: Ipv4Addr::new(10, 0, 0, 0), len: 16 }),
    };
    Plan::new(&fabric, &settings(letter)).and_then(|plan| plan.with_tenants(&fabric, &spec)).expect("a plan")
}

fn provider(lab: &TestLab) -> &Provider {
    lab.plan().tenants.as_ref().and_then(|it| it.provider.as_ref()).expect("a provider")
}

fn lease<'a>(lab: &'a TestLab, host: &str) -> &'a Lease {
    let node = lab.plan().nodes.iter().position(|node| node.name == host).expect("a host");
    provider(lab).lease(node).expect("a lease")
}

#[test]
fn agents_have_addresses_in_tenant_1() {
    let Some(lab) = stand(plan('d')) else { return };
    each_agent_has_its_lease(&lab);
    hosts_reach_each_other_through_the_encapsulation(&lab);
    vms_do_not_reach_the_provider(&lab);
    an_agent_returns_with_its_address(&lab);
    what_is_removed_is_made_anew(&lab);
    switches_forget_hardware_addresses(&lab);
}

fn each_agent_has_its_lease(lab: &TestLab) {
    for host in ["h0", "h1", "h2", "h3"] {
        let (status, lease) = (ask(lab, host), lease(lab, host));
        let own = &status["provider"][0];
        assert_eq!((&own["address"], &own["state"]), (&format!("{}/16", lease.address).into(), &"bound".into()), "{status}");
        assert_eq!((&own["mac"], &own["server"]), (&lease.mac.as_str().into(), &"10.0.0.1".into()), "{status}");
        assert!(own["lease_left_s"].as_u64().is_some_and(|left| (3500..=3600).contains(&left)), "{status}");
        assert!(own["renew_in_s"].as_u64().is_some_and(|left| (1700..=1800).contains(&left)), "{status}");
        assert_eq!(status["dhcp"]["acks"], 1, "{status}");
        lab.shell(host, &format!("ip -4 addr show dev weft1 | grep -q 'inet {}/16.* dynamic'", lease.address));
    }
}

fn hosts_reach_each_other_through_the_encapsulation(lab: &TestLab) {
    for bytes in [84, 1500] {
        let result = ping::at(lab.plan(), Addresses::Locators, bytes, &GO).expect("sockets");
        assert_eq!((result.pairs, result.answered), (12, 12), "{result:?}");
    }
    // A program like any other.
    let at = lease(lab, "h3").address;
    let listener = lab.at("h3", || TcpListener::bind((at, 0)).expect("its address"));
    let to = listener.local_addr().expect("an address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = lab.at("h0", || TcpStream::connect_timeout(&to, Duration::from_secs(5)).expect("a connection"));
            stream.write_all(&vec![7; 1 << 20]).expect("sent");
        });
        let (mut stream, from) = listener.accept().expect("a connection");
        assert_eq!(from.ip(), lease(lab, "h0").address);
        let (watch, mut all) = (Stopwatch::new(), Vec::new());
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        stream.read_to_end(&mut all).expect("all of it");
        eprintln!("TCP in tenant 1: {:.1} Mbps of 100", all.len() as f64 * 8e-6 / watch.elapsed().as_secs_f64());
        assert_eq!(all.len(), 1 << 20);
    });
    let status = ask(lab, "h0");
    assert!(counter(&status, "sent") > 500, "by eBPF, through the encapsulation: {status}");
}

/// acme's VMs have the very addresses of agents, and reach each other with them, nobody else.
fn vms_do_not_reach_the_provider(lab: &TestLab) {
    let result = ping::all(lab.plan(), 84, &GO).expect("sockets");
    assert_eq!((result.pairs, result.answered), (2, 2), "{result:?}");
    let servers: Vec<UdpSocket> = ["h0", "h1", "h2", "h3"]
        .map(|host| {
            let socket = lab.at(host, || UdpSocket::bind((lease(lab, host).address, 7001)).expect("its address"));
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
            socket
        })
        .into();
    let vm = lab.at("acme-vm1", || UdpSocket::bind(("10.0.0.1", 0)).expect("its address"));
    for host in ["h0", "h1", "h2", "h3"] {
        let _ = vm.send_to(b"from a VM", (lease(lab, host).address, 7001));
    }
    // With the agents' MAC addresses as well.
    for host in ["h1", "h3"] {
        let Lease { mac, address, .. } = lease(lab, host);
        lab.shell(
            "acme-vm1",
            &format!(
                "ip neigh replace 10.0.99.{0} lladdr {mac} dev eth0; ip route replace 10.0.99.{0} dev eth0",
                address.octets()[3]
            ),
        );
        let _ = vm.send_to(b"from a VM", (Ipv4Addr::new(10, 0, 99, address.octets()[3]), 7001));
    }
    std::thread::sleep(Duration::from_millis(200));
    for socket in &servers {
        assert!(socket.recv_from(&mut [0; 64]).is_err(), "nothing of a VM comes to tenant 1");
    }
    // And the other way.
    let client = lab.at("h1", || UdpSocket::bind(("0.0.0.0", 0)).expect("a port"));
    let own = lab.at("acme-vm2", || UdpSocket::bind(("0.0.0.0", 7001)).expect("a port"));
    own.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    client.send_to(b"from a server", (lease(lab, "h0").address, 7001)).expect("sent");
    assert!(own.recv_from(&mut [0; 64]).is_err(), "nothing of tenant 1 comes to a VM");
    assert!(servers[0].recv_from(&mut [0; 64]).is_ok(), "but to the server that has the address");
}

fn settled(lab: &TestLab, host: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    let watch = Stopwatch::new();
    loop {
        let status = ask(lab, host);
        if status["verdict"] == "ok" && good(&status) {
            return status;
        }
        assert!(watch.elapsed() < Duration::from_secs(5), "{what}: {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An agent that is killed leaves the interface and its tables; the next one asks for the same address.
fn an_agent_returns_with_its_address(lab: &TestLab) {
    kill_agent(lab, "h0");
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "what is known goes on: {answered:?}");
    netlord::restart(lab.plan(), lab.node("h0"), &GO).expect("it starts again");
    let status = settled(lab, "h0", "its address", |status| status["provider"][0]["state"] == "bound");
    assert_eq!(status["dhcp"]["discovers"], 0, "{status}");
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "{answered:?}");
}

fn what_is_removed_is_made_anew(lab: &TestLab) {
    lab.shell("h1", "ip link del weft1");
    let address = format!("{}/16", lease(lab, "h1").address);
    let watch = Stopwatch::new();
    while lab
        .at("h1", || std::process::Command::new("ip").args(["addr", "show", "dev", "weft1"]).output().expect("ip").stdout)
        .is_empty()
    {
        assert!(watch.elapsed() < Duration::from_secs(5), "it is made anew");
        std::thread::sleep(Duration::from_millis(20));
    }
    settled(lab, "h1", "its address", |status| status["provider"][0]["address"] == address.as_str());
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "{answered:?}");
}

/// The hardware addresses that requests bore have aged out: switches have heard of nobody but switches, and of the DHCP server while it speaks.
fn switches_forget_hardware_addresses(lab: &TestLab) {
    let watch = Stopwatch::new();
    let known = || {
        let status = lab.plan().switches().map(|switch| ask(lab, &switch.name)).collect::<Vec<_>>();
        status.iter().map(|it| it["fib"]["list"].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert!(known().contains("02:4e:4c"), "the switches' own: {}", known());
    while known().contains("02:4e:48") {
        assert!(watch.elapsed() < Duration::from_secs(5), "{}", known());
        std::thread::sleep(Duration::from_millis(100));
    }
}
