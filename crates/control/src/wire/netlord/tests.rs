use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weft_fabric::{MacAddr, TenantId};

use super::*;
use crate::netlord::{EdgePort, Location, MacSpace, Vif};
use crate::wire::packet::ethernet::{Ethernet, MIN_FRAME, VlanId};
use crate::wire::packet::{PacketError, checksum};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("hex") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn port(n: u16) -> EdgePort {
    EdgePort::new(n).expect("a port")
}

/// Switches 02:..:11 and :22, VLAN 1001, port 7, tenant 0x0a0b0c, space 3, a frame of 16 bytes.
const FIXTURE: &str = "020000000022 020000000011 8100 03e9 0800
    4500 0024 03e9 4000 40 8f 244a 00000003 070a0b0c
    020000000002 020000000001 1234 abcd";

fn fixture(inner: &[u8]) -> Encapsulation<'_> {
    let vlan = VlanId::new(1001);
    let overlay = Overlay { to: Recipient::Port(port(7)), tenant: TenantId(0x0a_0b0c), space: MacSpace(3), vlan };
    Encapsulation { dst: mac(0x22), src: mac(0x11), tag: vlan, overlay, inner }
}

#[test]
fn the_encapsulation_is_to_the_byte_what_the_page_says() {
    let inner = bytes("020000000002 020000000001 1234 abcd");
    let mut out = Vec::new();
    fixture(&inner).emit(&mut out);
    let mut padded = bytes(FIXTURE);
    assert_eq!(padded.len(), 18 + 20 + 16);
    padded.resize(60, 0);
    assert_eq!(out, padded);
    assert_eq!(Encapsulation::parse(&out), Ok(fixture(&inner)));
    assert_eq!(OVERHEAD, 34);
}

#[test]
fn what_the_egress_switch_hands_on_is_read() {
    // The tag is gone, the MAC addresses are others, the time to live is one less.
    let mut frame = bytes("0a0000000009 020000000022 0800 4500 0024 03e9 4000 3f 8f 254a 00000003 070a0b0c");
    frame.extend_from_slice(&bytes("020000000002 020000000001 1234 abcd 0000 0000 0000"));
    let it = Encapsulation::parse(&frame).expect("good");
    assert_eq!((it.dst, it.tag, it.overlay.vlan), (MacAddr([10, 0, 0, 0, 0, 9]), None, VlanId::new(1001)));
    assert_eq!(it.inner.len(), 16, "padding is not of the frame");
}

#[test]
fn one_switch_and_all_of_a_tenant() {
    let inner = [0xaa; 60];
    let overlay = Overlay { to: Recipient::Port(port(126)), tenant: TenantId(1), space: MacSpace(1), vlan: None };
    let mut out = Vec::new();
    Encapsulation { dst: mac(1), src: mac(2), tag: None, overlay, inner: &inner }.emit(&mut out);
    assert_eq!(out.len(), 14 + 20 + 60);
    assert_eq!((&out[12..14], &out[18..20], &out[30..34]), (&[8, 0][..], &[0, 0][..], &[126, 0, 0, 1][..]));
    let group = Overlay { to: Recipient::Group, tenant: TenantId(0xff_fefd), ..overlay };
    assert_eq!(group.destination(), [239, 0xff, 0xfe, 0xfd]);
    assert_eq!(group_mac(TenantId(0xff_fefd)), MacAddr([1, 0, 0x5e, 0x7f, 0xfe, 0xfd]));
}

