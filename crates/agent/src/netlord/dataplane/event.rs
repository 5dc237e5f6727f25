//! Events of the programs.

use weft_control::netlord::{EdgePort, Location};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::MacAddr;

use super::segments::finish;
use super::with_tag;
use crate::dataplane::bytes::array;

/// Something that the tables did not decide, or that the agent is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A VM has sent a frame.
    FromVif {
        /// The VIF's interface.
        ifindex: u32,
        /// What it would have been on a wire: checksums made, one frame a segment, tags in line.
        frames: Vec<Vec<u8>>,
    },
    /// A frame has come from the fabric.
    FromFabric {
        /// By which interface.
        ifindex: u32,
        /// The frame, its tag in line.
        frame: Vec<u8>,
    },
    /// Frames are sent by an interface to a place, by a VLAN.
    Sent(u32, Location, VlanId),
    /// Frames come to an interface from a place, by a VLAN.
    Heard(u32, Location, VlanId),
    /// A switch has a frame for a server whose MAC address it does not know, or a server's ARP has come.
    Arp {
        /// The port that it came by.
        ifindex: u32,
        /// The frame.
        frame: Vec<u8>,
    },
}

/// Bytes of an event before the frame: `struct netlord_event`.
pub(super) const HEAD: usize = 32;

const FROM_VIF: u32 = 1;
const FROM_UPLINK: u32 = 2;
const SENT: u32 = 3;
const HEARD: u32 = 4;
const ARP: u32 = 5;

/// Reads what the ring buffer held; none if it is no event of this build.
pub(super) fn read(bytes: &[u8]) -> Option<Event> {
    let (head, frame) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| u32::from_ne_bytes(array(head, at));
    let (kind, ifindex) = (number(0), number(8));
    let tag = (head[18] != 0).then(|| u16::from_ne_bytes(array(head, 16)));
    let whole = || Some(with_tag(frame.get(..number(4) as usize)?, tag));
    let segment = u16::try_from(number(12)).unwrap_or(u16::MAX);
    let finished = || {
        let frames = finish(frame.get(..number(4) as usize)?.to_vec(), segment);
        Some(frames.iter().map(|it| with_tag(it, tag)).collect())
    };
    let path = || {
        let at = Location { switch: MacAddr(array(head, 24)), port: EdgePort::new(u16::from(head[19]))? };
        Some((number(20), at, VlanId::new(u16::from_ne_bytes(array(head, 30)))?))
    };
    Some(match kind {
        FROM_VIF => Event::FromVif { ifindex, frames: finished()? },
        FROM_UPLINK => Event::FromFabric { ifindex, frame: whole()? },
        SENT => path().map(|(by, at, vlan)| Event::Sent(by, at, vlan))?,
        HEARD => path().map(|(by, at, vlan)| Event::Heard(by, at, vlan))?,
        ARP => Event::Arp { ifindex, frame: whole()? },
        _ => return None,
    })
}
