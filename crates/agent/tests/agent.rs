//! VL2 between three hosts, end to end: kernel TCP, eBPF, real agents and a real directory server, in namespaces. Needs root.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::fabric::{HOSTS, Host, Network, TIMEOUT};
use weft_control::directory::PrincipalId;
use weft_control::wire::vl2::attach::{Attach, AttachKey, Code, Frame, Kind};

const A: Host = HOSTS[0];
const B: Host = HOSTS[1];
const C: Host = HOSTS[2];

/// `web` may resolve itself, `batch` itself, and neither the other.
const POLICY: &str = "version = 1\n[[service]]\nname = \"web\"\nid = 1\n[[service]]\nname = \"batch\"\nid = 2\n\
    [[principal]]\nid = 7\nrole = \"provisioner\"\n[[principal]]\nid = 100\nrole = \"server\"\n";

/// Sends so many bytes from one host to another and back, and compares them.
fn transfer(network: &Network, from: Host, to: Host, port: u16, bytes: usize) -> Duration {
    let at = SocketAddrV4::new(to.aa(), port);
    let listener = network.within(to.name, || TcpListener::bind(at).unwrap());
    let sent: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 251) as u8).collect();
    let begun = Instant::now();
    let got = std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let (mut stream, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), from.aa(), "the application address is the peer's");
            let mut all = vec![0; bytes];
            stream.read_exact(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let mut stream = network.within(from.name, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddrV4::new(from.aa(), 0).into()).unwrap();
            socket.connect_timeout(&at.into(), TIMEOUT).unwrap();
            TcpStream::from(socket)
        });
        let mut writer = stream.try_clone().unwrap();
        let data = &sent;
        scope.spawn(move || writer.write_all(data).unwrap());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut got = vec![0; bytes];
        stream.read_exact(&mut got).unwrap();
        echo.join().unwrap();
        got
    });
    assert!(got == sent, "bytes have changed in transit");
    begun.elapsed()
}

/// What a connection attempt says.
fn refusal(network: &Network, from: Host, to: Ipv4Addr) -> ErrorKind {
    network.within(from.name, || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddrV4::new(from.aa(), 0).into()).unwrap();
        let result = socket.connect_timeout(&SocketAddrV4::new(to, 7000).into(), Duration::from_secs(2));
        result.expect_err("there is no such connection").kind()
    })
}

/// The round trips of a flow so far.
struct Rounds(AtomicU64);

impl Rounds {
    /// Waits until there are so many more.
    fn wait_for(&self, more: u64, limit: Duration) {
        let (before, begun) = (self.0.load(Ordering::Relaxed), Instant::now());
        while self.0.load(Ordering::Relaxed) < before + more {
            assert!(begun.elapsed() < limit, "the flow has stopped");
            std::thread::sleep(PERIOD);
        }
    }
}

/// Between two round trips of a flow.
const PERIOD: Duration = Duration::from_millis(5);

/// A ping-pong over one connection, each 5 ms, while things happen to the network; the longest gap between two answers.
fn flow_while<T>(network: &mut Network, port: u16, act: impl FnOnce(&mut Network, &Rounds) -> T) -> (T, Duration) {
    let at = SocketAddrV4::new(B.aa(), port);
    let listener = network.within(B.name, || TcpListener::bind(at).unwrap());
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    let mut stream = network.within(A.name, || TcpStream::connect(at).unwrap());
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (stop, longest, rounds) = (AtomicBool::new(false), AtomicU64::new(0), Rounds(AtomicU64::new(0)));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                stream.write_all(&[1]).unwrap();
                stream.read_exact(&mut [0]).unwrap();
                longest.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
                rounds.0.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PERIOD);
            }
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        });
        rounds.wait_for(10, TIMEOUT);
        let result = act(network, &rounds);
        rounds.wait_for(1, Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        result
    });
    echo.join().unwrap();
    (result, Duration::from_micros(longest.into_inner()))
}