#[test]
fn what_is_not_an_encapsulation_is_recognised() {
    let change = |at: usize, to: u8, keep_sum: bool| {
        let mut frame = bytes(FIXTURE);
        frame[at] = to;
        if !keep_sum {
            frame[28..30].fill(0);
            let sum = checksum(0, &frame[18..38]);
            frame[28..30].copy_from_slice(&sum.to_be_bytes());
        }
        Encapsulation::parse(&frame).map(|_| ()).expect_err("bad")
    };
    let field = PacketError::Field;
    assert_eq!(change(17, 6, true), PacketError::Kind("an encapsulation"), "ARP");
    assert_eq!(change(27, 17, false), PacketError::Kind("an encapsulation"), "UDP");
    assert_eq!(change(18, 0x46, false), field("IPv4 version or options"));
    assert_eq!(change(29, 0, true), PacketError::Checksum);
    assert_eq!(change(24, 0, false), field("flags"), "without Don't Fragment");
    assert_eq!(change(24, 0x60, false), field("flags"));
    assert_eq!(change(25, 1, false), field("flags"), "a fragment");
    assert_eq!(change(22, 0x13, false), field("VLAN copy"));
    assert_eq!(change(21, 0x25, false), field("length"), "beyond the frame");
    assert_eq!(change(21, 0x21, false), field("length"), "no room for an Ethernet header");
    assert_eq!(change(37, 0, true), PacketError::Checksum);
    assert_eq!(change(34, 0, false), field("port"));
    assert_eq!(change(34, 127, false), field("port"));
    assert_eq!(change(33, 0, false), field("MAC space"));
    assert_eq!(change(30, 127, false), field("MAC space"));
    assert_eq!(change(26, 0, false), field("time to live"));
    for cut in 0..bytes(FIXTURE).len() {
        assert!(Encapsulation::parse(&bytes(FIXTURE)[..cut]).is_err(), "{cut}");
    }
}

/// To all: kind, port 7, about, tenant 5, space 9, MAC, 10.0.0.1, fd00::1, question, padding.
const HERE: &str = "ffffffffffff 020000000011 8100 0ffe 88b5
    11 07 07 000005 00000009 020000000001 0a000001 fd000000000000000000000000000001 00000000 0000";
const WHERE: &str = "ffffffffffff 020000000011 8100 0ffe 88b5
    13 07 02 000005 00000009 000000000000 00000000 fd000000000000000000000000000001 deadbeef 0000";

#[test]
fn messages_to_all_take_64_bytes_on_the_wire() {
    let vif = Vif { tenant: TenantId(5), space: MacSpace(9), mac: mac(1) };
    let from = Location { switch: mac(0x11), port: port(7) };
    let ip6: Ipv6Addr = "fd00::1".parse().expect("an address");
    let here = NlArp::Here(Here { vif, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), ip6: Some(ip6) });
    let about = Question::Ip(ip6.into());
    let seek = NlArp::Where(Where { tenant: vif.tenant, space: vif.space, about, id: QuestionId(0xdead_beef) });
    for (message, text) in [(here, HERE), (seek, WHERE)] {
        let mut out = Vec::new();
        message.emit(from, VlanId::new(4094).expect("a VLAN"), &mut out);
        assert_eq!(out, bytes(text));
        assert_eq!(out.len() + 4, 64, "with the check sequence");
        assert_eq!(NlArp::parse(&out), Ok((from, message)));
        // Without the tag, as an access port hands it on.
        let untagged = [&out[..12], &out[16..]].concat();
        assert_eq!(NlArp::parse(&untagged), Ok((from, message)));
    }
}

#[test]
fn malformed_messages_to_all_are_refused() {
    for (at, to, why) in [
        (18, 0x14, "message"),
        (19, 0, "port"),
        (19, 127, "port"),
        (20, 0x0f, "reserved bits"),
        (20, 0x05, "part that is not there"),
        (20, 0x03, "part that is not there"),
        (23, 0, "tenant or MAC space"),
        (27, 0, "tenant or MAC space"),
        (28, 3, "MAC address"),
        (57, 1, "message"),
        (59, 1, "reserved bits"),
        (6, 3, "ingress switch"),
    ] {
        let mut frame = bytes(HERE);
        frame[at] = to;
        assert_eq!(NlArp::parse(&frame), Err(PacketError::Field(why)), "byte {at}");
    }
    let mut other = bytes(HERE);
    other[18] = 0x21;
    assert_eq!(NlArp::parse(&other), Err(PacketError::Version(2)));
    assert_eq!(NlArp::parse(&bytes(HERE)[..59]), Err(PacketError::Truncated));
    // A question about nothing, or about two things.
    for about in [0, 7] {
        let mut frame = bytes(if about == 0 { WHERE } else { HERE });
        (frame[18], frame[20]) = (0x13, about);
        if about == 0 {
            frame[38..54].fill(0);
        }
        assert_eq!(NlArp::parse(&frame), Err(PacketError::Field("question")));
    }
}

