//! The parts of an LLDP frame (IEEE 802.1AB, section 8).
//!
//! ```text
//!   each part: type 7, length 9 | value ...        1: chassis id, 2: port id, 3: time to live, ..., 127: an organisation's own, 0: end
//! ```

use weft_fabric::MacAddr;

use super::PacketError;

/// Where announcements are sent to: no bridge forwards this address.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// The last part.
pub const END: u8 = 0;
/// The sender; the first byte says how it is named.
pub const CHASSIS: u8 = 1;
/// The sender's port; the first byte says how it is named.
pub const PORT: u8 = 2;
/// For how many seconds the announcement holds.
pub const TTL: u8 = 3;
/// An organisation's own: its number (3 bytes), a subtype, anything.
pub const ORGANIZATION: u8 = 127;

/// Appends a part, of at most 511 bytes.
pub fn put(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    debug_assert!(value.len() <= 0x1ff);
    out.extend_from_slice(&(u16::from(kind) << 9 | value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

/// Reads the type and the value of the next part.
///
/// # Errors
/// [`PacketError::Truncated`].
pub fn take<'a>(rest: &mut &'a [u8]) -> Result<(u8, &'a [u8]), PacketError> {
    let (&[a, b], after) = rest.split_first_chunk::<2>().ok_or(PacketError::Truncated)?;
    let length = usize::from(u16::from_be_bytes([a & 1, b]));
    let (value, after) = after.split_at_checked(length).ok_or(PacketError::Truncated)?;
    *rest = after;
    Ok((a >> 1, value))
}
