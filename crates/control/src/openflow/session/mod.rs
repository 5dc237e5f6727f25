//! The controller's side of one connection to a switch, from its acceptance to its end.
//!
//! ```text
//!             hello ->             features request ->
//!   Session -------------> Hello ----------------------> Features ------------------> Up ---> messages both ways
//!             <- hello             <- features reply                 Output::Up        echo request after 5 s of silence
//!      |                    |                              |                           |
//!      +--------------------+-- 5 s, no common version ----+                           +-- 15 s of silence, malformed stream
//!                           v                                                          v
//!                                             Output::Closed(reason)
//! ```
//! A malformed message whose length is right is reported and dropped; the stream goes on behind it.

mod closing;
mod parts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use closing::CloseReason;

use self::parts::Parts;
use super::Version;
use super::error::{EmitError, ParseError};
use super::framer::Framer;
use super::message::{Body, Header, Message};
use super::switch::{ErrorMessage, Features, Hello};
use crate::time::{Duration, Instant};

/// One connection.
#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    /// What Weft speaks on this connection, ascending.
    versions: Vec<Version>,
    framer: Framer,
    parts: Parts,
    next_xid: u32,
    began: Instant,
    /// When the last whole message came.
    heard: Instant,
    /// When the last echo request was sent.
    asked: Instant,
    outputs: VecDeque<Output>,
}

/// An input of a session.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The deadline has come.
    Timer,
    /// Bytes from the switch.
    Received(&'a [u8]),
    /// A message to send, with an xid from [`Session::allocate_xid`].
    Send(Message),
}

/// What the owner of the connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes.
    Send(Vec<u8>),
    /// The handshake is done: messages can be sent.
    Up {
        /// In this version.
        version: Version,
        /// To this switch.
        features: Features,
    },
    /// The switch has sent this. The parts of a multipart reply are joined; echoes are answered and not returned. An error has the xid of
    /// what failed.
    Message(Message),
    /// The switch has sent a message that cannot be read; it was dropped.
    Malformed {
        /// Its xid.
        xid: u32,
        /// What is wrong with it.
        error: ParseError,
    },
    /// A message was not sent.
    Unsent {
        /// Its xid.
        xid: u32,
        /// Why.
        error: SendError,
    },
    /// Close the connection. This is the last output.
    Closed(CloseReason),
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The handshake is not done, or the session is closed.
    #[error("the session is not up")]
    NotUp,
    /// It has no bytes in the session's version.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// The handshake is done by then.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// An echo request is sent after so long without a message.
pub const ECHO_INTERVAL: Duration = Duration::from_secs(5);
/// The session is closed after so long without a message.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hello,
    Features(Version),
    Up(Version),
    Closed,
}

impl Session {
    /// A session of either version on a connection that was accepted at `now`.
    pub fn new(now: Instant) -> Self {
        Self::speaking(&Version::ALL, now)
    }

    /// A session of one of these versions.
    ///
    /// # Panics
    /// If there is none.
    pub fn speaking(versions: &[Version], now: Instant) -> Self {
        let mut versions = versions.to_vec();
        versions.sort_unstable();
        let highest = *versions.last().expect("a version to speak");
        let mut it = Self {
            state: State::Hello,
            versions,
            framer: Framer::new(),
            parts: Parts::default(),
            next_xid: 1,
            began: now,
            heard: now,
            asked: now,
            outputs: VecDeque::new(),
        };
        let hello = Body::Hello(Hello::of(&it.versions));
        it.send_own(highest, hello);
        it
    }

