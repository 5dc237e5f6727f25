//! Named documents, such as the tenants' file: published and fetched as a whole, in parts, over streams only.
//!
//! ```text
//!   Fetch            name | known u32 | offset u64                                        name: length u8, then a-z, 0-9 and -
//!   Document         outcome u8 | version u32 | length u64 | offset u64 | bytes
//!   Publish          name | expect u32 | version u32 | length u64 | offset u64 | bytes
//!   Published        outcome u8 | version u32
//! ```

use super::fields::{Reader, WireError};

/// Maximum number of document bytes in one message.
pub const DOCUMENT_PART: usize = 32 * 1024;
/// Maximum length of a document, in bytes.
pub const MAX_DOCUMENT: u64 = 64 << 20;
/// Maximum length of a document's name, in bytes.
pub const MAX_DOCUMENT_NAME: usize = 32;

/// Whether documents can have this name: 1 to [`MAX_DOCUMENT_NAME`] of a to z, 0 to 9 and `-`.
pub fn is_document_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_DOCUMENT_NAME).contains(&name.len()) && name.bytes().all(good)
}

/// Asks for a part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// Which document.
    pub name: &'a str,
    /// The version that the client has: of that one no bytes are sent. 0: none.
    pub known: u32,
    /// The bytes from here on.
    pub offset: u64,
}

/// The result of a [`Fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FetchOutcome {
    /// The document exists.
    Found = 0,
    /// There is no document of this name.
    Unknown = 1,
    /// The store does not answer, and this server has not read the document before.
    Elsewhere = 2,
}

/// The answer to [`Fetch`]: up to [`DOCUMENT_PART`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPart<'a> {
    /// Whether there is one.
    pub outcome: FetchOutcome,
    /// Its version; parts of different versions are of different documents.
    pub version: u32,
    /// All its bytes.
    pub length: u64,
    /// Where these begin.
    pub offset: u64,
    /// These.
    pub bytes: &'a [u8],
}

/// A part of a new version of a document. The parts are sent in order on one stream; the last one commits the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Which document.
    pub name: &'a str,
    /// The version that it must have; 0: there must be none.
    pub expect: u32,
    /// The version that it will have, greater than that.
    pub version: u32,
    /// All its bytes, at most [`MAX_DOCUMENT`].
    pub length: u64,
    /// Where these begin.
    pub offset: u64,
    /// These, at most [`DOCUMENT_PART`].
    pub bytes: &'a [u8],
}

/// The result of a [`Publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PublishOutcome {
    /// The document is durable.
    Committed = 0,
    /// The principal may not do that.
    Refused = 1,
    /// The document has another version than expected, which the answer gives.
    Conflict = 2,
    /// The store did not answer: the document may have been replaced, or not.
    Unknown = 3,
    /// Invalid: parts out of order, a version that is not greater, too long.
    Malformed = 4,
    /// This part was taken; the next one is awaited.
    More = 5,
}

/// The answer to [`Publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The result.
    pub outcome: PublishOutcome,
    /// The version that the document has now, as far as the server knows; 0: none.
    pub version: u32,
}

fn name<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let length = usize::from(r.u8()?);
    let name = std::str::from_utf8(r.take(length)?).map_err(|_| WireError::Field("name"))?;
    if is_document_name(name) { Ok(name) } else { Err(WireError::Field("name")) }
}

fn emit_name(name: &str, out: &mut Vec<u8>) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

/// The rest of a message, which is a part of a document.
fn part<'a>(r: &mut Reader<'a>, length: u64, offset: u64) -> Result<&'a [u8], WireError> {
    let bytes = r.take(r.0.len())?;
    let fits = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= length);
    if fits && bytes.len() <= DOCUMENT_PART && length <= MAX_DOCUMENT { Ok(bytes) } else { Err(WireError::Field("part")) }
}

impl<'a> Fetch<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { name: name(r)?, known: r.u32()?, offset: r.u64()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_name(self.name, out);
        out.extend_from_slice(&self.known.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
    }
}

