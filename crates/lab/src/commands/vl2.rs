//! VL2's addresses, and servers that move, as batches for `ip`.

use std::net::Ipv4Addr;

use super::{line, local};
use crate::plan::vl2::{AA4, AA6, MTU_OVERLAY, RENDEZVOUS, Vl2Host};
use crate::plan::{Hop, Net, Node, Port, Route, RouteTarget};

/// `ip`, in a host's namespace: its application addresses, on the NIC that has its locator. Without that of IPv4 if it leases it; the server knows it by its MAC address.
pub fn host(host: &Vl2Host, dhcp: bool) -> String {
    let mut batch = String::new();
    let len = |prefix: &'static str| prefix.split_once('/').map_or("", |(_, len)| len);
    if dhcp {
        line(&mut batch, format_args!("link set eth0 address {}", host.mac()));
    } else {
        line(&mut batch, format_args!("addr add {}/{} dev eth0 noprefixroute", host.aa4, len(AA4)));
        line(&mut batch, format_args!("route add {AA4} dev eth0 src {} mtu {MTU_OVERLAY}", host.aa4));
    }
    line(&mut batch, format_args!("addr add {}/{} dev eth0 nodad noprefixroute", host.aa6, len(AA6)));
    line(&mut batch, format_args!("route add {AA6} dev eth0 src {} mtu {MTU_OVERLAY}", host.aa6));
    batch
}

/// The script of a host's DHCP client (busybox's udhcpc), which sets `interface`, `ip` and `mask`, the length of the prefix.
pub fn lease_script() -> String {
    format!(
        "#!/bin/sh\n\
         case \"$1\" in\n\
         bound | renew)\n    \
         ip -4 addr replace \"$ip/$mask\" dev \"$interface\" noprefixroute\n    \
         ip -4 route replace {AA4} dev \"$interface\" src \"$ip\" mtu {MTU_OVERLAY}\n    \
         ;;\n\
         deconfig) ip -4 addr flush dev \"$interface\" to {AA4} ;;\n\
         esac\n"
    )
}

/// `ip`, in the namespace of the ToR that a server leaves: moves the end of its cable to the other ToR, with the name of the port there.
pub fn unplug(port: &Port, to: &Node, name: &str) -> String {
    format!("link set {} netns {} name {name}\n", port.name, to.namespace)
}

/// `ip`, in the namespace of a ToR to which a server has moved: the port, and the routes by it.
pub fn plug(tor: &Node, port: usize, multicast: bool) -> String {
    let mut batch = String::new();
    let name = &tor.ports[port].name;
    let behind =
        |route: &&Route| matches!(route.target, RouteTarget::Direct(p) | RouteTarget::Behind(Hop { port: p, .. }) if p == port);
    let own: Vec<&Route> = tor.local.iter().filter(behind).collect();
    line(&mut batch, format_args!("link set {name} up"));
    for host in own.iter().filter(|r| multicast && matches!(r.target, RouteTarget::Direct(_))) {
        line(&mut batch, format_args!("addr add {} peer {} dev {name} noprefixroute", tor.locator, host.to.address));
    }
    own.into_iter().for_each(|route| local(&mut batch, tor, route));
    batch
}

/// `ip`, in the namespace of a server that has moved: its new locator and gateway. Its application addresses stay.
pub fn renumber(host: &Node, old: Ipv4Addr) -> String {
    let mut batch = String::new();
    line(&mut batch, format_args!("addr add {} dev {}", Net::host(host.locator), host.ports[0].name));
    host.local.iter().for_each(|route| local(&mut batch, host, route));
    // The old address last: with it the kernel removes routes that name it.
    batch.replace("route add", "route replace") + &format!("addr del {} dev {}\n", Net::host(old), host.ports[0].name)
}

/// The device of a switch with the address of the multicast rendezvous point; not `lo`, whose addresses OSPF announces at no cost.
pub const RENDEZVOUS_DEVICE: &str = "rp";

/// `ip`, in the namespace of a switch that is a rendezvous point.
pub fn rendezvous() -> String {
    let mut batch = String::new();
    line(&mut batch, format_args!("link add {RENDEZVOUS_DEVICE} type veth peer name {RENDEZVOUS_DEVICE}-end"));
    line(&mut batch, format_args!("addr add {} dev {RENDEZVOUS_DEVICE}", Net::host(RENDEZVOUS)));
    line(&mut batch, format_args!("link set {RENDEZVOUS_DEVICE} up"));
    line(&mut batch, format_args!("link set {RENDEZVOUS_DEVICE}-end up"));
    batch
}
