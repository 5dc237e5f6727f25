//! Random bytes, and good packets with random damage: the verifier's promise that nothing breaks, and ours that nothing goes astray.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{LocatorKind, layout};
use super::packets::*;
use crate::dataplane::bytes::array;
use crate::dataplane::load::Loaded;
use crate::dataplane::ring::Ring;
use crate::dataplane::testing::{CONSUMED, DROPPED, OK, PinDir, REDIRECTED, run};

/// A good packet of some kind.
fn good(kind: usize) -> Vec<u8> {
    let far = Ipv4Addr::new(10, 200, 9, 7);
    let inner = [
        ip4(OWN, FAR, 6, &tcp(60)),
        ip6(v6(OWN), v6(FAR), 17, &tcp(20)),
        ip4(FAR, OWN, 6, &tcp(60)),
        ip6(v6(FAR), v6(OWN), 17, &tcp(20)),
        ip4_with(OWN, NEAR, 17, 64, &[1; 8], 0x2000, &tcp(64)),
        ip4(STRANGER, FAR, 6, &tcp(1)),
        ip4(OWN, SERVICE_GROUP, 17, &tcp(1)),
        ip4(OWN, TOR, 17, &dhcp(68, 67)),
        ip4(TOR, OWN, 17, &dhcp(67, 68)),
    ];
    let packet = &inner[kind % inner.len()];
    match kind / inner.len() {
        0 => from_stack(packet),
        1 => from_wire(&outer(far, LA, packet)),
        2 => from_wire(&outer(far, TOR, packet)),
        3 => from_wire(&outer(far, ANYCAST[0], &outer(far, TOR, packet))),
        4 => from_wire(&outer(far, SERVICE_GROUP, packet)),
        5 => arp(1, (NIC, OWN), (PEER_MAC, FAR)),
        _ => ndp(135, v6(OWN), "ff02::1:ff00:2".parse().unwrap(), v6(FAR), NIC, PEER_MAC),
    }
}

/// A frame: random bytes, or a good one cut, lengthened and with some bytes changed.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 14..300);
    let damage = proptest::collection::vec((0usize..140, any::<u8>()), 0..4);
    let damaged = (0usize..63, damage, 0usize..200, 0usize..3).prop_map(|(kind, damage, cut, longer)| {
        let mut frame = good(kind);
        let length = frame.len();
        if cut < 60 {
            frame.truncate(14.max(length.saturating_sub(cut)));
        }
        for (place, byte) in damage {
            let length = frame.len();
            frame[place % length] = byte;
        }
        frame.extend(vec![0xee; longer * 7]);
        frame
    });
    // The kernel runs no IP frame that has not at least a header.
    prop_oneof![1 => noise, 9 => damaged].prop_map(|mut frame| {
        let least =
            [([8, 0], 34), ([0x86, 0xdd], 54)].iter().find(|(kind, _)| frame[12..14] == *kind).map_or(14, |(_, least)| *least);
        frame.resize(frame.len().max(least), 0);
        frame
    })
}

/// Addresses of the packet in a frame, read without any care for the rest.
fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match frame.get(12..14)? {
        [8, 0] if frame.len() >= 34 && frame[14] >> 4 == 4 => Some((bytes4(frame, 26), bytes4(frame, 30))),
        [0x86, 0xdd] if frame.len() >= 54 && frame[14] >> 4 == 6 => {
            let at = |place| IpAddr::V6(Ipv6Addr::from(array::<16>(frame, place)));
            Some((at(22), at(38)))
        }
        _ => None,
    }
}

fn bytes4(frame: &[u8], place: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(array::<4>(frame, place)))
}

fn is_aa(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 20,
        IpAddr::V6(ip) => ip.segments()[..4] == [0xfd20, 0, 0, 0],
    }
}

fn is_own(ip: IpAddr) -> bool {
    [IpAddr::from(OWN), IpAddr::from(v6(OWN))].contains(&ip)
}

/// Whether a frame has a datagram of DHCP between these two and ports.
fn is_dhcp(frame: &[u8], ends: (Ipv4Addr, Ipv4Addr), ports: [u8; 4]) -> bool {
    let transport = 14 + 4 * usize::from(frame[14] & 15);
    addresses(frame) == Some((ends.0.into(), ends.1.into()))
        && frame[23] == 17
        && frame[20] & 0x3f == 0
        && frame[21] == 0
        && frame.get(transport..transport + 4) == Some(&ports)
}

fn is_peer(ip: IpAddr) -> bool {
    [FAR, NEAR].iter().any(|&peer| [IpAddr::from(peer), IpAddr::from(v6(peer))].contains(&ip))
}

/// Bytes of the IP packet by its own word.
fn stated(ip: &[u8]) -> usize {
    match ip[0] >> 4 {
        4 => usize::from(u16::from_be_bytes(array(ip, 2))),
        _ => 40 + usize::from(u16::from_be_bytes(array(ip, 4))),
    }
}

/// An inner packet but for what congestion met by its outer header, of this class, may have changed.
fn unmarked(ip: &[u8], outer_class: u8) -> Vec<u8> {
    let mut ip = ip.to_vec();
    if outer_class & 3 == 3 {
        match ip[0] >> 4 {
            4 => {
                ip[1] &= !3;
                ip[10..12].fill(0);
            }
            _ => ip[1] &= !0x30,
        }
    }
    ip
}

