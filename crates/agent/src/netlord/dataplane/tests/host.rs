//! The hooks of a server: every field of the encapsulation, and everything that is refused.

use weft_control::netlord::agent::{RoutedFlow, VifId, flow};
use weft_control::netlord::spain::choose;
use weft_control::wire::netlord::{Encapsulation, Overlay, Recipient, group_mac, route_in_place};
use weft_fabric::routing::spain::VlanId as TableVlan;

use super::*;
use crate::dataplane::testing::{CONSUMED, DROPPED, OK, REDIRECTED, run};
use crate::netlord::dataplane::Event;

fn on(plane: &HostPlane, program: &str, frame: &[u8]) -> Ran {
    let before = plane.counters().unwrap();
    let result = run(plane.loaded(), program, frame, 0);
    counted(&before, &plane.counters().unwrap(), result)
}

/// The one counter of a frame that goes no further.
fn reason(plane: &HostPlane, program: &str, frame: &[u8]) -> (i32, &'static str) {
    let ((verdict, after), counts) = on(plane, program, frame);
    assert_eq!(counts.len(), 1, "{verdict} {counts:?}");
    assert_eq!(after, frame, "what is not sent on is not written to");
    (verdict, counts[0].0)
}

fn chosen(inner: &[u8]) -> VlanId {
    let table = VLANS.map(TableVlan);
    vlan(choose(table, flow(vif(1).tenant, inner).0).unwrap().0)
}

/// What the agent itself would send, without the tag, which the kernel keeps beside the frame.
fn reference(inner: &[u8], id: Option<VlanId>, (switch, port): (MacAddr, EdgePort)) -> Vec<u8> {
    let overlay = Overlay { to: Recipient::Port(port), tenant: vif(1).tenant, space: vif(1).space, vlan: id };
    let src = if id.is_some() { OWN_SWITCH } else { HARDWARE };
    let mut out = Vec::new();
    Encapsulation { dst: switch, src, tag: None, overlay, inner }.emit(&mut out);
    out.truncate(34 + inner.len());
    out
}

/// Frames of all kinds from VM 1 to VM 2.
fn frames() -> Vec<Vec<u8>> {
    let to = |ethertype: u16, payload: &[u8]| ethernet(vm(2), vm(1), ethertype, payload);
    let mut all = vec![
        to(0x0800, &ip4(17, &[], 0, &udp(1, 2, 0))),
        to(0x0800, &ip4(6, &[], 0x4000, &udp(40_000, 80, 1400))),
        to(0x0800, &ip4(1, &[], 0, &[8, 0, 0, 0])),
        to(0x0800, &ip4(17, &[7, 7, 4, 0, 0, 0, 0, 0], 0, &udp(5, 6, 10))),
        // The first fragment, and a later one.
        to(0x0800, &ip4(17, &[], 0x2000, &udp(5, 6, 8))),
        to(0x0800, &ip4(17, &[], 0x2001, &udp(5, 6, 8))),
        to(0x86dd, &ip6(17, &udp(7, 8, 100))),
        to(0x86dd, &ip6(6, &udp(7, 8, 1400))),
        // Hop-by-hop options, then UDP; a later fragment.
        to(0x86dd, &ip6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(9, 10, 4)].concat())),
        to(0x86dd, &ip6(44, &[&[17, 0, 0, 8, 0, 0, 0, 1][..], &udp(9, 10, 4)].concat())),
        to(0x88b7, &[1; 46]),
        to(0x88b7, &[1; 200]),
        // As much as fits: 20 less than 1,600 with the Ethernet header.
        to(0x88b7, &[1; 1566]),
    ];
    all.extend((0..40).map(|n| to(0x0800, &ip4(17, &[], 0, &udp(1000 + 7 * n, 53, n.into())))));
    all.extend((0..40).map(|n| to(0x86dd, &ip6(6, &udp(2000 + 13 * n, 443, n.into())))));
    all
}

