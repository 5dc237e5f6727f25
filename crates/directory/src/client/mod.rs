//! A blocking client of directory servers: what the command line and the benchmarks ask with.
//!
//! ```text
//!   lookups, health                      UDP, keyed MAC             Datagrams: one server after the other until one answers
//!   updates, list, watch, status          TLS, client certificate    Stream
//!     where the operator chose `mac`      UDP (updates), bare TCP    the same two
//! ```
//! Of a divided directory each part has a client of its own behind this one ([`parts`]).
//!
//! An agent's lookups go to two servers at once and through a cache; that is [`Resolver`](weft_control::directory)'s business, not this one's.

mod datagrams;
mod error;
mod parts;
mod session;
mod stream;
mod tenants;
mod tls;
mod update;
mod versions;

use std::time::Duration;

use weft_control::directory::auth::PrincipalKey;
use weft_control::directory::{Generation, Key, PrincipalId};
use weft_control::wire::directory::{Entry, Finding, Kind, Lookup, MAX_KEYS, Message, PublishOutcome, Published, State, Vitals};

use self::parts::Parts;
pub use datagrams::Datagrams;
pub use error::ClientError;
pub use parts::{OnePart, home, split};
pub use session::Session;
pub use stream::{Fetched, Stream, Watching};
pub use tenants::{AmendResult, Answered, Subscription};
pub use tls::{TlsFiles, client_config};
pub use update::{RetryToken, Updated};
pub use versions::versions;

/// How a client proves who it is, apart from lookups, which always have keyed MACs.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Keyed MACs, over UDP and bare TCP.
    Mac,
    /// TLS with a client certificate.
    Tls(std::sync::Arc<rustls::ClientConfig>),
}

/// Whom to ask, as whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers, `host:port`, at least one.
    pub servers: Vec<String>,
    /// Who asks.
    pub principal: PrincipalId,
    /// Its key; without one there are no lookups over UDP.
    pub key: Option<PrincipalKey>,
    /// How updates and streams prove who asks.
    pub auth: Auth,
    /// How long a call may take.
    pub timeout: Duration,
    /// Of a divided directory: these servers are asked for everything, also for what another part has.
    pub only: bool,
}

/// What became of a lookup's keys.
#[derive(Clone, Debug)]
pub struct LookupResult {
    /// Who answered last.
    pub server: String,
    /// How far that server knows everything.
    pub revision: Generation,
    /// The version of its policy.
    pub policy: u32,
    /// A finding a key, in their order.
    pub findings: Vec<(Generation, Finding)>,
}

/// A client. Calls block.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    datagrams: Option<Datagrams>,
    stream: Option<Stream>,
    /// A revision that a server reported, and when.
    known: Option<(Generation, std::time::Instant)>,
    parts: Parts,
    /// When servers were asked for them.
    asked_parts: Option<std::time::Instant>,
}

