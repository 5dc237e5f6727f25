//! The two hooks of a host.

use libbpf_rs::{MapCore as _, MapFlags};
use std::net::Ipv4Addr;

use super::super::event::{Direction, Held};
use super::super::hash::hash_flow;
use super::super::layout::{
    self, MARK_RELEASE_IN, MARK_RELEASE_OUT, MARK_TO_STACK, MARK_TO_TOR, RawEvent, vl2_event_kind, vl2_flow_state,
};
use super::super::{Flow, HostSettings, LocatorKind, LocatorRule, Placement, VIRTUAL_MAC};
use super::packets::*;
use super::{Counter, counted};
use crate::dataplane::Rate;
use crate::dataplane::load::Loaded;
use crate::dataplane::offload::{fold, words};
use crate::dataplane::ring::Ring;
use crate::dataplane::testing::{CONSUMED, DROPPED, OK, PinDir, REDIRECTED, run, run_segments};

fn with_host(test: impl FnOnce(&Loaded)) {
    let Some(pins) = PinDir::new() else { return };
    test(&host(&pins, &settings()));
}

fn out(loaded: &Loaded, ip: &[u8]) -> (i32, Vec<u8>) {
    run(loaded, "vl2_out", &from_stack(ip), 0)
}

/// The reason why a frame is dropped or consumed.
fn reason(loaded: &Loaded, program: &str, frame: &[u8], mark: u32) -> (i32, Counter) {
    let ((answer, after), counts) = counted(loaded, || run(loaded, program, frame, mark));
    assert_eq!(counts.len(), 1, "{answer} {counts:?}");
    if answer != REDIRECTED {
        assert_eq!(after, frame, "what is dropped is not written to");
    }
    (answer, counts[0].0)
}

fn event(loaded: &Loaded) -> RawEvent {
    let mut events = Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap();
    assert_eq!(events.len(), 1);
    events.remove(0)
}

#[test]
fn packets_to_peers_leave_with_their_outer_headers() {
    with_host(|loaded| {
        let packets = [
            ip4(OWN, FAR, 6, &tcp(1000)),
            ip4(OWN, NEAR, 6, &tcp(1000)),
            ip6(v6(OWN), v6(FAR), 6, &tcp(1000)),
            ip6(v6(OWN), v6(NEAR), 17, &tcp(0)),
            // IP options; a TTL of 1; no ports; no payload; not a multiple of anything.
            ip4_with(OWN, FAR, 17, 1, &[7, 7, 4, 0, 0, 0, 0, 0], 0x4000, &tcp(77)),
            ip4_with(OWN, FAR, 1, 1, &[], 0, &[8, 0, 0, 0]),
            ip4(OWN, FAR, 99, &[]),
            // As much as fits.
            ip4(OWN, FAR, 6, &tcp(1600 - 40 - 40)),
            ip4(OWN, NEAR, 6, &tcp(1600 - 20 - 40)),
        ];
        for packet in packets {
            let ((answer, frame), counts) = counted(loaded, || out(loaded, &packet));
            assert_eq!((answer, &frame), (OK, &pushed(&packet, 0)), "{packet:02x?}");
            let two = frame.len() - packet.len() == 14 + 40;
            let wanted = vec![
                (if two { Counter::PushedTwo } else { Counter::PushedOne }, 1),
                (Counter::PushedBytes, packet.len() as u64 + 14),
            ];
            assert_eq!(counts, wanted);
        }
    });
}

#[test]
fn options_and_extension_headers_do_not_hide_the_ports() {
    with_host(|loaded| {
        let options = [vec![17, 0, 5, 2, 0, 0, 1, 0], tcp(10)].concat();
        let packet = ip6(v6(OWN), v6(FAR), 0, &options);
        let mut flow = flow_of(&packet).unwrap();
        (flow.protocol, flow.source_port, flow.destination_port) = (17, 0x1234, 80);
        assert_eq!(out(loaded, &packet), (OK, pushed_as(&packet, hash_flow(&flow, 0), flow.destination)));
    });
}

#[test]
fn a_salt_changes_the_path_of_its_flow_alone() {
    with_host(|loaded| {
        let (packet, other) = (ip4(OWN, FAR, 6, &tcp(1)), ip4(OWN, FAR, 17, &tcp(1)));
        let state = vl2_flow_state { salt: 77, ..vl2_flow_state::default() };
        loaded.table(&layout::FLOWS).set(&layout::flow(&flow_of(&packet).unwrap()), &state).unwrap();
        assert_ne!(pushed(&packet, 0), pushed(&packet, 77));
        assert_eq!(out(loaded, &packet), (OK, pushed(&packet, 77)));
        assert_eq!(out(loaded, &other), (OK, pushed(&other, 0)));
    });
}

/// With placements, elephants from 3000 bytes.
fn with_placements(test: impl FnOnce(&Loaded)) {
    let Some(pins) = PinDir::new() else { return };
    test(&host(&pins, &HostSettings { elephant_bytes: Some(3000), ..settings() }));
}

