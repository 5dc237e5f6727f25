//! PIM and IGMP: broadcasts of a service go to the service's multicast group (VL2 section 4.2.3).
//!
//! Hosts join by IGMP at their ToR. Trees are sparse (RFC 7761): a ToR joins towards the rendezvous point, and from the first packet on towards the
//! sender, so that a packet crosses a link at most once. The rendezvous point is the first intermediate switch; while it is down, new senders do not
//! reach the group, and established trees continue.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::plan::vl2::MULTICAST;
use crate::plan::{Node, Plan, Role};

/// The configuration of pimd at a switch.
pub(super) fn pim(plan: &Plan, switch: &Node) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    if let Some(point) = rendezvous(plan) {
        line(format_args!("ip pim rp {point} {MULTICAST}"));
    }
    line(format_args!("ip pim ecmp"));
    line(format_args!("interface lo\n ip pim\nexit"));
    for port in &switch.ports {
        match plan.nodes[port.peer.node].role {
            Role::Switch => line(format_args!("interface {}\n ip pim\n ip pim hello {HELLO_S} {HOLD_S}\nexit", port.name)),
            Role::Host => line(format_args!("interface {}\n ip pim passive\n ip igmp\nexit", port.name)),
            Role::Outside | Role::Vm => {}
        }
    }
    let moves = plan.overlay.vl2().into_iter().flat_map(|vl2| &vl2.moves);
    for moved in moves.filter(|m| std::ptr::eq(&plan.nodes[m.tor], switch)) {
        // The port of a server that will move here.
        line(format_args!("interface {}\n ip pim passive\n ip igmp\nexit", moved.port));
    }
    text
}

/// The rendezvous point.
fn rendezvous(plan: &Plan) -> Option<Ipv4Addr> {
    let vl2 = plan.overlay.vl2()?;
    let first = vl2.intermediates.first().map(|&i| &plan.nodes[i]);
    first.or_else(|| plan.switches().next()).map(|n| n.locator)
}

const HELLO_S: u32 = 1;
const HOLD_S: u32 = 4;