fn check(runner: &mut TestRunner, test: impl Fn(Vec<u8>) -> Result<(), TestCaseError>) {
    runner.run(&frames(), test).unwrap_or_else(|e| panic!("{e}"));
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() })
}

fn drain(loaded: &Loaded) {
    drop(Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap());
}

#[test]
fn whatever_leaves_is_of_this_host_and_goes_to_a_peer() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = &host(&pins, &settings());
    check(&mut runner(), |frame| {
        let (answer, after) = run(loaded, "vl2_out", &frame, 0);
        let ends = addresses(&frame);
        match answer {
            OK if after.len() == frame.len() => {
                prop_assert_eq!(&after, &frame);
                // A neighbour message of a link-local address, or IGMP, has at most one end.
                let whole = ends.is_some_and(|(from, to)| is_aa(from) && is_aa(to));
                prop_assert!(!whole, "AAs in the open");
                let from_aa = ends.is_some_and(|(from, to)| is_aa(from) && from.is_ipv4() && !to.is_multicast());
                prop_assert!(!from_aa || is_dhcp(&frame, (OWN, TOR), [0, 68, 0, 67]), "an AA to a locator");
            }
            OK => {
                let (from, to) = ends.unwrap();
                prop_assert!(is_own(from), "{} is not of this host", from);
                let grown = after.len() - frame.len();
                prop_assert!(grown == 40 && is_peer(to) || grown == 20, "{} bytes", grown);
                prop_assert_eq!(&after[14 + grown..], &frame[14..], "the inner packet is as it was");
                prop_assert_eq!(stated(&after[14..]), grown + stated(&frame[14..]));
                let next = bytes4(&after, 30);
                let group = next == IpAddr::from(SERVICE_GROUP) && !is_peer(to);
                let unicast = after[..6] == GATEWAY.0
                    && is_peer(to)
                    && (ANYCAST.iter().any(|&a| next == IpAddr::from(a)) || next == IpAddr::from(TOR));
                prop_assert!(group || unicast, "to {} for {}", next, to);
            }
            REDIRECTED => {
                let reply = after[12..14] == [8, 6] && after[20..22] == [0, 2] && is_peer(bytes4(&after, 28));
                let advertises = after[12..14] == [0x86, 0xdd] && after[54] == 136;
                prop_assert!(reply || advertises, "{:02x?}", after);
            }
            DROPPED | CONSUMED => drain(loaded),
            other => prop_assert!(false, "answer {}", other),
        }
        Ok(())
    });
}

#[test]
fn whatever_is_taken_is_for_this_host_and_from_a_peer() {
    for locator in [LocatorKind::Tor, LocatorKind::Host] {
        let Some(pins) = PinDir::new() else { return };
        let loaded = &host(&pins, &super::super::HostSettings { locator, ..settings() });
        check(&mut runner(), |frame| {
            let (answer, after) = run(loaded, "vl2_in", &frame, 0);
            match answer {
                OK => {
                    let stripped = frame.len() - after.len();
                    prop_assert!(stripped == 0 && after == frame || stripped == 20);
                    if stripped == 20 {
                        prop_assert_eq!(unmarked(&after[14..], frame[15]), unmarked(&frame[34..], frame[15]));
                    }
                    if let Some((from, to)) = addresses(&after) {
                        let ours = is_peer(from) && (is_own(to) || stripped == 20);
                        let answer = stripped == 0 && locator == LocatorKind::Tor && is_dhcp(&after, (TOR, OWN), [0, 67, 0, 68]);
                        prop_assert!(ours || answer || !is_aa(from) && !is_aa(to), "{} to {}", from, to);
                        prop_assert!(stripped == 0 || ours, "stripped for nobody");
                    }
                }
                DROPPED | CONSUMED => drain(loaded),
                other => prop_assert!(false, "answer {}", other),
            }
            Ok(())
        });
    }
}

#[test]
fn whatever_a_switch_delivers_is_attached_to_it() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = &super::switch::switch(&pins);
    check(&mut runner(), |frame| {
        let (answer, after) = run(loaded, "vl2_port", &frame, 0);
        match answer {
            OK => {
                let stripped = frame.len() - after.len();
                prop_assert!(stripped == 0 && after == frame || stripped == 20 && matches!(after[23], 4 | 41));
                prop_assert!(stripped == 0 || unmarked(&after[14..], frame[15]) == unmarked(&frame[34..], frame[15]));
                prop_assert!(addresses(&after).is_none_or(|(from, to)| !is_aa(from) && !is_aa(to)));
            }
            REDIRECTED => {
                prop_assert_eq!(unmarked(&after[14..], frame[15]), unmarked(&frame[34..], frame[15]));
                prop_assert!(addresses(&after).is_some_and(|(_, to)| is_own(to)));
            }
            CONSUMED => {
                prop_assert!(is_dhcp(&frame, (OWN, TOR), [0, 68, 0, 67]), "{:02x?}", frame);
                drain(loaded);
            }
            DROPPED => drain(loaded),
            other => prop_assert!(false, "answer {}", other),
        }
        Ok(())
    });
}