/// With `follow_device`, an address that a DHCP client or an operator assigns to the NIC is attached, and detached when it goes.
#[test]
fn addresses_of_the_nic_are_followed() {
    let Some(mut network) = Network::new("fl") else { return };
    network.start_switches();
    network.start_directory(&["--policy", "open", "--provisioner", "7", "--provisioner", "41"]);
    network.provision([1, 1, 1], true, 1);
    let leased = Ipv4Addr::new(20, 0, 9, 9);
    network.provision_address(leased, A, 1);
    network.start_tor("tor1", "60s");
    network.start_agent(A, "tor = \"10.1.1.1:5304\"\nfollow_device = true\n");
    network.start_agent(B, "");
    let list = |status: &serde_json::Value| -> Vec<String> {
        status["addresses"].as_array().unwrap().iter().map(|it| it["address"].as_str().unwrap().to_owned()).collect()
    };
    let has = |address: Ipv4Addr| move |status: &serde_json::Value| list(status).contains(&address.to_string());
    network.wait_status(A, "its own address", has(A.aa()));
    let before = network.status(A);
    assert!(!has(leased)(&before), "{before}");

    network.ip(A.name, &format!("addr add {leased}/8 dev eth0"));
    network.wait_status(A, "the new address", has(leased));
    let echo = network.within(A.name, || TcpListener::bind(SocketAddrV4::new(leased, 7100)).unwrap());
    network.within(B.name, || drop(TcpStream::connect_timeout(&SocketAddrV4::new(leased, 7100).into(), TIMEOUT).unwrap()));
    drop(echo);
    // An address outside of the prefixes is none of the agent's.
    network.ip(A.name, "addr add 192.0.2.7/32 dev eth0");

    network.ip(A.name, &format!("addr del {leased}/8 dev eth0"));
    let after = network.wait_status(A, "the address is gone", |status| !has(leased)(status));
    // That of the configuration stays, though the NIC loses it.
    assert_eq!(list(&after), [A.aa().to_string()]);
    network.ip(A.name, &format!("addr del {}/8 dev eth0", A.aa()));
    network.ip(A.name, &format!("addr add {leased}/8 dev eth0"));
    let both = network.wait_status(A, "the new address again", has(leased));
    assert!(has(A.aa())(&both), "{both}");
    // Detached by hand it stays so, until the configuration is reloaded: then what the NIC has is attached.
    let (status, output) = network.agent(A, &["detach", &leased.to_string()]);
    assert_eq!(status, 0, "{output}");
    network.wait_status(A, "it is detached", |status| !has(leased)(status));
    network.signal(A.name, nix::sys::signal::Signal::SIGHUP);
    network.wait_status(A, "it is attached after the reload", has(leased));
}

fn drops(status: &serde_json::Value, names: &[&str]) -> u64 {
    names.iter().map(|name| status["drops"][name].as_u64().unwrap_or_else(|| panic!("no drop counter {name}"))).sum()
}

/// Of the agent's own probes.
const MARK_PROBE: u32 = 0x5746_0005;

#[test]
fn hosts_talk_by_application_addresses_and_only_to_whom_they_may() {
    let Some(mut network) = Network::new("tor") else { return };
    let policy = network.write("policy.toml", POLICY);
    network.start_switches();
    network.start_directory(&["--policy", &policy]);
    network.provision([1, 1, 2], true, 1);
    for host in HOSTS {
        network.start_agent(host, "on_exit = \"remove\"");
        network.wait_status(host, "its address is confirmed", |status| status["addresses"][0]["attached"] == true);
    }
    two_hosts_of_a_service_talk(&network);
    services_are_apart(&network);
    forged_sources_are_dropped(&network);
    the_path_is_traced(&network);
    flows_survive_their_agent_and_the_directory(&mut network);
    a_clean_stop_removes_the_programs(&mut network);
}

