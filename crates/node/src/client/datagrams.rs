//! Questions over UDP: one server after the other, with growing patience, until one answers.

use std::net::{ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::PrincipalKey;
use weft_control::wire::directory::{Kind, MAX_DATAGRAM, Message};

use super::error::ClientError;
use super::session::Session;

/// Sockets to all servers.
#[derive(Debug)]
pub struct Datagrams {
    peers: Vec<Peer>,
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
struct Peer {
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
            Ok(Peer { name: name.clone(), socket, session: Session::new(principal, Some(key)) })
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
        let mut patience = if kind == Kind::Update { UPDATE_PATIENCE } else { PATIENCE };
        let (mut unable, mut why) = (None, "nothing came back");
        let mut turn = self.first;
        while Instant::now() < deadline {
            let at = turn % self.peers.len();
            let peer = &mut self.peers[at];
            match peer.ask(kind, &body, &mut accept, deadline.min(Instant::now() + patience))? {
                Heard::Answer(value) => {
                    self.first = at;
                    return Ok(Reply { value, server: peer.name.clone() });
                }
                Heard::Unable(value) => {
                    unable = Some(Reply { value, server: peer.name.clone() });
                    std::thread::sleep(PAUSE);
                }
                Heard::Nothing => {}
                Heard::Refused => {
                    why = "nobody listens there";
                    std::thread::sleep(PAUSE);
                }
            }
            turn += 1;
            if turn % self.peers.len() == self.first {
                patience = UPDATE_PATIENCE.min(patience * 2);
            }
        }
        let servers = self.peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
        unable.ok_or(ClientError::NoAnswer { servers, after: timeout, why })
    }
}

impl Peer {
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
            let Some(frame) = self.session.open(&buffer[..length]) else { continue };
            if frame.header.request < first {
                continue;
            }
            if frame.header.kind == Kind::Challenge {
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

/// The first round's patience with a server, doubled after each round.
const PATIENCE: Duration = Duration::from_millis(20);
/// With an update: as long as the protocol says; also the most that patience grows to.
const UPDATE_PATIENCE: Duration = Duration::from_secs(2);
/// Before the next server is asked, where one has said no at once.
const PAUSE: Duration = Duration::from_millis(10);