#[test]
fn frames_to_another_switch_are_encapsulated_to_the_byte() {
    let Some((_pins, plane)) = server() else { return };
    let mut seen = std::collections::BTreeSet::new();
    for inner in frames() {
        let ((verdict, out), counts) = on(&plane, "netlord_vif", &inner);
        let id = chosen(&inner);
        seen.insert(id);
        assert_eq!(verdict, REDIRECTED, "{inner:02x?}");
        assert_eq!(out, reference(&inner, Some(id), (FAR_SWITCH, port(9))), "{inner:02x?}");
        assert_eq!(counts, [("sent", 1), ("sent_bytes", inner.len() as u64)]);
        assert_eq!(Encapsulation::parse(&out).map(|it| it.inner), Ok(&inner[..]), "a receiver takes it");
    }
    assert_eq!(seen.len(), VLANS.len(), "flows are spread");
    let mut plane = plane;
    let reported = plane.events().unwrap();
    let paths = |it: &Event| matches!(it, Event::Sent(HERE, at, vlan) if *at == place(FAR_SWITCH, 9) && seen.contains(vlan));
    assert!(
        reported.len() >= VLANS.len() && reported.len() < 60 && reported.iter().all(paths),
        "a sign of each path now and then: {}",
        reported.len()
    );
}

#[test]
fn each_interface_has_paths_of_its_own() {
    let Some((_pins, mut plane)) = server() else { return };
    let other = MacAddr([0x0a, 0x51, 0, 0, 0, 2]);
    let third = MacAddr([0x02, 0x4e, 0x4c, 0, 0, 3]);
    plane.set_uplink(THERE, other, 1600, Some(place(third, 7))).unwrap();
    plane.set_vif(HERE, vif(1), Some(THERE)).unwrap();
    let inner = &frames()[0];
    assert_eq!(reason(&plane, "netlord_vif", inner), (DROPPED, "no_path"), "those of the first are not the second's");
    plane.set_paths(THERE, FAR_SWITCH, &[vlan(77)]).unwrap();
    let ((verdict, out), _) = on(&plane, "netlord_vif", inner);
    let it = Encapsulation::parse(&out).unwrap();
    assert_eq!((verdict, it.overlay.vlan, it.src), (REDIRECTED, Some(vlan(77)), third), "from the switch that it leads to");
    assert_eq!(plane.events().unwrap(), [Event::Sent(THERE, place(FAR_SWITCH, 9), vlan(77))]);
    // To the first one's switch, which is another's here.
    plane.set_remote(vif(2), Some(place(OWN_SWITCH, 5))).unwrap();
    plane.set_paths(THERE, OWN_SWITCH, &[vlan(78)]).unwrap();
    let ((_, out), _) = on(&plane, "netlord_vif", inner);
    assert_eq!(Encapsulation::parse(&out).unwrap().overlay.vlan, Some(vlan(78)));
    // What comes by the first is delivered, wherever the VIF sends, and is a sign of the first one's path.
    plane.set_remote(vif(2), Some(place(FAR_SWITCH, 9))).unwrap();
    plane.events().unwrap();
    assert_eq!(on(&plane, "netlord_uplink", &arrived(1, &[1; 60]).0).0.0, REDIRECTED);
    assert_eq!(plane.events().unwrap(), [Event::Heard(HERE, place(FAR_SWITCH, 9), vlan(5))]);
}

#[test]
fn on_one_switch_the_source_is_the_servers_own() {
    let Some((_pins, mut plane)) = server() else { return };
    plane.set_remote(vif(2), Some(place(OWN_SWITCH, 5))).unwrap();
    let inner = &frames()[0];
    let ((verdict, out), counts) = on(&plane, "netlord_vif", inner);
    assert_eq!((verdict, out), (REDIRECTED, reference(inner, None, (OWN_SWITCH, port(5)))));
    assert_eq!(counts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["sent", "sent_bytes", "sent_same_switch"]);
    // This very port: what is known is stale.
    plane.set_remote(vif(2), Some(place(OWN_SWITCH, 4))).unwrap();
    assert_eq!(reason(&plane, "netlord_vif", inner), (CONSUMED, "to_agent"));
}

