//! Detours on real packets (Subways section 6): a hot rack sends over the servers of its neighbours. As root, with the programs built; elsewhere the tests report that
//! they are skipped.
//!
//! ```text
//!   loop of h0..h9                                        loop of h10..h19: receivers
//!   rack 4 (h8, h9): tor3, tor4      rack 0 (h0, h1), hot: tor4, tor0      rack 1 (h2, h3): tor0, tor1
//! ```
//! Tests whose name starts with `timing_` compare rates and times, and need the processors for themselves.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // The test waits for programs by the wall clock.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration as StdDuration, Instant as WallInstant};

use socket2::{Domain, Protocol, Socket, Type};
use support::overlay::{GO, ask, counter};
use support::streams::{AtEnd, accept, wait_until};
use support::{TestLab, name, programs, serial, settings};
use weft_control::subways::{DetourConfig, SubwaysConfig};
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::time::NsDuration;
use weft_fabric::topology::shapes::subways::{RackSize, SubwaysSpec, SubwaysType, Uplinks};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Duration, Fabric, HostId, Instant};
use weft_lab::plan::{Plan, Routing};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;
use weft_lab::{Lab, agents};

/// Of every link: a rack's two ToRs have an uplink each.
const RATE: u64 = 20_000_000;
/// Hosts of the racks beside the hot one.
const NEIGHBOURS: [&str; 4] = ["h2", "h3", "h8", "h9"];

fn fabric() -> Fabric {
    let spec = SubwaysSpec {
        rack: RackSize::Servers(2),
        racks_per_cluster: 10,
        loop_length: Some(5),
        tor_uplinks: Uplinks::Count(1),
        ..SubwaysSpec::testbed(SubwaysType::Type1)
    };
    let link = Cabling { rate: BitsPerSec(RATE), delay: Duration::ZERO };
    Shape::Subways(spec).build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char, has_detours: bool) -> Plan {
    let settings = settings(name(letter), Routing::Static, 1.0);
    let period = NsDuration::from_ms(200);
    let detour = DetourConfig { detect: period, hot_duration: NsDuration::from_secs(2), ..DetourConfig::default() };
    let config = SubwaysConfig { period, detour: has_detours.then_some(detour), ..SubwaysConfig::default() };
    Plan::new(fabric, &settings).and_then(|plan| plan.with_access(fabric, &config)).expect("a plan")
}

/// Bits per second of payload that the hot rack sends, in 10 s.
fn goodput(letter: char, has_detours: bool) -> f64 {
    let fabric = fabric();
    let flows = (0..2).flat_map(|src| (10..20).flat_map(move |dst| [(src, dst); 2]));
    let flow = |(src, dst)| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
    let job = Job {
        plan: plan(&fabric, letter, has_detours),
        scenario: "test.toml".into(),
        vlb: false,
        router: Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1),
        load: Load::Flows(Box::new(StaticWorkload::new(flows.map(flow).collect()))),
        transport: Transport::Tcp,
        events: Vec::new(),
        duration: Some(Duration::from_secs(10)),
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    };
    let outcome = execute(&fabric, job, &GO, &mut |_| {}).expect("it runs");
    outcome.flows.iter().map(|f| f.bytes.0 as f64).sum::<f64>() * 8.0 / outcome.ended.as_secs_f64()
}

fn up(letter: char) -> Option<TestLab> {
    if !programs(&["weft-agent", "weft-scheduler"]) {
        return None;
    }
    let serial = serial();
    let (lab, _) = Lab::up(plan(&fabric(), letter, true), "test.toml".as_ref(), &GO).expect("it comes up");
    Some(TestLab::new(lab, serial))
}

fn address(lab: &TestLab, host: &str, nic: usize) -> Ipv4Addr {
    lab.node(host).ports[nic].address.expect("an address").address
}

/// Streams from h0 and h1 to all receivers while something is done; it gets the bytes that each has brought.
fn with_streams(lab: &TestLab, act: impl FnOnce(&[AtomicU64])) {
    let pairs: Vec<(String, String)> = (0..2).flat_map(|a| (10..20).map(move |b| (format!("h{a}"), format!("h{b}")))).collect();
    let (done, bytes) = (AtomicBool::new(false), pairs.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        let (_end, done) = (AtEnd(&done), &done);
        for ((from, to), bytes) in pairs.iter().zip(&bytes) {
            let listener = lab.at(to, || TcpListener::bind((address(lab, to, 0), 0)).expect("a port"));
            let at: SocketAddr = listener.local_addr().expect("an address");
            scope.spawn(move || {
                lab.at(from, || {
                    let mut stream = TcpStream::connect_timeout(&at, StdDuration::from_secs(10)).expect("a connection");
                    while !done.load(Ordering::Relaxed) && stream.write_all(&[0; 16_384]).is_ok() {}
                });
            });
            let (mut stream, _) = accept(&listener);
            scope.spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(length @ 1..) = stream.read(&mut buffer)
                    && !done.load(Ordering::Relaxed)
                {
                    bytes.fetch_add(length as u64, Ordering::Relaxed);
                }
            });
        }
        act(&bytes);
    });
}

