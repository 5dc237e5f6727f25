use super::super::super::PUBLIC;
use super::*;
use crate::wire::netlord::{IpPacket, NlArp, Where};
use crate::wire::netlord::{Question, QuestionId};

const TWO: &str = "version = 1\n[[tenant]]\nid = 7\nname = \"a\"\n[[tenant]]\nid = 8\nname = \"b\"\n";

pub(super) const ROUTED: &str = r#"
version = 2
[[tenant]]
id = 7
name = "a"
spaces = [1, 2]
[[router]]
tenant = "a"
name = "core"
interfaces = [
  { space = 1, mac = "02:00:00:00:00:fe", address = "10.0.0.254/24" },
  { space = 2, mac = "02:00:00:00:00:fd", address = "10.0.1.254/24" },
]
[[rule]]
tenant = "a"
router = "core"
action = "deny"
protocol = "udp"
port = 53
"#;

fn mac_fe() -> MacAddr {
    mac(0xfe)
}

/// Type and code of ICMP errors that the router of `ROUTED` sends to the VM `mac(1)`.
fn reported(frames: &[(usize, u32, Vec<u8>)]) -> Vec<(u8, u8)> {
    let read = |frame: &[u8]| {
        let ethernet = Ethernet::parse(frame).unwrap();
        assert_eq!((ethernet.dst, ethernet.src), (mac(1), mac_fe()));
        let packet = IpPacket::parse(&ethernet).unwrap();
        assert_eq!((packet.src, packet.dst, packet.protocol), (ip(0, 254), ip(0, 1), 1));
        assert_eq!((checksum(0, &frame[14..34]), checksum(0, &frame[34..])), (0, 0));
        (frame[34], frame[35])
    };
    frames.iter().map(|(_, _, frame)| read(frame)).collect()
}

#[test]
fn a_router_reports_what_does_not_fit_and_who_is_not_there() {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 2, 1), &[ip(1, 1)]);
    let size = |bytes: usize| udp(mac(1), mac_fe(), ip(0, 1), ip(1, 1), 80, &vec![7; bytes - 28]);
    let fits = 1600 - 34;
    world.send(0, 1, &size(fits));
    assert_eq!(world.take().len(), 1, "as much as fits");
    world.send(0, 1, &size(fits + 1));
    let got = world.take();
    assert_eq!((reported(&got), &got[0].2[40..42]), (vec![(3, 4)], &(fits as u16).to_be_bytes()[..]));
    let mut may_be_cut = size(fits + 1);
    may_be_cut[20] = 0;
    may_be_cut[24..26].fill(0);
    let sum = checksum(0, &may_be_cut[14..34]);
    may_be_cut[24..26].copy_from_slice(&sum.to_be_bytes());
    world.send(0, 1, &may_be_cut);
    assert_eq!((world.take(), world.dropped(0, Drop::TooLong)), (vec![], 2), "a router would cut it, this one does not");

    world.send(0, 1, &udp(mac(1), mac_fe(), ip(0, 1), ip(1, 77), 80, b"nobody"));
    assert_eq!(world.take(), []);
    world.advance(Duration::from_secs(10));
    assert_eq!(reported(&world.take()), [(3, 1)]);

    // Errors are not reported, and others only so often.
    let nowhere = udp(mac(1), mac_fe(), ip(0, 1), ip(9, 1), 80, &[3, 1, 0, 0, 0, 0, 0, 0]);
    let mut error = nowhere.clone();
    error[23] = 1;
    error[34] = 3;
    world.send(0, 1, &error);
    assert_eq!(world.take(), []);
    (0..60).for_each(|_| world.send(0, 1, &nowhere));
    assert_eq!(reported(&world.take()), [(3, 0); 50]);
    let counts = world.agents[0].counts();
    assert_eq!((counts.icmp_errors, counts.icmp_limited), (52, 10));
}