#[test]
fn on_one_server_nothing_is_added() {
    let Some((_pins, plane)) = server() else { return };
    let frame = ethernet(vm(3), vm(1), 0x88b7, &[3; 60]);
    assert_eq!(on(&plane, "netlord_vif", &frame), ((REDIRECTED, frame.clone()), vec![("local", 1)]));
}

/// A VM that knows another one checks that it is still there, and is answered, without an agent; all else of ARP and neighbour discovery is the agent's.
#[test]
fn neighbours_that_know_each_other_need_no_agent() {
    use weft_control::wire::packet::arp::Arp;
    use weft_control::wire::packet::ndp::Neighbor;
    let Some((_pins, mut plane)) = server() else { return };
    let arp = |is_request: bool, sender: (MacAddr, [u8; 4]), dst: MacAddr| {
        let mut body = Vec::new();
        Arp { is_request, sender: (sender.0, sender.1.into()), target: (vm(2), [10, 0, 0, 2].into()) }.emit(&mut body);
        ethernet(dst, vm(1), 0x0806, &body)
    };
    let own = [10, 0, 0, 1];
    assert_eq!(reason(&plane, "netlord_vif", &arp(true, (vm(1), own), vm(2))), (CONSUMED, "to_agent"), "not known as its own");
    plane.set_owned(HERE, own.into()).unwrap();
    for is_request in [true, false] {
        let frame = arp(is_request, (vm(1), own), vm(2));
        let ((verdict, out), _) = on(&plane, "netlord_vif", &frame);
        assert_eq!((verdict, out), (REDIRECTED, reference(&frame, Some(chosen(&frame)), (FAR_SWITCH, port(9)))));
    }
    let broadcast = MacAddr([0xff; 6]);
    for frame in [
        arp(true, (vm(1), own), broadcast),
        arp(true, (vm(1), own), vm(77)),
        arp(false, (vm(1), [10, 0, 0, 254]), vm(2)),
        arp(false, (vm(9), own), vm(2)),
        arp(true, (vm(1), own), vm(2))[..40].to_vec(),
    ] {
        assert_eq!(reason(&plane, "netlord_vif", &frame), (CONSUMED, "to_agent"), "{frame:02x?}");
    }
    let v6 = |n: u16| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    let claim = |target| {
        let mut frame = Neighbor::advertisement(target, vm(1), v6(2)).frame(vm(2), vm(1));
        frame.truncate(14 + 40 + 32);
        frame
    };
    assert_eq!(reason(&plane, "netlord_vif", &claim(v6(1))), (CONSUMED, "to_agent"));
    plane.set_owned(HERE, v6(1).into()).unwrap();
    assert_eq!(on(&plane, "netlord_vif", &claim(v6(1))).0.0, REDIRECTED);
    assert_eq!(reason(&plane, "netlord_vif", &claim(v6(0xfe))), (CONSUMED, "to_agent"), "another's");
}

#[test]
fn what_a_vm_may_not_do_is_dropped_and_counted() {
    let Some((_pins, mut plane)) = server() else { return };
    let from = |src: MacAddr, dst: MacAddr, ethertype: u16| ethernet(dst, src, ethertype, &[0; 46]);
    let refused = [
        (from(vm(2), vm(3), 0x88b7), "spoofed_mac"),
        (from(OWN_SWITCH, vm(3), 0x0800), "spoofed_mac"),
        (from(vm(1), vm(3), 0x88b5), "control"),
        (from(vm(1), vm(2), 0x88b6), "control"),
        (from(vm(1), vm(2), 0x88cc), "control"),
        (from(vm(1), MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]), 0x0027), "control"),
        (ethernet(vm(2), vm(1), 0x88b7, &[0; 1567]), "too_long"),
    ];
    for (frame, why) in refused {
        assert_eq!(reason(&plane, "netlord_vif", &frame), (DROPPED, why));
    }
    let good = &frames()[0];
    plane.set_paths(HERE, FAR_SWITCH, &[]).unwrap();
    assert_eq!(reason(&plane, "netlord_vif", good), (DROPPED, "no_path"));
    plane.set_uplink(HERE, HARDWARE, 1600, None).unwrap();
    assert_eq!(reason(&plane, "netlord_vif", good), (DROPPED, "no_uplink"));
    plane.remove_vif(HERE).unwrap();
    assert_eq!(reason(&plane, "netlord_vif", good), (DROPPED, "no_uplink"));
}

