//! The header's part of a conversation with one server: the tag, the cookie, the request numbers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_control::directory::auth::{PrincipalKey, Tagger};
use weft_control::directory::{OLDER_VERSION, PrincipalId};
use weft_control::wire::directory::{Frame, Header, Kind, TAG, Versions};

use super::versions::versions;

/// The header's part of a conversation with one server.
#[derive(Clone, Debug)]
pub struct Session {
    principal: PrincipalId,
    /// None over TLS, where the tag is zeros.
    tagger: Option<Tagger>,
    cookie: u64,
    request: u64,
    versions: Versions,
    /// Until when the older version of the protocol is spoken, for the server does not know the newer.
    older_until: Option<Instant>,
}

impl Session {
    /// With keyed MACs, or over TLS without.
    pub fn new(principal: PrincipalId, key: Option<&PrincipalKey>) -> Self {
        // An earlier process may have spoken from the same port, under the same cookie: its numbers were smaller.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let request = u64::try_from(since_1970).unwrap_or(0);
        let tagger = key.map(PrincipalKey::tagger);
        Self { principal, tagger, cookie: 0, request, versions: versions(), older_until: None }
    }

    /// The number of the last request.
    pub const fn request(&self) -> u64 {
        self.request
    }

    /// The cookie that the server gave; 0: none yet.
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Appends a message with the next request number to `out`.
    pub fn seal(&mut self, kind: Kind, body: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        self.request += 1;
        let start = out.len();
        self.older_until = self.older_until.filter(|until| Instant::now() < *until);
        let version = if self.older_until.is_some() { self.versions.oldest() } else { self.versions.newest() };
        Header { kind, principal: self.principal, cookie: self.cookie, request: self.request }.emit_as(version, out);
        body(out);
        match &self.tagger {
            Some(tagger) => tagger.seal(out, start),
            None => out.extend_from_slice(&[0; TAG]),
        }
    }

    /// A server's message to us whose tag is right. Its cookie is taken over if it answers a request.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        let frame = Frame::parse_as(self.versions, bytes).ok()?;
        let right = match &self.tagger {
            Some(tagger) => tagger.verify(frame.covered, frame.tag),
            None => *frame.tag == [0; TAG],
        };
        if !right || frame.header.principal != self.principal || !frame.header.kind.is_answer() {
            return None;
        }
        if frame.header.request != 0 {
            self.cookie = frame.header.cookie;
        }
        Some(frame)
    }

    /// The server does not know the newest version, and speaks this one: whether that is another which is spoken from now on.
    pub fn fall_back(&mut self, version: u8) -> bool {
        let is_new = version < self.versions.newest() && self.older_until.is_none();
        if is_new {
            self.older_until = Some(Instant::now() + Duration::from_nanos(OLDER_VERSION.as_ns()));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use weft_control::directory::auth::Secret;

    use super::*;

    #[test]
    fn only_right_tags_of_our_own_are_opened() {
        let secret = Secret::new([7; 32]);
        let (mine, other) = (secret.key_of(PrincipalId(1)), secret.key_of(PrincipalId(2)));
        let mut server = Session { cookie: 99, ..Session::new(PrincipalId(1), Some(&mine)) };
        let mut client = Session::new(PrincipalId(1), Some(&mine));
        let (mut answer, mut request) = (Vec::new(), Vec::new());
        server.seal(Kind::Challenge, |_| {}, &mut answer);
        server.seal(Kind::Health, |_| {}, &mut request);
        assert!(client.open(&request).is_none(), "not an answer");
        assert!(Session::new(PrincipalId(1), Some(&other)).open(&answer).is_none());
        assert!(Session::new(PrincipalId(2), Some(&mine)).open(&answer).is_none());
        assert_eq!(client.cookie(), 0);
        assert_eq!(client.open(&answer).unwrap().header.kind, Kind::Challenge);
        assert_eq!(client.cookie(), 99);
    }
}
