//! Questions over a stream: frames of a length and a message, over TLS or bare TCP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use weft_control::directory::{Generation, Key};
use weft_control::wire::directory::{
    Change, DOCUMENT_PART, Fetch, FetchOutcome, Frame, Kind, MAX_FRAME, Message, Publish, PublishOutcome, Published, Watch,
    WireError,
};

use super::error::ClientError;
use super::session::Session;
use super::versions::versions;
use super::{Auth, Page, Settings};

/// An open stream to one server.
#[derive(Debug)]
pub struct Stream {
    server: String,
    settings: Settings,
    wire: Wire,
    session: Session,
    /// What was read and is not a whole frame yet.
    read: Vec<u8>,
    timeout: Duration,
    /// When something was sent last.
    used: Instant,
}

#[derive(Debug)]
enum Wire {
    Bare(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects, until the deadline. Nothing that is asked later has left before this ends.
    ///
    /// # Errors
    /// [`ClientError`] if nobody listens, or TLS finds no trust.
    pub fn open(server: &str, settings: &Settings, deadline: Instant) -> Result<Self, ClientError> {
        let address = |why: String| ClientError::Address { address: server.to_owned(), why };
        let to = server
            .to_socket_addrs()
            .map_err(|e| address(e.to_string()))?
            .next()
            .ok_or_else(|| address("nothing known".into()))?;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let broken = |e: io::Error| ClientError::Stream { server: server.to_owned(), why: e.to_string() };
        let tcp = TcpStream::connect_timeout(&to, left).map_err(broken)?;
        tcp.set_nodelay(true).map_err(broken)?;
        tcp.set_write_timeout(Some(settings.timeout)).map_err(broken)?;
        tcp.set_read_timeout(Some(TICK)).map_err(broken)?;
        let (wire, key) = match &settings.auth {
            Auth::Mac => (Wire::Bare(tcp), Some(settings.key.as_ref().ok_or(ClientError::NoKey(settings.principal))?)),
            Auth::Tls(config) => {
                let host = server.rsplit_once(':').map_or(server, |(host, _)| host).trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host).map_err(|e| address(e.to_string()))?;
                let tls = ClientConnection::new(config.clone(), name)
                    .map_err(|e| ClientError::Stream { server: server.to_owned(), why: e.to_string() })?;
                let mut tls = StreamOwned::new(tls, tcp);
                write_tls(&mut tls, &[], deadline).map_err(broken)?;
                (Wire::Tls(Box::new(tls)), None)
            }
        };
        let session = Session::new(settings.principal, key);
        let (server, timeout, settings) = (server.to_owned(), settings.timeout, settings.clone());
        Ok(Self { server, settings, wire, session, read: Vec::new(), timeout, used: Instant::now() })
    }

    /// `host:port`.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether the server still waits for messages: it closes a stream that is idle for a minute.
    pub fn is_fresh(&self) -> bool {
        self.used.elapsed() < IDLE
    }

    /// The number of the next request.
    pub const fn next_request(&self) -> u64 {
        self.session.request() + 1
    }

    /// Asks, and reads until `accept` takes a message. A challenge is met.
    ///
    /// # Errors
    /// [`ClientError::Stream`] if the stream breaks or nothing comes in time.
    pub fn ask<T>(
        &mut self,
        kind: Kind,
        body: impl Fn(&mut Vec<u8>),
        accept: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<T, ClientError> {
        self.ask_until(Instant::now() + self.timeout, kind, body, accept)
    }

    /// As [`Stream::ask`], until the deadline.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn ask_until<T>(
        &mut self,
        deadline: Instant,
        kind: Kind,
        body: impl Fn(&mut Vec<u8>),
        mut accept: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<T, ClientError> {
        let mut challenges = 0;
        self.send(kind, &body)?;
        loop {
            let bytes = self.receive(Some(deadline))?.ok_or_else(|| self.broken("no answer in time"))?;
            if let Err(WireError::Version(version)) = Frame::parse_as(versions(), &bytes) {
                return Err(ClientError::Version { server: self.server.clone(), version });
            }
            let Some(frame) = self.session.open(&bytes) else {
                return Err(self.broken("what it sent has a wrong tag or is of another protocol"));
            };
            if frame.header.kind == Kind::Unsupported {
                let version = frame.version;
                if !self.session.fall_back(version) {
                    return Err(ClientError::Version { server: self.server.clone(), version });
                }
                // The server closes this one.
                *self = Self::open(&self.server, &self.settings, deadline)?;
                self.session.fall_back(version);
                self.send(kind, &body)?;
            } else if frame.header.kind == Kind::Challenge {
                challenges += 1;
                if challenges > 3 {
                    return Err(self.broken("it challenges again and again"));
                }
                self.send(kind, &body)?;
            } else if let Some(value) = self.parse(&frame)?.and_then(|message| accept(&message)) {
                return Ok(value);
            }
        }
    }

    /// A page of entries after a key.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn page(&mut self, after: Option<Key>, limit: u16) -> Result<Page, ClientError> {
        self.ask(
            Kind::List,
            |out| Message::List { after, limit }.emit(out),
            |message| match message {
                Message::Page { revision, more, entries } => {
                    Some(Page { revision: *revision, more: *more, entries: entries.clone() })
                }
                _ => None,
            },
        )
    }

