//! Services on the same ToRs that may not talk, in a lab that really stands (VL2 section 4.3.3): lookups across them are refused, and packets that are forged to cross
//! nevertheless are dropped and counted by reason. As root, with `weft-agent` and `weft-directory` built; elsewhere it says that it is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use support::TestLab;
use support::overlay::{ask, counter, host, plan_of, stand};
use weft_fabric::topology::shapes::Shape;
use weft_lab::plan::vl2::{LocatorKind, ServiceSpec, Vl2Host, Vl2Spec};

/// Two ToRs of two hosts: of each the first is of the one service, the second of the other.
const WEB: [usize; 2] = [0, 2];
const BATCH: [usize; 2] = [1, 3];
const PACKETS: u64 = 20;

fn name_of(lab: &TestLab, host: &Vl2Host) -> String {
    lab.plan().nodes[host.node].name.clone()
}

/// The sum of some drops of a host's agent.
fn drops(lab: &TestLab, host: &Vl2Host, reasons: &[&str]) -> u64 {
    let status = ask(lab, &name_of(lab, host));
    reasons.iter().map(|reason| counter(&status, reason)).sum()
}

/// What comes to a port of a host during a test.
fn heard(lab: &TestLab, host: &Vl2Host, send: impl FnOnce()) -> usize {
    let socket = lab.at(&name_of(lab, host), || UdpSocket::bind((host.aa4, PORT)).expect("a free port"));
    socket.set_read_timeout(Some(Duration::from_millis(1500))).expect("a setting");
    send();
    std::iter::from_fn(|| socket.recv_from(&mut [0; 64]).ok()).count()
}

const PORT: u16 = 7100;

#[test]
fn services_are_kept_apart_and_forgeries_are_counted() {
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let service = |name: &str, hosts: [usize; 2]| ServiceSpec {
        name: name.to_owned(),
        hosts: hosts.map(|h| h as u32).to_vec(),
        allow: Vec::new(),
    };
    let services = vec![service("web", WEB), service("batch", BATCH)];
    let overlay = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 16, services, external: Vec::new() };
    let Some(lab) = stand(plan_of(shape, 'g', overlay)) else { return };
    within_a_service_all_is_well(&lab);
    lookups_across_services_are_refused(&lab);
    a_source_that_is_not_ones_own_goes_nowhere(&lab);
    what_is_encapsulated_by_hand_is_not_taken(&lab);
    within_a_service_all_is_well(&lab);
}

fn within_a_service_all_is_well(lab: &TestLab) {
    for [a, b] in [WEB, BATCH] {
        let (from, to) = (host(lab, a), host(lab, b));
        let got = heard(lab, to, || send(lab, from, from.aa4, to.aa4));
        assert_eq!(got as u64, PACKETS, "{} to {}", name_of(lab, from), name_of(lab, to));
    }
}

/// Packets from an address of a host, by its stack.
fn send(lab: &TestLab, from: &Vl2Host, source: Ipv4Addr, to: Ipv4Addr) {
    lab.at(&name_of(lab, from), || {
        let socket = UdpSocket::bind((source, 0)).expect("an address of this host");
        for _ in 0..PACKETS {
            // The "unreachable" of an earlier packet may be reported here.
            let _ = socket.send_to(&[7; 32], (to, PORT)).or_else(|_| socket.send_to(&[7; 32], (to, PORT)));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn lookups_across_services_are_refused(lab: &TestLab) {
    let (from, neighbour, far) = (host(lab, WEB[0]), host(lab, BATCH[0]), host(lab, BATCH[1]));
    for to in [neighbour, far] {
        let before = drops(lab, from, &["held_forbidden", "out_forbidden"]);
        assert_eq!(heard(lab, to, || send(lab, from, from.aa4, to.aa4)), 0, "to {}", name_of(lab, to));
        let address = SocketAddr::from(SocketAddrV4::new(to.aa4, PORT));
        let connected = lab.at(&name_of(lab, from), || TcpStream::connect_timeout(&address, Duration::from_secs(2)));
        assert!(connected.is_err(), "nobody of another service is found");
        let refused = drops(lab, from, &["held_forbidden", "out_forbidden"]) - before;
        eprintln!("{} lookups and packets to {} refused", refused, name_of(lab, to));
        assert!(refused > 0);
    }
}

/// A program takes an address of the other service, so that it may talk to that.
fn a_source_that_is_not_ones_own_goes_nowhere(lab: &TestLab) {
    let (from, claimed, to) = (host(lab, WEB[0]), host(lab, BATCH[0]), host(lab, BATCH[1]));
    let before = drops(lab, from, &["forged_source"]);
    let name = name_of(lab, from);
    lab.shell(&name, &format!("ip addr add {}/32 dev lo", claimed.aa4));
    // The address of its neighbour is known by hand: nobody is asked who has it.
    lab.shell(&name, &format!("ip neigh replace {} lladdr 02:57:46:54:00:01 dev eth0", to.aa4));
    let got = heard(lab, to, || send(lab, from, claimed.aa4, to.aa4));
    lab.shell(&name, &format!("ip addr del {}/32 dev lo; ip neigh del {} dev eth0", claimed.aa4, to.aa4));
    let dropped = drops(lab, from, &["forged_source"]) - before;
    assert_eq!((got, dropped), (0, PACKETS), "each is dropped where it was forged");
}

/// A program encapsulates by itself, past its agent, which minds application addresses alone: the receiver's agent asks whether it may hear this sender.
fn what_is_encapsulated_by_hand_is_not_taken(lab: &TestLab) {
    let (from, to) = (host(lab, WEB[0]), host(lab, BATCH[1]));
    let reasons = ["in_forbidden", "held_forbidden"];
    let before = drops(lab, to, &reasons);
    let tor = lab.plan().nodes[to.tor].locator;
    let got = heard(lab, to, || {
        lab.at(&name_of(lab, from), || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_IPIP))).expect("a raw socket");
            for _ in 0..PACKETS {
                let inner = datagram(from.aa4, to.aa4);
                socket.send_to(&inner, &SockAddr::from(SocketAddrV4::new(tor, 0))).expect("it is sent");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    });
    let dropped = drops(lab, to, &reasons) - before;
    assert_eq!((got, dropped), (0, PACKETS), "each is dropped by the agent of the receiver");
}

/// A UDP packet without a checksum, in IPv4.
fn datagram(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let payload = [9; 32];
    let length = 20 + 8 + payload.len() as u16;
    let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(source.octets());
    packet.extend(destination.octets());
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    for field in [5000, PORT, 8 + payload.len() as u16, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    packet
}
