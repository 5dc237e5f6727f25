use super::super::entries::TableStats;
use super::super::message::Message;
use super::super::multipart::{MultipartReply, ReplyBody};
use super::super::switch::{ControllerRole, Role};
use super::*;

const FEATURES: Features = Features { datapath: 0x2a, buffers: 0, tables: 254, auxiliary: 0, capabilities: 0x4f };

fn at(s: u64) -> Instant {
    Instant::ZERO.saturating_add(Duration::from_secs(s))
}

fn bytes(version: Version, xid: u32, body: Body) -> Vec<u8> {
    let mut out = Vec::new();
    Message { xid, body }.emit(version, &mut out).expect("it has bytes");
    out
}

fn outputs(session: &mut Session) -> Vec<Output> {
    std::iter::from_fn(|| session.poll()).collect()
}

/// The messages among the outputs that are sent.
fn sent(session: &mut Session, version: Version) -> Vec<Body> {
    let sent = outputs(session).into_iter().filter_map(|it| if let Output::Send(bytes) = it { Some(bytes) } else { None });
    sent.map(|bytes| Message::parse(version, &bytes).expect("a message").body).collect()
}

fn up(version: Version) -> Session {
    let mut session = Session::new(at(0));
    session.handle(at(0), Input::Received(&bytes(version, 9, Body::Hello(Hello::of(&[version])))));
    session.handle(at(1), Input::Received(&bytes(version, 10, Body::FeaturesReply(FEATURES))));
    assert_eq!(outputs(&mut session).last(), Some(&Output::Up { version, features: FEATURES }));
    session
}

fn closed(session: &mut Session) -> String {
    assert_eq!(session.deadline(), None);
    match outputs(session).pop() {
        Some(Output::Closed(reason)) => reason.to_string(),
        other => panic!("not closed: {other:?}"),
    }
}

#[test]
fn the_highest_common_version_is_spoken() {
    for (hello, header, expected) in [
        (Hello::of(&Version::ALL), 6, Version::V15),
        (Hello { versions: Some(vec![0b101_0010]) }, 6, Version::V15),
        (Hello { versions: Some(vec![0b011_0010]) }, 5, Version::V13),
        (Hello::default(), 4, Version::V13),
        (Hello::default(), 7, Version::V15),
    ] {
        let mut session = Session::new(at(0));
        let [hello_sent] = &sent(&mut session, Version::V15)[..] else { panic!("a hello alone") };
        assert_eq!(hello_sent, &Body::Hello(Hello::of(&Version::ALL)));
        let mut message = bytes(Version::V15, 1, Body::Hello(hello.clone()));
        message[0] = header;
        session.handle(at(0), Input::Received(&message));
        assert_eq!(sent(&mut session, expected), [Body::FeaturesRequest], "{hello:?}");
        assert_eq!(session.version(), Some(expected));
    }
}

#[test]
fn other_versions_are_refused_with_a_reason() {
    for (hello, header, expected) in [
        (Hello::default(), 1, "the switch speaks OpenFlow 1.0 (wire version 1); Weft speaks 1.3 and 1.5"),
        (Hello::default(), 5, "the switch speaks OpenFlow 1.4 (wire version 5); Weft speaks 1.3 and 1.5"),
        (
            Hello { versions: Some(vec![0b10_0110]) },
            5,
            "the switch speaks OpenFlow 1.0, 1.1 and 1.4 (wire versions 1, 2 and 5); Weft speaks 1.3 and 1.5",
        ),
        (Hello { versions: Some(vec![]) }, 4, "the switch speaks no version of OpenFlow; Weft speaks 1.3 and 1.5"),
    ] {
        let mut session = Session::new(at(0));
        outputs(&mut session);
        let mut message = bytes(Version::V15, 77, Body::Hello(hello));
        message[0] = header;
        session.handle(at(0), Input::Received(&message));
        let Some(Output::Send(mut refusal)) = session.poll() else { panic!("an error") };
        assert_eq!(refusal[0], header);
        refusal[0] = 4;
        let message = Message::parse(Version::V13, &refusal).expect("an error");
        let error = ErrorMessage { kind: 0, code: 0, data: expected.as_bytes().to_vec() };
        assert_eq!(message, Message { xid: 77, body: Body::Error(error) });
        assert_eq!(closed(&mut session), expected);
    }
}

#[test]
fn a_handshake_ends_in_time_or_the_session() {
    let mut session = Session::new(at(0));
    session.handle(at(0), Input::Received(&bytes(Version::V13, 1, Body::Hello(Hello::of(&[Version::V13])))));
    assert_eq!(session.deadline(), Some(at(5)));
    session.handle(at(5), Input::Timer);
    assert_eq!(closed(&mut session), "the switch did not complete the handshake in 5 s");
    let mut session = Session::new(at(0));
    session.handle(at(0), Input::Received(b"GET / HTTP/1.1\r\n\r\n"));
    session.handle(at(5), Input::Timer);
    assert_eq!(closed(&mut session), "the switch did not complete the handshake in 5 s");
    let mut session = Session::new(at(0));
    session.handle(at(0), Input::Received(&bytes(Version::V13, 1, Body::BarrierReply)));
    assert_eq!(closed(&mut session), "the switch began with a barrier reply, not a hello: is it an OpenFlow connection?");
}

