//! Address prefixes, of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A prefix; bits after it are 0. Text form `20.0.0.0/8`, `fd20::/64`; an address alone is a prefix of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// The text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not of the form.
    #[error("`{0}` is not a prefix: write an address, `/` and a length, 20.0.0.0/8")]
    Form(String),
    /// Bits are set that are not the prefix's.
    #[error("`{given}` has bits after the prefix: write {right}")]
    Bits {
        /// As written.
        given: String,
        /// What it may mean.
        right: Prefix,
    },
}

impl Prefix {
    /// The prefix of so many bits that an address lies in; None if the family has not so many.
    pub fn of(address: IpAddr, length: u8) -> Option<Self> {
        let masked = match address {
            IpAddr::V4(it) if length <= 32 => IpAddr::from((it.to_bits() & mask(length, 32) as u32).to_be_bytes()),
            IpAddr::V6(it) if length <= 128 => IpAddr::from((it.to_bits() & mask(length, 128)).to_be_bytes()),
            _ => return None,
        };
        Some(Self { address: masked, length })
    }

    /// Its first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Its bits.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Self::of(address, self.length) == Some(*self)
    }

    /// Whether two prefixes have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// The last address of an IPv4 prefix: its broadcast address.
    pub const fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(it) if self.length <= 30 => Some(Ipv4Addr::from_bits(it.to_bits() | !(mask(self.length, 32) as u32))),
            _ => None,
        }
    }

    /// The IPv4 address whose first bits are the prefix's and whose last bits are those of a number, as many as are left.
    pub const fn number(&self, number: u32) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(it) => Some(Ipv4Addr::from_bits(it.to_bits() | number & !(mask(self.length, 32) as u32))),
            IpAddr::V6(_) => None,
        }
    }
}

/// The first `length` of `width` bits.
const fn mask(length: u8, width: u32) -> u128 {
    if length == 0 {
        return 0;
    }
    let ones = u128::MAX << (width - length as u32);
    if width == 128 { ones } else { ones & ((1 << width) - 1) }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let form = || PrefixError::Form(text.to_owned());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(whole), |length| length.parse().map_err(|_| form()))?;
        let prefix = Self::of(address, length).ok_or_else(form)?;
        if prefix.address == address {
            return Ok(prefix);
        }
        Err(PrefixError::Bits { given: text.to_owned(), right: prefix })
    }
}

impl<'de> serde::Deserialize<'de> for Prefix {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_they_should() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let eight = prefix("20.0.0.0/8");
        assert!(eight.contains(ip("20.255.1.2")) && !eight.contains(ip("21.0.0.0")) && !eight.contains(ip("::1400:0")));
        assert!(prefix("fd20::/64").contains(ip("fd20::9")) && !prefix("fd20::/64").contains(ip("fd20:0:0:1::9")));
        assert!(prefix("0.0.0.0/0").contains(ip("1.2.3.4")) && prefix("::/0").contains(ip("::1")));
        assert_eq!(eight.broadcast(), Some(Ipv4Addr::new(20, 255, 255, 255)));
        assert_eq!(prefix("239.1.0.0/16").number(0x0003_0102), Some(Ipv4Addr::new(239, 1, 1, 2)));
        assert_eq!(prefix("10.0.0.1").length(), 32);
        assert!(
            eight.overlaps(&prefix("20.1.0.0/16"))
                && prefix("20.1.0.0/16").overlaps(&eight)
                && !eight.overlaps(&prefix("10.0.0.0/8"))
        );
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in ["", "20.0.0.0/33", "20.0.0.1/8", "fd20::1/64", "a/8", "20.0.0.0/", "::/129"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        assert_eq!(
            "20.0.0.5/8".parse::<Prefix>().unwrap_err().to_string(),
            "`20.0.0.5/8` has bits after the prefix: write 20.0.0.0/8"
        );
    }
}
