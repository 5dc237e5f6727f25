//! The tenants' neighbour solicitations and advertisements (RFC 4861, sections 4.3 and 4.4), and echo requests to a virtual router: agents answer them.
//!
//! ```text
//!   IPv6 header 40, hop limit 255 | 135 | 0 | checksum | 0 x 4      | target 16 | [1, 1, source MAC]        solicitation
//!                                 | 136 | 0 | checksum | R S O, 0   | target 16 | [2, 1, target MAC]        advertisement
//! ```

use std::net::{IpAddr, Ipv6Addr};

use weft_fabric::MacAddr;

use super::ethernet::{EtherType, Ethernet, FrameError};
use super::inner::{IpPacket, fold, sum};

/// ICMPv6's protocol number.
pub const ICMPV6: u8 = 58;
/// ICMP's.
pub const ICMP: u8 = 1;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const LINK_LAYER_SOURCE: [u8; 2] = [1, 1];
const LINK_LAYER_TARGET: [u8; 2] = [2, 1];

/// A message of neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Neighbour {
    /// Who has `target`?
    Solicitation {
        /// Who asks; `::` in a test for duplicates.
        from: Ipv6Addr,
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// The sender has `target`.
    Advertisement {
        /// The address.
        target: Ipv6Addr,
    },
}

impl Neighbour {
    /// Reads an IPv6 packet; `None` if it is none of these.
    ///
    /// # Errors
    /// It is one, and malformed.
    pub fn parse(packet: &IpPacket<'_>) -> Result<Option<Self>, FrameError> {
        let (IpAddr::V6(from), IpAddr::V6(to)) = (packet.src, packet.dst) else { return Ok(None) };
        let kind = match (packet.protocol, packet.payload.first()) {
            (ICMPV6, Some(&kind @ (SOLICITATION | ADVERTISEMENT))) => kind,
            _ => return Ok(None),
        };
        let (body, _) = packet.payload.split_first_chunk::<24>().ok_or(FrameError::Truncated)?;
        if packet.ttl != 255 || body[1] != 0 {
            return Err(FrameError::Field("neighbour discovery"));
        }
        if icmp_checksum(from, to, packet.payload) != 0 {
            return Err(FrameError::Checksum);
        }
        let target: [u8; 16] = body[8..24].try_into().expect("16 bytes");
        let target = Ipv6Addr::from(target);
        if target.is_multicast() {
            return Err(FrameError::Field("neighbour's address"));
        }
        Ok(Some(if kind == SOLICITATION { Self::Solicitation { from, target } } else { Self::Advertisement { target } }))
    }
}

/// The frame that says to `to` at `to_mac`: `mac` has the address `target`.
pub fn advertise(target: Ipv6Addr, mac: MacAddr, is_router: bool, to: Ipv6Addr, to_mac: MacAddr) -> Vec<u8> {
    let mut body = vec![ADVERTISEMENT, 0, 0, 0, if is_router { 0xe0 } else { 0x60 }, 0, 0, 0];
    body.extend_from_slice(&target.octets());
    body.extend_from_slice(&LINK_LAYER_TARGET);
    body.extend_from_slice(&mac.0);
    icmp6_frame(target, to, mac, to_mac, 255, body)
}

/// The frame that asks who has `target`: what a VM's kernel sends.
pub fn solicit(from: Ipv6Addr, mac: MacAddr, target: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let mut body = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(&target.octets());
    body.extend_from_slice(&LINK_LAYER_SOURCE);
    body.extend_from_slice(&mac.0);
    icmp6_frame(from, group, mac, MacAddr([0x33, 0x33, 0xff, a, b, c]), 255, body)
}

fn icmp6_frame(from: Ipv6Addr, to: Ipv6Addr, src: MacAddr, dst: MacAddr, hop_limit: u8, mut body: Vec<u8>) -> Vec<u8> {
    body[2..4].fill(0);
    let sum = icmp_checksum(from, to, &body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Vec::with_capacity(54 + body.len());
    Ethernet { dst, src, tag: None, ethertype: EtherType::IPV6, payload: &[] }.emit(&mut frame);
    frame.extend_from_slice(&[0x60, 0, 0, 0]);
    frame.extend_from_slice(&(body.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[ICMPV6, hop_limit]);
    frame.extend_from_slice(&from.octets());
    frame.extend_from_slice(&to.octets());
    frame.extend_from_slice(&body);
    frame
}

/// ICMPv6's checksum with its pseudo-header (RFC 8200, section 8.1); over a message that has its checksum it is 0.
fn icmp_checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let total = sum(&from.octets()) + sum(&to.octets()) + message.len() as u32 + u32::from(ICMPV6) + sum(message);
    !fold(total)
}

/// The answer to a ping; `None` if the packet in the frame is none.
pub fn echo(frame: &Ethernet<'_>, packet: &IpPacket<'_>) -> Option<Vec<u8>> {
    match (packet.src, packet.dst, packet.protocol, packet.payload) {
        (IpAddr::V6(src), IpAddr::V6(dst), ICMPV6, [128, 0, _, _, ..]) => {
            let mut body = packet.payload.to_vec();
            body[0] = 129;
            Some(icmp6_frame(dst, src, frame.dst, frame.src, 64, body))
        }
        (IpAddr::V4(src), IpAddr::V4(dst), ICMP, [8, 0, _, _, ..]) if frame.payload.first() == Some(&0x45) => {
            let mut out = Vec::with_capacity(34 + packet.payload.len());
            Ethernet { dst: frame.src, src: frame.dst, tag: frame.tag, ethertype: EtherType::IPV4, payload: &[] }.emit(&mut out);
            let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, ICMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            header[2..4].copy_from_slice(&(20 + packet.payload.len() as u16).to_be_bytes());
            header[12..16].copy_from_slice(&dst.octets());
            header[16..20].copy_from_slice(&src.octets());
            let sum = super::inner::checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut body = packet.payload.to_vec();
            body[..4].copy_from_slice(&[0, 0, 0, 0]);
            let sum = super::inner::checksum(&body);
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            out.extend_from_slice(&header);
            out.extend_from_slice(&body);
            Some(out)
        }
        _ => None,
    }
}