#[test]
fn silence_is_asked_and_then_ends_the_session() {
    let mut session = up(Version::V15);
    assert_eq!(session.deadline(), Some(at(6)));
    session.handle(at(6), Input::Timer);
    assert_eq!(sent(&mut session, Version::V15), [Body::EchoRequest(vec![])]);
    assert_eq!(session.deadline(), Some(at(11)));
    session.handle(at(8), Input::Received(&bytes(Version::V15, 5, Body::EchoReply(vec![]))));
    assert_eq!((outputs(&mut session), session.deadline()), (vec![], Some(at(13))));
    for s in [13, 18] {
        session.handle(at(s), Input::Timer);
        assert_eq!(sent(&mut session, Version::V15), [Body::EchoRequest(vec![])]);
    }
    assert_eq!(session.deadline(), Some(at(23)));
    session.handle(at(23), Input::Timer);
    assert_eq!(closed(&mut session), "no message from the switch for 15 s");
}

#[test]
fn echo_requests_are_answered_in_and_after_the_handshake() {
    let echo = |session: &mut Session, version| {
        outputs(session);
        session.handle(at(1), Input::Received(&bytes(version, 0xabcd, Body::EchoRequest(b"hi".to_vec()))));
        assert_eq!(outputs(session), [Output::Send(bytes(version, 0xabcd, Body::EchoReply(b"hi".to_vec())))]);
    };
    let mut session = Session::new(at(0));
    session.handle(at(0), Input::Received(&bytes(Version::V13, 9, Body::Hello(Hello::of(&[Version::V13])))));
    echo(&mut session, Version::V13);
    echo(&mut up(Version::V15), Version::V15);
}

fn tables(table: u8, more: bool) -> Body {
    let table = TableStats { table, flows: 1, lookups: Some(2), matches: None };
    Body::MultipartReply(MultipartReply { more, body: ReplyBody::Tables(vec![table]) })
}

#[test]
fn multipart_replies_are_joined_by_xid() {
    let mut session = up(Version::V13);
    for (xid, table, more) in [(1, 1, true), (2, 10, true), (1, 2, true), (2, 11, false), (1, 3, false)] {
        session.handle(at(1), Input::Received(&bytes(Version::V13, xid, tables(table, more))));
    }
    let numbers = outputs(&mut session).into_iter().map(|it| match it {
        Output::Message(Message {
            xid,
            body: Body::MultipartReply(MultipartReply { more: false, body: ReplyBody::Tables(all) }),
        }) => (xid, all.iter().map(|it| it.table).collect()),
        other => panic!("{other:?}"),
    });
    assert_eq!(numbers.collect::<Vec<(u32, Vec<u8>)>>(), [(2, vec![10, 11]), (1, vec![1, 2, 3])]);
}

#[test]
fn a_malformed_message_is_reported_and_dropped_with_the_reply_that_it_is_part_of() {
    let mut session = up(Version::V13);
    let mut malformed = bytes(Version::V13, 7, tables(1, true));
    malformed.pop();
    malformed[3] -= 1;
    let stream = [malformed, bytes(Version::V13, 7, tables(2, false)), bytes(Version::V13, 7, tables(3, false))].concat();
    session.handle(at(1), Input::Received(&stream));
    let all = outputs(&mut session);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0], Output::Malformed { xid: 7, error: ParseError::Truncated("a multipart reply") });
    assert_eq!(all[1], Output::Message(Message { xid: 7, body: tables(3, false) }));
}

#[test]
fn unfinished_replies_are_bounded_and_of_one_type() {
    let mut session = up(Version::V13);
    let body = ReplyBody::Other { kind: 99, body: vec![0; 60_000] };
    let part = bytes(Version::V13, 1, Body::MultipartReply(MultipartReply { more: true, body }));
    let parts = (1..).take_while(|_| {
        session.handle(at(1), Input::Received(&part));
        session.deadline().is_some()
    });
    assert_eq!(parts.count(), parts::LIMIT / part.len());
    assert_eq!(closed(&mut session), "unfinished multipart replies of more than 67108864 bytes");
    let mut session = up(Version::V13);
    session.handle(at(1), Input::Received(&bytes(Version::V13, 1, tables(1, true))));
    session.handle(at(1), Input::Received(&part));
    assert_eq!(closed(&mut session), "the parts of multipart reply 1 are of different types");
}

#[test]
fn what_is_sent_has_an_xid_of_its_own_or_is_returned() {
    let mut session = Session::new(at(0));
    assert_eq!(session.send(Body::BarrierRequest), Err(SendError::NotUp));
    let mut session = up(Version::V13);
    let first = session.send(Body::BarrierRequest).expect("sent");
    let second = session.allocate_xid();
    session.handle(at(1), Input::Send(Message { xid: second, body: Body::BarrierRequest }));
    let expected = [first, second].map(|xid| Output::Send(bytes(Version::V13, xid, Body::BarrierRequest)));
    assert!(first != second && outputs(&mut session) == expected);
    let role = Role { role: ControllerRole::Equal, short_id: Some(1), generation: 0 };
    session.handle(at(1), Input::Send(Message { xid: 50, body: Body::RoleRequest(role) }));
    let error = SendError::Emit(EmitError::NotInVersion { version: Version::V13, what: "short id of a controller" });
    assert_eq!(outputs(&mut session), [Output::Unsent { xid: 50, error }]);
    session.handle(at(1), Input::Received(&[4, 0, 0, 7, 0, 0, 0, 0]));
    assert_eq!(closed(&mut session), "the switch's bytes are not OpenFlow: a message cannot have the length 7");
    assert_eq!(session.send(Body::BarrierRequest), Err(SendError::NotUp));
}
