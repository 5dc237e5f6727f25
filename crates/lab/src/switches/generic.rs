//! A command line in the style of many vendors, to be translated by the operator: docs/switches.md explains each line.

use std::fmt::Write as _;

use super::{RACK_VLAN, Switch, Target, announced};
use crate::frr::border::{AS_INSIDE, AS_OUTSIDE, peers};
use crate::frr::multicast::{MESH, METRICS};
use crate::plan::outside::POOL;
use crate::plan::vl2::{MULTICAST, RENDEZVOUS};
use crate::plan::{MTU_FABRIC, Net, Node, Plan, Timers};

/// The file `switch.txt`.
pub(super) fn text(plan: &Plan, switch: &Switch<'_>) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    let node = switch.node;
    line(format_args!("hostname {}\n!", node.name));
    if switch.rack.is_some() {
        line(format_args!("vlan {RACK_VLAN}\n name hosts\n!"));
    }
    let Timers { hello_s, dead_s, bfd, broadcast, .. } = plan.timers;
    let network = if broadcast { "broadcast" } else { "point-to-point" };
    for (at, port) in switch.ports.iter().enumerate() {
        line(format_args!("interface ethernet {}\n description {}\n mtu {MTU_FABRIC}", at + 1, port.to));
        match port.address {
            Some(address) if !port.is_fabric => line(format_args!(" no switchport\n ip address {address}")),
            Some(address) => {
                line(format_args!(" no switchport\n ip address {address}\n ip ospf area 0\n ip ospf cost 1"));
                line(format_args!(" ip ospf network {network}"));
                line(format_args!(" ip ospf hello-interval {hello_s}\n ip ospf dead-interval {dead_s}"));
                if bfd {
                    line(format_args!(" ip ospf bfd"));
                }
                if plan.has_multicast() {
                    line(format_args!(" ip pim sparse-mode"));
                }
            }
            None => line(format_args!(" switchport mode access\n switchport access vlan {RACK_VLAN}")),
        }
        line(format_args!(" no shutdown\n!"));
    }
    if let Some(net) = switch.rack {
        line(format_args!("interface vlan {RACK_VLAN}\n ip address {net}\n ip ospf area 0\n ip ospf passive\n ipv6 enable"));
        if let Some(server) = switch.dhcp_server {
            line(format_args!(" ip dhcp relay server {server}"));
        }
        if plan.has_multicast() {
            line(format_args!(" ip pim passive\n ip igmp"));
        }
        line(format_args!("!"));
    }
    for (i, address) in switch.loopbacks.iter().enumerate() {
        line(format_args!("interface loopback {i}\n ip address {}\n ip ospf area 0\n!", Net::host(*address)));
    }
    if switch.is_point {
        let i = switch.loopbacks.len();
        line(format_args!("interface loopback {i}\n ip address {}\n ip pim sparse-mode\n!", Net::host(RENDEZVOUS)));
    }
    for (i, address) in switch.tunnels.iter().enumerate() {
        line(format_args!("interface tunnel {i}\n tunnel mode ipip decapsulate-any\n tunnel local {address}\n!"));
    }
    for route in &switch.routes {
        let family = if route.to.contains(':') { "ipv6" } else { "ip" };
        match route.target {
            Target::Via(gateway) => line(format_args!("{family} route {} {gateway}", route.to)),
            Target::OnLink => line(format_args!("{family} route {} vlan {RACK_VLAN}", route.to)),
            Target::Drop => line(format_args!("{family} route {} null 0", route.to)),
        }
    }
    let announced = announced(plan, node);
    for prefix in &announced {
        line(format_args!("ip prefix-list hosts permit {prefix}"));
    }
    line(format_args!("!\nrouter ospf\n router-id {}\n maximum-paths {}", node.locator, plan.ecmp_width()));
    if !announced.is_empty() {
        line(format_args!(" redistribute static prefix-list hosts metric-type 1"));
    }
    line(format_args!("!"));
    text + &multicast(plan, node) + &external(plan, node)
}

/// The rendezvous point of multicast, and what it is itself.
fn multicast(plan: &Plan, node: &Node) -> String {
    if !plan.has_multicast() {
        return String::new();
    }
    let mut text = format!("ip pim rp-address {RENDEZVOUS} group {MULTICAST}\n");
    if let Some((number, others)) = plan.as_rendezvous_point(node) {
        for other in others {
            let _ = writeln!(text, "ip msdp mesh-group {MESH} source {} member {}", node.locator, other.locator);
        }
        let (list, metric) = (format!("ip prefix-list rendezvous permit {}", Net::host(RENDEZVOUS)), METRICS[number]);
        let _ =
            writeln!(text, "{list}\nrouter ospf\n redistribute connected prefix-list rendezvous metric-type 1 metric {metric}");
    }
    text + "!\n"
}

/// BGP to the outside at a border.
fn external(plan: &Plan, node: &Node) -> String {
    let peers: Vec<_> = peers(plan, node).collect();
    if peers.is_empty() {
        return String::new();
    }
    let mut text = format!("router bgp {AS_INSIDE}\n router-id {}\n network {POOL}\n", node.locator);
    for peer in peers {
        let _ = writeln!(text, " neighbor {peer} remote-as {AS_OUTSIDE}");
    }
    text + "!\nrouter ospf\n default-information originate metric 1 metric-type 1\n!\n"
}
