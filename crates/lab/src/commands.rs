//! A plan as batches for `ip` and `tc` (`-batch`), a command a line. Text alone: nothing runs here.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::plan::overlay::{AA4, AA6, MTU_OVERLAY, OverlayHost};
use crate::plan::{Hop, MTU_FABRIC, MTU_HOST, Net, Node, Plan, Port, Role, Route, Routing, Way};

/// `ip`, outside of all namespaces: all cables, each made between its two namespaces in one step.
pub fn cables(plan: &Plan) -> String {
    let mut batch = String::new();
    for ends in plan.cables() {
        let [a, b] = ends.map(|end| (&plan.port(end).name, &plan.nodes[end.node].namespace));
        line(
            &mut batch,
            format_args!(
                "link add {} netns {} mtu {MTU_FABRIC} type veth peer name {} netns {} mtu {MTU_FABRIC}",
                a.0, a.1, b.0, b.1
            ),
        );
    }
    batch
}

/// The device of a switch that has its hosts' prefix, for routing daemons to announce; no packet goes there. It is a cable to nowhere:
/// there are kernels without dummy devices.
pub const RACK_DEVICE: &str = "rack";

/// `ip`, in the namespace: addresses, devices up.
pub fn devices(node: &Node, multicast: bool) -> String {
    let mut batch = String::from("link set lo up\n");
    if !matches!(node.role, Role::Host | Role::Vm) {
        line(&mut batch, format_args!("addr add {} dev lo", Net::host(node.locator)));
    }
    for address in &node.anycast {
        line(&mut batch, format_args!("addr add {} dev lo", Net::host(*address)));
    }
    if let Some(prefix) = node.prefix {
        line(&mut batch, format_args!("link add {RACK_DEVICE} type veth peer name {RACK_DEVICE}-end"));
        // The locator, if it is of the prefix; without the kernel's route, which would look for hosts at the device.
        let address = if prefix.contains(node.locator) { node.locator } else { prefix.address };
        line(&mut batch, format_args!("addr add {address}/{} dev {RACK_DEVICE} noprefixroute", prefix.len));
        for block in &node.blocks {
            line(&mut batch, format_args!("addr add {block} dev {RACK_DEVICE} noprefixroute"));
        }
        line(&mut batch, format_args!("link set {RACK_DEVICE} up"));
        line(&mut batch, format_args!("link set {RACK_DEVICE}-end up"));
    }
    for port in &node.ports {
        if let Some(address) = port.address {
            line(&mut batch, format_args!("addr add {address} dev {}", port.name));
        }
        line(&mut batch, format_args!("link set {} up", port.name));
    }
    if multicast && node.role == Role::Switch {
        // PIM takes a sender for a neighbour if it is the peer of a port's address.
        let own = node.local.iter().filter_map(|r| if let Way::Direct(port) = r.way { Some((r.to, port)) } else { None });
        for (host, port) in own {
            let (address, host, port) = (node.locator, host.address, &node.ports[port].name);
            line(&mut batch, format_args!("addr add {address} peer {host} dev {port} noprefixroute"));
        }
    }
    batch
}

/// `ip`, in the namespace, when its devices are up: its routes, each with that many next hops at the most.
pub fn routes(node: &Node, routing: Routing, width: usize) -> String {
    let mut batch = String::new();
    for route in &node.local {
        local(&mut batch, node, route);
    }
    if routing == Routing::Static {
        for Route { to, way } in &node.fabric {
            let Way::Via(hops) = way else { continue };
            let hops = hops.iter().take(width);
            let hops: String = hops.map(|h| format!(" nexthop via {} dev {}", h.gateway, node.ports[h.port].name)).collect();
            line(&mut batch, format_args!("route add {to} src {}{hops}", node.locator));
        }
    }
    batch
}

/// `/proc/sys` settings of a host's NIC that is to carry IPv6 addresses of an overlay: nobody is asked whether they are free.
pub fn overlay_sysctls() -> Vec<(&'static str, String)> {
    vec![
        ("net/ipv6/conf/eth0/accept_ra", "0".to_owned()),
        ("net/ipv6/conf/eth0/accept_dad", "0".to_owned()),
        ("net/ipv6/conf/eth0/addr_gen_mode", "1".to_owned()),
        ("net/ipv6/conf/eth0/disable_ipv6", "0".to_owned()),
    ]
}

