//! The directory's protocol, version 1; `docs/protocol-directory.md` specifies it to the byte.
//!
//! ```text
//!    0        2     3     4            8                16               24                      n-16          n
//!   +--------+-----+-----+------------+----------------+----------------+---- - - - ------------+-------------+
//!   |  "WD"  | ver | type| principal  |     cookie     |    request     |          body         |     tag     |
//!   +--------+-----+-----+------------+----------------+----------------+---- - - - ------------+-------------+
//! ```
//! One layout for datagrams and for the frames of a stream (which put the length, u16, before each). The tag is made and checked by
//! [`auth`](crate::directory::auth); this module only splits it off. Integers are big-endian.

mod agents;
mod documents;
mod fields;
mod follow;
mod lookups;
mod messages;
mod parts;
mod servers;
mod streams;
mod tenants;
mod updates;

pub use agents::{Changes, Correction, Misdelivered, Sync, Withdrawal};
pub use documents::{
    DOCUMENT_PART, DocumentPart, Fetch, FetchOutcome, MAX_DOCUMENT, MAX_DOCUMENT_NAME, Publish, PublishOutcome, Published,
    is_document_name,
};
pub use fields::{
    Reader, WireError, emit_key, emit_locator, emit_mapping, emit_optional_key, emit_record, emit_value, parse_key, parse_record,
};
pub use follow::{Follow, WithdrawnPage};
pub use lookups::{Answer, AnswerWriter, Finding, Lookup, Results};
pub use messages::Message;
pub use parts::{MAX_MAP, Parts, PartsPage, PartsRead, PartsReader, emit_map, parse_map};
pub use servers::{Commit, Commits, Digest, State, Vitals};
pub use streams::{Change, Entry, Watch};
pub use tenants::{
    Amend, AmendOp, AmendOutcome, Amended, Browse, MAX_AMEND, Notice, RecordState, Records, RecordsState, Subscribe, Wanted,
};
pub use updates::{Acknowledgement, MAX_OPS, Op, Outcome, Update};

use crate::directory::key::PrincipalId;

pub use super::versions::{VERSION, Versions};

impl Versions {
    /// A server's cookie for a client that speaks this version: its second bit says so, so that the server knows wherever it has the cookie. Never 0.
    pub const fn mark(self, cookie: u64, version: u8) -> u64 {
        let cookie = if cookie >> 2 == 0 { cookie | 4 } else { cookie };
        if version < self.newest() { cookie | OLDER } else { cookie & !OLDER }
    }

    /// The version of the client to whom the server gave this cookie.
    pub const fn of_cookie(self, cookie: u64) -> u8 {
        if cookie & OLDER == 0 { self.newest() } else { self.oldest() }
    }
}

const OLDER: u64 = 2;
/// Bytes before the body.
pub const HEADER: usize = 24;
/// Bytes after it.
pub const TAG: usize = 16;
/// Bytes of a datagram at most: they fit every underlay with room for tunnels.
pub const MAX_DATAGRAM: usize = 1400;
/// Bytes of a stream's frame at most, its length field not counted.
pub const MAX_FRAME: usize = 65_535;
/// Keys that one lookup asks for at most.
pub const MAX_KEYS: usize = 32;
/// No datagram is answered by one more than this many times as long, and one whose sender has not shown that it can receive at its
/// address by none longer than itself: reflecting gains nothing.
pub const MAX_FACTOR: usize = 8;

/// What every message begins with.
pub const MAGIC: [u8; 2] = *b"WD";

/// What kind of message it is. Answers have the high bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // each is documented at the message of its name
pub enum Kind {
    Lookup = 0x01,
    Update = 0x02,
    Sync = 0x03,
    Health = 0x04,
    Misdelivered = 0x05,
    Commits = 0x06,
    Digest = 0x07,
    Follow = 0x08,
    Parts = 0x09,
    List = 0x10,
    Watch = 0x11,
    Status = 0x12,
    Fetch = 0x13,
    Publish = 0x14,
    Subscribe = 0x15,
    Browse = 0x16,
    Amend = 0x17,
    Challenge = 0x80,
    Answer = 0x81,
    Acknowledgement = 0x82,
    Changes = 0x83,
    Vitals = 0x84,
    Correction = 0x85,
    DigestAnswer = 0x87,
    Withdrawn = 0x88,
    PartsPage = 0x89,
    Page = 0x90,
    Events = 0x91,
    StatusText = 0x92,
    Document = 0x93,
    Published = 0x94,
    Records = 0x95,
    Amended = 0x97,
    Notice = 0x98,
    Unsupported = 0xff,
}

impl Kind {
    const ALL: [Self; 35] = [
        Self::Lookup,
        Self::Update,
        Self::Sync,
        Self::Health,
        Self::Misdelivered,
        Self::Commits,
        Self::Digest,
        Self::Follow,
        Self::Parts,
        Self::List,
        Self::Watch,
        Self::Status,
        Self::Fetch,
        Self::Publish,
        Self::Subscribe,
        Self::Browse,
        Self::Amend,
        Self::Challenge,
        Self::Answer,
        Self::Acknowledgement,
        Self::Changes,
        Self::Vitals,
        Self::Correction,
        Self::DigestAnswer,
        Self::Withdrawn,
        Self::PartsPage,
        Self::Page,
        Self::Events,
        Self::StatusText,
        Self::Document,
        Self::Published,
        Self::Records,
        Self::Amended,
        Self::Notice,
        Self::Unsupported,
    ];

