//! What an agent reads of the IP packets in tenants' frames: addresses, ports for flows and rules, and the way over a virtual router.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ethernet::{ETHERNET_HEADER, EtherType, Ethernet, FrameError};
use weft_fabric::MacAddr;

/// The Internet checksum (RFC 1071) of some bytes; over a header that has its checksum it is 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

pub(super) fn sum(bytes: &[u8]) -> u32 {
    let mut pairs = bytes.chunks_exact(2);
    let mut sum: u32 = pairs.by_ref().map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    if let [last] = pairs.remainder() {
        sum += u32::from(*last) << 8;
    }
    sum
}

pub(super) const fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

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
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// After the IP header and its extensions.
    pub payload: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// Reads the packet of a frame.
    ///
    /// # Errors
    /// [`FrameError::Protocol`] if it is not IP, else what is wrong with it.
    pub fn parse(frame: &Ethernet<'a>) -> Result<Self, FrameError> {
        match frame.ethertype {
            EtherType::IPV4 => Self::v4(frame.payload),
            EtherType::IPV6 => Self::v6(frame.payload),
            _ => Err(FrameError::Protocol),
        }
    }

    fn v4(packet: &'a [u8]) -> Result<Self, FrameError> {
        let header_bytes = match packet.first().ok_or(FrameError::Truncated)? {
            first @ 0x45..=0x4f => usize::from(first & 0xf) * 4,
            _ => return Err(FrameError::Field("IPv4 version")),
        };
        let header = packet.get(..header_bytes).ok_or(FrameError::Truncated)?;
        if checksum(header) != 0 {
            return Err(FrameError::Checksum);
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let payload = packet.get(header_bytes..total).ok_or(FrameError::Field("length"))?;
        let is_first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
        let address = |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
        Ok(Self {
            src: address(12),
            dst: address(16),
            protocol: header[9],
            ports: ports(header[9], payload, is_first),
            ttl: header[8],
            payload,
        })
    }

    fn v6(packet: &'a [u8]) -> Result<Self, FrameError> {
        let (header, rest) = packet.split_first_chunk::<40>().ok_or(FrameError::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(FrameError::Field("IPv6 version"));
        }
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = rest.get(..length).ok_or(FrameError::Field("length"))?;
        let address = |at: usize| {
            let bytes: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
            IpAddr::V6(Ipv6Addr::from(bytes))
        };
        let (protocol, payload, is_first) = skip_extensions(header[6], payload)?;
        Ok(Self {
            src: address(8),
            dst: address(24),
            protocol,
            ports: ports(protocol, payload, is_first),
            ttl: header[7],
            payload,
        })
    }
}

/// Past the extension headers: the protocol, its bytes, and whether they begin with its header.
fn skip_extensions(mut next: u8, mut bytes: &[u8]) -> Result<(u8, &[u8], bool), FrameError> {
    for _ in 0..MAX_EXTENSIONS {
        let (length, fragment) = match next {
            0 | 43 | 60 => (usize::from(*bytes.get(1).ok_or(FrameError::Truncated)?) * 8 + 8, false),
            44 => (8, true),
            _ => return Ok((next, bytes, true)),
        };
        let (extension, rest) = bytes.split_at_checked(length).ok_or(FrameError::Truncated)?;
        next = extension[0];
        bytes = rest;
        if fragment && u16::from_be_bytes([extension[2], extension[3]]) & 0xfff8 != 0 {
            return Ok((next, bytes, false));
        }
    }
    Err(FrameError::Field("IPv6 extension headers"))
}

const MAX_EXTENSIONS: usize = 8;

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
        let old = u16::from_be_bytes([frame[at + 10], frame[at + 11]]);
        let new = fold(u32::from(old) + 0x0100);
        frame[at + 10..at + 12].copy_from_slice(&new.to_be_bytes());
    } else {
        frame[at + 7] -= 1;
    }
    true
}

/// TCP's protocol number.
pub(crate) const TCP: u8 = 6;
/// UDP's.
pub(crate) const UDP: u8 = 17;
