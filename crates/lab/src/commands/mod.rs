//! A plan as batches for `ip` and `tc` (`-batch`), one command per line. Nothing is run here.

pub mod netlord;
pub mod openflow;
pub mod vl2;

use std::fmt::Write as _;

use crate::plan::{MTU_FABRIC, MTU_HOST, Net, Node, Plan, Port, Role, Route, RouteTarget, Routing};

/// `ip`, outside of all namespaces: all cables, each made between its two namespaces in one step.
pub fn cables(plan: &Plan) -> String {
    let mut batch = String::new();
    for ends in plan.cables() {
        let [a, b] = ends.map(|end| (&plan.port(end).name, &plan.nodes[end.node].namespace));
        line(
            &mut batch,
            format_args!(
                "link add {} netns {} mtu {MTU_FABRIC}{QUEUES} type veth peer name {} netns {} mtu {MTU_FABRIC}{QUEUES}",
                a.0, a.1, b.0, b.1
            ),
        );
    }
    batch
}

/// The device of a switch that has its hosts' prefix, for routing daemons to announce; no packet is sent there. It is one end of an unused veth
/// pair, since some kernels have no dummy devices.
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
        // The locator, if it is in the prefix; without the kernel's route, by which it would look for hosts at the device.
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
        // PIM accepts a sender as a neighbour if it is the peer of a port's address.
        let own =
            node.local.iter().filter_map(|r| if let RouteTarget::Direct(port) = r.target { Some((r.to, port)) } else { None });
        for (host, port) in own {
            let (address, host, port) = (node.locator, host.address, &node.ports[port].name);
            line(&mut batch, format_args!("addr add {address} peer {host} dev {port} noprefixroute"));
        }
    }
    batch
}

/// `ip`, in the namespace, when its devices are up: its routes, each with at most that many next hops.
pub fn routes(node: &Node, routing: Routing, width: usize) -> String {
    let mut batch = String::new();
    for route in &node.local {
        local(&mut batch, node, route);
    }
    if routing == Routing::Static {
        for Route { to, target } in &node.fabric {
            let RouteTarget::Via(hops) = target else { continue };
            let hops = hops.iter().take(width);
            let hops: String = hops.map(|h| format!(" nexthop via {} dev {}", h.gateway, node.ports[h.port].name)).collect();
            line(&mut batch, format_args!("route add {to} src {}{hops}", node.locator));
        }
    }
    batch
}

/// `/proc/sys` settings of an `eth0` that gets IPv6 addresses of an overlay: without duplicate address detection.
pub fn ipv6_sysctls() -> Vec<(&'static str, String)> {
    vec![
        ("net/ipv6/conf/eth0/accept_ra", "0".to_owned()),
        ("net/ipv6/conf/eth0/accept_dad", "0".to_owned()),
        ("net/ipv6/conf/eth0/addr_gen_mode", "1".to_owned()),
        ("net/ipv6/conf/eth0/disable_ipv6", "0".to_owned()),
    ]
}

/// `tc`, in the namespace: each port sends at its rate.
pub fn shaping(node: &Node) -> String {
    node.ports.iter().filter(|p| p.queue_bytes > 0).map(shape).collect()
}

/// `tc`, in the namespace: a port sends at its rate.
pub fn shape(port: &Port) -> String {
    let Port { name, rate_bps, burst_bytes, queue_bytes, .. } = port;
    format!("qdisc add dev {name} root tbf rate {rate_bps}bit burst {burst_bytes} limit {queue_bytes}\n")
}

fn local(batch: &mut String, node: &Node, route: &Route) {
    let to = route.to;
    match &route.target {
        RouteTarget::Via(_) => unreachable!("routes by several neighbours are the fabric's"),
        RouteTarget::Unreachable => line(batch, format_args!("route add unreachable {to}")),
        RouteTarget::Behind(hop) => {
            let port = &node.ports[hop.port].name;
            line(batch, format_args!("route add {to} via {} dev {port} onlink", hop.gateway));
        }
        RouteTarget::Direct(port) => {
            line(batch, format_args!("route add {to} dev {} src {}", node.ports[*port].name, node.locator));
        }
        RouteTarget::Gateway(hop) => {
            let port = &node.ports[hop.port];
            let address = port.address.expect("ports of hosts have locators").address;
            let default = format!("default via {} dev {} onlink src {address} mtu {MTU_HOST}", hop.gateway, port.name);
            if hop.port == 0 {
                line(batch, format_args!("route add {default}"));
            }
            if node.ports.len() > 1 {
                let table = TABLE_FIRST + hop.port;
                line(batch, format_args!("route add {default} table {table}"));
                // Without carrier: else packets would leave by another NIC, with an address that no answer reaches.
                line(batch, format_args!("route add unreachable default metric 1000 table {table}"));
                line(batch, format_args!("rule add from {address} lookup {table}"));
            }
        }
    }
}

fn line(batch: &mut String, command: std::fmt::Arguments<'_>) {
    writeln!(batch, "{command}").expect("a text grows");
}

/// One queue each way; by default the kernel makes one per possible processor, and uses one.
const QUEUES: &str = " numtxqueues 1 numrxqueues 1";
/// The table of a host's first port; those of the others follow.
const TABLE_FIRST: usize = 100;
