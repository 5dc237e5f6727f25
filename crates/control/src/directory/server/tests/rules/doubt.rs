//! Commits that failed, or of which nobody knows whether they were applied; the store that is lost.

use super::*;

#[test]
fn an_expectation_that_fails_is_read_from_the_store_before_the_answer() {
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

/// If the store did not answer a commit, and nothing more will be known of it, the update is not to be taken for one that was not applied.
#[test]
fn an_own_commit_in_doubt_is_distinguished_from_a_revision_known_too_long_ago() {
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
        let received = acknowledgements(&outputs(&mut server));
        assert_eq!(received.iter().map(|it| it.outcome).collect::<Vec<_>>(), [outcome]);
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
    let received: Vec<_> = acknowledgements(&outputs(&mut server)).iter().map(|it| (it.number, it.outcome)).collect();
    assert_eq!(received, [(2, Outcome::Elsewhere), (3, Outcome::Elsewhere)]);
    assert_eq!(server.shared().state, State::StoreLost);
    server.handle(at(14), Input::Committed { batch: 1, result: CommitResult::Failed, purged: Generation(0) });
    server.handle(at(100), Input::StoreBack);
    assert!(outputs(&mut server).iter().any(|it| matches!(it, Output::Commit { batch: 1, .. })), "the same is tried again");
}
