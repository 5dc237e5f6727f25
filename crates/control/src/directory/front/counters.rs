//! What a front counts.

use super::answer::Tally;
use crate::wire::directory::WireError;

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is no message of this protocol.
    Malformed,
    /// It has another version of the protocol.
    Version,
    /// It is longer than a datagram may be.
    Oversized,
    /// A message that no server gets, or none by datagram.
    Unexpected,
    /// It has the principal 0.
    Principal,
    /// The tag is wrong: forged, or damaged.
    Tag,
    /// The request was there before.
    Replayed,
    /// The sender's role may not send this.
    Refused,
    /// A Sync that this server may not answer: it does not know of all withdrawals.
    Behind,
    /// Of a principal that is denied.
    Denied,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Version,
        Self::Oversized,
        Self::Unexpected,
        Self::Principal,
        Self::Tag,
        Self::Replayed,
        Self::Refused,
        Self::Behind,
        Self::Denied,
    ];

    /// For logs and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Oversized => "oversized",
            Self::Unexpected => "unexpected",
            Self::Principal => "principal",
            Self::Tag => "tag",
            Self::Replayed => "replayed",
            Self::Refused => "refused",
            Self::Behind => "behind",
            Self::Denied => "denied",
        }
    }

    /// Why a message that cannot be read is dropped.
    pub const fn of(error: WireError) -> Self {
        match error {
            WireError::Version(_) => Self::Version,
            _ => Self::Malformed,
        }
    }
}

/// What a front counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub datagrams: u64,
    /// Answers given, challenges not among them.
    pub answers: u64,
    /// Challenges given.
    pub challenges: u64,
    /// Requests handed to the machine.
    pub forwarded: u64,
    /// Lookups answered.
    pub lookups: u64,
    /// Keys of lookups that were found.
    pub found: u64,
    /// Keys that do not exist.
    pub unknown: u64,
    /// Keys that the asker may not know.
    pub forbidden: u64,
    /// Keys for which another server is to be asked.
    pub elsewhere: u64,
    /// Syncs received.
    pub syncs: u64,
    /// Questions for health received.
    pub healths: u64,
    drops: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Datagrams dropped for a reason.
    pub const fn dropped(&self, reason: Reason) -> u64 {
        self.drops[reason as usize]
    }

    pub(super) const fn drop(&mut self, reason: Reason) {
        self.drops[reason as usize] += 1;
    }

    pub(super) const fn count_look_up(&mut self, tally: &Tally) {
        self.lookups += 1;
        self.found += tally.found;
        self.unknown += tally.unknown;
        self.forbidden += tally.forbidden;
        self.elsewhere += tally.elsewhere;
    }
}