/// The address of the second host is in another part of the directory than that of the first and than the group of the intermediate switches. Agents and the ToR know
/// the first part's server.
#[test]
fn hosts_talk_whose_addresses_are_in_two_parts_of_the_directory() {
    let Some(mut network) = Network::new("part") else { return };
    let part = |name: &str, server: &str, keys: &str| format!("[[part]]\nname = \"{name}\"\nservers = [\"{server}\"]\n{keys}\n");
    let other = "10.9.9.2:5303";
    let switch = "[[principal]]\nid = 41\nrole = \"switch\"\nlocators = [\"10.1.1.1\"]\n";
    let parts = part("rest", "10.9.9.1:5303", "default = true") + &part("b", other, "prefixes = [\"20.0.0.2/32\"]");
    let policy = network.write("policy.toml", &format!("{POLICY}{switch}{parts}"));
    network.start_switches();
    network.start_directory_at("rest", "10.9.9.1:5303", &["--policy", &policy, "--part", "rest"]);
    network.start_directory_at("b", other, &["--policy", &policy, "--part", "b"]);
    network.provision([1, 1, 2], true, 1);
    network.start_tor("tor1", "60s");
    for (host, more) in [(A, "tor = \"10.1.1.1:5304\""), (B, ""), (C, "")] {
        network.start_agent(host, more);
        network.wait_status(host, "its address is confirmed", |status| status["addresses"][0]["attached"] == true);
    }
    eprintln!("first connection {:?}", transfer(&network, A, B, 7000, 1000));
    transfer(&network, B, A, 7001, 100_000);
    services_are_apart(&network);
    let status = network.status(A);
    let servers: Vec<_> =
        status["directory"].as_array().unwrap().iter().map(|it| (it["part"].as_str(), it["server"].as_str())).collect();
    assert_eq!(servers, [(Some("rest"), Some("10.9.9.1:5303")), (Some("b"), Some(other))]);
    // While the server of a part is away, what is known of it is used on.
    let ((), longest) = flow_while(&mut network, 7002, |network, rounds| {
        network.kill("b");
        rounds.wait_for(400, TIMEOUT);
        network.start_directory_at("b", other, &["--policy", &policy, "--part", "b"]);
        rounds.wait_for(100, TIMEOUT);
    });
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    // The second host is revoked in its part.
    network.revoke(B);
    network.wait_status(B, "its address is not confirmed", |status| status["addresses"][0]["attached"] == false);
    network.wait_status(A, "it is no peer", |status| status["peers"]["used"] == 0);
}

fn two_hosts_of_a_service_talk(network: &Network) {
    let first = transfer(network, A, B, 7000, 1000);
    let bulk = transfer(network, A, B, 7001, 4_000_000);
    transfer(network, B, A, 7002, 100_000);
    eprintln!("first connection {first:?}, 4 MB there and back {bulk:?}");
    let status = network.status(A);
    assert_eq!(status["verdict"], "ok", "{status:#}");
    assert!(status["counters"]["pushed_two"].as_u64().unwrap() > 10, "{status:#}");
    assert!(status["counters"]["delivered"].as_u64().unwrap() > 10, "{status:#}");
    assert_eq!(status["peers"]["list"][0]["via"], "10.9.0.1");
    let (code, text) = network.agent(A, &["status"]);
    assert!(code == 0 && text.starts_with("ok: 1 of 1 addresses attached, 1 peers of 65536, eth0 10.1.1.2\n"), "{text}");
    // Headers have room, so that full segments go whole.
    let route = network.output(A.name, &["ip", "route", "show", "20.0.0.0/8"]);
    assert!(route.contains("mtu 1560"), "{route}");
    assert_eq!(drops(&status, &["too_big", "outer_fragment", "no_gateway", "malformed"]), 0, "{status:#}");
}

