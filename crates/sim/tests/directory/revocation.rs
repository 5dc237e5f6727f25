//! What is withdrawn is out of use within a second where the directory can be heard, and at the end of its lease where it cannot.

use std::net::Ipv4Addr;

use rand::RngExt;
use weft_control::directory::resolver::Resolution;
use weft_control::directory::{GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Op;
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::time::NsDuration;
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{Seen, agent_principal};
use weft_sim::directory::network::{Impairments, Node};

use super::trial::{Shape, Trial, home};

fn key(n: u8) -> Key {
    Key::App4(Ipv4Addr::new(10, 8, 0, n))
}

fn value(n: u32, service: u32, owner: u16, lease_ms: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::from(n)),
        mac: None,
        group: GroupId(0),
        service: ServiceId(service),
        owner: agent_principal(owner),
        lease_ms,
    })
}

/// Three servers, one agent that holds ten mappings of its own service and ten of another, with this lease.
fn begin(seed: u64, lease_ms: u32) -> Trial {
    begin_static(seed, lease_ms, NsDuration::ZERO)
}

/// The same with the time for which it uses them while no server answers.
fn begin_static(seed: u64, lease_ms: u32, fail_static: NsDuration) -> Trial {
    let shape = Shape { servers: 3, members: 3, agents: 1, writers: 1, rough: 0, capacity: 1000, fail_static, upgrade: false };
    let mut trial = Trial::with_shape(seed, Pcg64::new(u128::from(mix(seed)), 9), shape);
    let put = |key, value| Op { key, expect: None, value: Some(value) };
    trial.submit(0, vec![put(home(0), value(1, 1, 0, lease_ms))]);
    for n in 0..20 {
        trial.submit(0, vec![put(key(n), value(u32::from(n) + 10, 1 + u32::from(n) / 10, 0, lease_ms))]);
    }
    settle(&mut trial, 1000);
    let names: Vec<_> = (0..20).map(|n| (key(n), Some(home(0)), u64::from(n))).collect();
    trial.cluster.resolve(0, &names);
    settle(&mut trial, 300);
    trial
}

fn settle(trial: &mut Trial, ms: u64) {
    let end = trial.cluster.now() + Duration::from_ms(ms);
    trial.work(end).unwrap_or_else(|e| panic!("seed {}: {e}", trial.seed()));
}

fn in_use(trial: &Trial) -> Vec<Key> {
    trial.cluster.agent(0).expect("it runs").usable().map(|(key, ..)| key).collect()
}

fn allows_other(trial: &Trial, policy: usize) -> bool {
    trial.matrices[policy][1][0]
}

#[test]
fn a_withdrawn_mapping_is_out_of_use_within_a_second() {
    for seed in 0..40 {
        let mut trial = begin(seed, 60_000);
        let before = in_use(&trial).len();
        assert_eq!(before, if allows_other(&trial, 0) { 20 } else { 10 }, "seed {seed}");
        trial.cluster.network.impairments = Impairments { loss: 0.1, peer_loss: 0.1, duplicate: 0.05, ..Impairments::NONE };
        // A moment of the half second between two Syncs.
        let wait = trial.rng.random_range(0..600);
        settle(&mut trial, wait);
        let at = trial.updates.len();
        trial.submit(0, vec![Op { key: key(3), expect: None, value: None }]);
        trial.submit(0, vec![Op { key: key(4), expect: None, value: Some(value(99, 1, 7, 60_000)) }]);
        trial.submit(0, vec![Op { key: key(5), expect: None, value: Some(value(98, 4, 0, 60_000)) }]);
        trial.submit(0, vec![Op { key: key(6), expect: None, value: Some(value(97, 1, 0, 60_000)) }]);
        while trial.updates[at..].iter().any(|asked| asked.ended.is_none()) {
            settle(&mut trial, 5);
        }
        settle(&mut trial, 1000);
        let left = in_use(&trial);
        assert_eq!(left.len(), before - 3, "seed {seed}: {left:?}");
        assert!(![key(3), key(4), key(5)].iter().any(|gone| left.contains(gone)), "seed {seed}: {left:?}");
    }
}

/// The agent has been idle for a while, so that servers send it what is withdrawn; any of them fails, starts again or leaves, and a tenth of the datagrams is lost.
#[test]
fn an_idle_agent_gives_up_a_withdrawn_mapping_within_a_second() {
    for seed in 0..60 {
        let mut trial = begin(seed, 60_000);
        let wait = trial.rng.random_range(4_000..9_000);
        settle(&mut trial, wait);
        let before = in_use(&trial).len();
        trial.cluster.network.impairments = Impairments { loss: 0.1, peer_loss: 0.1, duplicate: 0.05, ..Impairments::NONE };
        let failing = (seed % 4) as u16;
        if failing < 3 {
            trial.cluster.crash(Node::Server(failing));
            let wait = trial.rng.random_range(0..3_000);
            settle(&mut trial, wait);
            if seed % 8 < 4 {
                trial.cluster.start(Node::Server(failing));
                settle(&mut trial, 200);
            }
        }
        let at = trial.updates.len();
        trial.submit(0, vec![Op { key: key(3), expect: None, value: None }]);
        trial.submit(0, vec![Op { key: key(4), expect: None, value: Some(value(99, 1, 7, 60_000)) }]);
        while trial.updates[at..].iter().any(|asked| asked.ended.is_none()) {
            settle(&mut trial, 5);
        }
        settle(&mut trial, 1000);
        let left = in_use(&trial);
        assert!(![key(3), key(4)].iter().any(|gone| left.contains(gone)), "seed {seed}: {left:?}");
        assert_eq!(left.len(), before - 2, "seed {seed}: {left:?}");
    }
}

