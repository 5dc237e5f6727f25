//! The server's rules one by one.

mod commits;
mod doubt;
mod peers;
mod replicas;
mod watchers;

use std::net::SocketAddr;

use rand::SeedableRng;
use weft_fabric::rng::Pcg64;

use super::world::{Store, policy, secret};
use super::{key, value};
use crate::directory::auth::Cookies;
use crate::directory::front::Sighting;
use crate::directory::key::{Generation, Key, Locator, PrincipalId, Record, UpdateId, Value};
use crate::directory::policy::Policy;
use crate::directory::request::{Ask, Client, Request, StreamId};
use crate::directory::server::{Event, Input, LoadEnd, Output, ReloadReason, Server, ServerConfig};
use crate::directory::store::{CommitResult, Stored};
use crate::time::{Duration, Instant};
use crate::wire::directory::{
    Acknowledgement, Change, Commit, Commits, Digest, Finding, Frame, HEADER, Kind, MAX_DATAGRAM, Message, Misdelivered, Op,
    Outcome, State, Sync, Update,
};

const ME: PrincipalId = PrincipalId(1000);
const PEER: PrincipalId = PrincipalId(1001);
const WRITER: PrincipalId = PrincipalId(1);

fn peer() -> SocketAddr {
    "10.0.0.2:5303".parse().unwrap()
}

fn stream(n: u64) -> Client {
    Client::Stream { stream: StreamId(n), request: n }
}

fn request(n: u64, principal: PrincipalId, ask: Ask) -> Input {
    Input::Request(Request { client: stream(n), principal, ask })
}

fn put(number: u64, keys: &[u8], known: u64) -> Update {
    let ops = keys.iter().map(|&n| Op { key: key(n), expect: None, value: Some(value(n)) }).collect();
    Update { number, known: Generation(known), ops }
}

fn outputs(server: &mut Server) -> Vec<Output> {
    std::iter::from_fn(|| server.poll()).collect()
}

fn acknowledgements(outputs: &[Output]) -> Vec<Acknowledgement> {
    let parse = |output: &Output| match output {
        Output::Reply { message, .. } => match Message::parse(Kind::Acknowledgement, &message[HEADER..]) {
            Ok(Message::Acknowledgement(it)) => Some(it),
            _ => None,
        },
        _ => None,
    };
    outputs.iter().filter_map(parse).collect()
}

fn empty() -> Server {
    Server::new(ServerConfig::new(ME, vec![peer()]), secret(), Cookies::new([1; 16]), policy(), Pcg64::seed_from_u64(1))
}

/// A server that has loaded these records at revision 10.
fn serving(entries: Vec<Stored>) -> Server {
    let mut server = empty();
    let end = Some(LoadEnd { revision: Generation(10), purged: Generation(0) });
    server.handle(Instant::ZERO, Input::Loaded { load: 1, entries, end });
    outputs(&mut server);
    server
}

fn stored(n: u8, generation: u64, value: Option<Value>) -> Stored {
    let update = UpdateId { writer: PrincipalId(99), number: generation };
    let record = Record::next(None, Generation(0), update, value);
    Stored { key: key(n), generation: Generation(generation), record: Some(record) }
}

fn watched(from: u64, to: u64, changes: Vec<Stored>) -> Input {
    Input::Watched { from: Generation(from), revision: Generation(to), changes }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO.saturating_add(Duration::from_ms(ms))
}

#[test]
fn while_loading_updates_go_elsewhere_and_lists_wait() {
    let mut server = empty();
    assert_eq!(outputs(&mut server), [Output::Load { load: 1 }]);
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 0))));
    assert_eq!(acknowledgements(&outputs(&mut server))[0].outcome, Outcome::Elsewhere);
    server.handle(at(0), request(2, WRITER, Ask::List { after: None, limit: 10 }));
    assert_eq!(outputs(&mut server), []);
    let end = Some(LoadEnd { revision: Generation(10), purged: Generation(0) });
    server.handle(at(1), Input::Loaded { load: 1, entries: vec![stored(1, 3, Some(value(1)))], end });
    assert_eq!(server.shared().state, State::Serving);
    let replies = outputs(&mut server);
    let Some(Output::Reply { message, .. }) = replies.last() else { panic!("{replies:?}") };
    let Ok(Message::Page { revision, more, entries }) = Message::parse(Kind::Page, &message[HEADER..]) else { panic!("a page") };
    assert_eq!((revision, more, entries.len()), (Generation(10), false, 1));
}

