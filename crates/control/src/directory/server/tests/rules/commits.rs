//! Commits under way, and those that fail.

use super::*;

fn commits(outputs: &[Output]) -> Vec<(u64, usize)> {
    let of = |output: &Output| match output {
        Output::Commit { batch, ops, .. } => Some((*batch, ops.len())),
        _ => None,
    };
    outputs.iter().filter_map(of).collect()
}

#[test]
fn while_as_many_commits_as_may_be_are_under_way_the_rest_waits_for_full_batches() {
    let mut config = ServerConfig::new(ME, Vec::new());
    (config.max_in_flight, config.batch_ops) = (2, 3);
    let mut server = Server::new(config, secret(), Cookies::new([1; 16]), policy(), Pcg64::seed_from_u64(1));
    let end = Some(LoadEnd { revision: Generation(10), purged: Generation(0) });
    server.handle(at(0), Input::Loaded { load: 1, entries: Vec::new(), end });
    outputs(&mut server);
    let mut began = Vec::new();
    for number in 0..11 {
        server.handle(at(0), request(1, WRITER, Ask::Update(put(number, &[number as u8], 10))));
        began.extend(commits(&outputs(&mut server)));
    }
    server.handle(at(10), Input::Timer);
    assert_eq!((began, commits(&outputs(&mut server))), (vec![(1, 3), (2, 3)], vec![]));
    for (batch, next) in [(1, vec![(3, 3)]), (2, vec![(4, 2)]), (3, vec![])] {
        let result = CommitResult::Done(Generation(10 + batch));
        server.handle(at(20), Input::Committed { batch, result, purged: Generation(0) });
        let outputs = outputs(&mut server);
        assert_eq!(acknowledgements(&outputs).len(), 3);
        assert_eq!(commits(&outputs), next, "in the order in which they came");
    }
}

#[test]
fn failed_commits_are_tried_again_later_and_later() {
    let mut server = serving(Vec::new());
    server.handle(at(0), request(1, WRITER, Ask::Update(put(1, &[1], 10))));
    server.handle(at(10), Input::Timer);
    let mut now = at(10);
    for most in [50, 100, 200, 400, 400] {
        assert_eq!(commits(&outputs(&mut server)), [(1, 1)]);
        server.handle(now, Input::Committed { batch: 1, result: CommitResult::Failed, purged: Generation(0) });
        let retry = server.deadline().expect("a retry");
        let wait = retry.saturating_since(now);
        assert!((Duration::from_ms(most / 2)..=Duration::from_ms(most)).contains(&wait), "{wait:?} of {most} ms");
        now = retry;
        server.handle(now, Input::Timer);
    }
}

#[test]
fn a_store_in_which_nothing_ever_was_has_forgotten_nothing() {
    for (entries, from) in [(Vec::new(), 0), (vec![stored(1, 5, Some(value(1)))], 10)] {
        let mut server = serving(entries);
        server.handle(at(0), request(1, WRITER, Ask::Watch(Generation(0))));
        let received = outputs(&mut server);
        let [Output::Reply { message, .. }] = &received[..] else { panic!("{received:?}") };
        let Ok(Message::Events(Change { from: first, .. })) = Message::parse(Kind::Events, &message[HEADER..]) else {
            panic!("{received:?}")
        };
        assert_eq!(first, Generation(from));
    }
}
