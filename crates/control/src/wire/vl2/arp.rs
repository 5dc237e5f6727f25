//! ARP for IPv4 on Ethernet (RFC 826, RFC 5227). The agent answers it in place of the network (VL2, section 4.2.1).
//!
//! ```text
//!   0 hardware 1 | 2 protocol 0x0800 | 4 lengths 6, 4 | 6 operation | 8 sender MAC | 14 sender IP | 18 target MAC | 24 target IP | 28
//! ```

use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::{PacketError, array, u16_at};

/// Bytes of a packet.
pub const LENGTH: usize = 28;

/// A packet of the right form, from its first byte; a frame may have padding after it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; LENGTH]);

impl<'a> Packet<'a> {
    /// Checks length, kinds and operation.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let bytes = bytes.first_chunk::<LENGTH>().ok_or(PacketError::Truncated)?;
        if bytes[..6] != FIXED {
            return Err(PacketError::Kind("ARP for IPv4 on Ethernet"));
        }
        match u16_at(bytes, 6) {
            1 | 2 => Ok(Self(bytes)),
            _ => Err(PacketError::Field("ARP operation")),
        }
    }

    /// Who asks, or answers.
    pub fn sender(&self) -> (MacAddr, Ipv4Addr) {
        (MacAddr(array(self.0, 8).unwrap_or_default()), array::<4>(self.0, 14).unwrap_or_default().into())
    }

    /// Who is asked for, or answered.
    pub fn target(&self) -> (MacAddr, Ipv4Addr) {
        (MacAddr(array(self.0, 18).unwrap_or_default()), array::<4>(self.0, 24).unwrap_or_default().into())
    }

    /// Whether it asks.
    pub const fn is_request(&self) -> bool {
        self.0[7] == 1
    }
}

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it asks.
    pub is_request: bool,
    /// Who asks, or answers; the address 0.0.0.0 in a probe (RFC 5227).
    pub sender: (MacAddr, Ipv4Addr),
    /// Who is asked for, or answered.
    pub target: (MacAddr, Ipv4Addr),
}

impl Arp {
    /// Reads a packet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let packet = Packet::new(bytes)?;
        Ok(Self { is_request: packet.is_request(), sender: packet.sender(), target: packet.target() })
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

    /// The answer that says that `mac` has the address asked for. None to what must not be answered: replies, probes, and announcements of
    /// one's own address.
    pub fn answer(&self, mac: MacAddr) -> Option<Self> {
        let (_, asked) = self.target;
        let is_asked = self.is_request && !self.sender.1.is_unspecified() && self.sender.1 != asked;
        is_asked.then_some(Self { is_request: false, sender: (mac, asked), target: self.sender })
    }
}

const FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];
