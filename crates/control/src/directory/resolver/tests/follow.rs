//! What a server sends unasked to an agent that subscribed.

use super::*;

fn page(revision: u64, groups: Vec<(Generation, Vec<u32>)>) -> WithdrawnPage {
    WithdrawnPage { revision: Generation(revision), policy: 1, groups, ..WithdrawnPage::default() }
}

/// Answers every Follow; those with push as a server that subscribes. How many there were.
fn answer_follows(bench: &mut Bench, revision: u64) -> usize {
    let follows: Vec<Sent> = bench.drain().0.into_iter().filter(|sent| sent.header.kind == Kind::Follow).collect();
    for sent in &follows {
        let page = WithdrawnPage { subscribed: true, ..page(revision, Vec::new()) };
        bench.reply(sent, Kind::Withdrawn, |out| Message::Withdrawn(page).emit(out));
    }
    follows.len()
}

/// An agent that holds keys 1 and 2 and has subscribed.
fn followed() -> Bench {
    let mut bench = Bench::plain(2);
    bench.learn(1, 9, (5, found(1)));
    bench.learn(2, 9, (6, found(2)));
    for _ in 0..30 {
        bench.pass(Duration::from_ms(100));
        answer_follows(&mut bench, 9);
    }
    bench
}

fn push(bench: &mut Bench, from: u8, page: WithdrawnPage) {
    let header = Header { kind: Kind::Withdrawn, principal: ME, cookie: 77, request: 0 };
    let sent = Sent { to: server(from), header, keys: Vec::new() };
    bench.reply(&sent, Kind::Withdrawn, |out| Message::Withdrawn(page).emit(out));
}

#[test]
fn an_idle_agent_asks_twice_a_minute_and_gives_up_what_it_is_sent() {
    let mut bench = followed();
    let mut asked = 0;
    for _ in 0..600 {
        bench.pass(Duration::from_ms(100));
        asked += answer_follows(&mut bench, 9);
    }
    assert!((2..=4).contains(&asked), "{asked} in a minute");
    assert_eq!(bench.agent.unconfirmed_since(), None);
    push(&mut bench, 1, page(30, vec![(Generation(30), vec![name_of(key(1))])]));
    let (sent, outputs) = bench.drain();
    assert_eq!(outputs, [Output::Invalidated { key: key(1), asker: None }]);
    assert_eq!(sent.iter().map(|it| (it.to, it.header.kind)).collect::<Vec<_>>(), [(server(1), Kind::Follow)], "the receipt");
    assert_eq!(bench.agent.usable().map(|(key, ..)| key).collect::<Vec<_>>(), [key(2)]);
}

/// Somebody who records what a server sent and sends it again takes nothing away that is newer, and makes nothing usable for longer.
#[test]
fn what_comes_unasked_is_believed_of_withdrawals_alone() {
    let mut bench = followed();
    let honest = bench.tagger.clone();
    bench.tagger = Secret::new([4; 32]).key_of(ME).tagger();
    push(&mut bench, 1, page(30, vec![(Generation(30), vec![name_of(key(1))])]));
    bench.tagger = honest;
    let (sent, outputs) = bench.drain();
    assert_eq!((sent.len(), outputs.len(), bench.agent.counts().bad_tags), (0, 0, 1));
    push(&mut bench, 1, page(30, vec![(Generation(4), vec![name_of(key(1))])]));
    let everything = WithdrawnPage { reconfirm: true, policy: 7, ..page(99, Vec::new()) };
    push(&mut bench, 2, everything);
    bench.pass(Duration::from_secs(1));
    let (sent, outputs) = bench.drain();
    assert_eq!((outputs, bench.agent.usable().count()), (Vec::new(), 2));
    assert!(sent.iter().all(|it| it.header.kind == Kind::Follow), "nothing is looked up: {sent:?}");
}

#[test]
fn something_new_or_a_silent_server_ends_the_subscription() {
    let mut bench = followed();
    bench.learn(3, 9, (7, found(3)));
    let mut asked = 0;
    for _ in 0..15 {
        bench.pass(Duration::from_ms(100));
        asked += answer_follows(&mut bench, 9);
    }
    assert!((2..=4).contains(&asked), "{asked} in 1.5 s: it polls");

    let mut bench = followed();
    for _ in 0..440 {
        bench.pass(Duration::from_ms(100));
        bench.drain();
    }
    assert!(bench.agent.unconfirmed_since().is_some(), "nobody answers");
    bench.pass(Duration::from_ms(500));
    assert!(bench.drain().0.iter().any(|it| matches!(it.header.kind, Kind::Follow | Kind::Sync)), "it asks on");
}

/// A server of before Follow answers only Sync.
#[test]
fn an_older_server_is_asked_in_the_way_that_it_knows() {
    let mut bench = Bench::bounded();
    bench.learn(1, 9, (5, found(1)));
    let mut syncs = 0;
    for _ in 0..1_000 {
        bench.pass(Duration::from_ms(10));
        let (sent, outputs) = bench.drain();
        assert_eq!(outputs, [], "the lease of 2 s restarts");
        for sync in sent.iter().filter(|it| it.header.kind == Kind::Sync) {
            syncs += 1;
            let changes = Changes { revision: Generation(9), policy: 1, reconfirm: false, withdrawn: Vec::new() };
            bench.reply(sync, Kind::Changes, |out| Message::Changes(changes).emit(out));
        }
    }
    assert!((15..30).contains(&syncs), "{syncs} in 10 s");
}
