use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weft_fabric::MacAddr;

use super::arp::Arp;
use super::ethernet::{BROADCAST, EtherType, Ethernet};
use super::ip::{HEADER_V4, Ipv4, Packet};
use super::ndp::Neighbor;
use super::*;

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn unicast6() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u8; 16]>().prop_map(|mut octets| {
        octets[0] &= 0x7f;
        octets.into()
    })
}

proptest! {
    #[test]
    fn arp_reads_back(is_request: bool, a in mac(), b in mac(), p: [u8; 4], q: [u8; 4], padding in 0usize..20) {
        let arp = Arp { is_request, sender: (a, p.into()), target: (b, q.into()) };
        let mut bytes = Vec::new();
        arp.emit(&mut bytes);
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(Arp::parse(&bytes), Ok(arp));
    }

    #[test]
    fn neighbour_messages_read_back(
        is_solicitation: bool, router: bool, solicited: bool, source in unicast6(), to: [u8; 16], target in unicast6(), mac in prop::option::of(mac()),
    ) {
        let (is_router, is_solicited) = (router && !is_solicitation, solicited && !is_solicitation);
        let message = Neighbor { is_solicitation, is_router, is_solicited, source, destination: to.into(), target, mac };
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        prop_assert_eq!(Neighbor::parse(&bytes), Ok(message));
        // One bit of it changed is noticed, but for traffic class and flow label, which nothing covers.
        for at in 32..bytes.len() * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert_ne!(Neighbor::parse(&bytes), Ok(message));
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn ipv4_headers_read_back(tos: u8, payload in 0u16..60, identification: u16, df: bool, ttl: u8, protocol: u8, p: [u8; 4], q: [u8; 4]) {
        let (source, destination) = (p.into(), q.into());
        let header = Ipv4 { tos, payload, identification, is_unfragmentable: df, ttl, protocol, source, destination };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        bytes.resize(bytes.len() + usize::from(payload), 1);
        prop_assert_eq!(Ipv4::parse(&bytes), Ok(header));
        for at in 0..HEADER_V4 * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Ipv4::parse(&bytes).is_err());
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_a_packet(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Arp::parse(&bytes);
        let _ = Neighbor::parse(&bytes);
        let _ = Packet::cut(&bytes).map(|it| (it.flow(), it.is_checksum_right()));
        if let Ok(frame) = Ethernet::parse(&bytes) {
            let mut out = Vec::new();
            frame.emit(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}

#[test]
fn an_arp_request_is_read_and_answered() {
    // Who has 20.0.0.9? Asked by 20.0.0.5 at 02:00:00:00:00:05.
    let bytes = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 5, 20, 0, 0, 5, 0, 0, 0, 0, 0, 0, 20, 0, 0, 9];
    let arp = Arp::parse(&bytes).unwrap();
    assert_eq!(arp, Arp::question((MacAddr([2, 0, 0, 0, 0, 5]), Ipv4Addr::new(20, 0, 0, 5)), Ipv4Addr::new(20, 0, 0, 9)));
    let mac = MacAddr([2, 0x57, 0x46, 0x54, 0, 1]);
    let reply = arp.reply(mac);
    assert_eq!((reply.sender, reply.target, reply.is_request), ((mac, [20, 0, 0, 9].into()), arp.sender, false));
    for (message, dst) in [(arp, BROADCAST), (reply, arp.sender.0)] {
        let frame = message.frame();
        let parsed = Ethernet::parse(&frame).unwrap();
        assert_eq!((frame.len(), parsed.dst, parsed.src, parsed.ethertype), (60, dst, message.sender.0, EtherType::ARP));
        assert_eq!(Arp::parse(parsed.payload), Ok(message));
    }
    let token_ring = [0, 6, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 5, 20, 0, 0, 5, 0, 0, 0, 0, 0, 0, 20, 0, 0, 9];
    assert_eq!(Arp::parse(&token_ring), Err(PacketError::Kind("ARP for IPv4 on Ethernet")));
}

#[test]
fn a_solicitation_is_to_the_group_of_what_it_asks_for() {
    let [asker, target]: [Ipv6Addr; 2] = ["fd00::1", "fd00::2:3"].map(|ip| ip.parse().expect("an address"));
    let [asking, asked] = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0, n]));
    let question = Neighbor::question(asker, asking, target);
    assert_eq!(question.destination, "ff02::1:ff02:3".parse::<Ipv6Addr>().expect("an address"));
    assert_eq!(ndp::group_mac(question.destination), MacAddr([0x33, 0x33, 0xff, 2, 0, 3]));
    let answer = Neighbor::advertisement(target, asked, asker);
    assert_eq!((answer.source, answer.destination, answer.is_solicited, answer.mac), (target, asker, true, Some(asked)));
    let frame = question.frame(ndp::group_mac(question.destination), asking);
    let wrong = |at: usize, to: u8| {
        let mut frame = frame[14..].to_vec();
        frame[at] = to;
        Neighbor::parse(&frame)
    };
    assert_eq!(wrong(7, 255), Ok(question));
    assert_eq!(wrong(7, 254), Err(PacketError::Field("neighbour message")), "from beyond the link");
    assert_eq!(wrong(46, 9), Err(PacketError::Checksum));
    assert_eq!(wrong(6, 17), Err(PacketError::Kind("ICMPv6")));
}
