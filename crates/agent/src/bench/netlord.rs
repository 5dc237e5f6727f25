//! NetLord between two VMs, over two servers and two edge switches (NetLord section 5.1).
//!
//! ```text
//!   VM h1 eth0 -- vif s1 eth0 -- p1 e1 p2 -- p2 e2 p1 -- eth0 s2 vif -- eth0 h2 VM
//!   10.9.1.2   .1     10.9.11.2   .1  10.9.12.1  .2   10.9.21.1   .2   .1   10.9.2.2     plain: the kernel forwards, MTU 1600
//!   fd09:1::2                                                           fd09:2::2        the same, IPv6
//!   10.8.0.1, fd08::1       agent     switch   switch     agent         10.8.0.2         NetLord: routes of an MTU of 1566
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{MacAddr, TenantId};

use super::error::Result;
use super::path::{Layout, Node, Path, UNDERLAY_MTU, mac};
use crate::netlord::dataplane::{HostPlane, HostSettings, Port, SwitchPlane, SwitchSettings};

/// The second VM's address where the kernel forwards.
pub(super) const PLAIN: Ipv4Addr = Ipv4Addr::new(10, 9, 2, 2);
/// The same, IPv6.
pub(super) const PLAIN6: Ipv6Addr = Ipv6Addr::new(0xfd09, 2, 0, 0, 0, 0, 0, 2);
/// Those of the tenant.
pub const VM: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 8, 0, 1), Ipv4Addr::new(10, 8, 0, 2)];
/// The same, IPv6.
pub const VM6: [Ipv6Addr; 2] = [Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, 2)];

const LAYOUT: Layout = Layout {
    nodes: &[Node::Host1, Node::Server1, Node::Edge1, Node::Edge2, Node::Server2, Node::Host2],
    links: &[
        [(Node::Host1, "eth0"), (Node::Server1, "vif")],
        [(Node::Server1, "eth0"), (Node::Edge1, "p1")],
        [(Node::Edge1, "p2"), (Node::Edge2, "p2")],
        [(Node::Edge2, "p1"), (Node::Server2, "eth0")],
        [(Node::Server2, "vif"), (Node::Host2, "eth0")],
    ],
    configuration: &[
        (Node::Host1, "link set eth0 up"),
        (Node::Server1, "link set vif up"),
        (Node::Server1, "link set eth0 up"),
        (Node::Edge1, "link set p1 up"),
        (Node::Edge1, "link set p2 up"),
        (Node::Edge2, "link set p1 up"),
        (Node::Edge2, "link set p2 up"),
        (Node::Server2, "link set eth0 up"),
        (Node::Server2, "link set vif up"),
        (Node::Host2, "link set eth0 up"),
        (Node::Host1, "addr add 10.9.1.2/24 dev eth0"),
        (Node::Host1, "route add default via 10.9.1.1"),
        (Node::Server1, "addr add 10.9.1.1/24 dev vif"),
        (Node::Server1, "addr add 10.9.11.2/24 dev eth0"),
        (Node::Server1, "route add default via 10.9.11.1"),
        (Node::Edge1, "addr add 10.9.11.1/24 dev p1"),
        (Node::Edge1, "addr add 10.9.12.1/24 dev p2"),
        (Node::Edge1, "route add 10.9.1.0/24 via 10.9.11.2"),
        (Node::Edge1, "route add default via 10.9.12.2"),
        (Node::Edge2, "addr add 10.9.12.2/24 dev p2"),
        (Node::Edge2, "addr add 10.9.21.1/24 dev p1"),
        (Node::Edge2, "route add 10.9.2.0/24 via 10.9.21.2"),
        (Node::Edge2, "route add default via 10.9.12.1"),
        (Node::Server2, "addr add 10.9.21.2/24 dev eth0"),
        (Node::Server2, "addr add 10.9.2.1/24 dev vif"),
        (Node::Server2, "route add default via 10.9.21.1"),
        (Node::Host2, "addr add 10.9.2.2/24 dev eth0"),
        (Node::Host2, "route add default via 10.9.2.1"),
        (Node::Host1, "addr add fd09:1::2/64 dev eth0 nodad"),
        (Node::Host1, "route add default via fd09:1::1"),
        (Node::Server1, "addr add fd09:1::1/64 dev vif nodad"),
        (Node::Server1, "addr add fd09:11::2/64 dev eth0 nodad"),
        (Node::Server1, "route add default via fd09:11::1"),
        (Node::Edge1, "addr add fd09:11::1/64 dev p1 nodad"),
        (Node::Edge1, "addr add fd09:12::1/64 dev p2 nodad"),
        (Node::Edge1, "route add fd09:1::/64 via fd09:11::2"),
        (Node::Edge1, "route add default via fd09:12::2"),
        (Node::Edge2, "addr add fd09:12::2/64 dev p2 nodad"),
        (Node::Edge2, "addr add fd09:21::1/64 dev p1 nodad"),
        (Node::Edge2, "route add fd09:2::/64 via fd09:21::2"),
        (Node::Edge2, "route add default via fd09:12::1"),
        (Node::Server2, "addr add fd09:21::2/64 dev eth0 nodad"),
        (Node::Server2, "addr add fd09:2::1/64 dev vif nodad"),
        (Node::Server2, "route add default via fd09:21::1"),
        (Node::Host2, "addr add fd09:2::2/64 dev eth0 nodad"),
        (Node::Host2, "route add default via fd09:2::1"),
        // The tenant's; no agent runs here that would answer for neighbours.
        (Node::Host1, "addr add 10.8.0.1/24 dev eth0"),
        (Node::Host1, "route replace 10.8.0.0/24 dev eth0 src 10.8.0.1 mtu 1566"),
        (Node::Host1, "neigh add 10.8.0.2 lladdr 02:00:00:00:04:02 dev eth0"),
        (Node::Host1, "addr add fd08::1/64 dev eth0 nodad"),
        (Node::Host1, "route replace fd08::/64 dev eth0 proto kernel metric 256 mtu 1566"),
        (Node::Host1, "neigh add fd08::2 lladdr 02:00:00:00:04:02 dev eth0"),
        (Node::Host2, "addr add 10.8.0.2/24 dev eth0"),
        (Node::Host2, "route replace 10.8.0.0/24 dev eth0 src 10.8.0.2 mtu 1566"),
        (Node::Host2, "neigh add 10.8.0.1 lladdr 02:00:00:00:00:01 dev eth0"),
        (Node::Host2, "addr add fd08::2/64 dev eth0 nodad"),
        (Node::Host2, "route replace fd08::/64 dev eth0 proto kernel metric 256 mtu 1566"),
        (Node::Host2, "neigh add fd08::1 lladdr 02:00:00:00:00:01 dev eth0"),
    ],
};

