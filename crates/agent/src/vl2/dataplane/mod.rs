//! The data plane of VL2 on Linux: eBPF programs on the traffic control hooks of a host's NIC and of a switch's ports, and what user space
//! reads and writes of them. No policy: what is unknown becomes an [`Event`], and the agent decides (VL2, sections 4.2.1 to 4.2.3).
//!
//! ```text
//!                 applications                                        from the fabric
//!                      |  inner packet, AA to AA                             |
//!   HostPlane   egress v                                             ingress v
//!          +-----------------------+  unknown: Event, held     +------------------------+
//!          | own source? peer? ----+-------------------------->| strip if for us        |
//!          | ARP and NDP answered  |<--- inject, release ------| peer known? own target?|
//!          | headers pushed        |                           +------------------------+
//!          +-----------------------+                                         | inner packet
//!                      | [IP entropy->anycast][IP entropy->locator][inner]   v
//!                      v                                               applications
//!   SwitchPlane   ingress of every port: strips what is for an anycast address (the kernel routes the rest) or for the ToR's own
//!                 (delivered to the port of the inner destination; a sample of what has none becomes an Event)
//! ```
//! Programs, maps and filters outlive the process: they are pinned in a folder of bpffs, and the next [`HostPlane::attach`] with that
//! folder adopts them as they are.

mod counters;
mod event;
mod hash;
mod host;
mod icmp;
mod layout;
mod settings;
mod switch;
mod tables;
#[cfg(test)]
mod tests;

pub use counters::{Counter, Counters};
pub use event::{Direction, Event, Flow, Held, Problem};
pub use host::HostPlane;
pub use icmp::icmp_error_to_sender;
pub(crate) use layout::MARK_PROBE;
pub use settings::{HostSettings, Limits, LocatorKind, LocatorRule, SwitchSettings};
pub use switch::SwitchPlane;
pub use tables::{Attached, Count, Local, PeerState, Placement, Refusal, StripRole};
pub use weft_control::vl2::agent::{Peer, PeerKey, VIRTUAL_MAC};

/// Bytes that one outer header takes; a packet carries two, or one if it crosses no intermediate switch.
pub const OUTER_HEADER: u16 = 20;
