//! TCP's ends as machines without a network: [`sender::Sender`] and [`receiver::Receiver`].
//!
//! Sequence numbers count segments of one size, the last of a flow may be shorter. There is no FIN: a flow ends when its last byte has
//! been delivered in order.

pub(super) mod blocks;
mod ranges;
pub(super) mod receiver;
pub(super) mod sender;

use weft_fabric::Duration;

/// Settings of TCP, the same for all flows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tcp {
    /// How congestion is answered.
    pub congestion: Congestion,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// Whether segments are spread over the round trip.
    pub pacing: bool,
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
    /// RFC 9438.
    Cubic,
}

/// Detection and repair of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Three duplicate acknowledgements, and a hole per round trip (RFC 6582).
    NewReno,
    /// Selective acknowledgements (RFC 2018, 6675).
    Sack,
    /// The same with losses by time, and probes of a flow's tail (RFC 8985).
    Rack,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            congestion: Congestion::NewReno,
            recovery: Recovery::NewReno,
            pacing: false,
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

impl Tcp {
    /// Whether acknowledgements report what has arrived beyond a hole.
    pub fn has_sack(&self) -> bool {
        self.recovery != Recovery::NewReno
    }

    /// Whether senders need more than plain NewReno.
    fn needs_more(&self) -> bool {
        self.has_sack() || self.pacing || self.congestion == Congestion::Cubic
    }
}

/// No timer runs.
pub(super) const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests;
