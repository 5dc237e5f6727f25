//! IPv4 and IPv6 headers, as far as the agent needs them: who sends to whom, which flow it is, how long it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{PacketError, array, checksum, u16_at};

/// Bytes of an IPv4 header without options.
pub const HEADER_V4: usize = 20;
/// Bytes of an IPv6 header.
pub const HEADER_V6: usize = 40;
/// Protocol numbers.
pub const ICMP: u8 = 1;
/// IPv4 in IP (RFC 2003).
pub const IPIP: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 in IP (RFC 2473).
pub const IPV6: u8 = 41;
/// ICMPv6.
pub const ICMPV6: u8 = 58;

/// A packet whose header is whole and says that it is as long as it is, or shorter than the bytes are (padding of short frames). Quoted packets
/// of ICMP errors, which are cut, are read with [`Packet::cut`].
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header: usize,
    is_v6: bool,
}

impl<'a> Packet<'a> {
    /// Checks a whole packet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let mut packet = Self::cut(bytes)?;
        let total = packet.said_length();
        if total < packet.header {
            return Err(PacketError::Field("length of an IP packet"));
        }
        packet.bytes = bytes.get(..total).ok_or(PacketError::Truncated)?;
        Ok(packet)
    }

    /// Checks the header alone: the packet may end anywhere after it.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn cut(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let first = *bytes.first().ok_or(PacketError::Truncated)?;
        let (header, is_v6) = match first >> 4 {
            4 => (usize::from(first & 15) * 4, false),
            6 => (HEADER_V6, true),
            _ => return Err(PacketError::Kind("IP")),
        };
        if header < HEADER_V4 {
            return Err(PacketError::Field("length of an IPv4 header"));
        }
        if bytes.len() < header {
            return Err(PacketError::Truncated);
        }
        Ok(Self { bytes, header, is_v6 })
    }

    /// Header and all that follows.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header, with options.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header]
    }

    /// What follows the header; of IPv6, extension headers too.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header..]
    }

    /// Whether it is IPv6.
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The length that the header says, header included.
    pub fn said_length(&self) -> usize {
        if self.is_v6 { HEADER_V6 + usize::from(u16_at(self.bytes, 4)) } else { usize::from(u16_at(self.bytes, 2)) }
    }

    /// The sender.
    pub fn source(&self) -> IpAddr {
        if self.is_v6 { self.v6(8) } else { self.v4(12) }
    }

    /// The receiver.
    pub fn destination(&self) -> IpAddr {
        if self.is_v6 { self.v6(24) } else { self.v4(16) }
    }

    /// What the payload is: a protocol, or IPv6's next header.
    pub const fn protocol(&self) -> u8 {
        self.bytes[if self.is_v6 { 6 } else { 9 }]
    }

    /// Time to live, or hop limit.
    pub const fn ttl(&self) -> u8 {
        self.bytes[if self.is_v6 { 7 } else { 8 }]
    }

    /// The identification of an IPv4 packet; 0 of IPv6.
    pub fn identification(&self) -> u16 {
        if self.is_v6 { 0 } else { u16_at(self.bytes, 4) }
    }

    /// Whether it is a fragment but the first: without ports.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment_offset() != 0
    }

    /// Where the part of the datagram that it has begins, in bytes; 0 of IPv6.
    pub fn fragment_offset(&self) -> usize {
        if self.is_v6 { 0 } else { usize::from(u16_at(self.bytes, 6) & 0x1fff) * 8 }
    }

    /// Whether others of its datagram follow it; false of IPv6.
    pub fn has_more_fragments(&self) -> bool {
        !self.is_v6 && u16_at(self.bytes, 6) & 0x2000 != 0
    }

    /// Whether routers may not cut it.
    pub fn is_unfragmentable(&self) -> bool {
        self.is_v6 || self.bytes[6] & 0x40 != 0
    }

    /// Whether the checksum of an IPv4 header is right.
    pub fn is_checksum_right(&self) -> bool {
        self.is_v6 || checksum(0, self.header()) == 0
    }

    /// The flow that it belongs to: ports are 0 where there are none.
    pub fn flow(&self) -> Flow {
        let has_ports = has_ports(self.protocol()) && !self.is_later_fragment() && self.payload().len() >= 4;
        let port = |at| if has_ports { u16_at(self.payload(), at) } else { 0 };
        Flow {
            source: self.source(),
            destination: self.destination(),
            protocol: self.protocol(),
            source_port: port(0),
            destination_port: port(2),
        }
    }

    fn v4(&self, at: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(array::<4>(self.bytes, at).unwrap_or_default()))
    }

    fn v6(&self, at: usize) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(array::<16>(self.bytes, at).unwrap_or_default()))
    }
}

