use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;

use super::icmp::{IcmpError, Packet as IcmpPacket, Problem};
use super::ipip::{Marks, Tunnel};
use crate::wire::packet::checksum;
use crate::wire::packet::ip::{HEADER_V4, Ipv4, Ipv6, Packet, UDP};

fn udp4(source: [u8; 4], destination: [u8; 4], payload: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let ip = Ipv4 {
        tos: 3,
        payload: (8 + payload) as u16,
        identification: 7,
        is_unfragmentable: true,
        ttl: 1,
        protocol: UDP,
        source: source.into(),
        destination: destination.into(),
    };
    ip.emit(&mut out);
    out.extend_from_slice(&[0x12, 0x34, 0x56, 0x78, 0, (8 + payload) as u8, 0, 0]);
    out.resize(out.len() + payload, 0xaa);
    out
}

fn udp6(source: Ipv6Addr, destination: Ipv6Addr, payload: usize) -> Vec<u8> {
    let mut out = Vec::new();
    Ipv6 { payload: (8 + payload) as u16, next: UDP, hops: 1, source, destination }.emit(&mut out);
    out.extend_from_slice(&[0x12, 0x34, 0x56, 0x78, 0, (8 + payload) as u8, 0, 0]);
    out.resize(out.len() + payload, 0xaa);
    out
}

proptest! {
    #[test]
    fn what_is_pushed_is_stripped(source: [u8; 4], via in prop::option::of(any::<[u8; 4]>()), locator: [u8; 4], v6: bool, ttls: (u8, u8)) {
        let inner = if v6 { udp6(1.into(), 2.into(), 40) } else { udp4([20, 0, 0, 1], [20, 0, 0, 2], 40) };
        let tunnel = Tunnel { source: source.into(), via: via.map(Into::into), locator: locator.into() };
        let marks = Marks { ttls, identification: 99 };
        let outer = tunnel.push(&inner, marks).unwrap();
        prop_assert_eq!(outer.len(), inner.len() + tunnel.overhead());
        let first = Ipv4::parse(&outer).unwrap();
        prop_assert_eq!((first.ttl, first.identification, first.is_unfragmentable), (ttls.0, 99, true));
        if via.is_some() {
            let second = Ipv4::parse(&outer[HEADER_V4..]).unwrap();
            prop_assert_eq!((second.ttl, second.destination, second.source), (ttls.1, locator.into(), source.into()));
        }
        let (read, rest) = Tunnel::strip(&outer).unwrap();
        prop_assert_eq!(read, tunnel);
        prop_assert_eq!(rest, &inner[..]);
    }

    #[test]
    fn any_bytes_are_an_error_or_a_packet(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = IcmpPacket::new(&bytes).map(|it| it.quoted().len());
        let _ = Tunnel::strip(&bytes);
    }
}

#[test]
fn errors_are_read_by_their_receiver() {
    let about = udp4([20, 0, 0, 1], [20, 0, 0, 2], 1200);
    for problem in [
        Problem::TooBig { mtu: 1460 },
        Problem::HostUnreachable,
        Problem::Prohibited,
        Problem::ProtocolUnreachable,
        Problem::TimeExceeded,
    ] {
        let mut bytes = Vec::new();
        IcmpError { teller: [10, 0, 0, 1].into(), problem, about: &about }.emit(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 576);
        let read = IcmpPacket::new(&bytes).unwrap();
        assert_eq!((read.problem(), read.teller(), read.receiver()), (problem, [10, 0, 0, 1].into(), [20, 0, 0, 1].into()));
        assert!(about.starts_with(read.quoted()));
        let mut again = Vec::new();
        assert!(IcmpError { teller: [10, 0, 0, 1].into(), problem, about: &bytes }.emit(&mut again).is_err(), "of an error");
    }
}

#[test]
fn errors_about_ipv6_have_a_right_checksum() {
    let about = udp6("fd20::1".parse().unwrap(), "fd20::2".parse().unwrap(), 1400);
    let mut bytes = Vec::new();
    let teller = "fd20::2".parse().unwrap();
    IcmpError { teller, problem: Problem::TooBig { mtu: 1460 }, about: &about }.emit(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 1280);
    assert_eq!(&bytes[40..42], &[2, 0]);
    assert_eq!(&bytes[44..48], &[0, 0, 5, 180]);
    let packet = Packet::new(&bytes).unwrap();
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source(), packet.destination()) else { panic!("IPv6") };
    let header = Ipv6 { payload: 1240, next: 58, hops: 64, source, destination };
    assert_eq!(checksum(header.pseudo_sum(), packet.payload()), 0);
    let four = IcmpError { teller: [10, 0, 0, 1].into(), problem: Problem::HostUnreachable, about: &about };
    assert!(four.emit(&mut Vec::new()).is_err(), "the teller is of the other family");
}

#[test]
fn no_error_is_sent_about_groups_and_fragments() {
    let refused = |about: &[u8]| {
        let error = IcmpError { teller: [10, 0, 0, 1].into(), problem: Problem::HostUnreachable, about };
        assert!(error.emit(&mut Vec::new()).is_err());
    };
    refused(&udp4([20, 0, 0, 1], [239, 1, 0, 1], 10));
    refused(&udp4([20, 0, 0, 1], [255; 4], 10));
    refused(&udp4([0; 4], [20, 0, 0, 1], 10));
    let mut fragment = udp4([20, 0, 0, 1], [20, 0, 0, 2], 10);
    fragment[7] = 3;
    refused(&fragment);
}
