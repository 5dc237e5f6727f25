//! A message's body: one of the kinds whose layouts stand in the modules beside this one.

use super::Kind;
use super::agents::{Changes, Correction, Misdelivered, Sync};
use super::documents::{DocumentPart, Fetch, Publish, Published};
use super::fields::{Reader, WireError, emit_optional_key};
use super::follow::{Follow, WithdrawnPage};
use super::lookups::{Answer, Lookup};
use super::parts::{Parts, PartsPage};
use super::servers::{Commits, Digest, Vitals};
use super::streams::{Change, Entry, Watch, emit_entries, entries};
use super::tenants::{Amend, Amended, Browse, Notice, Records, Subscribe};
use super::updates::{Acknowledgement, Update};
use crate::directory::key::{Generation, Key};

/// A message's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// Where are these keys?
    Lookup(Lookup<'a>),
    /// Change these keys, all or none.
    Update(Update),
    /// What was withdrawn since?
    Sync(Sync),
    /// What was withdrawn since, of these keys?
    Follow(Follow),
    /// Which part has which keys?
    Parts(Parts),
    /// Are you well?
    Health,
    /// A ToR got a packet for somebody who is not there.
    Misdelivered(Misdelivered),
    /// Between servers: what was committed.
    Commits(Commits),
    /// Between servers: what I hold; and you?
    Digest(Digest),
    /// Stream only: the entries in order of keys.
    List {
        /// Those after this key; `None`: from the first.
        after: Option<Key>,
        /// As many as this at most.
        limit: u16,
    },
    /// Stream only: what changes from now on.
    Watch(Watch),
    /// Stream only: all counters.
    Status,
    /// Stream only: a part of a text.
    Fetch(Fetch<'a>),
    /// Stream only: a text in place of another.
    Publish(Publish<'a>),
    /// Stream only: an agent asks for tenants' records.
    Subscribe(Subscribe<'a>),
    /// Stream only: an operator asks for a page of them.
    Browse(Browse<'a>),
    /// Stream only: changes of them.
    Amend(Amend<'a>),
    /// Ask again with the cookie in this header.
    Challenge,
    /// To [`Message::Lookup`].
    Answer(Answer<'a>),
    /// To [`Message::Update`].
    Acknowledgement(Acknowledgement),
    /// To [`Message::Sync`].
    Changes(Changes),
    /// To [`Message::Follow`], and unasked to those that subscribed.
    Withdrawn(WithdrawnPage),
    /// To [`Message::Parts`].
    PartsPage(PartsPage<'a>),
    /// To [`Message::Health`].
    Vitals(Vitals),
    /// Unasked: what you hold of this key is wrong.
    Correction(Correction),
    /// To [`Message::Digest`].
    DigestAnswer(Digest),
    /// To [`Message::List`].
    Page {
        /// The server's revision.
        revision: Generation,
        /// Whether entries are left.
        more: bool,
        /// In order of keys.
        entries: Vec<Entry>,
    },
    /// To [`Message::Watch`], again and again.
    Events(Change),
    /// To [`Message::Status`]: a JSON object.
    StatusText(&'a str),
    /// To [`Message::Fetch`].
    Document(DocumentPart<'a>),
    /// To [`Message::Publish`].
    Published(Published),
    /// To [`Message::Subscribe`] and [`Message::Browse`].
    Records(Records<'a>),
    /// To [`Message::Amend`].
    Amended(Amended<'a>),
    /// Unasked, after [`Message::Subscribe`]: ask again.
    Notice(Notice<'a>),
    /// To a message of another version: this header's version is the one that the server speaks.
    Unsupported,
}

impl<'a> Message<'a> {
    /// Reads the body of a message of kind `kind`.
    ///
    /// # Errors
    /// [`WireError`] if it is not one.
    #[inline]
    pub fn parse(kind: Kind, body: &'a [u8]) -> Result<Self, WireError> {
        let reader = Reader(body);
        match kind {
            Kind::Lookup => Lookup::parse(reader).map(Self::Lookup),
            Kind::Answer => Answer::parse(reader).map(Self::Answer),
            _ => Self::parse_rest(kind, reader),
        }
    }

    fn parse_rest(kind: Kind, mut reader: Reader<'a>) -> Result<Self, WireError> {
        let r = &mut reader;
        let message = match kind {
            Kind::Lookup | Kind::Answer => unreachable!("read in place by parse"),
            Kind::Update => Self::Update(Update::parse(r)?),
            Kind::Sync => Self::Sync(Sync::parse(r)?),
            Kind::Follow => Self::Follow(Follow::parse(r)?),
            Kind::Parts => Self::Parts(Parts::parse(r)?),
            Kind::PartsPage => Self::PartsPage(PartsPage::parse(r)?),
            Kind::Health => Self::Health,
            Kind::Misdelivered => Self::Misdelivered(Misdelivered::parse(r)?),
            Kind::Commits => Self::Commits(Commits::parse(r)?),
            Kind::Digest => Self::Digest(Digest::parse(r)?),
            Kind::List => Self::List { after: r.optional_key()?, limit: r.u16()? },
            Kind::Watch => Self::Watch(Watch { from: Generation(r.u64()?) }),
            Kind::Status => Self::Status,
            Kind::Fetch => Self::Fetch(Fetch::parse(r)?),
            Kind::Publish => Self::Publish(Publish::parse(r)?),
            Kind::Document => Self::Document(DocumentPart::parse(r)?),
            Kind::Published => Self::Published(Published::parse(r)?),
            Kind::Subscribe => Self::Subscribe(Subscribe::parse(r)?),
            Kind::Browse => Self::Browse(Browse::parse(r)?),
            Kind::Amend => Self::Amend(Amend::parse(r)?),
            Kind::Records => Self::Records(Records::parse(r)?),
            Kind::Amended => Self::Amended(Amended::parse(r)?),
            Kind::Notice => Self::Notice(Notice::parse(r)?),
            Kind::Challenge => Self::Challenge,
            Kind::Unsupported => Self::Unsupported,
            Kind::Acknowledgement => Self::Acknowledgement(Acknowledgement::parse(r)?),
            Kind::Changes => Self::Changes(Changes::parse(r)?),
            Kind::Withdrawn => Self::Withdrawn(WithdrawnPage::parse(r)?),
            Kind::Vitals => Self::Vitals(Vitals::parse(r)?),
            Kind::Correction => Self::Correction(Correction::parse(r)?),
            Kind::DigestAnswer => Self::DigestAnswer(Digest::parse(r)?),
            Kind::Page => {
                let revision = Generation(r.u64()?);
                let more = r.flag()?;
                Self::Page { revision, more, entries: entries(r)? }
            }
            Kind::Events => Self::Events(Change::parse(r)?),
            Kind::StatusText => {
                let text = std::str::from_utf8(r.0).map_err(|_| WireError::Field("text"))?;
                r.0 = &[];
                Self::StatusText(text)
            }
        };
        reader.end()?;
        Ok(message)
    }

    /// The kind that goes into its header.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Lookup(_) => Kind::Lookup,
            Self::Update(_) => Kind::Update,
            Self::Sync(_) => Kind::Sync,
            Self::Follow(_) => Kind::Follow,
            Self::Parts(_) => Kind::Parts,
            Self::PartsPage(_) => Kind::PartsPage,
            Self::Health => Kind::Health,
            Self::Misdelivered(_) => Kind::Misdelivered,
            Self::Commits(_) => Kind::Commits,
            Self::Digest(_) => Kind::Digest,
            Self::List { .. } => Kind::List,
            Self::Watch(_) => Kind::Watch,
            Self::Status => Kind::Status,
            Self::Fetch(_) => Kind::Fetch,
            Self::Publish(_) => Kind::Publish,
            Self::Document(_) => Kind::Document,
            Self::Published(_) => Kind::Published,
            Self::Subscribe(_) => Kind::Subscribe,
            Self::Browse(_) => Kind::Browse,
            Self::Amend(_) => Kind::Amend,
            Self::Records(_) => Kind::Records,
            Self::Amended(_) => Kind::Amended,
            Self::Notice(_) => Kind::Notice,
            Self::Challenge => Kind::Challenge,
            Self::Answer(_) => Kind::Answer,
            Self::Acknowledgement(_) => Kind::Acknowledgement,
            Self::Changes(_) => Kind::Changes,
            Self::Withdrawn(_) => Kind::Withdrawn,
            Self::Vitals(_) => Kind::Vitals,
            Self::Correction(_) => Kind::Correction,
            Self::DigestAnswer(_) => Kind::DigestAnswer,
            Self::Page { .. } => Kind::Page,
            Self::Events(_) => Kind::Events,
            Self::StatusText(_) => Kind::StatusText,
            Self::Unsupported => Kind::Unsupported,
        }
    }

    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Lookup(it) => it.emit_body(out),
            Self::Answer(it) => it.emit(out),
            Self::Update(it) => it.emit(out),
            Self::Acknowledgement(it) => it.emit(out),
            Self::Sync(it) => it.emit(out),
            Self::Changes(it) => it.emit(out),
            Self::Follow(it) => it.emit(out),
            Self::Withdrawn(it) => it.emit(out),
            Self::Parts(it) => it.emit(out),
            Self::PartsPage(it) => it.emit(out),
            Self::Misdelivered(it) => it.emit(out),
            Self::Correction(it) => it.emit(out),
            Self::Vitals(it) => it.emit(out),
            Self::Commits(it) => it.emit(out),
            Self::Digest(it) | Self::DigestAnswer(it) => it.emit(out),
            Self::Events(it) => it.emit(out),
            Self::Fetch(it) => it.emit(out),
            Self::Document(it) => it.emit(out),
            Self::Publish(it) => it.emit(out),
            Self::Published(it) => it.emit(out),
            Self::Notice(it) => it.emit(out),
            Self::Amended(it) => it.emit(out),
            Self::Records(it) => it.emit(out),
            Self::Amend(it) => it.emit(out),
            Self::Browse(it) => it.emit(out),
            Self::Subscribe(it) => it.emit(out),
            Self::Watch(it) => out.extend_from_slice(&it.from.0.to_be_bytes()),
            Self::List { after, limit } => {
                emit_optional_key(after.as_ref(), out);
                out.extend_from_slice(&limit.to_be_bytes());
            }
            Self::Page { revision, more, entries } => {
                out.extend_from_slice(&revision.0.to_be_bytes());
                out.push(u8::from(*more));
                emit_entries(entries, out);
            }
            Self::StatusText(text) => out.extend_from_slice(text.as_bytes()),
            Self::Health | Self::Status | Self::Challenge | Self::Unsupported => {}
        }
    }
}