    /// All counters, a JSON object.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn status(&mut self) -> Result<String, ClientError> {
        self.ask(
            Kind::Status,
            |_| {},
            |message| match message {
                Message::StatusText(text) => Some((*text).to_owned()),
                _ => None,
            },
        )
    }

    /// Fetches a document, unless its version is `known`.
    ///
    /// # Errors
    /// As [`Stream::ask`]; also if the document is replaced repeatedly while it is read.
    pub fn document(&mut self, name: &str, known: u32) -> Result<Fetched, ClientError> {
        for _ in 0..TRIES {
            let Some(mut part) = self.part(name, known, 0)? else { return Ok(Fetched::None) };
            if part.version == known {
                return Ok(Fetched::Known);
            }
            let (version, length) = (part.version, part.length);
            let mut all = std::mem::take(&mut part.bytes);
            while (all.len() as u64) < length {
                match self.part(name, 0, all.len() as u64)? {
                    Some(part) if (part.version, part.length) == (version, length) && !part.bytes.is_empty() => {
                        all.extend_from_slice(&part.bytes);
                    }
                    _ => break,
                }
            }
            if all.len() as u64 == length {
                return Ok(Fetched::Document { version, bytes: all });
            }
        }
        Err(self.broken(&format!("the document `{name}` changes faster than it can be read")))
    }

    fn part(&mut self, name: &str, known: u32, offset: u64) -> Result<Option<Part>, ClientError> {
        let answer = self.ask(
            Kind::Fetch,
            |out| Message::Fetch(Fetch { name, known, offset }).emit(out),
            |message| match message {
                Message::Document(it) => {
                    let part = Part { version: it.version, length: it.length, bytes: it.bytes.to_vec() };
                    Some((it.outcome, part))
                }
                _ => None,
            },
        )?;
        match answer {
            (FetchOutcome::Found, part) => Ok(Some(part)),
            (FetchOutcome::Unknown, _) => Ok(None),
            (FetchOutcome::Elsewhere, _) => {
                Err(self.broken("its store does not answer, and it has not read the document before"))
            }
        }
    }

    /// Publishes the version after `expect` of a document (0: there is none).
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn publish(&mut self, name: &str, expect: u32, version: u32, document: &[u8]) -> Result<Published, ClientError> {
        let length = document.len() as u64;
        let mut offset = 0;
        loop {
            let bytes = &document[offset..document.len().min(offset + DOCUMENT_PART)];
            let part = Publish { name, expect, version, length, offset: offset as u64, bytes };
            let answer = self.ask(
                Kind::Publish,
                |out| Message::Publish(part).emit(out),
                |message| match message {
                    Message::Published(it) => Some(*it),
                    _ => None,
                },
            )?;
            offset += bytes.len();
            if answer.outcome != PublishOutcome::More || offset >= document.len() {
                return Ok(answer);
            }
        }
    }

    /// Begins to watch what changes after a revision.
    ///
    /// # Errors
    /// As [`Stream::ask`].
    pub fn watch(mut self, from: Generation) -> Result<Watching, ClientError> {
        let take = |message: &Message<'_>| match message {
            Message::Events(change) => Some(change.clone()),
            _ => None,
        };
        let first = self.ask(Kind::Watch, |out| Message::Watch(Watch { from }).emit(out), take)?;
        Ok(Watching { stream: self, first: Some(first) })
    }

    /// Readable when something may have come.
    pub(super) fn descriptor(&self) -> RawFd {
        match &self.wire {
            Wire::Bare(tcp) => tcp.as_raw_fd(),
            Wire::Tls(tls) => tls.sock.as_raw_fd(),
        }
    }

    /// Hands over the next message that was not asked for; false if the deadline comes first.
    pub(super) fn next(&mut self, deadline: Instant, take: impl FnOnce(&Message<'_>)) -> Result<bool, ClientError> {
        let Some(bytes) = self.receive(Some(deadline))? else { return Ok(false) };
        let Some(frame) = self.session.open(&bytes) else { return Err(self.broken("a wrong tag")) };
        if let Some(message) = self.parse(&frame)? {
            take(&message);
        }
        Ok(true)
    }

    fn parse<'a>(&self, frame: &Frame<'a>) -> Result<Option<Message<'a>>, ClientError> {
        Message::parse(frame.header.kind, frame.body).map(Some).map_err(|e| self.broken(&e.to_string()))
    }

    fn send(&mut self, kind: Kind, body: &impl Fn(&mut Vec<u8>)) -> Result<(), ClientError> {
        let mut out = vec![0; 2];
        self.used = Instant::now();
        self.session.seal(kind, body, &mut out);
        let length = u16::try_from(out.len() - 2).map_err(|_| ClientError::TooLong(out.len() - 2))?;
        out[..2].copy_from_slice(&length.to_be_bytes());
        let sent = match &mut self.wire {
            Wire::Bare(tcp) => tcp.write_all(&out),
            Wire::Tls(tls) => write_tls(tls, &out, Instant::now() + self.timeout),
        };
        sent.map_err(|e| self.broken(&e.to_string()))
    }

    /// The next frame; `None` if the deadline comes first.
    fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<Vec<u8>>, ClientError> {
        let mut buffer = vec![0; MAX_FRAME + 2];
        loop {
            if let Some((length, rest)) = self.read.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if rest.len() >= length {
                    let frame = rest[..length].to_vec();
                    self.read.drain(..length + 2);
                    return Ok(Some(frame));
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            let read = match &mut self.wire {
                Wire::Bare(tcp) => tcp.read(&mut buffer),
                Wire::Tls(tls) => tls.read(&mut buffer),
            };
            match read {
                Ok(0) => return Err(self.broken("it closed the connection")),
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(e) if is_wait(&e) => {}
                Err(e) => return Err(self.broken(&e.to_string())),
            }
        }
    }

    fn broken(&self, why: &str) -> ClientError {
        ClientError::Stream { server: self.server.clone(), why: why.to_owned() }
    }
}