#[test]
fn a_placed_flow_leaves_over_its_intermediate_switch() {
    with_placements(|loaded| {
        let (packet, near) = (ip4(OWN, FAR, 6, &tcp(100)), ip4(OWN, NEAR, 6, &tcp(100)));
        let intermediate = Ipv4Addr::new(10, 0, 0, 77);
        let place = |packet: &[u8], entropy: u32| {
            let placement = layout::placement(&Placement { intermediate, entropy });
            loaded.table(&layout::PLACEMENTS).set(&layout::flow(&flow_of(packet).unwrap()), &placement).unwrap();
        };
        assert_eq!(out(loaded, &packet), (OK, pushed(&packet, 0)), "not yet");
        place(&packet, 0);
        let ((answer, frame), counts) = counted(loaded, || out(loaded, &packet));
        let usual = pushed(&packet, 0);
        assert_eq!((answer, &frame[30..34]), (OK, &intermediate.octets()[..]));
        assert_eq!((&frame[26..30], &frame[34..]), (&usual[26..30], &usual[34..]), "its hash and all that follows stay");
        assert!(counts.contains(&(Counter::PushedPlaced, 1)), "{counts:?}");
        place(&packet, 0x1234_5678);
        assert_eq!(out(loaded, &packet).1[29], 0x78, "an entropy value in place of the hash");
        // Below the host's own ToR there is no intermediate switch.
        place(&near, 0);
        assert_eq!(out(loaded, &near), (OK, pushed(&near, 0)));
    });
}

#[test]
fn an_elephant_and_its_end_are_reported_once() {
    with_placements(|loaded| {
        let of_flags = |flags: u8, payload: usize| {
            let mut segment = tcp(payload);
            (segment[12], segment[13]) = (0x50, flags);
            ip4(OWN, FAR, 6, &segment)
        };
        let (ack, data, fin) = (of_flags(0x10, 0), of_flags(0x10, 1000), of_flags(0x11, 0));
        let count = || loaded.table(&layout::COUNTS).get(&layout::flow(&flow_of(&data).unwrap())).unwrap();
        let kinds = || -> Vec<vl2_event_kind> {
            let events = Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap();
            events.into_iter().map(|event| event.kind).collect()
        };
        (0..100).for_each(|_| assert_eq!(out(loaded, &ack).0, OK));
        assert!(count().is_none(), "acknowledgements are no flow");
        (0..4).for_each(|_| assert_eq!(out(loaded, &data).0, OK));
        let seen = layout::read_count(&count().unwrap());
        assert_eq!((seen.bytes, seen.is_elephant), (4 * data.len() as u64, true));
        assert!(seen.first_ns > 0 && seen.last_ns >= seen.first_ns);
        assert_eq!(kinds(), [vl2_event_kind::VL2_EVENT_ELEPHANT]);
        (0..2).for_each(|_| assert_eq!(out(loaded, &fin).0, OK));
        assert_eq!(kinds(), [vl2_event_kind::VL2_EVENT_FLOW_END]);
        assert!(!layout::read_count(&count().unwrap()).is_elephant);
        // Another connection with the same ports.
        assert_eq!(out(loaded, &of_flags(0x02, 0)).0, OK);
        assert_eq!(layout::read_count(&count().unwrap()).bytes, data.len() as u64 - 1000);
    });
}

#[test]
fn nothing_is_counted_or_placed_without_the_key() {
    with_host(|loaded| {
        let packet = ip4(OWN, FAR, 6, &tcp(1000));
        let placement = layout::placement(&Placement { intermediate: Ipv4Addr::new(10, 0, 0, 77), entropy: 0 });
        loaded.table(&layout::PLACEMENTS).set(&layout::flow(&flow_of(&packet).unwrap()), &placement).unwrap();
        assert_eq!(out(loaded, &packet), (OK, pushed(&packet, 0)));
        assert!(loaded.table(&layout::COUNTS).all().unwrap().is_empty());
    });
}

#[test]
fn later_fragments_follow_the_first() {
    with_host(|loaded| {
        let first = ip4_with(OWN, FAR, 17, 64, &[], 0x2000, &tcp(100));
        let later = ip4_with(OWN, FAR, 17, 64, &[], 0x000f, &[9; 33]);
        let hash = hash_flow(&flow_of(&first).unwrap(), 0);
        assert_eq!(out(loaded, &first), (OK, pushed(&first, 0)));
        assert_eq!(out(loaded, &later), (OK, pushed_as(&later, hash, FAR.into())));
        let mut orphan = later.clone();
        orphan[4] ^= 1;
        let portless = Flow { source_port: 0, destination_port: 0, ..flow_of(&later).unwrap() };
        assert_eq!(out(loaded, &orphan).1, pushed_as(&orphan, hash_flow(&portless, 0), FAR.into()));
        let header = |fragment: u16| [&[17, 0], &fragment.to_be_bytes()[..], &[1, 2, 3, 4]].concat();
        let first = ip6(v6(OWN), v6(FAR), 44, &[header(1), tcp(60)].concat());
        let later = ip6(v6(OWN), v6(FAR), 44, &[header(0x51), vec![3; 9]].concat());
        let flow = Flow { protocol: 17, source_port: 0x1234, destination_port: 80, ..flow_of(&first).unwrap() };
        let hash = hash_flow(&flow, 0);
        assert_eq!(out(loaded, &first).1, pushed_as(&first, hash, flow.destination));
        assert_eq!(out(loaded, &later).1, pushed_as(&later, hash, flow.destination));
    });
}

