//! Detours: headers pushed by the sender, stripped by the servers on the path, refused where no permit is.
//!
//! ```text
//!   sender NIC 1 -> SERVER[0] in 0, out 1 -> SERVER[1] in 0, out 1 -> ... -> GUARD in 1, out 0 -> peer NIC 0
//!                leaving detour 8, of the sender                          arriving detour 9, of the peer
//! ```

use weft_control::wire::subways::Hop;

use super::*;
use crate::dataplane::generated::subways_host::types::{subways_detour, subways_permit, subways_permit_key};
use crate::subways::dataplane::detours::{DETOURS, PERMITS, TAKES_PART, detour_key};

/// Servers of neighbouring racks, by NIC.
pub(super) const SERVERS: [[Ipv4Addr; 2]; 2] =
    [[Ipv4Addr::new(10, 0, 1, 7), Ipv4Addr::new(10, 0, 4, 7)], [Ipv4Addr::new(10, 0, 4, 8), Ipv4Addr::new(10, 0, 5, 8)]];
/// A server beside the peer.
const GUARD: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 2, 9), Ipv4Addr::new(10, 0, 6, 9)];
pub(super) const FOREVER: u64 = u64::MAX;
const IP: usize = 14;

/// A hop's header, as the reference has it.
fn outer(source: Ipv4Addr, hop: Hop, inner: usize, tos: u8) -> Vec<u8> {
    let mut ip = vec![0x45, tos];
    ip.extend((20 + inner as u16).to_be_bytes());
    ip.extend([0, hop.out, 0x40, 0, 64, 4, 0, 0]);
    ip.extend(source.octets());
    ip.extend(hop.via.octets());
    let sum = checksum(0, &ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// A frame with headers before its packet, the outermost first.
pub(super) fn with_outer(source: Ipv4Addr, hops: &[Hop], frame: &[u8]) -> Vec<u8> {
    let mut packet = frame[IP..].to_vec();
    for &hop in hops.iter().rev() {
        packet = [outer(source, hop, packet.len(), frame[IP + 1]), packet].concat();
    }
    [&frame[..IP], &packet].concat()
}

fn detour(hops: &[Hop], nic: u8, until_ns: u64) -> subways_detour {
    let mut raw = subways_detour { until_ns, hops: hops.len() as u8, nic, ..Default::default() };
    for (at, hop) in hops.iter().enumerate() {
        (raw.via[at], raw.out[at]) = (be(hop.via), hop.out);
    }
    raw
}

pub(super) const LEAVING: [Hop; 2] = [Hop { via: SERVERS[0][0], out: 1 }, Hop { via: SERVERS[1][0], out: 1 }];
pub(super) const ARRIVING: [Hop; 1] = [Hop { via: GUARD[1], out: 0 }];

impl Plane {
    /// A sender whose flows all take the leaving detour 8, by NIC 1, and the arriving detour 9 of the peer, to its NIC 0; `until` then.
    pub(super) fn sender(until: u64) -> Option<Self> {
        let plane = Self::new(&[(8, 9), (0, 1)], 3 | 1 << 8)?;
        let table = plane.loaded.table(&DETOURS);
        table.set(&detour_key(OWN[0], 8), &detour(&LEAVING, 1, until)).unwrap();
        table.set(&detour_key(PEER[0], 9), &detour(&ARRIVING, 0, until)).unwrap();
        Some(plane)
    }

    /// A server with these NICs, which takes part in detours and knows sender, peer and all servers.
    pub(super) fn server(own: [Ipv4Addr; 2]) -> Option<Self> {
        let plane = Self::new(&[(0, 0)], 3)?;
        let mut settings = subways_settings { up: 3 | TAKES_PART, ..Default::default() };
        (settings.address[0], settings.address[1]) = (be(own[0]), be(own[1]));
        plane.loaded.table(&SETTINGS).set(&0, &settings).unwrap();
        for host in [OWN, PEER, SERVERS[0], SERVERS[1], GUARD].iter().filter(|host| **host != own) {
            host.iter().for_each(|&nic| plane.loaded.table(&NICS).set(&be(nic), &be(host[0])).unwrap());
        }
        Some(plane)
    }

    pub(super) fn permit(&self, host: Ipv4Addr, (into, out): (u8, u8), is_in: bool, (kbps, until_ns): (u32, u64)) {
        let key = subways_permit_key { host: be(host), into, out, direction: u8::from(is_in), ..Default::default() };
        let permit = subways_permit { until_ns, burst_ns: 1_000_000_000, kbps, ..Default::default() };
        self.loaded.table(&PERMITS).set(&key, &permit).unwrap();
    }

    /// The first packet of some flow that takes the detours, as it leaves.
    pub(super) fn detoured(&self, tos: u8) -> (u16, Vec<u8>) {
        let first = self.count("detoured");
        for sport in 1000..1100 {
            let mut packet = frame(OWN[0], PEER[0], [sport, 80], 7, ACK, b"some bytes");
            set_tos(&mut packet, tos);
            let (answer, out) = run(&self.loaded, "subways_out", &packet, 0);
            assert_eq!(answer, REDIRECTED);
            if self.count("detoured") > first {
                return (sport, out);
            }
        }
        panic!("half of the slots are detours");
    }
}

fn set_tos(frame: &mut [u8], tos: u8) {
    frame[IP + 1] = tos;
    frame[IP + 10..IP + 12].fill(0);
    let sum = checksum(0, &frame[IP..IP + 20]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
}

/// What a server sends on.
fn forwarded(server: &Plane, packet: &[u8]) -> Vec<u8> {
    let (answer, out) = run(&server.loaded, "subways_in", packet, 0);
    assert_eq!(answer, REDIRECTED, "it is forwarded");
    out
}

#[test]
fn a_packet_passes_all_servers_and_arrives_as_a_direct_one() {
    let Some(sender) = Plane::sender(FOREVER) else { return };
    let servers = [SERVERS[0], SERVERS[1], GUARD].map(|own| Plane::server(own).unwrap());
    servers[0].permit(OWN[0], (0, 1), false, (1_000_000, FOREVER));
    servers[1].permit(OWN[0], (0, 1), false, (1_000_000, FOREVER));
    servers[2].permit(PEER[0], (1, 0), true, (1_000_000, FOREVER));
    let (sport, first) = sender.detoured(0);
    let direct = frame(OWN[1], PEER[0], [sport, 80], 7, ACK, b"some bytes");
    let hops = [LEAVING[0], LEAVING[1], ARRIVING[0]];
    assert_eq!(first[IP..], with_outer(OWN[1], &hops, &direct)[IP..], "three headers, with right checksums");
    let mut packet = first;
    for (at, server) in servers.iter().enumerate() {
        packet = forwarded(server, &packet);
        assert_eq!(packet[IP..], with_outer(OWN[1], &hops[at + 1..], &direct)[IP..], "after server {at}");
        assert_eq!((server.count("forwarded"), server.count("detour_refused")), (1, 0));
    }
    assert_eq!(packet[IP..], direct[IP..]);
    assert_eq!(servers[0].count("forwarded_bytes"), direct.len() as u64 + 40);
}

#[test]
fn flows_leave_a_detour_that_has_lapsed_or_gone() {
    let Some(sender) = Plane::sender(FOREVER) else { return };
    let (sport, _) = sender.detoured(0);
    let send = || run(&sender.loaded, "subways_out", &frame(OWN[0], PEER[0], [sport, 80], 17, ACK, b"more"), 0);
    let is_direct = |out: &[u8]| out[IP..] == frame(OWN[0], PEER[1], [sport, 80], 17, ACK, b"more")[IP..];
    let table = sender.loaded.table(&DETOURS);
    table.set(&detour_key(PEER[0], 9), &detour(&ARRIVING, 0, 1)).unwrap();
    assert!(is_direct(&send().1), "the arriving one has lapsed");
    table.set(&detour_key(PEER[0], 9), &detour(&ARRIVING, 0, FOREVER)).unwrap();
    assert!(is_direct(&send().1), "it stays on its NICs");
    let (sport, _) = sender.detoured(0);
    table.remove(&detour_key(OWN[0], 8)).unwrap();
    let (answer, out) = run(&sender.loaded, "subways_out", &frame(OWN[0], PEER[0], [sport, 80], 17, ACK, b"more"), 0);
    assert_eq!((answer, out.len()), (REDIRECTED, frame(OWN[0], PEER[1], [sport, 80], 17, ACK, b"more").len()));
    assert_eq!(sender.count("flows_off_detour"), 2);
}

#[test]
fn a_server_refuses_what_it_has_no_permit_for() {
    let Some(server) = Plane::server(SERVERS[0]) else { return };
    let hop = LEAVING[0];
    let direct = frame(OWN[1], PEER[0], [1, 80], 7, ACK, b"x");
    let good = with_outer(OWN[1], &[hop], &direct);
    let refuse = |packet: &[u8], why: &str| {
        let before = server.count("detour_refused");
        assert_eq!(run(&server.loaded, "subways_in", packet, 0).0, DROPPED, "{why}");
        assert_eq!(server.count("detour_refused"), before + 1, "{why}");
    };
    refuse(&good, "no permit");
    server.permit(OWN[0], (0, 1), false, (1_000_000, 1));
    refuse(&good, "a permit that has lapsed");
    server.permit(OWN[0], (0, 1), false, (1_000_000, FOREVER));
    forwarded(&server, &good);
    let changed = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    refuse(&with_outer(GUARD[0], &[hop], &frame(GUARD[0], PEER[0], [1, 80], 7, ACK, b"x")), "of another host");
    refuse(&with_outer(OWN[1], &[Hop { out: 0, ..hop }], &direct), "by another NIC");
    refuse(&with_outer(OWN[1], &[Hop { via: SERVERS[0][1], ..hop }], &direct), "from another NIC");
    refuse(&with_outer(OWN[1], &[Hop { out: 8, ..hop }], &direct), "by a NIC that there is not");
    refuse(&with_outer(OWN[1], &[hop], &frame(GUARD[0], PEER[0], [1, 80], 7, ACK, b"x")), "the inner source is another");
    let stranger = Ipv4Addr::new(10, 9, 9, 9);
    refuse(&with_outer(OWN[1], &[hop], &frame(OWN[1], stranger, [1, 80], 7, ACK, b"x")), "to a stranger");
    refuse(&with_outer(OWN[1], &[hop], &frame(OWN[1], SERVERS[0][1], [1, 80], 7, ACK, b"x")), "to itself");
    refuse(&changed(IP + 20 + 9, 17), "UDP");
    refuse(&changed(IP + 6, 0x20), "a fragment");
    refuse(&changed(IP + 20, 0x65), "an inner packet of version 6");
    refuse(&good[..IP + 30], "no whole inner header");
    let tunnel = with_outer(stranger, &[hop], &direct);
    assert_eq!(run(&server.loaded, "subways_in", &tunnel, 0), (OK, tunnel), "a tunnel from elsewhere is none of ours");
    server.set_up(3);
    assert_eq!(
        run(&server.loaded, "subways_in", &good, 0),
        (OK, good.clone()),
        "a host that takes no part leaves it to the kernel"
    );
}

#[test]
fn a_permit_has_a_rate() {
    let Some(server) = Plane::server(SERVERS[0]) else { return };
    let packet = with_outer(OWN[1], &[LEAVING[0]], &frame(OWN[1], PEER[0], [1, 80], 7, ACK, &[0; 1000]));
    // Each packet takes 86 ms; the burst is a second.
    server.permit(OWN[0], (0, 1), false, (100, FOREVER));
    let passed = (0..100).filter(|_| run(&server.loaded, "subways_in", &packet, 0).0 == REDIRECTED).count();
    assert!((12..=13).contains(&passed), "{passed}");
    assert_eq!((server.count("forwarded"), server.count("detour_over_rate")), (passed as u64, 100 - passed as u64));
    std::thread::sleep(StdDuration::from_millis(200));
    let more = (0..100).filter(|_| run(&server.loaded, "subways_in", &packet, 0).0 == REDIRECTED).count();
    assert!((2..=4).contains(&more), "{more}");
    server.permit(OWN[0], (0, 1), false, (0, FOREVER));
    assert_eq!(run(&server.loaded, "subways_in", &packet, 0).0, DROPPED, "nothing at no rate");
}

#[test]
fn congestion_that_the_outer_header_met_is_kept() {
    let Some(sender) = Plane::sender(FOREVER) else { return };
    let server = Plane::server(SERVERS[0]).unwrap();
    server.permit(OWN[0], (0, 1), false, (1_000_000, FOREVER));
    let (_, mut packet) = sender.detoured(2);
    assert_eq!(packet[IP + 1], 2, "the inner codepoint is copied");
    set_tos(&mut packet, 3);
    let out = forwarded(&server, &packet);
    assert_eq!((out[IP + 1], checksum(0, &out[IP..IP + 20])), (3, 0));
    let (_, mut packet) = sender.detoured(0);
    set_tos(&mut packet, 3);
    assert_eq!(run(&server.loaded, "subways_in", &packet, 0).0, DROPPED, "it cannot be said");
}
