//! Paths of an overlay that really stands: a flow that loses whole windows finds another one, IPv6 between application addresses, routes no wider than switches can
//! spread over, directory servers that move. As root, with `weft-agent` and `weft-directory` built; elsewhere they say that they are skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use support::TestLab;
use support::overlay::{GO, ask, counter, groups_held, host, overlay, plan_of, signal, stand};
use weft_fabric::topology::shapes::Shape;
use weft_lab::plan::Store;
use weft_lab::plan::vl2::{LocatorKind, Vl2Spec};
use weft_lab::plan::{Plan, Routing};
use weft_lab::probe::ping;
use weft_lab::{Stopwatch, agents};

fn plan(letter: char, shape: Shape, ecmp_width: u16) -> Plan {
    plan_of(shape, letter, Vl2Spec { locator: LocatorKind::Tor, ecmp_width, services: Vec::new(), external: Vec::new() })
}

fn name_of(lab: &TestLab, index: usize) -> String {
    lab.plan().nodes[host(lab, index).node].name.clone()
}

/// Waits until a condition holds, which `what` names in messages.
#[track_caller]
fn wait(what: &str, seconds: u64, mut is_met: impl FnMut() -> bool) {
    let watch = Stopwatch::new();
    while !is_met() {
        assert!(watch.elapsed() < Duration::from_secs(seconds), "{what}: not after {seconds} s");
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{what} after {:?}", watch.elapsed());
}

/// Connections that send a little all the time, and how much of each has come.
struct Streams<'a> {
    done: &'a AtomicBool,
    received: &'a [AtomicU64],
}

