//! Packets that the VL2 agent reads and makes (VL2, section 4.2). Each format has a view, which is checked once and never panics after, and a
//! plain value, which holds legal values only.
//!
//! ```text
//!   [Ethernet][IPv4 entropy -> A][IPv4 entropy -> T][inner IPv4 or IPv6]      ipip    A: anycast address, T: locator
//!   [Ethernet][ARP]                                                          arp
//!   [Ethernet][IPv6][ICMPv6 NS, NA]                                          ndp
//!   [IPv4][ICMP error][the packet that it is about]                          icmp
//!   [UDP 5304][attach, tagged]                                               attach
//! ```

pub mod arp;
pub mod attach;
pub mod ethernet;
pub mod icmp;
pub mod ip;
pub mod ipip;
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
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
}

/// The next `N` bytes at an offset.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], PacketError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(PacketError::Truncated)
}

/// Two bytes of a view that was checked to have them.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
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
