//! The agent alone, and two of them over paths that fail.

use proptest::prelude::*;

use super::*;

const TO: Destination = Destination(7);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

fn vlans(n: u16) -> Vec<VlanId> {
    (1..=n).map(VlanId).collect()
}

fn agent(n: u16) -> SpainAgent {
    let mut agent = SpainAgent::new(SpainConfig::default()).unwrap();
    agent.handle(Instant::ZERO, Input::Table { to: TO, vlans: &vlans(n) });
    agent
}

fn drain(agent: &mut SpainAgent) -> Vec<Output> {
    std::iter::from_fn(|| agent.poll()).collect()
}

/// Hands in timers until `until` and returns what was asked for, with its time.
fn run(agent: &mut SpainAgent, until: Instant) -> Vec<(Instant, Output)> {
    let mut outputs = Vec::new();
    while let Some(now) = agent.deadline().filter(|&d| d <= until) {
        agent.handle(now, Input::Timer);
        outputs.extend(drain(agent).into_iter().map(|o| (now, o)));
    }
    outputs
}

#[test]
fn a_silent_way_fails_in_less_than_three_periods() {
    let mut agent = agent(4);
    let path = (TO, agent.choose(TO, 99).unwrap());
    agent.handle(at(0), Input::Sent { path, peer: 3 });
    agent.handle(at(1), Input::Heard { path, peer: 3 });
    let outputs = run(&mut agent, at(260));
    let chirp = Output::Chirp(path, 3);
    assert_eq!(outputs, [(at(101), chirp), (at(201), chirp), (at(251), Output::Failed(path))]);
    assert!(at(251) - at(1) <= SpainConfig::default().failover());
    assert!(SpainConfig::default().failover() < SpainConfig::default().period * 3);
    assert!(agent.is_failed(path));
    assert_ne!(agent.choose(TO, 99).unwrap(), path.1);
    // It is tried again, once a period, as long as its destination is in use.
    agent.handle(at(260), Input::Sent { path: (TO, agent.choose(TO, 99).unwrap()), peer: 3 });
    let again = run(&mut agent, at(560)).into_iter().filter(|(_, o)| *o == chirp).count();
    assert_eq!(again, 3);
    agent.handle(at(561), Input::Heard { path, peer: 3 });
    assert_eq!(drain(&mut agent), [Output::Restored(path)]);
    assert_eq!(agent.choose(TO, 99).unwrap(), path.1);
}

#[test]
fn a_way_that_nobody_uses_is_not_watched() {
    let mut agent = agent(2);
    assert_eq!(agent.deadline(), None);
    let path = (TO, VlanId(1));
    agent.handle(at(0), Input::Sent { path, peer: 1 });
    // It is heard all the time, and no longer used after ten seconds.
    for ms in (0..20_000).step_by(50) {
        agent.handle(at(ms), Input::Heard { path, peer: 1 });
        assert_eq!(run(&mut agent, at(ms)), []);
    }
    assert_eq!(agent.deadline(), None);
    assert!(!agent.is_failed(path));
}

#[test]
fn when_all_have_failed_one_is_used_all_the_same() {
    let mut agent = agent(2);
    for vlan in vlans(2) {
        agent.handle(at(0), Input::Sent { path: (TO, vlan), peer: 1 });
    }
    run(&mut agent, at(1_000));
    assert!(vlans(2).into_iter().all(|v| agent.is_failed((TO, v))));
    assert!(agent.choose(TO, 5).is_some());
    assert_eq!(agent.choose(Destination(8), 5), None);
}

#[test]
fn chirps_are_answered_and_strangers_counted() {
    let mut agent = agent(1);
    agent.handle(at(0), Input::Chirped { path: (TO, VlanId(1)), peer: 4 });
    agent.handle(at(0), Input::Chirped { path: (TO, VlanId(9)), peer: 4 });
    agent.handle(at(0), Input::Heard { path: (Destination(1), VlanId(1)), peer: 4 });
    assert_eq!(drain(&mut agent), [Output::Answer((TO, VlanId(1)), 4)]);
    assert_eq!((agent.counters().answers, agent.counters().strangers), (1, 2));
}

