//! OpenFlow 1.3 (wire version 4) and 1.5 (wire version 6): the codec of both, and the controller's side of one connection. No I/O.
//!
//! ```text
//!   0         1        2               4               8
//!   +---------+--------+---------------+---------------+----------------------
//!   | version | type   | length        | xid           | body ...               length counts the header: 8 to 65,535
//!   +---------+--------+---------------+---------------+----------------------
//!
//!   bytes --Framer--> one message's bytes --Message::parse--> Message --emit(version)--> bytes
//!                \______________________ Session (hello, features, echo, multipart) _____/
//! ```
//! The values are the same for both versions; the version is an argument of `parse` and `emit`. What a version has no encoding for is an
//! [`EmitError`], never dropped. What Weft does not use stays bytes ([`Body::Other`], [`Action::Other`] and the like).
//!
//! The sources are the OpenFlow Switch Specifications 1.3.5 and 1.5.1, and Open vSwitch's `nicira-ext.h` and `openflow/netronome-ext.h` for
//! the extensions: `learn`, `resubmit`, `move`, registers, the selection method of a group.

pub mod action;
pub mod discovery;
pub mod entries;
pub mod error;
pub mod field;
mod field_id;
pub mod flow;
mod flow_flags;
pub mod framer;
pub mod group;
pub mod learn;
pub mod lldp;
pub mod matching;
pub mod message;
pub mod multipart;
pub mod network;
pub mod port;
mod reader;
pub mod session;
pub mod statistics;
pub mod switch;

pub use action::Action;
pub use entries::FlowEntry;
pub use error::{EmitError, ParseError};
pub use field::{Field, FieldBits, FieldId};
pub use flow::{FlowCommand, FlowMod, FlowRemoved, FlowRemovedReason, Instruction};
pub use flow_flags::FlowFlags;
pub use framer::Framer;
pub use group::{Bucket, CommandBucket, Group, GroupCommand, GroupKind, GroupMod, Property, Selection};
pub use learn::{Learn, LearnDestination, LearnSource, LearnSpec};
pub use matching::Match;
pub use message::{Body, Header, Message};
pub use multipart::{FlowFilter, MultipartReply, MultipartRequest, ReplyBody};
pub use port::{Port, PortStats, PortStatus};
pub use session::Session;
pub use statistics::Statistics;
pub use switch::{ControllerRole, ErrorMessage, Features, Hello, PacketIn, PacketOut, Role};
use weft_fabric::MacAddr;

/// The MAC address that switches have for hosts: every address is behind it.
pub const SWITCHES_MAC: MacAddr = MacAddr([0x02, 0x57, 0x45, 0x46, 0x54, 0x00]);

/// A version of the protocol that Weft speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.3, wire version 4.
    V13,
    /// OpenFlow 1.5, wire version 6.
    V15,
}

impl Version {
    /// All of them, ascending.
    pub const ALL: [Self; 2] = [Self::V13, Self::V15];

    /// The first byte of every message.
    pub const fn wire(self) -> u8 {
        match self {
            Self::V13 => 4,
            Self::V15 => 6,
        }
    }

    /// The version of a first byte; None if Weft does not speak it.
    pub const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            4 => Some(Self::V13),
            6 => Some(Self::V15),
            _ => None,
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V13 => "OpenFlow 1.3",
            Self::V15 => "OpenFlow 1.5",
        })
    }
}