/// The answer to a fetch of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// There is none of this name.
    None,
    /// Its version is the one that was known.
    Known,
    /// All of it.
    Document {
        /// Its version.
        version: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

struct Part {
    version: u32,
    length: u64,
    bytes: Vec<u8>,
}

/// Attempts to read a document that is replaced while it is read.
const TRIES: usize = 5;

/// What changes.
#[derive(Debug)]
pub struct Watching {
    stream: Stream,
    first: Option<Change>,
}

impl Watching {
    /// Waits for the next change; `None` if the deadline comes first. The first one's `from` is greater than the one asked for if the server
    /// has forgotten what was between.
    ///
    /// # Errors
    /// [`ClientError::Stream`] if the stream breaks.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Change>, ClientError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            let Some(bytes) = self.stream.receive(deadline)? else { return Ok(None) };
            let Some(frame) = self.stream.session.open(&bytes) else { return Err(self.stream.broken("a wrong tag")) };
            if let Some(Message::Events(change)) = self.stream.parse(&frame)? {
                return Ok(Some(change));
            }
        }
    }
}

/// Writes all, also while the handshake waits for the other side.
fn write_tls(tls: &mut StreamOwned<ClientConnection, TcpStream>, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() || tls.conn.wants_write() || tls.conn.is_handshaking() {
        let step = if bytes.is_empty() { tls.flush().map(|()| 0) } else { tls.write(bytes) };
        match step {
            Ok(count) => bytes = &bytes[count..],
            Err(e) if is_wait(&e) && Instant::now() < deadline => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// A stream that was idle for so long is not used again.
const IDLE: Duration = Duration::from_secs(30);

/// How long a read blocks before the deadline is looked at.
const TICK: Duration = Duration::from_millis(20);
