//! Events of the programs.

use weft_control::netlord::{EdgePort, Location};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::MacAddr;

use super::layout::{netlord_event, netlord_event_kind};
use super::segments::finish;
use super::with_tag;
use crate::dataplane::bytes::Plain as _;

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
    /// Another edge switch reports what tenants with a rate send there.
    Claims {
        /// The frame.
        frame: Vec<u8>,
    },
}

/// Reads what the ring buffer held; none if it is no event of this build.
pub(super) fn read(bytes: &[u8]) -> Option<Event> {
    let (event, frame) = netlord_event::read(bytes)?;
    let frame = frame.get(..event.captured as usize)?;
    let ifindex = event.ifindex;
    let tag = (event.tagged != 0).then_some(event.tag);
    let segment = u16::try_from(event.segment).unwrap_or(u16::MAX);
    let path = || {
        let at = Location { switch: MacAddr(event.path.switch_mac), port: EdgePort::new(event.port.into())? };
        Some((event.path.uplink, at, VlanId::new(event.path.vlan)?))
    };
    Some(match event.kind {
        netlord_event_kind::NETLORD_EVENT_VIF => {
            let frames = finish(frame.to_vec(), segment);
            Event::FromVif { ifindex, frames: frames.iter().map(|it| with_tag(it, tag)).collect() }
        }
        netlord_event_kind::NETLORD_EVENT_UPLINK => Event::FromFabric { ifindex, frame: with_tag(frame, tag) },
        netlord_event_kind::NETLORD_EVENT_SENT => path().map(|(by, at, vlan)| Event::Sent(by, at, vlan))?,
        netlord_event_kind::NETLORD_EVENT_HEARD => path().map(|(by, at, vlan)| Event::Heard(by, at, vlan))?,
        netlord_event_kind::NETLORD_EVENT_ARP => Event::Arp { ifindex, frame: with_tag(frame, tag) },
        netlord_event_kind::NETLORD_EVENT_CLAIMS => Event::Claims { frame: frame.to_vec() },
        _ => return None,
    })
}