#[test]
fn messages_to_one_take_64_bytes_on_the_wire() {
    let vif = Vif { tenant: TenantId(5), space: MacSpace(9), mac: mac(1) };
    let at = Location { switch: mac(0x11), port: port(7) };
    for (message, text) in [
        (
            Unicast::Here { vif, at, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), answers: None },
            "020000000001 020000000011 88b5 07 000005 0a000001",
        ),
        (Unicast::Here { vif, at, ip4: None, answers: Some(QuestionId(7)) }, "020000000001 020000000011 88b5 87 000005 00000007"),
        (Unicast::NotHere { vif, at }, "020000000001 020000000011 88b6 07 000005 00000000"),
        (Unicast::Chirp { from: at, is_answer: false }, "020000000011 020000000011 88b6 87 000001 00000001"),
        (Unicast::Chirp { from: at, is_answer: true }, "020000000011 020000000011 88b6 87 000001 00000002"),
    ] {
        assert_eq!(message.emit().to_vec(), bytes(text));
        assert_eq!(Unicast::parse(message.space(), &message.emit()), Ok(message));
        for vlan in [VlanId::new(9), None] {
            let overlay = Overlay { to: Recipient::Port(port(3)), tenant: TenantId(1), space: message.space(), vlan };
            let mut out = Vec::new();
            Encapsulation { dst: mac(9), src: mac(8), tag: vlan, overlay, inner: &message.emit() }.emit(&mut out);
            assert_eq!(out.len() + 4, 64);
        }
    }
}

