//! TCP's ends as machines without a network: [`sender::Sender`] and [`receiver::Receiver`].
//!
//! Sequence numbers count segments of one size, the last of a flow may be shorter. There is no FIN: a flow ends when its last byte has
//! been delivered in order.

pub(super) mod receiver;
pub(super) mod sender;

use weft_fabric::Duration;

/// Settings of TCP, the same for all flows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tcp {
    /// How congestion is answered.
    pub congestion: Congestion,
    /// Segments that may be sent before the first acknowledgement.
    pub initial_window: u32,
    /// The most segments in flight: the receiver's window.
    pub max_window: u32,
    /// Bounds of the retransmission timeout, and its value before the first measurement, in picoseconds.
    pub rto_min: u64,
    pub rto_max: u64,
    pub rto_initial: u64,
    /// Whether segments may be marked instead of dropped.
    pub ecn: bool,
    /// Waiting for a second segment before acknowledging, in picoseconds; `None`: every segment is acknowledged.
    pub delayed_ack: Option<u64>,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    /// RFC 5681 and 6582; a mark halves the window once a round trip (RFC 3168).
    NewReno,
    /// The window shrinks by the fraction of marked segments (RFC 8257).
    Dctcp,
    /// Subflows share the increase (RFC 6356); [`sender::Sender::set_increase`] sets each one's share.
    Linked,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            congestion: Congestion::NewReno,
            initial_window: 10,
            max_window: u32::MAX,
            rto_min: Duration::from_ms(200).as_ps(),
            rto_max: Duration::from_secs(60).as_ps(),
            rto_initial: Duration::from_secs(1).as_ps(),
            ecn: false,
            delayed_ack: None,
        }
    }
}

/// No timer runs.
pub(super) const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests;