#[test]
fn a_new_table_keeps_what_is_known() {
    let mut agent = agent(3);
    let path = (TO, VlanId(2));
    agent.handle(at(0), Input::Sent { path, peer: 1 });
    run(&mut agent, at(1_000));
    agent.handle(at(1_000), Input::Table { to: TO, vlans: &[VlanId(2), VlanId(5)] });
    assert!(agent.is_failed(path));
    assert_eq!(agent.choose(TO, 1), Some(VlanId(5)));
    agent.handle(at(1_000), Input::Table { to: TO, vlans: &[] });
    assert_eq!((agent.choose(TO, 1), agent.deadline()), (None, None));
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let usual = SpainConfig::default();
    let error = |config: SpainConfig| SpainAgent::new(config).unwrap_err();
    assert_eq!(error(SpainConfig { period: Duration::ZERO, ..usual }), SpainError::NoPeriod);
    assert_eq!(error(SpainConfig { misses: 0, ..usual }), SpainError::NoMisses);
    assert!(matches!(error(SpainConfig { answer: usual.period * 2, ..usual }), SpainError::Answer { .. }));
}

#[test]
fn only_the_flows_of_a_failed_way_move_and_the_others_share_them() {
    let all = vlans(16);
    let mut counts = [0u32; 17];
    for flow in 0..16_000u64 {
        let flow = mix(flow);
        let before = choose(all.iter().copied(), flow).unwrap();
        let after = choose(all.iter().copied().filter(|v| v.0 != 3), flow).unwrap();
        assert!(before == after || before.0 == 3);
        counts[usize::from(before.0)] += 1;
    }
    assert!(counts[1..].iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
}

/// A path's fate: which spans of time it is down, in milliseconds.
fn is_down(spans: &[(u64, u64)], ms: u64) -> bool {
    spans.iter().any(|&(from, length)| (from..from + length).contains(&ms))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 24 / 256))]
    /// Two agents that send a packet every 20 ms each: a path that has been down for longer than a failover is avoided, and one that has been
    /// up for longer than two periods is not.
    #[test]
    fn two_agents_avoid_what_is_down_and_use_what_is_up(
        down in prop::collection::vec(prop::collection::vec((0u64..6_000, 0u64..3_000), 0..3), 3),
    ) {
        let paths = vlans(3);
        let mut ends = [agent(3), agent(3)];
        // By path: whether it was up, and for how many milliseconds it has been as it is.
        let (mut was_up, mut steady) = ([true; 3], [0u32; 3]);
        let passes = |vlan: VlanId, ms: u64| !is_down(&down[usize::from(vlan.0) - 1], ms);
        for ms in 0..9_000u64 {
            let now = at(ms);
            let mut mail: VecDeque<(usize, Output)> = VecDeque::new();
            for (i, end) in ends.iter_mut().enumerate() {
                end.handle(now, Input::Timer);
                mail.extend(drain(end).into_iter().map(|o| (i, o)));
            }
            // Flows over all paths that are not avoided.
            for (i, &vlan) in (0..2).flat_map(|i| paths.iter().map(move |v| (i, v))) {
                if ms % 20 == 0 && !ends[i].is_failed((TO, vlan)) {
                    ends[i].handle(now, Input::Sent { path: (TO, vlan), peer: 0 });
                    if passes(vlan, ms) {
                        ends[1 - i].handle(now, Input::Heard { path: (TO, vlan), peer: 0 });
                    }
                }
            }
            while let Some((i, output)) = mail.pop_front() {
                match output {
                    Output::Chirp(path, peer) if passes(path.1, ms) => {
                        ends[1 - i].handle(now, Input::Chirped { path, peer });
                        mail.extend(drain(&mut ends[1 - i]).into_iter().map(|o| (1 - i, o)));
                    }
                    Output::Answer(path, peer) if passes(path.1, ms) => {
                        ends[1 - i].handle(now, Input::Heard { path, peer });
                        mail.extend(drain(&mut ends[1 - i]).into_iter().map(|o| (1 - i, o)));
                    }
                    _ => {}
                }
            }
            for (i, &vlan) in paths.iter().enumerate() {
                let up = passes(vlan, ms);
                steady[i] = if up == was_up[i] { steady[i] + 1 } else { 0 };
                was_up[i] = up;
            }
            let some_up = (0..3).any(|i| was_up[i] && steady[i] >= 400);
            for end in &mut ends {
                drain(end);
                for (i, &vlan) in paths.iter().enumerate() {
                    let is_failed = end.is_failed((TO, vlan));
                    if !was_up[i] && steady[i] >= 252 {
                        prop_assert!(is_failed, "{vlan:?} is down at {ms} ms and used");
                    }
                    if was_up[i] && steady[i] >= 202 && some_up {
                        prop_assert!(!is_failed, "{vlan:?} is up at {ms} ms and avoided");
                    }
                }
            }
        }
    }
}
