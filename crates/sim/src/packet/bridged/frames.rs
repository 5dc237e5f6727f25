//! Frames under way: plain values.

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Opens a transfer.
    Syn,
    /// It is accepted.
    SynAck,
    /// It is refused.
    Refused,
    /// A segment; `number` is its sequence number in segments.
    Data,
    /// Acknowledges all segments below `number`.
    Ack,
    /// Shows switches where its sender is: from the transfer's sender, and from its receiver.
    Chirp,
    ChirpBack,
    /// Asks an agent for a sign of life of a path, and gives it. `vm` and `peer` are the hosts that send and get it.
    Hello,
    HelloBack,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The VM that sends the transfer.
    pub vm: u32,
    /// The one that gets it.
    pub peer: u32,
    pub number: u32,
    /// Which transfer of `vm`, counted from 1.
    pub transfer: u32,
    /// Bytes on the wire.
    pub len: u16,
    pub vlan: u16,
    pub kind: Kind,
    pub flags: u8,
}

/// It repeats what was sent before.
pub(super) const REPEAT: u8 = 1;
/// Its transport understands marks, and a queue has marked it, or it echoes that.
pub(super) const ECT: u8 = 2;
pub(super) const CE: u8 = 4;
/// The egress switch has routed it to its host (NetLord section 3.5).
pub(super) const ROUTED: u8 = 8;

impl Frame {
    /// Whether it is one of agents among themselves.
    #[inline]
    pub fn is_hello(&self) -> bool {
        matches!(self.kind, Kind::Hello | Kind::HelloBack)
    }

    /// Whether it belongs to a transfer, whose VLAN the agent of its sender chooses.
    #[inline]
    pub fn is_of_flow(&self) -> bool {
        matches!(self.kind, Kind::Syn | Kind::SynAck | Kind::Refused | Kind::Data | Kind::Ack)
    }

    /// From which VM to which it goes; between agents, hosts.
    #[inline]
    pub fn ends(&self) -> (u32, u32) {
        match self.kind {
            Kind::Syn | Kind::Data | Kind::Chirp | Kind::Hello | Kind::HelloBack => (self.vm, self.peer),
            Kind::SynAck | Kind::Refused | Kind::Ack | Kind::ChirpBack => (self.peer, self.vm),
        }
    }
}
