//! The bytes of the maps' keys and values and of the events: the other half of `bpf/vl2/layout.h`, written and read field by field.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use weft_control::directory::key::{GroupId, ServiceId};
use weft_fabric::MacAddr;

use super::{
    Attached, Flow, HostSettings, Local, LocatorKind, OUTER_HEADER, Peer, PeerState, Refusal, SwitchSettings, VIRTUAL_MAC,
};
use crate::dataplane::bytes::{Writer, address, array, read_address};
use crate::dataplane::{PlaneError, Rate, Result};

/// Marks of packets that the agent sends; only CAP_NET_ADMIN sets marks.
pub(super) const MARK_TO_STACK: u32 = 0x5746_0001;
pub(super) const MARK_RELEASE_IN: u32 = 0x5746_0002;
pub(super) const MARK_RELEASE_OUT: u32 = 0x5746_0003;

/// Addresses per group, at most.
pub(super) const GROUP_MAX: usize = 16;
/// Outer sources whose last flow is remembered, at most.
pub(super) const PATHS_MAX: u32 = 65_536;

/// Bytes of the values, by map; a pinned map of another size is of another build.
pub(super) const SETTINGS: usize = 128;
pub(super) const PEER: usize = 16;
pub(super) const LOCAL: usize = 20;
pub(super) const GROUP: usize = 4 + 4 * GROUP_MAX;
pub(super) const FLOW: usize = 40;
pub(super) const FLOW_STATE: usize = 16;
/// Bytes of an event before the frame.
pub(super) const EVENT: usize = 24 + FLOW;

/// An address and a mask; nothing is within none: its mask is empty and its address is not.
fn prefix4(prefix: Option<Ipv4Net>) -> [u8; 32] {
    let Some(prefix) = prefix else { return nothing() };
    let mask = Ipv6Addr::from(u128::MAX << 32 | u128::from(prefix.netmask().to_bits())).octets();
    Writer::new().put(&address(prefix.network().into())).put(&mask).done()
}

fn prefix6(prefix: Option<Ipv6Net>) -> [u8; 32] {
    let Some(prefix) = prefix else { return nothing() };
    Writer::new().put(&prefix.network().octets()).put(&prefix.netmask().octets()).done()
}

fn nothing() -> [u8; 32] {
    Writer::new().put(&[0xff; 16]).skip(16).done()
}

const LOCATOR_HOST: u32 = 1;
const INTERMEDIATES: u32 = 2;

/// A host's settings, with its NIC's MAC address.
///
/// # Errors
/// [`PlaneError::Setting`] if they contradict each other.
pub(super) fn host_settings(s: &HostSettings, mac: MacAddr) -> Result<[u8; SETTINGS]> {
    check(s)?;
    let tor = s.tor.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let mut flags = if s.locator == LocatorKind::Host { LOCATOR_HOST } else { 0 };
    flags |= if s.intermediates { INTERMEDIATES } else { 0 };
    let interval = u64::try_from(s.congestion_interval.as_nanos()).unwrap_or(u64::MAX);
    let writer = Writer::new().put(&prefix4(s.aa4)).put(&prefix6(s.aa6)).put(&s.la.octets()).put(&tor.octets());
    let writer = writer.put(&s.entropy.network().octets()).put(&s.entropy.netmask().octets());
    let writer = writer.put(&s.gateway.0).put(&mac.0).number(flags).number(u32::from(s.underlay_mtu));
    let writer = rate(rate(writer, s.broadcast), UNDELIVERABLE);
    Ok(writer.skip(4).put(&interval.to_ne_bytes()).done())
}

fn check(s: &HostSettings) -> Result<()> {
    let wrong = |text: String| Err(PlaneError::Setting(text));
    if !(8..=30).contains(&s.entropy.prefix_len()) {
        return wrong(format!("entropy prefix {}: its length is to be from 8 to 30", s.entropy));
    }
    if s.underlay_mtu < 576 + 2 * OUTER_HEADER {
        return wrong(format!("underlay MTU {}: inner packets of 576 bytes have to fit", s.underlay_mtu));
    }
    let among = |aa4: Ipv4Net| [Some(s.la), s.tor, Some(s.entropy.network())].into_iter().flatten().any(|la| aa4.contains(&la));
    if let Some(aa4) = s.aa4.filter(|&aa4| among(aa4)) {
        return wrong(format!("AAs {aa4} and locator addresses (LA {}, entropy {}) are to be apart", s.la, s.entropy));
    }
    if s.aa6.is_some_and(|aa6| aa6.contains(&s.la.to_ipv6_mapped()) || aa6.prefix_len() < 8) {
        return wrong("the prefix of IPv6 AAs is to be of length 8 or more, and no mapped IPv4".to_owned());
    }
    Ok(())
}

/// A switch's settings.
pub(super) fn switch_settings(s: &SwitchSettings) -> [u8; SETTINGS] {
    let writer = Writer::new().put(&prefix4(s.aa4)).put(&prefix6(s.aa6)).skip(16 + 12 + 16);
    rate(writer, s.samples).skip(4 + 8).done()
}

/// Samples of undeliverable packets that a host reports if it is its own locator.
const UNDELIVERABLE: Rate = Rate { per_second: 100, burst: 20 };

/// A token bucket; the programs count billionths of a packet over ten seconds in 64 bits.
fn rate<const N: usize>(writer: Writer<N>, rate: Rate) -> Writer<N> {
    writer.number(rate.per_second.min(1_000_000_000)).number(rate.burst)
}

