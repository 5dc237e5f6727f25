//! What a client can run into.

use std::time::Duration;

use weft_control::directory::{Generation, Key, PrincipalId};
use weft_control::wire::directory::VERSION;

/// What a client can run into, with the next step.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not `host:port`, or the name is not known.
    #[error("`{address}` is not a server's address: {why}")]
    Address {
        /// As given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answered.
    #[error("no answer from {servers} within {after:?}: {why}")]
    NoAnswer {
        /// Who was asked.
        servers: String,
        /// For how long.
        after: Duration,
        /// What was heard last.
        why: &'static str,
    },
    /// An update was sent, and nobody said in time what became of it.
    #[error("{why}; the update may have been applied or not")]
    InDoubt {
        /// Its number.
        number: u64,
        /// The revision known before it was first sent. The same update again, with the same two, finds out and is never applied twice.
        known: Generation,
        /// What was heard last.
        why: Box<ClientError>,
    },
    /// A stream could not be opened, or broke.
    #[error("{server}: {why}")]
    Stream {
        /// The server.
        server: String,
        /// What happened.
        why: String,
    },
    /// The server speaks another version of the protocol.
    #[error("{server} speaks version {version} of the protocol, this program version {VERSION}")]
    Version {
        /// The server.
        server: String,
        /// Its version.
        version: u8,
    },
    /// A certificate or its key cannot be used.
    #[error("{file}: {why}")]
    Certificate {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Lookups need the principal's key.
    #[error("the key of principal {} is not known", .0.0)]
    NoKey(PrincipalId),
    /// There is no such part.
    #[error("there is no part `{name}`: {}", if .parts.is_empty() { "the directory is not divided" } else { .parts })]
    NoPart {
        /// As given.
        name: String,
        /// Those that there are.
        parts: String,
    },
    /// An update of keys that are in different stores.
    #[error("{} is in part {}, and {} in part {}: an update is of one part", .first.0, .first.1, .other.0, .other.1)]
    TwoParts {
        /// A key and its part.
        first: (Key, String),
        /// One of another.
        other: (Key, String),
    },
    /// The message does not fit.
    #[error("{0} bytes do not fit a datagram: ask for less at once")]
    TooLong(usize),
    /// The machine's fault.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] std::io::Error),
}

impl ClientError {
    /// Whether asking again, or another server, cannot help.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Address { .. }
                | Self::Certificate { .. }
                | Self::NoKey(_)
                | Self::TooLong(_)
                | Self::NoPart { .. }
                | Self::TwoParts { .. }
        )
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Address { .. } => "write host:port, or [address]:port for IPv6; several with commas between",
            Self::NoAnswer { .. } => {
                "is the server up (`weft directory serve`), is `--servers` right, and is the key that of this principal and cluster? A server drops what has a wrong tag"
            }
            Self::InDoubt { why, .. } => why.help(),
            Self::Stream { .. } => {
                "is the server up, is it of the same `--auth`, and is the certificate signed by its authority, with its role in the policy?"
            }
            Self::Version { .. } => "upgrade the older of the two; `weft --version` and the server's log name them",
            Self::Certificate { .. } => "`weft directory key --principal N --certificate FILE` makes one",
            Self::NoKey(_) => "give `--key FILE` (`weft directory key --principal N` prints it), or `--dir` with the secret",
            Self::NoPart { .. } => "parts are listed in the servers' policy.toml, as [[part]]",
            Self::TwoParts { .. } => "send an update for each part",
            Self::TooLong(_) => "a datagram has 1,400 bytes",
            Self::Socket(_) => "see the system's message",
        }
    }
}
