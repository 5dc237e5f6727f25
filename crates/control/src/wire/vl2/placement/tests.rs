//! Reports and orders: round trips, damaged bytes, the drawing.

use proptest::prelude::*;

use super::*;
use crate::directory::auth::Secret;

fn key(n: u32) -> PlacementKey {
    PlacementKey::of(&Secret::new([7; 32]).key_of(PrincipalId(n)))
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let v4 = any::<[[u8; 4]; 2]>().prop_map(|it| it.map(IpAddr::from));
    let v6 = any::<[[u8; 16]; 2]>().prop_map(|it| it.map(IpAddr::from));
    (prop_oneof![v4, v6], any::<[u16; 2]>()).prop_map(|([source, destination], [source_port, destination_port])| Flow {
        source,
        destination,
        protocol: TCP,
        source_port,
        destination_port,
    })
}

fn any_placement() -> impl Strategy<Value = Option<Placement>> {
    let placed = (1u32.., any::<u32>()).prop_map(|(a, entropy)| Placement { intermediate: a.into(), entropy });
    prop_oneof![Just(None), placed.prop_map(Some)]
}

fn any_report() -> impl Strategy<Value = Report> {
    let flow = (any_flow(), any::<[u64; 2]>(), any_placement(), any::<bool>()).prop_map(|(flow, [bytes, age], placement, it)| {
        Reported { flow, bytes, age: Duration::from_ns(age), placement, is_refused: it && placement.is_some() }
    });
    let flows = prop::collection::vec(flow, 0..=REPORTED_MAX);
    let unreachable = prop::collection::vec(any::<u32>().prop_map(Ipv4Addr::from), 0..=ADDRESSES_MAX);
    (1u32.., any::<[u64; 4]>(), 0..255u8, flows, unreachable).prop_map(
        |(principal, [sequence, time, generation, length], part, flows, unreachable)| Report {
            principal: PrincipalId(principal),
            sequence,
            time: Duration::from_ns(time),
            generation,
            loop_length: Duration::from_ns(length),
            part,
            parts: part + 1,
            flows,
            unreachable,
        },
    )
}

fn any_orders() -> impl Strategy<Value = Orders> {
    let flows = prop::collection::vec((any_flow(), any_placement()), 0..=ORDERED_MAX);
    (1u32.., any::<[u64; 5]>(), flows).prop_map(|(principal, [sequence, generation, number, every, held], flows)| Orders {
        principal: PrincipalId(principal),
        sequence,
        generation,
        number,
        every: Duration::from_ns(every),
        held: Duration::from_ns(held),
        flows,
    })
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(report in any_report(), orders in any_orders()) {
        let bytes = report.emit(&key(1));
        prop_assert!(bytes.len() <= LARGEST);
        let frame = Frame::parse(&bytes).unwrap();
        prop_assert!(frame.is_of(&key(1)) && !frame.is_of(&key(2)));
        prop_assert_eq!(frame.principal(), report.principal);
        prop_assert_eq!(frame.message, Message::Report(report));
        let bytes = orders.emit(&key(1));
        prop_assert!(bytes.len() <= LARGEST);
        let frame = Frame::parse(&bytes).unwrap();
        prop_assert!(frame.is_of(&key(1)) && !frame.is_of(&key(2)));
        prop_assert_eq!(frame.message, Message::Orders(orders));
    }

    #[test]
    fn a_changed_bit_is_noticed(report in any_report(), bit in any::<prop::sample::Index>()) {
        let mut bytes = report.emit(&key(1));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!Frame::parse(&bytes).is_ok_and(|frame| frame.is_of(&key(1))));
    }

    #[test]
    fn any_bytes_are_a_message_in_one_form_or_none(noise in prop::collection::vec(any::<u8>(), 0..200), report in any_report(), at in 0usize..200) {
        let _ = Frame::parse(&noise);
        let mut mixed = report.emit(&key(1));
        for (to, from) in mixed.iter_mut().skip(at).zip(&noise) {
            *to = *from;
        }
        if let Ok(frame) = Frame::parse(&mixed) {
            let again = match &frame.message {
                Message::Report(report) => report.emit(&key(1)),
                Message::Orders(orders) => orders.emit(&key(1)),
            };
            prop_assert_eq!(&again[..again.len() - TAG], &mixed[..mixed.len() - TAG]);
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_drawing() {
    let flow = Flow {
        source: [20, 0, 0, 1].into(),
        destination: [20, 0, 0, 9].into(),
        protocol: TCP,
        source_port: 5000,
        destination_port: 80,
    };
    let placement = Some(Placement { intermediate: [10, 0, 0, 1].into(), entropy: 7 });
    let reported = Reported { flow, bytes: 100_000, age: Duration::from_ns(9), placement, is_refused: true };
    let report = Report {
        principal: PrincipalId(17),
        sequence: 1,
        time: Duration::from_ns(2),
        generation: 3,
        loop_length: Duration::from_ns(4),
        part: 0,
        parts: 1,
        flows: vec![reported],
        unreachable: vec![[10, 0, 0, 2].into()],
    };
    let hex = |bytes: &[u8]| bytes[..bytes.len() - TAG].iter().map(|b| format!("{b:02x}")).collect::<String>();
    let addresses = "00000000000000000000ffff1400000100000000000000000000ffff14000009";
    let head = "575001010000001100000000000000010000000000000002000000000000000300000000000000040001";
    let rest = "138800500100000 00a0000010000000700000000000186a00000000000000009 0a000002".replace(' ', "");
    assert_eq!(hex(&report.emit(&key(17))), format!("{head}0101{addresses}{rest}"));
    let orders = Orders {
        principal: PrincipalId(17),
        sequence: 1,
        generation: 3,
        number: 5,
        every: Duration::from_ns(6),
        held: Duration::from_ns(8),
        flows: vec![(flow, placement)],
    };
    let head = "575001810000001100000000000000010000000000000003000000000000000500000000000000060000000000000008";
    assert_eq!(hex(&orders.emit(&key(17))), format!("{head}01000000{addresses}13880050000000000a00000100000007"));
    assert_eq!(Frame::parse(b"WP").unwrap_err(), PlacementError::Length(2));
    assert_eq!(PlacementKey::parse(&key(17).to_hex()).unwrap(), key(17));
}
