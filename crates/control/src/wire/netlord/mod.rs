//! NetLord's formats: `docs/protocol-netlord.md` specifies them to the byte. Each is a parser that never panics and gives plain values (with slices for
//! what is carried), and an emitter that appends to a buffer.

pub mod dhcp;
mod echo;
mod encapsulation;
mod inner;
mod limits;
mod lldp;
mod nl_arp;
#[cfg(test)]
mod tests;

pub use echo::echo;
pub use encapsulation::{Encapsulation, OVERHEAD, Overlay, PROTOCOL, Recipient, group_mac};
pub use inner::{Fragment, IpPacket, Ports, is_extension, route_in_place};
pub use limits::{Claim, EDGE_SWITCHES, MAX_CLAIMS, emit_claims, parse_claims};
pub use lldp::{Lldp, LldpError};
pub use nl_arp::{Here, MESSAGE, NlArp, NotHere, Question, QuestionId, UNICAST, Unicast, Where};
