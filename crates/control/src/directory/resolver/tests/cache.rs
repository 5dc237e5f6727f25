//! What is kept, how much of it, and what is done without a cache.

use super::*;

#[test]
fn the_cache_is_bounded_and_forgets_no_generation() {
    let mut bench = Bench::new(1, ResolverConfig { capacity: 10, ..ResolverConfig::new(ME) });
    for n in 0..100 {
        bench.learn(n, 200, (100 + u64::from(n), found(n)));
    }
    assert_eq!(bench.agent.held(), 10);
    bench.ask(&[(key(0), None, 1)]);
    let (sent, _) = bench.drain();
    let lookup = sent.iter().find(|s| !s.keys.is_empty()).unwrap().clone();
    bench.answer(&lookup, 60, 1, &[(50, found(90))]);
    assert_eq!(resolutions(&bench.drain().1), [], "older than what was evicted");
}

#[test]
fn a_clock_that_steps_back_stops_nothing() {
    let mut bench = Bench::bounded();
    bench.now += Duration::from_secs(100);
    bench.learn(1, 9, (5, found(1)));
    bench.now = Instant::ZERO + Duration::from_secs(50);
    bench.ask(&[(key(2), None, 2)]);
    assert_eq!(bench.drain().0.len(), 1);
    let retry = bench.agent.deadline().unwrap();
    assert!(retry <= bench.now + Duration::from_ms(3), "{retry}");
    bench.pass(Duration::from_ms(2_500));
    assert_eq!(bench.agent.usable().count(), 0, "the lease ends by time that passed");
}

#[test]
fn what_is_evicted_is_named() {
    let mut bench = Bench::new(1, ResolverConfig { capacity: 4, ..ResolverConfig::new(ME) });
    let mut used = std::collections::BTreeSet::new();
    for n in 1..=40 {
        for output in bench.learn(n, 5, (5, Finding::Found(mapping(n, 1)))) {
            match output {
                Output::Resolved { key, resolution: Resolution::Found(..), .. } => assert!(used.insert(key)),
                Output::Invalidated { key, .. } => assert!(used.remove(&key)),
                other => panic!("{other:?}"),
            }
        }
        let held: std::collections::BTreeSet<Key> = bench.agent.usable().map(|(key, ..)| key).collect();
        assert_eq!(used, held, "whatever is used is held, so that it can be withdrawn");
    }
}

#[test]
fn without_a_cache_an_answer_that_comes_late_reaches_who_waits() {
    let give_up = Duration::from_secs(10);
    let mut bench = Bench::new(1, ResolverConfig { capacity: 0, give_up, ..ResolverConfig::new(ME) });
    bench.ask(&[(key(1), None, 1)]);
    let first = bench.drain().0.remove(0);
    for _ in 0..70 {
        bench.pass(Duration::from_ms(100));
        assert_eq!(resolutions(&bench.drain().1), []);
    }
    // Somebody else wants it too, before it is answered.
    bench.ask(&[(key(1), None, 2)]);
    bench.answer(&first, 9, 1, &[(4, Finding::Found(mapping(1, 5)))]);
    let outputs = bench.drain().1;
    assert_eq!(resolutions(&outputs), vec![Resolution::Found(Generation(4), mapping(1, 5)); 2], "{outputs:?}");
    // An answer that nobody waits for is none.
    bench.answer(&first, 9, 1, &[(4, Finding::Found(mapping(1, 5)))]);
    assert_eq!((bench.drain().1, bench.agent.held()), (vec![], 0));
}

#[test]
fn without_a_cache_no_answer_is_older_than_the_lookup() {
    let mut bench = Bench::new(2, ResolverConfig { capacity: 0, ..ResolverConfig::new(ME) });
    bench.ask(&[(key(1), None, 1)]);
    let first = bench.drain().0;
    bench.answer(&first[0], 9, 1, &[(4, Finding::Found(mapping(1, 5)))]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Found(Generation(4), mapping(1, 5))]);
    bench.ask(&[(key(1), None, 2)]);
    let second = bench.drain().0;
    bench.answer(&first[1], 9, 1, &[(4, Finding::Found(mapping(1, 5)))]);
    assert_eq!(resolutions(&bench.drain().1), [], "it was asked before");
    bench.answer(&second[0], 9, 1, &[(5, Finding::Found(mapping(2, 5)))]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Found(Generation(5), mapping(2, 5))]);
}