#[test]
fn a_batch_waits_ten_milliseconds_or_for_128_operations() {
    let mut server = serving(Vec::new());
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    assert_eq!(server.deadline(), Some(at(10)));
    server.handle(at(9), Input::Timer);
    assert_eq!(outputs(&mut server), []);
    server.handle(at(10), Input::Timer);
    assert!(matches!(&outputs(&mut server)[..], [Output::Commit { batch: 1, ops, .. }] if ops.len() == 1));
    for n in 0..128u8 {
        server.handle(at(11), request(1, WRITER, Ask::Update(put(100 + u64::from(n), &[100 + n], 10))));
    }
    assert!(matches!(&outputs(&mut server)[..], [Output::Commit { batch: 2, ops, .. }] if ops.len() == 128));
}

#[test]
fn an_acknowledgement_comes_when_it_is_durable_and_copies_are_answered_alike() {
    let mut server = serving(Vec::new());
    for client in [1, 2] {
        server.handle(at(0), request(client, WRITER, Ask::Update(put(1, &[1, 2], 10))));
    }
    server.handle(at(10), Input::Timer);
    assert!(acknowledgements(&outputs(&mut server)).is_empty());
    server.handle(at(12), Input::Committed { batch: 1, result: CommitResult::Done(Generation(11)), purged: Generation(0) });
    let all = outputs(&mut server);
    let expected = Acknowledgement { number: 1, outcome: Outcome::Committed, at: 0, generation: Generation(11) };
    assert_eq!(acknowledgements(&all), [expected; 2]);
    assert_eq!(server.shared().revision, Generation(11));
    assert_eq!(server.shared().table.len(), 2);
    // A late copy finds itself in memory.
    server.handle(at(20), request(3, WRITER, Ask::Update(put(1, &[1, 2], 10))));
    server.handle(at(30), Input::Timer);
    assert_eq!(acknowledgements(&outputs(&mut server)), [expected]);
    assert_eq!(server.counters().commits, 1);
}

#[test]
fn keys_twice_strangers_and_wrong_kinds_are_refused() {
    let mut server = serving(Vec::new());
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1, 2, 1], 10))));
    let group = Value::Group(vec![[10, 0, 0, 1].into()].into());
    let ops = vec![Op { key: key(1), expect: None, value: Some(group) }];
    server.handle(at(0), request(1, WRITER, Ask::Update(Update { number: 2, known: Generation(10), ops })));
    server.handle(at(0), request(1, PrincipalId(50), Ask::Update(put(3, &[1], 10))));
    server.handle(at(10), Input::Timer);
    let outcomes: Vec<_> = acknowledgements(&outputs(&mut server)).iter().map(|it| (it.outcome, it.at)).collect();
    assert_eq!(outcomes, [(Outcome::Malformed, 2), (Outcome::Malformed, 0), (Outcome::Refused, 0)]);
}

