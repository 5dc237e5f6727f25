//! Keys and values of maps as bytes: fields in order, addresses as 16 bytes.

use std::net::{IpAddr, Ipv6Addr};

/// Writes fields one after the other.
pub(crate) struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    pub const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    pub fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    pub fn number(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub fn skip(mut self, bytes: usize) -> Self {
        self.at += bytes;
        self
    }

    pub fn done(self) -> [u8; N] {
        assert_eq!(self.at, N, "a layout and its size agree");
        self.bytes
    }
}

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

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
