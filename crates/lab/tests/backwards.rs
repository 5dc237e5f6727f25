//! What VL2 section 4.2.3 asks of the switches: hosts of the outside without a gateway, and a service's broadcast by multicast. Without
//! agents: hosts send here what an agent would. As root; elsewhere they say that they are skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use support::streams::wait_until;
use support::{TestLab, name, plan, possible, serial, try_up};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Fabric};
use weft_lab::Stopwatch;
use weft_lab::plan::vl2::{LocatorKind, Vl2Spec};
use weft_lab::plan::{Routing, outside};

const CLOS: Shape = Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 };

fn overlaid(letter: char, routing: Routing, external: Vec<u32>) -> Option<TestLab> {
    if !possible() {
        return None;
    }
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric: Fabric = CLOS.build(link, link).expect("a fabric");
    let overlay = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 16, services: Vec::new(), external };
    let serial = serial();
    let plan = plan(CLOS, name(letter), routing).with_vl2(&fabric, &overlay).expect("a plan");
    let lab = try_up(plan, &std::sync::atomic::AtomicBool::new(false)).expect("it comes up");
    Some(TestLab::new(lab, serial))
}

#[test]
fn the_outside_by_bgp() {
    let Some(lab) = overlaid('o', Routing::Frr, vec![0, 5]) else { return };
    the_outside_reaches_hosts_and_they_it(&lab);
    a_border_fails(&lab);
}

#[test]
fn the_outside_by_kernel_routes() {
    let Some(lab) = overlaid('p', Routing::Static, vec![0, 5]) else { return };
    the_outside_reaches_hosts_and_they_it(&lab);
}

/// Connections of both directions, with 4 KB in each direction; by both borders in both directions.
fn the_outside_reaches_hosts_and_they_it(lab: &TestLab) {
    let outer = SocketAddrV4::new(outside::ADDRESS, 80);
    for (i, host) in [(1, "h0"), (2, "h5")] {
        let own = Ipv4Addr::new(203, 0, 113, i);
        let before = crossed(lab);
        for _ in 0..16 {
            exchange(lab, outside::ROUTER, host, SocketAddrV4::new(own, 80), None);
            exchange(lab, host, outside::ROUTER, outer, Some(own));
        }
        let after = crossed(lab);
        for (direction, (before, after)) in ["out", "in"].iter().zip(before.iter().zip(&after)) {
            let packets: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            assert!(packets.iter().all(|&p| p > 20), "{host}, {direction}: 32 connections take both borders: {packets:?}");
        }
    }
}

/// Packets that crossed each border's link, out and in.
fn crossed(lab: &TestLab) -> [Vec<u64>; 2] {
    let out = ["core0", "core1"].iter().map(|c| *lab.sent(c).last().expect("its link to the outside")).collect();
    [out, lab.sent(outside::ROUTER)]
}

fn exchange(lab: &TestLab, from: &str, to: &str, address: SocketAddrV4, source: Option<Ipv4Addr>) {
    let listener = lab.at(to, || TcpListener::bind(address).expect("its address"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("somebody");
            let mut bytes = vec![0; 4096];
            stream.read_exact(&mut bytes).expect("4 KB");
            stream.write_all(&bytes).expect("sent back");
        });
        let mut stream = lab.at(from, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
            if let Some(source) = source {
                socket.bind(&SocketAddrV4::new(source, 0).into()).expect("its own address");
            }
            socket.connect_timeout(&address.into(), Duration::from_secs(3)).expect("it is reached");
            TcpStream::from(socket)
        });
        stream.write_all(&[7; 4096]).expect("sent");
        let mut bytes = vec![0; 4096];
        stream.read_exact(&mut bytes).expect("4 KB back");
    });
}

/// Without one border all goes by the other.
fn a_border_fails(lab: &TestLab) {
    let port = lab.node("core0").ports.last().expect("its link to the outside").name.clone();
    lab.shell("core0", &format!("ip link set {port} down"));
    let own = Ipv4Addr::new(203, 0, 113, 1);
    let uplinks = || {
        lab.at("edge0", || {
            let text = std::process::Command::new("ip").args(["route", "show", "default"]).output().expect("ip").stdout;
            String::from_utf8_lossy(&text).matches(" via ").count()
        })
    };
    wait_until("OSPF withdraws the route that BGP has lost", || uplinks() == 1);
    for _ in 0..8 {
        exchange(lab, outside::ROUTER, "h0", SocketAddrV4::new(own, 80), None);
    }
}

