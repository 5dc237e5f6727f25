//! Interfaces of VMs and of their hosts, as batches for `ip`.

use std::fmt::Write as _;

use crate::plan::netlord::{MTU_VM, Netlord, Vm, net_of};
use crate::plan::{Node, Role};

/// `ip`, in a VM's namespace: its MAC address, addresses, and the virtual router as its gateway. It segments TCP itself: segmentation below the agent would
/// copy one outer header to all segments.
pub fn vm(vm: &Vm) -> String {
    let mut batch = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(batch, "{text}").expect("a text grows");
    line(format_args!("link set eth0 address {} mtu {MTU_VM} gso_max_segs 1", vm.mac));
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
