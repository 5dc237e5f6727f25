//! Addresses in tenant 1 on real packets (NetLord section 3.7): leased by dnsmasq over the plain fabric, used through the encapsulation. As root; elsewhere it says that it
//! is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::streams::{outage, wait_until};
use support::tenants::{GO, ask, counter, end, kill_agent, settings, stand};
use support::{TIMEOUT, TestLab};
use weft_fabric::BitsPerSec;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_lab::plan::Store;
use weft_lab::plan::netlord::{CoreSwitch, Fib, Lease, NetlordSpec, Placement, Provider, ProviderSpec, alike};
use weft_lab::plan::{Net, Plan};
use weft_lab::probe::connectivity;
use weft_lab::probe::ping::{self, Addresses};
use weft_lab::{Stopwatch, agents, directory, netlord};

/// Two edge switches of two hosts; the tenants' VMs, on h0 and h3, have addresses of the provider's subnet.
fn plan(letter: char, directory: Option<(u16, Store)>) -> Plan {
    let shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 2 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let tenants = [(17, "acme"), (18, "globex"), (19, "initech"), (20, "umbrella")];
    // The lab with a directory has core switches that somebody else wrote, where there are any.
    let is_ovs = directory.is_some() && std::path::Path::new("/usr/sbin/ovs-vswitchd").exists();
    let core = if is_ovs { CoreSwitch::Ovs } else { CoreSwitch::Ebpf };
    let spec = NetlordSpec {
        file: alike(&tenants.map(|(id, name)| (id, name.to_owned(), 2))),
        placements: tenants.map(|(_, name)| Placement { tenant: name.to_owned(), hosts: vec![0, 3] }).into(),
        spain: SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 2, learn_per_second: 0 },
        limits: vec![],
        core,
        chirp_us: None,
        provider: Some(ProviderSpec { subnet: Net { address: Ipv4Addr::new(10, 0, 0, 0), len: 16 }, directory }),
    };
    Plan::new(&fabric, &settings(letter)).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

fn provider(lab: &TestLab) -> &Provider {
    lab.plan().overlay.netlord().and_then(|it| it.provider.as_ref()).expect("a provider")
}

fn lease<'a>(lab: &'a TestLab, host: &str) -> &'a Lease {
    let node = lab.plan().nodes.iter().position(|node| node.name == host).expect("a host");
    provider(lab).lease(node).expect("a lease")
}

