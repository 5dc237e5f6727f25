//! Any bytes are an error to every parser of NetLord's frames, or give back what they were when they are emitted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::netlord::MacSpace;
use weft_control::wire::netlord::{
    EDGE_SWITCHES, Encapsulation, IpPacket, Lldp, MESSAGE, NlArp, Unicast, echo, emit_claims, parse_claims, route_in_place,
};
use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ethernet::{Ethernet, VlanId};
use weft_fabric::MacAddr;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // Right headers let the bodies be reached sooner.
    let addresses = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1];
    for ethertype in [[0x08, 0x00], [0x08, 0x06], [0x86, 0xdd], [0x88, 0xb5], [0x88, 0xcc], [0x81, 0x00]] {
        check(&[&addresses[..], &ethertype, bytes].concat());
    }
    check(&[&EDGE_SWITCHES.0[..], &addresses[6..], &[0x88, 0xb6], bytes].concat());
});

fn check(frame: &[u8]) {
    let Ok(parsed) = Ethernet::parse(frame) else { return };
    let mut out = Vec::new();
    parsed.emit(&mut out);
    assert_eq!(out, frame);
    let _ = Lldp::parse(frame);
    let _ = Arp::parse(parsed.payload);
    if let Ok((from, message)) = NlArp::parse(frame) {
        out.clear();
        message.emit(from, VlanId::new(1).expect("a VLAN"), &mut out);
        assert_eq!(out[18..], parsed.payload[..MESSAGE]);
    }
    if let Ok(message) = Unicast::parse(MacSpace(1), frame) {
        assert_eq!(message.emit(), frame[..22]);
    }
    if let Ok((from, claims)) = parse_claims(frame) {
        out.clear();
        emit_claims(from, None, &claims, &mut out);
        assert_eq!(parse_claims(&out), Ok((from, claims)));
    }
    if let Ok(it) = Encapsulation::parse(frame) {
        out.clear();
        it.emit(&mut out);
        assert_eq!(Encapsulation::parse(&out), Ok(it));
    }
    if let Ok(packet) = IpPacket::parse(&parsed) {
        let _ = packet.neighbor();
        let _ = echo(&parsed, &packet);
    }
    let mut routed = frame.to_vec();
    if route_in_place(&mut routed, MacAddr([2; 6]), MacAddr([4; 6])) {
        let routed = Ethernet::parse(&routed).expect("it was one");
        assert!(IpPacket::parse(&routed).is_ok(), "its checksum is right");
    }
}
