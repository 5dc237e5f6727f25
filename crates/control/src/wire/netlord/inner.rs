//! What an agent reads of the IP packets in tenants' frames: addresses, ports for flows and rules, and the way over a virtual router.

use std::net::IpAddr;

use weft_fabric::MacAddr;

use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{ETHERNET_HEADER, EtherType, Ethernet};
use crate::wire::packet::ip::{ICMPV6, Packet, TCP, UDP};
use crate::wire::packet::ndp::Neighbor;

/// The ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    /// TCP's or UDP's: source, destination.
    Known(u16, u16),
    /// TCP or UDP, but a fragment without them, or cut.
    Hidden,
    /// The protocol has none.
    None,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Names the datagram, with the packet's addresses.
    pub id: u32,
    /// Where the part begins, in bytes; 0: it is the first.
    pub offset: usize,
    /// Its bytes.
    pub length: usize,
    /// It says of itself, behind that, that it is a fragment again, as no stack sends.
    pub is_nested: bool,
}

/// What is read of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// From.
    pub src: IpAddr,
    /// To.
    pub dst: IpAddr,
    /// The protocol of the payload; of IPv6, the first next header that is none of hop-by-hop, routing, destination options or fragment.
    pub protocol: u8,
    /// Its ports.
    pub ports: Ports,
    /// The part that it is; `None`: the whole datagram, also of IPv6's atomic fragments (RFC 6946).
    pub fragment: Option<Fragment>,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// After the IP header and its extensions.
    pub payload: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// Reads the packet of a frame.
    ///
    /// # Errors
    /// [`PacketError::Kind`] if it is not IP, else what is wrong with it.
    pub fn parse(frame: &Ethernet<'a>) -> Result<Self, PacketError> {
        let is_v6 = match frame.ethertype {
            EtherType::IPV4 => false,
            EtherType::IPV6 => true,
            _ => return Err(PacketError::Kind("IP")),
        };
        let packet = Packet::new(frame.payload)?;
        if packet.is_v6() != is_v6 {
            return Err(PacketError::Field("IP version"));
        }
        if !packet.is_checksum_right() {
            return Err(PacketError::Checksum);
        }
        let (protocol, payload, fragment) = match is_v6 {
            false => (packet.protocol(), packet.payload(), fragment_v4(&packet)),
            true => skip_extensions(packet.protocol(), packet.payload())?,
        };
        let (src, dst, ttl) = (packet.source(), packet.destination(), packet.ttl());
        let ports = match fragment {
            Some(later) if later.offset > 0 && is_extension(protocol) && is_v6 => Ports::Hidden,
            _ => ports(protocol, payload, fragment.is_none_or(|it| it.offset == 0)),
        };
        Ok(Self { src, dst, protocol, ports, fragment, ttl, payload })
    }
}

impl IpPacket<'_> {
    /// The neighbour solicitation or advertisement that it is; `None`: another packet.
    ///
    /// # Errors
    /// It is one, and malformed.
    pub fn neighbor(&self) -> Result<Option<Neighbor>, PacketError> {
        match (self.src, self.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) if self.protocol == ICMPV6 && Neighbor::is_one(self.payload) => {
                Neighbor::of_message(src, dst, self.ttl, self.payload).map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn fragment_v4(packet: &Packet<'_>) -> Option<Fragment> {
    let (offset, length) = (packet.fragment_offset(), packet.payload().len());
    let id = u32::from(packet.identification());
    (offset > 0 || packet.has_more_fragments()).then_some(Fragment { id, offset, length, is_nested: false })
}

/// Past the extension headers: the protocol, its bytes, and which part of a datagram they are.
fn skip_extensions(mut next: u8, mut bytes: &[u8]) -> Result<(u8, &[u8], Option<Fragment>), PacketError> {
    let mut part: Option<Fragment> = None;
    for _ in 0..MAX_EXTENSIONS {
        let (length, is_fragment) = match next {
            0 | 43 | 60 => (usize::from(*bytes.get(1).ok_or(PacketError::Truncated)?) * 8 + 8, false),
            44 => (8, true),
            _ => return Ok((next, bytes, part)),
        };
        let (extension, rest) = bytes.split_at_checked(length).ok_or(PacketError::Truncated)?;
        next = extension[0];
        bytes = rest;
        if !is_fragment {
            continue;
        }
        let field = u16::from_be_bytes([extension[2], extension[3]]);
        let offset = usize::from(field & 0xfff8);
        let id = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
        match &mut part {
            Some(outer) => outer.is_nested = true,
            None if field & 0xfff9 != 0 => part = Some(Fragment { id, offset, length: rest.len(), is_nested: false }),
            None => {}
        }
        if offset != 0 {
            // What follows is no header, whatever the first part said.
            return Ok((next, bytes, part));
        }
    }
    Err(PacketError::Field("IPv6 extension headers"))
}

const MAX_EXTENSIONS: usize = 8;

/// Whether what follows a header of IPv6 is another one, and not the packet's protocol.
pub const fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 51 | 60 | 135)
}

fn ports(protocol: u8, payload: &[u8], is_first: bool) -> Ports {
    match (protocol, payload) {
        (TCP | UDP, &[a, b, c, d, ..]) if is_first => Ports::Known(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        (TCP | UDP, _) => Ports::Hidden,
        _ => Ports::None,
    }
}

/// Takes a frame over a virtual router: new MAC addresses, one off the time to live, which must be greater than 1. False, and nothing changed, if it is not an
/// IP packet that [`IpPacket::parse`] reads, or at the end of its time.
pub fn route_in_place(frame: &mut [u8], dst: MacAddr, src: MacAddr) -> bool {
    let Ok(parsed) = Ethernet::parse(frame) else { return false };
    let Ok(packet) = IpPacket::parse(&parsed) else { return false };
    if packet.ttl <= 1 {
        return false;
    }
    let at = frame.len() - parsed.payload.len();
    let is_v4 = parsed.ethertype == EtherType::IPV4;
    frame[..6].copy_from_slice(&dst.0);
    frame[6..12].copy_from_slice(&src.0);
    debug_assert!(at >= ETHERNET_HEADER);
    if is_v4 {
        frame[at + 8] -= 1;
        // RFC 1624: the checksum of what has 0x0100 less in one word.
        let (new, carry) = u16::from_be_bytes([frame[at + 10], frame[at + 11]]).overflowing_add(0x0100);
        let new = new + u16::from(carry);
        frame[at + 10..at + 12].copy_from_slice(&new.to_be_bytes());
    } else {
        frame[at + 7] -= 1;
    }
    true
}
