//! Address prefixes, of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// A prefix; bits after it are 0. Text form `20.0.0.0/8`, `fd20::/64`; an address alone is a prefix of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

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
        IpNet::new(address, length).ok().map(|net| Self(net.trunc()))
    }

    /// As the type of the standard crate for these.
    pub const fn net(&self) -> IpNet {
        self.0
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.0.addr()
    }

    /// Its bits.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether two prefixes have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address()) || other.contains(self.address())
    }

    /// The last address of an IPv4 prefix: its broadcast address.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.0 {
            IpNet::V4(it) if it.prefix_len() <= 30 => Some(it.broadcast()),
            _ => None,
        }
    }

    /// The IPv4 address whose first bits are the prefix's and whose last bits are those of a number, as many as are left.
    pub fn number(&self, number: u32) -> Option<Ipv4Addr> {
        match self.0 {
            IpNet::V4(it) => Some(it.addr() | Ipv4Addr::from_bits(number) & it.hostmask()),
            IpNet::V6(_) => None,
        }
    }

    /// The first address behind it; None if it ends with the last of all.
    pub fn behind(&self) -> Option<IpAddr> {
        match self.0 {
            IpNet::V4(it) => it.broadcast().to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
            IpNet::V6(it) => it.broadcast().to_bits().checked_add(1).map(|bits| std::net::Ipv6Addr::from_bits(bits).into()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
        let net = text.parse().ok().or_else(alone).ok_or_else(|| PrefixError::Form(text.to_owned()))?;
        let right = Self(net.trunc());
        if right.0 == net { Ok(right) } else { Err(PrefixError::Bits { given: text.to_owned(), right }) }
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
    fn what_is_behind_a_prefix() {
        let behind = |text: &str| text.parse::<Prefix>().unwrap().behind().map(|it| it.to_string());
        assert_eq!(behind("10.0.0.0/8").as_deref(), Some("11.0.0.0"));
        assert_eq!(behind("fd00::/64").as_deref(), Some("fd00:0:0:1::"));
        assert_eq!((behind("0.0.0.0/0"), behind("255.255.255.255/32"), behind("::/0")), (None, None, None));
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
