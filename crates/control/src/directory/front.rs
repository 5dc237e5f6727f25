//! What a UDP thread does by itself: verify, look up, answer.

use std::net::SocketAddr;

use weft_fabric::Instant;

use super::auth::{Cookies, Secret};
use super::key::PrincipalId;
use super::request::Request;
use super::shared::Shared;

/// What becomes of a datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The bytes appended to `out` go back to where it came from.
    Answer,
    /// The machine's to deal with: [`Input::Request`](super::server::Input::Request).
    Forward(Box<Request>),
    /// Nothing; it is counted.
    Drop(Reason),
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is no message of this protocol.
    Malformed,
}

/// Limits of a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontConfig {
    /// This server's own principal: answers of its peers carry it.
    pub me: PrincipalId,
    /// Clients (a principal at an address) that are remembered at the most.
    pub max_clients: usize,
}

/// A principal was seen at an address for the first time (as far as the front remembers): the machine is to know, so that it can send
/// corrections there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Who.
    pub principal: PrincipalId,
    /// Where.
    pub at: SocketAddr,
    /// The cookie that it has.
    pub cookie: u64,
}

/// What a UDP thread does by itself.
#[derive(Debug)]
pub struct Front {
    secret: Secret,
    cookies: Cookies,
    config: FrontConfig,
}

impl Front {
    /// A front; each one of a server has cookies of its own.
    pub const fn new(secret: Secret, cookies: Cookies, config: FrontConfig) -> Self {
        Self { secret, cookies, config }
    }

    /// Takes a datagram; an answer is appended to `out`.
    pub fn receive(&mut self, _now: Instant, _shared: &Shared, _from: SocketAddr, _bytes: &[u8], _out: &mut Vec<u8>) -> Verdict {
        let _ = (&self.secret, &self.cookies, &self.config);
        Verdict::Drop(Reason::Malformed)
    }

    /// Takes several datagrams at once, so that their look-ups in memory overlap. Calls `reply(index, verdict, answer)` for each, in order.
    pub fn receive_batch(
        &mut self,
        now: Instant,
        shared: &Shared,
        datagrams: &[(SocketAddr, &[u8])],
        mut reply: impl FnMut(usize, Verdict, &[u8]),
    ) {
        for (at, (from, bytes)) in datagrams.iter().enumerate() {
            let mut out = Vec::new();
            let verdict = self.receive(now, shared, *from, bytes, &mut out);
            reply(at, verdict, &out);
        }
    }

    /// The next client that was seen for the first time.
    pub fn next_sighting(&mut self) -> Option<Sighting> {
        None
    }
}
