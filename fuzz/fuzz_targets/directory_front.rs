//! Datagrams of any bytes, and of any body with a right tag and cookie: the front answers with what parses, is not too long and has a right
//! tag, or drops it; and answers nothing longer than the request to an address that has not shown that it receives.
#![no_main]

use std::net::SocketAddr;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weft_control::directory::auth::{Cookies, Secret};
use weft_control::directory::front::{Front, FrontConfig, Verdict};
use weft_control::directory::policy::Policy;
use weft_control::directory::shared::Shared;
use weft_control::directory::table::Table;
use weft_control::directory::{Generation, Key, PrincipalId, Value};
use weft_control::time::Instant;
use weft_control::wire::directory::{Frame, Header, Kind, MAX_DATAGRAM, MAX_FACTOR, Message, Reader, State, Versions};

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let mut table = Table::new(7);
    // Locator 10.0.1.1, group 1, service 1 or 2, owner 5, lease 1 s.
    for at in 1..=8 {
        let bytes = [1, 10, 0, 1, 1, 0, 1, 0, 0, 0, 1 + at % 2, 0, 0, 0, 5, 0, 0, 3, 232];
        let value: Value = Reader(&bytes).value().expect("a value");
        table.load(&Key::App4([10, 0, 0, at].into()), Generation(u64::from(at)), Some(&value));
    }
    let policy = "version = 1\n[[service]]\nname = \"a\"\nid = 1\n[[service]]\nname = \"b\"\nid = 2\nallow = [\"a\"]\n[[principal]]\nid = 9\nrole = \"admin\"\n";
    let policy = Policy::parse(policy).expect("a policy");
    let mut shared = Shared { table, revision: Generation(8), state: State::Serving, ..Shared::new(policy, 7) };
    (1..=8).for_each(|at| shared.withdrawals.push(Generation(u64::from(at)), Key::App4([10, 0, 0, at].into())));
    shared
});

fuzz_target!(|bytes: &[u8]| {
    let secret = Secret::new([3; 32]);
    let config = FrontConfig { me: PrincipalId(1), max_clients: 4, versions: Versions::OURS };
    let mut front = Front::new(secret.clone(), Cookies::new([5; 16]), config);
    let from: SocketAddr = "10.9.9.9:999".parse().expect("an address");
    let answer = receive(&mut front, from, bytes);
    assert!(answer.is_none_or(|answer| answer.len() <= bytes.len()), "a stranger is answered with no more than he sent");

    // The same bytes as a kind, a principal and a body, sealed as they should be.
    let [kind, who, body @ ..] = bytes else { return };
    let principal = PrincipalId([5, 6, 9, 1][usize::from(who % 4)]);
    let tagger = secret.key_of(principal).tagger();
    let mut cookie = 0;
    for request in 1..=3 {
        let mut datagram = Vec::new();
        Header { kind: Kind::Health, principal, cookie, request }.emit(&mut datagram);
        datagram[3] = *kind;
        datagram.extend_from_slice(body);
        tagger.seal(&mut datagram, 0);
        let Some(answer) = receive(&mut front, from, &datagram) else { continue };
        let frame = Frame::parse(&answer).expect("an answer parses");
        assert!(tagger.verify(frame.covered, frame.tag), "an answer's tag is right");
        assert!(Message::parse(frame.header.kind, frame.body).is_ok(), "an answer's body parses");
        assert_eq!((frame.header.principal, frame.header.request), (principal, request));
        let factor = if cookie == 0 { 1 } else { MAX_FACTOR };
        assert!(answer.len() <= MAX_DATAGRAM && answer.len() <= datagram.len() * factor);
        cookie = frame.header.cookie;
    }

    // The same in another version: a request is answered by no more than that.
    let mut datagram = Vec::new();
    Header { kind: Kind::Health, principal, cookie, request: 9 }.emit(&mut datagram);
    (datagram[2], datagram[3]) = (2, *kind);
    datagram.extend_from_slice(body);
    tagger.seal(&mut datagram, 0);
    let answer = receive(&mut front, from, &datagram);
    assert_eq!(answer.is_some(), kind & 0x80 == 0 && datagram.len() <= MAX_DATAGRAM);
    if let Some(answer) = answer {
        let frame = Frame::parse(&answer).expect("an answer parses");
        assert_eq!((frame.header.kind, frame.header.request), (Kind::Unsupported, 9));
        assert!(tagger.verify(frame.covered, frame.tag) && answer.len() <= datagram.len());
    }
});

fn receive(front: &mut Front, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let verdict = front.receive(Instant::ZERO, &SHARED, from, bytes, &mut out);
    let answered = matches!(verdict, Verdict::Answer);
    assert_eq!(answered, !out.is_empty());
    answered.then_some(out)
}
