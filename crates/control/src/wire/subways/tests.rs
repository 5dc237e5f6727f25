//! Reports and orders: round trips, damaged bytes.

use proptest::prelude::*;

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
    prop_oneof![host, tor, orders]
}

fn emit(message: &Message, key: &PlacementKey) -> Vec<u8> {
    match message {
        Message::Host(report) => report.emit(key),
        Message::Tor(report) => report.emit(key),
        Message::Orders(orders) => orders.emit(key),
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
