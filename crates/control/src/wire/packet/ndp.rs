//! Neighbour solicitations and advertisements (RFC 4861, sections 4.3 and 4.4): for IPv6 what ARP is for IPv4.
//!
//! ```text
//!   IPv6 header, hop limit 255 | 135 | 0 | checksum | 0 x 4     | target 16 | [1, 1, source MAC]     solicitation
//!                              | 136 | 0 | checksum | R S O, 0  | target 16 | [2, 1, target MAC]     advertisement
//! ```

use std::net::{IpAddr, Ipv6Addr};

use weft_fabric::MacAddr;

use super::ethernet::{EtherType, Ethernet};
use super::ip::{HEADER_V6, ICMPV6, Ipv6, Packet};
use super::{PacketError, array, checksum};

/// A solicitation or an advertisement, with the option that carries a MAC and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbor {
    /// Whether it asks.
    pub is_solicitation: bool,
    /// Whether it comes from a router; false in a solicitation.
    pub is_router: bool,
    /// Whether it answers.
    pub is_solicited: bool,
    /// The sender; `::` in duplicate address detection.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// Whose MAC it is about.
    pub target: Ipv6Addr,
    /// The MAC of the sender (of a solicitation) or of the target (of an advertisement), if present.
    pub mac: Option<MacAddr>,
}

impl Neighbor {
    /// Reads an IPv6 packet without extension headers.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let ip = Packet::new(bytes)?;
        match (ip.source(), ip.destination(), ip.protocol()) {
            (IpAddr::V6(source), IpAddr::V6(destination), ICMPV6) => {
                Self::of_message(source, destination, ip.ttl(), ip.payload())
            }
            _ => Err(PacketError::Kind("ICMPv6")),
        }
    }

    /// Whether an ICMPv6 message is one of these, by its first byte.
    pub fn is_one(message: &[u8]) -> bool {
        matches!(message.first(), Some(&(SOLICITATION | ADVERTISEMENT)))
    }

    /// Reads an ICMPv6 message, and checks everything that RFC 4861, section 7.1, asks for.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn of_message(source: Ipv6Addr, destination: Ipv6Addr, hops: u8, message: &[u8]) -> Result<Self, PacketError> {
        if !Self::is_one(message) {
            return Err(PacketError::Kind("a neighbour solicitation or advertisement"));
        }
        let options = message.get(FIXED..).ok_or(PacketError::Truncated)?;
        let target = Ipv6Addr::from(array::<16>(message, 8)?);
        if hops != 255 || message[1] != 0 || target.is_multicast() {
            return Err(PacketError::Field("neighbour message"));
        }
        let payload = u16::try_from(message.len()).map_err(|_| PacketError::Field("length"))?;
        if checksum(Ipv6 { payload, next: ICMPV6, hops, source, destination }.pseudo_sum(), message) != 0 {
            return Err(PacketError::Checksum);
        }
        let is_solicitation = message[0] == SOLICITATION;
        let mac = mac_of(options, if is_solicitation { SOURCE_MAC } else { TARGET_MAC })?;
        let is = |flag: u8| !is_solicitation && message[4] & flag != 0;
        Ok(Self { is_solicitation, is_router: is(ROUTER), is_solicited: is(SOLICITED), source, destination, target, mac })
    }

    /// Appends the IPv6 packet. An advertisement overrides what the receiver has cached.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let length = FIXED + if self.mac.is_some() { 8 } else { 0 };
        let (source, destination) = (self.source, self.destination);
        let header = Ipv6 { payload: length as u16, next: ICMPV6, hops: 255, source, destination };
        header.emit(out);
        let start = out.len();
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = match self.is_solicitation {
            true => 0,
            false => OVERRIDE | flag(self.is_solicited, SOLICITED) | flag(self.is_router, ROUTER),
        };
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

    /// The question of `source` at `mac` who has `target`: what a host's kernel sends.
    pub fn question(source: Ipv6Addr, mac: MacAddr, target: Ipv6Addr) -> Self {
        let [.., a, b, c] = target.octets();
        let destination = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
        Self { is_solicitation: true, is_router: false, is_solicited: false, source, destination, target, mac: Some(mac) }
    }

    /// The advertisement that says to `destination`, who has asked, that `mac` has `target`.
    pub const fn advertisement(target: Ipv6Addr, mac: MacAddr, destination: Ipv6Addr) -> Self {
        Self { is_solicitation: false, is_router: false, is_solicited: true, source: target, destination, target, mac: Some(mac) }
    }

    /// The frame that carries it.
    pub fn frame(&self, dst: MacAddr, src: MacAddr) -> Vec<u8> {
        let mut frame = Vec::with_capacity(14 + HEADER_V6 + FIXED + 8);
        Ethernet { dst, src, tag: None, ethertype: EtherType::IPV6, payload: &[] }.emit(&mut frame);
        self.emit(&mut frame);
        frame
    }
}

/// The MAC of the option of a kind; all options are checked to be whole.
fn mac_of(mut options: &[u8], kind: u8) -> Result<Option<MacAddr>, PacketError> {
    let mut found = None;
    while !options.is_empty() {
        let length = usize::from(*options.get(1).ok_or(PacketError::Truncated)?) * 8;
        if length == 0 {
            return Err(PacketError::Field("length of an option"));
        }
        let (option, rest) = options.split_at_checked(length).ok_or(PacketError::Truncated)?;
        if found.is_none() && option[0] == kind && length == 8 {
            found = Some(MacAddr(array(option, 2)?));
        }
        options = rest;
    }
    Ok(found)
}

/// The Ethernet destination of a group of IPv6 (RFC 2464, section 7).
pub const fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Bytes before the options.
const FIXED: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
