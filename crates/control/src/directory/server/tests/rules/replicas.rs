//! A replica follows the store and asks it for nothing but loads.

use super::*;

/// A replica that has loaded these records at revision 10.
fn replica(entries: Vec<Stored>) -> Server {
    let config = ServerConfig { replica: true, ..ServerConfig::new(ME, vec![peer()]) };
    let mut server = Server::new(config, secret(), Cookies::new([1; 16]), policy(), Pcg64::seed_from_u64(1));
    let end = Some(LoadEnd { revision: Generation(10), purged: Generation(0) });
    server.handle(Instant::ZERO, Input::Loaded { load: 1, entries, end });
    outputs(&mut server);
    server
}

#[test]
fn updates_go_elsewhere_and_those_that_no_server_takes_are_answered() {
    let mut server = replica(vec![stored(1, 3, Some(value(1)))]);
    assert_eq!(server.shared().state, State::Serving);
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    server.handle(at(0), request(1, WRITER, Ask::Update(put(2, &[1, 1], 10))));
    server.handle(at(0), request(1, PrincipalId(50), Ask::Update(put(3, &[1], 10))));
    server.handle(at(1000), Input::Timer);
    let all = outputs(&mut server);
    let outcomes: Vec<_> = acknowledgements(&all).iter().map(|it| (it.number, it.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::Elsewhere), (2, Outcome::Malformed), (3, Outcome::Refused)]);
    assert!(!all.iter().any(|output| matches!(output, Output::Commit { .. })), "{all:?}");
    assert_eq!(server.load(), (0, 0));
}

#[test]
fn commits_of_peers_and_of_the_store_are_taken_and_peers_are_sent_digests_only() {
    let mut server = replica(vec![stored(1, 3, Some(value(1)))]);
    let Stored { key: second, generation, record } = stored(2, 11, Some(value(2)));
    let commits = vec![Commit { generation, key: second, record: record.unwrap() }];
    server.handle(at(0), request(1, PEER, Ask::Commits(Commits { from: Generation(10), revision: Generation(11), commits })));
    server.handle(at(1), watched(11, 12, vec![stored(3, 12, Some(value(3)))]));
    assert_eq!((server.shared().revision, server.shared().table.len()), (Generation(12), 3));
    assert_eq!(outputs(&mut server), []);
    let digest = Digest { revision: Generation(12), entries: 3, hash: server.shared().table.hash() };
    server.handle(at(2), request(2, PEER, Ask::Digest(digest)));
    let all = outputs(&mut server);
    assert!(matches!(&all[..], [Output::Reply { message, .. }] if message[HEADER..].len() == 24), "its own digest: {all:?}");
    server.handle(server.deadline().unwrap(), Input::Timer);
    let all = outputs(&mut server);
    let [Output::Send { to, bytes }] = &all[..] else { panic!("{all:?}") };
    assert_eq!((*to, Frame::parse(bytes).unwrap().header.kind), (peer(), Kind::Digest));
    server.handle(at(50_000), request(3, PEER, Ask::Digest(Digest { hash: 5, ..digest })));
    assert!(outputs(&mut server).contains(&Output::Load { load: 2 }), "it has other entries than the peer");
}

#[test]
fn tombstones_are_left_to_those_that_purge_them() {
    let mut server = replica(vec![stored(1, 3, Some(value(1))), stored(4, 4, None)]);
    server.handle(at(0), watched(10, 12, vec![stored(1, 11, None), stored(2, 12, Some(value(2)))]));
    outputs(&mut server);
    server.handle(at(2 * 3_600_000), Input::Timer);
    let all = outputs(&mut server);
    assert!(!all.iter().any(|output| matches!(output, Output::Purge { .. })), "{all:?}");
    assert!(server.shared().table.held(&key(1)).is_some());
    server.handle(at(2 * 3_600_000), watched(12, 13, vec![Stored { key: key(1), generation: Generation(11), record: None }]));
    assert!(server.shared().table.held(&key(1)).is_none(), "another server has purged it");
    assert_eq!(server.purged(), Generation(11));
}

#[test]
fn the_status_names_a_replica() {
    for (server, is_replica) in [(replica(Vec::new()), true), (serving(Vec::new()), false)] {
        let text = server.status_text();
        assert!(text.contains(&format!("\"state\":\"serving\",\"replica\":{is_replica},")), "{text}");
    }
}
