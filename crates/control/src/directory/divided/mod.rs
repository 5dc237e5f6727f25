//! A divided directory: three parts of two servers each, agents that know one server, and writers.

mod world;

use proptest::prelude::*;

use self::world::{ASKER, HOST, OF_B, OF_C, OTHER_HOST, World, key, mapping, part_of, policy};
use super::attempts::UpdateResult;
use super::key::{Generation, GroupId, Key, ServiceId, Value};
use super::resolver::Resolution;
use crate::time::Duration;

const MS: Duration = Duration::from_ms(1);

#[test]
fn an_agent_that_knows_one_server_finds_the_keys_of_all_parts() {
    for seed in 0..3 {
        let mut world = World::new(2);
        let keys: Vec<Key> = (0..30).map(key).collect();
        for (n, &it) in keys.iter().enumerate() {
            assert!(matches!(world.put(it, mapping(n as u8, 1, 50)), UpdateResult::Committed(_)), "{it}");
        }
        assert!((0..3).all(|part| keys.iter().any(|it| part_of(it) == part)));
        let group = Key::Group(GroupId(3));
        let addresses = Value::Group([[10, 9, 0, 1].into()].into_iter().collect());
        assert!(matches!(world.put(group, addresses.clone()), UpdateResult::Committed(_)));
        let agent = world.agent(HOST, &[seed]);
        for (n, &it) in keys.iter().enumerate() {
            let found = world.look_up(agent, it, Some(ASKER));
            assert!(matches!(&found, Resolution::Found(_, value) if *value == mapping(n as u8, 1, 50)), "{it}: {found:?}");
        }
        assert!(matches!(world.look_up(agent, group, None), Resolution::Found(_, value) if value == addresses));
        assert_eq!(world.look_up(agent, key(99), Some(ASKER)), Resolution::Unknown);
        // Each of its parts has what it should, and no other.
        for (part, store) in world.stores.iter().enumerate() {
            assert!(store.records.keys().all(|it| part_of(it) == part), "{part}");
            assert!(!store.records.is_empty());
        }
    }
}

/// Who may ask is another part's to say, and what it says later counts as well.
#[test]
fn an_asker_of_another_part_may_what_its_service_may() {
    let mut world = World::new(2);
    let target = (0..50).map(key).find(|it| part_of(it) != part_of(&ASKER)).unwrap();
    let db = (50..99).map(key).find(|it| part_of(it) == part_of(&target)).unwrap();
    world.put(target, mapping(1, 1, 50));
    world.put(db, mapping(2, 2, 50));
    let (agent, thief) = (world.agent(HOST, &[0]), world.agent(OTHER_HOST, &[1]));
    assert!(matches!(world.look_up(agent, target, Some(ASKER)), Resolution::Found(..)));
    assert_eq!(world.look_up(agent, db, Some(ASKER)), Resolution::Forbidden, "service 1 may not");
    assert_eq!(world.look_up(thief, target, Some(ASKER)), Resolution::Forbidden, "it does not live there");
    assert_eq!(world.look_up(agent, target, Some(key(98))), Resolution::Forbidden, "nobody has this address");
    // The asker gets another service, and then another host.
    world.put(ASKER, mapping(9, 2, HOST.0));
    world.run(MS * 1000);
    let usable = world.usable(agent);
    assert!(!usable.contains(&(target, Some(ASKER))), "{usable:?}");
    world.run(MS * 2500);
    assert_eq!(world.look_up(agent, target, Some(ASKER)), Resolution::Forbidden);
    assert!(matches!(world.look_up(agent, db, Some(ASKER)), Resolution::Found(..)));
    world.put(ASKER, mapping(9, 2, OTHER_HOST.0));
    world.run(MS * 3500);
    assert_eq!(world.look_up(agent, db, Some(ASKER)), Resolution::Forbidden);
    assert!(matches!(world.look_up(thief, db, Some(ASKER)), Resolution::Found(..)));
    // What was not there before is asked for again.
    let late = Key::App4([20, 0, 0, 98].into());
    assert_eq!(world.look_up(agent, db, Some(late)), Resolution::Forbidden);
    world.put(late, mapping(8, 2, HOST.0));
    world.run(MS * 600);
    assert!(matches!(world.look_up(agent, db, Some(late)), Resolution::Found(..)));
}

