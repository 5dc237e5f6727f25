//! Packets that the VL2 agent reads and makes besides those of every host ([`packet`](super::packet)) (VL2, section 4.2).
//!
//! ```text
//!   [Ethernet][IPv4 entropy -> A][IPv4 entropy -> T][inner IPv4 or IPv6]      ipip    A: anycast address, T: locator
//!   [IPv4][ICMP error][the packet that it is about]                          icmp
//!   [UDP 5304][attach, tagged]                                               attach
//!   [UDP 5305][flows and their placements, tagged]                          placement
//!   [UDP 67][DHCP of hosts, relayed]                                         dhcp
//! ```

pub mod attach;
pub mod dhcp;
pub mod icmp;
pub mod ipip;
pub mod placement;
#[cfg(test)]
mod tests;