#[test]
fn what_the_tables_do_not_know_goes_to_the_agent_whole() {
    let Some((_pins, mut plane)) = server() else { return };
    let to_agent = [
        ethernet(vm(77), vm(1), 0x88b7, &[7; 60]),
        ethernet(MacAddr([0xff; 6]), vm(1), 0x88b7, &[7; 60]),
        ethernet(MacAddr([0xff; 6]), vm(1), 0x0806, &[0; 28]),
        ethernet(vm(2), vm(1), 0x0806, &[0; 28]),
        // A neighbour advertisement, which may claim a router's address.
        ethernet(vm(2), vm(1), 0x86dd, &ip6(58, &[136, 0, 0, 0, 0, 0, 0, 0])),
        ethernet(vm(77), vm(1), 0x88b7, &vec![7; 3000]),
    ];
    for frame in &to_agent {
        assert_eq!(reason(&plane, "netlord_vif", frame), (CONSUMED, "to_agent"));
    }
    let events = plane.events().unwrap();
    let reported: Vec<_> = events
        .into_iter()
        .map(|event| match event {
            Event::FromVif { ifindex: HERE, frames } => frames.concat(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reported, to_agent);
}

#[test]
fn in_the_public_space_an_address_has_to_be_ones_own() {
    let Some((_pins, mut plane)) = server() else { return };
    let public = |n| Vif { tenant: weft_control::netlord::PUBLIC, ..vif(n) };
    plane.set_vif(HERE, public(1), Some(HERE)).unwrap();
    plane.set_remote(public(2), Some(place(FAR_SWITCH, 9))).unwrap();
    let frame = &frames()[0];
    assert_eq!(reason(&plane, "netlord_vif", frame), (CONSUMED, "to_agent"), "the agent drops it, and counts");
    plane.set_owned(HERE, [10, 0, 0, 1].into()).unwrap();
    assert_eq!(run(plane.loaded(), "netlord_vif", frame, 0).0, REDIRECTED);
    assert_eq!(reason(&plane, "netlord_vif", &frames()[10]), (CONSUMED, "to_agent"), "no IP");
}

#[test]
fn a_virtual_router_is_repeated_as_long_as_it_holds() {
    let Some((_pins, mut plane)) = server() else { return };
    let router = MacAddr([2, 0, 0, 0, 0, 0xfe]);
    for (ethertype, packet) in [(0x0800, ip4(17, &[], 0, &udp(1, 2, 30))), (0x86dd, ip6(17, &udp(1, 2, 30)))] {
        let frame = ethernet(router, vm(1), ethertype, &packet);
        assert_eq!(reason(&plane, "netlord_vif", &frame), (CONSUMED, "to_agent"));
        let address =
            |n: u8| if ethertype == 0x0800 { [10, 0, 0, n].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, n.into()].into() };
        let flow = RoutedFlow {
            id: VifId(HERE),
            router,
            source: address(1),
            destination: address(2),
            protocol: 17,
            port: 2,
            to: vif(2),
            from: router,
        };
        plane.set_route(&flow, std::time::Duration::from_secs(60)).unwrap();
        let mut inner = frame.clone();
        assert!(route_in_place(&mut inner, vm(2), router));
        let ((verdict, out), counts) = on(&plane, "netlord_vif", &frame);
        assert_eq!((verdict, out), (REDIRECTED, reference(&inner, Some(chosen(&inner)), (FAR_SWITCH, port(9)))));
        assert!(counts.contains(&("routed", 1)), "{counts:?}");
        // Another port may be under another rule.
        let other = if ethertype == 0x0800 { ip4(17, &[], 0, &udp(1, 3, 30)) } else { ip6(17, &udp(1, 3, 30)) };
        assert_eq!(reason(&plane, "netlord_vif", &ethernet(router, vm(1), ethertype, &other)), (CONSUMED, "to_agent"));
        // What a router did holds for a time, and not where the destination is not known any more.
        plane.set_remote(vif(2), None).unwrap();
        assert_eq!(reason(&plane, "netlord_vif", &frame), (CONSUMED, "to_agent"), "as the VM sent it");
        plane.set_remote(vif(2), Some(place(FAR_SWITCH, 9))).unwrap();
        plane.set_route(&flow, std::time::Duration::ZERO).unwrap();
        assert_eq!(reason(&plane, "netlord_vif", &frame), (CONSUMED, "to_agent"));
    }
}

/// From VM 2 behind the far switch to VM `to` here, as the egress switch's last hop leaves it.
pub(super) fn arrived(to: u8, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let inner = ethernet(vm(to), vm(2), 0x88b7, payload);
    (encapsulated(&inner, vif(1), 4), inner)
}

fn encapsulated(inner: &[u8], whose: Vif, to: u16) -> Vec<u8> {
    let overlay = Overlay { to: Recipient::Port(port(to)), tenant: whose.tenant, space: whose.space, vlan: Some(vlan(5)) };
    let mut out = Vec::new();
    Encapsulation { dst: HARDWARE, src: OWN_SWITCH, tag: None, overlay, inner }.emit(&mut out);
    out
}

#[test]
fn what_is_for_a_vm_here_is_delivered_without_the_encapsulation() {
    let Some((_pins, mut plane)) = server() else { return };
    for length in [20, 46, 100, 1500] {
        let (outer, inner) = arrived(1, &vec![length as u8; length]);
        let ((verdict, out), counts) = on(&plane, "netlord_uplink", &outer);
        assert_eq!((verdict, out), (REDIRECTED, inner.clone()), "{length}");
        assert_eq!(counts, [("received", 1), ("received_bytes", outer.len() as u64 - 34)]);
    }
    // Padding after the packet's own length is none of the VM's.
    let (mut outer, inner) = arrived(1, &[1; 60]);
    outer.extend([0xee; 30]);
    assert_eq!(on(&plane, "netlord_uplink", &outer).0, (REDIRECTED, inner));
    // A frame shorter than an IP header's room goes by the agent.
    assert_eq!(reason(&plane, "netlord_uplink", &arrived(1, &[1; 5]).0), (CONSUMED, "to_agent"));
    let events = plane.events().unwrap();
    let heard = |it: &Event| matches!(it, Event::Heard(HERE, at, id) if *at == place(FAR_SWITCH, 9) && *id == vlan(5));
    assert!(events.iter().any(heard), "the path that it came by works: {events:?}");
    assert!(events.iter().any(|it| matches!(it, Event::FromFabric { frame, .. } if *frame == arrived(1, &[1; 5]).0)));
}

#[test]
fn what_no_agent_would_have_sent_is_dropped() {
    let Some((_pins, plane)) = server() else { return };
    let good = arrived(1, &[1; 60]).0;
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut frame = good.clone();
        change(&mut frame[14..34]);
        frame[24..26].fill(0);
        let sum = checksum(0, &frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let bad: [(&str, Vec<u8>); 11] = [
        ("options", with(&|ip| ip[0] = 0x46)),
        ("version", with(&|ip| ip[0] = 0x65)),
        ("length", with(&|ip| ip[2] = 0x7f)),
        ("too short for a frame", with(&|ip| (ip[2], ip[3]) = (0, 33))),
        ("id", with(&|ip| ip[4] = 0x10)),
        ("fragment", with(&|ip| ip[6] = 0x20)),
        ("a later fragment", with(&|ip| (ip[6], ip[7]) = (0x40, 1))),
        ("time to live", with(&|ip| ip[8] = 0)),
        ("MAC space 0", with(&|ip| ip[12..16].fill(0))),
        ("martian MAC space", with(&|ip| ip[12] = 0x7f)),
        ("tenant 0", with(&|ip| ip[17..20].fill(0))),
    ];
    for (what, frame) in bad {
        assert!(Encapsulation::parse(&frame).is_err(), "{what}: the reference refuses it");
        assert_eq!(reason(&plane, "netlord_uplink", &frame), (DROPPED, "bad_encapsulation"), "{what}");
    }
    let mut frame = good.clone();
    frame[24] ^= 1;
    assert_eq!(reason(&plane, "netlord_uplink", &frame), (DROPPED, "bad_encapsulation"), "checksum");
    for cut in 34..good.len() {
        let (verdict, why) = reason(&plane, "netlord_uplink", &good[..cut]);
        assert_eq!((verdict, why), (DROPPED, "bad_encapsulation"), "cut to {cut}");
    }
    assert_eq!(reason(&plane, "netlord_uplink", &with(&|ip| ip[16] = 5)), (DROPPED, "not_mine"));
    let mut frame = good.clone();
    frame[..6].copy_from_slice(&FAR_SWITCH.0);
    assert_eq!(reason(&plane, "netlord_uplink", &frame), (DROPPED, "not_mine"), "a flooded frame");
    assert_eq!(reason(&plane, "netlord_uplink", &with(&|ip| ip[9] = 17)), (OK, "plain"), "the server's own");
    let inner = |dst: MacAddr, ethertype: u16| encapsulated(&ethernet(dst, vm(2), ethertype, &[0; 60]), vif(1), 4);
    for frame in [inner(vm(1), 0x88b5), inner(vm(1), 0x88cc), inner(MacAddr([0xff; 6]), 0x88b7), inner(MacAddr([0; 6]), 0x88b7)] {
        assert_eq!(reason(&plane, "netlord_uplink", &frame), (DROPPED, "forged"));
    }
}

#[test]
fn another_tenants_vm_with_the_same_address_hears_nothing() {
    let Some((_pins, mut plane)) = server() else { return };
    let inner = ethernet(vm(1), vm(2), 0x88b7, &[0; 60]);
    for whose in [Vif { tenant: TenantId(3), ..vif(1) }, Vif { space: MacSpace(8), ..vif(1) }] {
        assert_eq!(reason(&plane, "netlord_uplink", &encapsulated(&inner, whose, 4)), (CONSUMED, "to_agent"));
        assert!(matches!(&plane.events().unwrap()[..], [Event::FromFabric { .. }]), "its sender is notified");
    }
    for _ in 0..300 {
        run(plane.loaded(), "netlord_uplink", &encapsulated(&inner, Vif { tenant: TenantId(3), ..vif(1) }, 4), 0);
        plane.events().unwrap();
    }
    assert!(plane.counters().unwrap().get("misdelivered_limit") > 0, "not without end");
}

#[test]
fn agents_and_switches_talk_to_the_agent() {
    let Some((_pins, mut plane)) = server() else { return };
    let group = Overlay { to: Recipient::Group, tenant: vif(1).tenant, space: vif(1).space, vlan: Some(vlan(4094)) };
    let inner = ethernet(MacAddr([0xff; 6]), vm(2), 0x88b7, &[0; 60]);
    let mut broadcast = Vec::new();
    Encapsulation { dst: group_mac(vif(1).tenant), src: FAR_SWITCH, tag: None, overlay: group, inner: &inner }
        .emit(&mut broadcast);
    let provider = Vif { tenant: weft_control::netlord::PROVIDER, ..vif(1) };
    let message = encapsulated(&ethernet(vm(1), FAR_SWITCH, 0x88b5, &[0; 22]), provider, 4);
    let mut asks = ethernet(MacAddr([0xff; 6]), OWN_SWITCH, 0x0806, &[0; 28]);
    asks[38..42].copy_from_slice(&[4, 0, 0, 1]);
    let to_agent = [
        (broadcast, "to_agent"),
        (message, "control_in"),
        (asks.clone(), "control_in"),
        (ethernet(MacAddr([0xff; 6]), FAR_SWITCH, 0x88b5, &[0; 46]), "control_in"),
        (ethernet(MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]), OWN_SWITCH, 0x88cc, &[0; 46]), "control_in"),
    ];
    for (frame, counter) in &to_agent {
        assert_eq!(reason(&plane, "netlord_uplink", frame), (CONSUMED, *counter));
    }
    assert_eq!(plane.events().unwrap().len(), to_agent.len());
    asks[38] = 5;
    assert_eq!(reason(&plane, "netlord_uplink", &asks), (OK, "plain"), "another's address");
}

