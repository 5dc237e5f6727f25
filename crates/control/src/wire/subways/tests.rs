//! Reports and orders: round trips, damaged bytes.

use proptest::prelude::*;
use weft_fabric::routing::Direction;

use super::*;
use crate::directory::auth::Secret;

fn key(n: u32) -> PlacementKey {
    PlacementKey::of(&Secret::new([7; 32]).key_of(PrincipalId(n)))
}

fn any_head() -> impl Strategy<Value = ReportHead> {
    (1u32.., any::<[u64; 3]>(), 0..255u8).prop_map(|(principal, [sequence, time, generation], part)| ReportHead {
        principal: PrincipalId(principal),
        sequence,
        time: Duration::from_ns(time),
        generation,
        part,
        parts: part + 1,
    })
}

fn any_flow() -> impl Strategy<Value = (FlowId, NicPair)> {
    let nic = 0..NICS_MAX as u8;
    (any::<u32>(), any::<[u16; 2]>(), nic.clone(), nic)
        .prop_map(|(peer, [sport, dport], out, into)| (FlowId { peer: peer.into(), sport, dport }, NicPair { out, into }))
}

fn any_message() -> impl Strategy<Value = Message> {
    let flows =
        prop::collection::vec((any_flow(), any::<u64>()).prop_map(|((flow, nics), bytes)| (flow, nics, bytes)), 0..=FLOWS_MAX);
    let host = (any_head(), any::<u64>(), 0..1u32 << NICS_MAX, flows).prop_map(|(head, length, down, flows)| {
        Message::Host(HostReport { head, loop_length: Duration::from_ns(length), down, flows })
    });
    let port = (any::<u16>(), any::<bool>(), any::<[u64; 2]>());
    let port = port.prop_map(|(port, is_up, [sent, received])| PortCounter { port, is_up, sent, received });
    let tor = (any_head(), prop::collection::vec(port, 0..=PORTS_MAX))
        .prop_map(|(head, ports)| Message::Tor(TorReport { head, ports }));
    let weight = any::<[u32; 3]>().prop_map(|[switch, out, into]| TorWeight { switch, out, into });
    let lists = (
        prop::collection::vec(weight, 0..=TORS_MAX),
        prop::collection::vec(any::<u32>().prop_map(Ipv4Addr::from), 0..=DOWN_MAX),
        prop::collection::vec(any_flow(), 0..=MOVES_MAX),
    );
    let orders =
        (1u32.., any::<[u64; 6]>(), any::<bool>(), lists).prop_map(|(principal, numbers, is_first, (tors, down, moves))| {
            let [sequence, generation, number, every, held, gap] = numbers;
            Message::Orders(Orders {
                principal: PrincipalId(principal),
                sequence,
                generation,
                number,
                every: Duration::from_ns(every),
                held: Duration::from_ns(held),
                gap: Duration::from_ns(gap),
                tors,
                is_first,
                down: if is_first { down } else { Vec::new() },
                moves,
            })
        });
    prop_oneof![host, tor, orders, any_forward(), any_detours()]
}

fn any_forward() -> impl Strategy<Value = Message> {
    (any_head(), any::<[u64; 4]>()).prop_map(|(head, [packets, bytes, refused, over_rate])| {
        let head = ReportHead { part: 0, parts: 1, ..head };
        Message::Forward(ForwardReport { head, forwarded: Forwarded { packets, bytes, refused, over_rate } })
    })
}

fn any_direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Out), Just(Direction::In)]
}

fn any_record() -> impl Strategy<Value = AccessRecord> {
    let nic = 0..NICS_MAX as u8;
    let hop = (any::<u32>(), nic.clone()).prop_map(|(via, out)| Hop { via: via.into(), out });
    let hops = prop::collection::vec(hop, 0..=HOPS_MAX);
    (any::<[u32; 2]>(), any_direction(), FIRST_DETOUR..PATHS_MAX as u8, nic, hops).prop_map(
        |([host, weight], direction, number, nic, hops)| {
            let number = if hops.is_empty() { nic } else { number };
            AccessRecord { host: host.into(), weight, direction, number, nic, hops }
        },
    )
}