#[test]
fn without_a_cache_nothing_older_is_believed_than_is_known() {
    let mut bench = Bench::new(1, ResolverConfig { capacity: 0, ..ResolverConfig::new(ME) });
    bench.agent.at_least(&key(1), Generation(8));
    bench.ask(&[(key(1), None, 1)]);
    let sent = bench.drain().0.remove(0);
    bench.answer(&sent, 7, 1, &[(4, Finding::Found(mapping(1, 5)))]);
    assert_eq!(resolutions(&bench.drain().1), []);
    bench.pass(Duration::from_ms(10));
    let again = bench.drain().0.remove(0);
    bench.answer(&again, 9, 1, &[(8, Finding::Found(mapping(2, 5)))]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Found(Generation(8), mapping(2, 5))]);
}

#[test]
fn a_misdelivered_packet_is_reported_to_one_server_also_if_that_is_new() {
    let mut bench = Bench::new(3, ResolverConfig { capacity: 0, ..ResolverConfig::new(ME) });
    let report = Misdelivered { asker: key(1), key: key(2), stale: Locator::V4(Ipv4Addr::new(30, 0, 0, 2)) };
    bench.agent.handle(bench.now, Input::Misdelivered(report));
    let sent = bench.drain().0;
    assert_eq!((sent.len(), sent[0].header.kind), (1, Kind::Misdelivered));
    bench.reply(&sent[0], Kind::Challenge, |out| Message::Challenge.emit(out));
    let again = bench.drain().0;
    assert_eq!((again.len(), again[0].header.kind, again[0].header.cookie), (1, Kind::Misdelivered, 77));
    bench.pass(Duration::from_secs(5));
    assert_eq!((bench.drain().0.len(), bench.agent.deadline()), (0, None), "it is not answered");
}

#[test]
fn own_addresses_groups_and_refused_names_take_no_room_from_peers() {
    let mut bench = Bench::new(1, ResolverConfig { capacity: 4, ..ResolverConfig::new(ME) });
    let mut ask = |key: Key, asker: Option<Key>, finding: Finding| {
        bench.ask(&[(key, asker, 1)]);
        let sent = bench.drain().0.iter().find(|sent| !sent.keys.is_empty()).cloned();
        if let Some(sent) = &sent {
            bench.answer(sent, 5, 1, &[(5, finding)]);
        }
        (sent.is_some(), bench.drain().1)
    };
    let group = || Finding::Found(Value::Group([Ipv4Addr::new(10, 9, 0, 1).into()].into_iter().collect()));
    for round in 0..3 {
        for n in 1..=4 {
            let (sent, outputs) = ask(key(n), Some(key(n)), Finding::Found(mapping(n, 1)));
            assert_eq!(sent, round == 0, "an own address is looked up once");
            assert!(!outputs.iter().any(|output| matches!(output, Output::Invalidated { .. })));
            let (sent, _) = ask(Key::Group(GroupId(n.into())), None, group());
            assert_eq!(sent, round == 0, "a group is looked up once");
            let (sent, outputs) = ask(key(20 + n), Some(key(1)), Finding::Found(mapping(20 + n, 1)));
            assert_eq!(sent, round == 0, "as many peers as the limit says stay");
            assert!(!outputs.iter().any(|output| matches!(output, Output::Invalidated { .. })));
            ask(key(40 + n), Some(key(1)), Finding::Unknown);
        }
    }
    let (_, outputs) = ask(key(30), Some(key(1)), Finding::Found(mapping(30, 1)));
    assert!(outputs.iter().any(|output| matches!(output, Output::Invalidated { .. })), "one peer more evicts one");
    assert_eq!(bench.agent.counts().evicted, 1);
    assert_eq!(bench.agent.usable().count(), 4 + 4 + 4);
}
