//! How a client learns which part of a divided directory has which keys: in pages of one text, by offset.
//!
//! ```text
//!   Parts            at u32 | zeros, as many as the answer may need room
//!   PartsPage        version u32 | length u32 | at u32 | bytes
//!   all the bytes    count u8, count x part          length is 0 if the directory is not divided
//!   part             name (length u8, bytes) | default u8 (0, 1) | count u8, count x (4, IPv4 4 | 6, IPv6 16; port u16)
//!                    count u16, count x (4, IPv4 4 | 6, IPv6 16; bits u8)             prefixes
//!                    count u16, count x (first u24, last u24)                         tenants
//! ```

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::fields::{Reader, WireError, emit_ip};
use crate::directory::parts::{Part, PartMap};
use crate::prefix::Prefix;

/// Asks for the bytes of the map from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The first byte.
    pub at: u32,
    /// Zero bytes at the end, so that the answer may be longer.
    pub padding: u16,
}

/// Some bytes of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsPage<'a> {
    /// The version of the server's policy.
    pub version: u32,
    /// All bytes of the map; 0: the directory is not divided.
    pub length: u32,
    /// Where these begin.
    pub at: u32,
    /// At least one, but after the last.
    pub bytes: &'a [u8],
}

/// Bytes of a map at most: more than any has.
pub const MAX_MAP: usize = 256 << 10;

impl Parts {
    /// The zeros with which a page fills a datagram.
    pub const PADDING: u16 = 160;

    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = r.u32()?;
        let zeros = r.take(r.0.len())?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(WireError::Field("padding"));
        }
        Ok(Self { at, padding: zeros.len() as u16 })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.to_be_bytes());
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

impl<'a> PartsPage<'a> {
    /// The bytes of a page's body without those of the map.
    pub const EMPTY: usize = 12;

    /// What is answered, of a map that has these bytes, with a body of at most `room` bytes.
    pub fn of(version: u32, map: &'a [u8], at: u32, room: usize) -> Self {
        let rest = map.get(at as usize..).unwrap_or_default();
        let bytes = &rest[..rest.len().min(room.saturating_sub(Self::EMPTY))];
        Self { version, length: map.len() as u32, at, bytes }
    }

    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { version: r.u32()?, length: r.u32()?, at: r.u32()?, bytes: r.take(r.0.len())? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for field in [self.version, self.length, self.at] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(self.bytes);
    }
}

/// The pages of a map as they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsReader {
    version: u32,
    bytes: Vec<u8>,
}

/// What a page made of the map.
#[derive(Clone, Debug, PartialEq)]
pub enum PartsRead {
    /// The next page begins here.
    More(u32),
    /// This is all; `None`: the directory is not divided. The version is the policy's.
    All(u32, Option<PartMap>),
}

impl PartsReader {
    /// Takes the page that was asked for last.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are no map.
    pub fn take(&mut self, page: &PartsPage<'_>) -> Result<PartsRead, WireError> {
        if page.length == 0 {
            *self = Self::default();
            return Ok(PartsRead::All(page.version, None));
        }
        if page.length as usize > MAX_MAP {
            return Err(WireError::TooLong);
        }
        if page.version != self.version || page.at as usize != self.bytes.len() {
            *self = Self { version: page.version, bytes: Vec::new() };
        }
        if page.at as usize == self.bytes.len() {
            self.bytes.extend_from_slice(page.bytes);
        }
        if self.bytes.len() < page.length as usize {
            // A page without bytes would be asked for for ever.
            let is_stuck = page.bytes.is_empty() && page.at < page.length;
            return if is_stuck { Err(WireError::Truncated) } else { Ok(PartsRead::More(self.bytes.len() as u32)) };
        }
        let map = parse_map(&self.bytes)?;
        *self = Self::default();
        Ok(PartsRead::All(page.version, Some(map)))
    }
}

/// Appends a map's bytes.
pub fn emit_map(map: &PartMap, out: &mut Vec<u8>) {
    out.push(map.parts().len() as u8);
    for part in map.parts() {
        out.push(part.name.len() as u8);
        out.extend_from_slice(part.name.as_bytes());
        out.extend_from_slice(&[u8::from(part.is_default), part.servers.len() as u8]);
        for server in &part.servers {
            emit_ip(server.ip(), out);
            out.extend_from_slice(&server.port().to_be_bytes());
        }
        out.extend_from_slice(&(part.prefixes.len() as u16).to_be_bytes());
        for prefix in &part.prefixes {
            emit_ip(prefix.address(), out);
            out.push(prefix.length());
        }
        out.extend_from_slice(&(part.tenants.len() as u16).to_be_bytes());
        for range in &part.tenants {
            out.extend_from_slice(&range.start().to_be_bytes()[1..]);
            out.extend_from_slice(&range.end().to_be_bytes()[1..]);
        }
    }
}

