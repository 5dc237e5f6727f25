//! NetLord's data plane on Linux (NetLord, sections 3.5 to 3.8): eBPF programs on the ingress hooks of a server's interfaces and of a switch's ports, and what user
//! space reads and writes of them. What their tables cannot decide becomes an [`Event`] with the whole frame.
//!
//! ```text
//!        VM                VM                                     server
//!         |  VIF            |                                       | port 3
//!   +-----v-----------------v------+                         +------v----------------------+
//!   | netlord_vif      HostPlane   |                         | netlord_port    SwitchPlane |
//!   |   source, VIF here, known? --+--> Event                |   learn; to itself: p.0.0.0/8 -> port p
//!   | netlord_uplink               |                         |   else: known port, or all of the VLAN
//!   |   encapsulation -> VIF here -+--> Event                +------^----------------------+
//!   +-----^------------------------+                                | trunks
//!         | interface to the fabric
//! ```
//! Programs, maps and filters outlive the process, as VL2's do.

mod budgets;
mod counters;
mod event;
mod host;
mod layout;
mod segments;
mod settings;
mod switch;
mod tables;
#[cfg(test)]
mod tests;

pub use budgets::Handed;
pub use counters::{HOST_COUNTERS, Named, SWITCH_COUNTERS};
pub use event::Event;
pub use host::HostPlane;
pub use segments::finish;
pub use settings::{HostSettings, SwitchSettings};
pub use switch::SwitchPlane;
pub use tables::{FibEntry, Inherited, InheritedVif, Limit, Port, TenantTraffic};

/// What a frame looks like between its interface and the agent: with its tag in line.
pub(super) fn with_tag(frame: &[u8], tag: Option<u16>) -> Vec<u8> {
    let Some(tag) = tag.filter(|_| frame.len() >= 12) else { return frame.to_vec() };
    let mut tagged = Vec::with_capacity(frame.len() + 4);
    tagged.extend_from_slice(&frame[..12]);
    tagged.extend_from_slice(&[0x81, 0x00]);
    tagged.extend_from_slice(&tag.to_be_bytes());
    tagged.extend_from_slice(&frame[12..]);
    tagged
}