#[test]
fn dhcps_answers_are_reported_and_passed_on() {
    let Some((_pins, mut plane)) = server() else { return };
    let with = |packet: Vec<u8>| ethernet(HARDWARE, OWN_SWITCH, 0x0800, &packet);
    // With options too; the server itself may be a client.
    let answers = [with(ip4(17, &[], 0, &udp(67, 68, 300))), with(ip4(17, &[7, 7, 4, 0, 0, 0, 0, 0], 0, &udp(67, 68, 300)))];
    for frame in &answers {
        assert_eq!(reason(&plane, "netlord_uplink", frame), (OK, "plain"));
    }
    let reported: Vec<_> = plane.events().unwrap().into_iter().collect();
    assert!(reported.iter().zip(&answers).all(|(event, sent)| matches!(event, Event::FromFabric { frame, .. } if frame == sent)));
    assert_eq!(reported.len(), 2);
    let others = [ip4(17, &[], 0, &udp(68, 67, 300)), ip4(6, &[], 0, &udp(67, 68, 300)), ip4(17, &[], 0x2001, &udp(67, 68, 300))];
    for packet in others {
        assert_eq!(reason(&plane, "netlord_uplink", &with(packet)), (OK, "plain"));
    }
    assert!(plane.events().unwrap().is_empty());
}