#[test]
fn lldp_identifies_switch_and_port() {
    let at = Location { switch: mac(0x11), port: port(7) };
    let frame = |name: &str| {
        let mut out = Vec::new();
        Lldp { location: at, ttl_s: 120 }.emit(mac(0x33), name, &mut out);
        out
    };
    let expected = bytes("0180c200000e 020000000033 88cc 0207 04 020000000011 0405 05 73777037 0602 0078 0000");
    assert_eq!(frame("swp7"), expected);
    for name in ["7", "swp7", "Gi1/0/7", "eth0.07"] {
        assert_eq!(Lldp::parse(&frame(name)), Ok(Lldp { location: at, ttl_s: 120 }), "{name}");
    }
    assert_eq!(Lldp::parse(&frame("uplink")), Err(LldpError::Port));
    assert_eq!(Lldp::parse(&frame("swp127")), Err(LldpError::PortNumber(127)));
    assert_eq!(Lldp::parse(&frame("swp99999999999")), Err(LldpError::PortNumber(u32::MAX)));
    let mut other = frame("swp7");
    other[16] = 7;
    assert_eq!(Lldp::parse(&other), Err(LldpError::Chassis));
    let mut other = frame("swp7");
    other[25] = 3;
    assert_eq!(Lldp::parse(&other), Err(LldpError::Port), "the port's MAC address");
    for cut in 0..expected.len() - 2 {
        assert!(Lldp::parse(&expected[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn a_routed_packet_keeps_a_right_checksum_at_every_time_to_live() {
    for ttl in 0..=255u8 {
        let mut frame = bytes("020000000002 020000000001 0800 4500 0018 0000 4000 00 11 0000 0a000001 0a000102 0035 0035 0000");
        frame[22] = ttl;
        let sum = checksum(0, &frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let before = frame.clone();
        assert_eq!(route_in_place(&mut frame, mac(7), mac(8)), ttl > 1);
        if ttl <= 1 {
            assert_eq!(frame, before);
            continue;
        }
        let parsed = Ethernet::parse(&frame).expect("a frame");
        assert_eq!((parsed.dst, parsed.src), (mac(7), mac(8)));
        let packet = IpPacket::parse(&parsed).expect("its checksum is right");
        assert_eq!((packet.ttl, packet.ports), (ttl - 1, Ports::Known(53, 53)));
    }
    assert!(!route_in_place(&mut bytes("020000000002 020000000001 0806 4500"), mac(7), mac(8)));
}

#[test]
fn ports_hide_in_later_fragments_and_behind_extensions() {
    let v6 = |rest: &str, next: u8| {
        let payload = bytes(rest);
        let mut frame = bytes("020000000002 020000000001 86dd 60000000");
        frame.extend_from_slice(&[0, payload.len() as u8, next, 64]);
        frame.extend_from_slice(&[0x20; 32]);
        frame.extend_from_slice(&payload);
        let it = Ethernet::parse(&frame).and_then(|frame| IpPacket::parse(&frame).map(|it| (it.protocol, it.ports)));
        it.expect("a packet")
    };
    assert_eq!(v6("0050 0051 0000", 6), (6, Ports::Known(0x50, 0x51)));
    assert_eq!(v6("1100 0000 0000 0000 0050 0051", 0), (17, Ports::Known(0x50, 0x51)));
    assert_eq!(v6("0600 0001 0000 0001 0050 0051", 44), (6, Ports::Known(0x50, 0x51)), "the first fragment");
    assert_eq!(v6("0600 0008 0000 0001 0050 0051", 44), (6, Ports::Hidden));
    assert_eq!(v6("8000 0000", 58), (58, Ports::None));
}

fn any_location() -> impl Strategy<Value = Location> {
    (any::<[u8; 5]>(), 1u16..=126)
        .prop_map(|([a, b, c, d, e], p)| Location { switch: MacAddr([2, a, b, c, d, e]), port: port(p) })
}

fn any_vif() -> impl Strategy<Value = Vif> {
    (1u32..1 << 24, 1u32..=crate::netlord::LAST_SPACE, any::<[u8; 5]>()).prop_map(|(tenant, space, [a, b, c, d, e])| Vif {
        tenant: TenantId(tenant),
        space: MacSpace(space),
        mac: MacAddr([4, a, b, c, d, e]),
    })
}

fn any_message() -> impl Strategy<Value = NlArp> {
    let question = |vif: Vif, about, id| Where { tenant: vif.tenant, space: vif.space, about, id: QuestionId(id) };
    prop_oneof![
        (any_vif(), any::<Option<u32>>(), any::<Option<u128>>())
            .prop_map(|(vif, ip4, ip6)| { NlArp::Here(Here { vif, ip4: ip4.map(Into::into), ip6: ip6.map(Into::into) }) }),
        any_vif().prop_map(|vif| NlArp::NotHere(NotHere { vif })),
        (any_vif(), any::<u32>()).prop_map(move |(vif, id)| NlArp::Where(question(vif, Question::Mac(vif.mac), id))),
        (any_vif(), any::<IpAddr>(), any::<u32>()).prop_map(move |(vif, ip, id)| NlArp::Where(question(
            vif,
            Question::Ip(ip),
            id
        ))),
    ]
}

proptest! {
    #[test]
    fn encapsulations_read_back(
        vif in any_vif(), to in any_location(), from in any_location(), vlan in 0u16..=4094, group in any::<bool>(),
        inner in prop::collection::vec(any::<u8>(), 14..300),
    ) {
        let vlan = VlanId::new(vlan);
        let recipient = if group { Recipient::Group } else { Recipient::Port(to.port) };
        let overlay = Overlay { to: recipient, tenant: vif.tenant, space: vif.space, vlan };
        let it = Encapsulation { dst: to.switch, src: from.switch, tag: vlan, overlay, inner: &inner };
        let mut out = Vec::new();
        it.emit(&mut out);
        prop_assert!(out.len() >= MIN_FRAME);
        prop_assert_eq!(Encapsulation::parse(&out), Ok(it));
    }

    #[test]
    fn messages_read_back(message in any_message(), from in any_location()) {
        let mut out = Vec::new();
        message.emit(from, VlanId::new(9).unwrap(), &mut out);
        prop_assert_eq!(out.len(), 60);
        prop_assert_eq!(NlArp::parse(&out), Ok((from, message)));
    }

    #[test]
    fn any_bytes_are_an_error_or_are_given_back(mut frame in prop::collection::vec(any::<u8>(), 0..90), kind in 0u8..4) {
        if frame.len() >= 40 {
            match kind {
                0 => frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]),
                1 => frame[..16].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0x11, 5]),
                2 => frame[12..16].copy_from_slice(&[0x86, 0xdd, 0x60, 0]),
                _ => {}
            }
        }
        let _ = Lldp::parse(&frame);
        let _ = Unicast::parse(MacSpace(1), &frame);
        let _ = Encapsulation::parse(&frame);
        if let Ok((from, message)) = NlArp::parse(&frame) {
            let mut out = Vec::new();
            message.emit(from, VlanId::new(1).unwrap(), &mut out);
            prop_assert_eq!(&out[18..], &frame[14..56]);
        }
        if let Ok(parsed) = Ethernet::parse(&frame) {
            let mut out = Vec::new();
            parsed.emit(&mut out);
            prop_assert_eq!(&out, &frame);
            if let Ok(packet) = IpPacket::parse(&parsed) {
                let _ = packet.neighbor();
                let _ = echo(&parsed, &packet);
            }
        }
        let _ = route_in_place(&mut frame, mac(1), mac(2));
    }
}

#[test]
fn claims_are_to_the_byte_what_the_page_says() {
    let claims = [
        Claim { tenant: TenantId(0x0a_0b0c), bytes_per_second: 0x0102_0304, wants_more: true },
        Claim { tenant: TenantId(3), bytes_per_second: 5, wants_more: false },
    ];
    let mut out = Vec::new();
    emit_claims(mac(0x11), VlanId::new(1001), &claims, &mut out);
    let mut wanted =
        bytes("034e4c000001 020000000011 8100 03e9 88b6 01 02 0a0b0c 01 0000000001020304 000003 00 0000000000000005");
    assert_eq!(out, wanted);
    assert_eq!(parse_claims(&out), Ok((mac(0x11), claims.to_vec())));
    wanted.resize(60, 0);
    assert_eq!(parse_claims(&wanted), Ok((mac(0x11), claims.to_vec())), "padding is no claim");
    out.clear();
    emit_claims(mac(0x11), None, &[], &mut out);
    assert_eq!(parse_claims(&out), Ok((mac(0x11), Vec::new())));
    let change = |at: usize, to: u8| {
        let mut frame = wanted.clone();
        frame[at] = to;
        parse_claims(&frame)
    };
    assert_eq!(change(18, 2), Err(PacketError::Version(2)));
    assert_eq!(change(19, 121), Err(PacketError::Field("claims")));
    assert_eq!(change(19, 4), Err(PacketError::Truncated));
    assert_eq!(change(23, 3), Err(PacketError::Field("reserved bits")));
    assert_eq!(change(34, 0), Err(PacketError::Field("tenant")), "tenant 0");
    assert_eq!(change(6, 3), Err(PacketError::Field("switch")));
    assert_eq!(change(0, 0xff), Err(PacketError::Kind("a report of limits")));
}

proptest! {
    #[test]
    fn claims_return(claims in prop::collection::vec((1u32..1 << 24, any::<u64>(), any::<bool>()), 0..=MAX_CLAIMS)) {
        let of = |&(tenant, bytes_per_second, wants_more): &(u32, u64, bool)| Claim { tenant: TenantId(tenant), bytes_per_second, wants_more };
        let claims: Vec<Claim> = claims.iter().map(of).collect();
        let mut out = Vec::new();
        emit_claims(mac(1), None, &claims, &mut out);
        prop_assert!(out.len() <= 1_514);
        prop_assert_eq!(parse_claims(&out), Ok((mac(1), claims)));
    }
}
