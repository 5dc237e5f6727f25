//! Address prefixes: `10.0.0.0/8`, `fd00::/64`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A prefix; all bits after its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// The text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a prefix: write an address and a length, 10.0.0.0/8 or fd00::/64")]
pub struct PrefixError(String);

impl Prefix {
    /// The prefix of an address; `None` if the length is greater than the address.
    pub fn of(address: IpAddr, length: u8) -> Option<Self> {
        if length > bits(address) {
            return None;
        }
        let masked = number(address) & mask(bits(address), length);
        Some(Self { address: with_number(address, masked), length })
    }

    /// Whether an address lies in it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4() && number(ip) & mask(bits(ip), self.length) == number(self.address)
    }

    /// Whether some address lies in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Its length.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// The first address in it.
    pub const fn first(&self) -> IpAddr {
        self.address
    }

    /// The first address behind it.
    pub fn behind(&self) -> Option<IpAddr> {
        let width = bits(self.address);
        let end = number(self.address) | (mask(width, width) ^ mask(width, self.length));
        (end != mask(width, width)).then(|| with_number(self.address, end + 1))
    }
}

const fn bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

const fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits() as u128,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The address of `like`'s family with this number.
fn with_number(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::from((number as u32).to_be_bytes()),
        IpAddr::V6(_) => IpAddr::from(number.to_be_bytes()),
    }
}

/// The first `length` of the last `width` bits.
const fn mask(width: u8, length: u8) -> u128 {
    let all = u128::MAX >> (128 - width as u32);
    if length == 0 { 0 } else { all & (all << (width - length)) }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let parse = || {
            let (address, length) = text.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            Self::of(address, length.parse().ok()?).filter(|prefix| prefix.address == address)
        };
        parse().ok_or_else(|| PrefixError(text.to_owned()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}
