//! Random damage to good frames: whatever the kernel delivers, the reference takes too, and it is the VIF's.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weft_control::wire::netlord::{Encapsulation, Overlay, Recipient};

use super::*;
use crate::dataplane::testing::{REDIRECTED, run};

fn good(kind: usize) -> Vec<u8> {
    let inner = match kind % 3 {
        0 => ethernet(vm(1), vm(2), 0x0800, &ip4(17, &[], 0, &udp(1, 2, 40))),
        1 => ethernet(vm(1), vm(2), 0x86dd, &ip6(6, &udp(1, 2, 40))),
        _ => ethernet(vm(1), vm(2), 0x88b7, &[1; 60]),
    };
    let overlay = Overlay { to: Recipient::Port(port(4)), tenant: vif(1).tenant, space: vif(1).space, vlan: Some(vlan(5)) };
    let mut out = Vec::new();
    Encapsulation { dst: HARDWARE, src: OWN_SWITCH, tag: None, overlay, inner: &inner }.emit(&mut out);
    out
}

#[test]
fn nothing_is_delivered_that_the_reference_refuses() {
    let Some((_pins, mut plane)) = server() else { return };
    let damage = proptest::collection::vec((0usize..60, any::<u8>()), 0..4);
    let frames = (0usize..3, damage, 0usize..160, any::<bool>()).prop_map(|(kind, damage, cut, mend)| {
        let mut frame = good(kind);
        if cut < frame.len() - 34 {
            frame.truncate(frame.len() - cut);
        }
        for (place, byte) in damage {
            let length = frame.len();
            frame[place % length] = byte;
        }
        if mend {
            frame[24..26].fill(0);
            let sum = checksum(0, &frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        // The kernel runs no IPv6 frame that has not at least a header.
        frame.resize(frame.len().max(54), 0);
        frame
    });
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&frames, |frame| {
        let (verdict, out) = run(plane.loaded(), "netlord_uplink", &frame, 0);
        if verdict == REDIRECTED {
            let parsed = Encapsulation::parse(&frame);
            prop_assert!(parsed.is_ok(), "{parsed:?}");
            let it = parsed.unwrap();
            prop_assert_eq!((it.dst, it.overlay.to), (HARDWARE, Recipient::Port(port(4))));
            prop_assert_eq!((it.overlay.tenant, it.overlay.space), (vif(1).tenant, vif(1).space));
            prop_assert_eq!(&out[..], it.inner);
            prop_assert!(it.inner[..6] == vm(1).0 || it.inner[..6] == vm(3).0);
        }
        Ok(())
    });
    result.unwrap();
    while !plane.events().unwrap().is_empty() {}
    let counters = plane.counters().unwrap();
    assert!(counters.get("received") > 100 && counters.get("bad_encapsulation") > 100, "both are tried: {counters:?}");
}

#[test]
fn no_bytes_of_a_vm_break_anything() {
    let Some((_pins, mut plane)) = server() else { return };
    let frames = proptest::collection::vec(any::<u8>(), 54..300).prop_map(|mut frame| {
        frame[..6].copy_from_slice(&vm(2).0);
        frame[6..12].copy_from_slice(&vm(1).0);
        frame
    });
    let mut runner = TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&frames, |frame| {
        let (verdict, out) = run(plane.loaded(), "netlord_vif", &frame, 0);
        if verdict == REDIRECTED {
            let parsed = Encapsulation::parse(&out).map(|it| (it.overlay.tenant, it.inner.to_vec()));
            prop_assert_eq!(parsed, Ok((vif(1).tenant, frame)));
        }
        Ok(())
    });
    result.unwrap();
    while !plane.events().unwrap().is_empty() {}
}
