//! Keys and values of maps: the types that the programs have for them, and their bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A type of the programs, as a map or the ring buffer holds it.
///
/// # Safety
/// No byte of it is padding, and any bytes are a value of it.
pub(crate) unsafe trait Plain: Copy + Default {
    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: none of so many bytes is padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value that bytes begin with, and the rest of them; none if they are too few.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(size_of::<Self>())?;
        // SAFETY: so many bytes are there, and any are a value.
        Some((unsafe { head.as_ptr().cast::<Self>().read_unaligned() }, rest))
    }
}

/// Says of generated types that they are [`Plain`]: libbpf-cargo makes all padding a field.
macro_rules! plain {
    ($($name:ty),+ $(,)?) => { $(
        // SAFETY: integers, and arrays and structures of them, with all padding named.
        unsafe impl $crate::dataplane::bytes::Plain for $name {}
    )+ };
}
pub(crate) use plain;

plain!(u8, u32, u64, [u8; 16]);

/// An address as the programs hold it: 16 bytes, IPv4 mapped.
pub(crate) fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The reverse.
pub(crate) fn read_address(bytes: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(bytes);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

/// An IPv4 address in network order.
pub(crate) const fn be(ip: Ipv4Addr) -> u32 {
    ip.to_bits().to_be()
}

/// The reverse.
pub(crate) const fn read_be(word: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be(word))
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