/// A packet to a service's group reaches every host that joined and no other, and crosses no link twice.
#[test]
fn a_broadcast_crosses_each_link_at_most_once() {
    let Some(lab) = overlaid('b', Routing::Frr, Vec::new()) else { return };
    let group = Ipv4Addr::new(239, 1, 0, 7);
    // Locators take no other traffic than the operator's; a scheduler's port is part of it.
    const PORT: u16 = 5305;
    let join = |host: &str| {
        let own = lab.node(host).locator;
        lab.at(host, || {
            let socket = UdpSocket::bind((group, PORT)).expect("a free port");
            socket.join_multicast_v4(&group, &own).expect("joined");
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
            socket
        })
    };
    let members: Vec<UdpSocket> = ["h1", "h2", "h4"].map(join).into();
    let stranger = lab.at("h3", || UdpSocket::bind((group, PORT)).expect("a free port"));
    stranger.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let sender = lab.at("h0", || UdpSocket::bind((lab.node("h0").locator, 0)).expect("a free port"));
    sender.set_multicast_ttl_v4(16).expect("a TTL");
    let mut buffer = [0; 64];
    let mut send = |byte: u8| {
        sender.send_to(&[byte; 32], (group, PORT)).expect("sent");
        members.iter().filter(|m| m.recv(&mut buffer).is_ok_and(|n| n == 32 && buffer[0] == byte)).count()
    };
    let all = || ["edge0", "edge1", "edge2", "core0", "core1"].map(|s| lab.sent(s));
    // Joins and the sender's tree take some time: the first packets may be lost, or sent twice, and once more while the last routers change to the
    // tree. Hellos of OSPF, PIM and BFD are counted too.
    let mut stable = None;
    wait_until("packets have taken the sender's tree for two seconds", || {
        let before = all();
        let reached = (0..20).all(|_| send(1) == members.len());
        let counts = before.iter().flatten().zip(all().into_iter().flatten()).map(|(before, after)| after - before);
        if !reached || counts.max().is_none_or(|most| most >= 30) {
            stable = None;
            return false;
        }
        stable.get_or_insert_with(Stopwatch::new).elapsed() >= Duration::from_secs(2)
    });
    // From here a packet that does not come is a failure: it may take its time on a busy machine.
    members.iter().for_each(|m| m.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout"));
    let before = all();
    let packets = 200;
    let reached = (0..packets).filter(|_| send(2) == members.len()).count();
    let after = all();
    assert_eq!(reached, packets, "each packet reaches all members");
    for (name, (before, after)) in ["edge0", "edge1", "edge2", "core0", "core1"].iter().zip(before.iter().zip(&after)) {
        for (port, (b, a)) in before.iter().zip(after).enumerate() {
            // Hellos of OSPF, PIM and BFD are counted too: some 12 per second.
            assert!(a - b < packets as u64 * 3 / 2, "{name} p{port} sent {} packets for {packets} broadcasts", a - b);
        }
    }
    assert!(stranger.recv(&mut buffer).is_err(), "who has not joined hears nothing");
    the_second_rendezvous_point_takes_over(&lab, group, PORT, &members);
}

/// The rendezvous point fails: a new sender reaches all members by way of the second.
fn the_second_rendezvous_point_takes_over(lab: &TestLab, group: Ipv4Addr, port: u16, members: &[UdpSocket]) {
    members.iter().for_each(|m| m.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout"));
    let reaches = |host: &str, byte: u8| {
        let sender = lab.at(host, || UdpSocket::bind((lab.node(host).locator, 0)).expect("a free port"));
        sender.set_multicast_ttl_v4(16).expect("a TTL");
        let watch = Stopwatch::new();
        let mut buffer = [0; 64];
        let mut heard = |member: &UdpSocket| member.recv(&mut buffer).is_ok_and(|n| n == 32 && buffer[0] == byte);
        wait_until("a new sender reaches all members", || {
            sender.send_to(&[byte; 32], (group, port)).expect("sent");
            members.iter().filter(|member| heard(member)).count() == members.len()
        });
        watch.elapsed()
    };
    eprintln!("a new sender is heard after {:?} while all live", reaches("h5", 5));
    let ports: String = lab.node("core0").ports.iter().map(|port| format!("ip link set {} down; ", port.name)).collect();
    lab.shell("core0", &ports);
    let took = reaches("h3", 3);
    eprintln!("a new sender is heard {took:?} after the rendezvous point has failed");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