#[test]
fn the_other_parts_do_not_notice_that_a_store_or_all_servers_of_a_part_are_lost() {
    let mut world = World::new(2);
    let of = |part: usize| (0..50).map(key).find(|it| part_of(it) == part).unwrap();
    (0..3).for_each(|part| assert!(matches!(world.put(of(part), mapping(1, 1, 50)), UpdateResult::Committed(_))));
    let agent = world.agent(HOST, &[0]);
    let lost = 1;
    assert!(matches!(world.look_up(agent, of(0), Some(ASKER)), Resolution::Found(..)));
    world.lose_store(lost);
    for part in [0, 2] {
        let begun = world.now;
        assert!(matches!(world.put(of(part), mapping(2, 1, 50)), UpdateResult::Committed(_)));
        assert!(world.now.saturating_since(begun) < MS * 50, "as before");
    }
    // Lookups are answered from memory, and updates are not taken.
    assert!(matches!(world.look_up(agent, of(lost), Some(ASKER)), Resolution::Found(..)));
    assert_eq!(world.put(of(lost), mapping(2, 1, 50)), UpdateResult::NotApplied);
    world.kill(lost);
    for part in [0, 2] {
        let new = (50..99).map(key).find(|it| part_of(it) == part).unwrap();
        assert!(matches!(world.put(new, mapping(3, 1, 50)), UpdateResult::Committed(_)));
        assert!(matches!(world.look_up(agent, new, Some(ASKER)), Resolution::Found(_, value) if value == mapping(3, 1, 50)));
    }
    world.run(MS * 5000);
    assert!(world.usable(agent).contains(&(of(lost), Some(ASKER))), "what is known is used on");
    let of_lost = (50..99).map(key).find(|it| part_of(it) == lost).unwrap();
    assert_eq!(world.look_up(agent, of_lost, Some(ASKER)), Resolution::Unanswered);
}

/// Keys move to another part: copied while they are announced there, then with a new map. An agent finds them there, and what it holds is right.
#[test]
fn keys_move_to_another_part() {
    let mut world = World::new(2);
    let moving = [20, 128, 0, 7].into();
    let (moving, staying) = (Key::App4(moving), key(0));
    assert_eq!((part_of(&moving), part_of(&staying)), (1, 0));
    world.put(moving, mapping(1, 1, 50));
    world.put(staying, mapping(2, 1, 50));
    let agent = world.agent(HOST, &[0]);
    for it in [moving, staying] {
        assert!(matches!(world.look_up(agent, it, Some(ASKER)), Resolution::Found(..)));
    }
    assert_eq!(world.write_to(2, moving, mapping(1, 1, 50)), None, "it is not taken there");
    world.set_policy(policy(2, OF_B, &format!("{OF_C}\nincoming.prefixes = [\"20.128.0.0/16\"]")));
    assert!(world.write_to(2, moving, mapping(1, 1, 50)).is_some());
    world.run(MS * 1000);
    assert_eq!(world.stores[1].records[&moving].0, world.generation(agent, moving).unwrap(), "still the old part's");
    world.set_policy(policy(3, OF_B, "prefixes = [\"fd00::/8\", \"20.128.0.0/16\"]"));
    world.run(MS * 1500);
    world.lose_store(1);
    assert!(matches!(world.look_up(agent, moving, Some(ASKER)), Resolution::Found(..)));
    assert_eq!(world.stores[2].records[&moving].0, world.generation(agent, moving).unwrap(), "the new part's");
    assert!(matches!(world.put(moving, mapping(5, 2, 50)), UpdateResult::Committed(_)));
    world.run(MS * 1000);
    assert_eq!(world.look_up(agent, moving, Some(ASKER)), Resolution::Forbidden, "withdrawals come from there");
    assert!(world.usable(agent).contains(&(staying, Some(ASKER))));
}

/// Agents and writers of a directory that was not divided go on when it is.
#[test]
fn a_directory_is_divided_while_it_runs() {
    let mut world = World::undivided(2);
    for n in 0..30 {
        assert!(matches!(world.put(key(n), mapping(n, 1, 50)), UpdateResult::Committed(_)));
    }
    let agent = world.agent(HOST, &[0]);
    for n in 0..20 {
        assert!(matches!(world.look_up(agent, key(n), Some(ASKER)), Resolution::Found(..)));
    }
    world.copy_to_parts();
    world.set_policy(policy(2, OF_B, OF_C));
    world.run(MS * 2000);
    // Copies that a server's next life challenges are in doubt for good: the writer gets to know these first.
    for n in 0..6 {
        world.put(key(30), mapping(n, 1, 50));
    }
    for n in 0..30 {
        let found = world.look_up(agent, key(n), Some(ASKER));
        assert!(matches!(&found, Resolution::Found(_, value) if *value == mapping(n, 1, 50)), "{n}: {found:?}");
        let store = &world.stores[part_of(&key(n))];
        assert_eq!(Some(store.records[&key(n)].0), world.generation(agent, key(n)), "{n}");
        let result = world.put(key(n), mapping(n + 100, 1, 50));
        assert!(matches!(result, UpdateResult::Committed(_)), "{n}: {result:?}");
    }
}