#[test]
fn frames_go_to_the_same_server_the_same_switch_and_another_switch() {
    let mut world = World::new(4, TWO);
    for (agent, id, n) in [(0, 1, 1), (0, 2, 2), (1, 3, 3), (3, 4, 4)] {
        world.attach(agent, id, vif(7, 1, n), &[]);
    }
    world.wire.clear();
    let non_ip = |to: u8| plain(mac(1), mac(to), 0x8892, b"real-time field bus");
    world.send(0, 1, &non_ip(2));
    assert_eq!((world.take(), world.wire.len()), (vec![(0, 2, non_ip(2))], 0), "without the wire");
    world.send(0, 1, &non_ip(3));
    assert_eq!(world.take(), [(1, 3, non_ip(3))]);
    assert_eq!(Encapsulation::parse(&world.wire[0]).unwrap().src, hardware(0));
    world.send(0, 1, &non_ip(4));
    assert_eq!(world.take(), [(3, 4, non_ip(4))]);
    let it = Encapsulation::parse(&world.wire[1]).unwrap();
    assert_eq!((it.src, it.dst), (switch_of(0), switch_of(3)));
    // The receiver heard the path of the ingress switch, which it knows by the inner source.
    let heard: Vec<_> = world.agents[3].chooser.heard.keys().copied().collect();
    assert_eq!(heard, [(place(0), it.tag.unwrap())]);
    let remote = |n, agent| (0, MapChange::Remote { vif: vif(7, 1, n), at: Some(place(agent)) });
    assert!(world.maps.contains(&remote(3, 1)) && world.maps.contains(&remote(4, 3)));
    assert!(!world.maps.iter().any(|(_, change)| matches!(change, MapChange::Remote { vif, .. } if vif.mac == mac(2))));
}

#[test]
fn overlapping_addresses_of_two_tenants_do_not_meet() {
    let mut world = World::new(3, TWO);
    for (tenant, offset) in [(7, 0), (8, 10)] {
        world.attach(0, offset + 1, vif(tenant, 1, 1), &[ip(0, 1)]);
        world.attach(2, offset + 2, vif(tenant, 1, 2), &[ip(0, 2)]);
    }
    world.send(0, 1, &arp_request(mac(1), ip(0, 1), ip(0, 2)));
    assert_eq!(replied(&world.take()[0].2), Some((ip(0, 2), mac(2))));
    let frame = udp(mac(1), mac(2), ip(0, 1), ip(0, 2), 80, b"of a");
    world.send(0, 1, &frame);
    assert_eq!(world.take(), [(2, 2, frame.clone())]);
    world.send(0, 11, &frame);
    assert_eq!(world.take(), [(2, 12, frame)]);
    let broadcast = plain(mac(1), BROADCAST, 0x8892, b"to all of b");
    world.send(0, 11, &broadcast);
    assert_eq!(world.take(), [(2, 12, broadcast)]);
    assert_eq!(world.agents[0].counts().tenants[&TenantId(8)].sent, 2);
    assert_eq!(world.agents[2].counts().tenants[&TenantId(8)].delivered, 2);
}

