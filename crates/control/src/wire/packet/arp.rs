//! ARP for IPv4 on Ethernet (RFC 826, RFC 5227). Agents answer it in place of the network (VL2, section 4.2.1; NetLord, section 3.9).
//!
//! ```text
//!   0     2     4   5   6     8                14        18               24        28
//!   +-----+-----+---+---+-----+----------------+---------+----------------+---------+
//!   |  1  | 0800| 6 | 4 | op  | sender MAC     | sender IP| target MAC    | target IP|
//!   +-----+-----+---+---+-----+----------------+---------+----------------+---------+
//! ```

use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::ethernet::{BROADCAST, EtherType, Ethernet, MIN_FRAME};
use super::{PacketError, array, u16_at};

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arp {
    /// Whether it asks.
    pub is_request: bool,
    /// Who asks, or answers; the address 0.0.0.0 in a probe (RFC 5227).
    pub sender: (MacAddr, Ipv4Addr),
    /// Who is asked for, or answered.
    pub target: (MacAddr, Ipv4Addr),
}

const LENGTH: usize = 28;
const FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];

impl Arp {
    /// Reads a packet; a frame may have padding after it.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let bytes = bytes.first_chunk::<LENGTH>().ok_or(PacketError::Truncated)?;
        if bytes[..6] != FIXED {
            return Err(PacketError::Kind("ARP for IPv4 on Ethernet"));
        }
        let is_request = match u16_at(bytes, 6) {
            1 => true,
            2 => false,
            _ => return Err(PacketError::Field("ARP operation")),
        };
        let end = |at: usize| Ok((MacAddr(array(bytes, at)?), array::<4>(bytes, at + 6)?.into()));
        Ok(Self { is_request, sender: end(8)?, target: end(18)? })
    }

    /// Appends the packet.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&FIXED);
        out.extend_from_slice(&[0, if self.is_request { 1 } else { 2 }]);
        for (mac, ip) in [self.sender, self.target] {
            out.extend_from_slice(&mac.0);
            out.extend_from_slice(&ip.octets());
        }
    }

    /// The question of `sender` who has `ip`.
    pub fn question(sender: (MacAddr, Ipv4Addr), ip: Ipv4Addr) -> Self {
        Self { is_request: true, sender, target: (MacAddr::default(), ip) }
    }

    /// The reply to this request: `mac` has the address asked for.
    #[must_use]
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self { is_request: false, sender: (mac, self.target.1), target: self.sender }
    }

    /// The frame that carries it, from its sender: a question to all, a reply to its target.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(MIN_FRAME);
        let dst = if self.is_request { BROADCAST } else { self.target.0 };
        Ethernet { dst, src: self.sender.0, tag: None, ethertype: EtherType::ARP, payload: &[] }.emit(&mut frame);
        self.emit(&mut frame);
        frame.resize(MIN_FRAME, 0);
        frame
    }
}
