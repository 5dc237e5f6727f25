//! The settings of a plane, fixed when it is attached: the addresses of one host or switch.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use weft_fabric::MacAddr;

use crate::dataplane::Rate;

/// What a host's plane knows of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// The host's own locator address.
    pub la: Ipv4Addr,
    /// The locator of the host's own ToR: what is behind it takes one header.
    pub tor: Option<Ipv4Addr>,
    /// Outer sources: the flow's hash fills the bits below. /8 to /30, routed to this host, so that ICMP errors come back.
    pub entropy: Ipv4Net,
    /// Application addresses, IPv4. What is neither from nor to them passes untouched.
    pub aa4: Option<Ipv4Net>,
    /// The same, IPv6.
    pub aa6: Option<Ipv6Net>,
    /// Who strips the last header.
    pub locator: LocatorKind,
    /// Whether packets bounce off an intermediate switch; if not, one header for all.
    pub intermediates: bool,
    /// The next hop's MAC address, the Ethernet destination of what was encapsulated. All zero: not yet known.
    pub gateway: MacAddr,
    /// Bytes of IP that the fabric carries whole.
    pub underlay_mtu: u16,
    /// Packets of broadcast and multicast that this host may send.
    pub broadcast: Rate,
    /// The least time between two congestion events of a flow.
    pub congestion_interval: Duration,
    /// Bytes from which a TCP flow is reported as an elephant, for a scheduler to place; `None`: flows are neither counted nor placed.
    pub elephant_bytes: Option<u64>,
    /// What may arrive for a locator besides answers; `None`: everything.
    pub locator_rules: Option<BTreeSet<LocatorRule>>,
    /// Sizes of the tables.
    pub limits: Limits,
}

/// What may arrive for a locator of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LocatorRule {
    /// Packets of a protocol.
    Protocol(u8),
    /// Packets of a protocol to a port.
    Port(u8, u16),
    /// Everything to an address.
    Address(IpAddr),
}

impl LocatorRule {
    /// Rules that a host can have.
    pub const MAX: usize = 4096;
}

impl HostSettings {
    /// A host with the usual settings; set `gateway` before it sends.
    pub fn new(la: Ipv4Addr, entropy: Ipv4Net) -> Self {
        Self {
            la,
            tor: None,
            entropy,
            aa4: None,
            aa6: None,
            locator: LocatorKind::Tor,
            intermediates: true,
            gateway: MacAddr([0; 6]),
            underlay_mtu: 1600,
            broadcast: Rate { per_second: 1000, burst: 100 },
            congestion_interval: Duration::from_secs(1),
            elephant_bytes: None,
            locator_rules: None,
            limits: Limits::default(),
        }
    }
}

/// Who strips the last outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LocatorKind {
    /// The destination's ToR: inner packets arrive plain (VL2, section 4.2.1).
    #[default]
    Tor,
    /// The destination host itself, for fabrics whose switches cannot.
    Host,
}

/// Sizes of a plane's tables; they are fixed while its maps live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers, known and refused. Memory is taken as they come.
    pub peers: u32,
    /// Own or attached addresses.
    pub locals: u32,
    /// Flows whose salt and hash are remembered; the oldest are evicted. About 100 bytes each, taken at once.
    pub flows: u32,
    /// Flows that a scheduler has placed, at most. Memory is taken as they come.
    pub placements: u32,
    /// Fragmented packets in flight at one time; the oldest are evicted.
    pub fragments: u32,
    /// Bytes of events not yet read: a power of two, at least 4096.
    pub event_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { peers: 131_072, locals: 4096, flows: 16_384, placements: 4096, fragments: 1024, event_bytes: 1 << 20 }
    }
}

/// What a switch's plane knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// Application addresses, IPv4.
    pub aa4: Option<Ipv4Net>,
    /// The same, IPv6.
    pub aa6: Option<Ipv6Net>,
    /// The ToR's locator, if hosts reach a relay of DHCP there.
    pub relay: Option<Ipv4Addr>,
    /// Samples of undeliverable packets that are reported.
    pub samples: Rate,
    /// Sizes of the tables; only `locals` and `event_bytes` count here.
    pub limits: Limits,
}

impl Default for SwitchSettings {
    fn default() -> Self {
        Self { aa4: None, aa6: None, relay: None, samples: Rate { per_second: 100, burst: 20 }, limits: Limits::default() }
    }
}
