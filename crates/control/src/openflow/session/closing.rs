//! Why a session is closed, for the operator.

use std::fmt;

use super::super::Version;
use super::super::error::ParseError;
use super::super::switch::ErrorMessage;

/// Why a session is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// No version in common.
    #[error("the switch speaks {}; Weft speaks {}", Spoken(switch), Versions(weft))]
    Version {
        /// The wire versions that the switch speaks, ascending.
        switch: Vec<u8>,
        /// The versions that Weft speaks on this connection.
        weft: Vec<Version>,
    },
    /// The switch answered the handshake with an error.
    #[error("the switch refused the handshake: {0}")]
    Refused(ErrorMessage),
    /// The switch's first message is another one.
    #[error("the switch began with {0}, not a hello: is it an OpenFlow connection?")]
    NoHello(&'static str),
    /// The handshake took too long.
    #[error("the switch did not complete the handshake in {} s", super::HANDSHAKE_TIMEOUT.as_secs_f64())]
    Handshake,
    /// No message for too long.
    #[error("no message from the switch for {} s", super::SILENCE_TIMEOUT.as_secs_f64())]
    Silence,
    /// A length is wrong: where the next message begins is not known.
    #[error("the switch's bytes are not OpenFlow: {0}")]
    Stream(ParseError),
    /// A message of the handshake cannot be read.
    #[error("the switch's handshake cannot be read: {0}")]
    Malformed(ParseError),
    /// Unfinished multipart replies take too much memory.
    #[error("unfinished multipart replies of more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Two parts of one reply do not belong together.
    #[error("the parts of multipart reply {xid} are of different types")]
    Mixed {
        /// Its xid.
        xid: u32,
    },
}

/// Wire versions, as the specifications call them.
struct Spoken<'a>(&'a [u8]);

/// Versions, without the protocol's name.
struct Versions<'a>(&'a [Version]);

impl fmt::Display for Spoken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no version of OpenFlow");
        }
        let names = self.0.iter().map(|&wire| match wire {
            1..=6 => format!("1.{}", wire - 1),
            other => format!("version {other}"),
        });
        let wire = self.0.iter().map(u8::to_string);
        let plural = if self.0.len() > 1 { "s" } else { "" };
        write!(f, "OpenFlow {} (wire version{plural} {})", list(names), list(wire))
    }
}

impl fmt::Display for Versions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&list(self.0.iter().map(|version| format!("1.{}", version.wire() - 1))))
    }
}

/// "a", "a and b", "a, b and c".
fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}
