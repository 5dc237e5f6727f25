//! The hook of a switch's ports.

use std::net::Ipv4Addr;

use weft_control::directory::key::ServiceId;
use weft_fabric::MacAddr;

use super::super::{Attached, StripRole, SwitchSettings, layout};
use super::packets::*;
use super::{Counter, counted};
use crate::dataplane::Rate;
use crate::dataplane::bytes::be;
use crate::dataplane::load::Loaded;
use crate::dataplane::ring::Ring;
use crate::dataplane::testing::{CONSUMED, DROPPED, OK, PinDir, REDIRECTED, run};

const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);
const ENTROPY: Ipv4Addr = Ipv4Addr::new(10, 200, 9, 33);

/// A switch that is a ToR and an intermediate at once, OWN behind its port 1.
pub fn switch(pins: &PinDir) -> Loaded {
    let settings = SwitchSettings {
        aa4: Some("20.0.0.0/8".parse().unwrap()),
        aa6: Some("fd20::/64".parse().unwrap()),
        relay: Some(TOR),
        samples: Rate { per_second: 1, burst: 2 },
        ..Default::default()
    };
    let loaded = super::super::switch::load(&settings, &pins.0).unwrap();
    loaded.table(&layout::SETTINGS).set(&0, &layout::switch_settings(&settings)).unwrap();
    loaded.table(&layout::STRIPS).set(&be(TOR), &layout::strip(StripRole::Tor)).unwrap();
    loaded.table(&layout::STRIPS).set(&be(ANYCAST[0]), &layout::strip(StripRole::Intermediate)).unwrap();
    let attached = layout::attached(&Attached { port: 1, mac: HOST_MAC, service: ServiceId(9) });
    for address in [OWN.into(), v6(OWN).into()] {
        loaded.table(&layout::LOCALS).set(&layout::key(address), &attached).unwrap();
    }
    loaded
}

fn with_switch(test: impl FnOnce(&Loaded)) {
    let Some(pins) = PinDir::new() else { return };
    test(&switch(&pins));
}

fn port(loaded: &Loaded, ip: &[u8]) -> (i32, Vec<u8>) {
    run(loaded, "vl2_port", &from_wire(ip), 0)
}

#[test]
fn an_intermediate_strips_the_first_header() {
    with_switch(|loaded| {
        for inner in [ip4_with(FAR, STRANGER, 6, 1, &[], 0, &tcp(99)), ip6(v6(FAR), v6(NEAR), 17, &tcp(0))] {
            let second = outer(ENTROPY, FAR_TOR, &inner);
            let (result, counts) = counted(loaded, || port(loaded, &outer(ENTROPY, ANYCAST[0], &second)));
            assert_eq!(result, (OK, from_wire(&second)));
            assert_eq!(counts, [(Counter::StrippedIntermediate, 1)]);
        }
    });
}

#[test]
fn an_intermediate_relays_nothing_else() {
    with_switch(|loaded| {
        let inner = ip4(FAR, OWN, 6, &tcp(9));
        let mut cut = outer(ENTROPY, FAR_TOR, &inner);
        cut[2] = 0xff;
        let cases = [
            (outer(ENTROPY, ANYCAST[0], &inner), Counter::Malformed),
            (outer(ENTROPY, ANYCAST[0], &ip6(v6(FAR), v6(OWN), 6, &tcp(0))), Counter::Malformed),
            (outer(ENTROPY, ANYCAST[0], &cut), Counter::Malformed),
            (outer(ENTROPY, ANYCAST[0], &[0x45, 0]), Counter::Malformed),
            (ip4_with(ENTROPY, ANYCAST[0], 4, 9, &[1; 4], 0, &outer(ENTROPY, FAR_TOR, &inner)), Counter::Malformed),
            (ip4_with(ENTROPY, ANYCAST[0], 4, 9, &[], 0x2000, &outer(ENTROPY, FAR_TOR, &inner)), Counter::OuterFragment),
            (outer(ENTROPY, ANYCAST[0], &outer(FAR, FAR_TOR, &inner)), Counter::Plain),
            (outer(ENTROPY, ANYCAST[0], &outer(ENTROPY, OWN, &inner)), Counter::Plain),
        ];
        for (packet, counter) in cases {
            let ((answer, after), counts) = counted(loaded, || port(loaded, &packet));
            assert_eq!((answer, counts), (DROPPED, vec![(counter, 1)]), "{packet:02x?}");
            assert_eq!(after, from_wire(&packet));
        }
    });
}