#[test]
fn agents_have_addresses_in_tenant_1() {
    let Some(lab) = stand(plan('d', None)) else { return };
    each_agent_has_its_lease(&lab);
    hosts_reach_each_other_through_the_encapsulation(&lab);
    vms_do_not_reach_the_provider(&lab);
    connectivity_is_tested_with_a_provider(&lab);
    an_agent_returns_with_its_address(&lab);
    a_removed_interface_is_created_again(&lab);
    switches_forget_hardware_addresses(&lab);
    without_a_server_there_is_no_address(&lab);
    an_address_is_written_or_there_is_none(&lab);
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

/// The port of the provider's DHCP server has no rate: the time that frames may wait in queues is computed all the same.
fn connectivity_is_tested_with_a_provider(lab: &TestLab) {
    for case in connectivity::test(lab.plan(), &GO).expect("a lab").cases {
        assert_ne!(case.ok, Some(false), "{case:?}");
    }
}

fn hosts_reach_each_other_through_the_encapsulation(lab: &TestLab) {
    for bytes in [84, 1500] {
        let result = ping::at(lab.plan(), Addresses::Locators, bytes, &GO).expect("sockets");
        assert_eq!((result.pairs, result.answered), (12, 12), "{result:?}");
    }
    // Broadcasts too, to all servers.
    let heard: Vec<UdpSocket> = ["h1", "h2", "h3"]
        .map(|host| {
            let socket = lab.at(host, || UdpSocket::bind(("0.0.0.0", 7004)).expect("a port"));
            socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
            socket
        })
        .into();
    let says = lab.at("h0", || UdpSocket::bind((lease(lab, "h0").address, 0)).expect("its address"));
    says.set_broadcast(true).expect("a setting");
    says.send_to(b"to all", "10.0.255.255:7004").expect("sent");
    assert!(heard.iter().all(|socket| socket.recv_from(&mut [0; 64]).is_ok()));
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

/// Tenants' VMs have the very addresses of agents, and reach each other with them, nobody else.
fn vms_do_not_reach_the_provider(lab: &TestLab) {
    for tenant in ["acme", "globex"] {
        reach(lab, tenant);
    }
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
    // And in the other direction.
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
        assert!(watch.elapsed() < TIMEOUT, "{what}: {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An agent that is killed leaves the interface and its tables; the next one asks for the same address.
fn an_agent_returns_with_its_address(lab: &TestLab) {
    kill_agent(lab, "h0");
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "what is known goes on: {answered:?}");
    agents::restart(lab.plan(), &[lab.node("h0")], &GO).expect("it starts again");
    let status = settled(lab, "h0", "its address", |status| status["provider"][0]["state"] == "bound");
    assert_eq!(status["dhcp"]["discovers"], 0, "{status}");
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "{answered:?}");
}

fn a_removed_interface_is_created_again(lab: &TestLab) {
    lab.shell("h1", "ip link del weft1");
    let address = format!("{}/16", lease(lab, "h1").address);
    let show = || std::process::Command::new("ip").args(["addr", "show", "dev", "weft1"]).output().expect("ip").stdout;
    wait_until("it is created again", || !lab.at("h1", show).is_empty());
    settled(lab, "h1", "its address", |status| status["provider"][0]["address"] == address.as_str());
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "{answered:?}");
}

/// The hardware addresses that requests bore have aged out: switches have heard of nobody but switches, and of the DHCP server while it speaks.
fn switches_forget_hardware_addresses(lab: &TestLab) {
    let known = || {
        let status = lab.plan().switches().map(|switch| ask(lab, &switch.name)).collect::<Vec<_>>();
        status.iter().map(|it| it["fib"]["list"].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert!(known().contains("02:4e:4c"), "the switches' own: {}", known());
    wait_until("addresses of agents age out", || !known().contains("02:4e:48"));
}

/// An agent that is ended removes its interface; the next one, without a DHCP server, reports what is missing, and gets its address once there is one.
fn without_a_server_there_is_no_address(lab: &TestLab) {
    let folder = agents::folder(lab.plan());
    let leases = folder.join("dhcp.leases").display().to_string();
    let config = agents::config(lab.plan(), lab.node("h2"));
    let text = std::fs::read_to_string(&config).expect("its configuration");
    std::fs::write(&config, format!("on_exit = \"remove\"\n{text}")).expect("it is written");
    let config = config.display().to_string();
    end(&config, Signal::SIGKILL);
    agents::restart(lab.plan(), &[lab.node("h2")], &GO).expect("it starts again");
    end(&config, Signal::SIGTERM);
    lab.shell("h2", "! ip link show dev weft1 2>&1 | grep -q LOWER_UP");
    let command = std::fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(&leases).then_some(command)
    });
    end(&leases, Signal::SIGKILL);
    agents::restart(lab.plan(), &[lab.node("h2")], &GO).expect("it starts");
    let watch = Stopwatch::new();
    while ask(lab, "h2")["uplinks"][0]["port"].is_null() {
        assert!(watch.elapsed() < TIMEOUT, "LLDP");
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = ask(lab, "h2");
    assert!(status["verdict"] == "not ok" && status["problems"].to_string().contains("no DHCP server"), "{status}");
    assert_eq!(status["provider"][0]["state"], "selecting", "{status}");
    // As it was started.
    let command = String::from_utf8(command.expect("dnsmasq runs")).expect("arguments");
    let words: Vec<&str> = command.split('\0').filter(|word| !word.is_empty()).collect();
    let mut server = lab.at("dhcp", || {
        std::process::Command::new(words[0]).args(&words[1..]).stderr(std::process::Stdio::null()).spawn().expect("dnsmasq")
    });
    let status = settled(lab, "h2", "its address", |status| status["provider"][0]["state"] == "bound");
    assert!(status["dhcp"]["discovers"].as_u64() > Some(1), "it has asked again: {status}");
    server.kill().and_then(|()| server.wait()).expect("it ends");
}

/// By the agent's configuration, over the programs and interfaces that one before it has left.
fn an_address_is_written_or_there_is_none(lab: &TestLab) {
    let config = agents::config(lab.plan(), lab.node("h1"));
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        kill_agent(lab, "h1");
        std::fs::write(&config, text.replace(from, to)).expect("it is written");
        agents::restart(lab.plan(), &[lab.node("h1")], &GO).expect("it starts");
    };
    with("address = \"dhcp\"", "address = \"10.0.0.77/16\"");
    let status = settled(lab, "h1", "its place", |_| true);
    assert_eq!((&status["provider"][0]["state"], &status["dhcp"]), (&"static".into(), &Value::Null), "{status}");
    lab.shell(
        "h1",
        "ip -4 -o addr show dev weft1 | grep -q 'inet 10.0.0.77/16 ' && [ $(ip -4 -o addr show dev weft1 | wc -l) = 1 ]",
    );
    let server = lab.at("h1", || UdpSocket::bind(("10.0.0.77", 7005)).expect("its address"));
    server.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let client = lab.at("h3", || UdpSocket::bind(("0.0.0.0", 0)).expect("a port"));
    client.send_to(b"to a written one", ("10.0.0.77", 7005)).expect("sent");
    assert!(server.recv_from(&mut [0; 64]).is_ok());
    with("[provider]\ndevice = \"weft1\"\naddress = \"dhcp\"\n", "");
    let status = ask(lab, "h1");
    assert_eq!(status["provider"].as_array().map(Vec::len), Some(0), "{status}");
    lab.shell("h1", "! ip link show dev weft1-vif 2>&1 | grep -q LOWER_UP");
}

/// Where tenants' VMs are, from a directory whose servers are reached in tenant 1: in use, when a VM moves, and when its parts end one after another.
#[test]
fn tenants_are_looked_up_in_the_directory() {
    if !support::programs(&["weft-agent", "weft-directory"]) {
        return;
    }
    let Some(lab) = stand(plan('e', Some((2, Store::Etcd)))) else { return };
    vms_find_each_other_by_looking_up(&lab);
    a_vm_that_moves_is_found_again(&lab);
    an_agent_returns_and_looks_up_again(&lab);
    agents_take_the_file_that_is_published(&lab);
    agents_follow_the_records_of_their_tenants(&lab);
    assert!(directory::kill_store(lab.plan()), "etcd runs");
    eprintln!("without the store: acme {:?}, known; globex {:?}, looked up now", reach(&lab, "acme"), reach(&lab, "globex"));
    assert!(directory::kill_server(lab.plan(), 0), "it runs");
    eprintln!("with one server: acme {:?}, known; initech {:?}, looked up now", reach(&lab, "acme"), reach(&lab, "initech"));
    assert!(directory::kill_server(lab.plan(), 1), "it runs");
    eprintln!("without a server: acme {:?}, known", reach(&lab, "acme"));
    assert!(attempt(&lab, "umbrella", Duration::from_millis(500)).is_none(), "nobody says where they are");
    an_agent_returns_without_a_directory(&lab);
    let answered = ping::at(lab.plan(), Addresses::Locators, 84, &GO).expect("sockets");
    assert_eq!(answered.answered, 12, "tenant 1 needs no directory: {answered:?}");
}

/// Nobody can confirm what the kernel has: it is used.
fn an_agent_returns_without_a_directory(lab: &TestLab) {
    let remotes = || ask(lab, "h0")["tables"][1]["used"].as_u64().expect("a number");
    let before = remotes();
    kill_agent(lab, "h0");
    agents::restart(lab.plan(), &[lab.node("h0")], &GO).expect("it starts again");
    settled(lab, "h0", "its address", |status| status["provider"][0]["state"] == "bound");
    eprintln!("with another agent and without a server: acme {:?}, known", reach(lab, "acme"));
    assert!(before > 0 && remotes() == before, "{before}: {}", ask(lab, "h0"));
}

fn vms_find_each_other_by_looking_up(lab: &TestLab) {
    let before = ask(lab, "h0");
    let first = reach(lab, "acme");
    let after = ask(lab, "h0");
    let of = |status: &Value, part: &str, name: &str| status[part][name].as_u64().expect("a counter");
    let lookups = of(&after, "lookups", "misses") - of(&before, "lookups", "misses");
    eprintln!("the first packet and its answer took {first:?}, {lookups} lookups of h0");
    assert!((1..=4).contains(&lookups), "{after}");
    // Nothing of a tenant is broadcast: everything known by NL-ARP is in tenant 1.
    assert_eq!(after["tables"][0]["used"], 3, "{after}");
    let again = reach(lab, "acme");
    assert_eq!(of(&ask(lab, "h0"), "lookups", "misses"), of(&after, "lookups", "misses"), "known: {again:?}");
    // Tenant 1 is no tenant's to look up, and no tenant another's.
    let vm = lab.at("acme-vm1", || UdpSocket::bind(("10.0.0.1", 0)).expect("its address"));
    let agent = lab.at("h2", || UdpSocket::bind((lease(lab, "h2").address, 7003)).expect("its address"));
    agent.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let _ = vm.send_to(b"from a VM", (lease(lab, "h2").address, 7003));
    assert!(agent.recv_from(&mut [0; 64]).is_err());
}

fn a_vm_that_moves_is_found_again(lab: &TestLab) {
    let netlord = lab.plan().overlay.netlord().expect("NetLord");
    let moving = netlord.vm("acme", "vm2").expect("a VM").clone();
    let to = lab.plan().nodes.iter().position(|node| node.name == "h1").expect("a host");
    netlord::migrate_vm(lab.plan(), &moving, to).expect("it moves");
    let outage = reach(lab, "acme");
    eprintln!("a VM that has moved, and was known elsewhere, is reached after {outage:?}");
    assert_eq!(ask(lab, "h1")["vifs"].as_array().map_or(0, |all| all.iter().filter(|it| it["tenant"] == "acme").count()), 1);
}

/// Each agent has a file of its own; one that was away takes what it has missed, and one whose file is gone has it again.
fn agents_take_the_file_that_is_published(lab: &TestLab) {
    let folder = agents::folder(lab.plan());
    let text = std::fs::read_to_string(folder.join("tenants.toml")).expect("the file");
    let own = |host: &str| ask(lab, host)["repository"]["documents"].clone();
    let watch = Stopwatch::new();
    while own("h0") != serde_json::json!({ "spain": 1, "tenants": 1 }) {
        assert!(watch.elapsed() < TIMEOUT, "{}", ask(lab, "h0"));
        std::thread::sleep(Duration::from_millis(50));
    }
    netlord::publish(lab.plan()).expect("the same again is no change");
    kill_agent(lab, "h3");
    std::fs::remove_file(folder.join("h2.tenants.toml")).expect("it has one");
    std::fs::write(folder.join("tenants.toml"), text.replace("version = 1", "version = 2")).expect("written");
    netlord::publish(lab.plan()).expect("a newer one");
    agents::restart(lab.plan(), &[lab.node("h3")], &GO).expect("it starts again");
    for host in ["h0", "h1", "h2", "h3"] {
        let watch = Stopwatch::new();
        while ask(lab, host)["tenants_version"] != 2 {
            assert!(watch.elapsed() < TIMEOUT, "{}", ask(lab, host));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(ask(lab, host)["repository"]["error"], Value::Null);
        assert!(folder.join(format!("{host}.tenants.toml")).is_file());
    }
    reach(lab, "acme");
    // SPAIN's tables likewise: h0 loses a VLAN to the other switch.
    let tables = std::fs::read_to_string(folder.join("paths.toml")).expect("the file");
    let vlans = |host: &str| ask(lab, host)["paths"][0]["vlans"].as_u64();
    assert_eq!([vlans("h0"), vlans("h3")], [Some(2), Some(2)], "{tables}");
    let fewer = tables.replacen("1-2", "1", 1).replace("version = 1", "version = 2");
    std::fs::write(folder.join("paths.toml"), fewer).expect("written");
    netlord::publish(lab.plan()).expect("newer ones");
    let watch = Stopwatch::new();
    while [vlans("h0"), vlans("h3")] != [Some(1), Some(2)] {
        assert!(watch.elapsed() < TIMEOUT, "{}", ask(lab, "h0"));
        std::thread::sleep(Duration::from_millis(50));
    }
    reach(lab, "acme");
    // Nobody but those who may.
    let (folder, server) = (folder.display().to_string(), directory_server(lab));
    let key = format!("{folder}/h1.key");
    std::fs::write(format!("{folder}/tenants.toml"), text.replace("version = 1", "version = 3")).expect("written");
    let refused = lab.at("h1", || {
        let file = format!("{folder}/tenants.toml");
        let principal = std::fs::read_to_string(format!("{folder}/h1.toml")).expect("its configuration");
        let principal = principal.lines().find_map(|line| line.strip_prefix("principal = ")).expect("a principal").to_owned();
        let program = weft_lab::programs::find("weft-directory").expect("the program");
        let arguments = ["tenant", "publish", "--file", &file, "--servers", &server, "--auth", "mac", "--principal", &principal];
        std::process::Command::new(program).args(arguments).args(["--key", &key]).output().expect("it runs")
    });
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("does not let this principal publish"), "{said}");
}

/// From the import on, each agent has its own VIFs, and a change reaches it within a second under traffic that does not stop.
fn agents_follow_the_records_of_their_tenants(lab: &TestLab) {
    let (folder, server) = (agents::folder(lab.plan()).display().to_string(), directory_server(lab));
    let program = weft_lab::programs::find("weft-directory").expect("the program");
    let run = |words: &[&str]| {
        let common = ["--dir", &folder, "--servers", &server, "--auth", "mac", "--principal", "2", "--json"];
        let command = || std::process::Command::new(&program).arg("tenant").args(words).args(common).output().expect("it runs");
        let output = lab.at("h1", command);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let own = |host: &str| std::fs::read_to_string(format!("{folder}/{host}.tenants.toml")).expect("its file");
    run(&["import", &format!("{folder}/tenants.toml")]);
    for host in ["h0", "h1", "h3"] {
        wait_until("its file is of the records", || own(host).starts_with("# Of the directory's records"));
        wait_until("it says so", || ask(lab, host)["records"]["revision"].is_u64());
        assert_eq!(ask(lab, host)["records"]["error"], Value::Null);
    }
    assert!(own("h0").contains("\"vm1\"") && !own("h0").contains("\"vm2\""), "{}", own("h0"));
    let vifs = |host: &str| ask(lab, host)["vifs"].clone();
    let before = vifs("h0");
    let mut took = Duration::ZERO;
    let gap = outage(lab, "acme-vm1", "acme-vm2", Ipv4Addr::new(10, 0, 0, 2).into(), || {
        run(&["add-vm", "acme", "vm9", "--mac", "02:00:00:00:00:99", "--address", "10.0.0.99", "--store"]);
        run(&[
            "route",
            "globex",
            "core",
            "--interface",
            "1,02:00:00:00:00:fe,10.0.0.254/24",
            "--rule",
            "deny udp port 9",
            "--store",
        ]);
        let watch = Stopwatch::new();
        wait_until("the rule is there", || own("h0").contains("\"deny\"") && own("h3").contains("\"deny\""));
        took = watch.elapsed();
    });
    eprintln!("a rule reached both agents {took:?} after it was committed; a stream of another tenant had a gap of {gap:?}");
    assert!(took < Duration::from_secs(1) && gap < Duration::from_millis(500), "{took:?}, {gap:?}");
    assert!(!own("h0").contains("vm9"), "it is not on this server");
    assert_eq!(vifs("h0"), before);
    // A VIF that is new on a server is asked of the directory when it is attached.
    lab.shell("h2", "ip link add tap9 type veth peer name vm9 && ip link set tap9 up && ip link set vm9 up");
    let socket = agents::socket(lab.plan(), lab.node("h2")).display().to_string();
    let attach = |vif: &str| {
        let agent = weft_lab::programs::find("weft-agent").expect("the program");
        let words = ["vif", "attach", "tap9", vif, "--socket", &socket];
        lab.at("h2", || std::process::Command::new(&agent).args(words).output().expect("it runs"))
    };
    let none = attach("acme/none");
    assert!(none.status.code() == Some(2) && String::from_utf8_lossy(&none.stderr).contains("none"), "{none:?}");
    let watch = Stopwatch::new();
    let attached = attach("acme/vm9");
    assert!(attached.status.success() && watch.elapsed() < Duration::from_secs(2), "{attached:?} after {:?}", watch.elapsed());
    assert!(own("h2").contains("vm9"), "{}", own("h2"));
    lab.shell("h2", "ip link del tap9");
    run(&["remove-vm", "acme", "vm9", "--store"]);
    wait_until("it is gone from its server", || !own("h2").contains("vm9"));
    reach(lab, "acme");
}

fn directory_server(lab: &TestLab) -> String {
    let config = std::fs::read_to_string(agents::config(lab.plan(), lab.node("h1"))).expect("a configuration");
    let servers = config.lines().find_map(|line| line.strip_prefix("servers = [\"")).expect("servers");
    servers.split('"').next().expect("one").to_owned()
}

/// What the kernel has is used, and asked for again.
fn an_agent_returns_and_looks_up_again(lab: &TestLab) {
    kill_agent(lab, "h0");
    eprintln!("without its agent acme is reached in {:?}", reach(lab, "acme"));
    agents::restart(lab.plan(), &[lab.node("h0")], &GO).expect("it starts again");
    settled(lab, "h0", "its address", |status| status["provider"][0]["state"] == "bound");
    reach(lab, "acme");
    let status = ask(lab, "h0");
    assert!(status["lookups"]["misses"].as_u64() > Some(0), "{status}");
}

/// How long it takes until a tenant's first VM reaches its second.
fn reach(lab: &TestLab, tenant: &str) -> Duration {
    attempt(lab, tenant, Duration::from_secs(3))
        .unwrap_or_else(|| panic!("{tenant}'s VMs do not reach each other: {}", ask(lab, "h0")))
}

fn attempt(lab: &TestLab, tenant: &str, within: Duration) -> Option<Duration> {
    let at = Ipv4Addr::new(10, 0, 0, 2);
    let [from, to] = ["vm1", "vm2"].map(|vm| format!("{tenant}-{vm}"));
    let server = lab.at(&to, || UdpSocket::bind((at, 7002)).expect("its address"));
    let client = lab.at(&from, || UdpSocket::bind(("10.0.0.1", 0)).expect("its address"));
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    }
    let (watch, mut buffer) = (Stopwatch::new(), [0; 64]);
    while watch.elapsed() < within {
        let _ = client.send_to(tenant.as_bytes(), (at, 7002));
        if let Ok((length, peer)) = server.recv_from(&mut buffer) {
            assert_eq!(&buffer[..length], tenant.as_bytes(), "of the own tenant");
            server.send_to(b"and back", peer).expect("sent");
            if client.recv_from(&mut buffer).is_ok() {
                return Some(watch.elapsed());
            }
        }
    }
    None
}