#[test]
fn a_withdrawn_permission_is_out_of_use_within_a_second() {
    let mut narrowed = 0;
    for seed in 0..60 {
        // Whatever is allowed while no server answers.
        let mut trial = begin_static(seed, 60_000, if seed % 2 == 0 { NsDuration::ZERO } else { NsDuration::MAX });
        let Some(narrower) = (1..4).find(|&v| allows_other(&trial, 0) && !allows_other(&trial, v)) else { continue };
        narrowed += 1;
        assert_eq!(in_use(&trial).len(), 20, "seed {seed}");
        // While it asks, or while servers send it what is withdrawn.
        let wait = trial.rng.random_range(0..if seed % 4 < 2 { 600 } else { 6_000 });
        settle(&mut trial, wait);
        for server in 0..3 {
            trial.set_policy(server, narrower);
        }
        settle(&mut trial, 1000);
        let left = in_use(&trial);
        assert_eq!(left, (0..10).map(key).collect::<Vec<_>>(), "seed {seed}");
    }
    assert!(narrowed > 10, "{narrowed}");
}

#[test]
fn what_is_held_out_of_earshot_ends_with_its_lease() {
    for seed in 0..20 {
        let mut trial = begin(seed, 2_000);
        assert!(in_use(&trial).len() >= 10);
        let cut: Instant = trial.cluster.now();
        for server in 0..3 {
            // One direction is enough.
            let (from, to) = (Node::Server(server), Node::Agent(0));
            if seed % 2 == 0 { trial.cluster.network.cut(from, to) } else { trial.cluster.network.cut(to, from) }
        }
        settle(&mut trial, 1_400);
        assert!(in_use(&trial).len() >= 10, "seed {seed}: leases last");
        settle(&mut trial, 610);
        assert_eq!(in_use(&trial), [], "seed {seed}: held {} after the last word", trial.cluster.now() - cut);
    }
}

/// Nobody hears of a withdrawal while cut off. Then it is out of use within a second, and all else stays.
#[test]
fn what_is_held_out_of_earshot_stays_in_use_until_a_server_answers() {
    for seed in 0..20 {
        let mut trial = begin_static(seed, 2_000, NsDuration::MAX);
        let before = in_use(&trial);
        for server in 0..3 {
            let (from, to) = (Node::Server(server), Node::Agent(0));
            if seed % 2 == 0 { trial.cluster.network.cut(from, to) } else { trial.cluster.network.cut(to, from) }
        }
        trial.submit(0, vec![Op { key: key(3), expect: None, value: None }]);
        settle(&mut trial, 30_000);
        assert_eq!(in_use(&trial), before, "seed {seed}: leases last 2 s");
        trial.cluster.network.mend();
        settle(&mut trial, 1000);
        let left: Vec<Key> = before.into_iter().filter(|&it| it != key(3)).collect();
        assert_eq!(in_use(&trial), left, "seed {seed}");
    }
}

/// The policy changes, and the directory is cut off at any moment while agents ask what it means for them.
#[test]
fn what_is_being_reconfirmed_out_of_earshot_stays_in_use_until_a_server_answers() {
    for seed in 0..40 {
        let mut trial = begin_static(seed, 60_000, NsDuration::MAX);
        let before = in_use(&trial);
        let other = 1 + (seed as usize) % 3;
        for server in 0..3 {
            trial.set_policy(server, other);
        }
        let wait = trial.rng.random_range(0..600);
        settle(&mut trial, wait);
        for server in 0..3 {
            trial.cluster.network.cut(Node::Server(server), Node::Agent(0));
        }
        let at_cut = in_use(&trial);
        settle(&mut trial, 30_000);
        assert_eq!(in_use(&trial), at_cut, "seed {seed}, cut after {wait} ms");
        trial.cluster.network.mend();
        settle(&mut trial, 1_500);
        let left: Vec<Key> = before.into_iter().take(if allows_other(&trial, other) { 20 } else { 10 }).collect();
        assert!(in_use(&trial).iter().all(|key| left.contains(key)), "seed {seed}");
        assert!((0..10).all(|n| in_use(&trial).contains(&key(n))), "seed {seed}: its own service stays");
    }
}

/// Agents that hear of every withdrawal keep what is not withdrawn for as long as they like.
#[test]
fn what_is_not_withdrawn_stays_in_use() {
    let mut trial = begin(3, 1_500);
    let before = in_use(&trial);
    settle(&mut trial, 20_000);
    assert_eq!(in_use(&trial), before);
    let hits = |trial: &Trial| trial.cluster.agent(0).expect("it runs").counts().hits;
    let had = hits(&trial);
    trial.cluster.resolve(0, &[(key(1), Some(home(0)), 1)]);
    assert_eq!(hits(&trial), had + 1, "from the cache");
}

/// The servers lose their store: lookups are still answered from memory.
#[test]
fn without_a_store_servers_answer_from_memory() {
    let mut trial = begin(5, 60_000);
    for member in 0..3 {
        trial.cluster.fail_member(member);
    }
    settle(&mut trial, 2_000);
    trial.cluster.crash(Node::Agent(0));
    trial.cluster.start(Node::Agent(0));
    trial.cluster.resolve(0, &[(key(1), Some(home(0)), 7)]);
    let end = trial.cluster.now() + Duration::from_ms(20);
    trial.cluster.run_until(end);
    let seen = trial.cluster.take_seen();
    let found = |seen: &Seen| matches!(seen, Seen::Resolved { token: 7, resolution: Resolution::Found(..), .. });
    assert!(seen.iter().any(|(_, seen)| found(seen)), "{seen:?}");
    let _ = PrincipalId(0);
}