#[test]
fn what_may_not_leave_is_dropped_with_its_reason() {
    with_host(|loaded| {
        let mut long = ip4(OWN, FAR, 6, &tcp(10));
        long[2..4].copy_from_slice(&999u16.to_be_bytes());
        let mut short = ip4(OWN, FAR, 6, &tcp(10));
        short[0] = 0x44;
        let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        chain.extend(tcp(0));
        let cases = [
            (ip4(STRANGER, FAR, 6, &tcp(10)), Counter::ForgedSource),
            (ip4(LA, FAR, 6, &tcp(10)), Counter::ForgedSource),
            (ip6(v6(STRANGER), v6(FAR), 6, &tcp(10)), Counter::ForgedSource),
            (ip4(FAR, "255.255.255.255".parse().unwrap(), 17, &tcp(10)), Counter::ForgedSource),
            (ip4(OWN, FORBIDDEN, 6, &tcp(10)), Counter::OutForbidden),
            (ip6(v6(OWN), v6(UNKNOWN), 6, &tcp(10)), Counter::OutUnknown),
            (ip4(OWN, EXTERNAL, 6, &tcp(10)), Counter::Plain),
            (long, Counter::Malformed),
            (short, Counter::Malformed),
            (ip4(OWN, FAR, 6, &[1, 2, 3]), Counter::Malformed),
            (ip4(OWN, FAR, 6, &tcp(10))[..20].to_vec(), Counter::Malformed),
            (ip6(v6(OWN), v6(FAR), 60, &chain), Counter::Malformed),
            (ip6("::ffff:20.0.0.1".parse().unwrap(), v6(FAR), 6, &tcp(0)), Counter::Malformed),
        ];
        for (packet, counter) in cases {
            assert_eq!(reason(loaded, "vl2_out", &from_stack(&packet), 0), (DROPPED, counter), "{packet:02x?}");
        }
    });
}

#[test]
fn a_lease_is_renewed_at_the_own_tor_and_nowhere_else() {
    let Some(pins) = PinDir::new() else { return };
    let broadcast = Rate { per_second: 1, burst: 3 };
    let loaded = &host(&pins, &HostSettings { broadcast, ..settings() });
    for packet in [ip4(OWN, TOR, 17, &dhcp(68, 67)), ip4_with(OWN, TOR, 17, 1, &[1; 8], 0x4000, &dhcp(68, 67))] {
        assert_eq!(reason(loaded, "vl2_out", &from_stack(&packet), 0), (OK, Counter::DhcpToRelay));
    }
    for packet in [ip4(TOR, OWN, 17, &dhcp(67, 68)), ip4_with(TOR, OWN, 17, 1, &[1; 8], 0x4000, &dhcp(67, 68))] {
        assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (OK, Counter::DhcpFromRelay));
    }
    let mapped: std::net::Ipv6Addr = format!("2001:db8::{TOR}").parse().unwrap();
    let refused =
        [(ip4(OWN, EXTERNAL, 17, &dhcp(68, 67)), Counter::Plain), (ip4(STRANGER, TOR, 17, &dhcp(68, 67)), Counter::ForgedSource)];
    for (packet, counter) in not_for_the_relay().into_iter().map(|packet| (packet, Counter::Plain)).chain(refused) {
        assert_eq!(reason(loaded, "vl2_out", &from_stack(&packet), 0), (DROPPED, counter), "{packet:02x?}");
    }
    for (packet, counter) in [
        (ip4(TOR, OWN, 17, &dhcp(67, 67)), Counter::Plain),
        (ip4(TOR, OWN, 17, &dhcp(53, 68)), Counter::Plain),
        (ip4(TOR, OWN, 6, &dhcp(67, 68)), Counter::Plain),
        (ip4_with(TOR, OWN, 17, 9, &[], 0x2000, &dhcp(67, 68)), Counter::Plain),
        (ip4(FAR_TOR, OWN, 17, &dhcp(67, 68)), Counter::Plain),
        (ip4(EXTERNAL, OWN, 17, &dhcp(67, 68)), Counter::Plain),
        (ip6(mapped, v6(OWN), 17, &dhcp(67, 68)), Counter::Plain),
        (ip4(TOR, STRANGER, 17, &dhcp(67, 68)), Counter::Plain),
    ] {
        assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (DROPPED, counter), "{packet:02x?}");
    }
    let renewal = from_stack(&ip4(OWN, TOR, 17, &dhcp(68, 67)));
    let answers = [0; 3].map(|_| reason(loaded, "vl2_out", &renewal, 0).1);
    assert_eq!(answers[2], Counter::BroadcastLimited, "{answers:?}");
}

#[test]
fn without_a_tor_there_is_no_relay() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = &host(&pins, &HostSettings { tor: None, ..settings() });
    let zero = Ipv4Addr::UNSPECIFIED;
    for (packet, program) in [
        (ip4(OWN, TOR, 17, &dhcp(68, 67)), "vl2_out"),
        (ip4(OWN, zero, 17, &dhcp(68, 67)), "vl2_out"),
        (ip4(TOR, OWN, 17, &dhcp(67, 68)), "vl2_in"),
        (ip4(zero, OWN, 17, &dhcp(67, 68)), "vl2_in"),
    ] {
        assert_eq!(reason(loaded, program, &from_wire(&packet), 0), (DROPPED, Counter::Plain), "{packet:02x?}");
    }
}