#[test]
fn a_tor_delivers_the_inner_packet_as_it_was_sent() {
    with_switch(|loaded| {
        for inner in [
            ip4_with(FAR, OWN, 6, 1, &[], 0, &tcp(99)),
            ip6(v6(FAR), v6(OWN), 17, &tcp(0)),
            ip4_with(STRANGER, OWN, 17, 5, &[1; 8], 9, &[1]),
        ] {
            let (result, counts) = counted(loaded, || port(loaded, &outer(ENTROPY, TOR, &inner)));
            let kind = if inner[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            assert_eq!(result, (REDIRECTED, ethernet(HOST_MAC, NIC, kind, &inner)));
            assert_eq!(counts, [(Counter::StrippedTor, 1)]);
        }
    });
}

#[test]
fn a_tor_reports_samples_of_what_it_cannot_deliver() {
    with_switch(|loaded| {
        let packet = outer(ENTROPY, TOR, &ip4(FAR, STRANGER, 6, &tcp(9)));
        let (_, counts) = counted(loaded, || (0..9).for_each(|_| assert_eq!(port(loaded, &packet).0, DROPPED)));
        assert_eq!(counts, [(Counter::UndeliverableSampled, 2), (Counter::NotLocal, 9)]);
        let events = Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap();
        assert_eq!(events.len(), 2);
        let reported = (events[0].flow.source, events[0].flow.destination, events[0].outer_source, events[0].locator);
        assert_eq!(reported, (FAR.into(), STRANGER.into(), ENTROPY, TOR));
    });
}

#[test]
fn what_is_not_for_the_switch_passes_and_plain_aas_do_not() {
    with_switch(|loaded| {
        let inner = ip4(FAR, OWN, 6, &tcp(9));
        for packet in [
            ip4(LA, EXTERNAL, 6, &tcp(9)),
            ip4(LA, TOR, 6, &tcp(9)),
            outer(ENTROPY, FAR_TOR, &inner),
            outer(ENTROPY, ANYCAST[1], &outer(ENTROPY, FAR_TOR, &inner)),
            outer(ENTROPY, TOR, &ip4(LA, EXTERNAL, 17, &tcp(0))),
            [&[0x45, 9][..], &[0; 18]].concat(),
        ] {
            assert_eq!(port(loaded, &packet), (OK, from_wire(&packet)), "{packet:02x?}");
        }
        for packet in [inner, ip6(v6(FAR), v6(OWN), 6, &tcp(0))] {
            let ((answer, _), counts) = counted(loaded, || port(loaded, &packet));
            assert_eq!((answer, counts), (DROPPED, vec![(Counter::Plain, 1)]));
        }
        let mut cut = outer(ENTROPY, TOR, &ip4(FAR, OWN, 6, &tcp(9)));
        cut[23] = 0xff;
        assert_eq!(counted(loaded, || port(loaded, &cut)).1, [(Counter::Malformed, 1)]);
    });
}

/// Port 1, which is the loopback interface that programs are run on, has a host; its locators are listed or not.
fn with_host_port(is_listed: bool, test: impl FnOnce(&Loaded)) {
    with_switch(|loaded| {
        loaded.table(&layout::HOST_PORTS).set(&1, &is_listed.into()).unwrap();
        let other = layout::attached(&Attached { port: 2, mac: HOST_MAC, service: ServiceId(9) });
        loaded.table(&layout::LOCALS).set(&layout::key(NEAR.into()), &other).unwrap();
        for (prefix, port) in [("10.200.9.0/24", 1), ("10.1.1.5/32", 1), ("10.200.8.0/24", 2)] {
            loaded.table(&layout::SOURCES).set(&layout::source(prefix.parse().unwrap()), &port).unwrap();
        }
        test(loaded);
    });
}

#[test]
fn dhcp_of_an_address_behind_the_port_goes_to_the_relay() {
    for is_listed in [false, true] {
        with_host_port(is_listed, |loaded| {
            for packet in [ip4(OWN, TOR, 17, &dhcp(68, 67)), ip4_with(OWN, TOR, 17, 1, &[1; 8], 0x4000, &dhcp(68, 67))] {
                let ((answer, _), counts) = counted(loaded, || port(loaded, &packet));
                assert_eq!((answer, counts), (CONSUMED, vec![(Counter::DhcpToRelay, 1)]));
                let events = Ring::new(loaded.map("events"), layout::read_event).unwrap().take().unwrap();
                assert_eq!(events.len(), 1);
                assert_eq!((events[0].kind, &events[0].frame), (layout::vl2_event_kind::VL2_EVENT_DHCP, &from_wire(&packet)));
            }
            let refused = [
                (ip4(OWN, TOR, 17, &dhcp(67, 67)), Counter::Plain),
                // Another port of the sender, other locators, and other hosts' addresses.
                (ip4(OWN, ANYCAST[0], 17, &dhcp(68, 67)), Counter::Plain),
                (ip4(OWN, Ipv4Addr::BROADCAST, 17, &dhcp(68, 67)), Counter::Plain),
                (ip4(OWN, NEAR, 17, &dhcp(68, 67)), Counter::Plain),
                (ip4(TOR, OWN, 17, &dhcp(68, 67)), Counter::Plain),
                (ip4(TOR, OWN, 17, &dhcp(67, 68)), Counter::Plain),
                // Sources that are behind another port, or nowhere.
                (ip4(NEAR, TOR, 17, &dhcp(68, 67)), Counter::ForgedSource),
                (ip4(STRANGER, TOR, 17, &dhcp(68, 67)), Counter::ForgedSource),
            ];
            for (packet, counter) in not_for_the_relay().into_iter().map(|packet| (packet, Counter::Plain)).chain(refused) {
                let ((answer, _), counts) = counted(loaded, || port(loaded, &packet));
                assert_eq!((answer, counts), (DROPPED, vec![(counter, 1)]), "{packet:02x?}");
            }
            let many = |loaded: &Loaded| (0..300).for_each(|_| drop(port(loaded, &ip4(OWN, TOR, 17, &dhcp(68, 67)))));
            let limited = counted(loaded, || many(loaded)).1;
            assert!(limited.iter().any(|(which, count)| *which == Counter::BroadcastLimited && *count > 100), "{limited:?}");
        });
    }
}

#[test]
fn without_a_relay_no_address_reaches_the_tor() {
    with_host_port(true, |loaded| {
        let settings = SwitchSettings { aa4: Some("20.0.0.0/8".parse().unwrap()), ..Default::default() };
        loaded.table(&layout::SETTINGS).set(&0, &layout::switch_settings(&settings)).unwrap();
        for to in [TOR, Ipv4Addr::UNSPECIFIED] {
            let counts = counted(loaded, || port(loaded, &ip4(OWN, to, 17, &dhcp(68, 67)))).1;
            assert_eq!(counts, [(Counter::Plain, 1)]);
        }
    });
}

#[test]
fn what_a_host_sends_is_its_own() {
    let others = Ipv4Addr::new(10, 200, 8, 33);
    let inner = ip4(OWN, FAR, 6, &tcp(9));
    let tunnel = |source: Ipv4Addr, inner: &[u8]| outer(source, FAR_TOR, inner);
    let bounced = |source: Ipv4Addr, inner: &[u8]| outer(ENTROPY, ANYCAST[0], &tunnel(source, inner));
    for is_listed in [false, true] {
        with_host_port(is_listed, |loaded| {
            for packet in [tunnel(ENTROPY, &inner), bounced(ENTROPY, &inner), ip4(LA, EXTERNAL, 6, &tcp(0))] {
                assert_eq!(port(loaded, &packet).0, OK, "{packet:02x?}");
            }
            let dropped = [
                (tunnel(ENTROPY, &ip4(NEAR, FAR, 6, &tcp(9))), Counter::ForgedSource),
                (tunnel(ENTROPY, &ip4(FAR, OWN, 6, &tcp(9))), Counter::ForgedSource),
                (tunnel(ENTROPY, &ip6(v6(NEAR), v6(FAR), 6, &tcp(9))), Counter::ForgedSource),
                (bounced(ENTROPY, &ip4(NEAR, FAR, 6, &tcp(9))), Counter::ForgedSource),
                (outer(ENTROPY, TOR, &ip4(NEAR, OWN, 6, &tcp(9))), Counter::ForgedSource),
                (bounced(others, &inner), Counter::ForgedOuter),
                (ip4_with(ENTROPY, FAR_TOR, 4, 9, &[], 0x2000, &inner), Counter::OuterFragment),
            ];
            for (packet, counter) in dropped {
                let ((answer, _), counts) = counted(loaded, || port(loaded, &packet));
                assert_eq!((answer, counts), (DROPPED, vec![(counter, 1)]), "{packet:02x?}");
            }
            let claim = |mac, ip| arp(1, (mac, ip), (MacAddr([0; 6]), ip));
            for (frame, is_own) in
                [(claim(NIC, LA), true), (claim(NIC, OWN), true), (claim(NIC, NEAR), false), (claim(NIC, others), !is_listed)]
            {
                assert_eq!(run(loaded, "vl2_port", &frame, 0).0, if is_own { OK } else { DROPPED }, "{frame:02x?}");
            }
            for packet in [tunnel(others, &inner), ip4(others, EXTERNAL, 17, &tcp(0)), tunnel(EXTERNAL, &inner)] {
                assert_eq!(port(loaded, &packet).0, if is_listed { DROPPED } else { OK }, "{packet:02x?}");
            }
        });
    }
}