    /// Passes an input that happened at `now`. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.state == State::Closed {
            return;
        }
        match input {
            Input::Timer => self.handle_timer(now),
            Input::Received(bytes) => self.handle_bytes(now, bytes),
            Input::Send(message) => {
                if let Err(error) = self.emit(&message) {
                    self.outputs.push_back(Output::Unsent { xid: message.xid, error });
                }
            }
        }
    }

    /// The next thing to do, in order; call until `None` after each `handle`, and after creation.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`Input::Timer`]; `None` once the session is closed.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Hello | State::Features(_) => Some(self.began.saturating_add(HANDSHAKE_TIMEOUT)),
            State::Up(_) => Some(self.next_echo().min(self.heard.saturating_add(SILENCE_TIMEOUT))),
            State::Closed => None,
        }
    }

    /// Sends a message with an xid of its own, which the answer or an error has as well: returns it.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&mut self, body: Body) -> Result<u32, SendError> {
        let xid = self.allocate_xid();
        self.emit(&Message { xid, body }).map(|()| xid)
    }

    /// An xid that no other of the last four thousand million messages had.
    pub const fn allocate_xid(&mut self) -> u32 {
        let xid = self.next_xid;
        self.next_xid = if xid == u32::MAX { 1 } else { xid + 1 };
        xid
    }

    /// The version, once it is agreed.
    pub const fn version(&self) -> Option<Version> {
        match self.state {
            State::Features(version) | State::Up(version) => Some(version),
            State::Hello | State::Closed => None,
        }
    }

    fn handle_timer(&mut self, now: Instant) {
        match self.state {
            State::Up(_) if now >= self.heard.saturating_add(SILENCE_TIMEOUT) => self.close(CloseReason::Silence),
            State::Up(version) if now >= self.next_echo() => {
                self.asked = now;
                self.send_own(version, Body::EchoRequest(Vec::new()));
            }
            State::Hello | State::Features(_) if now >= self.began.saturating_add(HANDSHAKE_TIMEOUT) => {
                self.close(CloseReason::Handshake);
            }
            _ => {}
        }
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        let mut framer = std::mem::take(&mut self.framer);
        framer.push(bytes);
        while self.state != State::Closed {
            match framer.pop() {
                Ok(Some(message)) => {
                    self.heard = now;
                    self.handle_message(message);
                }
                Ok(None) => break,
                Err(error) => self.close(CloseReason::Stream(error)),
            }
        }
        self.framer = framer;
    }

    fn handle_message(&mut self, bytes: &[u8]) {
        match self.state {
            State::Hello => self.handle_hello(bytes),
            State::Features(version) => match Message::parse(version, bytes) {
                Ok(message) => self.handle_features(version, message),
                Err(error) => self.close(CloseReason::Malformed(error)),
            },
            State::Up(version) => self.handle_up(version, bytes),
            State::Closed => {}
        }
    }

    /// The first message: the switch's hello, or its refusal of ours.
    fn handle_hello(&mut self, bytes: &[u8]) {
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(error) => return self.close(CloseReason::Stream(error)),
        };
        // A refusal is in the switch's version; errors are the same in all.
        let version = Version::from_wire(header.version).unwrap_or(Version::V13);
        match Message::parse_any(version, bytes).map(|message| message.body) {
            Ok(Body::Hello(hello)) => match hello.highest_common(header.version, &self.versions) {
                Some(version) => {
                    self.state = State::Features(version);
                    self.send_own(version, Body::FeaturesRequest);
                }
                None => self.refuse(header, &hello),
            },
            Ok(Body::Error(error)) => self.close(CloseReason::Refused(error)),
            Ok(other) => self.close(CloseReason::NoHello(other.name())),
            Err(error) => self.close(CloseReason::Malformed(error)),
        }
    }

    /// Answers a hello without a common version: in the switch's own version, so that it can read why.
    fn refuse(&mut self, header: Header, hello: &Hello) {
        let reason = CloseReason::Version { switch: hello.spoken(header.version), weft: self.versions.clone() };
        let data = reason.to_string().into_bytes();
        let error = ErrorMessage { kind: ErrorMessage::HELLO_FAILED, code: ErrorMessage::INCOMPATIBLE, data };
        let mut bytes = Vec::new();
        let emitted = Message { xid: header.xid, body: Body::Error(error) }.emit(Version::V13, &mut bytes);
        emitted.expect("a short message that all versions have");
        bytes[0] = header.version;
        self.outputs.push_back(Output::Send(bytes));
        self.close(reason);
    }

    fn handle_features(&mut self, version: Version, message: Message) {
        match message.body {
            Body::FeaturesReply(features) => {
                self.state = State::Up(version);
                self.outputs.push_back(Output::Up { version, features });
            }
            Body::EchoRequest(data) => self.answer_echo(version, message.xid, data),
            Body::Error(error) => self.close(CloseReason::Refused(error)),
            // Port status and the like: the owner reads all of it once the session is up.
            _ => {}
        }
    }

    fn handle_up(&mut self, version: Version, bytes: &[u8]) {
        let message = match Message::parse(version, bytes) {
            Ok(message) => message,
            Err(error) => {
                let xid = Header::parse(bytes).map_or(0, |header| header.xid);
                self.parts.spoil(bytes);
                return self.outputs.push_back(Output::Malformed { xid, error });
            }
        };
        let xid = message.xid;
        match message.body {
            Body::EchoRequest(data) => self.answer_echo(version, xid, data),
            Body::EchoReply(_) | Body::Hello(_) => {}
            Body::MultipartReply(reply) => match self.parts.add(xid, reply, bytes.len()) {
                Ok(Some(reply)) => self.outputs.push_back(Output::Message(Message { xid, body: Body::MultipartReply(reply) })),
                Ok(None) => {}
                Err(reason) => self.close(reason),
            },
            body => self.outputs.push_back(Output::Message(Message { xid, body })),
        }
    }

    fn answer_echo(&mut self, version: Version, xid: u32, data: Vec<u8>) {
        let mut bytes = Vec::new();
        let emitted = Message { xid, body: Body::EchoReply(data) }.emit(version, &mut bytes);
        emitted.expect("as long as the request");
        self.outputs.push_back(Output::Send(bytes));
    }

    fn next_echo(&self) -> Instant {
        self.heard.max(self.asked).saturating_add(ECHO_INTERVAL)
    }

    /// Sends a message that the session needs itself.
    fn send_own(&mut self, version: Version, body: Body) {
        let mut bytes = Vec::new();
        let emitted = Message { xid: self.allocate_xid(), body }.emit(version, &mut bytes);
        emitted.expect("a short message that all versions have");
        self.outputs.push_back(Output::Send(bytes));
    }

    fn emit(&mut self, message: &Message) -> Result<(), SendError> {
        let State::Up(version) = self.state else { return Err(SendError::NotUp) };
        let mut bytes = Vec::new();
        message.emit(version, &mut bytes)?;
        self.outputs.push_back(Output::Send(bytes));
        Ok(())
    }

    fn close(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.framer = Framer::new();
        self.parts = Parts::default();
        self.outputs.push_back(Output::Closed(reason));
    }
}
