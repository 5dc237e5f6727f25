//! A command line in the style of many vendors, to be translated by the operator: docs/switches.md explains each line.

use std::fmt::Write as _;

use super::{RACK_VLAN, Switch, Target};
use crate::plan::{MTU_FABRIC, Net, Plan, Timers};

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
            Some(address) => {
                line(format_args!(" no switchport\n ip address {address}\n ip ospf area 0\n ip ospf cost 1"));
                line(format_args!(" ip ospf network {network}"));
                line(format_args!(" ip ospf hello-interval {hello_s}\n ip ospf dead-interval {dead_s}"));
                if bfd {
                    line(format_args!(" ip ospf bfd"));
                }
            }
            None => line(format_args!(" switchport mode access\n switchport access vlan {RACK_VLAN}")),
        }
        line(format_args!(" no shutdown\n!"));
    }
    if let Some(net) = switch.rack {
        line(format_args!("interface vlan {RACK_VLAN}\n ip address {net}\n ip ospf area 0\n ip ospf passive\n ipv6 enable\n!"));
    }
    for (i, address) in switch.loopbacks.iter().enumerate() {
        line(format_args!("interface loopback {i}\n ip address {}\n ip ospf area 0\n!", Net::host(*address)));
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
    for block in &node.blocks {
        line(format_args!("ip prefix-list outer-sources permit {block}"));
    }
    line(format_args!("!\nrouter ospf\n router-id {}\n maximum-paths {}", node.locator, plan.ecmp_width()));
    if !node.blocks.is_empty() {
        line(format_args!(" redistribute static prefix-list outer-sources metric-type 1"));
    }
    line(format_args!("!"));
    text
}
