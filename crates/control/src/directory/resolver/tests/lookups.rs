//! What is asked, again if need be, and what of the answers is believed.

use rand::RngExt;

use super::*;

#[test]
fn keys_of_one_instant_go_together_to_two_servers_and_the_first_answer_wins() {
    let mut bench = Bench::plain(3);
    let names: Vec<_> = (0..40).map(|n| (key(n), None, u64::from(n))).collect();
    bench.ask(&names);
    let (sent, _) = bench.drain();
    assert_eq!(sent.iter().map(|s| s.keys.len()).collect::<Vec<_>>(), [32, 32, 8, 8]);
    assert_ne!(sent[0].to, sent[1].to);
    let findings: Vec<_> = (0..8).map(|n| (5, found(n))).collect();
    bench.answer(&sent[3], 9, 1, &findings);
    assert_eq!(resolutions(&bench.drain().1).len(), 8);
    let later: Vec<_> = (0..8).map(|n| (4, found(n + 100))).collect();
    bench.answer(&sent[2], 9, 1, &later);
    assert_eq!(bench.drain().1, [], "an older generation changes nothing");
    bench.ask(&[(key(39), None, 1)]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Found(Generation(5), mapping(7, 1))]);
}

#[test]
fn findings_are_kept_by_asker() {
    let mut bench = Bench::plain(2);
    bench.ask(&[(key(1), Some(key(10)), 1), (key(1), Some(key(11)), 2)]);
    let (sent, _) = bench.drain();
    assert_eq!(sent.len(), 4);
    bench.answer(&sent[0], 9, 1, &[(5, found(1))]);
    bench.answer(&sent[2], 9, 1, &[(9, Finding::Forbidden)]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Found(Generation(5), mapping(1, 1)), Resolution::Forbidden]);
    bench.ask(&[(key(1), Some(key(11)), 3)]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Forbidden]);
}

#[test]
fn retries_come_after_three_milliseconds_and_at_other_servers_first() {
    let mut bench = Bench::plain(4);
    bench.ask(&[(key(1), None, 1)]);
    let (first, _) = bench.drain();
    assert_eq!(bench.agent.deadline(), Some(Instant::ZERO + Duration::from_ms(3)));
    bench.pass(Duration::from_ms(3));
    let (second, _) = bench.drain();
    assert_eq!(second.len(), 2);
    assert!(second.iter().all(|s| first.iter().all(|f| f.to != s.to)));
    bench.pass(Duration::from_ms(6));
    assert_eq!(bench.drain().0.len(), 2, "then twice as long");
    bench.pass(Duration::from_secs(5));
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Unanswered]);

    let mut paper = Bench::new(1, ResolverConfig { retry: Retry::Paper, ..ResolverConfig::new(ME) });
    paper.ask(&[(key(1), None, 1)]);
    assert_eq!(paper.drain().0.len(), 2, "both copies to the only server");
    assert_eq!(paper.agent.deadline(), Some(Instant::ZERO + Duration::from_secs(2)));
}

#[test]
fn with_a_tenth_of_all_datagrams_lost_99_of_100_are_found_within_ten_milliseconds() {
    let mut bench = Bench::new(1, ResolverConfig { k: 1, capacity: 0, ..ResolverConfig::new(ME) });
    let mut rng = rng::stream(5, rng::Stream::Traffic);
    let mut times = Vec::new();
    for token in 0..10_000 {
        let start = bench.now;
        bench.ask(&[(key(1), None, token)]);
        loop {
            let sent = bench.drain().0;
            let is_lost = rng.random_range(0..10) == 0;
            if let (Some(first), false) = (sent.first(), is_lost) {
                bench.now += Duration::from_us(100);
                bench.answer(first, 9, 1, &[(5, found(1))]);
                break;
            }
            bench.now = bench.agent.deadline().unwrap();
            bench.agent.handle(bench.now, Input::Timer);
        }
        assert_eq!(resolutions(&bench.drain().1).len(), 1);
        times.push(bench.now.saturating_since(start));
    }
    times.sort_unstable();
    assert!(times[9_900] < Duration::from_ms(10), "{}", times[9_900]);
}

