//! What every overlay reads of its hosts' packets and answers to them: Ethernet, ARP, IP, neighbour discovery, DHCP. Each format has a parser that never panics, and a plain
//! value or a view, which holds legal values only.

pub mod arp;
pub mod dhcp;
pub mod ethernet;
pub mod ip;
pub mod lldp;
pub mod ndp;
#[cfg(test)]
mod tests;

/// Why bytes are not the packet that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PacketError {
    /// The bytes end before the packet does.
    #[error("truncated")]
    Truncated,
    /// Another kind of packet.
    #[error("not {0}")]
    Kind(&'static str),
    /// A field has a value that it cannot have.
    #[error("bad {0}")]
    Field(&'static str),
    /// Of another version of the format.
    #[error("version {0}")]
    Version(u8),
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
}

/// The next `N` bytes at an offset.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], PacketError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(PacketError::Truncated)
}

/// Two bytes of a view that was checked to have them.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The Internet checksum of bytes, begun with `sum` (RFC 1071). Right bytes that hold their checksum give 0.
pub fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let mut sum = u64::from(sum);
    let mut pairs = bytes.chunks_exact(2);
    for pair in &mut pairs {
        sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [last] = pairs.remainder() {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