fn any_detours() -> impl Strategy<Value = Message> {
    let nic = 0..NICS_MAX as u8;
    let permit = (any::<[u32; 2]>(), any_direction(), nic.clone(), nic).prop_map(|([host, rate], direction, into, out)| Permit {
        host: host.into(),
        direction,
        into,
        out,
        rate,
    });
    let lists = (prop::collection::vec(any_record(), 0..=DETOURS_MAX), prop::collection::vec(permit, 0..=PERMITS_MAX));
    (1u32.., any::<[u64; 5]>(), 0..255u8, lists).prop_map(|(principal, numbers, part, (paths, permits))| {
        let [sequence, generation, number, valid, list] = numbers;
        let (principal, valid) = (PrincipalId(principal), Duration::from_ns(valid));
        let parts = part + 1;
        Message::Detours(DetourOrders { principal, sequence, generation, number, valid, list, part, parts, paths, permits })
    })
}

/// The bytes that docs/protocol-subways.md shows.
#[test]
fn bytes_of_the_messages_of_detours() {
    let host = Ipv4Addr::new(10, 0, 0, 2);
    let hops = vec![Hop { via: Ipv4Addr::new(10, 0, 1, 3), out: 1 }];
    let record = AccessRecord { host, weight: 6000, direction: Direction::Out, number: 8, nic: 1, hops };
    let permit = Permit { host, direction: Direction::In, into: 0, out: 1, rate: 1500 };
    let orders = DetourOrders {
        principal: PrincipalId(17),
        sequence: 5,
        generation: 6,
        number: 7,
        valid: Duration::from_secs(3),
        list: 9,
        part: 0,
        parts: 1,
        paths: vec![record],
        permits: vec![permit],
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bytes = orders.emit(&key(17));
    let wanted = "57530182000000110000000000000005000000000000000600000000000000070000000\
                  0b2d05e00000000000000000900010101\
                  0a00000200001770000801010a00010301000000000000000000000\
                  00a000002000005dc01000100";
    assert_eq!(hex(&bytes[..bytes.len() - TAG]), wanted);
    let head =
        ReportHead { principal: PrincipalId(17), sequence: 5, time: Duration::from_ns(4), generation: 6, part: 0, parts: 1 };
    let forwarded = Forwarded { packets: 1, bytes: 1500, refused: 2, over_rate: 3 };
    let bytes = ForwardReport { head, forwarded }.emit(&key(17));
    let wanted = "575301030000001100000000000000050000000000000004000000000000000600010000\
                  000000000000000100000000000005dc00000000000000020000000000000003";
    assert_eq!(hex(&bytes[..bytes.len() - TAG]), wanted);
}

fn emit(message: &Message, key: &PlacementKey) -> Vec<u8> {
    match message {
        Message::Host(report) => report.emit(key),
        Message::Tor(report) => report.emit(key),
        Message::Forward(report) => report.emit(key),
        Message::Orders(orders) => orders.emit(key),
        Message::Detours(orders) => orders.emit(key),
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_and_a_changed_bit_is_noticed(message in any_message(), bit in any::<prop::sample::Index>()) {
        let mut bytes = emit(&message, &key(1));
        prop_assert!(bytes.len() <= LARGEST);
        let frame = Frame::parse(&bytes).unwrap();
        prop_assert!(frame.is_of(&key(1)) && !frame.is_of(&key(2)));
        prop_assert_eq!(&frame.message, &message);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!Frame::parse(&bytes).is_ok_and(|frame| frame.is_of(&key(1))));
    }

    #[test]
    fn no_length_is_taken_for_another(message in any_message(), cut in any::<prop::sample::Index>()) {
        let mut bytes = emit(&message, &key(1));
        let longer = [bytes.clone(), vec![0]].concat();
        prop_assert!(Frame::parse(&longer).is_err());
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Frame::parse(&bytes).is_err());
    }
}
