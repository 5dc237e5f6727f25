//! The bytes of the maps' keys and values: the other half of `bpf/netlord/layout.h`, written and read field by field.

use std::net::IpAddr;

use weft_control::netlord::agent::RoutedFlow;
use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::rng::mix;
use weft_fabric::{MacAddr, TenantId};

use super::settings::{HostSettings, SwitchSettings};
use super::tables::{FibEntry, Limit, Port, TenantTraffic};
use crate::dataplane::Rate;
use crate::dataplane::bytes::{address, array};

/// VLANs to one edge switch that the tables hold.
pub(super) const PATHS_MAX: usize = 16;
/// Ports of a switch in one VLAN.
pub(super) const VLAN_PORTS: usize = 128;

/// Sizes of keys and values, for the test that compares them with the programs'.
#[cfg(test)]
pub(super) const SIZES: &[(&str, usize, usize)] = &[
    ("uplinks", 4, 20),
    ("vifs", 4, 20),
    ("locals", 16, 4),
    ("remotes", 16, 8),
    ("paths", 12, 8 + 16 * PATHS_MAX),
    ("reported", 12, 16),
    ("owned", 20, 1),
    ("routed", 48, 24),
    ("ports", 4, 4),
    ("vlans", 4, 4 + 4 * VLAN_PORTS),
    ("members", 8, 1),
    ("fib", 8, 16),
    ("routes", 8, 12),
    ("limits", 4, 40),
    ("tenants", 4, 32),
];

pub(super) fn host_settings(s: &HostSettings) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(s.report_interval.as_nanos() as u64).to_ne_bytes());
    bytes[8..12].copy_from_slice(&s.misdelivered.per_second.to_ne_bytes());
    bytes[12..].copy_from_slice(&s.misdelivered.burst.to_ne_bytes());
    bytes
}

pub(super) fn uplink(mac: MacAddr, mtu: u32, at: Option<Location>) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&mtu.to_ne_bytes());
    bytes[4..10].copy_from_slice(&mac.0);
    if let Some(at) = at {
        bytes[10..16].copy_from_slice(&at.switch.0);
        bytes[16] = at.port.get();
    }
    bytes
}

pub(super) fn vif(vif: Vif, uplink: Option<u32>) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&vif.tenant.0.to_be_bytes());
    bytes[4..8].copy_from_slice(&vif.space.0.to_be_bytes());
    bytes[8..12].copy_from_slice(&uplink.unwrap_or(0).to_ne_bytes());
    bytes[12..18].copy_from_slice(&vif.mac.0);
    bytes
}

pub(super) fn read_vif(bytes: &[u8]) -> Vif {
    let tenant = TenantId(u32::from_be_bytes(array(bytes, 0)));
    Vif { tenant, space: MacSpace(u32::from_be_bytes(array(bytes, 4))), mac: MacAddr(array(bytes, 12)) }
}

pub(super) fn name(vif: Vif) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&vif.tenant.0.to_be_bytes());
    bytes[4..8].copy_from_slice(&vif.space.0.to_be_bytes());
    bytes[8..14].copy_from_slice(&vif.mac.0);
    bytes
}

pub(super) fn read_name(bytes: &[u8]) -> Vif {
    let tenant = TenantId(u32::from_be_bytes(array(bytes, 0)));
    Vif { tenant, space: MacSpace(u32::from_be_bytes(array(bytes, 4))), mac: MacAddr(array(bytes, 8)) }
}

pub(super) fn place(at: Location) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&at.switch.0);
    bytes[6] = at.port.get();
    bytes
}

pub(super) fn read_place(bytes: &[u8]) -> Option<Location> {
    Some(Location { switch: MacAddr(array(bytes, 0)), port: EdgePort::new(u16::from(bytes[6]))? })
}

pub(super) fn reached(uplink: u32, switch: MacAddr) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&uplink.to_ne_bytes());
    bytes[4..10].copy_from_slice(&switch.0);
    bytes
}

/// The VLANs with the hash of each, which is half of [`choose`](weft_control::netlord::spain::choose).
pub(super) fn paths(vlans: &[VlanId]) -> [u8; 8 + 16 * PATHS_MAX] {
    let mut bytes = [0; 8 + 16 * PATHS_MAX];
    let count = vlans.len().min(PATHS_MAX);
    bytes[..4].copy_from_slice(&(count as u32).to_ne_bytes());
    for (slot, vlan) in bytes[8..].chunks_exact_mut(16).zip(vlans) {
        slot[..8].copy_from_slice(&mix(u64::from(vlan.get()) + 1).to_ne_bytes());
        slot[8..10].copy_from_slice(&vlan.get().to_ne_bytes());
    }
    bytes
}

