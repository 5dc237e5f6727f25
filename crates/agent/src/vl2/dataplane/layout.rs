//! The tables of the programs, and the domain's values as their keys and values: the types of `bpf/vl2/layout.h`, generated from the programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use weft_control::directory::key::{GroupId, ServiceId};
use weft_fabric::MacAddr;

use super::{
    Attached, Count, Flow, HostSettings, Local, LocatorKind, LocatorRule, OUTER_HEADER, Peer, PeerKey, PeerState, Placement,
    Refusal, StripRole, SwitchSettings, VIRTUAL_MAC,
};
use crate::dataplane::bytes::{Plain, address, array, be, plain, read_address, read_be};
pub(super) use crate::dataplane::generated::vl2_host::types::{
    vl2_address, vl2_count, vl2_count_flags, vl2_event, vl2_event_kind, vl2_flags, vl2_flow, vl2_flow_state, vl2_group,
    vl2_local, vl2_path, vl2_peer, vl2_peer_key, vl2_peer_state, vl2_placement, vl2_prefix, vl2_rule, vl2_settings,
};
pub(super) use crate::dataplane::generated::vl2_switch::types::{vl2_source, vl2_strip};
use crate::dataplane::maps::TableName;
use crate::dataplane::{PlaneError, Rate, Result};

plain!(
    vl2_address,
    vl2_count,
    vl2_event,
    vl2_flow,
    vl2_flow_state,
    vl2_group,
    vl2_local,
    vl2_path,
    vl2_peer,
    vl2_peer_key,
    vl2_placement,
    vl2_rule,
    vl2_settings,
    vl2_source,
    vl2_strip
);

pub(super) const SETTINGS: TableName<u32, vl2_settings> = TableName::new("settings");
pub(super) const PEERS: TableName<vl2_peer_key, vl2_peer> = TableName::new("peers");
pub(super) const LOCALS: TableName<vl2_address, vl2_local> = TableName::new("locals");
pub(super) const GROUPS: TableName<u32, vl2_group> = TableName::new("groups");
/// By address, in network order.
pub(super) const MULTICASTS: TableName<u32, u32> = TableName::new("multicasts");
pub(super) const FLOWS: TableName<vl2_flow, vl2_flow_state> = TableName::new("flows");
pub(super) const COUNTS: TableName<vl2_flow, vl2_count> = TableName::new("counts");
pub(super) const PLACEMENTS: TableName<vl2_flow, vl2_placement> = TableName::new("placements");
pub(super) const PATHS: TableName<u32, vl2_path> = TableName::new("paths");
/// By address, in network order.
pub(super) const STRIPS: TableName<u32, vl2_strip> = TableName::new("strips");

/// What may arrive for a locator.
pub(super) const RULES: TableName<vl2_rule, u32> = TableName::new("rules");
/// Ports with hosts, by interface index: 1 if the locators that may send there are in `sources`.
pub(super) const HOST_PORTS: TableName<u32, u32> = TableName::new("host_ports");
/// The port of each prefix of locators.
pub(super) const SOURCES: TableName<vl2_source, u32> = TableName::new("sources");

/// Marks of packets that the agent sends; only CAP_NET_ADMIN sets marks.
pub(super) const MARK_TO_STACK: u32 = 0x5746_0001;
pub(super) const MARK_RELEASE_IN: u32 = 0x5746_0002;
pub(super) const MARK_RELEASE_OUT: u32 = 0x5746_0003;
#[cfg(test)]
pub(super) const MARK_TO_TOR: u32 = 0x5746_0004;
/// Of probes that are encapsulated by the prober.
pub(crate) const MARK_PROBE: u32 = 0x5746_0005;

/// Outer sources whose last flow is remembered, at most.
pub(super) const PATHS_MAX: u32 = 65_536;

/// An address, of either version.
pub(super) fn key(ip: IpAddr) -> vl2_address {
    words(address(ip))
}

/// The reverse.
pub(super) fn read_key(address: &vl2_address) -> IpAddr {
    read_address(array(address.bytes(), 0))
}

/// A peer of a service.
pub(super) fn peer_key(peer: PeerKey) -> vl2_peer_key {
    vl2_peer_key { address: key(peer.address), service: peer.service.0 }
}

/// The reverse.
pub(super) fn read_peer_key(peer: &vl2_peer_key) -> PeerKey {
    PeerKey { service: ServiceId(peer.service), address: read_key(&peer.address) }
}

fn words(octets: [u8; 16]) -> vl2_address {
    vl2_address { word: std::array::from_fn(|n| u32::from_ne_bytes(array(&octets, 4 * n))) }
}