    fn of(byte: u8) -> Result<Self, WireError> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte).ok_or(WireError::Type(byte))
    }

    /// Whether it goes from a server to a client.
    pub const fn is_answer(self) -> bool {
        self as u8 & 0x80 != 0
    }
}

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the body is.
    pub kind: Kind,
    /// The client, in both directions: its key makes the tag.
    pub principal: PrincipalId,
    /// In a request: what the server gave this client at this address, 0 if nothing yet. In an answer: what to send from now on.
    pub cookie: u64,
    /// In a request: greater than in every earlier request of this client under this cookie. In an answer: the request's. A server's own
    /// messages (corrections, events) have 0.
    pub request: u64,
}

/// A message taken apart, its tag not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The version of the sender.
    pub version: u8,
    /// The fields before the body.
    pub header: Header,
    /// The bytes that the tag covers: header and body.
    pub covered: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// The tag.
    pub tag: &'a [u8; TAG],
}

impl<'a> Frame<'a> {
    /// Splits a datagram, or a stream's frame, of a version of this program.
    ///
    /// # Errors
    /// [`WireError`] if it is no such message.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        Self::parse_as(Versions::OURS, bytes)
    }

    /// The same for a program that speaks these versions.
    ///
    /// # Errors
    /// [`WireError`] if it is no message of them.
    #[inline]
    pub fn parse_as(versions: Versions, bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        if reader.array::<2>()? != MAGIC {
            return Err(WireError::Magic);
        }
        let version = reader.u8()?;
        if !versions.has(version) {
            return Err(WireError::Version(version));
        }
        let kind = Kind::of(reader.u8()?)?;
        let header = Header { kind, principal: PrincipalId(reader.u32()?), cookie: reader.u64()?, request: reader.u64()? };
        let (covered, tag) = bytes.split_last_chunk::<TAG>().ok_or(WireError::Truncated)?;
        let body = covered.get(HEADER..).ok_or(WireError::Truncated)?;
        Ok(Self { version, header, covered, body, tag })
    }
}

/// A request of a version of the protocol that is not spoken. The header, the tag and the type `ff` are the same in all versions, so that each can say that it does not
/// know another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// Its version.
    pub version: u8,
    /// The header of the answer to it.
    pub answer: Header,
    /// The bytes that the tag covers.
    pub covered: &'a [u8],
    /// The tag.
    pub tag: &'a [u8; TAG],
}

impl<'a> Foreign<'a> {
    /// Splits a message of a version that is none of these; `None` if it is none, or an answer, to which there is no answer.
    pub fn parse(versions: Versions, bytes: &'a [u8]) -> Option<Self> {
        let (covered, tag) = bytes.split_last_chunk::<TAG>()?;
        let mut reader = Reader(covered.get(..HEADER)?);
        let (magic, version, kind) = (reader.array::<2>().ok()?, reader.u8().ok()?, reader.u8().ok()?);
        if magic != MAGIC || versions.has(version) || kind & 0x80 != 0 {
            return None;
        }
        let (principal, cookie, request) = (PrincipalId(reader.u32().ok()?), reader.u64().ok()?, reader.u64().ok()?);
        Some(Self { version, answer: Header { kind: Kind::Unsupported, principal, cookie, request }, covered, tag })
    }
}

impl Header {
    /// Appends the header of a message of this program's newest version; the body and the tag follow.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(VERSION, out);
    }

    /// The same of a message of another version.
    #[inline]
    pub fn emit_as(&self, version: u8, out: &mut Vec<u8>) {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = version;
        bytes[3] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.principal.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.request.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// Gives a message, of which the tag is not made yet, another version.
pub fn set_version(message: &mut [u8], version: u8) {
    if let Some(byte) = message.get_mut(MAGIC.len()) {
        *byte = version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_versions_understand_each_other_and_a_cookie_says_which_it_is() {
        assert!(Versions::OURS.has(VERSION) && Versions::NEXT.has(VERSION) && Versions::NEXT.has(VERSION + 1));
        assert!(!Versions::OURS.has(VERSION + 1) && !Versions::NEXT.has(VERSION + 2) && !Versions::OURS.has(0));
        for cookie in (0..16).chain([u64::MAX - 3, u64::MAX]) {
            for version in [VERSION, VERSION + 1] {
                let marked = Versions::NEXT.mark(cookie, version);
                assert_eq!((Versions::NEXT.of_cookie(marked), marked & 1), (version, cookie & 1), "{cookie}");
                assert!(marked > 1);
            }
            assert_eq!(Versions::OURS.of_cookie(Versions::OURS.mark(cookie, VERSION)), VERSION);
        }
    }
}