pub(super) fn owned(ifindex: u32, ip: IpAddr) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[4..].copy_from_slice(&address(ip));
    bytes
}

pub(super) fn route_key(flow: &RoutedFlow) -> [u8; 48] {
    let mut bytes = [0; 48];
    bytes[..4].copy_from_slice(&flow.id.0.to_ne_bytes());
    bytes[4..10].copy_from_slice(&flow.router.0);
    bytes[10] = flow.protocol;
    bytes[12..28].copy_from_slice(&address(flow.source));
    bytes[28..44].copy_from_slice(&address(flow.destination));
    bytes[44..46].copy_from_slice(&flow.port.to_be_bytes());
    bytes
}

pub(super) fn route(flow: &RoutedFlow, until_ns: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&until_ns.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flow.to.space.0.to_be_bytes());
    bytes[12..18].copy_from_slice(&flow.to.mac.0);
    bytes[18..].copy_from_slice(&flow.from.0);
    bytes
}

pub(super) fn switch_settings(s: &SwitchSettings) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..6].copy_from_slice(&s.mac.unwrap_or_default().0);
    bytes[8..16].copy_from_slice(&u64::try_from(s.ageing.as_nanos()).unwrap_or(u64::MAX).to_ne_bytes());
    let learn = s.learn.unwrap_or(Rate { per_second: 0, burst: 0 });
    bytes[16..20].copy_from_slice(&learn.per_second.to_ne_bytes());
    bytes[20..].copy_from_slice(&learn.burst.to_ne_bytes());
    bytes
}

pub(super) fn port(port: &Port) -> [u8; 4] {
    u32::from(port.native.map_or(0, VlanId::get)).to_ne_bytes()
}

pub(super) fn vlan(ports: &[u32]) -> [u8; 4 + 4 * VLAN_PORTS] {
    let mut bytes = [0; 4 + 4 * VLAN_PORTS];
    bytes[..4].copy_from_slice(&(ports.len().min(VLAN_PORTS) as u32).to_ne_bytes());
    for (slot, port) in bytes[4..].chunks_exact_mut(4).zip(ports) {
        slot.copy_from_slice(&port.to_ne_bytes());
    }
    bytes
}

pub(super) fn member(ifindex: u32, vlan: VlanId) -> [u8; 8] {
    (u64::from(ifindex) << 16 | u64::from(vlan.get())).to_ne_bytes()
}

pub(super) fn prefix(port: EdgePort) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&8u32.to_ne_bytes());
    bytes[4] = port.get();
    bytes
}

pub(super) fn hop(ifindex: u32, mac: Option<MacAddr>) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[4..10].copy_from_slice(&mac.unwrap_or_default().0);
    bytes
}

/// Interface and MAC address of a hop, if that is known.
pub(super) fn read_hop(bytes: &[u8]) -> Option<(u32, MacAddr)> {
    let mac = MacAddr(array(bytes, 4));
    (mac != MacAddr::default()).then(|| (u32::from_ne_bytes(array(bytes, 0)), mac))
}

pub(super) fn limit(limit: Limit) -> [u8; 40] {
    let mut bytes = [0; 40];
    match limit {
        Limit::Deny => bytes[4..8].copy_from_slice(&1u32.to_ne_bytes()),
        Limit::Rate { bytes_per_second, burst_bytes } => {
            bytes[8..16].copy_from_slice(&bytes_per_second.to_ne_bytes());
            bytes[16..24].copy_from_slice(&burst_bytes.to_ne_bytes());
        }
    }
    bytes
}

pub(super) fn tenant(id: TenantId) -> [u8; 4] {
    id.0.to_be_bytes()
}

pub(super) fn read_tenant(key: &[u8], value: &[u8]) -> TenantTraffic {
    let number = |at: usize| u64::from_ne_bytes(array(value, at));
    TenantTraffic {
        tenant: TenantId(u32::from_be_bytes(array(key, 0))),
        packets: number(0),
        bytes: number(8),
        denied: number(16),
        limited: number(24),
    }
}

pub(super) fn read_fib(key: &[u8], value: &[u8]) -> FibEntry {
    FibEntry {
        mac: MacAddr(array(key, 0)),
        vlan: u16::from_ne_bytes(array(key, 6)),
        ifindex: u32::from_ne_bytes(array(value, 8)),
        seen_ns: u64::from_ne_bytes(array(value, 0)),
    }
}
