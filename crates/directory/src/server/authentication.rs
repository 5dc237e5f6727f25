//! Who sent a message of a stream: over TLS the certificate says so, else the tag, the cookie and the number of each message.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::{ReplayWindow, Tagger};
use weft_control::directory::request::{Ask, Client, Request, StreamId};
use weft_control::wire::directory::{Foreign, Frame, Header, Kind, WireError};

use super::core::Core;

/// Of the principals that a bare stream speaks for.
pub type Taggers = Arc<Mutex<FxHashMap<PrincipalId, Tagger>>>;

/// How the other end proves who it is.
pub enum Authentication {
    /// A certificate named it.
    Certified(PrincipalId),
    /// The principal whose tag each message has.
    Tagged { cookie: u64, taggers: Taggers, windows: FxHashMap<PrincipalId, ReplayWindow> },
}

/// Principals that one bare stream may speak for: a program on behalf of some, not a way to make the server keep ever more.
const PRINCIPALS: usize = 64;

/// What became of a message.
pub enum Admitted {
    Request(Box<Request>),
    /// It concerns a document or tenants' records, which are read from the store.
    Stored(PrincipalId),
    /// The answer to it, without its tag.
    Answer(PrincipalId, Vec<u8>),
    /// The answer to it, without its tag, is that its version is not known; then the stream ends.
    Unsupported(PrincipalId, Vec<u8>),
    Ignored,
}

impl Authentication {
    /// Checks who sent a message and reads it; the reason for which the stream is to end.
    pub fn admit(&mut self, core: &Core, stream: StreamId, bytes: &[u8]) -> Result<Admitted, &'static str> {
        let frame = match Frame::parse_as(core.config.versions, bytes) {
            Ok(frame) => frame,
            Err(WireError::Version(_)) => return self.foreign(core, bytes),
            Err(_) => return Err("malformed"),
        };
        let Header { kind, principal, cookie, request } = frame.header;
        match self {
            Self::Certified(certified) if *certified == principal => {}
            Self::Certified(_) => return Err("principal"),
            Self::Tagged { cookie: mine, taggers, windows } => {
                let known = taggers.lock().get(&principal).cloned();
                match known {
                    Some(tagger) if tagger.verify(frame.covered, frame.tag) => {}
                    Some(_) => return Err("tag"),
                    None if windows.len() == PRINCIPALS => return Err("principals"),
                    None => {
                        let maker = core.secret().maker_of(principal, frame.covered, frame.tag);
                        let (tagger, _) = maker.ok_or("tag")?;
                        taggers.lock().insert(principal, tagger);
                        windows.insert(principal, ReplayWindow::default());
                    }
                }
                let window = windows.entry(principal).or_default();
                if cookie != *mine {
                    let mut message = Vec::new();
                    Header { kind: Kind::Challenge, principal, cookie: *mine, request }.emit(&mut message);
                    return Ok(Admitted::Answer(principal, message));
                }
                if !window.accept(request) {
                    core.metrics.dropped("replayed", 1);
                    return Ok(Admitted::Ignored);
                }
            }
        }
        if matches!(kind, Kind::Fetch | Kind::Publish | Kind::Subscribe | Kind::Browse | Kind::Amend) {
            return Ok(Admitted::Stored(principal));
        }
        let ask = Ask::parse(kind, frame.body).map_err(|_| "malformed")?;
        if matches!(ask, Ask::Challenge | Ask::DigestAnswer(_)) {
            return Err("malformed");
        }
        Ok(Admitted::Request(Box::new(Request { client: Client::Stream { stream, request }, principal, ask })))
    }

    /// A message of another version: who proves who he is gets an answer.
    fn foreign(&self, core: &Core, bytes: &[u8]) -> Result<Admitted, &'static str> {
        let Foreign { answer, covered, tag, .. } = Foreign::parse(core.config.versions, bytes).ok_or("version")?;
        let principal = answer.principal;
        match self {
            Self::Certified(certified) if *certified == principal => {}
            Self::Certified(_) => return Err("principal"),
            Self::Tagged { taggers, .. } => {
                let mut taggers = taggers.lock();
                if taggers.len() == PRINCIPALS {
                    return Err("principals");
                }
                let (tagger, _) = core.secret().maker_of(principal, covered, tag).ok_or("version")?;
                taggers.insert(principal, tagger);
            }
        }
        let mut message = Vec::new();
        answer.emit(&mut message);
        Ok(Admitted::Unsupported(principal, message))
    }
}