#[test]
fn a_virtual_router_joins_two_mac_spaces_in_one_hop() {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 2, 1), &[ip(1, 1)]);
    world.send(0, 1, &arp_request(mac(1), ip(0, 1), ip(0, 254)));
    assert_eq!(replied(&world.take()[0].2), Some((ip(0, 254), mac_fe())));
    let mut check = arp_request(mac(1), ip(0, 1), ip(0, 254));
    check[..6].copy_from_slice(&mac_fe().0);
    world.send(0, 1, &check);
    assert_eq!(replied(&world.take()[0].2), Some((ip(0, 254), mac_fe())), "a check that it is still there");
    world.wire.clear();
    world.send(0, 1, &udp(mac(1), mac_fe(), ip(0, 1), ip(1, 1), 80, b"hello"));
    let got = world.take();
    assert_eq!((got.len(), got[0].0, got[0].1, world.wire.len()), (1, 2, 2, 1));
    let frame = Ethernet::parse(&got[0].2).unwrap();
    assert_eq!((frame.dst, frame.src), (mac(1), mac(0xfd)), "from the router's interface in the other MAC space");
    assert_eq!(IpPacket::parse(&frame).unwrap().ttl, 63);
    // The receiver learns the ingress switch by the packet's source, for the frame's is the router's.
    assert_eq!(world.agents[2].chooser.heard.len(), 1);
    let neighbour = MapChange::Neighbour { tenant: TenantId(7), space: MacSpace(2), ip: ip(1, 1), mac: mac(1) };
    assert!(world.maps.contains(&(0, neighbour)));

    world.send(0, 1, &udp(mac(1), mac_fe(), ip(0, 1), ip(1, 1), 53, b"denied"));
    world.send(0, 1, &udp(mac(1), mac_fe(), ip(0, 1), ip(9, 1), 80, b"nowhere"));
    world.send(0, 1, &plain(mac(1), mac_fe(), 0x8892, b"not IP"));
    let mut old = udp(mac(1), mac_fe(), ip(0, 1), ip(1, 1), 80, b"at its end");
    old[22] = 1;
    old[24..26].fill(0);
    let sum = checksum(0, &old[14..34]);
    old[24..26].copy_from_slice(&sum.to_be_bytes());
    world.send(0, 1, &old);
    // Each but the one that is not IP is reported by the router.
    assert_eq!(reported(&world.take()), [(3, 10), (3, 0), (11, 0)]);
    let counted = [Drop::Denied, Drop::NoRoute, Drop::TimeToLive].map(|reason| world.dropped(0, reason));
    assert_eq!(counted, [1, 2, 1]);

    // The router itself answers pings, and nobody else may claim its address.
    let mut ping = udp(mac(1), mac_fe(), ip(0, 1), ip(1, 254), 0, b"");
    ping[23] = 1;
    ping[24..26].fill(0);
    ping[34..42].copy_from_slice(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    let sum = checksum(0, &ping[14..34]);
    ping[24..26].copy_from_slice(&sum.to_be_bytes());
    world.send(0, 1, &ping);
    let got = world.take();
    assert_eq!((got.len(), got[0].2[34], got[0].1), (1, 0, 1), "an echo reply");
    assert_eq!(checksum(0, &got[0].2[34..]), 0);
    world.send(0, 1, &arp_request(mac(1), ip(0, 254), ip(0, 7)));
    assert_eq!((world.take(), world.dropped(0, Drop::SpoofedGateway)), (vec![], 1));
}

#[test]
fn neighbours_of_ipv6_are_answered_too() {
    let mut world = World::new(3, TWO);
    let v6 = |n: u16| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    world.attach(0, 1, vif(7, 1, 1), &[v6(1).into()]);
    world.attach(2, 2, vif(7, 1, 2), &[v6(2).into()]);
    world.send(0, 1, &solicit(v6(1), mac(1), v6(2)));
    let got = world.take();
    let frame = Ethernet::parse(&got[0].2).unwrap();
    let advertised = IpPacket::parse(&frame).unwrap().neighbor().unwrap().unwrap();
    assert_eq!((got.len(), advertised.is_solicitation, advertised.target), (1, false, v6(2)));
    // A link-local address that no agent knows: the VM answers for itself.
    let local: std::net::Ipv6Addr = "fe80::2".parse().unwrap();
    world.send(0, 1, &solicit(v6(1), mac(1), local));
    assert_eq!(world.take(), []);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.take(), [(2, 2, solicit(v6(1), mac(1), local))]);
}

#[test]
fn what_is_kept_goes_on_when_its_destination_is_found() {
    let mut world = World::new(3, TWO);
    world.deaf.insert(0);
    world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.deaf.extend([1, 2]);
    let frames: Vec<_> = (0..10u8).map(|n| plain(mac(1), mac(2), 0x8892, &[n; 50])).collect();
    for frame in &frames {
        world.send(0, 1, frame);
    }
    assert_eq!((world.take(), world.dropped(0, Drop::Kept)), (vec![], 2), "eight are kept");
    world.deaf.clear();
    world.advance(Duration::from_ms(25));
    let got: Vec<_> = world.take().into_iter().map(|(agent, id, frame)| (agent, id, frame[14])).collect();
    assert_eq!(got, (0..8).map(|n| (2, 2, n)).collect::<Vec<_>>(), "in order");
    // Nobody has it.
    world.send(0, 1, &plain(mac(1), mac(9), 0x8892, b"nobody"));
    world.advance(Duration::from_secs(2));
    assert_eq!((world.take(), world.dropped(0, Drop::NoLocation)), (vec![], 1));
}

