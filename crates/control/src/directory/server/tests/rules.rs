//! The server's rules one by one.

mod commits;

use std::net::SocketAddr;

use rand::SeedableRng;
use weft_fabric::rng::Pcg64;
use weft_fabric::{Duration, Instant};

use super::world::{Store, policy, secret};
use super::{key, value};
use crate::directory::auth::Cookies;
use crate::directory::front::Sighting;
use crate::directory::key::{Generation, Key, Locator, PrincipalId, Record, UpdateId, Value};
use crate::directory::policy::Policy;
use crate::directory::request::{Ask, Client, Request, StreamId};
use crate::directory::server::{Event, Input, LoadEnd, Output, ReloadReason, Server, ServerConfig};
use crate::directory::store::{CommitResult, Stored};
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
fn an_expectation_that_fails_is_looked_up_in_the_store_before_it_is_told() {
    let mut server = serving(vec![stored(1, 5, Some(value(1)))]);
    let mut update = put(1, &[1], 10);
    update.ops[0].expect = Some(Generation(8));
    server.handle(at(0), request(1, WRITER, Ask::Update(update)));
    server.handle(at(10), Input::Timer);
    let commits = outputs(&mut server);
    let [Output::Commit { batch, ops, .. }] = &commits[..] else { panic!("{commits:?}") };
    // The store has generation 8 after all, of which this server has not heard.
    let mut store = Store { revision: 20, ..Store::default() };
    let Stored { key, record, .. } = stored(1, 8, Some(value(9)));
    store.records.insert(key, (Generation(8), record.unwrap()));
    let result = store.commit(ops, Generation(0));
    assert!(matches!(result, CommitResult::Conflict(_)), "asking changes nothing");
    server.handle(at(12), Input::Committed { batch: *batch, result, purged: Generation(0) });
    let commits = outputs(&mut server);
    let Some(Output::Commit { batch, ops, .. }) = commits.last() else { panic!("{commits:?}") };
    let result = store.commit(ops, Generation(0));
    server.handle(at(14), Input::Committed { batch: *batch, result, purged: Generation(0) });
    assert_eq!(acknowledgements(&outputs(&mut server))[0].outcome, Outcome::Committed);
}

/// What the store holds of key 1 after so many others wrote it that nothing older than generation 20 is named.
fn much_written() -> (Generation, Record) {
    let mut record = Record::next(None, Generation(0), UpdateId { writer: PrincipalId(99), number: 0 }, Some(value(9)));
    for n in 1..6 {
        let update = UpdateId { writer: PrincipalId(99), number: n };
        record = Record::next(Some((&record, Generation(19 + n))), Generation(0), update, Some(value(9)));
    }
    assert!(record.floor >= Generation(20));
    (Generation(25), record)
}

/// If the store did not answer a commit, and nothing can be told of it any more, the update is not to be taken for one that was not applied.
#[test]
fn an_own_commit_in_doubt_is_told_apart_from_what_was_known_too_long_ago() {
    let committed = |batch, result| Input::Committed { batch, result, purged: Generation(0) };
    let conflict = || CommitResult::Conflict(vec![Some(much_written())]);
    for (is_answered, outcome) in [(true, Outcome::Stale), (false, Outcome::Unknown)] {
        let mut server = serving(Vec::new());
        server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
        server.handle(at(10), Input::Timer);
        if !is_answered {
            server.handle(at(20), committed(1, CommitResult::Failed));
            server.handle(at(500), Input::Timer);
        }
        outputs(&mut server);
        server.handle(at(510), committed(1, conflict()));
        let told = acknowledgements(&outputs(&mut server));
        assert_eq!(told.iter().map(|it| it.outcome).collect::<Vec<_>>(), [outcome]);
    }
}

/// An update whose commit failed, and was then seen not to have been applied, is in doubt no more.
#[test]
fn doubt_ends_when_the_store_shows_that_nothing_was_applied() {
    let committed = |batch, result| Input::Committed { batch, result, purged: Generation(0) };
    let Stored { record, .. } = stored(1, 11, Some(value(9)));
    let mut server = serving(Vec::new());
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    server.handle(at(10), Input::Timer);
    server.handle(at(20), committed(1, CommitResult::Failed));
    server.handle(at(500), Input::Timer);
    server.handle(at(510), committed(1, CommitResult::Conflict(vec![record.map(|record| (Generation(11), record))])));
    assert_eq!(acknowledgements(&outputs(&mut server)), [], "it goes again, as the second batch");
    server.handle(at(520), committed(2, CommitResult::Conflict(vec![Some(much_written())])));
    assert_eq!(acknowledgements(&outputs(&mut server))[0].outcome, Outcome::Stale);
}

