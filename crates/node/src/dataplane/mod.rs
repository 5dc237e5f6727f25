//! The data plane of VL2 on Linux: eBPF programs on the traffic control hooks of a host's NIC and of a switch's ports, and what user space
//! reads and writes of them. No policy: what is unknown becomes an [`Event`], and whoever reads it decides (VL2, sections 4.2.1 to 4.2.3).
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
mod error;
mod event;
mod hash;
mod host;
mod icmp;
mod layout;
mod load;
mod maps;
pub mod netlord;
mod nic;
mod release;
mod ring;
mod settings;
mod switch;
mod tables;
#[cfg(test)]
mod tests;

pub use counters::{Counter, Counters};
pub use error::{PlaneError, Result};
pub use event::{Direction, Event, Flow, Held};
pub use host::HostPlane;
pub use settings::{HostSettings, Limits, LocatorKind, Rate, SwitchSettings};
pub use switch::SwitchPlane;
pub use tables::{Attached, Local, Peer, PeerState, Refusal, StripRole};

/// The MAC address that answers ARP and NDP for peers whose mapping names none.
pub const VIRTUAL_MAC: weft_fabric::MacAddr = weft_fabric::MacAddr([0x02, 0x57, 0x46, 0x54, 0x00, 0x01]);

/// Looks whether the calling thread's network namespace has an Ethernet interface of this name.
///
/// # Errors
/// [`PlaneError::NoInterface`], [`PlaneError::NotEthernet`].
pub fn find_interface(name: &str) -> Result<()> {
    nic::Nic::find(name).map(|_| ())
}

/// Bytes that one outer header takes; a packet carries two, or one if it crosses no intermediate switch.
pub const OUTER_HEADER: u16 = 20;
