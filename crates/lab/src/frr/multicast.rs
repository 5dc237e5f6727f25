//! PIM and IGMP: broadcasts of a service go to the service's multicast group (VL2 section 4.2.3).
//!
//! Hosts join by IGMP at their ToR. Trees are sparse (RFC 7761): a ToR joins towards the rendezvous point, and from the first packet on towards the
//! sender, so that a packet crosses a link at most once.
//!
//! ```text
//!   int0   rp 100.127.0.0, metric 1      the rendezvous point
//!   int1   rp 100.127.0.0, metric 1000   its second: OSPF leads there once the first is gone
//!     \____ MSDP (RFC 3618): each knows the senders that the other has heard of
//! ```
//! Both have the address of the rendezvous point from the start, and a ToR's joins and new senders' packets follow the route to it. Established trees do not
//! depend on it.

use std::fmt::Write as _;

use super::Interfaces;
use crate::plan::vl2::{MULTICAST, RENDEZVOUS};
use crate::plan::{Node, Plan, Role};

/// The configuration of pimd at a switch.
pub(super) fn pim(plan: &Plan, switch: &Node, interfaces: &Interfaces<'_>) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    if plan.has_multicast() {
        line(format_args!("ip pim rp {RENDEZVOUS} {MULTICAST}"));
    }
    if let Some((_, others)) = plan.as_rendezvous_point(switch) {
        line(format_args!("interface {}\n ip pim passive\nexit", interfaces.point));
        for other in others {
            line(format_args!("ip msdp mesh-group {MESH} source {}", switch.locator));
            line(format_args!("ip msdp mesh-group {MESH} member {}", other.locator));
        }
    }
    line(format_args!("ip pim ecmp"));
    if let Some(loopback) = interfaces.loopback {
        line(format_args!("interface {loopback}\n ip pim\nexit"));
    }
    if interfaces.has_vlan && switch.prefix.is_some() {
        line(format_args!("interface {}\n ip pim passive\n ip igmp\nexit", interfaces.rack));
    }
    for port in &switch.ports {
        let name = (interfaces.port)(port);
        match plan.nodes[port.peer.node].role {
            Role::Switch => line(format_args!("interface {name}\n ip pim\n ip pim hello {HELLO_S} {HOLD_S}\nexit")),
            Role::Host if !interfaces.has_vlan => line(format_args!("interface {name}\n ip pim passive\n ip igmp\nexit")),
            Role::Host | Role::Outside | Role::Vm => {}
        }
    }
    let moves = plan.overlay.vl2().into_iter().flat_map(|vl2| &vl2.moves);
    for moved in moves.filter(|m| std::ptr::eq(&plan.nodes[m.tor], switch)) {
        // The port of a server that will move here.
        line(format_args!("interface {}\n ip pim passive\n ip igmp\nexit", moved.port));
    }
    text
}

/// What OSPF announces of the rendezvous point at a switch that is it: the second one's route is used while there is no other.
pub(super) fn ospf(plan: &Plan, switch: &Node) -> String {
    let Some((number, _)) = plan.as_rendezvous_point(switch) else { return String::new() };
    let metric = METRICS[number];
    format!(
        "ip prefix-list rendezvous seq 5 permit {RENDEZVOUS}/32\n\
         route-map rendezvous permit 10\n match ip address prefix-list rendezvous\n set metric {metric}\nexit\n\
         router ospf\n redistribute connected metric-type 1 route-map rendezvous\nexit\n"
    )
}

/// The metrics with which OSPF announces the rendezvous point and its second, which is more than any path through a fabric.
pub(crate) const METRICS: [u32; 2] = [1, 1000];
/// The name of the two rendezvous points' mesh group.
pub(crate) const MESH: &str = "weft";
const HELLO_S: u32 = 1;
const HOLD_S: u32 = 4;
