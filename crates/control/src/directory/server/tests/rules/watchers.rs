//! Those who watch, and those who list.

use super::*;

#[test]
fn watchers_receive_every_change_in_order_and_learn_what_was_forgotten() {
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
