//! Pings of a virtual router's addresses: agents answer them (section 3.2).

use std::net::IpAddr;

use super::inner::IpPacket;
use crate::wire::packet::checksum;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::ip::{ICMP, ICMPV6, Ipv4, Ipv6};

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
const TTL: u8 = 64;

/// The answer to a ping; `None` if the packet in the frame is none.
pub fn echo(frame: &Ethernet<'_>, packet: &IpPacket<'_>) -> Option<Vec<u8>> {
    let payload = u16::try_from(packet.payload.len()).ok()?;
    let mut out = Vec::with_capacity(54 + packet.payload.len());
    let header = |ethertype| Ethernet { dst: frame.src, src: frame.dst, tag: frame.tag, ethertype, payload: &[] };
    let (kind, sum) = match (packet.src, packet.dst, packet.protocol, packet.payload) {
        (IpAddr::V6(destination), IpAddr::V6(source), ICMPV6, [REQUEST_V6, 0, _, _, ..]) => {
            header(EtherType::IPV6).emit(&mut out);
            let ip = Ipv6 { payload, next: ICMPV6, hops: TTL, source, destination };
            ip.emit(&mut out);
            (REPLY_V6, ip.pseudo_sum())
        }
        (IpAddr::V4(destination), IpAddr::V4(source), ICMP, [REQUEST, 0, _, _, ..]) if frame.payload.first() == Some(&0x45) => {
            header(EtherType::IPV4).emit(&mut out);
            let (tos, identification, is_unfragmentable, ttl, protocol) = (0, 0, true, TTL, ICMP);
            Ipv4 { tos, payload, identification, is_unfragmentable, ttl, protocol, source, destination }.emit(&mut out);
            (REPLY, 0)
        }
        _ => return None,
    };
    let start = out.len();
    out.extend_from_slice(packet.payload);
    out[start..start + 4].copy_from_slice(&[kind, 0, 0, 0]);
    let sum = checksum(sum, &out[start..]);
    out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    Some(out)
}
