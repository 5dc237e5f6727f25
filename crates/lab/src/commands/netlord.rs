//! Interfaces of VMs and of their hosts, as batches for `ip`.

use std::fmt::Write as _;

use crate::plan::netlord::{MTU_VM, Netlord, Vm, net_of};
use crate::plan::{Node, Plan, Role};

/// `ip`, in a VM's namespace: its MAC address, addresses, and the virtual router as its gateway. It segments TCP itself if a queue below the agent would,
/// which would copy one outer header to all segments.
pub fn vm(plan: &Plan, vm: &Vm) -> String {
    let mut batch = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(batch, "{text}").expect("a text grows");
    let mut queues = plan.nodes.iter().flat_map(|node| &node.ports).filter(|port| port.queue_bytes > 0);
    let gso = if queues.any(|port| port.burst_bytes < GSO_MAX) { " gso_max_segs 1" } else { "" };
    line(format_args!("link set eth0 address {} mtu {MTU_VM}{gso}", vm.mac));
    for &address in &vm.addresses {
        let nodad = if address.0.is_ipv6() { " nodad" } else { "" };
        line(format_args!("addr add {} dev eth0{nodad}", net_of(address)));
    }
    for gateway in &vm.gateways {
        line(format_args!("route add default via {gateway} dev eth0"));
    }
    batch
}

/// `ip`, in a host's namespace: the MAC address of its DHCP lease, if it has one, and the MTU of its VMs' interfaces.
pub fn host(netlord: &Netlord, at: usize, node: &Node) -> String {
    debug_assert_eq!(node.role, Role::Host);
    let mut batch = String::new();
    if let Some(lease) = netlord.provider.as_ref().and_then(|it| it.lease(at)) {
        writeln!(batch, "link set {} address {}", node.ports[0].name, lease.mac).expect("a text grows");
    }
    for vm in netlord.of_host(at) {
        let device = &node.ports[vm.port].name;
        writeln!(batch, "link set {device} mtu {MTU_VM}").expect("a text grows");
    }
    batch
}

/// `ip`, in the namespace of the host that a VM leaves: moves the end of its interface to another host's.
pub fn move_out(device: &str, name: &str, to: &str) -> String {
    format!("link set {device} netns {to} name {name}\n")
}

/// A queue segments packets that are larger than its burst: those of TCP have at most 64 KiB of payload, and headers of each segment.
const GSO_MAX: u64 = 128 << 10;
