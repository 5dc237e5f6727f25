//! The switches that report packets for keys that are not there (VL2, section 4.3.2), as far as the directory sees them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_control::directory::auth::{Secret, Tagger};
use weft_control::directory::{Key, Locator, PrincipalId};
use weft_control::wire::directory::{Frame, Header, Kind, Message, Misdelivered};

#[derive(Debug)]
pub(super) struct Switch {
    principal: PrincipalId,
    tagger: Tagger,
    last: u64,
    cookies: BTreeMap<SocketAddr, u64>,
    /// The last reports, by server and request, in case that they are challenged.
    sent: BTreeMap<(SocketAddr, u64), Misdelivered>,
}

impl Switch {
    pub fn new(secret: &Secret, principal: PrincipalId) -> Self {
        let tagger = secret.key_of(principal).tagger();
        Self { principal, tagger, last: 0, cookies: BTreeMap::new(), sent: BTreeMap::new() }
    }

    /// The datagram of a report.
    pub fn report(&mut self, to: SocketAddr, asker: Key, key: Key, stale: Locator) -> Vec<u8> {
        self.seal(to, Misdelivered { asker, key, stale })
    }

    /// An answer: if it is a challenge, the report again.
    pub fn receive(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = Frame::parse(bytes).ok()?;
        if frame.header.kind != Kind::Challenge || !self.tagger.verify(frame.covered, frame.tag) {
            return None;
        }
        self.cookies.insert(from, frame.header.cookie);
        let report = self.sent.remove(&(from, frame.header.request))?;
        Some(self.seal(from, report))
    }

    fn seal(&mut self, to: SocketAddr, report: Misdelivered) -> Vec<u8> {
        self.last += 1;
        self.sent.insert((to, self.last), report);
        if self.sent.len() > KEPT {
            self.sent.pop_first();
        }
        let cookie = self.cookies.get(&to).copied().unwrap_or(0);
        let header = Header { kind: Kind::Misdelivered, principal: self.principal, cookie, request: self.last };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        Message::Misdelivered(report).emit(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        bytes
    }
}

const KEPT: usize = 64;
