//! Any bytes are an error, or a packet whose value is given back when it is emitted and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::wire::packet::{arp, ethernet, ip, ndp};
use weft_control::wire::subways;
use weft_control::wire::vl2::{attach, icmp, ipip, placement};

fuzz_target!(|bytes: &[u8]| {
    let mut out = Vec::new();
    if let Ok(arp) = arp::Arp::parse(bytes) {
        arp.emit(&mut out);
        assert_eq!(out, bytes[..out.len()]);
    }
    if let Ok(neighbor) = ndp::Neighbor::parse(bytes) {
        out.clear();
        neighbor.emit(&mut out);
        assert_eq!(ndp::Neighbor::parse(&out), Ok(neighbor));
    }
    if let Ok(header) = ip::Ipv4::parse(bytes) {
        out.clear();
        header.emit(&mut out);
        assert_eq!(ip::Packet::cut(&out).unwrap().flow().source, ip::Packet::cut(bytes).unwrap().flow().source);
    }
    if let Ok((tunnel, inner)) = ipip::Tunnel::strip(bytes)
        && let Ok(packet) = ip::Packet::new(inner)
        && let Ok(pushed) = tunnel.push(packet.bytes(), ipip::Marks::default())
    {
        assert!(ipip::Tunnel::strip(&pushed).unwrap().1.ends_with(&packet.bytes()[packet.header().len()..]));
    }
    if let Ok(error) = icmp::Packet::new(bytes) {
        let _ = (error.teller(), error.receiver(), error.problem(), ipip::Tunnel::strip(error.quoted()));
    }
    let key = attach::AttachKey::of(&Secret::new([1; 32]).key_of(PrincipalId(1)));
    if let Ok(frame) = attach::Frame::parse(bytes) {
        let again = frame.message.emit(&key);
        assert_eq!(again[..again.len() - 16], bytes[..bytes.len() - 16]);
        let _ = frame.is_of(&key);
    }
    let key = placement::PlacementKey::of(&Secret::new([1; 32]).key_of(PrincipalId(1)));
    if let Ok(frame) = placement::Frame::parse(bytes) {
        let again = match &frame.message {
            placement::Message::Report(report) => report.emit(&key),
            placement::Message::Orders(orders) => orders.emit(&key),
        };
        assert_eq!(again[..again.len() - 16], bytes[..bytes.len() - 16]);
        let _ = frame.is_of(&key);
    }
    if let Ok(frame) = subways::Frame::parse(bytes) {
        let again = match &frame.message {
            subways::Message::Host(report) => report.emit(&key),
            subways::Message::Tor(report) => report.emit(&key),
            subways::Message::Forward(report) => report.emit(&key),
            subways::Message::Orders(orders) => orders.emit(&key),
            subways::Message::Detours(orders) => orders.emit(&key),
        };
        assert_eq!(again[..again.len() - 16], bytes[..bytes.len() - 16]);
        let _ = frame.is_of(&key);
    }
    if let Ok(frame) = ethernet::Ethernet::parse(bytes) {
        out.clear();
        frame.emit(&mut out);
        assert_eq!(out, bytes);
    }
    let error = icmp::IcmpError { teller: [10, 0, 0, 1].into(), problem: icmp::Problem::TooBig { mtu: 1460 }, about: bytes };
    out.clear();
    if error.emit(&mut out).is_ok() {
        icmp::Packet::new(&out).expect("what is made is right");
    }
});