/// Whatever tree is cut: a HERE reaches all agents, and a tenant's broadcast all its VMs, once.
#[test]
fn what_is_for_all_goes_over_all_trees() {
    for cut in [None, Some(SPECIAL), Some(SECOND)] {
        let mut world = World::new(6, TWO);
        world.cut = cut;
        world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
        world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
        world.attach(5, 3, vif(7, 1, 3), &[ip(0, 3)]);
        assert!(world.agents.iter().all(|agent| agent.locations().counts().heres >= 2), "{cut:?}");
        let frame = plain(mac(1), BROADCAST, 0x8892, b"to all");
        for _ in 0..3 {
            world.send(0, 1, &frame);
            assert_eq!(world.take(), [(2, 2, frame.clone()), (5, 3, frame.clone())], "{cut:?}");
        }
        let copies: u64 = world.agents.iter().map(|agent| agent.counts().copies).sum();
        assert_eq!(copies, if cut.is_none() { 3 * 5 } else { 0 }, "{cut:?}");
    }
}

#[test]
fn a_vm_that_moves_is_found_again_though_no_broadcast_arrives() {
    let mut world = World::new(6, TWO);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
    let frame = plain(mac(1), mac(2), 0x8892, b"to whom it may concern");
    world.send(0, 1, &frame);
    world.deaf.insert(0);
    world.input(2, Input::Detach(VifId(2)));
    world.attach(5, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.deaf.clear();
    world.take();
    world.send(0, 1, &frame);
    assert_eq!(world.take(), [], "it was where it is not");
    assert_eq!(world.dropped(2, Drop::Misdelivered), 1);
    world.send(0, 1, &frame);
    assert_eq!(world.take(), [(5, 2, frame.clone())]);
    let about = |at| (0, MapChange::Remote { vif: vif(7, 1, 2), at });
    let changes: Vec<_> = world.maps.iter().filter(|it| it.0 == 0 && matches!(it.1, MapChange::Remote { .. })).cloned().collect();
    assert_eq!(changes, [about(Some(place(2))), about(None), about(Some(place(5)))]);
    // It comes home.
    world.input(5, Input::Detach(VifId(2)));
    world.attach(0, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.send(0, 1, &frame);
    assert_eq!(world.take(), [(0, 2, frame)]);
}

#[test]
fn after_its_server_died_a_vm_is_found_by_those_who_ask_twice() {
    let mut world = World::new(6, TWO);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
    // Server 2 dies; its VM starts on 5 with another address, and agent 0 does not hear of it.
    world.input(2, Input::Uplink { uplink: UPLINK, up: None });
    world.deaf.insert(0);
    world.attach(5, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.deaf.clear();
    let frame = plain(mac(1), mac(2), 0x8892, b"to whom it may concern");
    world.send(0, 1, &frame);
    assert_eq!(world.take(), []);
    for _ in 0..2 {
        world.send(0, 1, &arp_request(mac(1), ip(0, 1), ip(0, 2)));
        assert_eq!(world.take().len(), 1, "answered");
        world.advance(Duration::from_secs(1));
    }
    world.send(0, 1, &frame);
    assert_eq!(world.take(), [(5, 2, frame)]);
}

#[test]
fn what_a_vm_may_not_send_is_counted() {
    let mut world = World::new(2, TWO);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(0, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.wire.clear();
    world.send(0, 1, &plain(mac(9), mac(2), 0x8892, b"not me"));
    world.send(0, 1, &[1, 2, 3]);
    let mut nl_arp = Vec::new();
    let message =
        NlArp::Where(Where { tenant: TenantId(8), space: MacSpace(1), about: Question::Mac(mac(1)), id: QuestionId(1) });
    message.emit(Location { switch: mac(1), port: place(0).port }, VlanId::new(SPECIAL).unwrap(), &mut nl_arp);
    world.send(0, 1, &nl_arp);
    world.send(0, 1, &plain(mac(1), mac(2), 0x88b6, b"not here"));
    let mut lldp = Vec::new();
    Lldp { location: place(1), ttl_s: 1 }.emit(mac(1), "swp9", &mut lldp);
    world.send(0, 1, &lldp);
    world.send(0, 1, &plain(mac(1), MacAddr([1, 0x80, 0xc2, 0, 0, 0]), 0x26, b"spanning tree"));
    world.send(0, 1, &plain(mac(1), mac(2), 0x8892, &[0; 1600 - 20 - 13]));
    let reasons = [Drop::SpoofedMac, Drop::Malformed, Drop::Control].map(|reason| world.dropped(0, reason));
    assert_eq!((reasons, world.wire.len()), ([1, 1, 4], 0));
    let got = world.take();
    assert_eq!(got.len(), 1, "on one server there is no MTU of the fabric");
    world.attach(1, 3, vif(7, 1, 3), &[]);
    world.send(0, 1, &plain(mac(1), mac(3), 0x8892, &[0; 1600 - 20 - 14]));
    world.send(0, 1, &plain(mac(1), mac(3), 0x8892, &[0; 1600 - 20 - 13]));
    assert_eq!((world.take().len(), world.dropped(0, Drop::TooLong)), (1, 1));
    for _ in 0..150 {
        world.send(0, 1, &plain(mac(1), BROADCAST, 0x8892, b"storm"));
    }
    assert_eq!(world.dropped(0, Drop::Storm), 50);
    for n in 0..150 {
        world.send(0, 1, &plain(mac(1), MacAddr([4, 4, 4, 4, 4, n]), 0x8892, b"scan"));
    }
    assert_eq!(world.dropped(0, Drop::WhereLimit), 50);
}

#[test]
fn in_the_public_space_everybody_has_his_own_address_alone() {
    let mut world = World::new(3, TWO);
    let v = |n: u8| Vif { tenant: PUBLIC, space: MacSpace(1), mac: mac(n) };
    world.attach(0, 1, v(1), &[ip(9, 1)]);
    world.attach(2, 2, v(2), &[ip(9, 2)]);
    world.send(0, 1, &udp(mac(1), mac(2), ip(9, 1), ip(9, 2), 80, b"from one tenant to another"));
    assert_eq!(world.take().len(), 1);
    for frame in [
        udp(mac(1), mac(2), ip(9, 3), ip(9, 2), 80, b"forged"),
        arp_request(mac(1), ip(9, 2), ip(9, 2)),
        plain(mac(1), mac(2), 0x8892, b"not IP"),
        plain(mac(1), mac(2), 0x8100, &[0, 5, 8, 0, 0x45]),
    ] {
        world.send(0, 1, &frame);
    }
    assert_eq!((world.take(), world.dropped(0, Drop::SpoofedIp)), (vec![], 4));
}

#[test]
fn the_switch_is_answered_and_strangers_are_not_heard() {
    let mut world = World::new(2, TWO);
    world.attach(1, 1, vif(7, 1, 1), &[]);
    world.wire.clear();
    let agent = &mut world.agents[1];
    let port = place(1).port.get();
    let now = Instant::ZERO;
    let switch = MacAddr([0x0a, 0xed, 6, 0, 0, 1]);
    let from_fabric = |agent: &mut Nla, frame: &[u8]| agent.handle(now, Input::FromFabric { uplink: UPLINK, frame });
    from_fabric(agent, &arp_request(switch, IpAddr::from([port, 0, 0, 254]), IpAddr::from([port, 0, 0, 1])));
    let Some(Output::ToFabric { frame, .. }) = agent.poll() else { panic!("an answer") };
    assert_eq!(replied(&frame), Some((IpAddr::from([port, 0, 0, 1]), hardware(1))));
    from_fabric(agent, &arp_request(switch, IpAddr::from([port, 0, 0, 254]), IpAddr::from([port + 1, 0, 0, 1])));
    assert_eq!((agent.poll(), agent.counts().dropped(Drop::NotMine)), (None, 1));

    let overlay = Overlay { to: Recipient::Port(place(1).port), tenant: TenantId(7), space: MacSpace(1), vlan: None };
    let inner = plain(mac(2), mac(1), 0x8892, b"hello");
    let sent = |dst: MacAddr, overlay: Overlay, inner: &[u8]| {
        let mut out = Vec::new();
        Encapsulation { dst, src: switch, tag: None, overlay, inner }.emit(&mut out);
        out
    };
    let other_port = Overlay { to: Recipient::Port(place(0).port), ..overlay };
    let group = Overlay { to: Recipient::Group, ..overlay };
    for (frame, reason) in [
        (sent(hardware(0), overlay, &inner), Drop::NotMine),
        (sent(hardware(1), other_port, &inner), Drop::NotMine),
        (sent(hardware(1), group, &inner), Drop::NotMine),
        (sent(crate::wire::netlord::group_mac(TenantId(7)), group, &inner), Drop::Forged),
        (sent(hardware(1), overlay, &plain(mac(2), BROADCAST, 0x8892, b"")), Drop::Forged),
        (sent(hardware(1), overlay, &plain(mac(2), mac(1), 0x88b5, &[0; 8])), Drop::Forged),
        (sent(hardware(1), Overlay { tenant: PROVIDER, ..overlay }, &plain(mac(2), mac(1), 0x88b5, &[0; 8])), Drop::BadControl),
        (sent(hardware(1), Overlay { tenant: TenantId(8), ..overlay }, &inner), Drop::Misdelivered),
        (plain(switch, hardware(1), 0x0800, &[0x45; 40]), Drop::Foreign),
        (plain(switch, hardware(1), 0x1234, &[0x45; 40]), Drop::Foreign),
        (plain(switch, BROADCAST, 0x88b5, &[0x14; 42]), Drop::BadControl),
        (plain(switch, BROADCAST, 0x88b5, &[0x21; 42]), Drop::OtherVersion),
        (plain(switch, MacAddr([1, 0x80, 0xc2, 0, 0, 14]), 0x88cc, &[2, 7]), Drop::BadControl),
    ] {
        let before = agent.counts().dropped(reason);
        from_fabric(agent, &frame);
        assert_eq!(agent.counts().dropped(reason), before + 1, "{reason:?}");
        while let Some(output) = agent.poll() {
            assert!(!matches!(output, Output::ToVif { .. }), "{output:?}");
        }
    }
    from_fabric(agent, &sent(hardware(1), overlay, &inner));
    assert_eq!(agent.poll(), Some(Output::ToVif { id: VifId(1), frame: inner }));
}

#[test]
fn an_interface_that_loses_its_switch_hands_its_vifs_to_another() {
    let mut world = World::new(1, TWO);
    let agent = &mut world.agents[0];
    let second = UplinkId(1);
    let lldp = |at: Location, ttl_s: u16| {
        let mut frame = Vec::new();
        Lldp { location: at, ttl_s }.emit(at.switch, &format!("p{}", at.port), &mut frame);
        frame
    };
    agent.handle(Instant::ZERO, Input::Uplink { uplink: second, up: Some((mac(0x77), 1600)) });
    agent.handle(Instant::ZERO, Input::FromFabric { uplink: second, frame: &lldp(place(5), 120) });
    while agent.poll().is_some() {}
    // One that has taken the first address for itself since.
    agent.handle(Instant::ZERO, Input::Attach { id: VifId(2), vif: vif(7, 1, 2), addresses: vec![] });
    while agent.poll().is_some() {}
    agent.handle(Instant::ZERO, Input::Attach { id: VifId(1), vif: vif(7, 1, 1), addresses: vec![] });
    agent.handle(Instant::ZERO, Input::Detach(VifId(2)));
    let here = |agent: &mut Nla| {
        let mut all = Vec::new();
        while let Some(output) = agent.poll() {
            if let Output::ToFabric { uplink, frame } = output {
                all.push((uplink, NlArp::parse(&frame).unwrap().0));
            }
        }
        // By both special VLANs.
        all.dedup();
        all
    };
    assert_eq!(here(agent), [(second, place(5))], "VIF 1 has that with fewer VIFs");
    let late = Instant::ZERO + Duration::from_secs(120);
    assert_eq!(agent.deadline(), Some(late));
    agent.handle(late, Input::Timer);
    assert_eq!(here(agent), [(UPLINK, place(0))], "nothing was heard of the second for its time to live");
    agent.handle(late, Input::FromFabric { uplink: UPLINK, frame: &lldp(place(3), 120) });
    assert_eq!(here(agent), [(UPLINK, place(3))], "replugged");
    agent.handle(late, Input::FromFabric { uplink: UPLINK, frame: &lldp(place(3), 0) });
    assert_eq!((here(agent), agent.location(UPLINK)), (vec![], None));
    agent.handle(late, Input::FromVif { id: VifId(1), frame: &plain(mac(1), BROADCAST, 0x8892, b"") });
    assert_eq!(agent.counts().dropped(Drop::NoUplink), 1);
}

#[test]
fn without_a_path_frames_are_dropped_and_old_files_passed_over() {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.agents[0].chooser.broken = true;
    world.send(0, 1, &plain(mac(1), mac(2), 0x8892, b"x"));
    assert_eq!((world.take(), world.dropped(0, Drop::NoPath)), (vec![], 1));
    let routers = |world: &World| {
        let changes = world.maps.iter().filter_map(|(n, change)| match change {
            MapChange::Routers { tenant, routers } if *n == 0 => Some((tenant.0, routers.len())),
            _ => None,
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(routers(&world), [(7, 1)]);
    world.input(0, Input::Configure(Arc::new(Tenants::parse(TWO).unwrap())));
    assert_eq!(routers(&world), [(7, 1)], "version 1 after 2");
    world.input(0, Input::Configure(Arc::new(Tenants::parse(&TWO.replace("version = 1", "version = 3")).unwrap())));
    assert_eq!(routers(&world), [(7, 1), (7, 0)]);
    world.input(0, Input::Detach(VifId(1)));
    assert_eq!(routers(&world), [(7, 1), (7, 0), (7, 0)]);
}

#[test]
fn an_address_that_a_vm_uses_is_learnt_and_announced() {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 1, 2), &[]);
    // Announced by the VM itself, as its kernel does.
    world.send(2, 2, &arp_request(mac(2), ip(0, 2), ip(0, 2)));
    assert_eq!(world.take().len(), 1, "the others hear it as well");
    world.send(0, 1, &arp_request(mac(1), ip(0, 1), ip(0, 2)));
    assert_eq!(replied(&world.take()[0].2), Some((ip(0, 2), mac(2))));
    // What another has is not taken over, nor is the router's; and there is an end.
    for n in [1, 254].into_iter().chain(10..30) {
        world.send(2, 2, &arp_request(mac(2), ip(0, n), ip(0, n)));
    }
    world.take();
    world.send(2, 2, &arp_request(mac(2), ip(0, 2), ip(0, 1)));
    assert_eq!(replied(&world.take()[0].2), Some((ip(0, 1), mac(1))));
    let learnt = (0..=255).filter(|&n| {
        let found = world.agents[0].locations().find(vif(7, 1, 1), Query::ip(TenantId(7), MacSpace(1), ip(0, n)));
        found.is_some_and(|it| it.vif == vif(7, 1, 2))
    });
    assert_eq!(learnt.count(), 8);
}

#[test]
fn chirps_go_by_their_vlan_and_are_answered() {
    let mut world = World::new(4, TWO);
    let vlan = VlanId::new(3).unwrap();
    world.agents[0].chooser.chirps.push_back(Chirp { by: UPLINK, to: place(3), vlan, is_answer: false });
    world.input(0, Input::Timer);
    assert_eq!(world.agents[3].chooser.heard, BTreeMap::from([((place(0), vlan), 1)]));
    assert_eq!(world.agents[0].chooser.heard, BTreeMap::from([((place(3), vlan), 1)]));
    let sent: Vec<_> =
        world.wire.iter().rev().take(2).map(|frame| (frame.len(), Encapsulation::parse(frame).unwrap().tag)).collect();
    assert_eq!(sent, [(60, Some(vlan)), (60, Some(vlan))]);
}

#[test]
fn both_directions_of_a_flow_take_one_vlan_also_over_a_router() {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 2, 1), &[ip(1, 1)]);
    let mut vlans = std::collections::BTreeSet::new();
    for port in 1000..1040u16 {
        world.wire.clear();
        // The source port of `udp` is 0x1234.
        world.send(0, 1, &udp(mac(1), mac_fe(), ip(0, 1), ip(1, 1), port, b"there"));
        let mut back = udp(mac(1), mac(0xfd), ip(1, 1), ip(0, 1), 0x1234, b"back");
        back[34..36].copy_from_slice(&port.to_be_bytes());
        world.send(2, 2, &back);
        let tags: Vec<_> = world.wire.iter().map(|frame| Encapsulation::parse(frame).unwrap().tag).collect();
        assert_eq!((tags.len(), tags[0]), (2, tags[1]));
        vlans.insert(tags[0]);
    }
    assert_eq!(vlans.len(), 4, "and flows spread");
}
