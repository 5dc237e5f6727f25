//! What user space writes into the planes' tables.

use std::net::Ipv4Addr;

use weft_control::directory::key::ServiceId;
use weft_control::vl2::agent::Peer;
pub use weft_control::vl2::placement::Placement;
use weft_fabric::MacAddr;

/// What the table of peers says of an AA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Packets go there and are accepted from there.
    Known(Peer),
    /// Packets to and from it are dropped and counted, without asking again.
    Refused(Refusal),
}

/// Why there are no packets to and from an AA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The directory refused to say where it is.
    Forbidden,
    /// The directory knows of no such address.
    Unknown,
}

/// An AA of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The service it belongs to; 0: none.
    pub service: ServiceId,
    /// The service's multicast address, which carries its broadcasts; none: they are dropped.
    pub multicast: Option<Ipv4Addr>,
}

/// An AA behind a port of this ToR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The port's interface index.
    pub port: u32,
    /// The host's MAC address.
    pub mac: MacAddr,
    /// The service it belongs to; 0: none.
    pub service: ServiceId,
}

/// What a TCP flow of this host has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Bytes of IP, without packets that have no room for payload.
    pub bytes: u64,
    /// When the first of them was sent, by `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
    /// Whether it was reported as an elephant, and has not ended since.
    pub is_elephant: bool,
}

/// What a switch does with packets encapsulated to one of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripRole {
    /// Strips the outer header and lets the kernel route what is inside: an anycast address of an intermediate switch.
    Intermediate,
    /// Strips the header and hands the inner packet to the port of its destination: the LA of a ToR.
    Tor,
}
