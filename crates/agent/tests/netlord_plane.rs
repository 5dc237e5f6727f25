//! NetLord's data plane under real TCP: VM, server, two edge switches, server, VM, each a network namespace of this machine.
//!
//! Without root, or in a container that may not, each test says so and passes.

#![allow(clippy::disallowed_methods)] // Sockets live by the wall clock.

mod support;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use support::ebpf;
use support::fabric::Network;
use weft_agent::netlord::dataplane::{HostPlane, HostSettings, Port, SwitchPlane, SwitchSettings};
use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{MacAddr, TenantId};

const SHORT: Duration = Duration::from_millis(500);
/// From VM to VM; in each half VM, server and edge switch.
const NODES: &[&str] = &["vm1", "server1", "edge1", "edge2", "server2", "vm2"];
/// Addresses of the second VM.
const THERE: [&str; 2] = ["10.8.0.2", "fd08::2"];

/// The programs of the network.
struct Overlay {
    servers: [HostPlane; 2],
    edges: [SwitchPlane; 2],
}

/// A network with NetLord on it; none where that is not possible.
fn network(name: &str) -> Option<(Network, Overlay)> {
    if !ebpf::is_possible() {
        return None;
    }
    let network = Network::bare(name, NODES)?;
    network.cable(("edge1", "p2"), ("edge2", "p2"));
    for n in [1, 2] {
        let [vm, server, edge] = ["vm", "server", "edge"].map(|role| format!("{role}{n}"));
        network.cable((&vm, "eth0"), (&server, "vif"));
        network.cable((&server, "eth0"), (&edge, "p1"));
    }
    for (n, other) in [(1, 2), (2, 1)] {
        // No agent runs here that would answer for neighbours.
        let (vm, mac) = (format!("vm{n}"), network.mac(&format!("vm{other}"), "eth0"));
        for command in [
            format!("addr add 10.8.0.{n}/24 dev eth0"),
            format!("route replace 10.8.0.0/24 dev eth0 src 10.8.0.{n} mtu 1566"),
            format!("neigh add 10.8.0.{other} lladdr {mac} dev eth0"),
            format!("addr add fd08::{n}/64 dev eth0 nodad"),
            "route replace fd08::/64 dev eth0 proto kernel metric 256 mtu 1566".to_owned(),
            format!("neigh add fd08::{other} lladdr {mac} dev eth0"),
        ] {
            network.ip(&vm, &command);
        }
    }
    let overlay = attach(&network);
    Some((network, overlay))
}

/// Servers and switches know each other, as after a first packet.
fn attach(network: &Network) -> Overlay {
    Overlay { servers: [server(network, 1, 2), server(network, 2, 1)], edges: [edge(network, 1), edge(network, 2)] }
}

fn server(network: &Network, own: u8, other: u8) -> HostPlane {
    let name = format!("server{own}");
    let [vif, remote] = [own, other].map(|n| {
        let mac = network.mac(&format!("vm{n}"), "eth0");
        Vif { tenant: TenantId(17), space: MacSpace(1), mac }
    });
    network.within(&name, || {
        let mut plane = HostPlane::load(&HostSettings::default(), &network.pins(&name)).unwrap();
        let (uplink, mac) = plane.attach_uplink("eth0").unwrap();
        plane.set_uplink(uplink, mac, 1600, Some(place(own))).unwrap();
        let interface = plane.attach_vif("vif").unwrap();
        plane.set_vif(interface, vif, Some(uplink)).unwrap();
        plane.set_local(vif, Some(interface)).unwrap();
        plane.set_remote(remote, Some(place(other))).unwrap();
        plane.set_paths(uplink, place(other).switch, &[vlan()]).unwrap();
        plane
    })
}

fn edge(network: &Network, own: u8) -> SwitchPlane {
    let name = format!("edge{own}");
    let settings =
        SwitchSettings { mac: Some(place(own).switch), fib_entries: 1024, ageing: Duration::from_secs(300), learn: None };
    let port =
        |device: &str, number, server| Port { device: device.to_owned(), number, vlans: [vlan()].into(), native: None, server };
    let of_server = network.mac(&format!("server{own}"), "eth0");
    let ports = [port("p1", Some(place(own).port), Some(of_server)), port("p2", None, None)];
    network.within(&name, || SwitchPlane::attach(&settings, &ports, &network.pins(&name)).unwrap())
}

