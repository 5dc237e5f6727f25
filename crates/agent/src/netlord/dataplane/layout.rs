//! The tables of the programs, and the domain's values as their keys and values: the types of `bpf/netlord/layout.h`, generated from the programs.

use std::net::IpAddr;

use weft_control::netlord::agent::RoutedFlow;
use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::rng::mix;
use weft_fabric::{MacAddr, TenantId};

use super::settings::{HostSettings, SwitchSettings};
use super::tables::{FibEntry, Limit, Port, TenantTraffic};
use crate::dataplane::Rate;
use crate::dataplane::bytes::{address, plain};
pub(super) use crate::dataplane::generated::netlord_host::types::{
    netlord_budget, netlord_choice, netlord_event, netlord_event_kind, netlord_host_settings, netlord_name, netlord_owned,
    netlord_paths, netlord_place, netlord_reached, netlord_route, netlord_route_key, netlord_space, netlord_uplink, netlord_vif,
};
pub(super) use crate::dataplane::generated::netlord_switch::types::{
    netlord_fib_entry, netlord_fib_key, netlord_hop, netlord_limit, netlord_limit_kind, netlord_port, netlord_prefix,
    netlord_switch_settings, netlord_tenant, netlord_vlan,
};
use crate::dataplane::maps::TableName;

plain!(netlord_budget, netlord_space);
plain!(netlord_event, netlord_host_settings, netlord_name, netlord_owned, netlord_paths, netlord_place);
plain!(netlord_reached, netlord_route, netlord_route_key, netlord_uplink, netlord_vif);
plain!(netlord_fib_entry, netlord_fib_key, netlord_hop, netlord_limit, netlord_port, netlord_prefix);
plain!(netlord_switch_settings, netlord_tenant, netlord_vlan);

pub(super) const HOST_SETTINGS: TableName<u32, netlord_host_settings> = TableName::new("settings");
/// By interface, as those of VIFs.
pub(super) const UPLINKS: TableName<u32, netlord_uplink> = TableName::new("uplinks");
pub(super) const VIFS: TableName<u32, netlord_vif> = TableName::new("vifs");
pub(super) const LOCALS: TableName<netlord_name, u32> = TableName::new("locals");
pub(super) const REMOTES: TableName<netlord_name, netlord_place> = TableName::new("remotes");
pub(super) const PATHS: TableName<netlord_reached, netlord_paths> = TableName::new("paths");
pub(super) const OWNED: TableName<netlord_owned, u8> = TableName::new("owned");
/// By interface.
pub(super) const VIF_BUDGETS: TableName<u32, netlord_budget> = TableName::new("vif_budgets");
pub(super) const SPACE_BUDGETS: TableName<netlord_space, netlord_budget> = TableName::new("space_budgets");
pub(super) const ROUTED: TableName<netlord_route_key, netlord_route> = TableName::new("routed");

pub(super) const SWITCH_SETTINGS: TableName<u32, netlord_switch_settings> = TableName::new("settings");
pub(super) const PORTS: TableName<u32, netlord_port> = TableName::new("ports");
pub(super) const VLANS: TableName<u32, netlord_vlan> = TableName::new("vlans");
/// By [`member`].
pub(super) const MEMBERS: TableName<u64, u8> = TableName::new("members");
pub(super) const FIB: TableName<netlord_fib_key, netlord_fib_entry> = TableName::new("fib");
pub(super) const ROUTES: TableName<netlord_prefix, netlord_hop> = TableName::new("routes");
/// By tenant, in network order, as what is counted.
pub(super) const LIMITS: TableName<u32, netlord_limit> = TableName::new("limits");
pub(super) const SHARES: TableName<u32, u64> = TableName::new("shares");
pub(super) const TENANTS: TableName<u32, netlord_tenant> = TableName::new("tenants");

pub(super) fn host_settings(s: &HostSettings) -> netlord_host_settings {
    let Rate { per_second: misses_per_second, burst: misses_burst } = s.misdelivered;
    let report_ns = s.report_interval.as_nanos() as u64;
    netlord_host_settings { report_ns, misses_per_second, misses_burst }
}

/// A full one.
pub(super) fn budget(Rate { per_second, burst }: Rate) -> netlord_budget {
    netlord_budget { per_second, burst, tokens: u64::from(burst) * 1_000_000_000, ..netlord_budget::default() }
}

pub(super) fn space(tenant_id: TenantId, space: MacSpace) -> netlord_space {
    netlord_space { tenant: tenant(tenant_id), space: space.0.to_be() }
}

pub(super) const fn read_space(space: &netlord_space) -> (TenantId, MacSpace) {
    (TenantId(u32::from_be(space.tenant)), MacSpace(u32::from_be(space.space)))
}

pub(super) fn uplink(mac: MacAddr, mtu: u32, at: Option<Location>) -> netlord_uplink {
    let (switch_mac, port) = at.map_or_else(Default::default, |at| (at.switch.0, at.port.get()));
    netlord_uplink { mtu, mac: mac.0, switch_mac, port, ..netlord_uplink::default() }
}

pub(super) fn read_uplink(uplink: &netlord_uplink) -> Option<Location> {
    Some(Location { switch: MacAddr(uplink.switch_mac), port: EdgePort::new(uplink.port.into())? })
}

pub(super) fn vif(vif: Vif, uplink: Option<u32>) -> netlord_vif {
    let netlord_name { tenant, space, mac, .. } = name(vif);
    netlord_vif { tenant, space, uplink: uplink.unwrap_or(0), mac, ..netlord_vif::default() }
}