impl<'a> DocumentPart<'a> {
    /// The answer that has no document.
    pub const fn none(outcome: FetchOutcome) -> Self {
        Self { outcome, version: 0, length: 0, offset: 0, bytes: &[] }
    }

    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let outcome = match r.u8()? {
            0 => FetchOutcome::Found,
            1 => FetchOutcome::Unknown,
            2 => FetchOutcome::Elsewhere,
            _ => return Err(WireError::Field("outcome")),
        };
        let (version, length, offset) = (r.u32()?, r.u64()?, r.u64()?);
        Ok(Self { outcome, version, length, offset, bytes: part(r, length, offset)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.outcome as u8);
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(self.bytes);
    }
}

impl<'a> Publish<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let (name, expect, version) = (name(r)?, r.u32()?, r.u32()?);
        let (length, offset) = (r.u64()?, r.u64()?);
        Ok(Self { name, expect, version, length, offset, bytes: part(r, length, offset)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        emit_name(self.name, out);
        out.extend_from_slice(&self.expect.to_be_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(self.bytes);
    }
}

impl Published {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let outcome = match r.u8()? {
            0 => PublishOutcome::Committed,
            1 => PublishOutcome::Refused,
            2 => PublishOutcome::Conflict,
            3 => PublishOutcome::Unknown,
            4 => PublishOutcome::Malformed,
            5 => PublishOutcome::More,
            _ => return Err(WireError::Field("outcome")),
        };
        Ok(Self { outcome, version: r.u32()? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.outcome as u8);
        out.extend_from_slice(&self.version.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Kind, Message};
    use super::*;

    fn reads_back(message: &Message<'_>) {
        let mut body = Vec::new();
        message.emit(&mut body);
        assert_eq!(Message::parse(message.kind(), &body).as_ref(), Ok(message));
        // Nothing that is cut short within its fixed fields is taken for a whole one.
        assert!(Message::parse(message.kind(), &body[..4.min(body.len())]).is_err());
    }

    proptest! {
        #[test]
        fn messages_read_back(
            name in "[a-z0-9-]{1,32}",
            numbers: [u32; 2],
            offset in 0u64..1 << 25,
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            rest in 0u64..1 << 20,
        ) {
            let (name, length, bytes) = (name.as_str(), offset + bytes.len() as u64 + rest, bytes.as_slice());
            let [known, version] = numbers;
            reads_back(&Message::Fetch(Fetch { name, known, offset }));
            reads_back(&Message::Document(DocumentPart { outcome: FetchOutcome::Found, version, length, offset, bytes }));
            reads_back(&Message::Publish(Publish { name, expect: known, version, length, offset, bytes }));
            reads_back(&Message::Published(Published { outcome: PublishOutcome::Conflict, version }));
        }

        #[test]
        fn nothing_panics(body in prop::collection::vec(any::<u8>(), 0..80)) {
            for kind in [Kind::Fetch, Kind::Document, Kind::Publish, Kind::Published] {
                if let Ok(message) = Message::parse(kind, &body) {
                    let mut emitted = Vec::new();
                    message.emit(&mut emitted);
                    prop_assert_eq!(&emitted, &body);
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let publish = |name, length, offset, bytes| Publish { name, expect: 0, version: 1, length, offset, bytes };
        let is_taken = |it: Publish<'_>| {
            let mut body = Vec::new();
            it.emit(&mut body);
            Message::parse(Kind::Publish, &body).is_ok()
        };
        assert!(is_taken(publish("tenants", 3, 0, b"abc")));
        assert!(!is_taken(publish("tenants", 3, 1, b"abc")), "beyond its end");
        assert!(!is_taken(publish("tenants", u64::MAX, u64::MAX, b"abc")), "beyond all numbers");
        assert!(!is_taken(publish("tenants", MAX_DOCUMENT + 1, 0, b"abc")), "too long");
        assert!(!is_taken(publish("../x", 3, 0, b"abc")), "a name with other characters");
        assert!(!is_taken(publish("", 3, 0, b"abc")), "no name");
        assert!(!is_taken(publish("a", 40_000, 0, &[0; DOCUMENT_PART + 1])), "too long a part");
    }
}