/// An entry of the table of peers.
pub(super) fn peer(state: &PeerState, used: bool) -> [u8; PEER] {
    let (peer, number) = match state {
        PeerState::Known(peer) => (*peer, 0),
        PeerState::Refused(refusal) => {
            let none = Peer { locator: Ipv4Addr::UNSPECIFIED, group: GroupId(0), mac: None, mtu: 0 };
            (none, if *refusal == Refusal::Forbidden { 1 } else { 2 })
        }
    };
    let writer = Writer::new().put(&peer.locator.octets()).put(&peer.group.0.to_ne_bytes()).put(&peer.mtu.to_ne_bytes());
    writer.put(&peer.mac.unwrap_or(VIRTUAL_MAC).0).put(&[number, u8::from(used)]).done()
}

/// The reverse, and whether it was used.
pub(super) fn read_peer(bytes: &[u8]) -> (PeerState, bool) {
    let mac = MacAddr(array(bytes, 8));
    let peer = Peer {
        locator: Ipv4Addr::from(array::<4>(bytes, 0)),
        group: GroupId(u16::from_ne_bytes(array(bytes, 4))),
        mac: (mac != VIRTUAL_MAC).then_some(mac),
        mtu: u16::from_ne_bytes(array(bytes, 6)),
    };
    let state = match bytes[14] {
        0 => PeerState::Known(peer),
        1 => PeerState::Refused(Refusal::Forbidden),
        _ => PeerState::Refused(Refusal::Unknown),
    };
    (state, bytes[15] != 0)
}

/// An AA of a host.
pub(super) fn local(local: &Local) -> [u8; LOCAL] {
    let multicast = local.multicast.unwrap_or(Ipv4Addr::UNSPECIFIED);
    Writer::new().put(&multicast.octets()).number(local.service.0).skip(12).done()
}

/// The reverse.
pub(super) fn read_local(bytes: &[u8]) -> Local {
    let multicast = Ipv4Addr::from(array::<4>(bytes, 0));
    let service = ServiceId(u32::from_ne_bytes(array(bytes, 4)));
    Local { service, multicast: (!multicast.is_unspecified()).then_some(multicast) }
}

/// An AA behind a port.
pub(super) fn attached(a: &Attached) -> [u8; LOCAL] {
    Writer::new().skip(4).number(a.service.0).number(a.port).put(&a.mac.0).skip(2).done()
}

/// The reverse.
pub(super) fn read_attached(bytes: &[u8]) -> Attached {
    let service = ServiceId(u32::from_ne_bytes(array(bytes, 4)));
    Attached { port: u32::from_ne_bytes(array(bytes, 8)), mac: MacAddr(array(bytes, 12)), service }
}

/// The anycast addresses of a group.
pub(super) fn group(anycast: &[Ipv4Addr]) -> [u8; GROUP] {
    let count = u32::try_from(anycast.len()).unwrap_or(u32::MAX);
    let writer = anycast.iter().fold(Writer::new().number(count), |writer, a| writer.put(&a.octets()));
    writer.skip(4 * (GROUP_MAX - anycast.len())).done()
}

/// A five-tuple.
pub(super) fn flow(f: &Flow) -> [u8; FLOW] {
    let writer = Writer::new().put(&address(f.source)).put(&address(f.destination));
    writer.put(&f.source_port.to_be_bytes()).put(&f.destination_port.to_be_bytes()).put(&[f.protocol, 0, 0, 0]).done()
}

/// The reverse.
pub(super) fn read_flow(bytes: &[u8]) -> Flow {
    Flow {
        source: read_address(array(bytes, 0)),
        destination: read_address(array(bytes, 16)),
        protocol: bytes[36],
        source_port: u16::from_be_bytes(array(bytes, 32)),
        destination_port: u16::from_be_bytes(array(bytes, 34)),
    }
}

/// An event before it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub kind: u32,
    pub segment: u16,
    pub mtu: u16,
    pub outer_source: Ipv4Addr,
    pub locator: Ipv4Addr,
    pub flow: Flow,
    pub frame: Vec<u8>,
}

pub(super) const EVENT_RESOLVE: u32 = 1;
pub(super) const EVENT_MISS_OUT: u32 = 2;
pub(super) const EVENT_MISS_IN: u32 = 3;
pub(super) const EVENT_CONGESTION: u32 = 4;
pub(super) const EVENT_ICMP: u32 = 5;
pub(super) const EVENT_TOO_BIG: u32 = 6;
pub(super) const EVENT_UNDELIVERABLE: u32 = 7;

/// Reads what the ring buffer held; none if it is no event of this build.
pub(super) fn read_event(bytes: &[u8]) -> Option<RawEvent> {
    let (head, frame) = bytes.split_at_checked(EVENT)?;
    let number = |at: usize| u32::from_ne_bytes(array(head, at));
    Some(RawEvent {
        kind: number(0),
        segment: u16::try_from(number(8)).unwrap_or(u16::MAX),
        mtu: u16::try_from(number(12)).unwrap_or(u16::MAX),
        outer_source: Ipv4Addr::from(array::<4>(head, 16)),
        locator: Ipv4Addr::from(array::<4>(head, 20)),
        flow: read_flow(&head[24..]),
        frame: frame.get(..number(4) as usize)?.to_vec(),
    })
}
