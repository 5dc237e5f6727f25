//! A switch's port: learning, eviction and ageing, and the last hop.

use std::time::Duration;

use weft_control::wire::netlord::{Claim, Encapsulation, Overlay, Recipient, emit_claims, parse_claims};

use super::*;
use crate::dataplane::testing::{CONSUMED, DROPPED, REDIRECTED, run};
use crate::netlord::dataplane::layout::FIB;
use crate::netlord::dataplane::{Event, Limit};

/// An edge switch whose port at interface 1 has VLAN 10 without a tag; 4 addresses fit.
pub(super) fn edge(ageing: Duration) -> Option<(PinDir, SwitchPlane)> {
    let pins = PinDir::new()?;
    let settings = SwitchSettings { mac: Some(OWN_SWITCH), fib_entries: 4, ageing, learn: None };
    let plane = SwitchPlane::attach(&settings, &[], &pins.0).unwrap();
    plane.write_for_test(HERE, vlan(10), &[(port(4), THERE, Some(HARDWARE)), (port(5), THERE, None)]);
    Some((pins, plane))
}

fn on(plane: &SwitchPlane, frame: &[u8]) -> Ran {
    let before = plane.counters().unwrap();
    let result = run(plane.loaded(), "netlord_port", frame, 0);
    counted(&before, &plane.counters().unwrap(), result)
}

fn counter(plane: &SwitchPlane, frame: &[u8]) -> (i32, &'static str) {
    let ((verdict, _), counts) = on(plane, frame);
    assert_eq!(counts.len(), 1, "{counts:?}");
    (verdict, counts[0].0)
}

fn from(n: u8) -> Vec<u8> {
    ethernet(MacAddr([0xff; 6]), vm(n), 0x88b7, &[0; 46])
}

fn known(plane: &SwitchPlane) -> Vec<MacAddr> {
    let mut macs: Vec<MacAddr> = plane.fib().unwrap().0.iter().map(|entry| entry.mac).collect();
    macs.sort_unstable();
    macs
}

#[test]
fn the_table_holds_so_many_and_the_one_silent_longest_goes_first() {
    let Some((_pins, plane)) = edge(Duration::from_secs(300)) else { return };
    for n in [1, 2, 3, 4] {
        assert!(on(&plane, &from(n)).1.contains(&("learned", 1)));
    }
    assert_eq!(known(&plane), [1, 2, 3, 4].map(vm));
    // 1 is heard again, so that 2 is the oldest.
    assert!(!on(&plane, &from(1)).1.iter().any(|(name, _)| *name == "learned"));
    let counts = on(&plane, &from(5)).1;
    assert!(counts.contains(&("evicted", 1)) && counts.contains(&("learned", 1)), "{counts:?}");
    assert_eq!(known(&plane), [1, 3, 4, 5].map(vm));
    // A reference that keeps a list, on a random order.
    let mut list: Vec<u8> = vec![3, 4, 1, 5];
    let mut state = 12345u64;
    for _ in 0..500 {
        state = weft_fabric::rng::mix(state);
        let n = 1 + (state % 9) as u8;
        on(&plane, &from(n));
        list.retain(|&it| it != n);
        list.push(n);
        if list.len() > 4 {
            list.remove(0);
        }
        let mut wanted: Vec<MacAddr> = list.iter().map(|&n| vm(n)).collect();
        wanted.sort_unstable();
        assert_eq!(known(&plane), wanted);
    }
}

#[test]
fn the_switchs_own_address_and_groups_are_never_learned() {
    let Some((_pins, plane)) = edge(Duration::from_secs(300)) else { return };
    on(&plane, &ethernet(MacAddr([0xff; 6]), OWN_SWITCH, 0x88b5, &[0; 46]));
    assert_eq!(counter(&plane, &ethernet(vm(1), MacAddr([0xff; 6]), 0x88b7, &[0; 46])), (DROPPED, "bad_source"));
    assert_eq!(counter(&plane, &ethernet(vm(1), MacAddr([0; 6]), 0x88b7, &[0; 46])), (DROPPED, "bad_source"));
    assert_eq!(known(&plane), []);
    let reserved = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    assert_eq!(counter(&plane, &ethernet(reserved, vm(1), 0x88cc, &[0; 46])), (DROPPED, "reserved"));
}

#[test]
fn an_address_that_is_known_is_not_flooded_and_one_that_was_silent_is() {
    let Some((_pins, plane)) = edge(Duration::from_millis(50)) else { return };
    let to = |n: u8| ethernet(vm(n), vm(9), 0x88b7, &[0; 46]);
    assert!(on(&plane, &to(1)).1.contains(&("misses", 1)));
    on(&plane, &from(1));
    assert_eq!(counter(&plane, &to(1)), (DROPPED, "same_port"), "it is where the frame comes from");
    std::thread::sleep(Duration::from_millis(80));
    let counts = on(&plane, &to(1)).1;
    assert!(counts.contains(&("aged", 1)) && counts.contains(&("flooded", 1)), "{counts:?}");
}

