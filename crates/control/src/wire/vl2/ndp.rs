//! Neighbour solicitations and advertisements (RFC 4861, sections 4.3 and 4.4): for IPv6 what ARP is for IPv4. Whole IPv6 packets.

use std::net::{IpAddr, Ipv6Addr};

use weft_fabric::MacAddr;

use super::ip::{HEADER_V6, ICMPV6, Ipv6, Packet as IpPacket};
use super::{PacketError, array, checksum};

/// A solicitation or an advertisement whose checksum and hop limit are right.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    ip: IpPacket<'a>,
    options: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks everything that RFC 4861, section 7.1, asks for.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let ip = IpPacket::new(bytes)?;
        if !ip.is_v6() || ip.protocol() != ICMPV6 {
            return Err(PacketError::Kind("ICMPv6"));
        }
        let message = ip.payload();
        let options = message.get(FIXED..).ok_or(PacketError::Truncated)?;
        if !matches!(message[0], SOLICITATION | ADVERTISEMENT) {
            return Err(PacketError::Kind("a neighbour solicitation or advertisement"));
        }
        if ip.ttl() != 255 {
            return Err(PacketError::Field("hop limit"));
        }
        let packet = Self { ip, options };
        if message[1] != 0 || packet.target().is_multicast() {
            return Err(PacketError::Field("neighbour message"));
        }
        packet.check_options()?;
        if checksum(packet.header().pseudo_sum(), message) != 0 {
            return Err(PacketError::Checksum);
        }
        Ok(packet)
    }

    /// Whether it asks.
    pub fn is_solicitation(&self) -> bool {
        self.ip.payload()[0] == SOLICITATION
    }

    /// The sender; `::` in duplicate address detection.
    pub fn source(&self) -> Ipv6Addr {
        v6(self.ip.source())
    }

    /// The receiver.
    pub fn destination(&self) -> Ipv6Addr {
        v6(self.ip.destination())
    }

    /// Whose MAC it is about.
    pub fn target(&self) -> Ipv6Addr {
        array::<16>(self.ip.payload(), 8).unwrap_or_default().into()
    }

    /// The MAC of the sender (of a solicitation) or of the target (of an advertisement), if it is told.
    pub fn mac(&self) -> Option<MacAddr> {
        let wanted = if self.is_solicitation() { SOURCE_MAC } else { TARGET_MAC };
        self.options().find(|option| option[0] == wanted && option.len() == 8).and_then(|o| array(o, 2).ok()).map(MacAddr)
    }

    /// Whether it answers a solicitation.
    pub fn is_solicited(&self) -> bool {
        self.ip.payload()[4] & SOLICITED != 0
    }

    fn options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            let length = usize::from(*rest.get(1)?) * 8;
            let (option, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(option)
        })
    }

    fn check_options(&self) -> Result<(), PacketError> {
        let mut rest = self.options;
        while !rest.is_empty() {
            let length = usize::from(*rest.get(1).ok_or(PacketError::Truncated)?) * 8;
            if length == 0 {
                return Err(PacketError::Field("length of an option"));
            }
            rest = rest.get(length..).ok_or(PacketError::Truncated)?;
        }
        Ok(())
    }

    fn header(&self) -> Ipv6 {
        Ipv6 {
            payload: (self.ip.bytes().len() - HEADER_V6) as u16,
            next: ICMPV6,
            hops: self.ip.ttl(),
            source: self.source(),
            destination: self.destination(),
        }
    }
}

/// A solicitation or an advertisement, with the option that carries a MAC and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Whether it asks.
    pub is_solicitation: bool,
    /// Whether it answers.
    pub is_solicited: bool,
    /// The sender; `::` in duplicate address detection.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// Whose MAC it is about.
    pub target: Ipv6Addr,
    /// The MAC of the sender or of the target.
    pub mac: Option<MacAddr>,
}

impl Neighbor {
    /// Reads an IPv6 packet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let packet = Packet::new(bytes)?;
        Ok(Self {
            is_solicitation: packet.is_solicitation(),
            is_solicited: !packet.is_solicitation() && packet.is_solicited(),
            source: packet.source(),
            destination: packet.destination(),
            target: packet.target(),
            mac: packet.mac(),
        })
    }

    /// Appends the IPv6 packet. An advertisement overrides what the receiver has cached, and does not come from a router.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let length = FIXED + if self.mac.is_some() { 8 } else { 0 };
        let (source, destination) = (self.source, self.destination);
        let header = Ipv6 { payload: length as u16, next: ICMPV6, hops: 255, source, destination };
        header.emit(out);
        let start = out.len();
        let flags = if self.is_solicitation { 0 } else { OVERRIDE | if self.is_solicited { SOLICITED } else { 0 } };
        let kind = if self.is_solicitation { SOLICITATION } else { ADVERTISEMENT };
        out.extend_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
        out.extend_from_slice(&self.target.octets());
        if let Some(mac) = self.mac {
            out.extend_from_slice(&[if self.is_solicitation { SOURCE_MAC } else { TARGET_MAC }, 1]);
            out.extend_from_slice(&mac.0);
        }
        let sum = checksum(header.pseudo_sum(), &out[start..]);
        out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    }

    /// The advertisement that says that `mac` has the address asked for. None to what must not be answered: advertisements, and duplicate
    /// address detection.
    pub fn answer(&self, mac: MacAddr) -> Option<Self> {
        let is_asked = self.is_solicitation && !self.source.is_unspecified() && self.source != self.target;
        is_asked.then_some(Self {
            is_solicitation: false,
            is_solicited: true,
            source: self.target,
            destination: self.source,
            target: self.target,
            mac: Some(mac),
        })
    }
}

const fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

/// Bytes before the options.
const FIXED: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
