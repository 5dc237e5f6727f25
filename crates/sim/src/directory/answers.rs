//! Joins a lookup and the server's answer, for checks of who learnt what.

use weft_control::directory::Key;
use weft_control::wire::directory::{Frame, Message, Versions};

use super::cluster::seen::Seen;

/// What a lookup asked.
#[derive(Debug)]
pub(super) struct Asked {
    asker: Option<Key>,
    keys: Vec<Key>,
}

/// The lookup in a datagram.
pub(super) fn asked(bytes: &[u8]) -> Option<Asked> {
    let frame = Frame::parse_as(Versions::NEXT, bytes).ok()?;
    match Message::parse(frame.header.kind, frame.body).ok()? {
        Message::Lookup(it) => Some(Asked { asker: it.asker, keys: it.keys().collect() }),
        _ => None,
    }
}

/// The answer or the correction in a datagram; who asked what is not known yet.
pub(super) fn answered(server: u16, bytes: &[u8]) -> Option<Seen> {
    let frame = Frame::parse_as(Versions::NEXT, bytes).ok()?;
    let principal = frame.header.principal;
    let answer = match Message::parse(frame.header.kind, frame.body).ok()? {
        Message::Answer(answer) => answer,
        Message::Correction(it) => {
            return Some(Seen::Corrected { server, principal, key: it.key, generation: it.generation, finding: it.finding });
        }
        _ => return None,
    };
    let nowhere = Key::App4(std::net::Ipv4Addr::UNSPECIFIED);
    Some(Seen::Answered {
        server,
        principal,
        asker: None,
        revision: answer.revision,
        policy: answer.policy,
        findings: answer.results().map(|(generation, finding)| (nowhere, generation, finding)).collect(),
    })
}

/// Adds what was asked to an answer.
pub(super) fn complete(seen: &mut Seen, asked: &Asked) {
    if let Seen::Answered { asker, findings, .. } = seen {
        *asker = asked.asker;
        for (finding, key) in findings.iter_mut().zip(&asked.keys) {
            finding.0 = *key;
        }
    }
}