fn place(own: u8) -> Location {
    Location { switch: MacAddr([0x02, 0x4e, 0x4c, 0, 0, own]), port: EdgePort::new(1).unwrap() }
}

fn vlan() -> VlanId {
    VlanId::new(1).unwrap()
}

/// A stream from the first VM to an address of the second: its bytes.
fn stream(network: &Network, to: IpAddr) -> u64 {
    network.stream("vm1", "vm2", to, SHORT)
}

fn ping(network: &Network, to: IpAddr, echoes: u16) -> bool {
    network.ping("vm1", to, echoes)
}

fn drops(overlay: &Overlay) -> Vec<String> {
    let servers = overlay.servers.iter().map(|it| it.counters().unwrap());
    let edges = overlay.edges.iter().map(|it| it.counters().unwrap());
    // The servers' own neighbour discovery has no tag, and the switches no VLAN for it.
    let of = |all: weft_agent::netlord::dataplane::Named| {
        all.iter()
            .filter(|(name, is_drop, n)| *is_drop && *n > 0 && *name != "no_vlan")
            .map(|(name, _, n)| format!("{name} {n}"))
            .collect::<Vec<_>>()
    };
    servers.chain(edges).flat_map(of).collect()
}

#[test]
fn tcp_of_both_versions_crosses_whole_segments_and_all() {
    let Some((network, overlay)) = network("nltcp") else { return };
    for to in THERE.map(|to| to.parse().unwrap()) {
        assert!(ping(&network, to, 3), "{to} answers");
        let before = overlay.servers[1].counters().unwrap().get("received");
        let bytes = stream(&network, to);
        let packets = overlay.servers[1].counters().unwrap().get("received") - before;
        let packet = bytes / packets;
        assert!(packet > 9000, "segmentation offload is kept: {packet} bytes a packet");
    }
    every_packet_arrives(&overlay);
    assert!(drops(&overlay).is_empty(), "{:?}", drops(&overlay));
    let (learned, size) = overlay.edges[0].fib().unwrap();
    assert_eq!((learned.len(), size), (1, 1024), "the other switch, and no VM: {learned:?}");
}

/// As many packets are counted where they end as where they began, and as the tenant's. The last ones of a stream (ends, neighbour discovery) may be under
/// way while counters are read, one after another.
fn every_packet_arrives(overlay: &Overlay) {
    let began = Instant::now();
    loop {
        let [near, far] = [0, 1].map(|at| overlay.servers[at].counters().unwrap());
        let (sent, received) = (near.get("sent"), far.get("received"));
        let last_hop = overlay.edges[1].counters().unwrap().get("last_hop");
        let traffic: Vec<_> = overlay.edges[1].tenants().unwrap().iter().map(|it| (it.tenant.0, it.packets)).collect();
        if (received, last_hop, &traffic[..]) == (sent, sent, &[(17, sent)]) {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "sent {sent}, at the last hop {last_hop} {traffic:?}, received {received}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_and_tables_outlive_the_process_that_put_them_there() {
    let Some((network, overlay)) = network("nlkeep") else { return };
    drop(overlay);
    let there = THERE[0].parse().unwrap();
    assert!(ping(&network, there, 3));
    assert!(stream(&network, there) > 1_000_000);
    let Overlay { servers, edges } = attach(&network);
    assert!(servers.iter().all(|it| it.adopted()) && edges.iter().all(|it| it.adopted()));
    let (vifs, remotes) = servers[0].inherited().unwrap();
    assert_eq!((vifs.len(), remotes.len()), (1, 1));
    assert!(servers[0].counters().unwrap().get("sent") > 100, "its counters too");
    for (plane, node) in servers.into_iter().zip(["server1", "server2"]) {
        network.within(node, || plane.detach()).unwrap();
    }
    for (plane, node) in edges.into_iter().zip(["edge1", "edge2"]) {
        network.within(node, || plane.detach()).unwrap();
    }
    assert!(!ping(&network, there, 1));
}