/// `ip`, in a host's namespace: its application addresses, on the NIC that has its locator.
pub fn overlay(host: &OverlayHost) -> String {
    let mut batch = String::new();
    let len = |prefix: &'static str| prefix.split_once('/').map_or("", |(_, len)| len);
    line(&mut batch, format_args!("addr add {}/{} dev eth0 noprefixroute", host.aa4, len(AA4)));
    line(&mut batch, format_args!("route add {AA4} dev eth0 src {} mtu {MTU_OVERLAY}", host.aa4));
    line(&mut batch, format_args!("addr add {}/{} dev eth0 nodad noprefixroute", host.aa6, len(AA6)));
    line(&mut batch, format_args!("route add {AA6} dev eth0 src {} mtu {MTU_OVERLAY}", host.aa6));
    batch
}

/// `ip`, in the namespace of the ToR that a server leaves: the end of its cable goes to the other ToR, by the name of the port there.
pub fn unplug(port: &Port, to: &Node, name: &str) -> String {
    format!("link set {} netns {} name {name}\n", port.name, to.namespace)
}

/// `ip`, in the namespace of a ToR to which a server has moved: the port, and what is behind it.
pub fn plug(tor: &Node, port: usize, multicast: bool) -> String {
    let mut batch = String::new();
    let name = &tor.ports[port].name;
    let behind = |route: &&Route| matches!(route.way, Way::Direct(p) | Way::Behind(Hop { port: p, .. }) if p == port);
    let own: Vec<&Route> = tor.local.iter().filter(behind).collect();
    line(&mut batch, format_args!("link set {name} up"));
    for host in own.iter().filter(|r| multicast && matches!(r.way, Way::Direct(_))) {
        line(&mut batch, format_args!("addr add {} peer {} dev {name} noprefixroute", tor.locator, host.to.address));
    }
    own.into_iter().for_each(|route| local(&mut batch, tor, route));
    batch
}

/// `ip`, in the namespace of a server that has moved: another locator and another gateway. Its application addresses stay.
pub fn renumber(host: &Node, old: Ipv4Addr) -> String {
    let mut batch = String::new();
    line(&mut batch, format_args!("addr add {} dev {}", Net::host(host.locator), host.ports[0].name));
    host.local.iter().for_each(|route| local(&mut batch, host, route));
    // The address goes last: the kernel would take the route that names it along.
    batch.replace("route add", "route replace") + &format!("addr del {} dev {}\n", Net::host(old), host.ports[0].name)
}

/// `tc`, in the namespace: each port sends at its rate.
pub fn shaping(node: &Node) -> String {
    node.ports.iter().filter(|p| p.queue_bytes > 0).map(shape).collect()
}

/// The same for one port.
pub fn shape(port: &Port) -> String {
    let Port { name, rate_bps, burst_bytes, queue_bytes, .. } = port;
    format!("qdisc add dev {name} root tbf rate {rate_bps}bit burst {burst_bytes} limit {queue_bytes}\n")
}

fn local(batch: &mut String, node: &Node, route: &Route) {
    let to = route.to;
    match &route.way {
        Way::Via(_) => unreachable!("routes by several neighbours are of the fabric"),
        Way::Unreachable => line(batch, format_args!("route add unreachable {to}")),
        Way::Behind(hop) => {
            let port = &node.ports[hop.port].name;
            line(batch, format_args!("route add {to} via {} dev {port} onlink", hop.gateway));
        }
        Way::Direct(port) => {
            line(batch, format_args!("route add {to} dev {} src {}", node.ports[*port].name, node.locator));
        }
        Way::Gateway(hop) => {
            let port = &node.ports[hop.port];
            let address = port.address.expect("ports of hosts have locators").address;
            let way = format!("default via {} dev {} onlink src {address} mtu {MTU_HOST}", hop.gateway, port.name);
            if hop.port == 0 {
                line(batch, format_args!("route add {way}"));
            }
            if node.ports.len() > 1 {
                let table = TABLE_FIRST + hop.port;
                line(batch, format_args!("route add {way} table {table}"));
                line(batch, format_args!("rule add from {address} lookup {table}"));
            }
        }
    }
}

fn line(batch: &mut String, command: std::fmt::Arguments<'_>) {
    writeln!(batch, "{command}").expect("a text grows");
}

/// The table of a host's first port; those of the others follow.
const TABLE_FIRST: usize = 100;
