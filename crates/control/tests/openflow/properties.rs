//! Emit and parse are each other's inverses, and no bytes are too wrong.

use proptest::prelude::*;
use weft_control::openflow::group::Selection;
use weft_control::openflow::{
    Action, Body, Bucket, ControllerRole, EmitError, Field, FieldId, FlowMod, Group, GroupKind, GroupMod, Instruction, Learn,
    LearnSpec, Match, Message, ParseError, Role, Version,
};

use crate::arbitrary::any_message;
use crate::flows;

fn emit(version: Version, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(version, &mut bytes).expect("it has bytes");
    bytes
}

/// Bytes are an error, or a message that is emitted to bytes of the same meaning.
fn check(bytes: &[u8]) {
    for version in Version::ALL {
        let Ok(message) = Message::parse(version, bytes) else { continue };
        let mut emitted = Vec::new();
        match message.emit(version, &mut emitted) {
            Ok(()) => assert_eq!(Message::parse(version, &emitted), Ok(message)),
            Err(EmitError::TooLong { .. }) => {}
            Err(error) => panic!("{error}: {message:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 8))]

    #[test]
    fn what_is_emitted_is_parsed((version, message) in any_message()) {
        let bytes = emit(version, &message);
        prop_assert_eq!(u16::from_be_bytes([bytes[2], bytes[3]]) as usize, bytes.len());
        prop_assert_eq!(Message::parse(version, &bytes), Ok(message));
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_message(
        (version, message) in any_message(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<Option<proptest::sample::Index>>(),
    ) {
        let mut bytes = emit(version, &message);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1).max(8));
        }
        let length = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&length);
        check(&bytes);
    }

    #[test]
    fn any_body_is_an_error_or_a_message(version in 4..=6u8, kind in 0..40u8, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![version, kind, 0, body.len() as u8 + 8, 0, 0, 0, 1];
        if body.len() + 8 > 255 { return Ok(()); }
        bytes.extend(body);
        check(&bytes);
    }
}

#[test]
fn a_truncated_message_is_an_error_at_every_length() {
    let mut bodies = flows::all();
    bodies.push(Body::GroupMod(flows::uplinks(None)));
    for (version, body) in Version::ALL.into_iter().flat_map(|version| bodies.iter().map(move |body| (version, body))) {
        let bytes = emit(version, &Message { xid: 1, body: body.clone() });
        for length in 0..bytes.len() {
            assert!(Message::parse(version, &bytes[..length]).is_err(), "{length} bytes of {body:?}");
        }
    }
}

#[test]
fn a_match_has_its_fields_after_their_prerequisites_and_once() {
    let wrong_order = [Field::tcp_dst(80), Field::ip_proto(6), Field::register(1, 2), Field::eth_type(0x0800), Field::in_port(1)];
    let matching = Match::of(wrong_order.into_iter().chain([Field::tcp_dst(81)]));
    let ids: Vec<FieldId> = matching.fields().iter().map(Field::id).collect();
    assert_eq!(ids, [FieldId::IN_PORT, FieldId::ETH_TYPE, FieldId::IP_PROTO, FieldId::TCP_DST, FieldId::register(1)]);
    assert_eq!((matching.number(FieldId::TCP_DST), matching.in_port()), (Some(81), Some(1)));
    let body = Body::FlowMod(FlowMod::delete(0, Match::of([Field::tcp_dst(1), Field::udp_dst(1)])));
    let mut bytes = emit(Version::V13, &Message { xid: 1, body });
    let at = bytes.windows(4).position(|it| it == [0x80, 0, 16 << 1, 2]).expect("the UDP port");
    bytes[at + 2] = 14 << 1;
    assert_eq!(Message::parse(Version::V13, &bytes), Err(ParseError::Duplicate(FieldId::TCP_DST)));
}

#[test]
fn what_a_version_lacks_is_an_error_and_leaves_no_bytes() {
    let set = Action::SetField(Field::new(FieldId::ETH_DST, &[1; 6], Some(&[0xff; 6])).expect("its width"));
    let lacking = [
        Body::FlowMod(FlowMod { importance: 1, ..flows::host() }),
        Body::FlowMod(FlowMod::add(0, 1, Match::new(), vec![Instruction::ApplyActions(vec![set])])),
        Body::GroupMod(flows::uplinks(Some(Selection::DpHash { algorithm: 0, basis: 1 }))),
        Body::RoleRequest(Role { role: ControllerRole::Equal, short_id: Some(1), generation: 0 }),
    ];
    for body in lacking {
        let message = Message { xid: 1, body };
        let mut bytes = vec![1, 2, 3];
        let error = message.emit(Version::V13, &mut bytes);
        assert!(matches!(error, Err(EmitError::NotInVersion { version: Version::V13, .. })), "{message:?}");
        assert_eq!(bytes, [1, 2, 3]);
        let bytes = emit(Version::V15, &message);
        assert_eq!(Message::parse(Version::V15, &bytes), Ok(message));
    }
}

#[test]
fn what_is_too_long_is_an_error() {
    let specs = vec![LearnSpec::same(FieldId::ETH_DST); 6000];
    let actions = [vec![Action::Learn(Learn { specs, ..Learn::default() })], vec![Action::output(1); 5000]];
    for actions in actions {
        for version in Version::ALL {
            let flow = FlowMod::add(0, 1, Match::new(), vec![Instruction::ApplyActions(actions.clone())]);
            let error = Message { xid: 1, body: Body::FlowMod(flow) }.emit(version, &mut Vec::new());
            assert!(matches!(error, Err(EmitError::TooLong { max: 65_535, .. })), "{error:?}");
        }
    }
    let buckets = vec![Bucket::to_port(1, 1); 3000];
    let group = Group::new(1, GroupKind::Select, buckets);
    let body = Body::GroupMod(GroupMod::add(group));
    assert!(Message { xid: 1, body }.emit(Version::V15, &mut Vec::new()).is_err());
}

#[test]
fn a_learn_spec_has_bits_and_as_many_bytes_as_these_need() {
    let right = LearnSpec::constant(&Field::tcp_dst(80));
    let wrong =
        [LearnSpec { bits: 0, ..right.clone() }, LearnSpec { bits: 17, ..right.clone() }, LearnSpec { bits: 2048, ..right }];
    for spec in wrong {
        let action = Action::Learn(Learn { specs: vec![spec], ..Learn::default() });
        let flow = FlowMod::add(0, 1, Match::new(), vec![Instruction::ApplyActions(vec![action])]);
        let error = Message { xid: 1, body: Body::FlowMod(flow) }.emit(Version::V13, &mut Vec::new());
        assert!(matches!(error, Err(EmitError::Value { .. })), "{error:?}");
    }
}