#[test]
fn what_has_nothing_to_do_with_aas_passes_untouched() {
    with_host(|loaded| {
        let v6_external: std::net::Ipv6Addr = "2001:db8::1".parse().unwrap();
        let frames = [
            from_stack(&ip4(LA, EXTERNAL, 6, &tcp(100))),
            from_stack(&ip6("fe80::1".parse().unwrap(), v6_external, 6, &tcp(3))),
            from_stack(&ip4(LA, "224.0.0.5".parse().unwrap(), 89, &[0; 40])),
            // DHCP, IGMP, and OSPF of a host.
            from_stack(&ip4("0.0.0.0".parse().unwrap(), "255.255.255.255".parse().unwrap(), 17, &tcp(200))),
            from_stack(&ip4(OWN, "224.0.0.22".parse().unwrap(), 2, &[0x22; 16])),
            ethernet(GATEWAY, NIC, 0x88cc, &[1, 2, 3]),
            arp(1, (NIC, LA), (weft_fabric::MacAddr([0; 6]), TOR)),
            from_stack(&[0x45; 20]),
        ];
        for frame in frames {
            assert_eq!(run(loaded, "vl2_out", &frame, 0), (OK, frame.clone()), "{frame:02x?}");
            let membership = frame.len() > 26 && frame[26] == 20;
            assert_eq!(run(loaded, "vl2_in", &frame, 0).0, if membership { DROPPED } else { OK });
        }
    });
}

#[test]
fn a_packet_that_does_not_fit_is_reported_with_its_limit() {
    with_host(|loaded| {
        for (packet, segment, limit) in [
            (ip4(OWN, FAR, 6, &tcp(1600 - 40 - 40 + 1)), 0, 1560),
            (ip4(OWN, NEAR, 6, &tcp(1600 - 20 - 40 + 1)), 0, 1580),
            (ip6(v6(OWN), v6(FAR), 6, &tcp(3000)), 0, 1560),
            // Several segments: it is theirs that count. 20 of IP, 20 of TCP.
            (ip4(OWN, FAR, 6, &tcp(3000)), 1521, 1560),
        ] {
            let frame = from_stack(&packet);
            let ((answer, _), counts) = counted(loaded, || run_segments(loaded, "vl2_out", &frame, 0, segment));
            assert_eq!((answer, counts), (DROPPED, vec![(Counter::TooBig, 1)]));
            let event = event(loaded);
            assert_eq!(
                (event.kind, event.mtu, event.flow),
                (vl2_event_kind::VL2_EVENT_TOO_BIG, limit, flow_of(&packet).unwrap())
            );
            assert_eq!(event.frame, frame[..frame.len().min(576)]);
        }
    });
}

#[test]
fn a_miss_is_held_whole_and_goes_when_its_peer_is_there() {
    with_host(|loaded| {
        for packet in [ip4(OWN, STRANGER, 6, &tcp(1400)), ip6(v6(OWN), v6(STRANGER), 17, &tcp(0))] {
            let frame = from_stack(&packet);
            assert_eq!(reason(loaded, "vl2_out", &frame, 0), (CONSUMED, Counter::MissOut));
            let event = event(loaded);
            assert_eq!(
                (event.kind, &event.frame, event.flow),
                (vl2_event_kind::VL2_EVENT_MISS_OUT, &frame, flow_of(&packet).unwrap())
            );
            assert_eq!(reason(loaded, "vl2_out", &frame, MARK_RELEASE_OUT), (DROPPED, Counter::ReleasedLate));
        }
        let known = ip4(OWN, FAR, 6, &tcp(5));
        let ((answer, frame), counts) = counted(loaded, || run(loaded, "vl2_out", &from_stack(&known), MARK_RELEASE_OUT));
        assert_eq!((answer, frame), (OK, pushed(&known, 0)));
        assert_eq!(counts[2], (Counter::Released, 1));
        let held = Held { frame: from_stack(&known), segment: 0 };
        assert_eq!((held.frame(), Direction::In), (&from_stack(&known)[..], Direction::In));
    });
}

#[test]
fn a_full_ring_is_counted_and_nothing_more() {
    with_host(|loaded| {
        let frame = from_stack(&ip4(OWN, STRANGER, 6, &tcp(1400)));
        let (_, counts) = counted(loaded, || (0..60).for_each(|_| drop(run(loaded, "vl2_out", &frame, 0))));
        let [(Counter::MissOut, held), (Counter::EventsFull, lost)] = counts[..] else { panic!("{counts:?}") };
        assert_eq!(held + lost, 60);
        assert_eq!(Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap().len() as u64, held);
    });
}