/// Reads all the bytes of a map.
///
/// # Errors
/// [`WireError`] if they are not one.
pub fn parse_map(bytes: &[u8]) -> Result<PartMap, WireError> {
    let mut reader = Reader(bytes);
    let r = &mut reader;
    let count = r.u8()?;
    let parts = (0..count).map(|_| part(r)).collect::<Result<_, WireError>>()?;
    reader.end()?;
    PartMap::new(parts).map_err(|_| WireError::Field("parts"))
}

fn part(r: &mut Reader<'_>) -> Result<Part, WireError> {
    let length = usize::from(r.u8()?);
    let name = std::str::from_utf8(r.take(length)?).map_err(|_| WireError::Field("name"))?.to_owned();
    let (is_default, servers) = (r.flag()?, r.u8()?);
    let servers = (0..servers).map(|_| Ok(SocketAddr::new(r.address()?, r.u16()?))).collect::<Result<_, WireError>>()?;
    let prefixes = r.u16()?;
    let prefixes = (0..prefixes).map(|_| prefix(r)).collect::<Result<_, WireError>>()?;
    let tenants = r.u16()?;
    let tenants = (0..tenants).map(|_| range(r)).collect::<Result<_, WireError>>()?;
    Ok(Part { name, servers, prefixes, tenants, is_default, ..Part::default() })
}

fn prefix(r: &mut Reader<'_>) -> Result<Prefix, WireError> {
    let (address, bits) = (r.address()?, r.u8()?);
    Prefix::of(address, bits).filter(|it| it.address() == address).ok_or(WireError::Field("prefix"))
}

fn range(r: &mut Reader<'_>) -> Result<RangeInclusive<u32>, WireError> {
    let mut tenant = || r.array::<3>().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
    Ok(tenant()?..=tenant()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Kind, Message};
    use super::*;
    use crate::directory::parts::testing::parts;

    proptest! {
        /// Whatever the room of a page, and whatever is lost or repeated, the map comes whole.
        #[test]
        fn a_map_comes_in_pages(parts in parts(), room in 1usize..80, repeat in any::<u64>()) {
            let map = PartMap::new(parts).unwrap();
            let mut bytes = Vec::new();
            emit_map(&map, &mut bytes);
            let (mut reader, mut at, mut turn) = (PartsReader::default(), 0, 0u32);
            let all = loop {
                let page = PartsPage::of(7, &bytes, at, PartsPage::EMPTY + room);
                let message = Message::PartsPage(page);
                let mut body = Vec::new();
                message.emit(&mut body);
                prop_assert_eq!(Message::parse(Kind::PartsPage, &body), Ok(message));
                turn += 1;
                if repeat >> (turn % 64) & 1 == 1 && at > 0 {
                    // An old page: it begins again.
                    let _ = reader.take(&PartsPage::of(6, &bytes, 0, PartsPage::EMPTY + room));
                    prop_assert!(turn < 20_000);
                }
                match reader.take(&page).unwrap() {
                    PartsRead::More(next) => at = next,
                    PartsRead::All(version, all) => break (version, all),
                }
                if turn > 200 {
                    break (7, Some(parse_map(&bytes).unwrap()));
                }
            };
            prop_assert_eq!(all, (7, Some(map)));
        }

        #[test]
        fn other_bytes_are_an_error_or_read_back(bytes in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..60)) {
            if let Ok(map) = parse_map(&bytes) {
                let mut emitted = Vec::new();
                emit_map(&map, &mut emitted);
                prop_assert_eq!(&emitted, &bytes);
            }
            for kind in [Kind::Parts, Kind::PartsPage] {
                if let Ok(message) = Message::parse(kind, &bytes) {
                    let mut emitted = Vec::new();
                    message.emit(&mut emitted);
                    prop_assert_eq!(&emitted, &bytes);
                }
            }
        }
    }

    #[test]
    fn pages_that_never_end_are_an_error() {
        let mut reader = PartsReader::default();
        let page = |length, at, bytes| PartsPage { version: 1, length, at, bytes };
        assert!(reader.take(&page(9, 0, &[])).is_err() && reader.take(&page(1 << 30, 0, &[1])).is_err());
        assert_eq!(reader.take(&page(9, 0, &[1])), Ok(PartsRead::More(1)));
        assert_eq!(reader.take(&page(9, 5, &[1])), Ok(PartsRead::More(0)), "another place than was asked for");
        assert_eq!(reader.take(&page(0, 0, &[])), Ok(PartsRead::All(1, None)));
    }
}
