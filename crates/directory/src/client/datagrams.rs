//! Questions over UDP: one server after the other, with growing timeouts, until one answers. Of an update, one attempt to one server.

use std::net::{ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use weft_control::directory::PrincipalId;
use weft_control::directory::attempts::Attempts;
use weft_control::directory::auth::PrincipalKey;
use weft_control::wire::directory::{Acknowledgement, Frame, Kind, MAX_DATAGRAM, Message, WireError};

use super::error::ClientError;
use super::session::Session;
use super::update::{Attempt, Heard as HeardOfUpdate};
use super::versions::versions;

/// Sockets to all servers.
#[derive(Debug)]
pub struct Datagrams {
    peers: Vec<ServerSocket>,
    /// Who answered last is asked first.
    first: usize,
}

/// An answer that was accepted.
#[derive(Clone, Debug)]
pub struct Reply<T> {
    /// What `accept` made of it.
    pub value: T,
    /// Who said it.
    pub server: String,
}

#[derive(Debug)]
struct ServerSocket {
    name: String,
    socket: UdpSocket,
    session: Session,
}

enum Heard<T> {
    Answer(T),
    /// An answer that says that it is none.
    Unable(T),
    Nothing,
    Refused,
    /// The server does not know this version of the protocol.
    OtherVersion,
}

enum HeardFrame {
    /// Of this request; `None`: it is challenged.
    Said(u64, Option<Acknowledgement>),
    Nothing,
    Refused,
}

impl Datagrams {
    /// A socket for each server.
    ///
    /// # Errors
    /// [`ClientError`] if an address is none or no socket can be had.
    pub fn new(servers: &[String], principal: PrincipalId, key: &PrincipalKey) -> Result<Self, ClientError> {
        let peer = |name: &String| {
            let wrong = |why: String| ClientError::Address { address: name.clone(), why };
            let to =
                name.to_socket_addrs().map_err(|e| wrong(e.to_string()))?.next().ok_or_else(|| wrong("nothing known".into()))?;
            let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(to)?;
            Ok(ServerSocket { name: name.clone(), socket, session: Session::new(principal, Some(key)) })
        };
        Ok(Self { peers: servers.iter().map(peer).collect::<Result<_, ClientError>>()?, first: 0 })
    }

    /// Asks until `accept` takes an answer. It gives the value and whether that is final; a value that is not is returned only if no server
    /// has a better one in time.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`].
    pub fn ask<T>(
        &mut self,
        kind: Kind,
        body: impl Fn(&mut Vec<u8>),
        mut accept: impl FnMut(&Message<'_>) -> Option<(T, bool)>,
        timeout: Duration,
    ) -> Result<Reply<T>, ClientError> {
        let deadline = Instant::now() + timeout;
        let mut wait = TIMEOUT;
        let (mut unable, mut why) = (None, "nothing came back");
        let mut turn = self.first;
        while Instant::now() < deadline {
            let at = turn % self.peers.len();
            let peer = &mut self.peers[at];
            match peer.ask(kind, &body, &mut accept, deadline.min(Instant::now() + wait))? {
                Heard::Answer(value) => {
                    self.first = at;
                    return Ok(Reply { value, server: peer.name.clone() });
                }
                Heard::Unable(value) => {
                    unable = Some(Reply { value, server: peer.name.clone() });
                    std::thread::sleep(PAUSE);
                }
                Heard::Nothing => {}
                Heard::OtherVersion => {
                    why = "it speaks another version of the protocol";
                    std::thread::sleep(PAUSE);
                }
                Heard::Refused => {
                    why = "nobody listens there";
                    std::thread::sleep(PAUSE);
                }
            }
            turn += 1;
            if turn % self.peers.len() == self.first {
                wait = TIMEOUT_MAX.min(wait * 2);
            }
        }
        let servers = self.peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
        unable.ok_or(ClientError::NoAnswer { servers, after: timeout, why })
    }

    /// The place of the server that is asked first.
    pub const fn first(&self) -> usize {
        self.first
    }

    /// That server is asked first from now on.
    pub const fn prefer(&mut self, at: usize) {
        self.first = at;
    }

    /// Sends an attempt of an update to one server, and more where it is challenged; returns what that server says of any attempt, unless the deadline
    /// comes first. `attempts` knows afterwards what has become of each.
    ///
    /// # Errors
    /// [`ClientError::TooLong`].
    pub fn update(
        &mut self,
        at: usize,
        message: &Message<'_>,
        number: u64,
        attempts: &mut Attempts<Attempt>,
        deadline: Instant,
    ) -> Result<HeardOfUpdate, ClientError> {
        let (peer, begun) = (&mut self.peers[at], Instant::now());
        let mut last = peer.send_attempt(at, message, attempts)?;
        let why = loop {
            let Some(sent) = last else { break "nobody listens there" };
            match peer.hear(deadline)? {
                HeardFrame::Said(request, said) => {
                    let of_it = |attempt: &&Attempt| attempt.server == at && attempt.request == request;
                    let Some(&attempt) = attempts.alive().iter().find(of_it) else { continue };
                    match said {
                        Some(said) if said.number == number => return Ok(HeardOfUpdate::Said(attempt, said)),
                        Some(_) => {}
                        None => {
                            attempts.challenged(&attempt, attempt.has_cookie);
                            if attempt == sent {
                                last = peer.send_attempt(at, message, attempts)?;
                            }
                        }
                    }
                }
                HeardFrame::Nothing => {
                    if !sent.has_cookie {
                        attempts.dead(&sent);
                    }
                    break "nothing came back";
                }
                HeardFrame::Refused => {
                    attempts.challenged(&sent, sent.has_cookie);
                    last = None;
                }
            }
        };
        Ok(HeardOfUpdate::Nothing(ClientError::NoAnswer { servers: peer.name.clone(), after: begun.elapsed(), why }))
    }
}

impl ServerSocket {
    /// Sends an attempt of an update; `None` if the system says that nobody listens, and has not sent it.
    fn send_attempt(
        &mut self,
        server: usize,
        message: &Message<'_>,
        attempts: &mut Attempts<Attempt>,
    ) -> Result<Option<Attempt>, ClientError> {
        let has_cookie = self.session.cookie() != 0;
        let is_refused = self.send(Kind::Update, &|out: &mut Vec<u8>| message.emit(out))?;
        let attempt = Attempt { server, request: self.session.request(), has_cookie };
        if !is_refused {
            attempts.sent(attempt);
        }
        Ok((!is_refused).then_some(attempt))
    }

    /// The next acknowledgement or challenge.
    fn hear(&mut self, deadline: Instant) -> Result<HeardFrame, ClientError> {
        let mut buffer = [0; 2048];
        loop {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Ok(HeardFrame::Nothing);
            };
            self.socket.set_read_timeout(Some(left))?;
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => return Ok(HeardFrame::Refused),
                Err(_) => continue,
            };
            let Some(frame) = self.session.open(&buffer[..length]) else { continue };
            let request = frame.header.request;
            let version = frame.version;
            match Message::parse(frame.header.kind, frame.body) {
                Ok(Message::Challenge) => return Ok(HeardFrame::Said(request, None)),
                Ok(Message::Unsupported) if self.session.fall_back(version) => return Ok(HeardFrame::Said(request, None)),
                Ok(Message::Acknowledgement(said)) => return Ok(HeardFrame::Said(request, Some(said))),
                _ => {}
            }
        }
    }

    /// Sends a request, meets challenges, and waits for an answer until the deadline.
    fn ask<T>(
        &mut self,
        kind: Kind,
        body: &impl Fn(&mut Vec<u8>),
        accept: &mut impl FnMut(&Message<'_>) -> Option<(T, bool)>,
        deadline: Instant,
    ) -> Result<Heard<T>, ClientError> {
        if self.send(kind, body)? {
            return Ok(Heard::Refused);
        }
        let mut first = self.session.request();
        let mut buffer = [0; 2048];
        loop {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Ok(Heard::Nothing);
            };
            self.socket.set_read_timeout(Some(left))?;
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => return Ok(Heard::Refused),
                Err(_) => continue,
            };
            let Some(frame) = self.session.open(&buffer[..length]) else {
                if speaks_other_version(&buffer[..length]) {
                    return Ok(Heard::OtherVersion);
                }
                continue;
            };
            if frame.header.request < first {
                continue;
            }
            let is_older = frame.header.kind == Kind::Unsupported;
            if is_older && !self.session.fall_back(frame.version) {
                return Ok(Heard::OtherVersion);
            }
            if is_older || frame.header.kind == Kind::Challenge {
                if self.send(kind, body)? {
                    return Ok(Heard::Refused);
                }
                first = self.session.request();
                continue;
            }
            let Ok(message) = Message::parse(frame.header.kind, frame.body) else { continue };
            match accept(&message) {
                Some((value, true)) => return Ok(Heard::Answer(value)),
                Some((value, false)) => return Ok(Heard::Unable(value)),
                None => {}
            }
        }
    }

    /// Sends a request; true if the system says that nobody listens (an earlier datagram's fate).
    fn send(&mut self, kind: Kind, body: &impl Fn(&mut Vec<u8>)) -> Result<bool, ClientError> {
        let mut out = Vec::with_capacity(256);
        self.session.seal(kind, body, &mut out);
        if out.len() > MAX_DATAGRAM {
            return Err(ClientError::TooLong(out.len()));
        }
        match self.socket.send(&out) {
            Ok(_) => Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}

/// Whether a server says that it does not know this version of the protocol. Without a look at the tag, which another version may make otherwise: it only hurries
/// the request to the next server.
fn speaks_other_version(bytes: &[u8]) -> bool {
    matches!(Frame::parse_as(versions(), bytes), Err(WireError::Version(_)))
}

/// The timeout of a server in the first round; it doubles after each round.
const TIMEOUT: Duration = Duration::from_millis(20);
/// The greatest such timeout.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);
/// Before the next server is asked, where one has said no at once.
const PAUSE: Duration = Duration::from_millis(10);
