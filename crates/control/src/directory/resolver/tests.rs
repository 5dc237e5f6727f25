use std::net::Ipv4Addr;

use weft_fabric::rng;

use super::*;
use crate::directory::auth::{Secret, Tagger};
use crate::directory::interest::{key_hash, key_name};
use crate::directory::key::{GroupId, Locator, Mapping, ServiceId};
use crate::wire::directory::{AnswerWriter, Changes, Correction, Frame, Kind, WithdrawnPage};

/// An agent, and servers that a test speaks for.
struct Bench {
    agent: Resolver,
    tagger: Tagger,
    now: Instant,
}

/// A datagram that the agent sent.
#[derive(Clone, Debug)]
struct Sent {
    to: SocketAddr,
    header: Header,
    keys: Vec<Key>,
}

const ME: PrincipalId = PrincipalId(9);

fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 5303))
}

fn key(n: u8) -> Key {
    Key::App4(Ipv4Addr::new(20, 0, 0, n))
}

fn name_of(key: Key) -> u32 {
    key_name(key_hash(&key))
}

fn mapping(n: u8, service: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::new(30, 0, 0, n)),
        mac: None,
        group: GroupId(0),
        service: ServiceId(service),
        owner: PrincipalId(1),
        lease_ms: 2_000,
    })
}

impl Bench {
    fn new(servers: u8, config: ResolverConfig) -> Self {
        let secret = Secret::new([3; 32]);
        let mut agent = Resolver::new(config, &secret.key_of(ME), rng::stream(1, rng::Stream::Traffic));
        let list: Vec<SocketAddr> = (1..=servers).map(server).collect();
        agent.handle(Instant::ZERO, Input::SetServers(&list));
        Self { agent, tagger: secret.key_of(ME).tagger(), now: Instant::ZERO }
    }

    fn plain(servers: u8) -> Self {
        Self::new(servers, ResolverConfig::new(ME))
    }

    /// Of a resolver that keeps nothing for longer than its lease.
    fn bounded() -> Self {
        Self::new(1, ResolverConfig { fail_static: Duration::ZERO, ..ResolverConfig::new(ME) })
    }

    fn ask(&mut self, names: &[(Key, Option<Key>, u64)]) {
        for &(key, asker, token) in names {
            self.agent.handle(self.now, Input::Resolve { key, asker, token });
        }
    }

    /// What the agent sent, and all else that it put out.
    fn drain(&mut self) -> (Vec<Sent>, Vec<Output>) {
        let (mut sent, mut rest) = (Vec::new(), Vec::new());
        while let Some(output) = self.agent.poll() {
            let Output::Send { to, bytes } = output else {
                rest.push(output);
                continue;
            };
            let frame = Frame::parse(&bytes).unwrap();
            assert!(self.tagger.verify(frame.covered, frame.tag));
            let keys = match Message::parse(frame.header.kind, frame.body).unwrap() {
                Message::Lookup(it) => it.keys().collect(),
                _ => Vec::new(),
            };
            sent.push(Sent { to, header: frame.header, keys });
        }
        (sent, rest)
    }

    fn reply(&mut self, sent: &Sent, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let header = Header { kind, principal: ME, cookie: 77, request: sent.header.request };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        body(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        self.agent.handle(self.now, Input::Datagram { from: sent.to, bytes: &bytes });
    }

    fn answer(&mut self, sent: &Sent, revision: u64, policy: u32, findings: &[(u64, Finding)]) {
        self.reply(sent, Kind::Answer, |out| {
            let mut writer = AnswerWriter::new(out, 1400, Generation(revision), policy);
            for (generation, finding) in findings {
                assert!(writer.push(Generation(*generation), finding));
            }
        });
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.agent.handle(self.now, Input::Timer);
    }

    /// Looks a key up and has it answered by the first server asked.
    fn learn(&mut self, n: u8, revision: u64, finding: (u64, Finding)) -> Vec<Output> {
        self.ask(&[(key(n), None, u64::from(n))]);
        let (sent, rest) = self.drain();
        if let Some(first) = sent.iter().find(|s| !s.keys.is_empty()) {
            self.answer(&first.clone(), revision, 1, &[finding]);
            return self.drain().1;
        }
        rest
    }
}

fn resolutions(outputs: &[Output]) -> Vec<Resolution> {
    let resolution = |output: &Output| match output {
        Output::Resolved { resolution, .. } => Some(resolution.clone()),
        _ => None,
    };
    outputs.iter().filter_map(resolution).collect()
}

fn found(n: u8) -> Finding {
    Finding::Found(mapping(n, 1))
}

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