fn prefix4(prefix: Option<Ipv4Net>) -> vl2_prefix {
    let Some(prefix) = prefix else { return nothing() };
    let mask = Ipv6Addr::from(u128::MAX << 32 | u128::from(prefix.netmask().to_bits()));
    vl2_prefix { address: key(prefix.network().into()), mask: words(mask.octets()) }
}

fn prefix6(prefix: Option<Ipv6Net>) -> vl2_prefix {
    let Some(prefix) = prefix else { return nothing() };
    vl2_prefix { address: words(prefix.network().octets()), mask: words(prefix.netmask().octets()) }
}

/// Nothing is within: the mask is empty and the address is not.
fn nothing() -> vl2_prefix {
    vl2_prefix { address: words([0xff; 16]), ..vl2_prefix::default() }
}

/// A host's settings, with its NIC's MAC address, and the service on whose behalf its link-local addresses ask.
///
/// # Errors
/// [`PlaneError::Setting`] if they contradict each other.
pub(super) fn host_settings(s: &HostSettings, mac: MacAddr, service: ServiceId) -> Result<vl2_settings> {
    check(s)?;
    let flag = |is_set: bool, flag: vl2_flags| if is_set { flag.0 } else { 0 };
    let locator = flag(s.locator == LocatorKind::Host, vl2_flags::VL2_LOCATOR_HOST);
    Ok(vl2_settings {
        aa4: prefix4(s.aa4),
        aa6: prefix6(s.aa6),
        la: be(s.la),
        tor: be(s.tor.unwrap_or(Ipv4Addr::UNSPECIFIED)),
        entropy: be(s.entropy.network()),
        entropy_mask: be(s.entropy.netmask()),
        gateway: s.gateway.0,
        mac: mac.0,
        flags: vl2_flags(
            locator
                | flag(s.intermediates, vl2_flags::VL2_INTERMEDIATES)
                | flag(s.elephant_bytes.is_some(), vl2_flags::VL2_PLACEMENTS)
                | flag(s.locator_rules.is_some(), vl2_flags::VL2_LOCATOR_RULES),
        ),
        service: service.0,
        mtu: s.underlay_mtu.into(),
        broadcast_per_second: per_second(s.broadcast),
        broadcast_burst: s.broadcast.burst,
        samples_per_second: per_second(UNDELIVERABLE),
        samples_burst: UNDELIVERABLE.burst,
        congestion_ns: u64::try_from(s.congestion_interval.as_nanos()).unwrap_or(u64::MAX),
        elephant_bytes: s.elephant_bytes.unwrap_or(u64::MAX),
    })
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
pub(super) fn switch_settings(s: &SwitchSettings) -> vl2_settings {
    let (samples_per_second, samples_burst) = (per_second(s.samples), s.samples.burst);
    let la = be(s.relay.unwrap_or(Ipv4Addr::UNSPECIFIED));
    vl2_settings { aa4: prefix4(s.aa4), aa6: prefix6(s.aa6), la, samples_per_second, samples_burst, ..vl2_settings::default() }
}

/// Samples of undeliverable packets that a host reports if it is its own locator.
const UNDELIVERABLE: Rate = Rate { per_second: 100, burst: 20 };

/// The programs count billionths of a packet over ten seconds in 64 bits.
fn per_second(rate: Rate) -> u32 {
    rate.per_second.min(1_000_000_000)
}

/// An entry of the table of peers.
pub(super) fn peer(state: &PeerState, used: bool) -> vl2_peer {
    let used = used.into();
    match state {
        PeerState::Known(Peer { locator, group, mac }) => {
            let mac = mac.unwrap_or(VIRTUAL_MAC).0;
            vl2_peer { locator: be(*locator), group: group.0, mac, state: vl2_peer_state::VL2_KNOWN, used, ..vl2_peer::default() }
        }
        PeerState::Refused(Refusal::Forbidden) => vl2_peer { state: vl2_peer_state::VL2_FORBIDDEN, used, ..vl2_peer::default() },
        PeerState::Refused(Refusal::Unknown) => vl2_peer { state: vl2_peer_state::VL2_UNKNOWN, used, ..vl2_peer::default() },
    }
}

/// The reverse, but for whether it was used.
pub(super) fn read_peer(peer: &vl2_peer) -> PeerState {
    let mac = MacAddr(peer.mac);
    match peer.state {
        vl2_peer_state::VL2_KNOWN => PeerState::Known(Peer {
            locator: read_be(peer.locator),
            group: GroupId(peer.group),
            mac: (mac != VIRTUAL_MAC).then_some(mac),
        }),
        vl2_peer_state::VL2_FORBIDDEN => PeerState::Refused(Refusal::Forbidden),
        _ => PeerState::Refused(Refusal::Unknown),
    }
}

/// An AA of a host.
pub(super) fn local(local: &Local) -> vl2_local {
    let multicast = be(local.multicast.unwrap_or(Ipv4Addr::UNSPECIFIED));
    vl2_local { multicast, service: local.service.0, ..vl2_local::default() }
}

/// The reverse.
pub(super) fn read_local(local: &vl2_local) -> Local {
    let multicast = read_be(local.multicast);
    Local { service: ServiceId(local.service), multicast: (!multicast.is_unspecified()).then_some(multicast) }
}

/// An AA behind a port.
pub(super) fn attached(a: &Attached) -> vl2_local {
    vl2_local { service: a.service.0, port: a.port, mac: a.mac.0, ..vl2_local::default() }
}

/// The reverse.
pub(super) fn read_attached(local: &vl2_local) -> Attached {
    Attached { port: local.port, mac: MacAddr(local.mac), service: ServiceId(local.service) }
}

/// What may arrive for a locator.
pub(super) fn rule(rule: LocatorRule) -> vl2_rule {
    match rule {
        LocatorRule::Protocol(protocol) => vl2_rule { protocol, ..vl2_rule::default() },
        LocatorRule::Port(protocol, port) => vl2_rule { protocol, port: port.to_be(), ..vl2_rule::default() },
        LocatorRule::Address(address) => vl2_rule { address: key(address), ..vl2_rule::default() },
    }
}

/// A prefix of locators.
pub(super) fn source(prefix: Ipv4Net) -> vl2_source {
    vl2_source { length: prefix.prefix_len().into(), address: be(prefix.network()) }
}

/// What a switch does for an address.
pub(super) const fn strip(role: StripRole) -> vl2_strip {
    match role {
        StripRole::Intermediate => vl2_strip::VL2_STRIP_INTERMEDIATE,
        StripRole::Tor => vl2_strip::VL2_STRIP_TOR,
    }
}

/// The anycast addresses of a group.
///
/// # Errors
/// [`PlaneError::Setting`] if there are none or too many.
pub(super) fn group(id: GroupId, anycast: &[Ipv4Addr]) -> Result<vl2_group> {
    let mut group = vl2_group { count: anycast.len() as u32, ..vl2_group::default() };
    let (count, most) = (anycast.len(), group.anycast.len());
    if !(1..=most).contains(&count) {
        return Err(PlaneError::Setting(format!("group {} has {count} anycast addresses; 1 to {most} are possible", id.0)));
    }
    group.anycast.iter_mut().zip(anycast).for_each(|(place, &it)| *place = be(it));
    Ok(group)
}

/// A five-tuple.
pub(super) fn flow(f: &Flow) -> vl2_flow {
    vl2_flow {
        source: key(f.source),
        destination: key(f.destination),
        source_port: f.source_port.to_be(),
        destination_port: f.destination_port.to_be(),
        protocol: f.protocol,
        ..vl2_flow::default()
    }
}

/// The reverse.
pub(super) fn read_flow(flow: &vl2_flow) -> Flow {
    Flow {
        source: read_key(&flow.source),
        destination: read_key(&flow.destination),
        protocol: flow.protocol,
        source_port: u16::from_be(flow.source_port),
        destination_port: u16::from_be(flow.destination_port),
    }
}

/// What a flow has sent.
pub(super) fn read_count(count: &vl2_count) -> Count {
    let is = |flag: vl2_count_flags| count.flags.0 & flag.0 != 0;
    Count {
        bytes: count.bytes,
        first_ns: count.first_ns,
        last_ns: count.last_ns,
        is_elephant: is(vl2_count_flags::VL2_ELEPHANT) && !is(vl2_count_flags::VL2_ENDED),
    }
}

/// The scheduler's choice for a flow.
pub(super) fn placement(p: &Placement) -> vl2_placement {
    vl2_placement { intermediate: be(p.intermediate), entropy: p.entropy }
}

/// The reverse.
pub(super) fn read_placement(p: &vl2_placement) -> Placement {
    Placement { intermediate: read_be(p.intermediate), entropy: p.entropy }
}

/// An event before it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub kind: vl2_event_kind,
    pub segment: u16,
    pub mtu: u16,
    pub outer_source: Ipv4Addr,
    pub locator: Ipv4Addr,
    pub flow: Flow,
    pub frame: Vec<u8>,
}

/// Reads what the ring buffer held; none if it is no event of this build.
pub(super) fn read_event(bytes: &[u8]) -> Option<RawEvent> {
    let (event, frame) = vl2_event::read(bytes)?;
    Some(RawEvent {
        kind: event.kind,
        segment: u16::try_from(event.segment).unwrap_or(u16::MAX),
        mtu: u16::try_from(event.mtu).unwrap_or(u16::MAX),
        outer_source: read_be(event.outer_source),
        locator: read_be(event.locator),
        flow: read_flow(&event.flow),
        frame: frame.get(..event.captured as usize)?.to_vec(),
    })
}
