//! Commits under way, and those that fail.

use super::*;

fn commits(outputs: &[Output]) -> Vec<(u64, usize)> {
    let of = |output: &Output| match output {
        Output::Commit { batch, ops, .. } => Some((*batch, ops.len())),
        _ => None,
    };
    outputs.iter().filter_map(of).collect()
}

/// A server of up to two commits under way, of three operations each, and of this many updates of one operation each at time 0.
fn of_small_commits(updates: u64) -> (Server, Vec<(u64, usize)>) {
    let mut config = ServerConfig::new(ME, Vec::new());
    (config.max_in_flight, config.batch_ops) = (2, 3);
    let mut server = Server::new(config, secret(), Cookies::new([1; 16]), policy(), Pcg64::seed_from_u64(1));
    let end = Some(LoadEnd { revision: Generation(10), purged: Generation(0) });
    server.handle(at(0), Input::Loaded { load: 1, entries: Vec::new(), end });
    outputs(&mut server);
    let mut began = Vec::new();
    for number in 0..updates {
        server.handle(at(0), request(1, WRITER, Ask::Update(put(number, &[number as u8], 10))));
        began.extend(commits(&outputs(&mut server)));
    }
    (server, began)
}

fn committed(batch: u64) -> Input {
    Input::Committed { batch, result: CommitResult::Done(Generation(10 + batch)), purged: Generation(0) }
}

#[test]
fn while_as_many_commits_as_may_be_are_under_way_the_rest_waits_for_full_batches() {
    let (mut server, began) = of_small_commits(11);
    server.handle(at(10), Input::Timer);
    assert_eq!((began, commits(&outputs(&mut server))), (vec![(1, 3), (2, 3)], vec![]));
    for (batch, next) in [(1, vec![(3, 3)]), (2, vec![(4, 2)]), (3, vec![])] {
        server.handle(at(20), committed(batch));
        let outputs = outputs(&mut server);
        assert_eq!(acknowledgements(&outputs).len(), 3);
        assert_eq!(commits(&outputs), next, "in the order in which they came");
    }
}

#[test]
fn a_full_batch_that_waited_for_a_commit_to_end_waits_no_longer() {
    let (mut server, began) = of_small_commits(11);
    assert_eq!(began.len(), 2);
    server.handle(at(1), committed(1));
    assert_eq!(commits(&outputs(&mut server)), [(3, 3)], "three of the five that wait");
    server.handle(at(1), committed(2));
    assert_eq!((commits(&outputs(&mut server)), server.deadline()), (vec![], Some(at(10))), "the other two wait for a third");
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
