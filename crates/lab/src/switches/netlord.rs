//! NetLord's switches (NetLord sections 3.4 and 3.6): VLANs that switch, and at edge switches the last hop, which routes.
//!
//! ```text
//!   Vlan2 ... VlanN     SPAIN's, one more than in the lab, where they begin at 1: that is the default VLAN of real switches
//!   Vlan(N + p)         untagged on port p alone: p.0.0.0/31 is the switch, p.0.0.1 the server's agent
//!   Vlan4094, 4093      broadcast trees
//!   p.0.0.0/8           via p.0.0.1
//! ```
//! The second address of each /31 is that of the paper's next hop, and the interface has the first, which no tenant's packet is sent to: tenant ids begin at 1. A prefix
//! that had room for more would be taken for addresses of tenants.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use weft_control::netlord::spain::SpainTables;
use weft_control::netlord::vlans::Vlans;
use weft_fabric::MacAddr;

use super::peer_name;
use super::sonic::name;
use super::{Export, ExportError, Format};
use crate::plan::netlord::{Bridge, BridgePort, Netlord};
use crate::plan::{MTU_FABRIC, Net, Node, Plan};

/// The configurations of all switches.
pub(super) fn export(plan: &Plan, netlord: &Netlord, format: Format) -> Result<Vec<Export>, ExportError> {
    let ports = netlord.switches.iter().flat_map(|bridge| &bridge.ports).filter_map(|port| port.number).max().unwrap_or(0);
    let vlans = 1 + netlord.vlans + usize::from(ports);
    let free = netlord.special.iter().min().map_or(VLAN_LAST, |special| special - 1);
    if vlans > usize::from(free) {
        return Err(ExportError::Vlans { vlans, free });
    }
    if let Some(limit) = netlord.limits.iter().find(|limit| limit.rate.is_some() && matches!(format, Format::Sonic { .. })) {
        return Err(ExportError::Rate { tenant: limit.tenant });
    }
    Ok(netlord.switches.iter().map(|bridge| of_switch(plan, netlord, bridge, format)).collect())
}

/// The table of SPAIN's VLANs between edge switches, for the agents: `paths` of their configurations, with the numbers that the switches have.
pub(super) fn paths(netlord: &Netlord) -> String {
    let mac = |text: &String| text.parse::<MacAddr>().expect("MAC addresses of the plan are valid");
    let edges = netlord.switches.iter().filter_map(|it| Some((mac(it.mac.as_ref()?), &it.paths)));
    let vlans = |vlans: &Vec<u16>| Vlans::of(vlans.iter().map(|&vlan| exported(netlord, vlan)));
    let table = |paths: &[(String, Vec<u16>)]| paths.iter().map(|(to, all)| (mac(to), vlans(all))).collect();
    SpainTables { version: 1, from: edges.map(|(switch, paths)| (switch, table(paths))).collect() }.emit()
}

fn of_switch(plan: &Plan, netlord: &Netlord, bridge: &Bridge, format: Format) -> Export {
    let switch = Switch { node: &plan.nodes[bridge.node], plan, netlord, bridge };
    let files = match format {
        Format::Sonic { lanes } => vec![("config_db.json", switch.sonic(lanes))],
        Format::Generic => vec![("switch.txt", switch.generic())],
    };
    let routes = bridge.ports.iter().filter(|port| port.number.is_some()).count();
    Export { switch: switch.node.name.clone(), decapsulates: 0, routes, files }
}

/// The number of a VLAN of the plan on real switches.
fn exported(netlord: &Netlord, vlan: u16) -> u16 {
    if netlord.special.contains(&vlan) { vlan } else { vlan + 1 }
}

/// A switch with its ports.
struct Switch<'a> {
    plan: &'a Plan,
    netlord: &'a Netlord,
    bridge: &'a Bridge,
    node: &'a Node,
}

