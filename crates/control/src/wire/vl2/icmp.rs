//! ICMP errors (RFC 792, 1191, 4443): those that come back from the network are about the outer packet; senders of the inner one must hear of
//! theirs (RFC 2003, section 4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::packet::ip::{HEADER_V4, HEADER_V6, ICMP, ICMPV6, Ipv4, Ipv6, Packet as IpPacket};
use crate::wire::packet::{PacketError, checksum, u16_at};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Longer than this, and not to be cut: fragmentation needed, or packet too big.
    TooBig {
        /// The longest packet that goes on.
        mtu: u16,
    },
    /// No route to the network.
    NetUnreachable,
    /// No way to the host.
    HostUnreachable,
    /// Somebody forbids it.
    Prohibited,
    /// Nobody takes the protocol, at the receiver.
    ProtocolUnreachable,
    /// It has gone as many hops as it may.
    TimeExceeded,
}

impl Problem {
    const fn v4(self) -> (u8, u8) {
        match self {
            Self::TooBig { .. } => (3, 4),
            Self::NetUnreachable => (3, 0),
            Self::HostUnreachable => (3, 1),
            Self::ProtocolUnreachable => (3, 2),
            Self::Prohibited => (3, 10),
            Self::TimeExceeded => (11, 0),
        }
    }

    const fn v6(self) -> (u8, u8) {
        match self {
            Self::TooBig { .. } => (2, 0),
            Self::NetUnreachable => (1, 0),
            Self::HostUnreachable | Self::ProtocolUnreachable => (1, 3),
            Self::Prohibited => (1, 1),
            Self::TimeExceeded => (3, 0),
        }
    }
}

/// An ICMP error over IPv4 whose checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    ip: IpPacket<'a>,
    problem: Problem,
}

impl<'a> Packet<'a> {
    /// Checks an IPv4 packet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let ip = IpPacket::new(bytes)?;
        if ip.is_v6() || ip.protocol() != ICMP || ip.is_later_fragment() {
            return Err(PacketError::Kind("ICMP"));
        }
        let message = ip.payload();
        if message.len() < HEADER {
            return Err(PacketError::Truncated);
        }
        if !ip.is_checksum_right() || checksum(0, message) != 0 {
            return Err(PacketError::Checksum);
        }
        let problem = match (message[0], message[1]) {
            (3, 4) => Problem::TooBig { mtu: u16_at(message, 6) },
            (3, 2) => Problem::ProtocolUnreachable,
            (3, 9 | 10 | 13) => Problem::Prohibited,
            (3, 0) => Problem::NetUnreachable,
            (3, _) => Problem::HostUnreachable,
            (11, 0) => Problem::TimeExceeded,
            _ => return Err(PacketError::Kind("an ICMP error")),
        };
        Ok(Self { ip, problem })
    }

    /// The sender.
    pub fn teller(&self) -> Ipv4Addr {
        v4(self.ip.source())
    }

    /// The receiver.
    pub fn receiver(&self) -> Ipv4Addr {
        v4(self.ip.destination())
    }

    /// What went wrong.
    pub const fn problem(&self) -> Problem {
        self.problem
    }

    /// The beginning of the packet that it is about.
    pub fn quoted(&self) -> &'a [u8] {
        let quoted = &self.ip.payload()[HEADER..];
        // RFC 4884: the sixth byte of the message is the length of the quote in words, if extensions follow it.
        let words = usize::from(self.ip.payload()[5]) * 4;
        if words >= 128 && !matches!(self.problem, Problem::TooBig { .. }) {
            quoted.get(..words).unwrap_or(quoted)
        } else {
            quoted
        }
    }
}

/// An error to be sent to the sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError<'a> {
    /// The sender. Of the packet's own family.
    pub teller: IpAddr,
    /// What went wrong.
    pub problem: Problem,
    /// The packet that it is about, or its beginning.
    pub about: &'a [u8],
}

impl IcmpError<'_> {
    /// Appends the IP packet.
    ///
    /// # Errors
    /// [`PacketError`] if there must be no error about that packet: it is an error itself, a later fragment, to or from many, or no IP packet;
    /// or the teller is of the other family.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<(), PacketError> {
        let about = IpPacket::cut(self.about)?;
        if !may_report(&about) {
            return Err(PacketError::Kind("a packet that an error may be about"));
        }
        match (self.teller, about.source()) {
            (IpAddr::V4(teller), IpAddr::V4(to)) => self.emit_v4(teller, to, out),
            (IpAddr::V6(teller), IpAddr::V6(to)) => self.emit_v6(teller, to, out),
            _ => return Err(PacketError::Field("family of the teller")),
        }
        Ok(())
    }

    fn emit_v4(&self, source: Ipv4Addr, destination: Ipv4Addr, out: &mut Vec<u8>) {
        let quoted = &self.about[..self.about.len().min(LONGEST_V4 - HEADER_V4 - HEADER)];
        let payload = (HEADER + quoted.len()) as u16;
        let (tos, ttl) = (0xc0, 64);
        let header = Ipv4 { tos, payload, identification: 0, is_unfragmentable: false, ttl, protocol: ICMP, source, destination };
        header.emit(out);
        self.emit_message(self.problem.v4(), 0, quoted, out);
    }

    fn emit_v6(&self, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let quoted = &self.about[..self.about.len().min(LONGEST_V6 - HEADER_V6 - HEADER)];
        let header = Ipv6 { payload: (HEADER + quoted.len()) as u16, next: ICMPV6, hops: 64, source, destination };
        header.emit(out);
        self.emit_message(self.problem.v6(), header.pseudo_sum(), quoted, out);
    }

    fn emit_message(&self, (kind, code): (u8, u8), sum: u32, quoted: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mtu = if let Problem::TooBig { mtu } = self.problem { mtu } else { 0 };
        out.extend_from_slice(&[kind, code, 0, 0, 0, 0]);
        out.extend_from_slice(&mtu.to_be_bytes());
        out.extend_from_slice(quoted);
        let sum = checksum(sum, &out[start..]);
        out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 1122, section 3.2.2; RFC 4443, section 2.4.
fn may_report(about: &IpPacket<'_>) -> bool {
    let is_error = match (about.protocol(), about.payload().first()) {
        (ICMP, Some(kind)) if !about.is_v6() => !matches!(kind, 0 | 8 | 13..=18),
        (ICMPV6, Some(kind)) if about.is_v6() => *kind < 128,
        (ICMP, None) | (ICMPV6, None) => true,
        _ => false,
    };
    let is_one = |address: IpAddr| match address {
        IpAddr::V4(it) => !(it.is_unspecified() || it.is_broadcast() || it.is_multicast() || it.is_loopback()),
        IpAddr::V6(it) => !(it.is_unspecified() || it.is_multicast() || it.is_loopback()),
    };
    // That a packet to a group of IPv6 hosts is too big may be reported.
    !is_error && !about.is_later_fragment() && is_one(about.source()) && is_one(about.destination())
}

const fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Of the message, before the quoted packet.
const HEADER: usize = 8;
/// RFC 1812, section 4.3.2.3.
const LONGEST_V4: usize = 576;
/// RFC 4443, section 2.4.
const LONGEST_V6: usize = 1280;
