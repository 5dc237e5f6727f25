//! DHCP's messages (RFC 2131, section 2), as far as those who read one field of them and those who carry any alike must look.
//!
//! ```text
//!   0    1    2    3    4          8      10     12        16     20      24       28          44      108    236      240
//!   +----+----+----+----+----------+------+------+---------+------+-------+--------+-----------+-------+------+--------+---------+
//!   | op |type|hlen|hops| exchange | secs | flags| client's| yours| next  | relay's| hardware  | sname | file | cookie | options |
//!   +----+----+----+----+----------+------+------+---------+------+-------+--------+-----------+-------+------+--------+---------+
//! ```
//! Options: code 1, length 1, value; code 0 stands alone, and 255 is the last.

use super::PacketError;

/// UDP's port of servers and relays.
pub const SERVER_PORT: u16 = 67;
/// UDP's port of clients.
pub const CLIENT_PORT: u16 = 68;
/// `op` of what clients say.
pub const BOOT_REQUEST: u8 = 1;
/// `op` of what servers say.
pub const BOOT_REPLY: u8 = 2;
/// Where the cookie is.
pub const COOKIE_AT: usize = 236;
/// It.
pub const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Where options begin.
pub const OPTIONS_AT: usize = 240;
/// An option of no length.
pub const PAD: u8 = 0;
/// The last option, of no length.
pub const END: u8 = 255;
/// RFC 1542, section 2.1: some drop what is shorter.
pub const MESSAGE_LEAST: usize = 300;

/// A message's fixed part, and its options.
///
/// # Errors
/// [`PacketError`] without a cookie.
pub fn split(message: &[u8]) -> Result<(&[u8; OPTIONS_AT], &[u8]), PacketError> {
    let (fixed, options) = message.split_first_chunk().ok_or(PacketError::Truncated)?;
    if fixed[COOKIE_AT..] == COOKIE { Ok((fixed, options)) } else { Err(PacketError::Field("DHCP cookie")) }
}

/// Options in their order, up to the end; an error is the last.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Those of a field.
    pub const fn of(field: &'a [u8]) -> Self {
        Self(field)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u8, &'a [u8]), PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [PAD, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (code, rest) = match self.0 {
            [] | [END, ..] => return None,
            [code, rest @ ..] => (*code, rest),
        };
        let cut = rest.split_first().and_then(|(&length, rest)| rest.split_at_checked(usize::from(length)));
        self.0 = cut.map_or(&[], |(_, rest)| rest);
        Some(cut.map(|(value, _)| (code, value)).ok_or(PacketError::Truncated))
    }
}

/// The first option of a code; none if there is none.
///
/// # Errors
/// [`PacketError::Truncated`] if one before it has no end.
pub fn option(field: &[u8], wanted: u8) -> Result<Option<&[u8]>, PacketError> {
    let found = Options::of(field).find(|it| !matches!(it, Ok((code, _)) if *code != wanted));
    found.transpose().map(|it| it.map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_odd_lengths() {
        assert_eq!(option(&[0, 0, 53, 1, 2, 255], 53), Ok(Some(&[2][..])));
        // Others' may have any length, and what follows the end is none.
        assert_eq!(option(&[152, 0, 153, 2, 1, 1, 53, 1, 5], 53), Ok(Some(&[5][..])));
        assert_eq!(option(&[255, 53, 1, 5], 53), Ok(None));
        for cut in [&[53][..], &[53, 2, 5], &[12, 200, 53, 1, 5]] {
            assert_eq!(option(cut, 53), Err(PacketError::Truncated));
            assert_eq!(Options::of(cut).collect::<Vec<_>>(), [Err(PacketError::Truncated)]);
        }
    }

    #[test]
    fn what_has_no_cookie_is_no_message() {
        let mut bytes = [0; OPTIONS_AT + 1];
        assert_eq!(split(&bytes), Err(PacketError::Field("DHCP cookie")));
        bytes[COOKIE_AT..OPTIONS_AT].copy_from_slice(&COOKIE);
        assert_eq!(split(&bytes).map(|(_, options)| options), Ok(&[0][..]));
        assert_eq!(split(&bytes[..OPTIONS_AT - 1]), Err(PacketError::Truncated));
    }
}