impl Client {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError`] if an address is none or no socket can be had.
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        let datagrams = match &settings.key {
            Some(key) => Some(Datagrams::new(&settings.servers, settings.principal, key)?),
            None => None,
        };
        let parts = if settings.only { Parts::None } else { Parts::Unknown };
        Ok(Self { settings, datagrams, stream: None, known: None, parts, asked_parts: None })
    }

    /// Looks up any number of keys, [`MAX_KEYS`] a datagram.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`] if no server answers in time.
    pub fn look_up(&mut self, keys: &[Key], asker: Option<&Key>, at_least: Generation) -> Result<LookupResult, ClientError> {
        let deadline = std::time::Instant::now() + self.settings.timeout;
        let mut look = Look { asker, at_least, deadline, patient: false };
        let found = self.look_up_in_parts(keys, &look)?;
        if !found.findings.iter().any(|(_, finding)| *finding == Finding::Elsewhere) {
            return Ok(found);
        }
        self.learn_parts()?;
        look.patient = true;
        self.look_up_in_parts(keys, &look)
    }

    /// Asks the part of each key.
    fn look_up_in_parts(&mut self, keys: &[Key], look: &Look<'_>) -> Result<LookupResult, ClientError> {
        let mut places: Vec<usize> = keys.iter().map(|key| self.place(key)).collect();
        let of_keys = places.clone();
        places.sort_unstable();
        places.dedup();
        if let [place] = places[..] {
            return self.at(place)?.look_up_here(keys, look);
        }
        let mut all =
            LookupResult { server: String::new(), revision: Generation(0), policy: 0, findings: vec![NOT_ASKED; keys.len()] };
        for place in places {
            let mine: Vec<usize> = (0..keys.len()).filter(|&at| of_keys[at] == place).collect();
            let asked: Vec<Key> = mine.iter().map(|&at| keys[at]).collect();
            let part = self.at(place)?.look_up_here(&asked, look)?;
            mine.into_iter().zip(part.findings).for_each(|(at, finding)| all.findings[at] = finding);
            (all.server, all.revision, all.policy) = (part.server, part.revision, part.policy);
        }
        Ok(all)
    }

    fn look_up_here(&mut self, keys: &[Key], look: &Look<'_>) -> Result<LookupResult, ClientError> {
        let Look { asker, at_least, deadline, patient } = *look;
        let mut all =
            LookupResult { server: String::new(), revision: Generation(0), policy: 0, findings: Vec::with_capacity(keys.len()) };
        while all.findings.len() < keys.len() {
            let rest = &keys[all.findings.len()..];
            let part = &rest[..rest.len().min(MAX_KEYS)];
            let timeout = deadline.saturating_duration_since(std::time::Instant::now()).max(PAUSE);
            let reply = self.datagrams()?.ask(
                Kind::Lookup,
                |out| Lookup::emit(at_least, asker, part, out),
                |message| {
                    let Message::Answer(answer) = message else { return None };
                    let findings: Vec<_> = answer.results().collect();
                    let complete = (1..=part.len()).contains(&findings.len());
                    let elsewhere = findings.iter().any(|(_, finding)| *finding == Finding::Elsewhere);
                    complete.then_some(((answer.revision, answer.policy, findings), !(elsewhere && patient)))
                },
                timeout,
            )?;
            (all.revision, all.policy) = (reply.value.0, reply.value.1);
            all.findings.extend(reply.value.2);
            all.server = reply.server;
        }
        Ok(all)
    }

    /// How one of the servers is: one that has loaded all, if there is one in time.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`].
    pub fn health(&mut self) -> Result<Vitals, ClientError> {
        self.vitals(|vitals| vitals.state != State::Loading)
    }

    /// How the first server that answers is.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`].
    pub fn health_of_any_state(&mut self) -> Result<Vitals, ClientError> {
        self.vitals(|_| true)
    }

    fn vitals(&mut self, good: impl Fn(&Vitals) -> bool) -> Result<Vitals, ClientError> {
        let timeout = self.settings.timeout;
        let accept = |message: &Message<'_>| match message {
            Message::Vitals(vitals) => Some((*vitals, good(vitals))),
            _ => None,
        };
        Ok(self.datagrams()?.ask(Kind::Health, |_| {}, accept, timeout)?.value)
    }

    /// Some server's revision.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn revision(&mut self) -> Result<Generation, ClientError> {
        if self.datagrams.is_some() {
            return Ok(self.health()?.revision);
        }
        Ok(self.on_stream(|stream| stream.page(None, 1))?.0.revision)
    }

    /// A page of entries after a key, in order of keys.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn page(&mut self, after: Option<Key>, limit: u16) -> Result<Page, ClientError> {
        Ok(self.on_stream(|stream| stream.page(after, limit))?.0)
    }

    /// The counters of one of the servers, a JSON object.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self) -> Result<String, ClientError> {
        Ok(self.on_stream(Stream::status)?.0)
    }

    /// Fetches a document of the store, unless its version is `known`; also returns the server that answered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn document(&mut self, name: &str, known: u32) -> Result<(Fetched, String), ClientError> {
        self.home()?.on_stream(|stream| stream.document(name, known))
    }

    /// Publishes the version after `expect` (0: there is none) of a document. It may be asked twice: a conflict with the version that was
    /// to be is no conflict. A server whose store does not take it, such as a replica, is followed by the others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn publish(
        &mut self,
        name: &str,
        expect: u32,
        version: u32,
        document: &[u8],
    ) -> Result<(Published, String), ClientError> {
        self.home()?.on_streams(
            |stream| stream.publish(name, expect, version, document),
            |published| published.outcome != PublishOutcome::Unknown,
        )
    }

    /// What changes after a revision, on a stream of its own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn watch(&mut self, from: Generation) -> Result<Watching, ClientError> {
        self.on_stream(|_| Ok(()))?;
        let stream = self.stream.take().expect("on_stream leaves one");
        stream.watch(from)
    }

    fn datagrams(&mut self) -> Result<&mut Datagrams, ClientError> {
        self.datagrams.as_mut().ok_or(ClientError::NoKey(self.settings.principal))
    }

    /// Runs `act` on the stream that is open, or on one to each server in turn until it succeeds or time is up. What is asked over a
    /// stream may be asked twice.
    fn on_stream<T>(&mut self, act: impl FnMut(&mut Stream) -> Result<T, ClientError>) -> Result<(T, String), ClientError> {
        self.on_streams(act, |_| true)
    }

    /// As [`Client::on_stream`]; a server whose answer is not `settled` is followed by the others, once. If none of them settles it that answer stands.
    fn on_streams<T>(
        &mut self,
        mut act: impl FnMut(&mut Stream) -> Result<T, ClientError>,
        settled: impl Fn(&T) -> bool,
    ) -> Result<(T, String), ClientError> {
        let deadline = std::time::Instant::now() + self.settings.timeout;
        let servers = self.settings.servers.len();
        let first = self.server_of_stream().unwrap_or(0);
        let (mut turn, mut unsettled) = (first, None);
        loop {
            let server = self.settings.servers[turn % servers].clone();
            let opened = match self.stream.take().filter(Stream::is_fresh) {
                Some(stream) => Ok(stream),
                None => Stream::open(&server, &self.settings, deadline),
            };
            let failed = match opened.and_then(|mut stream| act(&mut stream).map(|value| (value, stream))) {
                Ok((value, stream)) if settled(&value) => {
                    self.stream = Some(stream);
                    return Ok((value, server));
                }
                Ok((value, _)) => {
                    unsettled = Some((value, server));
                    None
                }
                Err(error) if error.is_final() => return Err(error),
                Err(error) => Some(error),
            };
            turn += 1;
            let is_late = std::time::Instant::now() + PAUSE >= deadline;
            match (unsettled.take(), failed) {
                (Some(answer), _) if is_late || turn >= first + servers => return Ok(answer),
                (None, Some(error)) if is_late => return Err(error),
                (answer, _) => unsettled = answer,
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The place in the list of the server to which a stream is open.
    fn server_of_stream(&self) -> Option<usize> {
        let server = self.stream.as_ref()?.server();
        self.settings.servers.iter().position(|it| it == server)
    }
}

/// A part of a listing.
#[derive(Clone, Debug)]
pub struct Page {
    /// The server's revision.
    pub revision: Generation,
    /// Whether entries are left.
    pub more: bool,
    /// In order of keys.
    pub entries: Vec<Entry>,
}

/// What is asked of the keys of a lookup.
struct Look<'a> {
    asker: Option<&'a Key>,
    at_least: Generation,
    deadline: std::time::Instant,
    /// Whether a server that says "elsewhere" is followed by the others.
    patient: bool,
}

/// Of a key of which no server was asked.
const NOT_ASKED: (Generation, Finding) = (Generation(0), Finding::Elsewhere);

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Between two servers that are asked on a stream.
const PAUSE: Duration = Duration::from_millis(50);