#[test]
fn names_gather_while_the_server_answers_too_little() {
    let config = ResolverConfig { k: 1, capacity: 0, ..ResolverConfig::new(ME) };
    let mut bench = Bench::new(1, config);
    bench.ask(&[(key(1), None, 1)]);
    let mut last = bench.drain().0.remove(0);
    for wait in [3, 6, 12] {
        bench.pass(Duration::from_ms(wait));
        last = bench.drain().0.remove(0);
    }
    // The wait is 24 ms now, and nothing else leaves before it is over, nor before an answer.
    bench.ask(&[(key(2), None, 2), (key(3), None, 3)]);
    assert_eq!(bench.drain().0.len(), 0);
    assert_eq!(bench.agent.deadline(), Some(bench.now + Duration::from_ms(24)));
    bench.pass(Duration::from_ms(24));
    let sent = bench.drain().0;
    assert_eq!(sent.iter().map(|it| it.keys.len()).collect::<Vec<_>>(), [3], "all together, those that came first first");
    // An answer to a request of before is good for who has waited since then, and lets the next leave.
    bench.ask(&[(key(4), None, 4)]);
    bench.answer(&last, 9, 1, &[(5, found(1))]);
    let (sent, outputs) = bench.drain();
    assert_eq!((resolutions(&outputs).len(), &sent[0].keys[..]), (1, &[key(4)][..]));
    // What nobody answers is given up after the usual time, whether it left or waits.
    bench.ask(&[(key(5), None, 5)]);
    for _ in 0..90 {
        bench.pass(Duration::from_ms(100));
        let (sent, outputs) = bench.drain();
        assert!(sent.len() <= 1);
        for output in resolutions(&outputs) {
            assert_eq!(output, Resolution::Unanswered);
        }
    }
    assert_eq!(bench.agent.deadline(), None, "nobody waits");
    // The first that is answered ends it.
    bench.ask(&[(key(6), None, 6)]);
    for _ in 0..9 {
        let sent = bench.drain().0.remove(0);
        bench.answer(&sent, 9, 1, &[(5, found(1))]);
        bench.ask(&[(key(7), None, 7)]);
    }
    bench.drain();
    bench.ask(&[(key(8), None, 8)]);
    bench.ask(&[(key(9), Some(key(1)), 9)]);
    assert_eq!(bench.drain().0.len(), 2);
}

#[test]
fn a_challenged_request_goes_again_with_the_cookie() {
    let mut bench = Bench::plain(1);
    bench.ask(&[(key(1), None, 1)]);
    let (sent, _) = bench.drain();
    assert_eq!(sent[0].header.cookie, 0);
    bench.reply(&sent[0], Kind::Challenge, |_| {});
    let (again, _) = bench.drain();
    assert_eq!((again.len(), again[0].header.cookie, &again[0].keys), (1, 77, &sent[0].keys));
    assert!(again[0].header.request > sent[0].header.request);
    bench.answer(&again[0], 9, 1, &[(5, found(1))]);
    assert_eq!(resolutions(&bench.drain().1).len(), 1);
}

#[test]
fn elsewhere_and_answers_that_are_cut_short_are_asked_again_at_once() {
    let mut bench = Bench::new(2, ResolverConfig { k: 1, ..ResolverConfig::new(ME) });
    bench.ask(&[(key(1), None, 1), (key(2), None, 2)]);
    let (sent, _) = bench.drain();
    bench.answer(&sent[0], 9, 1, &[(0, Finding::Elsewhere), (0, Finding::Elsewhere)]);
    let (other, _) = bench.drain();
    assert_eq!(other.len(), 1);
    assert_ne!(other[0].to, sent[0].to);
    bench.answer(&other[0], 9, 1, &[(5, found(1))]);
    let (rest, outputs) = bench.drain();
    assert_eq!((rest.len(), rest[0].to, &rest[0].keys[..]), (1, other[0].to, &[key(2)][..]));
    assert_eq!(resolutions(&outputs).len(), 1);
}

#[test]
fn forged_and_unasked_datagrams_are_counted_and_dropped() {
    let mut bench = Bench::plain(2);
    bench.ask(&[(key(1), None, 1)]);
    let (sent, _) = bench.drain();
    let honest = bench.tagger.clone();
    bench.tagger = Secret::new([4; 32]).key_of(ME).tagger();
    bench.answer(&sent[0], 9, 1, &[(5, found(1))]);
    bench.tagger = honest;
    bench.answer(&Sent { to: server(9), ..sent[0].clone() }, 9, 1, &[(5, found(1))]);
    let unasked = Header { request: 12345, ..sent[0].header };
    bench.answer(&Sent { header: unasked, ..sent[0].clone() }, 9, 1, &[(5, found(1))]);
    bench.agent.handle(bench.now, Input::Datagram { from: server(1), bytes: b"WD" });
    assert_eq!(bench.drain().1, []);
    let counts = bench.agent.counts();
    assert_eq!((counts.bad_tags, counts.strangers, counts.unasked, counts.malformed), (1, 1, 1, 1));
}

#[test]
fn negative_answers_are_believed_for_a_moment() {
    let mut bench = Bench::plain(2);
    bench.learn(1, 9, (9, Finding::Unknown));
    bench.pass(Duration::from_ms(499));
    bench.drain();
    bench.ask(&[(key(1), None, 1)]);
    assert_eq!(resolutions(&bench.drain().1), [Resolution::Unknown]);
    bench.pass(Duration::from_ms(1));
    bench.ask(&[(key(1), None, 1)]);
    assert_eq!(bench.drain().0.iter().filter(|s| s.keys == [key(1)]).count(), 2);
}
