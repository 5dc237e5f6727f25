//! Ethernet II.

use weft_fabric::MacAddr;

use super::{PacketError, array, u16_at};

/// Bytes of a header.
pub const HEADER: usize = 14;
/// What an EtherType says.
pub const IPV4: u16 = 0x0800;
/// ARP.
pub const ARP: u16 = 0x0806;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// Everybody.
pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

/// A frame that has a whole header.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(&'a [u8]);

impl<'a> Frame<'a> {
    /// Checks that there is a header.
    ///
    /// # Errors
    /// [`PacketError::Truncated`].
    pub const fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        if bytes.len() < HEADER { Err(PacketError::Truncated) } else { Ok(Self(bytes)) }
    }

    /// The header's fields.
    pub fn header(&self) -> Header {
        let mac = |at| MacAddr(array(self.0, at).unwrap_or_default());
        Header { destination: mac(0), source: mac(6), kind: u16_at(self.0, 12) }
    }

    /// What the frame carries.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// To whom.
    pub destination: MacAddr,
    /// From whom.
    pub source: MacAddr,
    /// The EtherType.
    pub kind: u16,
}

impl Header {
    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.destination.0);
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.kind.to_be_bytes());
    }
}