/// A five-tuple of an inner packet. Protocols without ports, and later fragments, have ports 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Inner source.
    pub source: IpAddr,
    /// Inner destination.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Port of the source, or 0.
    pub source_port: u16,
    /// Port of the destination, or 0.
    pub destination_port: u16,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) =
            (SocketAddr::new(self.source, self.source_port), SocketAddr::new(self.destination, self.destination_port));
        write!(f, "{from} > {to} protocol {}", self.protocol)
    }
}

/// An IPv4 header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Class of service and ECN.
    pub tos: u8,
    /// Of the payload, in bytes.
    pub payload: u16,
    /// Names the packet.
    pub identification: u16,
    /// Routers may not cut it.
    pub is_unfragmentable: bool,
    /// Hops that it may go.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: u8,
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
}

impl Ipv4 {
    /// Reads a header without options of a packet that is no fragment.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let packet = Packet::new(bytes)?;
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source(), packet.destination()) else {
            return Err(PacketError::Kind("IPv4"));
        };
        if packet.header != HEADER_V4 {
            return Err(PacketError::Field("IPv4 options"));
        }
        if !packet.is_checksum_right() {
            return Err(PacketError::Checksum);
        }
        if u16_at(bytes, 6) & !0x4000 != 0 {
            return Err(PacketError::Field("fragment"));
        }
        Ok(Self {
            tos: bytes[1],
            payload: (packet.said_length() - HEADER_V4) as u16,
            identification: packet.identification(),
            is_unfragmentable: packet.is_unfragmentable(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            source,
            destination,
        })
    }

    /// Appends the header.
    ///
    /// # Panics
    /// If header and payload are longer than 65,535 bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let total = self.payload.checked_add(HEADER_V4 as u16).expect("a packet that IPv4 can carry");
        out.extend_from_slice(&[0x45, self.tos]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&self.identification.to_be_bytes());
        out.extend_from_slice(&[if self.is_unfragmentable { 0x40 } else { 0 }, 0, self.ttl, self.protocol, 0, 0]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
        let sum = checksum(0, &out[start..]);
        out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    /// What the checksum of UDP or TCP begins with (RFC 768).
    pub fn pseudo_sum(&self) -> u32 {
        pseudo_sum(self.payload, self.protocol, &[self.source.octets(), self.destination.octets()].concat())
    }
}

/// A datagram of UDP over IPv4, from an address and a port to others.
///
/// # Panics
/// If it is longer than 65,535 bytes.
pub fn udp_packet((source, from): (Ipv4Addr, u16), (destination, to): (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).expect("a datagram that UDP can carry");
    let header = Ipv4 {
        tos: 0,
        payload: length,
        identification: 0,
        is_unfragmentable: false,
        ttl: 64,
        protocol: UDP,
        source,
        destination,
    };
    let mut packet = Vec::with_capacity(20 + usize::from(length));
    header.emit(&mut packet);
    let start = packet.len();
    packet.extend([from, to, length, 0].iter().flat_map(|word| word.to_be_bytes()));
    packet.extend_from_slice(payload);
    let check = match checksum(header.pseudo_sum(), &packet[start..]) {
        0 => 0xffff,
        check => check,
    };
    packet[start + 6..start + 8].copy_from_slice(&check.to_be_bytes());
    packet
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Of the payload, in bytes.
    pub payload: u16,
    /// What the payload is.
    pub next: u8,
    /// Hops that it may go.
    pub hops: u8,
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
}

impl Ipv6 {
    /// Appends the header; traffic class and flow label are 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x60, 0, 0, 0]);
        out.extend_from_slice(&self.payload.to_be_bytes());
        out.extend_from_slice(&[self.next, self.hops]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
    }

    /// What the checksum of an upper protocol begins with (RFC 8200, section 8.1).
    pub fn pseudo_sum(&self) -> u32 {
        pseudo_sum(self.payload, self.next, &[self.source.octets(), self.destination.octets()].concat())
    }
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with two ports.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | 33 | 132 | 136)
}

fn pseudo_sum(payload: u16, protocol: u8, addresses: &[u8]) -> u32 {
    let words = addresses.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    u32::from(payload) + u32::from(protocol) + words.sum::<u32>()
}
