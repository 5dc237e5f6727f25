//! SONiC: `config_db.json`, to be merged into the switch's own, and `frr.conf`.
//!
//! Tables and fields are those of SONiC's YANG models (`src/sonic-yang-models`). `PORT` has neither lanes nor speeds, which depend on the hardware: they are the
//! switch's own. There is one `TUNNEL` per address, as `dst_ip` is one address.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{RACK_VLAN, Switch, Target, announced};
use crate::frr::{self, Interfaces};
use crate::plan::vl2::RENDEZVOUS;
use crate::plan::{MTU_FABRIC, Net, Plan};

/// The file `config_db.json`.
pub(super) fn config_db(switch: &Switch<'_>, lanes: u32) -> String {
    let mut tables = Map::new();
    let mut put = |table: &str, key: String, fields: Value| {
        let entries = tables.entry(table).or_insert_with(|| json!({}));
        entries.as_object_mut().expect("tables are objects").insert(key, fields);
    };
    // FRR is configured by frr.conf alone; the second setting also starts ospfd, bfdd and pimd.
    let metadata = json!({
        "hostname": switch.node.name, "docker_routing_config_mode": "split-unified", "frr_mgmt_framework_config": "true",
    });
    put("DEVICE_METADATA", "localhost".to_owned(), metadata);
    let vlan = rack();
    for (at, port) in switch.ports.iter().enumerate() {
        let name = name(at, lanes);
        put("PORT", name.clone(), json!({ "description": port.to, "mtu": MTU_FABRIC.to_string(), "admin_status": "up" }));
        match port.address {
            Some(address) => {
                put("INTERFACE", name.clone(), json!({}));
                put("INTERFACE", format!("{name}|{address}"), json!({}));
            }
            None => put("VLAN_MEMBER", format!("{vlan}|{name}"), json!({ "tagging_mode": "untagged" })),
        }
    }
    if let Some(net) = switch.rack {
        let mut fields = json!({ "vlanid": RACK_VLAN.to_string(), "mtu": MTU_FABRIC.to_string() });
        if let Some(server) = switch.dhcp_server {
            fields["dhcp_servers"] = json!([server.to_string()]);
        }
        put("VLAN", vlan.clone(), fields);
        // Neighbours of IPv6 are found from the link-local address.
        put("VLAN_INTERFACE", vlan.clone(), json!({ "ipv6_use_link_local_only": "enable" }));
        put("VLAN_INTERFACE", format!("{vlan}|{net}"), json!({}));
    }
    for address in &switch.loopbacks {
        put("LOOPBACK_INTERFACE", LOOPBACK.to_owned(), json!({}));
        put("LOOPBACK_INTERFACE", format!("{LOOPBACK}|{}", Net::host(*address)), json!({}));
    }
    if switch.is_point {
        put("LOOPBACK_INTERFACE", POINT.to_owned(), json!({}));
        put("LOOPBACK_INTERFACE", format!("{POINT}|{}", Net::host(RENDEZVOUS)), json!({}));
    }
    for (i, address) in switch.tunnels.iter().enumerate() {
        // RFC 6040: a congestion mark of the outer header stays; the inner TTL and DSCP are the sender's.
        let fields = json!({
            "tunnel_type": "IPINIP", "dst_ip": address.to_string(), "dscp_mode": "pipe", "ecn_mode": "standard", "ttl_mode": "pipe",
        });
        put("TUNNEL", format!("Vl2Decap{i}"), fields);
    }
    for route in &switch.routes {
        let fields = match route.target {
            Target::Via(gateway) => json!({ "nexthop": gateway.to_string(), "ifname": vlan }),
            Target::OnLink => json!({ "nexthop": "::", "ifname": vlan }),
            Target::Drop => json!({ "blackhole": "true" }),
        };
        put("STATIC_ROUTE", format!("default|{}", route.to), fields);
    }
    serde_json::to_string_pretty(&tables).expect("tables are JSON") + "\n"
}

/// The file `frr.conf`: OSPF, BFD, PIM and BGP as in a lab, and the announcement of static routes.
pub(super) fn frr(plan: &Plan, switch: &Switch<'_>, lanes: u32) -> String {
    let node = switch.node;
    let port_name = |port: &crate::plan::Port| {
        let at = node.ports.iter().position(|own| own.name == port.name).expect("the port is the switch's own");
        name(at, lanes)
    };
    let rack = rack();
    let loopback = (!switch.loopbacks.is_empty()).then_some(LOOPBACK);
    let interfaces = Interfaces { loopback, rack: &rack, has_vlan: true, point: POINT, port: &port_name };
    let mut text = format!("hostname {}\n", node.name);
    if plan.timers.bfd {
        text += &frr::bfd();
    }
    text += &frr::ospf(plan, node, &interfaces);
    let announced = announced(plan, node);
    for (i, prefix) in announced.iter().enumerate() {
        writeln!(text, "ip prefix-list hosts seq {} permit {prefix}", 5 * (i + 1)).expect("a text grows");
    }
    if !announced.is_empty() {
        text += "route-map hosts permit 10\n match ip address prefix-list hosts\nexit\n";
        text += "router ospf\n redistribute static metric-type 1 route-map hosts\nexit\n";
    }
    text + &frr::multicast(plan, node, &interfaces) + &frr::external(plan, node)
}

/// The name of the port at an index.
pub(super) fn name(at: usize, lanes: u32) -> String {
    format!("Ethernet{}", at as u64 * u64::from(lanes))
}

/// The name of the VLAN of the hosts.
fn rack() -> String {
    format!("Vlan{RACK_VLAN}")
}

const LOOPBACK: &str = "Loopback0";
/// That with the address of the multicast rendezvous point.
const POINT: &str = "Loopback1";