pub(super) fn read_vif(vif: &netlord_vif) -> Vif {
    let &netlord_vif { tenant, space, mac, .. } = vif;
    read_name(&netlord_name { tenant, space, mac, ..netlord_name::default() })
}

pub(super) fn name(vif: Vif) -> netlord_name {
    netlord_name { tenant: tenant(vif.tenant), space: vif.space.0.to_be(), mac: vif.mac.0, ..netlord_name::default() }
}

pub(super) fn read_name(name: &netlord_name) -> Vif {
    let (tenant, space) = (TenantId(u32::from_be(name.tenant)), MacSpace(u32::from_be(name.space)));
    Vif { tenant, space, mac: MacAddr(name.mac) }
}

pub(super) fn place(at: Location) -> netlord_place {
    netlord_place { switch_mac: at.switch.0, port: at.port.get(), ..netlord_place::default() }
}

pub(super) fn read_place(place: &netlord_place) -> Option<Location> {
    Some(Location { switch: MacAddr(place.switch_mac), port: EdgePort::new(place.port.into())? })
}

pub(super) fn reached(uplink: u32, switch: MacAddr) -> netlord_reached {
    netlord_reached { uplink, switch_mac: switch.0, ..netlord_reached::default() }
}

/// The VLANs with the hash of each, which is half of [`choose`](weft_control::netlord::spain::choose).
pub(super) fn paths(vlans: &[VlanId]) -> netlord_paths {
    let mut paths = netlord_paths::default();
    for (place, vlan) in paths.path.iter_mut().zip(vlans) {
        *place = netlord_choice { hash: mix(u64::from(vlan.get()) + 1), vlan: vlan.get(), ..netlord_choice::default() };
        paths.count += 1;
    }
    paths
}

pub(super) fn owned(ifindex: u32, ip: IpAddr) -> netlord_owned {
    netlord_owned { ifindex, address: address(ip) }
}

pub(super) fn route_key(flow: &RoutedFlow) -> netlord_route_key {
    netlord_route_key {
        ifindex: flow.id.0,
        router: flow.router.0,
        protocol: flow.protocol,
        source: address(flow.source),
        destination: address(flow.destination),
        port: flow.port.to_be(),
        ..netlord_route_key::default()
    }
}

pub(super) fn route(flow: &RoutedFlow, until_ns: u64) -> netlord_route {
    netlord_route { until_ns, space: flow.to.space.0.to_be(), mac: flow.to.mac.0, source: flow.from.0 }
}

pub(super) fn switch_settings(s: &SwitchSettings) -> netlord_switch_settings {
    let Rate { per_second: learn_per_second, burst: learn_burst } = s.learn.unwrap_or(Rate { per_second: 0, burst: 0 });
    let ageing_ns = u64::try_from(s.ageing.as_nanos()).unwrap_or(u64::MAX);
    let mac = s.mac.unwrap_or_default().0;
    netlord_switch_settings { mac, ageing_ns, learn_per_second, learn_burst, ..netlord_switch_settings::default() }
}

pub(super) fn port(port: &Port) -> netlord_port {
    netlord_port { native: port.native.map_or(0, VlanId::get).into(), is_server: port.number.is_some().into() }
}

/// The ports of a VLAN; none if they are too many, and how many fit.
pub(super) fn vlan(ports: &[u32]) -> Result<netlord_vlan, usize> {
    let mut vlan = netlord_vlan { count: ports.len() as u32, ..netlord_vlan::default() };
    let most = vlan.ifindex.len();
    vlan.ifindex.get_mut(..ports.len()).ok_or(most)?.copy_from_slice(ports);
    Ok(vlan)
}

pub(super) fn member(ifindex: u32, vlan: VlanId) -> u64 {
    u64::from(ifindex) << 16 | u64::from(vlan.get())
}

pub(super) fn prefix(port: EdgePort) -> netlord_prefix {
    netlord_prefix { length: 8, address: u32::from_ne_bytes([port.get(), 0, 0, 0]) }
}

pub(super) fn hop(ifindex: u32, mac: Option<MacAddr>) -> netlord_hop {
    netlord_hop { ifindex, mac: mac.unwrap_or_default().0, ..netlord_hop::default() }
}

/// Interface and MAC address of a hop, if that is known.
pub(super) fn read_hop(hop: &netlord_hop) -> Option<(u32, MacAddr)> {
    let mac = MacAddr(hop.mac);
    (mac != MacAddr::default()).then_some((hop.ifindex, mac))
}

pub(super) fn limit(limit: Limit) -> netlord_limit {
    match limit {
        Limit::Deny => netlord_limit { kind: netlord_limit_kind::NETLORD_DENY, ..netlord_limit::default() },
        Limit::Rate { bytes_per_second, burst_bytes } => {
            netlord_limit { bytes_per_second, burst_bytes, ..netlord_limit::default() }
        }
    }
}

pub(super) const fn tenant(id: TenantId) -> u32 {
    id.0.to_be()
}

pub(super) fn read_tenant(tenant: u32, sent: &netlord_tenant) -> TenantTraffic {
    let &netlord_tenant { packets, bytes, denied, limited } = sent;
    TenantTraffic { tenant: TenantId(u32::from_be(tenant)), packets, bytes, denied, limited }
}

pub(super) fn read_fib(key: &netlord_fib_key, entry: &netlord_fib_entry) -> FibEntry {
    FibEntry { mac: MacAddr(key.mac), vlan: key.vlan, ifindex: entry.ifindex, seen_ns: entry.seen_ns }
}