#[test]
fn an_address_that_another_processor_has_just_heard_is_known() {
    let Some((_pins, plane)) = edge(Duration::from_secs(300)) else { return };
    let to = ethernet(vm(1), vm(9), 0x88b7, &[0; 46]);
    on(&plane, &from(1));
    on(&plane, &to);
    let fib = plane.loaded().table(&FIB);
    for (key, mut entry) in fib.all().unwrap() {
        entry.seen_ns += 1_000_000_000;
        fib.set(&key, &entry).unwrap();
    }
    assert_eq!(counter(&plane, &to), (DROPPED, "same_port"));
}

/// To this switch: the server at a port.
pub(super) fn last(to: u16) -> Vec<u8> {
    let inner = ethernet(vm(1), vm(2), 0x88b7, &[0; 60]);
    let overlay = Overlay { to: Recipient::Port(port(to)), tenant: vif(1).tenant, space: vif(1).space, vlan: Some(vlan(10)) };
    let mut out = Vec::new();
    Encapsulation { dst: OWN_SWITCH, src: FAR_SWITCH, tag: None, overlay, inner: &inner }.emit(&mut out);
    out
}

#[test]
fn the_last_hop_is_by_the_longest_prefix() {
    let Some((_pins, mut plane)) = edge(Duration::from_secs(300)) else { return };
    let frame = last(4);
    let ((verdict, out), counts) = on(&plane, &frame);
    assert_eq!((verdict, counts), (REDIRECTED, vec![("last_hop", 1)]));
    let mut packet = frame[14..].to_vec();
    packet[8] -= 1;
    packet[10..12].fill(0);
    let sum = checksum(0, &packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(out, ethernet(HARDWARE, OWN_SWITCH, 0x0800, &packet), "new Ethernet header, one off the time to live");
    assert_eq!(counter(&plane, &last(5)), (DROPPED, "no_neighbour"));
    assert!(!plane.events().unwrap().is_empty(), "the daemon asks for it");
    assert_eq!(counter(&plane, &last(6)), (DROPPED, "no_route"));
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut frame = last(4);
        change(&mut frame[14..34]);
        frame[24..26].fill(0);
        let sum = checksum(0, &frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    assert_eq!(counter(&plane, &with(&|ip| ip[8] = 1)), (DROPPED, "ttl_expired"));
    assert_eq!(counter(&plane, &with(&|ip| ip[0] = 0x46)), (DROPPED, "bad_header"));
    let mut broken = last(4);
    broken[24] ^= 0x40;
    assert_eq!(counter(&plane, &broken), (DROPPED, "bad_header"));
    assert_eq!(counter(&plane, &ethernet(OWN_SWITCH, vm(1), 0x88b7, &[0; 46])), (DROPPED, "bad_header"));
    assert_eq!(counter(&plane, &ethernet(OWN_SWITCH, HARDWARE, 0x0806, &[0; 28])), (CONSUMED, "arp"));
}

#[test]
fn a_tenant_is_limited_by_its_bits_of_the_destination() {
    let Some((_pins, mut plane)) = edge(Duration::from_secs(300)) else { return };
    let tenant = vif(1).tenant;
    plane.set_limit(tenant, Some(Limit::Deny)).unwrap();
    assert_eq!(counter(&plane, &last(4)), (DROPPED, "denied"));
    let size = last(4).len() as u64;
    plane.set_limit(tenant, Some(Limit::Rate { bytes_per_second: 1, burst_bytes: 3 * size })).unwrap();
    // The bucket fills from nothing, at one byte a second.
    assert_eq!(counter(&plane, &last(4)), (DROPPED, "limited"));
    plane.set_limit(tenant, Some(Limit::Rate { bytes_per_second: 1_000_000_000, burst_bytes: 3 * size })).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(counter(&plane, &last(4)), (REDIRECTED, "last_hop"));
    plane.set_limit(TenantId(3), Some(Limit::Deny)).unwrap();
    plane.set_limit(tenant, None).unwrap();
    assert_eq!(counter(&plane, &last(4)), (REDIRECTED, "last_hop"), "others are not concerned");
    let counts = plane.tenants().unwrap();
    assert_eq!(counts.iter().map(|it| (it.tenant, it.packets, it.denied, it.limited)).collect::<Vec<_>>(), [(tenant, 2, 1, 1)]);
}

/// To all of a tenant's MAC space, or to an edge switch that is not known here.
fn flooded(to: MacAddr, recipient: Recipient) -> Vec<u8> {
    let inner = ethernet(vm(1), vm(2), 0x88b7, &[0; 60]);
    let overlay = Overlay { to: recipient, tenant: vif(1).tenant, space: vif(1).space, vlan: Some(vlan(10)) };
    let mut out = Vec::new();
    Encapsulation { dst: to, src: FAR_SWITCH, tag: None, overlay, inner: &inner }.emit(&mut out);
    out
}

#[test]
fn what_is_flooded_is_within_the_limit_of_its_tenant() {
    let Some((_pins, mut plane)) = edge(Duration::from_secs(300)) else { return };
    let tenant = vif(1).tenant;
    let group = flooded(MacAddr([0x01, 0, 0x5e, 0, 0, 7]), Recipient::Group);
    let broadcast = flooded(MacAddr([0xff; 6]), Recipient::Group);
    let unknown = flooded(MacAddr([2, 0, 0, 0, 9, 9]), Recipient::Port(port(4)));
    let is_counted = |plane: &SwitchPlane, frame: &[u8], name: &'static str| {
        let counts = on(plane, frame).1;
        assert!(counts.contains(&(name, 1)), "{name}: {counts:?}");
        assert_eq!(counts.iter().any(|(it, _)| *it == "flooded"), name == "flooded", "{counts:?}");
    };
    let frames = [&group, &broadcast, &unknown];
    plane.set_limit(tenant, Some(Limit::Deny)).unwrap();
    frames.iter().for_each(|frame| is_counted(&plane, frame, "denied"));
    plane.set_limit(tenant, Some(Limit::Rate { bytes_per_second: 1, burst_bytes: 10_000 })).unwrap();
    frames.iter().for_each(|frame| is_counted(&plane, frame, "limited"));
    plane.set_limit(tenant, None).unwrap();
    frames.iter().for_each(|frame| is_counted(&plane, frame, "flooded"));
    // NL-ARP names tenants too, but is the agents': it does not look like an encapsulation.
    plane.set_limit(tenant, Some(Limit::Deny)).unwrap();
    is_counted(&plane, &from(3), "flooded");
    let mut plain = group.clone();
    plain[14 + 9] = 17;
    is_counted(&plane, &plain, "flooded");
    let counts = plane.tenants().unwrap();
    assert_eq!(counts.iter().map(|it| (it.tenant, it.packets, it.denied, it.limited)).collect::<Vec<_>>(), [(tenant, 3, 3, 3)]);
}

#[test]
fn a_share_takes_the_place_of_the_rate() {
    let Some((_pins, mut plane)) = edge(Duration::from_secs(300)) else { return };
    let tenant = vif(1).tenant;
    let size = last(4).len() as u64;
    plane.set_limit(tenant, Some(Limit::Rate { bytes_per_second: 1_000_000_000, burst_bytes: 3 * size })).unwrap();
    plane.set_share(tenant, 1).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(counter(&plane, &last(4)), (DROPPED, "limited"));
    assert_eq!(plane.share(tenant).unwrap(), Some(1));
    plane.set_share(tenant, 1_000_000_000).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(counter(&plane, &last(4)), (REDIRECTED, "last_hop"));
    let sent = plane.tenant(tenant).unwrap().unwrap();
    assert_eq!((sent.packets, sent.bytes, sent.limited), (1, size, 1));
    plane.set_share(tenant, 1).unwrap();
    plane.retain_shares(&[tenant]).unwrap();
    assert_eq!(plane.share(tenant).unwrap(), Some(1));
    plane.retain_shares(&[]).unwrap();
    assert_eq!(plane.share(tenant).unwrap(), None, "the rate is whole again");
    assert_eq!(counter(&plane, &last(4)), (REDIRECTED, "last_hop"));
}

#[test]
fn reports_of_limits_come_from_the_fabric_alone() {
    let Some((_pins, mut plane)) = edge(Duration::from_secs(300)) else { return };
    let claim = Claim { tenant: vif(1).tenant, bytes_per_second: 5, wants_more: false };
    let mut report = Vec::new();
    emit_claims(FAR_SWITCH, None, &[claim], &mut report);
    let counts = on(&plane, &report).1;
    assert!(counts.contains(&("claims", 1)) && counts.contains(&("flooded", 1)), "{counts:?}");
    let events = plane.events().unwrap();
    let [Event::Claims { frame }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(parse_claims(frame), Ok((FAR_SWITCH, vec![claim])));
    plane.write_port_for_test(HERE, vlan(10), Some(port(4)));
    assert_eq!(counter(&plane, &report), (DROPPED, "forged_claims"));
    assert!(plane.events().unwrap().is_empty());
}