impl Switch<'_> {
    /// The file `config_db.json`: tables and fields of SONiC's YANG models, revisions of November 2025.
    fn sonic(&self, lanes: u32) -> String {
        let mut tables = Map::new();
        let mut put = |table: &str, key: String, fields: Value| {
            let entries = tables.entry(table).or_insert_with(|| json!({}));
            entries.as_object_mut().expect("tables are objects").insert(key, fields);
        };
        let mut metadata = json!({ "hostname": self.node.name });
        if let Some(mac) = &self.bridge.mac {
            metadata["mac"] = json!(mac);
        }
        put("DEVICE_METADATA", "localhost".to_owned(), metadata);
        for vlan in self.vlans() {
            put("VLAN", format!("Vlan{vlan}"), json!({ "vlanid": vlan.to_string(), "mtu": MTU_FABRIC.to_string() }));
            if self.bridge.mac.is_some() {
                // Without an address: frames to the switch's MAC address are routed in each VLAN.
                put("VLAN_INTERFACE", format!("Vlan{vlan}"), json!({ "ipv6_use_link_local_only": "enable" }));
            }
        }
        for (at, port, peer) in self.ports() {
            let own = name(at, lanes);
            let mut fields = json!({ "description": peer, "mtu": MTU_FABRIC.to_string(), "admin_status": "up" });
            if let Some(number) = port.number {
                // LLDP sends it as the port's id.
                fields["alias"] = json!(format!("port{number}"));
            }
            put("PORT", own.clone(), fields);
            for vlan in port.vlans.iter().map(|&vlan| exported(self.netlord, vlan)) {
                put("VLAN_MEMBER", format!("Vlan{vlan}|{own}"), json!({ "tagging_mode": "tagged" }));
            }
            if let Some(native) = self.native(port) {
                put("VLAN_MEMBER", format!("Vlan{native}|{own}"), json!({ "tagging_mode": "untagged" }));
            }
        }
        for (number, vlan) in self.servers() {
            put("VLAN", format!("Vlan{vlan}"), json!({ "vlanid": vlan.to_string(), "mtu": MTU_FABRIC.to_string() }));
            put("VLAN_INTERFACE", format!("Vlan{vlan}"), json!({}));
            put("VLAN_INTERFACE", format!("Vlan{vlan}|{}", own_net(number)), json!({}));
            let fields = json!({ "nexthop": agent(number).to_string(), "ifname": format!("Vlan{vlan}") });
            put("STATIC_ROUTE", format!("default|{number}.0.0.0/8"), fields);
        }
        let denied = self.denied();
        if !denied.is_empty() {
            let ports: Vec<String> = self.ports().map(|(at, ..)| name(at, lanes)).collect();
            let fields =
                json!({ "policy_desc": "tenants that may send nothing", "type": "L3", "stage": "ingress", "ports": ports });
            put("ACL_TABLE", ACL.to_owned(), fields);
        }
        for (tenant, number) in denied {
            let to = Net::host(encoded(number, tenant)).to_string();
            let fields = json!({ "PRIORITY": PRIORITY, "ETHER_TYPE": "0x0800", "DST_IP": to, "PACKET_ACTION": "DROP" });
            put("ACL_RULE", format!("{ACL}|TENANT_{tenant}_PORT_{number}"), fields);
        }
        serde_json::to_string_pretty(&tables).expect("tables are JSON") + "\n"
    }

    /// The file `switch.txt`.
    fn generic(&self) -> String {
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
        line(format_args!("hostname {}", self.node.name));
        if let Some(mac) = &self.bridge.mac {
            line(format_args!("system mac-address {mac}\nlldp chassis-id mac-address"));
        }
        line(format_args!("!\nno spanning-tree\n!"));
        for vlan in self.vlans() {
            line(format_args!("vlan {vlan}\n!"));
            if self.bridge.mac.is_some() {
                line(format_args!("interface vlan {vlan}\n ip routing\n!"));
            }
        }
        for (number, vlan) in self.servers() {
            line(format_args!("vlan {vlan}\n!\ninterface vlan {vlan}\n ip address {}\n!", own_net(number)));
        }
        for (at, port, peer) in self.ports() {
            line(format_args!("interface ethernet {}\n description {peer}\n mtu {MTU_FABRIC}", at + 1));
            let tagged = Vlans::of(port.vlans.iter().map(|&vlan| exported(self.netlord, vlan)));
            line(format_args!(" switchport mode trunk\n switchport trunk allowed vlan {tagged}"));
            match self.native(port) {
                Some(native) => line(format_args!(" switchport trunk native vlan {native}")),
                None => line(format_args!(" no switchport trunk native vlan")),
            }
            if let Some(number) = port.number {
                line(format_args!(" lldp port-id local port{number}"));
            }
            if !self.netlord.limits.is_empty() && self.bridge.mac.is_some() {
                line(format_args!(" ip access-group tenants in"));
            }
            line(format_args!(" no shutdown\n!"));
        }
        for (number, _) in self.servers() {
            line(format_args!("ip route {number}.0.0.0/8 {}", agent(number)));
        }
        if self.bridge.mac.is_some() && !self.netlord.limits.is_empty() {
            line(format_args!("ip access-list tenants"));
            for limit in &self.netlord.limits {
                // By the last 24 bits of the destination: a mask with ones where bits do not matter.
                let tenant = encoded(0, limit.tenant);
                match &limit.rate {
                    None => line(format_args!(" deny ip any {tenant} 255.0.0.0")),
                    Some(rate) => line(format_args!(" permit ip any {tenant} 255.0.0.0 police {rate}")),
                }
            }
            line(format_args!(" permit ip any any\n!"));
        }
        text
    }

    /// SPAIN's VLANs and the broadcast trees of the switch.
    fn vlans(&self) -> std::collections::BTreeSet<u16> {
        let all = self.bridge.ports.iter().flat_map(|port| port.vlans.iter().copied().chain(port.native));
        all.map(|vlan| exported(self.netlord, vlan)).collect()
    }

    /// Index, VLANs, and the node and port at the other end.
    fn ports(&self) -> impl Iterator<Item = (usize, &BridgePort, String)> {
        let ports = self.bridge.ports.iter().zip(&self.node.ports).enumerate();
        ports.map(|(at, (bridge, port))| (at, bridge, peer_name(self.plan, port)))
    }

    /// The VLAN of untagged frames of a port.
    fn native(&self, port: &BridgePort) -> Option<u16> {
        let own = port.number.map(|number| self.server_vlan(number));
        own.or_else(|| port.native.map(|vlan| exported(self.netlord, vlan)))
    }

    /// Number and VLAN of each port that leads to a server.
    fn servers(&self) -> impl Iterator<Item = (u8, u16)> {
        self.bridge.ports.iter().filter_map(|port| port.number).map(|number| (number, self.server_vlan(number)))
    }

    /// The VLAN of a server alone: after those of SPAIN, which are as many as `vlans` and begin at 2.
    fn server_vlan(&self, number: u8) -> u16 {
        self.netlord.vlans as u16 + 1 + u16::from(number)
    }

    /// Tenants that may send nothing, each with each port to a server of an edge switch.
    fn denied(&self) -> Vec<(u32, u8)> {
        let denied = self.netlord.limits.iter().filter(|limit| limit.rate.is_none());
        denied.flat_map(|limit| self.servers().map(|(number, _)| (limit.tenant, number))).collect()
    }
}

/// `encode(p, tenant)` of the paper: the destination of a tenant's packets to the server at a port.
fn encoded(port: u8, tenant: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(port) << 24 | tenant)
}

/// The address of the agent of the server at a port.
fn agent(port: u8) -> Ipv4Addr {
    encoded(port, 1)
}

/// The switch's address towards the server at a port.
fn own_net(port: u8) -> Net {
    Net { address: encoded(port, 0), len: 31 }
}

const VLAN_LAST: u16 = 4094;
const ACL: &str = "TENANTS";
/// No two rules match the same packet.
const PRIORITY: &str = "9999";