/// A question to the store changes nothing, whether it is answered or not.
#[test]
fn a_question_without_an_answer_leaves_no_doubt() {
    let mut server = serving(vec![stored(1, 5, Some(value(1)))]);
    let mut update = put(1, &[1], 10);
    update.ops[0].expect = Some(Generation(8));
    server.handle(at(0), request(1, WRITER, Ask::Update(update)));
    server.handle(at(10), Input::Timer);
    server.handle(at(20), Input::Committed { batch: 1, result: CommitResult::Failed, purged: Generation(0) });
    server.handle(at(500), Input::Timer);
    outputs(&mut server);
    let result = CommitResult::Conflict(vec![Some(much_written())]);
    server.handle(at(510), Input::Committed { batch: 1, result, purged: Generation(0) });
    assert_eq!(acknowledgements(&outputs(&mut server))[0].outcome, Outcome::Stale);
}

#[test]
fn a_lost_store_turns_new_updates_away_and_keeps_those_under_way() {
    let mut server = serving(Vec::new());
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    server.handle(at(10), Input::Timer);
    server.handle(at(11), request(2, WRITER, Ask::Update(put(2, &[2], 10))));
    outputs(&mut server);
    server.handle(at(12), Input::StoreLost);
    server.handle(at(13), request(3, WRITER, Ask::Update(put(3, &[3], 10))));
    let told: Vec<_> = acknowledgements(&outputs(&mut server)).iter().map(|it| (it.number, it.outcome)).collect();
    assert_eq!(told, [(2, Outcome::Elsewhere), (3, Outcome::Elsewhere)]);
    assert_eq!(server.shared().state, State::StoreLost);
    server.handle(at(14), Input::Committed { batch: 1, result: CommitResult::Failed, purged: Generation(0) });
    server.handle(at(100), Input::StoreBack);
    assert!(outputs(&mut server).iter().any(|it| matches!(it, Output::Commit { batch: 1, .. })), "the same is tried again");
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
fn commits_are_told_to_peers_in_small_datagrams() {
    let mut server = serving(Vec::new());
    for n in 0..40 {
        server.handle(at(0), request(1, WRITER, Ask::Update(put(n, &[n as u8], 10))));
    }
    server.handle(at(10), Input::Timer);
    outputs(&mut server);
    server.handle(at(11), Input::Committed { batch: 1, result: CommitResult::Done(Generation(11)), purged: Generation(0) });
    let (mut told, mut other) = (0, serving(Vec::new()));
    for output in outputs(&mut server) {
        if let Output::Send { to, bytes } = output {
            assert!(to == peer() && bytes.len() <= MAX_DATAGRAM);
            let frame = Frame::parse(&bytes).unwrap();
            let Ok(Message::Commits(commits)) = Message::parse(frame.header.kind, frame.body) else { panic!("commits") };
            told += commits.commits.len();
            other.handle(at(12), request(1, ME, Ask::Commits(commits)));
        }
    }
    assert_eq!((told, other.shared().table.len()), (40, 40));
    assert_eq!(other.shared().revision, Generation(10), "parts do not claim the whole");
    assert_eq!(other.shared().table.hash(), server.shared().table.hash());
}

#[test]
fn a_peer_moves_the_revision_only_without_a_gap() {
    let mut server = serving(Vec::new());
    let commits = |from: u64, to: u64, n: u8| {
        let Stored { key, generation, record } = stored(n, to, Some(value(n)));
        let commits = vec![Commit { generation, key, record: record.unwrap() }];
        request(1, PEER, Ask::Commits(Commits { from: Generation(from), revision: Generation(to), commits }))
    };
    server.handle(at(0), commits(11, 12, 2));
    assert_eq!((server.shared().revision, server.shared().table.len()), (Generation(10), 1));
    server.handle(at(0), commits(10, 11, 1));
    assert_eq!((server.shared().revision, server.shared().table.len()), (Generation(11), 2));
    // Not from anybody else.
    let Input::Request(mut forged) = commits(11, 13, 3) else { panic!() };
    forged.principal = WRITER;
    server.handle(at(0), Input::Request(forged));
    assert_eq!(server.shared().table.len(), 2);
}

#[test]
fn a_gap_in_the_watch_or_another_hash_loads_anew_while_look_ups_go_on() {
    let mut server = serving(vec![stored(1, 3, Some(value(1))), stored(2, 4, Some(value(2)))]);
    server.handle(at(0), watched(12, 13, Vec::new()));
    let all = outputs(&mut server);
    assert!(all.contains(&Output::Event(Event::Reload(ReloadReason::Gap))) && all.contains(&Output::Load { load: 2 }));
    assert_eq!((server.shared().state, server.shared().table.len()), (State::Serving, 2));
    // Key 1 is gone for good, 2 has another owner.
    let mut moved = value(2);
    let Value::Mapping(mapping) = &mut moved else { panic!() };
    mapping.owner = PrincipalId(8);
    let end = Some(LoadEnd { revision: Generation(13), purged: Generation(11) });
    server.handle(at(1), Input::Loaded { load: 2, entries: vec![stored(2, 12, Some(moved))], end });
    let gone: Vec<Key> = server.shared().withdrawals.after(Generation(10)).unwrap().map(|it| it.key).collect();
    assert_eq!(gone, [key(2), key(1)]);
    let digest = |revision, hash| Ask::Digest(Digest { revision: Generation(revision), entries: 1, hash });
    let own = server.shared().table.hash();
    for (revision, hash, loads) in [(13, own, false), (12, 5, false), (13, 5, true)] {
        outputs(&mut server);
        server.handle(at(2), request(1, PEER, digest(revision, hash)));
        assert_eq!(outputs(&mut server).contains(&Output::Load { load: 3 }), loads, "{revision} {hash}");
    }
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
fn a_challenged_message_is_sent_again_with_the_cookie() {
    let mut server = serving(vec![stored(1, 3, Some(value(1)))]);
    server.handle(
        at(0),
        request(
            1,
            PrincipalId(60),
            Ask::Misdelivered(Misdelivered { asker: key(1), key: key(2), stale: Locator::V4([1, 1, 1, 1].into()) }),
        ),
    );
    outputs(&mut server);
    let challenge = |request, cookie| {
        let client = Client::Datagram { at: peer(), cookie, request };
        Input::Request(Request { client, principal: ME, ask: Ask::Challenge })
    };
    server.handle(at(1), challenge(77, 5));
    assert_eq!(outputs(&mut server), [], "it answers nothing that was sent");
    server.handle(at(1), challenge(1, 5));
    let all = outputs(&mut server);
    let [Output::Send { bytes, .. }] = &all[..] else { panic!("{all:?}") };
    let header = Frame::parse(bytes).unwrap().header;
    assert_eq!((header.kind, header.cookie, header.request), (Kind::Misdelivered, 5, 2));
}

#[test]
fn watchers_are_told_of_every_change_in_order_and_of_what_was_forgotten() {
    let mut server = serving(Vec::new());
    server.handle(at(0), request(4, WRITER, Ask::Watch(Generation(3))));
    server.handle(at(0), watched(10, 12, vec![stored(1, 11, Some(value(1))), stored(1, 12, None)]));
    server.handle(at(0), watched(12, 13, Vec::new()));
    server.handle(at(0), watched(13, 14, vec![stored(2, 14, Some(value(2)))]));
    let mut events = Vec::new();
    for output in outputs(&mut server) {
        if let Output::Reply { stream, message, .. } = output {
            assert_eq!(stream, StreamId(4));
            let Ok(Message::Events(Change { from, revision, entries })) = Message::parse(Kind::Events, &message[HEADER..]) else {
                panic!("events")
            };
            events.push((from.0, revision.0, entries.iter().map(|it| (it.generation.0, it.value.is_some())).collect::<Vec<_>>()));
        }
    }
    assert_eq!(events, [(10, 10, vec![]), (10, 12, vec![(11, true), (12, false)]), (13, 14, vec![(14, true)])]);
    server.handle(at(1), Input::StreamClosed(StreamId(4)));
    server.handle(at(1), watched(14, 15, vec![stored(2, 15, None)]));
    assert_eq!(outputs(&mut server), []);
}

#[test]
fn pages_go_through_all_keys_in_order() {
    let mut server = serving((0..250).map(|n| stored(n, 1, Some(value(n)))).collect());
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        server.handle(at(0), request(1, WRITER, Ask::List { after, limit: 60 }));
        let all = outputs(&mut server);
        let [Output::Reply { message, .. }] = &all[..] else { panic!("{all:?}") };
        let Ok(Message::Page { more, entries, .. }) = Message::parse(Kind::Page, &message[HEADER..]) else { panic!("a page") };
        seen.extend(entries.iter().map(|it| it.key));
        after = entries.last().map(|it| it.key);
        if !more {
            break;
        }
    }
    assert_eq!(seen, (0..250).map(key).collect::<Vec<_>>());
    server.handle(at(0), request(1, WRITER, Ask::Status));
    assert_eq!(outputs(&mut server).len(), 1);
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