impl Streams<'_> {
    fn counts(&self) -> Vec<u64> {
        self.received.iter().map(|r| r.load(Ordering::Relaxed)).collect()
    }

    /// Which of them have received something since.
    fn moved_since(&self, before: &[u64]) -> Vec<bool> {
        self.counts().iter().zip(before).map(|(now, before)| now > before).collect()
    }
}

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Does something while connections from one host to another go on.
fn with_streams(lab: &TestLab, from: usize, to: usize, count: usize, work: impl FnOnce(&Streams<'_>)) {
    let address = SocketAddr::new(host(lab, to).aa4.into(), 7001);
    let listener = lab.at(&name_of(lab, to), || TcpListener::bind(address).expect("a free port"));
    let (done, received) = (AtomicBool::new(false), (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        let streams = Streams { done: &done, received: &received };
        for received in &received {
            let sender = lab.at(&name_of(lab, from), || TcpStream::connect(address).expect("a connection"));
            let (receiver, _) = listener.accept().expect("a connection");
            let (mut sender, mut receiver) = (sender, receiver);
            sender.set_nonblocking(true).expect("a setting");
            receiver.set_read_timeout(Some(Duration::from_millis(50))).expect("a setting");
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let _ = sender.write(&[0; 2000]);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            scope.spawn(move || {
                let mut buffer = [0; 65_536];
                while !done.load(Ordering::Relaxed) {
                    received.fetch_add(receiver.read(&mut buffer).unwrap_or(0) as u64, Ordering::Relaxed);
                }
            });
        }
        work(&streams);
    });
}

/// An intermediate switch loses what a host sends, silently, and nobody mends the routes: flows over it lose whole windows, so the host's agent gives them other paths (VL2
/// section 4.2.2). Before that IPv6, in the same lab.
#[test]
fn timing_flows_leave_a_silent_switch() {
    let shape = Shape::ClosExplicit { intermediates: 4, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let mut plan = plan('d', shape, 16);
    plan.routing = Routing::Static;
    let Some(lab) = stand(plan) else { return };
    six(&lab);
    let before = counter(&ask(&lab, &name_of(&lab, 0)), "congestion_events");
    with_streams(&lab, 0, 3, 24, |streams| {
        wait("all streams flow", 25, || streams.counts().iter().all(|&bytes| bytes > 40_000));
        let silenced = &lab.plan().nodes[overlay(&lab).intermediates[0]].name;
        lab.shell(silenced, &format!("ip rule add from {} blackhole pref 1", host(&lab, 0).entropy));
        std::thread::sleep(Duration::from_millis(100));
        // Packets in flight have arrived; the first retransmission timeouts have not expired, or were without success.
        let at_first = streams.counts();
        std::thread::sleep(Duration::from_millis(90));
        let went_on = streams.moved_since(&at_first);
        let stalled: Vec<usize> = (0..went_on.len()).filter(|&i| !went_on[i]).collect();
        eprintln!("{stalled:?} of {} go over {silenced}", went_on.len());
        assert!(!stalled.is_empty() && stalled.len() < went_on.len(), "some go over the switch: {went_on:?}");
        let mut last = streams.counts();
        wait("nine of ten flows go on", 25, || {
            std::thread::sleep(Duration::from_millis(250));
            let moved = streams.moved_since(&last);
            last = streams.counts();
            moved.iter().filter(|&&moved| moved).count() * 10 >= moved.len() * 9
        });
        // And it was the agent that did it: the switch still loses what comes.
        lab.shell(silenced, "ip rule show | grep -q blackhole");
    });
    let events = counter(&ask(&lab, &name_of(&lab, 0)), "congestion_events") - before;
    eprintln!("{events} congestion events at the sender");
    assert!(events > 0);
}

/// Neighbour discovery, echoes and TCP between IPv6 application addresses.
fn six(lab: &TestLab) {
    let (from, to) = (host(lab, 1).clone(), host(lab, 2).clone());
    assert_ne!(from.tor, to.tor);
    lab.shell(&name_of(lab, 1), &format!("ping -6 -c 3 -i 0.2 -W 5 {} > /dev/null", to.aa6));
    let address = SocketAddr::new(IpAddr::V6(to.aa6), 7002);
    let listener = lab.at(&name_of(lab, 2), || TcpListener::bind(address).expect("a free port"));
    let sent: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lab.at(&name_of(lab, 1), || TcpStream::connect(address).and_then(|mut s| s.write_all(&sent)).expect("it is sent"));
        });
        let (mut stream, peer) = listener.accept().expect("a connection");
        assert_eq!(peer.ip(), IpAddr::V6(from.aa6), "it comes from the application address");
        stream.read_to_end(&mut received).expect("bytes");
    });
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    let unknown = std::net::Ipv6Addr::from(u128::from(to.aa6) + 1000);
    let status = lab.at(&name_of(lab, 1), || {
        Command::new("ping")
            .args(["-6", "-c", "1", "-W", "1", &unknown.to_string()])
            .stdout(Stdio::null())
            .status()
            .expect("ping")
    });
    assert!(!status.success(), "nobody has {unknown}");
}

