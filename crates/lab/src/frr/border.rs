//! BGP between the intermediate switches and the outside (VL2 section 4.2.3): the pool of locators out, a default route in.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::plan::outside::{Outside, POOL};
use crate::plan::{Node, Plan, Role};

/// The addresses of a node's BGP neighbours.
pub(crate) fn peers<'a>(plan: &'a Plan, node: &'a Node) -> impl Iterator<Item = Ipv4Addr> + 'a {
    let is_border = plan.outside.is_some();
    let crosses = move |peer: &Node| is_border && (peer.role == Role::Outside) != (node.role == Role::Outside);
    let ports = node.ports.iter().filter(move |_| node.role != Role::Host);
    ports.filter(move |p| crosses(&plan.nodes[p.peer.node])).filter_map(|p| plan.port(p.peer).address).map(|a| a.address)
}

/// The configuration of bgpd.
pub(super) fn bgp(plan: &Plan, node: &Node) -> String {
    let (own, other, announced) = match node.role {
        Role::Outside => (AS_OUTSIDE, AS_INSIDE, "0.0.0.0/0".to_owned()),
        Role::Switch | Role::Host | Role::Vm => (AS_INSIDE, AS_OUTSIDE, POOL.to_string()),
    };
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    line(format_args!("router bgp {own}\n bgp router-id {}", node.locator));
    line(format_args!(" no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp {KEEPALIVE_S} {HOLD_S}"));
    for peer in peers(plan, node) {
        line(format_args!(" neighbor {peer} remote-as {other}\n neighbor {peer} timers connect 1"));
    }
    line(format_args!(" address-family ipv4 unicast\n  network {announced}\n  maximum-paths 64\n exit-address-family\nexit"));
    text
}

/// Additional configuration of OSPF at a border: it announces its default route.
pub(super) fn default_route(plan: &Plan, node: &Node) -> String {
    let is_border =
        plan.outside.iter().flat_map(|outside| &outside.borders).any(|&border| std::ptr::eq(&plan.nodes[border], node));
    let text = if is_border { "router ospf\n default-information originate metric 1 metric-type 1\nexit\n" } else { "" };
    text.to_owned()
}

/// Additional configuration of OSPF at a ToR: it announces the locators of the pool that its hosts have, which a lab's kernel has routes to.
pub(super) fn pool(plan: &Plan, node: &Node) -> String {
    let Some(Outside { hosts, .. }) = &plan.outside else { return String::new() };
    let is = |index: usize| std::ptr::eq(&plan.nodes[index], node);
    if hosts.iter().any(|&(h, _)| is(plan.nodes[h].ports[0].peer.node)) {
        return format!(
            "ip prefix-list pool seq 5 permit {POOL} le 32\nroute-map pool permit 10\n match ip address prefix-list pool\nexit\n\
             router ospf\n redistribute kernel metric-type 1 route-map pool\nexit\n"
        );
    }
    String::new()
}

/// AS numbers for private use (RFC 6996).
pub(crate) const AS_INSIDE: u32 = 65000;
pub(crate) const AS_OUTSIDE: u32 = 65001;
const KEEPALIVE_S: u32 = 1;
const HOLD_S: u32 = 3;