/// Tenant 1 is the agents': beside their messages it has VIFs, which no other tenant's frames reach.
#[test]
fn the_providers_frames_are_its_own() {
    let Some((_pins, mut plane)) = server() else { return };
    let provider = |n| Vif { tenant: weft_control::netlord::PROVIDER, ..vif(n) };
    plane.set_local(provider(7), Some(HERE)).unwrap();
    let inner = ethernet(vm(7), vm(2), 0x0800, &ip4(17, &[], 0, &udp(1, 2, 60)));
    assert_eq!(on(&plane, "netlord_uplink", &encapsulated(&inner, provider(7), 4)).0, (REDIRECTED, inner.clone()));
    assert_eq!(
        reason(&plane, "netlord_uplink", &encapsulated(&inner, vif(1), 4)),
        (CONSUMED, "to_agent"),
        "nobody's of that tenant"
    );
    // From a VM of another tenant, to that very address.
    assert_eq!(
        reason(&plane, "netlord_vif", &ethernet(vm(7), vm(1), 0x0800, &ip4(17, &[], 0, &udp(1, 2, 60)))),
        (CONSUMED, "to_agent")
    );
    // The server's own programs speak no NL-ARP: the agent does.
    plane.set_vif(HERE, provider(1), Some(HERE)).unwrap();
    assert_eq!(reason(&plane, "netlord_vif", &ethernet(vm(7), vm(1), 0x88b5, &[0; 46])), (DROPPED, "control"));
}