#[test]
fn arp_is_answered_asked_or_left_alone() {
    with_host(|loaded| {
        let nobody = weft_fabric::MacAddr([0; 6]);
        let ask = |sender, target| arp(1, (NIC, sender), (nobody, target));
        let request = ask(OWN, FAR);
        let ((answer, frame), counts) = counted(loaded, || run(loaded, "vl2_out", &request, 0));
        assert_eq!((answer, frame), (REDIRECTED, arp(2, (PEER_MAC, FAR), (NIC, OWN))));
        assert_eq!(counts, [(Counter::ArpAnswered, 1)]);
        // From an LA too: some kernels choose it.
        assert_eq!(run(loaded, "vl2_out", &ask(LA, FAR), 0), (REDIRECTED, arp(2, (PEER_MAC, FAR), (NIC, LA))));
        assert_eq!(reason(loaded, "vl2_out", &ask(OWN, STRANGER), 0), (CONSUMED, Counter::ResolveAsked));
        let asked = event(loaded);
        assert_eq!(
            (asked.kind, asked.flow.source, asked.flow.destination),
            (vl2_event_kind::VL2_EVENT_RESOLVE, OWN.into(), STRANGER.into())
        );
        assert_eq!(asked.frame[6..12], NIC.0);
        let unspecified = "0.0.0.0".parse().unwrap();
        for frame in [ask(unspecified, FAR), ask(OWN, OWN), ask(FAR, FAR), ask(STRANGER, OWN), arp(2, (NIC, OWN), (GATEWAY, FAR))]
        {
            assert_eq!(reason(loaded, "vl2_out", &frame, 0), (CONSUMED, Counter::OwnAddressAsked), "{frame:02x?}");
        }
        assert_eq!(reason(loaded, "vl2_out", &ask(STRANGER, FAR), 0), (DROPPED, Counter::ForgedSource));
        assert_eq!(reason(loaded, "vl2_out", &ask(OWN, FORBIDDEN), 0), (DROPPED, Counter::OutForbidden));
        assert_eq!(reason(loaded, "vl2_out", &ask(OWN, UNKNOWN), 0), (DROPPED, Counter::OutUnknown));
        for (place, byte) in [(14, 9), (16, 9), (18, 5), (19, 6)] {
            let mut odd = request.clone();
            odd[place] = byte;
            assert_eq!(run(loaded, "vl2_out", &odd, 0), (OK, odd.clone()), "not of Ethernet and IPv4");
        }
        assert_eq!(run(loaded, "vl2_out", &request[..30], 0).0, OK);
        for frame in [ask(FAR, OWN), ask(LA, OWN), arp(2, (GATEWAY, FAR), (NIC, OWN))] {
            assert_eq!(reason(loaded, "vl2_in", &frame, 0), (DROPPED, Counter::ForeignResolution));
        }
        // The answer on its way up.
        let answer = arp(2, (PEER_MAC, FAR), (NIC, OWN));
        assert_eq!(run(loaded, "vl2_in", &answer, MARK_TO_STACK), (OK, answer.clone()));
        assert_eq!(reason(loaded, "vl2_out", &answer, MARK_TO_STACK), (REDIRECTED, Counter::Injected));
    });
}

/// The ToR asks whether the programs run: they answer for the addresses that they have, whatever the agent does.
#[test]
fn the_tor_is_answered_without_the_agent() {
    with_host(|loaded| {
        let ask = |from, target| arp(1, (GATEWAY, from), (weft_fabric::MacAddr::default(), target));
        let mut wanted = arp(2, (VIRTUAL_MAC, OWN), (GATEWAY, TOR));
        wanted[6..12].copy_from_slice(&NIC.0);
        let ((verdict, frame), counts) = counted(loaded, || run(loaded, "vl2_in", &ask(TOR, OWN), 0));
        assert_eq!((verdict, frame, counts), (REDIRECTED, wanted.clone(), vec![(Counter::TorAnswered, 1)]));
        assert_eq!(run(loaded, "vl2_out", &wanted, MARK_TO_TOR), (OK, wanted));
        for frame in [ask(FAR_TOR, OWN), ask(TOR, FAR), ask(TOR, STRANGER), arp(2, (GATEWAY, TOR), (NIC, OWN))] {
            assert_eq!(reason(loaded, "vl2_in", &frame, 0), (DROPPED, Counter::ForeignResolution));
        }
    });
}

#[test]
fn ndp_is_answered_asked_or_left_alone() {
    with_host(|loaded| {
        let group: std::net::Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
        let multicast = weft_fabric::MacAddr([0x33, 0x33, 0xff, 0, 0, 2]);
        let ask = |from, target| ndp(135, from, group, target, NIC, multicast);
        let own = v6(OWN);
        let wanted = ndp(136, v6(FAR), own, v6(FAR), PEER_MAC, NIC);
        assert_eq!(run(loaded, "vl2_out", &ask(own, v6(FAR)), 0), (REDIRECTED, wanted.clone()));
        // Without the option that names the sender's MAC address.
        let mut bare = ask(own, v6(FAR))[..78].to_vec();
        bare[19] = 24;
        assert_eq!(run(loaded, "vl2_out", &bare, 0), (REDIRECTED, wanted.clone()));
        let link_local = "fe80::1".parse().unwrap();
        assert_eq!(run(loaded, "vl2_out", &ask(link_local, v6(FAR)), 0).0, REDIRECTED);
        assert_eq!(reason(loaded, "vl2_out", &ask(own, v6(STRANGER)), 0), (CONSUMED, Counter::ResolveAsked));
        assert_eq!(event(loaded).flow.destination, std::net::IpAddr::from(v6(STRANGER)));
        let unspecified = "::".parse().unwrap();
        for frame in [ask(unspecified, v6(FAR)), ask(unspecified, own), ask(own, own), ndp(136, own, group, own, NIC, multicast)]
        {
            assert_eq!(reason(loaded, "vl2_out", &frame, 0), (CONSUMED, Counter::OwnAddressAsked));
        }
        assert_eq!(reason(loaded, "vl2_out", &ask(v6(STRANGER), v6(FAR)), 0), (DROPPED, Counter::ForgedSource));
        assert_eq!(reason(loaded, "vl2_out", &ask(own, v6(FORBIDDEN)), 0), (DROPPED, Counter::OutForbidden));
        let others = ask(link_local, "fe80::2".parse().unwrap());
        assert_eq!(run(loaded, "vl2_out", &others, 0), (OK, others.clone()));
        assert_eq!(run(loaded, "vl2_in", &others, 0), (OK, others.clone()));
        for frame in [ask(link_local, own), ask(v6(FAR), own), wanted] {
            assert_eq!(reason(loaded, "vl2_in", &frame, 0), (DROPPED, Counter::ForeignResolution));
        }
    });
}