#[test]
fn a_full_queue_sends_elsewhere() {
    let mut config = ServerConfig::new(ME, Vec::new());
    (config.max_queue, config.batch_ops) = (3, 100);
    let mut server = Server::new(config, secret(), Cookies::new([1; 16]), policy(), Pcg64::seed_from_u64(1));
    let end = Some(LoadEnd { revision: Generation(0), purged: Generation(0) });
    server.handle(at(0), Input::Loaded { load: 1, entries: Vec::new(), end });
    for number in 0..5 {
        server.handle(at(0), request(1, WRITER, Ask::Update(put(number, &[number as u8], 0))));
    }
    assert_eq!(acknowledgements(&outputs(&mut server)).iter().map(|it| it.number).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn withdrawals_are_deletions_and_new_owners_or_services_but_not_moves() {
    let mut server = serving((1..5).map(|n| stored(n, u64::from(n), Some(value(n)))).collect());
    let changed = |change: fn(&mut crate::directory::key::Mapping)| {
        let Value::Mapping(mut mapping) = value(1) else { panic!() };
        change(&mut mapping);
        Some(Value::Mapping(mapping))
    };
    let changes = vec![
        stored(1, 11, changed(|it| it.locator = Locator::V4([9, 9, 9, 9].into()))),
        stored(2, 12, None),
        stored(3, 13, changed(|it| it.owner.0 += 1)),
        stored(4, 14, changed(|it| it.service.0 += 1)),
    ];
    server.handle(at(0), watched(10, 14, changes));
    let gone: Vec<Key> = server.shared().withdrawals.after(Generation(10)).unwrap().map(|it| it.key).collect();
    assert_eq!(gone, [key(2), key(3), key(4)]);
}

#[test]
fn a_stale_sender_is_corrected_where_it_was_seen_and_not_too_often() {
    let mut server = serving(vec![stored(1, 3, Some(value(1))), stored(2, 4, Some(value(2)))]);
    let report = |stale: u8| Misdelivered { asker: key(1), key: key(2), stale: Locator::V4([10, 0, 0, stale].into()) };
    let ask = |stale| request(1, PrincipalId(60), Ask::Misdelivered(report(stale)));
    server.handle(at(0), ask(9));
    let all = outputs(&mut server);
    assert!(matches!(&all[..], [Output::Send { to, .. }] if *to == peer()), "the agent is unknown: a peer may know it");
    server.handle(at(0), request(1, PEER, Ask::Misdelivered(report(9))));
    assert_eq!(outputs(&mut server), [], "passed on once");
    let agent: SocketAddr = "10.9.9.9:777".parse().unwrap();
    server.handle(at(0), Input::Seen(Sighting { principal: PrincipalId(7), at: agent, cookie: 5 }));
    server.handle(at(0), ask(9));
    let all = outputs(&mut server);
    let [Output::Send { to, bytes }] = &all[..] else { panic!("{all:?}") };
    let frame = Frame::parse(bytes).unwrap();
    assert!(*to == agent && frame.header.principal == PrincipalId(7) && frame.header.request == 0);
    assert!(secret().key_of(PrincipalId(7)).tagger().verify(frame.covered, frame.tag));
    let Ok(Message::Correction(it)) = Message::parse(frame.header.kind, frame.body) else { panic!("a correction") };
    assert_eq!((it.key, it.generation, it.finding), (key(2), Generation(4), Finding::Found(value(2))));
    server.handle(at(0), ask(2));
    assert!(
        matches!(&outputs(&mut server)[..], [Output::Send { to, .. }] if *to == peer()),
        "that is where it is, as far as is known here"
    );
    for _ in 0..100 {
        server.handle(at(0), ask(9));
    }
    assert_eq!(outputs(&mut server).len(), 15);
}

#[test]
fn policies_only_grow_and_withdrawn_permissions_are_reconfirmed() {
    let mut server = serving(Vec::new());
    let text = |version: u32, allow: &str| {
        let service = |name: &str, id: u32| format!("[[service]]\nname = \"{name}\"\nid = {id}\nallow = [{allow}]\n");
        Policy::parse(&format!("version = {version}\n{}{}", service("a", 1), service("b", 2))).unwrap()
    };
    server.handle(at(0), Input::Policy(text(3, "\"*\"")));
    assert_eq!(server.shared().confirmed_since, 3, "after an open policy");
    server.handle(at(0), Input::Policy(text(4, "\"*\"")));
    assert_eq!((server.shared().policy.version(), server.shared().confirmed_since), (4, 3));
    server.handle(at(0), Input::Policy(text(4, "")));
    assert!(matches!(outputs(&mut server).last(), Some(Output::Event(Event::PolicyRefused(_)))));
    server.handle(at(0), Input::Policy(text(5, "")));
    assert_eq!((server.shared().policy.version(), server.shared().confirmed_since), (5, 5));
    let sync = Sync { revision: Generation(10), policy: 4, padding: 0 };
    server.handle(at(0), request(1, PrincipalId(7), Ask::Sync(sync)));
    let all = outputs(&mut server);
    let Some(Output::Reply { message, .. }) = all.last() else { panic!("{all:?}") };
    let Ok(Message::Changes(changes)) = Message::parse(Kind::Changes, &message[HEADER..]) else { panic!("changes") };
    assert!(changes.reconfirm && changes.policy == 5);
}

#[test]
fn a_switch_brings_addresses_to_its_locator_and_is_refused_all_else() {
    let mut server = serving(vec![stored(1, 3, Some(value(1))), stored(2, 4, None)]);
    let text = "version = 2\n[[principal]]\nid = 40\nrole = \"switch\"\nlocators = [\"10.0.0.9\"]\n[[principal]]\nid = 41\nrole = \"switch\"";
    server.handle(at(0), Input::Policy(Policy::parse(text).unwrap()));
    outputs(&mut server);
    // The batch of a moment is committed when it ends.
    let mut outcome = |number: u64, who: u32, n: u8, value: Option<Value>| {
        let ops = vec![Op { key: key(n), expect: None, value }];
        let update = Update { number, known: Generation(10), ops };
        server.handle(at(number * 1000), request(number, PrincipalId(who), Ask::Update(update)));
        server.handle(at(number * 1000 + 500), Input::Timer);
        let all = outputs(&mut server);
        let commits = all.iter().any(|output| matches!(output, Output::Commit { .. }));
        (commits, acknowledgements(&all).first().map(|it| it.outcome))
    };
    let moved = |n: u8, to: u8| {
        let Value::Mapping(mut mapping) = value(n) else { panic!("a mapping") };
        mapping.locator = Locator::V4([10, 0, 0, to].into());
        Some(Value::Mapping(mapping))
    };
    let refused = (false, Some(Outcome::Refused));
    assert_eq!(outcome(1, 41, 1, moved(1, 9)), refused, "a switch without locators");
    assert_eq!(outcome(2, 40, 1, moved(1, 8)), refused, "another's locator");
    assert_eq!(outcome(3, 40, 1, None), refused, "a deletion");
    assert_eq!(outcome(4, 40, 2, moved(2, 9)), refused, "what was deleted");
    assert_eq!(outcome(5, 40, 3, moved(3, 9)), refused, "what never was");
    assert_eq!(outcome(6, 7, 1, moved(1, 9)), refused, "its owner, who has no locators");
    assert_eq!(outcome(7, 40, 1, moved(1, 9)), (true, None), "to its own: the store is asked");
}

#[test]
fn leaving_takes_no_updates() {
    let mut server = serving(Vec::new());
    server.handle(at(0), Input::Leave);
    assert_eq!(server.shared().state, State::Leaving);
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    assert_eq!(acknowledgements(&outputs(&mut server))[0].outcome, Outcome::Elsewhere);
}

#[test]
fn tombstones_are_purged_after_their_time() {
    let mut server = serving(vec![stored(1, 3, Some(value(1)))]);
    server.handle(at(0), watched(10, 12, vec![stored(1, 11, None), stored(2, 12, None)]));
    server.handle(at(5), watched(12, 13, vec![stored(2, 13, Some(value(2)))]));
    let hour = at(3_600_000);
    outputs(&mut server);
    server.handle(hour, Input::Timer);
    let purge = Output::Purge { tombstones: vec![(key(1), Generation(11))] };
    assert!(outputs(&mut server).contains(&purge), "not the key that lives again");
    server.handle(hour, watched(13, 14, vec![Stored { key: key(1), generation: Generation(11), record: None }]));
    assert!(server.shared().table.held(&key(1)).is_none());
    assert_eq!(server.purged(), Generation(11));
}
