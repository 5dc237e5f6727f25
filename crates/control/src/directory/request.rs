//! A request whose sender is known: verified by a [`Front`](super::front::Front) or by the stream that it came on.

use std::net::SocketAddr;

use super::key::{Generation, Key, PrincipalId};
use super::policy::Policy;
use crate::wire::directory::{Commits, Digest, Follow, Kind, Message, Misdelivered, Parts, Sync, Update, WireError};

/// Names a stream; the caller gives the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// To whom the reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// By a datagram with this cookie (in a message of another server to us: the cookie that it gave) and request number.
    Datagram {
        /// The client's address.
        at: SocketAddr,
        /// The cookie in the header.
        cookie: u64,
        /// The request's number.
        request: u64,
    },
    /// On a stream.
    Stream {
        /// The stream.
        stream: StreamId,
        /// The request's number.
        request: u64,
    },
}

/// A verified request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// To whom the reply goes.
    pub client: Client,
    /// Who asks.
    pub principal: PrincipalId,
    /// What.
    pub ask: Ask,
}

/// What is asked: the messages that a server gets, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// The body of a lookup that parses.
    Lookup(Vec<u8>),
    /// Change these keys.
    Update(Update),
    /// What was withdrawn?
    Sync(Sync),
    /// What was withdrawn of these keys?
    Follow(Follow),
    /// Which part has which keys?
    Parts(Parts),
    /// Are you well?
    Health,
    /// A packet came to where its destination is not.
    Misdelivered(Misdelivered),
    /// From another server: what it committed.
    Commits(Commits),
    /// From another server: what it holds.
    Digest(Digest),
    /// From another server, to our digest.
    DigestAnswer(Digest),
    /// From another server: ask again with the cookie in the header.
    Challenge,
    /// From another server: it does not speak our newest version.
    Unsupported,
    /// From a server of another part of the directory: the whole datagram, whose tag is right.
    OfPart(Vec<u8>),
    /// Stream only: the entries in order of keys, after this one.
    List {
        /// The key before the first.
        after: Option<Key>,
        /// Entries at most.
        limit: u16,
    },
    /// Stream only: what changes after this revision.
    Watch(Generation),
    /// Stream only: all counters.
    Status,
}

impl Ask {
    /// Reads a message's body.
    ///
    /// # Errors
    /// [`WireError`] if it is not one, or none that a server gets.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<Self, WireError> {
        Ok(match Message::parse(kind, body)? {
            Message::Lookup(_) => Self::Lookup(body.to_vec()),
            Message::Update(it) => Self::Update(it),
            Message::Sync(it) => Self::Sync(it),
            Message::Follow(it) => Self::Follow(it),
            Message::Parts(it) => Self::Parts(it),
            Message::Health => Self::Health,
            Message::Misdelivered(it) => Self::Misdelivered(it),
            Message::Commits(it) => Self::Commits(it),
            Message::Digest(it) => Self::Digest(it),
            Message::DigestAnswer(it) => Self::DigestAnswer(it),
            Message::Challenge => Self::Challenge,
            Message::Unsupported => Self::Unsupported,
            Message::List { after, limit } => Self::List { after, limit },
            Message::Watch(it) => Self::Watch(it.from),
            Message::Status => Self::Status,
            other => return Err(WireError::Type(other.kind() as u8)),
        })
    }

    /// Whether a principal may send this at all. What an update changes and whom a lookup may see is looked at later, key by key.
    pub fn permitted(&self, policy: &Policy, principal: PrincipalId) -> bool {
        match self {
            Self::Lookup(_) | Self::Update(_) | Self::Sync(_) | Self::Follow(_) | Self::Parts(_) | Self::Health => true,
            Self::Misdelivered(_) => policy.may_report(principal),
            Self::OfPart(_)
            | Self::Commits(_)
            | Self::Digest(_)
            | Self::DigestAnswer(_)
            | Self::Challenge
            | Self::Unsupported => policy.is_server(principal),
            Self::List { .. } | Self::Watch(_) | Self::Status => policy.may_list(principal),
        }
    }
}
