//! MAC addresses.

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address; text form `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

/// The text is not six pairs of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address: write six pairs of hexadecimal digits, 02:00:00:00:00:01")]
pub struct MacError(String);

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(|| MacError(text.to_owned()))?;
        }
        if parts.next().is_some() {
            return Err(MacError(text.to_owned()));
        }
        Ok(Self(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back_and_nonsense_is_refused() {
        let mac: MacAddr = "02:00:5e:00:00:ff".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:00:00:ff");
        for text in ["", "02:00:5e:00:00", "02:00:5e:00:00:ff:01", "2:0:5e:0:0:ff", "02:00:5e:00:00:+f"] {
            assert!(text.parse::<MacAddr>().is_err(), "{text}");
        }
    }
}
