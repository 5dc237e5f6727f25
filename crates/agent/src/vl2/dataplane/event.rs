//! Events of the programs, from the ring buffer.

use std::net::{IpAddr, Ipv4Addr};

pub use weft_control::wire::packet::ip::Flow;
pub use weft_control::wire::vl2::icmp::Problem;
use weft_fabric::MacAddr;

/// Something that the programs cannot decide, or that the agent must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An application's host asks for the MAC address of an AA that is not among the peers, by ARP or NDP. The request is consumed; answer
    /// with [`inject`](super::HostPlane::inject) once it is known.
    Resolve {
        /// The AA asked for.
        target: IpAddr,
        /// Who asks: an AA of this host.
        asker: IpAddr,
        /// Where the answer goes.
        asker_mac: MacAddr,
    },
    /// An IP packet to ([`Direction::Out`]) or from ([`Direction::In`]) an AA that is not among the peers. It was consumed: hold it, and
    /// [`release`](super::HostPlane::release) it once the peer is set, or drop it.
    Miss {
        /// Its direction.
        direction: Direction,
        /// The inner source.
        source: IpAddr,
        /// The inner destination.
        destination: IpAddr,
        /// The packet.
        held: Held,
    },
    /// A flow had a severe congestion event: its sender timed out (VL2, section 4.2.2).
    Congestion {
        /// The flow.
        flow: Flow,
    },
    /// A TCP flow of this host has sent as many bytes as the settings say.
    Elephant {
        /// The flow.
        flow: Flow,
    },
    /// Such a flow has ended.
    FlowEnd {
        /// The flow.
        flow: Flow,
    },
    /// An ICMP error came back to an outer source. The sender of the inner packet has got an ICMP error.
    IcmpError {
        /// The flow it is about, if that can be known.
        flow: Option<Flow>,
        /// Who sent it.
        from: Ipv4Addr,
        /// What it says; an MTU is that of inner packets.
        problem: Problem,
    },
    /// An inner packet was too big for the fabric. Its sender has got an ICMP error.
    TooBig {
        /// The flow.
        flow: Flow,
        /// The largest inner packet that gets through.
        mtu: u16,
    },
    /// An AA behind a port of this ToR has sent DHCP to its relay. The frame was consumed.
    Dhcp {
        /// From its Ethernet header on.
        frame: Vec<u8>,
    },
    /// A sample of the packets whose inner destination is not here (any more).
    Undeliverable {
        /// The inner source, whose agent has a stale mapping.
        source: IpAddr,
        /// The inner destination.
        destination: IpAddr,
        /// The outer source: which host sent it.
        outer_source: Ipv4Addr,
        /// The outer destination: the locator that it was sent to.
        locator: Ipv4Addr,
    },
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From an application of this host.
    Out,
    /// To one.
    In,
}

/// A packet taken out of the kernel's hands, whole, with its Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub(super) frame: Vec<u8>,
    /// Bytes of TCP payload a segment, if the packet is several segments in one; 0 if not.
    pub(super) segment: u16,
}

impl Held {
    /// The frame from its Ethernet header on; TCP and UDP checksums of packets that this machine made may be incomplete.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }
}