/// Waits until every stream has brought more.
fn all_go_on(what: &str, bytes: &[AtomicU64]) {
    let watch = WallInstant::now();
    let before: Vec<u64> = bytes.iter().map(|it| it.load(Ordering::Relaxed)).collect();
    wait_until(what, || bytes.iter().zip(&before).all(|(now, before)| now.load(Ordering::Relaxed) > before + 50_000));
    eprintln!("{what}: every stream goes on after {:.1} s", watch.elapsed().as_secs_f64());
}

fn detoured(lab: &TestLab) -> u64 {
    ["h0", "h1"].iter().map(|host| ask(lab, host)["detours"]["flows"].as_u64().unwrap_or(0)).sum()
}

/// The rack's own ToRs have 40 Mbps, and three remote ones 36 Mbps for detours.
#[test]
fn timing_a_hot_rack_sends_more_over_its_neighbours() {
    if !programs(&["weft-agent", "weft-scheduler"]) {
        return;
    }
    let _serial = serial();
    let (alone, detours) = (goodput('a', false), goodput('b', true));
    eprintln!("{:.1} Mbps by its own ToRs, {:.1} Mbps with detours", alone / 1e6, detours / 1e6);
    assert!(alone < 2.0 * RATE as f64, "no more than two uplinks: {alone}");
    assert!(detours > 1.2 * alone, "{detours} against {alone}");
}

#[test]
fn streams_go_on_when_servers_that_forward_or_their_agents_die() {
    let Some(lab) = up('c') else { return };
    with_streams(&lab, |bytes| {
        wait_until("flows take detours", || detoured(&lab) > 0);
        let forwarded = || NEIGHBOURS.iter().map(|host| counter(&ask(&lab, host), "forwarded")).sum::<u64>();
        wait_until("neighbours forward", || forwarded() > 1000);
        assert!(NEIGHBOURS.iter().any(|host| counter(&ask(&lab, host), "forwarded_bytes") > 1_000_000));
        let nodes = NEIGHBOURS.map(|host| lab.node(host));
        assert!(nodes.iter().all(|node| agents::kill(node)));
        let watch = WallInstant::now();
        wait_until("flows go back to direct paths", || detoured(&lab) == 0);
        eprintln!("no flow has a detour {:.1} s after the agents died", watch.elapsed().as_secs_f64());
        all_go_on("the agents are dead", bytes);
        agents::restart(lab.plan(), &nodes, &GO).expect("they start");
        wait_until("flows take detours again", || detoured(&lab) > 0);
        for node in nodes {
            let down = node.ports.iter().map(|port| format!("ip link set {} down; ", port.name)).collect::<String>();
            lab.shell(&node.name, &down);
        }
        all_go_on("the servers are dead", bytes);
        wait_until("flows go back once more", || detoured(&lab) == 0);
    });
}

/// IP in IP by a raw socket, as a sender's program makes it, to a server that has no permit for it.
#[test]
fn a_packet_without_a_permit_is_refused() {
    let Some(lab) = up('d') else { return };
    wait_until("hosts are asked whether they take part", || ask(&lab, "h8")["weights"] == "the scheduler's weights");
    // h0 and h8 are both on tor4: by h8's NIC there, out by its other one, to h10.
    let nic = |host: &str| {
        let leads = |port: &weft_lab::plan::Port| lab.plan().nodes[port.peer.node].name == "tor4";
        lab.node(host).ports.iter().position(leads).expect("a NIC on tor4")
    };
    let (from, via, to) = (address(&lab, "h0", nic("h0")), address(&lab, "h8", nic("h8")), address(&lab, "h10", 0));
    let out = 1 - nic("h8") as u8;
    let header = |length: u16, protocol: u8, to: Ipv4Addr, id: u8| {
        let mut header = vec![0x45, 0];
        header.extend(length.to_be_bytes());
        header.extend([0, id, 0x40, 0, 64, protocol, 0, 0]);
        header.extend(from.octets());
        header.extend(to.octets());
        header
    };
    let packet = [header(60, 4, via, out), header(40, 6, to, 0), vec![0; 20]].concat();
    lab.at("h0", || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("a raw socket");
        socket.bind(&SocketAddrV4::new(from, 0).into()).expect("its address");
        for _ in 0..5 {
            // The kernel fills in the identification only if it is 0.
            socket.send_to(&packet, &SocketAddrV4::new(via, 0).into()).expect("it is sent");
        }
    });
    wait_until("it is counted", || counter(&ask(&lab, "h8"), "detour_refused") >= 5);
    let status = ask(&lab, "h8");
    assert_eq!((counter(&status, "detour_refused"), counter(&status, "forwarded")), (5, 0));
}