#[test]
fn what_the_tor_delivers_is_taken_from_peers_only() {
    with_host(|loaded| {
        for packet in [
            ip4_with(FAR, OWN, 6, 1, &[], 0, &tcp(9)),
            ip6(v6(NEAR), v6(OWN), 17, &tcp(0)),
            ip4_with(FAR, OWN, 17, 9, &[], 7, &[1]),
        ] {
            let frame = from_wire(&packet);
            let ((answer, after), counts) = counted(loaded, || run(loaded, "vl2_in", &frame, 0));
            assert_eq!((answer, &after), (OK, &frame));
            assert_eq!(counts, [(Counter::Delivered, 1), (Counter::DeliveredBytes, frame.len() as u64)]);
        }
        let unknown = from_wire(&ip4(STRANGER, OWN, 6, &tcp(9)));
        assert_eq!(reason(loaded, "vl2_in", &unknown, 0), (CONSUMED, Counter::MissIn));
        assert_eq!(event(loaded).frame, unknown);
        assert_eq!(reason(loaded, "vl2_in", &unknown, MARK_RELEASE_IN), (DROPPED, Counter::ReleasedLate));
        assert_eq!(run(loaded, "vl2_out", &unknown, MARK_RELEASE_IN), (REDIRECTED, unknown.clone()));
        assert_eq!(run(loaded, "vl2_in", &from_wire(&ip4(FAR, OWN, 6, &tcp(9))), MARK_RELEASE_IN).0, OK);
        let cases = [
            (ip4(FORBIDDEN, OWN, 6, &tcp(9)), Counter::InForbidden),
            (ip6(v6(UNKNOWN), v6(OWN), 6, &tcp(9)), Counter::InUnknown),
            (ip4(FAR, STRANGER, 6, &tcp(9)), Counter::NotLocal),
            (ip4(OWN, OWN, 6, &tcp(9)), Counter::ForgedSource),
            (ip4(EXTERNAL, OWN, 6, &tcp(9)), Counter::Plain),
            (ip4(LA, OWN, 6, &tcp(9)), Counter::Plain),
            (ip4(FAR, LA, 6, &tcp(9)), Counter::NotLocal),
            (ip4(FAR, OWN, 6, &[0, 0]), Counter::Malformed),
        ];
        for (packet, counter) in cases {
            assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (DROPPED, counter), "{packet:02x?}");
        }
    });
}

#[test]
fn a_host_that_is_its_own_locator_strips() {
    let Some(pins) = PinDir::new() else { return };
    let settings = super::super::HostSettings { locator: LocatorKind::Host, ..settings() };
    let loaded = &host(&pins, &settings);
    let far = "10.200.9.7".parse().unwrap();
    for packet in [
        ip4_with(FAR, OWN, 6, 1, &[], 0, &tcp(9)),
        ip6(v6(FAR), v6(OWN), 17, &tcp(0)),
        ip4_with(FAR, OWN, 6, 3, &[1; 8], 0, &tcp(1)),
    ] {
        let ((answer, frame), counts) = counted(loaded, || run(loaded, "vl2_in", &from_wire(&outer(far, LA, &packet)), 0));
        assert_eq!((answer, &frame), (OK, &from_wire(&packet)));
        assert_eq!(counts[0], (Counter::StrippedHost, 1));
    }
    let to_us = |packet: &[u8]| from_wire(&outer(far, LA, packet));
    let tunnel = to_us(&ip4(EXTERNAL, LA, 6, &tcp(3)));
    assert_eq!(run(loaded, "vl2_in", &tunnel, 0), (OK, tunnel.clone()), "another tunnel");
    assert_eq!(reason(loaded, "vl2_in", &from_wire(&ip4(FAR, OWN, 6, &tcp(0))), 0), (DROPPED, Counter::Plain));
    assert_eq!(reason(loaded, "vl2_in", &to_us(&ip4(EXTERNAL, OWN, 6, &tcp(0))), 0), (DROPPED, Counter::Malformed));
    assert_eq!(reason(loaded, "vl2_in", &to_us(&ip4(OWN, OWN, 6, &tcp(0))), 0), (DROPPED, Counter::ForgedSource));
    let fragment = ip4_with(far, LA, 4, 9, &[], 0x2000, &ip4(FAR, OWN, 6, &tcp(0)));
    assert_eq!(reason(loaded, "vl2_in", &from_wire(&fragment), 0), (DROPPED, Counter::OuterFragment));
    // A stale mapping: a sample is reported.
    let (_, counts) = counted(loaded, || run(loaded, "vl2_in", &to_us(&ip4(FAR, STRANGER, 6, &tcp(0))), 0));
    assert_eq!(counts, [(Counter::UndeliverableSampled, 1), (Counter::NotLocal, 1)]);
    let reported = event(loaded);
    assert_eq!((reported.outer_source, reported.locator, reported.flow.source), (far, LA, FAR.into()));
    // An unknown source: what is held has lost its header already.
    let unknown = ip4(STRANGER, OWN, 6, &tcp(50));
    assert_eq!(run(loaded, "vl2_in", &to_us(&unknown), 0).0, CONSUMED);
    assert_eq!(event(loaded).frame, from_wire(&unknown));
}

