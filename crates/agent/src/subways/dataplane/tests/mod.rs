//! The programs run by BPF_PROG_RUN on packets made here, their output compared with a plain reference.
//!
//! Without root, or in a container that may not, each test says so and passes.

mod cost;
mod detours;

use std::net::Ipv4Addr;
use std::time::Duration as StdDuration;

use weft_control::wire::packet::checksum;

use super::*;
use crate::dataplane::testing::{DROPPED, OK, PinDir, REDIRECTED, is_soon_verified, run};

const OWN: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
const PEER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 2, 2), Ipv4Addr::new(10, 0, 3, 2)];
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Short, so that tests need not wait for long.
const STALL: StdDuration = StdDuration::from_millis(20);

/// TCP in a frame, with right checksums.
fn frame(source: Ipv4Addr, destination: Ipv4Addr, ports: [u16; 2], seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    ports.iter().for_each(|port| tcp.extend(port.to_be_bytes()));
    tcp.extend(seq.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    let mut pseudo = [source.octets(), destination.octets()].concat();
    pseudo.extend([0, 6]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    let sum = checksum(0, &[pseudo, tcp.clone()].concat());
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0];
    ip.extend((20 + tcp.len() as u16).to_be_bytes());
    ip.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
    ip.extend(source.octets());
    ip.extend(destination.octets());
    let sum = checksum(0, &ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [vec![2; 12], vec![8, 0], ip, tcp].concat()
}

struct Plane {
    loaded: Loaded,
    /// Removed with it.
    _pins: PinDir,
}

impl Plane {
    fn new(slots: &[(u8, u8)], up: u32) -> Option<Self> {
        let pins = PinDir::new()?;
        let loaded = Loaded::load(OBJECT, &[], &pins.0).unwrap();
        let plane = Self { loaded, _pins: pins };
        plane.set_up(up);
        let mut peer = subways_peer {
            slot: std::array::from_fn(|at| slots[at % slots.len()].0 << 4 | slots[at % slots.len()].1),
            ..Default::default()
        };
        (peer.address[0], peer.address[1]) = (be(PEER[0]), be(PEER[1]));
        plane.loaded.table(&PEERS).set(&be(PEER[0]), &peer).unwrap();
        PEER.iter().for_each(|&nic| plane.loaded.table(&NICS).set(&be(nic), &be(PEER[0])).unwrap());
        Some(plane)
    }

    fn set_up(&self, up: u32) {
        let mut settings = subways_settings { up, seed: 1, stall_ns: STALL.as_nanos() as u64, ..Default::default() };
        (settings.address[0], settings.address[1]) = (be(OWN[0]), be(OWN[1]));
        self.loaded.table(&SETTINGS).set(&0, &settings).unwrap();
    }

    /// Sends a packet of a flow: the NICs that it takes.
    fn send(&self, sport: u16, seq: u32, flags: u8, payload: &[u8]) -> (u8, u8) {
        let (answer, out) = run(&self.loaded, "subways_out", &frame(OWN[0], PEER[0], [sport, 80], seq, flags, payload), 0);
        assert_eq!(answer, REDIRECTED);
        let nic =
            |addresses: [Ipv4Addr; 2], at: usize| addresses.iter().position(|it| it.octets() == out[at..at + 4]).unwrap() as u8;
        let (leaving, arriving) = (nic(OWN, 26), nic(PEER, 30));
        let wanted = frame(OWN[usize::from(leaving)], PEER[usize::from(arriving)], [sport, 80], seq, flags, payload);
        assert_eq!(out[14..], wanted[14..], "the same packet with right checksums");
        (leaving, arriving)
    }

    /// Has one come from the peer.
    fn receive(&self, sport: u16, seq: u32, flags: u8, payload: &[u8]) {
        let (answer, out) = run(&self.loaded, "subways_in", &frame(PEER[1], OWN[1], [80, sport], seq, flags, payload), 0);
        assert_eq!((answer, &out[14..]), (OK, &frame(PEER[0], OWN[0], [80, sport], seq, flags, payload)[14..]));
    }

    fn count(&self, name: &str) -> u64 {
        sums(self.loaded.map("counters"), COUNTERS.len()).unwrap()[COUNTERS.iter().position(|(it, _)| *it == name).unwrap()]
    }
}

#[test]
fn counters_have_the_order_of_the_programs() {
    let header = include_str!("../../../../bpf/subways/layout.h");
    let list = header.split("enum subways_counter {").nth(1).unwrap().split('}').next().unwrap();
    assert_eq!(list.split(',').filter(|name| !name.trim().is_empty()).count(), COUNTERS.len() + 1);
}

#[test]
fn programs_are_soon_verified() {
    let Some(plane) = Plane::new(&[(0, 0)], 3) else { return };
    is_soon_verified(&plane.loaded, &["subways_out", "subways_in"]);
}

#[test]
fn flows_are_spread_by_the_slots_and_keep_their_nics() {
    // Three quarters of the slots leave by NIC 0.
    let Some(plane) = Plane::new(&[(0, 0), (0, 1), (0, 1), (1, 1)], 3) else { return };
    let first: Vec<_> = (0..400).map(|port| plane.send(1000 + port, 7, SYN, b"")).collect();
    let share = |out, into| first.iter().filter(|nics| **nics == (out, into)).count();
    assert!(
        (70..130).contains(&share(0, 0)) && (160..240).contains(&share(0, 1)) && (70..130).contains(&share(1, 1)),
        "{first:?}"
    );
    for (port, nics) in (0..).zip(&first).take(50) {
        assert_eq!(plane.send(1000 + port, 8, ACK, b"some bytes"), *nics);
    }
    assert_eq!((plane.count("flows_begun"), plane.count("sent"), plane.count("flows_moved")), (400, 450, 0));
    // Another connection with the same ports draws again, if the first has ended.
    plane.receive(1000, 1, RST, b"");
    plane.send(1000, 99, SYN, b"");
    assert_eq!(plane.count("flows_begun"), 401);
}

#[test]
fn a_flow_moves_in_a_pause_alone() {
    let Some(plane) = Plane::new(&[(0, 0)], 3) else { return };
    assert_eq!(plane.send(1000, 7, SYN, b""), (0, 0));
    let key = subways_flow { peer: be(PEER[0]), sport: 1000u16.to_be(), dport: 80u16.to_be() };
    let order = |gap: StdDuration| {
        let order = subways_move { gap_ns: gap.as_nanos() as u64, pair: 0x11, ..Default::default() };
        plane.loaded.table(&MOVES).set(&key, &order).unwrap();
    };
    order(StdDuration::from_secs(5));
    assert_eq!(plane.send(1000, 8, ACK, b"a"), (0, 0));
    std::thread::sleep(STALL);
    order(STALL);
    assert_eq!(plane.send(1000, 9, ACK, b"b"), (1, 1));
    assert!(plane.loaded.table(&MOVES).get(&key).unwrap().is_none(), "once");
    assert_eq!(plane.send(1000, 10, ACK, b"c"), (1, 1));
    assert_eq!(plane.loaded.table(&FLOWS).get(&key).unwrap().unwrap().bytes, 3);
}

#[test]
fn no_flow_stays_on_a_nic_that_is_down() {
    let Some(plane) = Plane::new(&[(0, 0), (1, 1)], 3) else { return };
    let before: Vec<_> = (0..32).map(|port| plane.send(1000 + port, 7, SYN, b"")).collect();
    assert!(before.contains(&(0, 0)) && before.contains(&(1, 1)));
    plane.set_up(1);
    for port in 0..64 {
        assert_eq!(plane.send(1000 + port, 8, ACK, b"a").0, 0);
    }
    plane.set_up(3);
    assert!((0..32).all(|port| plane.send(1000 + port, 9, ACK, b"b").0 == 0), "they stay where they have gone");
}

#[test]
fn a_flow_that_nothing_is_heard_of_takes_other_nics() {
    let Some(plane) = Plane::new(&[(0, 0), (1, 1), (0, 1), (1, 0)], 3) else { return };
    let at = plane.send(1000, 7, SYN, b"");
    plane.receive(1000, 100, SYN | ACK, b"");
    assert_eq!(plane.send(1000, 8, ACK, b"abc"), at);
    assert_eq!(plane.send(1000, 8, ACK, b"abc"), at, "sent again at once: something was heard just now");
    std::thread::sleep(STALL * 2);
    assert_eq!(plane.send(1000, 11, ACK, b"def"), at, "new bytes say nothing");
    std::thread::sleep(STALL * 2);
    let other = plane.send(1000, 8, ACK, b"abc");
    assert_eq!((other.0, other.1), (1 - at.0, 1 - at.1), "both NICs are others");
    for (wanted, why) in [(other, "answers may be lost: the peer has its turn"), (at, "nor did that help")] {
        std::thread::sleep(STALL * 2);
        assert_eq!(plane.send(1000, 8, ACK, b"abc"), wanted, "{why}");
    }
    plane.receive(1000, 100, ACK, b"");
    std::thread::sleep(STALL * 2);
    assert_eq!(plane.send(1000, 8, ACK, b"abc"), other, "it begins again");
    plane.receive(1000, 101, ACK, b"news");
    assert_eq!(plane.send(1000, 8, ACK, b"abc"), other);
    // The peer sends again what has come: it does not hear us.
    std::thread::sleep(STALL * 2);
    plane.receive(1000, 101, ACK, b"news");
    assert_eq!(plane.send(1000, 14, ACK, b""), at);
    assert_eq!(plane.count("flows_redrawn"), 4);
}

#[test]
fn what_another_processor_has_just_noted_is_no_pause() {
    type Time = fn(&mut subways_state) -> &mut u64;
    let Some(plane) = Plane::new(&[(0, 0), (1, 1), (0, 1), (1, 0)], 3) else { return };
    let at = plane.send(1000, 7, SYN, b"");
    plane.receive(1000, 100, SYN | ACK, b"");
    plane.receive(1000, 101, ACK, b"news");
    let key = subways_flow { peer: be(PEER[0]), sport: 1000u16.to_be(), dport: 80u16.to_be() };
    let note_later = |time: Time| {
        let mut state = plane.loaded.table(&FLOWS).get(&key).unwrap().unwrap();
        *time(&mut state) += 1_000_000_000;
        plane.loaded.table(&FLOWS).set(&key, &state).unwrap();
    };
    let order = subways_move { gap_ns: STALL.as_nanos() as u64, pair: (1 - at.0) << 4 | (1 - at.1), ..Default::default() };
    plane.loaded.table(&MOVES).set(&key, &order).unwrap();
    note_later(|state| &mut state.last_ns);
    assert_eq!(plane.send(1000, 8, ACK, b"abc"), at);
    plane.loaded.table(&MOVES).remove(&key).unwrap();
    let (last, heard): (Time, Time) = (|state| &mut state.last_ns, |state| &mut state.heard_ns);
    for time in [last, heard] {
        // Of the two times, one is long ago.
        std::thread::sleep(STALL * 2);
        note_later(time);
        assert_eq!(plane.send(1000, 8, ACK, b"abc"), at, "sent again");
    }
    note_later(|state| &mut state.news_ns);
    plane.receive(1000, 101, ACK, b"news");
    assert_eq!(plane.send(1000, 11, ACK, b""), at, "received again");
    assert_eq!((plane.count("flows_moved"), plane.count("flows_redrawn")), (0, 0));
}

#[test]
fn what_is_not_between_hosts_is_left_alone_or_dropped() {
    let Some(plane) = Plane::new(&[(0, 0)], 3) else { return };
    let stranger = Ipv4Addr::new(10, 9, 9, 9);
    for (packet, why) in [
        (frame(stranger, OWN[0], [80, 1], 1, ACK, b""), "not of a peer"),
        (frame(PEER[0], stranger, [80, 1], 1, ACK, b""), "not for this host"),
        (
            [
                frame(PEER[0], OWN[0], [80, 1], 1, ACK, b"")[..23].to_vec(),
                vec![17],
                frame(PEER[0], OWN[0], [80, 1], 1, ACK, b"")[24..].to_vec(),
            ]
            .concat(),
            "UDP",
        ),
    ] {
        assert_eq!(run(&plane.loaded, "subways_in", &packet, 0), (OK, packet.clone()), "{why}");
    }
    let good = frame(OWN[0], PEER[0], [1, 80], 1, ACK, b"x");
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    for (packet, counter) in [
        (frame(OWN[1], PEER[0], [1, 80], 1, ACK, b""), "foreign_source"),
        (frame(OWN[0], stranger, [1, 80], 1, ACK, b""), "unknown_peer"),
        (with(20, 0x20), "fragment"),
        (with(14, 0x44), "malformed"),
        (with(46, 0x40), "malformed"),
        (with(46, 0xf0), "malformed"),
        (with(17, 200), "malformed"),
    ] {
        let before = plane.count(counter);
        assert_eq!(run(&plane.loaded, "subways_out", &packet, 0).0, DROPPED, "{counter}");
        assert_eq!(plane.count(counter), before + 1);
    }
}