/// The programs on the path.
#[derive(Debug)]
pub struct Overlay {
    /// Those of the servers.
    pub servers: [HostPlane; 2],
    /// Those of the edge switches.
    pub edges: [SwitchPlane; 2],
}

impl Overlay {
    /// Takes them off.
    ///
    /// # Errors
    /// [`BenchError`](super::BenchError) if the kernel refuses.
    pub fn detach(self, path: &Path) -> Result<()> {
        let [server1, server2] = self.servers;
        let [edge1, edge2] = self.edges;
        path.within(Node::Server1, || server1.detach())??;
        path.within(Node::Server2, || server2.detach())??;
        path.within(Node::Edge1, || edge1.detach())??;
        path.within(Node::Edge2, || edge2.detach())??;
        Ok(())
    }
}

/// Makes a path whose ends are VMs of a tenant, over two servers and two edge switches; `label` as for [`Path::build`].
///
/// # Errors
/// [`BenchError::Command`](super::BenchError::Command) without root.
pub fn build(label: &str) -> Result<Path> {
    Path::build_as(label, &LAYOUT)
}

/// Puts NetLord on a path of [`build`]: servers and switches know each other, as after a first packet.
///
/// # Errors
/// [`BenchError`](super::BenchError) if the data plane cannot be put in place.
pub fn attach(path: &Path) -> Result<Overlay> {
    let servers = [server(path, Node::Server1, 0)?, server(path, Node::Server2, 1)?];
    let edges = [edge(path, Node::Edge1, 0)?, edge(path, Node::Edge2, 1)?];
    Ok(Overlay { servers, edges })
}

fn server(path: &Path, node: Node, own: usize) -> Result<HostPlane> {
    let pins = path.pins().join(node.name());
    path.within(node, || {
        let mut plane = HostPlane::load(&HostSettings::default(), &pins)?;
        let (uplink, mac) = plane.attach_uplink("eth0")?;
        plane.set_uplink(uplink, mac, UNDERLAY_MTU.into(), Some(place(own)))?;
        let interface = plane.attach_vif("vif")?;
        plane.set_vif(interface, vif(own), Some(uplink))?;
        plane.set_local(vif(own), Some(interface))?;
        plane.set_remote(vif(1 - own), Some(place(1 - own)))?;
        plane.set_paths(uplink, place(1 - own).switch, &[vlan()])?;
        Ok(plane)
    })?
}

fn edge(path: &Path, node: Node, own: usize) -> Result<SwitchPlane> {
    let pins = path.pins().join(node.name());
    let settings =
        SwitchSettings { mac: Some(place(own).switch), fib_entries: 1024, ageing: Duration::from_secs(300), learn: None };
    let port =
        |device: &str, number, server| Port { device: device.to_owned(), number, vlans: [vlan()].into(), native: None, server };
    // The server's end of the second link, or of the fourth.
    let of_server = if own == 0 { mac(1, 0) } else { mac(3, 1) };
    let ports = [port("p1", Some(place(own).port), Some(of_server)), port("p2", None, None)];
    Ok(path.within(node, || SwitchPlane::attach(&settings, &ports, &pins))??)
}

fn place(own: usize) -> Location {
    let switch = MacAddr([0x02, 0x4e, 0x4c, 0, 0, own as u8 + 1]);
    Location { switch, port: EdgePort::new(1).expect("it is one") }
}

fn vif(own: usize) -> Vif {
    let mac = if own == 0 { mac(0, 0) } else { mac(4, 1) };
    Vif { tenant: TenantId(17), space: MacSpace(1), mac }
}

fn vlan() -> VlanId {
    VlanId::new(1).expect("it is one")
}
