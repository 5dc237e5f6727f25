//! What servers send each other.

use super::*;

#[test]
fn commits_are_sent_to_peers_in_small_datagrams() {
    let mut server = serving(Vec::new());
    for n in 0..40 {
        server.handle(at(0), request(1, WRITER, Ask::Update(put(n, &[n as u8], 10))));
    }
    server.handle(at(10), Input::Timer);
    outputs(&mut server);
    server.handle(at(11), Input::Committed { batch: 1, result: CommitResult::Done(Generation(11)), purged: Generation(0) });
    let (mut received, mut other) = (0, serving(Vec::new()));
    for output in outputs(&mut server) {
        if let Output::Send { to, bytes } = output {
            assert!(to == peer() && bytes.len() <= MAX_DATAGRAM);
            let frame = Frame::parse(&bytes).unwrap();
            let Ok(Message::Commits(commits)) = Message::parse(frame.header.kind, frame.body) else { panic!("commits") };
            received += commits.commits.len();
            other.handle(at(12), request(1, ME, Ask::Commits(commits)));
        }
    }
    assert_eq!((received, other.shared().table.len()), (40, 40));
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
fn a_gap_in_the_watch_or_another_hash_reloads_while_lookups_go_on() {
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