/// Four equal uplinks and switches that spread over three: no route has more next hops, and of five intermediate switches three are in the first group and two in the
/// second. When one of the two fails, one of the three takes its place, and returns when it is back; when FRR has died on both, others serve their group.
#[test]
fn switches_spread_no_wider_than_they_can() {
    let shape = Shape::ClosExplicit { intermediates: 5, aggregations: 4, tors: 2, uplinks_per_tor: 4, hosts_per_tor: 2 };
    let Some(lab) = stand(plan('e', shape, 3)) else { return };
    let routes = lab.at("tor0", || Command::new("ip").args(["-j", "route", "show", "proto", "ospf"]).output().expect("ip"));
    let routes: Vec<Value> = serde_json::from_slice(&routes.stdout).expect("JSON");
    let hops: Vec<usize> = routes.iter().filter_map(|r| r["nexthops"].as_array()).map(Vec::len).collect();
    assert!(hops.iter().all(|&n| n == 3) && hops.len() >= 3, "{hops:?}");
    let members = |except: Option<&str>| {
        let held = groups_held(&lab, except);
        [1, 2].map(|group| held.get(&group).map_or_else(String::new, |members| members.join(" ")))
    };
    wait("both groups have their members", 20, || members(None) == ["int0 int2 int4", "int1 int3"]);
    // A switch takes over a group only some time after its start.
    lab.wait_until_age(Duration::from_secs(6));
    let ports: String = lab.node("int1").ports.iter().map(|port| format!("ip link set {} down; ", port.name)).collect();
    lab.shell("int1", &ports);
    wait("int4 takes the place of int1", 15, || members(Some("int1")) == ["int0 int2", "int3 int4"]);
    wait("all hosts reach each other", 25, || ping::all(lab.plan(), 84, &GO).expect("sockets").lost.is_empty());
    lab.shell("int1", &ports.replace("down", "up"));
    wait("both groups have their own members again", 25, || members(None) == ["int0 int2 int4", "int1 int3"]);
    wait("all hosts reach each other", 25, || ping::all(lab.plan(), 84, &GO).expect("sockets").lost.is_empty());
    for own in ["int1", "int3"] {
        signal(&lab, own, &["zebra", "ospfd", "bfdd", "pimd"], "KILL");
    }
    // The dead ones' agents see nobody, and serve all groups themselves.
    let others = || members(Some("int1")).map(|group| group.split(' ').filter(|it| *it != "int3").collect::<Vec<_>>().join(" "));
    wait("int4 serves the second group", 15, || others() == ["int0 int2", "int4"]);
    wait("all hosts reach each other", 25, || ping::all(lab.plan(), 84, &GO).expect("sockets").lost.is_empty());
}

/// A process that goes with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A directory server moves: one begins elsewhere, is entered into the directory under the group of servers, and the others end. Agents have followed.
#[test]
fn agents_follow_a_directory_server_that_moves() {
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 3, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let plan = plan('f', shape, 16).with_directory(2, Store::Etcd).expect("a plan");
    let Some(lab) = stand(plan) else { return };
    let (plan, vl2) = (lab.plan(), overlay(&lab));
    let folder = agents::folder(plan).display().to_string();
    let locator = |node: usize| plan.nodes[node].locator;
    let new_home = vl2.hosts.iter().find(|h| !vl2.directory.hosts.contains(&h.node)).expect("a host without a server");
    let listen = format!("{}:5303", locator(new_home.node));
    let program = weft_lab::programs::find("weft-directory").expect("it is built");
    let store = format!("etcd:http://{}:2379", locator(vl2.directory.hosts[0]));
    let serve = [
        "serve",
        "--dir",
        &folder,
        "--listen",
        &listen,
        "--auth",
        "mac",
        "--metrics",
        "off",
        "--principal",
        "3",
        "--store",
        &store,
        "--etcd-plaintext",
    ];
    let started = lab.at(&plan.nodes[new_home.node].name, || {
        Command::new(&program)
            .args(serve)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs")
    });
    let _server = Server(started);
    let old = format!("{}:5303", locator(vl2.directory.hosts[0]));
    let new = locator(new_home.node).to_string();
    let ask_it = |arguments: &[&str]| {
        let of = ["--dir", &folder, "--servers", &old, "--principal", "2", "--auth", "mac"];
        lab.at(&plan.nodes[vl2.directory.hosts[0]].name, || {
            Command::new(&program).args(arguments).args(of).output().expect("it runs")
        })
    };
    let put = ask_it(&["put", "group:65535", &new]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let knows = |node: &str| {
        let servers = ask(&lab, node)["directory"].clone();
        servers.as_array().is_some_and(|all| all.iter().any(|s| s["server"] == listen.as_str()))
    };
    let follows = |h: usize| knows(&name_of(&lab, h));
    wait("every host's agent knows the server's new place", 20, || (0..vl2.hosts.len()).all(follows));
    wait("every ToR's agent knows it", 45, || ["tor0", "tor1", "tor2"].iter().all(|tor| knows(tor)));
    for &at in &vl2.directory.hosts {
        signal(&lab, &plan.nodes[at].name, &["weft-directory"], "KILL");
    }
    // Nobody has asked for these before.
    wait("hosts find each other by the server that is left", 20, || ping::all(plan, 84, &GO).expect("sockets").lost.is_empty());
}
