//! What changes: withdrawals, policies, doubts and corrections.

use super::*;

#[test]
fn withdrawn_keys_leave_and_all_other_leases_restart() {
    let mut bench = Bench::bounded();
    bench.learn(1, 9, (5, found(1)));
    bench.learn(2, 9, (6, found(2)));
    for round in 0..10u64 {
        bench.pass(Duration::from_ms(500));
        let (sent, outputs) = bench.drain();
        assert_eq!(outputs, [], "nothing ends while the directory answers");
        let ask = sent.iter().find(|s| s.header.kind == Kind::Follow).unwrap().clone();
        let groups = if round == 9 { vec![(Generation(30), vec![name_of(key(1))])] } else { Vec::new() };
        let page = WithdrawnPage { revision: Generation(20 + round), policy: 1, groups, ..WithdrawnPage::default() };
        bench.reply(&ask, Kind::Withdrawn, |out| Message::Withdrawn(page).emit(out));
    }
    assert_eq!(bench.drain().1, [Output::Invalidated { key: key(1), asker: None }]);
    // An answer of a server that has not heard of it is not believed.
    bench.ask(&[(key(1), None, 4)]);
    let (sent, _) = bench.drain();
    bench.answer(&sent[0], 25, 1, &[(5, found(1))]);
    assert_eq!(bench.drain().1, []);
    // And nothing is heard any more: the other lease ends 2 s after the last question that was answered.
    bench.pass(Duration::from_ms(1_999));
    assert!(!bench.drain().1.contains(&Output::Invalidated { key: key(2), asker: None }));
    bench.pass(Duration::from_ms(1));
    assert!(bench.drain().1.contains(&Output::Invalidated { key: key(2), asker: None }));
}

#[test]
fn a_newer_policy_puts_everything_in_doubt() {
    let mut bench = Bench::plain(1);
    bench.learn(1, 9, (5, found(1)));
    bench.ask(&[(key(2), None, 2)]);
    let (sent, _) = bench.drain();
    bench.answer(&sent[0], 9, 2, &[(6, found(2))]);
    bench.pass(Duration::from_ms(200));
    let (asked, _) = bench.drain();
    assert_eq!(asked[0].keys, [key(1)], "looked up again");
    bench.answer(&asked[0], 4, 2, &[(4, Finding::Forbidden)]);
    assert_eq!(bench.drain().1, [Output::Invalidated { key: key(1), asker: None }], "whatever its revision");
    // An answer under the older policy is ignored.
    bench.pass(Duration::from_ms(600));
    bench.drain();
    bench.ask(&[(key(1), None, 3)]);
    let (sent, _) = bench.drain();
    let lookup = sent.iter().find(|s| !s.keys.is_empty()).unwrap().clone();
    bench.answer(&lookup, 99, 1, &[(5, found(1))]);
    assert_eq!((bench.drain().1, bench.agent.counts().old_policy), (Vec::new(), 1));
}

#[test]
fn unconfirmed_mappings_are_used_for_half_a_second() {
    let mut bench = Bench::bounded();
    bench.learn(1, 9, (5, found(1)));
    bench.ask(&[(key(2), None, 2)]);
    let (sent, _) = bench.drain();
    bench.answer(&sent[0], 9, 2, &[(6, found(2))]);
    bench.pass(Duration::from_ms(499));
    assert_eq!(bench.agent.usable().count(), 2);
    bench.pass(Duration::from_ms(1));
    assert_eq!(bench.agent.usable().map(|(key, ..)| key).collect::<Vec<_>>(), [key(2)]);
    assert!(bench.drain().1.contains(&Output::Invalidated { key: key(1), asker: None }));
}

/// A policy comes, and the directory is gone before it can be asked what it means for what is held.
#[test]
fn what_is_to_be_reconfirmed_stays_in_use_while_no_server_answers() {
    let limited = ResolverConfig { fail_static: Duration::from_secs(60), ..ResolverConfig::new(ME) };
    for (config, is_limited) in [(ResolverConfig::new(ME), false), (limited, true)] {
        let mut bench = Bench::new(1, config);
        bench.learn(1, 9, (5, found(1)));
        bench.ask(&[(key(2), None, 2)]);
        let (sent, _) = bench.drain();
        bench.answer(&sent[0], 9, 2, &[(6, found(2))]);
        bench.drain();
        bench.pass(Duration::from_secs(59));
        assert_eq!(bench.agent.usable().count(), 2);
        if is_limited {
            bench.pass(Duration::from_secs(2));
            assert_eq!(bench.agent.usable().count(), 0);
            continue;
        }
        bench.pass(Duration::from_secs(3600));
        assert_eq!(bench.agent.usable().count(), 2);
        // A server answers: what it does not confirm within a second is out of use.
        bench.drain();
        bench.ask(&[(key(3), None, 3)]);
        let (sent, _) = bench.drain();
        bench.answer(sent.iter().find(|it| it.keys == [key(3)]).unwrap(), 9, 2, &[(6, found(3))]);
        bench.pass(Duration::from_ms(200));
        let (sent, _) = bench.drain();
        let again: Vec<&Sent> = sent.iter().filter(|it| it.keys.contains(&key(1))).collect();
        assert!(!again.is_empty(), "looked up again: {sent:?}");
        bench.pass(Duration::from_ms(600));
        bench.ask(&[(key(4), None, 4)]);
        let (sent, _) = bench.drain();
        bench.answer(sent.iter().find(|it| it.keys == [key(4)]).unwrap(), 9, 2, &[(6, found(4))]);
        bench.pass(Duration::from_ms(101));
        assert_eq!(bench.agent.usable().map(|(key, ..)| key).collect::<Vec<_>>(), [key(3), key(4)]);
    }
}

#[test]
fn corrections_move_what_is_held_and_never_reveal_more() {
    let mut bench = Bench::plain(1);
    bench.learn(1, 9, (5, found(1)));
    bench.learn(2, 9, (9, Finding::Forbidden));
    let correction = |key, generation, value| Correction {
        revision: Generation(generation),
        policy: 1,
        key,
        generation: Generation(generation),
        finding: Finding::Found(value),
    };
    let own = |bench: &mut Bench, correction: Correction| {
        let header = Header { kind: Kind::Correction, principal: ME, cookie: 77, request: 0 };
        bench.reply(&Sent { to: server(1), header, keys: Vec::new() }, Kind::Correction, |out| {
            Message::Correction(correction).emit(out)
        });
        bench.drain().1
    };
    assert_eq!(own(&mut bench, correction(key(1), 12, mapping(50, 1))), [Output::Invalidated { key: key(1), asker: None }]);
    assert_eq!(own(&mut bench, correction(key(1), 11, mapping(51, 1))), []);
    assert_eq!(own(&mut bench, correction(key(2), 12, mapping(52, 1))), []);
    let used: Vec<_> = bench.agent.usable().map(|(key, _, generation, value)| (key, generation, value.clone())).collect();
    assert_eq!(used, [(key(1), Generation(12), mapping(50, 1))]);
    // Of another service: whether this asker may know is for a lookup to say.
    own(&mut bench, correction(key(1), 14, mapping(53, 2)));
    assert_eq!(bench.agent.usable().count(), 0);
}