fn services_are_apart(network: &Network) {
    let before = network.status(A);
    refusal(network, A, C.aa());
    refusal(network, C, A.aa());
    refusal(network, A, Ipv4Addr::new(20, 0, 9, 9));
    let after = network.status(A);
    let refused = ["held_forbidden", "out_forbidden"];
    assert!(drops(&after, &refused) > drops(&before, &refused), "{after:#}");
    assert_eq!(after["counters"]["pushed_two"], before["counters"]["pushed_two"], "no packet has left");
    assert_eq!(network.status(C)["counters"]["pushed_two"], 0, "no packet has left");
    // A host that knows the locators and sends by itself is refused too: by its own programs, and where these are passed by, by the other's.
    let inner = udp(C.aa(), A.aa());
    let tunnel = weft_control::wire::vl2::ipip::Tunnel {
        source: [10, 201, 3, 9].into(),
        via: Some([10, 9, 0, 1].into()),
        locator: [10, 1, 1, 1].into(),
    };
    let packet = tunnel.push(&inner, Default::default()).unwrap();
    network.within(C.name, || {
        let raw = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(libc::IPPROTO_RAW.into())).unwrap();
        raw.set_header_included_v4(true).unwrap();
        for mark in [0, MARK_PROBE] {
            raw.set_mark(mark).unwrap();
            for _ in 0..5 {
                // What the programs drop is ENOBUFS to the sender.
                let _ = raw.send_to(&packet, &SocketAddrV4::new([10, 9, 0, 1].into(), 0).into());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    network.wait_status(C, "packets that it encapsulated are dropped", |status| drops(status, &["forged_tunnel"]) == 5);
    let reasons = ["held_forbidden", "in_forbidden"];
    network.wait_status(A, "packets of a refused source are dropped", |status| drops(status, &reasons) > drops(&after, &reasons));
}

/// A UDP packet without a checksum.
fn udp(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut out = Vec::new();
    let (tos, payload, identification, is_unfragmentable, ttl, protocol) = (0, 12, 9, true, 64, 17);
    let header = weft_control::wire::packet::ip::Ipv4 {
        tos,
        payload,
        identification,
        is_unfragmentable,
        ttl,
        protocol,
        source,
        destination,
    };
    header.emit(&mut out);
    out.extend_from_slice(&[0x1b, 0x58, 0x1b, 0x58, 0, 12, 0, 0, 1, 2, 3, 4]);
    out
}

fn forged_sources_are_dropped(network: &Network) {
    let receiver = network.within(B.name, || UdpSocket::bind(SocketAddrV4::new(B.aa(), 7010)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let send_from = |address: Ipv4Addr| {
        network.within(A.name, || {
            UdpSocket::bind(SocketAddrV4::new(address, 0)).unwrap().send_to(b"hello", (B.aa(), 7010)).unwrap();
        });
    };
    send_from(A.aa());
    assert_eq!(receiver.recv(&mut [0; 16]).unwrap(), 5);
    let before = drops(&network.status(A), &["forged_source"]);
    network.ip(A.name, "addr add 20.0.0.77/8 dev eth0");
    for _ in 0..5 {
        send_from([20, 0, 0, 77].into());
    }
    assert!(receiver.recv(&mut [0; 16]).is_err(), "a forged source came through");
    network.ip(A.name, "addr del 20.0.0.77/8 dev eth0");
    let after = drops(&network.status(A), &["forged_source"]);
    assert!(after > before, "{before} {after}");
}

fn the_path_is_traced(network: &Network) {
    // From here, outside of the host's namespace, probes would take another path.
    let (code, text) = network.agent_from_outside(A, &["trace", "20.0.0.1", "20.0.0.2"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("another network namespace") && text.contains("nsenter --net=/proc/"), "{text}");
    let (code, text) =
        network.agent(A, &["trace", "20.0.0.1", "20.0.0.2", "--protocol", "tcp", "--sport", "4000", "--dport", "81", "--json"]);
    assert_eq!(code, 0, "{text}");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((trace["via"].as_str(), trace["locator"].as_str()), (Some("10.9.0.1"), Some("10.1.2.1")), "{trace:#}");
    let hops: Vec<_> =
        trace["hops"].as_array().unwrap().iter().map(|hop| hop["address"].as_str().unwrap_or("*").to_owned()).collect();
    assert_eq!(hops, ["10.1.1.1", "172.16.1.1", "20.0.0.2"], "{trace:#}");
}

fn flows_survive_their_agent_and_the_directory(network: &mut Network) {
    let (_, gap) = flow_while(network, 7020, |network, rounds| {
        network.kill(A.name);
        rounds.wait_for(50, TIMEOUT);
        network.start_agent(A, "on_exit = \"remove\"");
        let status = network.wait_status(A, "it has its peer again", |status| status["peers"]["used"] == 1);
        assert_eq!(status["adopted"], true);
    });
    eprintln!("agent killed and restarted: longest answer {gap:?}");
    let (_, gap) = flow_while(network, 7021, |network, _| {
        network.kill("directory");
        // For several synchronisations, one each half second, and their retries.
        std::thread::sleep(Duration::from_secs(3));
    });
    eprintln!("directory killed: longest answer {gap:?}");
    transfer(network, A, B, 7022, 10_000);
}

fn a_clean_stop_removes_the_programs(network: &mut Network) {
    assert_eq!(network.terminate(A.name), Some(0));
    for hook in ["ingress", "egress"] {
        let shown = network.output(A.name, &["tc", "filter", "show", "dev", "eth0", hook]);
        assert!(!shown.contains("vl2"), "{shown}");
    }
}

/// Leases are of one second, and the directory is away for much longer, an agent's restart included. Where a limit is set, it holds; and what was revoked
/// during that time is out of use once a server answers again.
#[test]
fn what_is_known_stays_in_use_while_the_directory_is_away() {
    let Some(mut network) = Network::new("static") else { return };
    let policy = network.write("policy.toml", POLICY);
    network.start_switches();
    network.start_directory(&["--policy", &policy]);
    network.provision_for([1, 1, 1], true, 1, 1_000);
    for host in HOSTS {
        let limit = if host.name == C.name { "fail_static = \"2s\"" } else { "on_exit = \"keep\"" };
        network.start_agent(host, limit);
        network.wait_status(host, "its address is confirmed", |status| status["addresses"][0]["attached"] == true);
    }
    transfer(&network, C, B, 7040, 1000);
    let (_, gap) = flow_while(&mut network, 7041, |network, rounds| {
        network.kill("directory");
        let status = network.wait_status(A, "it knows", |status| status["unconfirmed_s"].as_f64().is_some_and(|s| s >= 3.0));
        assert_eq!((&status["peers"]["used"], &status["addresses"][0]["attached"]), (&1.into(), &true.into()), "{status:#}");
        let problem = status["problems"][0].as_str().unwrap();
        assert!(problem.starts_with("no directory server has answered for"), "{problem}");
        assert!(network.log(A.name).contains("no directory server answers"), "{}", network.log(A.name));
        network.wait_status(C, "its limit is over", |status| status["peers"]["used"] == 0);
        network.kill(A.name);
        network.start_agent(A, "on_exit = \"keep\"");
        rounds.wait_for(200, TIMEOUT);
    });
    eprintln!("directory away, agent restarted: longest answer {gap:?}");
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    network.start_directory(&["--policy", &policy]);
    let back = network.wait_status(A, "the directory confirms", |status| status["peers"]["used"] == 1);
    assert_eq!((&back["unconfirmed_s"], &back["problems"]), (&serde_json::Value::Null, &serde_json::json!([])), "{back:#}");
    transfer(&network, A, B, 7042, 1000);
    network.kill("directory");
    network.wait_status(A, "it is away again", |status| status["unconfirmed_s"].is_number());
    network.start_directory(&["--policy", &policy]);
    network.revoke(B);
    network.wait_status(A, "what was revoked is not used", |status| status["peers"]["used"] == 0);
}

#[test]
fn hosts_are_their_own_locators_where_switches_cannot_strip_headers() {
    let Some(mut network) = Network::new("host") else { return };
    network.start_directory(&["--policy", "open", "--provisioner", "7", "--provisioner", "1", "--provisioner", "2"]);
    network.provision([1, 1, 1], false, 0);
    for host in [A, B] {
        network.start_agent(host, "locator = \"host\"\nintermediate = \"none\"\non_exit = \"keep\"");
        network.wait_status(host, "its locator is in the directory", |status| status["verdict"] == "ok");
    }
    transfer(&network, A, B, 7000, 500_000);
    let status = network.status(A);
    assert_eq!(status["peers"]["list"][0]["locator"], "10.1.2.2", "{status:#}");
    assert!(
        status["counters"]["pushed_one"].as_u64().unwrap() > 10 && status["counters"]["stripped_host"].as_u64().unwrap() > 10
    );
    let (code, text) = network.agent(A, &["trace", "20.0.0.1", "20.0.0.2"]);
    assert_eq!(code, 0, "{text}");
    // What is kept goes on without an agent.
    let ((), gap) = flow_while(&mut network, 7020, |network, rounds| {
        assert_eq!(network.terminate(A.name), Some(0));
        rounds.wait_for(50, TIMEOUT);
    });
    eprintln!("agent stopped with its programs kept: longest answer {gap:?}");
}

/// Host B has an address of A's service and one of C's: each talks to its own service, and to no other.
#[test]
fn addresses_of_two_services_on_one_host_have_a_policy_each() {
    let Some(mut network) = Network::new("two") else { return };
    let policy = network.write("policy.toml", POLICY);
    network.start_directory(&["--policy", &policy]);
    let second = Ipv4Addr::new(20, 0, 0, 41);
    for (host, address, service) in [(A, A.aa(), 1), (B, B.aa(), 1), (B, second, 2), (C, C.aa(), 2)] {
        network.provision_at(host.la(), 0, address, host, service);
    }
    network.output(B.name, &["ip", "addr", "add", "20.0.0.41/32", "dev", "eth0"]);
    for host in HOSTS {
        network.start_agent(host, "locator = \"host\"\nintermediate = \"none\"\non_exit = \"keep\"");
        network.wait_status(host, "its address is confirmed", |status| status["addresses"][0]["attached"] == true);
    }
    assert_eq!(network.agent(B, &["attach", "20.0.0.41"]), (0, "20.0.0.41 attached\n".to_owned()));
    let connects = |from: Host, source: Ipv4Addr, to: Host, destination: Ipv4Addr| {
        let _listener = network.within(to.name, || TcpListener::bind((destination, 7080)).unwrap());
        network.within(from.name, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddrV4::new(source, 0).into()).unwrap();
            socket.connect_timeout(&SocketAddrV4::new(destination, 7080).into(), Duration::from_secs(2)).is_ok()
        })
    };
    let all = |network: &Network| {
        for (from, source, to, destination, may) in [
            (A, A.aa(), B, B.aa(), true),
            (A, A.aa(), B, second, false),
            (C, C.aa(), B, second, true),
            (C, C.aa(), B, B.aa(), false),
            (B, B.aa(), A, A.aa(), true),
            (B, second, A, A.aa(), false),
            (B, second, C, C.aa(), true),
            (B, B.aa(), C, C.aa(), false),
        ] {
            let status = || format!("{:#}", network.status(B));
            assert_eq!(connects(from, source, to, destination), may, "{source} to {destination}\n{}", status());
        }
    };
    all(&network);
    let status = network.status(B);
    assert_eq!((&status["verdict"], status["addresses"].as_array().map(Vec::len)), (&"ok".into(), Some(2)), "{status:#}");
    assert!(drops(&status, &["held_forbidden", "out_forbidden"]) > 0, "{status:#}");
    let peers: Vec<_> = status["peers"]["list"].as_array().unwrap().iter().map(|it| (&it["service"], &it["address"])).collect();
    assert_eq!(peers, [(&1.into(), &"20.0.0.1".into()), (&2.into(), &"20.0.0.3".into())]);
}

/// A ToR that acknowledges whatever a host with the right key says; what it has heard.
fn obliging_tor(network: &Network, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Attach>> {
    let socket = network.within("tor2", || UdpSocket::bind("10.1.2.1:5304").unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let key = AttachKey::of(&support::shared::secret().key_of(PrincipalId(2)));
    std::thread::spawn(move || {
        let (mut heard, mut buffer) = (Vec::new(), [0; 100]);
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                // What came before it was stopped has been read.
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            };
            let frame = Frame::parse(&buffer[..length]).unwrap();
            assert!(frame.is_of(&key) && from.ip() == B.la());
            heard.push(frame.message);
            socket.send_to(&frame.message.answered(Code::Done).emit(&key), from).unwrap();
        }
        heard
    })
}

#[test]
fn addresses_are_attached_and_detached_while_the_agent_runs() {
    let Some(mut network) = Network::new("attach") else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let tor = obliging_tor(&network, stop.clone());
    network.start_directory(&["--policy", "open", "--provisioner", "7"]);
    network.provision([1, 1, 1], true, 1);
    let extra = Ipv4Addr::new(20, 0, 0, 40);
    network.provision_address(extra, B, 1);
    network.provision_address([20, 0, 0, 41].into(), B, 2);
    let more = "tor = \"10.1.2.1:5304\"\nmetrics = \"127.0.0.1:9304\"\non_exit = \"remove\"";
    network.start_agent(B, more);
    network.wait_status(B, "its ToR knows it", |status| status["addresses"][0]["attached"] == true);
    let say = |network: &Network, words: &[&str]| network.agent(B, words);
    assert_eq!(say(&network, &["attach", "20.0.0.40"]), (0, "20.0.0.40 attached\n".to_owned()));
    assert_eq!(say(&network, &["attach", "20.0.0.41"]), (0, "20.0.0.41 attached\n".to_owned()), "of another service");
    let (code, text) = say(&network, &["attach", "20.0.0.42", "--timeout", "2s"]);
    assert!(code == 1 && text.starts_with("20.0.0.42 refused: the directory has no such address"), "{text}");
    assert_eq!(network.status(B)["verdict"], "not ok");
    for address in ["20.0.0.41", "20.0.0.42"] {
        assert_eq!(say(&network, &["detach", address]), (0, format!("{address} detached\n")));
    }
    let (code, text) = say(&network, &["attach", "30.0.0.1"]);
    assert!(code == 2 && text.contains("in none of the prefixes"), "{text}");
    // What was attached while it ran is still there after a crash.
    network.kill(B.name);
    network.start_agent(B, more);
    let status = network.wait_status(B, "both addresses are known again", |status| status["verdict"] == "ok");
    assert_eq!(status["addresses"].as_array().unwrap().len(), 2, "{status:#}");
    let metrics = network.within(B.name, || {
        let mut stream = TcpStream::connect("127.0.0.1:9304").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    assert!(
        metrics.contains("weft_agent_addresses 2") && metrics.contains("weft_agent_dropped_total{reason=\"forged_source\"} 0"),
        "{metrics}"
    );
    // A clean stop takes leave of the ToR.
    assert_eq!(network.terminate(B.name), Some(0));
    stop.store(true, Ordering::Relaxed);
    let heard = tor.join().unwrap();
    assert!(heard.windows(2).all(|pair| pair[1].sequence >= pair[0].sequence), "sequences grow");
    let last = heard.iter().rev().take_while(|it| it.kind == Kind::Detach);
    assert_eq!(last.filter(|it| it.address == B.aa() || it.address == extra).count(), 2);
}

#[test]
fn a_wrong_configuration_names_its_line_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let right = "role = \"host\"\ndevice = \"eth0\"\nprincipal = 1\nkey = \"k\"\ndirectory = [\"10.0.0.1:5303\"]\nprefixes = [\"20.0.0.0/8\"]\n\
        entropy = \"10.2.1.0/24\"\n";
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weft-agent"));
        let output = command.arg("--config").arg(&file).arg("--check").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said.replace(file.to_str().unwrap(), "FILE"))
    };
    let (code, said) = check(right);
    assert!(
        code == Some(2) && said.contains("FILE:4: cannot read the key k"),
        "right, but for what this machine has not: {said}"
    );
    let key = folder.path().join("key");
    std::fs::write(&key, "01".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let with_key = right.replace("\"k\"", &format!("\"{}\"", key.display())).replace("eth0", "nowhere0");
    let (code, said) = check(&with_key);
    assert!(code == Some(2) && said.contains("FILE:2: there is no Ethernet device `nowhere0`"), "{said}");
    let (code, said) = check(&right.replace(":5303", ":0"));
    assert!(code == Some(2) && said.contains("FILE:5: 10.0.0.1:0 has no port"), "{said}");
    let wrong = [
        ("colour = 1\n", "FILE:8: unknown field `colour`", "remove it"),
        ("tor = \"10.0.0.1\"\n", "FILE:8: no address and port: write such as", "docs/running-on-hosts.md"),
        ("[[address]]\naddress = \"30.0.0.1\"\n", "FILE:9: 30.0.0.1 is in none of the prefixes", "add its prefix"),
        (
            "[[address]]\naddress = \"20.0.0.1\"\n[[address]]\naddress = \"20.0.0.1\"\n",
            "FILE:11: the address is there twice",
            "remove one",
        ),
        ("multicast = \"10.0.0.0/8\"\n", "FILE:8: not a prefix of multicast addresses", "239.0.0.0/8"),
        ("fail_static = \"soon\"\n", "FILE:8: `soon` is not a time", "write \"unlimited\""),
        ("attach_refresh = \"soon\"\n", "FILE:8: `soon` is not a time", "docs/running-on-hosts.md"),
    ];
    for (line, message, remedy) in wrong {
        let (code, said) = check(&format!("{right}{line}"));
        assert!(code == Some(2) && said.contains(message) && said.contains(remedy), "{line}{said}");
    }
    let (code, said) = check(&right.replace("entropy = \"10.2.1.0/24\"", "entropy = \"20.2.1.0/24\""));
    assert!(code == Some(2) && said.contains("FILE:7: `entropy` overlaps"), "{said}");
    let (code, said) = check(&right.replace("device", "devise"));
    assert!(code == Some(2) && said.contains("FILE:2: unknown field `devise`"), "{said}");
}
