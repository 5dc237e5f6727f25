//! Tenants' records over a stream: an agent's subscription, an operator's pages and changes.

use std::os::fd::RawFd;
use std::time::Instant;

use weft_control::netlord::tenants::records::messages::{listed, outcome_of};
use weft_control::netlord::tenants::records::{Listed, ListedState, Name, Op, Outcome, Question};
use weft_control::wire::directory::{Amend, AmendOp, Browse, Kind, Message, Records, RecordsState, Subscribe};

use super::error::ClientError;
use super::stream::Stream;
use super::{Client, Settings};

/// A server's answer about records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The store's revision.
    pub revision: u64,
    /// What it says.
    pub state: RecordsState,
    /// Of a page: whether records are left.
    pub more: bool,
    /// The records.
    pub listed: Vec<Listed>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmendResult {
    /// The servers' decision.
    Decided(Outcome),
    /// The principal may not change records.
    Refused,
}

/// A stream on which an agent subscribes to the tenants of its VIFs.
#[derive(Debug)]
pub struct Subscription {
    stream: Stream,
    notices: Vec<String>,
}

impl Subscription {
    /// Connects to a server.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub fn open(server: &str, settings: &Settings) -> Result<Self, ClientError> {
        let stream = Stream::open(server, settings, Instant::now() + settings.timeout)?;
        Ok(Self { stream, notices: Vec::new() })
    }

    /// `host:port`.
    pub fn server(&self) -> &str {
        self.stream.server()
    }

    /// Readable when a notice may have come.
    pub fn descriptor(&self) -> RawFd {
        self.stream.descriptor()
    }

    /// Asks, and reads the whole answer.
    ///
    /// # Errors
    /// As [`Stream::ask`]; also from a server that does not know this question, which ends the stream.
    pub fn ask(&mut self, question: &Question) -> Result<Answered, ClientError> {
        let tenants = question.tenants.iter();
        let tenants = tenants.map(|(tenant, vifs)| (tenant.as_str(), vifs.iter().map(String::as_str).collect())).collect();
        let message = Message::Subscribe(Subscribe { fresh: question.fresh, tenants });
        let mut all = Vec::new();
        let notices = &mut self.notices;
        self.stream.ask(
            Kind::Subscribe,
            |out| message.emit(out),
            |answer| match answer {
                Message::Records(records) => {
                    all.extend(listed(records));
                    let Records { revision, state, more, .. } = *records;
                    (!more).then(|| Answered { revision, state, more, listed: std::mem::take(&mut all) })
                }
                Message::Notice(notice) => {
                    notices.extend(notice.tenants.iter().map(|&it| it.to_owned()));
                    None
                }
                _ => None,
            },
        )
    }

    /// The tenants that notices have named, once one has come; none if the deadline comes first. An empty name: all.
    ///
    /// # Errors
    /// [`ClientError::Stream`] if the stream breaks.
    pub fn notices(&mut self, deadline: Instant) -> Result<Vec<String>, ClientError> {
        while self.notices.is_empty() {
            let notices = &mut self.notices;
            let taken = self.stream.next(deadline, |message| {
                if let Message::Notice(notice) = message {
                    notices.extend(notice.tenants.iter().map(|&it| it.to_owned()));
                }
            })?;
            if !taken {
                break;
            }
        }
        Ok(std::mem::take(&mut self.notices))
    }
}

impl Stream {
    /// A page of records whose names begin with `prefix`, after a name.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn browse(&mut self, prefix: &str, after: &str, limit: u16) -> Result<Answered, ClientError> {
        let message = Message::Browse(Browse { prefix, after, limit });
        self.ask(
            Kind::Browse,
            |out| message.emit(out),
            |answer| match answer {
                Message::Records(it) => {
                    Some(Answered { revision: it.revision, state: it.state, more: it.more, listed: listed(it).collect() })
                }
                _ => None,
            },
        )
    }

    /// Changes records, all or none.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn amend(&mut self, ops: &[Op]) -> Result<AmendResult, ClientError> {
        let names: Vec<String> = ops.iter().map(|op| op.name.to_string()).collect();
        let of = |(op, name)| {
            let (op, name): (&Op, &String) = (op, name);
            AmendOp { name, expect: op.expect, body: op.body.as_deref() }
        };
        let message = Message::Amend(Amend { ops: ops.iter().zip(&names).map(of).collect() });
        self.ask(
            Kind::Amend,
            |out| message.emit(out),
            |answer| {
                let Message::Amended(it) = answer else { return None };
                Some(outcome_of(it).map_or(AmendResult::Refused, AmendResult::Decided))
            },
        )
    }
}

impl Client {
    /// A page of tenants' records; also returns the server that answered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn browse(&mut self, prefix: &str, after: &str, limit: u16) -> Result<(Answered, String), ClientError> {
        self.home()?.on_stream(|stream| stream.browse(prefix, after, limit))
    }

    /// A record: its generation and body; `None`: there is none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn record(&mut self, name: &Name) -> Result<Option<(u64, String)>, ClientError> {
        let name = name.to_string();
        let (found, _) = self.browse(&name, "", 1)?;
        Ok(found.listed.into_iter().find(|it| it.name == name).and_then(|it| match it.state {
            ListedState::Present(generation, body) => Some((generation, body)),
            ListedState::Absent | ListedState::Forbidden => None,
        }))
    }

    /// Changes tenants' records, all or none; also returns the server that answered. It may be asked twice: the second may find what the first has done.
    /// A server whose store does not take it, such as a replica, is followed by the others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn amend(&mut self, ops: &[Op]) -> Result<(AmendResult, String), ClientError> {
        self.home()?.on_streams(|stream| stream.amend(ops), |result| *result != AmendResult::Decided(Outcome::Unknown))
    }
}
