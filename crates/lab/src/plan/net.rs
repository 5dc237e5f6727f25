//! IPv4 networks.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_fabric::addressing::Prefix;

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Net {
    /// The address; of a network its lowest.
    pub address: Ipv4Addr,
    /// Bits of the prefix.
    pub len: u8,
}

impl Net {
    /// One address.
    pub const fn host(address: Ipv4Addr) -> Self {
        Self { address, len: 32 }
    }

    /// All addresses.
    pub const DEFAULT: Self = Self { address: Ipv4Addr::UNSPECIFIED, len: 0 };

    /// Its mask.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0))
    }

    /// Whether an address is one of the network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        let differing = u64::from(u32::from(self.address) ^ u32::from(address));
        differing >> (32 - u32::from(self.len)) == 0
    }
}

impl From<Prefix> for Net {
    fn from(prefix: Prefix) -> Self {
        Self { address: Ipv4Addr::from(prefix.first.0), len: prefix.len }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl From<Net> for String {
    fn from(net: Net) -> Self {
        net.to_string()
    }
}

impl TryFrom<String> for Net {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (address, len) = text.split_once('/').unwrap_or((&text, "32"));
        match (address.parse(), len.parse()) {
            (Ok(address), Ok(len @ 0..=32)) => Ok(Self { address, len }),
            _ => Err(format!("`{text}` is not an address with a prefix")),
        }
    }
}