#[test]
fn congestion_met_by_the_outer_header_reaches_the_inner() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = &host(&pins, &super::super::HostSettings { locator: LocatorKind::Host, ..settings() });
    let marked = |inner: &[u8]| {
        let mut packet = outer("10.200.9.7".parse().unwrap(), LA, inner);
        packet[1] |= 3;
        packet[10..12].fill(0);
        let sum = !fold(words(&packet[..20]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        run(loaded, "vl2_in", &from_wire(&packet), 0)
    };
    // ECT(0) becomes CE, and the checksum still holds.
    let (answer, frame) = marked(&ip4(FAR, OWN, 6, &tcp(4)));
    assert_eq!((answer, frame[15] & 3), (OK, 3));
    assert_eq!(fold(words(&frame[14..34])), 0xffff);
    let (answer, frame) = marked(&ip6(v6(FAR), v6(OWN), 6, &tcp(4)));
    assert_eq!((answer, frame[15] >> 4 & 3), (OK, 3));
    // Ends that do not speak ECN lose the packet instead.
    let mut deaf = ip4(FAR, OWN, 6, &tcp(4));
    deaf[1] = 0;
    let ((answer, _), counts) = counted(loaded, || marked(&deaf));
    assert_eq!((answer, counts), (DROPPED, vec![(Counter::EcnDropped, 1)]));
}

#[test]
fn broadcasts_go_to_the_group_of_the_service_at_their_rate() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = &host(&pins, &super::super::HostSettings { broadcast: Rate { per_second: 1, burst: 3 }, ..settings() });
    let packets = [
        ip4_with(OWN, "255.255.255.255".parse().unwrap(), 17, 1, &[], 0, &tcp(20)),
        ip4(OWN, "20.255.255.255".parse().unwrap(), 17, &tcp(20)),
        ip6(v6(OWN), "ff02::fb".parse().unwrap(), 17, &tcp(20)),
    ];
    let mac = weft_fabric::MacAddr([1, 0, 0x5e, 1, 0, 9]);
    // The bucket fills from empty as time passes since boot: it is full at once.
    for packet in &packets {
        let wanted = ethernet(mac, NIC, 0x0800, &outer(LA, SERVICE_GROUP, packet));
        assert_eq!(out(loaded, packet), (OK, wanted));
    }
    assert_eq!(reason(loaded, "vl2_out", &from_stack(&packets[0]), 0), (DROPPED, Counter::BroadcastLimited));
    let from = "10.1.2.5".parse().unwrap();
    for (source, destination, wanted) in [
        (FAR, "20.255.255.255", (OK, Counter::BroadcastReceived)),
        (FAR, "224.0.0.251", (OK, Counter::BroadcastReceived)),
        (OWN, "255.255.255.255", (DROPPED, Counter::BroadcastEcho)),
        (FAR, "20.0.0.1", (DROPPED, Counter::Malformed)),
        (EXTERNAL, "255.255.255.255", (DROPPED, Counter::Malformed)),
    ] {
        let packet = ip4_with(source, destination.parse().unwrap(), 17, 1, &[], 0, &tcp(20));
        let frame = ethernet(mac, GATEWAY, 0x0800, &outer(from, SERVICE_GROUP, &packet));
        let ((answer, after), counts) = counted(loaded, || run(loaded, "vl2_in", &frame, 0));
        assert_eq!((answer, counts[counts.len() - 1].0), wanted, "{counts:?}");
        if answer == OK {
            assert_eq!(after, ethernet(mac, GATEWAY, 0x0800, &packet));
        }
    }
    let foreign = ethernet(mac, GATEWAY, 0x0800, &outer(from, "239.1.0.8".parse().unwrap(), &packets[0]));
    assert_eq!(run(loaded, "vl2_in", &foreign, 0), (OK, foreign.clone()), "a group of no service here");
}

#[test]
fn only_icmp_errors_come_to_outer_sources() {
    with_host(|loaded| {
        let to = "10.200.5.77".parse().unwrap();
        let error = from_wire(&ip4(TOR, to, 1, &[3, 4, 0, 0, 0, 0, 5, 0xdc, 0x45]));
        assert_eq!(reason(loaded, "vl2_in", &error, 0), (CONSUMED, Counter::IcmpErrors));
        assert_eq!(event(loaded).frame, error);
        for packet in [ip4(TOR, to, 1, &[8, 0, 0, 0]), ip4(TOR, to, 6, &tcp(3))] {
            assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (DROPPED, Counter::EntropyTarget));
        }
    });
}

