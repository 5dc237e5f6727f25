//! NetLord's data plane under real TCP: VM, server, two edge switches, server, VM, each a network namespace of this machine.
//!
//! Without root, or in a container that may not, each test says so and passes.

#![allow(clippy::disallowed_methods)] // Sockets live by the wall clock.

#[path = "support/ebpf.rs"]
mod ebpf;

use std::net::IpAddr;
use std::time::Duration;

use weft_agent::bench::{NetlordOverlay, Path, VM, VM6, attach_netlord, build_netlord, ping, stream};

const SHORT: Duration = Duration::from_millis(500);

/// A path with NetLord on it; none where that is not possible.
fn path(label: &str) -> Option<(Path, NetlordOverlay)> {
    if !ebpf::is_possible() {
        return None;
    }
    let path = build_netlord(label).unwrap();
    let overlay = attach_netlord(&path).unwrap();
    Some((path, overlay))
}

fn drops(overlay: &NetlordOverlay) -> Vec<String> {
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
    let Some((path, overlay)) = path("nltcp") else { return };
    for to in [IpAddr::from(VM[1]), VM6[1].into()] {
        ping(&path, to, 3).unwrap();
        let before = overlay.servers[1].counters().unwrap().get("received");
        let sent = stream(&path, to, SHORT).unwrap();
        let packets = overlay.servers[1].counters().unwrap().get("received") - before;
        let packet = sent.bytes / packets;
        eprintln!("{to}: {:.2} Gbps, {packet} bytes a packet", sent.goodput_bps() / 1e9);
        assert!(packet > 9000, "segmentation offload is kept: {packet} bytes a packet");
    }
    let [near, far] = [0, 1].map(|at| overlay.servers[at].counters().unwrap());
    assert_eq!(near.get("sent"), far.get("received"), "nothing is lost");
    assert_eq!(far.get("received"), overlay.edges[1].counters().unwrap().get("last_hop"));
    assert!(drops(&overlay).is_empty(), "{:?}", drops(&overlay));
    let (learned, size) = overlay.edges[0].fib().unwrap();
    assert_eq!((learned.len(), size), (1, 1024), "the other switch, and no VM: {learned:?}");
    let traffic = overlay.edges[1].tenants().unwrap();
    assert_eq!(traffic.iter().map(|it| (it.tenant.0, it.packets)).collect::<Vec<_>>(), [(17, far.get("received"))]);
}

#[test]
fn programs_and_tables_outlive_the_process_that_put_them_there() {
    let Some((path, overlay)) = path("nlkeep") else { return };
    drop(overlay);
    ping(&path, VM[1].into(), 3).unwrap();
    assert!(stream(&path, VM[1].into(), SHORT).unwrap().bytes > 1_000_000);
    let overlay = attach_netlord(&path).unwrap();
    assert!(overlay.servers.iter().all(|it| it.adopted()) && overlay.edges.iter().all(|it| it.adopted()));
    let (vifs, remotes) = overlay.servers[0].inherited().unwrap();
    assert_eq!((vifs.len(), remotes.len()), (1, 1));
    assert!(overlay.servers[0].counters().unwrap().get("sent") > 100, "its counters too");
    overlay.detach(&path).unwrap();
    ping(&path, VM[1].into(), 1).unwrap_err();
}
