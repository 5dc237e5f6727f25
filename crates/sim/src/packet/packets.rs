//! Packets under way: plain values of 16 bytes.

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A segment of a TCP flow: `number` is its sequence number in segments.
    Data,
    /// Acknowledges all segments below `number`.
    Ack,
    /// The same where hosts use SACK; with [`BLOCKS`], it also reports what has arrived beyond a hole.
    Sack,
    /// Opens a connection.
    Syn,
    /// Answers it.
    SynAck,
    /// A datagram that asks; `number` counts the requests of its flow.
    Request,
    /// A datagram that answers.
    Response,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Its flow (for MPTCP its subflow), by place in the tables of endpoints.
    pub flow: u32,
    /// What its kind says.
    pub number: u32,
    /// Where it is: a place in [`super::paths::Paths`], that of the link it is on.
    pub place: u32,
    /// Bytes on the wire.
    pub len: u16,
    pub kind: Kind,
    pub flags: u8,
}

/// Its transport understands congestion marks.
pub(super) const ECT: u8 = 1;
/// A queue marked it, or an acknowledgement echoes that.
pub(super) const CE: u8 = 2;
/// It repeats what was sent before.
pub(super) const REPEAT: u8 = 4;
/// An acknowledgement has blocks: its entry of [`super::net::Net::blocks`].
pub(super) const BLOCKS: u8 = 8;