#[test]
fn what_a_program_encapsulates_by_itself_does_not_leave() {
    with_host(|loaded| {
        let far = Ipv4Addr::new(10, 200, 9, 7);
        for inner in
            [ip4(FAR, NEAR, 6, &tcp(9)), ip4(OWN, FAR, 6, &tcp(9)), ip6(v6(FAR), v6(OWN), 17, &tcp(0)), ip4(FAR, OWN, 6, &[0])]
        {
            for packet in [outer(far, FAR_TOR, &inner), outer(far, ANYCAST[0], &outer(far, FAR_TOR, &inner))] {
                assert_eq!(reason(loaded, "vl2_out", &from_stack(&packet), 0), (DROPPED, Counter::ForgedTunnel), "{packet:02x?}");
            }
        }
        let deep = outer(far, LA, &outer(far, LA, &outer(far, LA, &outer(far, LA, &ip4(OWN, FAR, 6, &tcp(9))))));
        assert_eq!(reason(loaded, "vl2_out", &from_stack(&deep), 0), (DROPPED, Counter::ForgedTunnel));
        // Another tunnel of this host, and a probe of its agent.
        let other = from_stack(&outer(LA, EXTERNAL, &ip4(LA, EXTERNAL, 6, &tcp(9))));
        assert_eq!(run(loaded, "vl2_out", &other, 0), (OK, other.clone()));
        let probe = from_stack(&outer(far, FAR_TOR, &ip4(OWN, FAR, 6, &tcp(9))));
        assert_eq!(run(loaded, "vl2_out", &probe, layout::MARK_PROBE), (OK, probe.clone()));
        let forged = from_stack(&outer(far, FAR_TOR, &ip4(NEAR, FAR, 6, &tcp(9))));
        assert_eq!(reason(loaded, "vl2_out", &forged, layout::MARK_PROBE), (DROPPED, Counter::ForgedTunnel));
    });
}

/// A segment with these flags to a port.
fn segment(port: u16, flags: u8) -> Vec<u8> {
    let mut segment = tcp(4);
    segment[2..4].copy_from_slice(&port.to_be_bytes());
    segment[13] = flags;
    segment
}

#[test]
fn locators_take_what_the_rules_allow_and_answers() {
    let Some(pins) = PinDir::new() else { return };
    let rules = [LocatorRule::Protocol(1), LocatorRule::Port(6, 22), LocatorRule::Address(EXTERNAL.into())];
    let loaded = &host(&pins, &HostSettings { locator_rules: Some(rules.into()), ..settings() });
    for rule in rules {
        loaded.table(&layout::RULES).set(&layout::rule(rule), &0).unwrap();
    }
    let (far, udp) = (Ipv4Addr::new(10, 1, 9, 9), [0, 53, 0x12, 0x34, 0, 8, 0, 0]);
    let allowed = [
        ip4(far, LA, 1, &[8, 0, 0, 0]),
        ip4(far, LA, 6, &segment(22, 2)),
        ip4(far, LA, 6, &segment(7000, 0x10)),
        ip4(far, LA, 6, &segment(7000, 0x12)),
        ip4(far, EXTERNAL, 6, &segment(7000, 2)),
        ip4(far, EXTERNAL, 17, &udp),
    ];
    for packet in allowed {
        assert_eq!(run(loaded, "vl2_in", &from_wire(&packet), 0).0, OK, "{packet:02x?}");
    }
    let v6_la: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
    let refused = [
        ip4(far, LA, 6, &segment(7000, 2)),
        ip4(far, LA, 6, &segment(7000, 0xc2)),
        ip4_with(far, LA, 6, 64, &[], 0x2000, &segment(7000, 2)[..8]),
        ip4_with(far, LA, 6, 64, &[], 1, &segment(7000, 2)[8..]),
        ip4(far, LA, 17, &udp),
        ip4(far, LA, 4, &ip4(FAR, OWN, 6, &tcp(9))),
        ip4(far, LA, 47, &[0; 30]),
        ip6("fe80::2".parse().unwrap(), v6_la, 6, &segment(7000, 2)),
        [&[0x45, 9][..], &[0; 18]].concat(),
    ];
    for packet in refused {
        assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (DROPPED, Counter::LocatorRefused), "{packet:02x?}");
    }
    // A datagram of this host is answered, also in fragments, from there and to that port alone.
    let question = ip4(LA, far, 17, &[0x12, 0x34, 0, 53, 0, 8, 0, 0]);
    assert_eq!(run(loaded, "vl2_out", &from_stack(&question), 0).0, OK);
    assert_eq!(run(loaded, "vl2_in", &from_wire(&ip4(far, LA, 17, &udp)), 0).0, OK);
    assert_eq!(run(loaded, "vl2_in", &from_wire(&ip4_with(far, LA, 17, 64, &[], 0x2000, &udp)), 0).0, OK);
    assert_eq!(run(loaded, "vl2_in", &from_wire(&ip4_with(far, LA, 17, 64, &[], 1, &udp)), 0).0, OK);
    // Another processor has just sent one more.
    let noted = loaded.map("answers");
    let later = {
        let key = noted.keys().next().unwrap();
        let value = noted.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        let at = u64::from_ne_bytes(value.try_into().unwrap()) + 1_000_000_000;
        (key, at.to_ne_bytes())
    };
    noted.update(&later.0, &later.1, MapFlags::ANY).unwrap();
    assert_eq!(run(loaded, "vl2_in", &from_wire(&ip4(far, LA, 17, &udp)), 0).0, OK);
    let others = [ip4(FAR_TOR, LA, 17, &udp), ip4(far, LA, 17, &[0, 53, 0x12, 0x35, 0, 8, 0, 0])];
    for packet in others {
        assert_eq!(reason(loaded, "vl2_in", &from_wire(&packet), 0), (DROPPED, Counter::LocatorRefused));
    }
}