/// A host invents askers: what that costs the other parts is bounded, and other hosts are served.
#[test]
fn askers_that_a_host_invents_cost_other_parts_little() {
    let mut world = World::new(2);
    let target = (0..50).map(key).find(|it| part_of(it) == 1).unwrap();
    world.put(target, mapping(1, 1, 50));
    let (agent, thief) = (world.agent(HOST, &[0]), world.agent(OTHER_HOST, &[1]));
    assert!(matches!(world.look_up(agent, ASKER, Some(ASKER)), Resolution::Found(..)));
    let before = world.between_servers;
    for n in 0..2000u32 {
        world.ask(thief, target, Some(Key::App4((20 << 24 | n).into())));
    }
    world.run(MS * 900);
    let caused = world.between_servers - before;
    // Two servers, in two seconds that the time touches; each lookup is two questions and their answers.
    assert!(caused < 2 * 2 * 256 * 4 + 100, "{caused} datagrams");
    assert!(matches!(world.look_up(agent, target, Some(ASKER)), Resolution::Found(..)));
}

/// What another store committed has generations that mean nothing here. It never comes: the peer's challenge is taken for an answer to a lookup of an asker.
#[test]
fn a_peer_of_another_part_is_not_believed() {
    let mut world = World::new(2);
    world.wrong_peer = true;
    (0..2).for_each(|n| world.restart(0, n));
    for n in 0..4 {
        world.put(key(3 * n), mapping(n, 1, 50));
    }
    world.run(MS * 100);
    assert!(world.is_held_by(0, &key(3)) && (0..4).all(|n| !world.is_held_by(1, &key(3 * n))));
}

#[test]
fn an_update_of_keys_of_two_parts_names_the_first_of_another() {
    let mut world = World::new(2);
    let of = |part: usize| (0..50).map(key).find(|it| part_of(it) == part).unwrap();
    world.put(of(0), mapping(1, 1, 50));
    let result = world.put_all(&[(of(1), mapping(1, 1, 50)), (of(2), mapping(1, 1, 50))]);
    assert_eq!(result, UpdateResult::Malformed(1));
    assert!(world.stores.iter().all(|store| !store.records.contains_key(&of(2))));
}

proptest! {
    /// Whatever is lost, restarted and moved: what was acknowledged to a writer is stored; and when all is well again an agent uses what is.
    #[test]
    fn agents_use_what_is_true_in_the_end(steps in prop::collection::vec((0u8..12, 0u8..30, 0u8..3), 1..60), loss in 0u32..20) {
        let mut world = World::new(2);
        world.loss_percent = loss;
        let agent = world.agent(HOST, &[0, 1]);
        let mut version = 1;
        for (what, n, part) in steps {
            match what {
                0..=3 => {
                    world.put(key(n), mapping(n.wrapping_mul(7), 1 + u32::from(n % 2), 50));
                }
                4..=7 => {
                    world.look_up(agent, key(n), Some(ASKER));
                }
                8 => world.restart(usize::from(part), usize::from(n % 2)),
                9 => world.lose_store(usize::from(part)),
                10 => world.regain_store(usize::from(part)),
                _ => {
                    version += 1;
                    world.set_policy(policy(version, OF_B, OF_C));
                }
            }
            world.run(MS * u64::from(n));
        }
        world.loss_percent = 0;
        (0..3).for_each(|part| world.regain_store(part));
        world.run(MS * 8000);
        for n in 0..30 {
            let stored = world.stores[part_of(&key(n))].records.get(&key(n)).map(|held| (held.0, held.1.value.clone()));
            let found = world.look_up(agent, key(n), Some(ASKER));
            match stored {
                Some((_, Some(Value::Mapping(it)))) if it.service == ServiceId(1) => {
                    let right = matches!(&found, Resolution::Found(generation, Value::Mapping(held)) if *generation > Generation(0) && held.service == it.service);
                    prop_assert!(right, "{n}: {found:?}");
                }
                Some((_, Some(_))) => prop_assert_eq!(found, Resolution::Forbidden, "{}", n),
                _ => prop_assert_eq!(found, Resolution::Unknown, "{}", n),
            }
        }
        prop_assert!(world.acknowledged_is_stored());
    }
}

#[test]
fn a_server_without_a_part_refuses_a_policy_that_has_some() {
    let mut world = World::undivided(2);
    world.set_policy_of_unnamed(policy(2, OF_B, OF_C));
    assert_eq!(world.refused, 2, "it stays with the one that it has");
    assert!(matches!(world.put(key(1), mapping(1, 1, 50)), UpdateResult::Committed(_)));
}
