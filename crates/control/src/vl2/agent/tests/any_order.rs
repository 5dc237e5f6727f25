//! Whatever happens, in any order.

use proptest::prelude::*;

use super::*;

/// What may happen, in any order.
#[derive(Clone, Debug)]
enum Step {
    Miss(u8),
    Ask(u8),
    Put(u8, u8, u16),
    Forbid(u8),
    Delete(u8),
    PutGroup(u16, u8),
    DeleteGroup(u16),
    Correct(u8),
    Silence(bool),
    Attach,
    Detach,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8).prop_map(Step::Miss),
        2 => (0..6u8).prop_map(Step::Ask),
        4 => (0..6u8, 1..5u8, 0..3u16).prop_map(|(n, locator, group)| Step::Put(n, locator, group)),
        2 => (0..6u8).prop_map(Step::Forbid),
        2 => (0..6u8).prop_map(Step::Delete),
        2 => (1..3u16, 1..4u8).prop_map(|(group, n)| Step::PutGroup(group, n)),
        1 => (1..3u16).prop_map(Step::DeleteGroup),
        2 => (0..6u8).prop_map(Step::Correct),
        1 => any::<bool>().prop_map(Step::Silence),
        1 => Just(Step::Attach),
        1 => Just(Step::Detach),
        4 => (1..3000u64).prop_map(Step::Pass),
    ]
}

fn take(world: &mut World, step: &Step) {
    match *step {
        Step::Miss(n) => drop(world.miss(peer_address(n))),
        Step::Ask(n) => world.input(Input::Asked { target: peer_address(n), asker: OWN_ADDRESS, asker_mac: MAC }),
        Step::Put(n, locator, group) => world.put(key_of(peer_address(n)), Value::Mapping(mapping(locator, group))),
        Step::Forbid(n) => world.forbid(key_of(peer_address(n))),
        Step::Delete(n) => world.delete(key_of(peer_address(n))),
        Step::PutGroup(group, n) => {
            let key = Key::Group(GroupId(group));
            world.put(key, Value::Group([IpAddr::from([10, 9, 0, n])].into_iter().collect()));
            world.withdrawn.push((world.revision, key));
        }
        Step::DeleteGroup(group) => world.delete(Key::Group(GroupId(group))),
        Step::Correct(n) => world.correct(key_of(peer_address(n))),
        Step::Silence(yes) => world.is_silent = yes,
        Step::Attach => world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC }),
        Step::Detach => world.input(Input::Detach(OWN_ADDRESS)),
        Step::Pass(ms) => world.pass(Duration::from_ms(ms)),
    }
}

proptest! {
    /// While `drain` looks that no peer is used that is not held, no token goes out twice, no peer comes before its group.
    #[test]
    fn whatever_happens(adopted in prop::collection::vec(0..6u8, 0..3), steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new(|_| {});
        for n in adopted {
            world.adopt(peer_address(n));
        }
        world.put(key_of(OWN_ADDRESS), Value::Mapping(Mapping { owner: ME, ..mapping(1, 0) }));
        for step in &steps {
            take(&mut world, step);
        }
        // In the end all is at rest: nothing waits, and what is refused or deleted is not used.
        world.is_silent = false;
        world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
        world.pass(Duration::from_secs(8));
        prop_assert!(world.waiting.is_empty() && world.adopted.is_empty(), "{:?} {:?}", world.waiting, world.adopted);
        prop_assert_eq!(world.agent.held(), (0, 0));
        for (address, peer) in &world.peers {
            let Ok(peer) = peer else { continue };
            match world.finding(key_of(*address)).1 {
                Finding::Found(_) => prop_assert!(peer.group == GroupId(0) || world.groups.contains_key(&peer.group)),
                other => prop_assert!(false, "{} is used and {:?}", address, other),
            }
        }
        // What is reachable is reached: with the second packet, if the mapping that was held names a group that has gone.
        for n in 0..6 {
            world.miss(peer_address(n));
            world.pass(Duration::from_secs(1));
            let token = world.miss(peer_address(n));
            let Finding::Found(Value::Mapping(mapping)) = world.finding(key_of(peer_address(n))).1 else {
                prop_assert!(!world.released.contains(&token));
                continue;
            };
            if mapping.group == GroupId(0) || world.words.contains_key(&Key::Group(mapping.group)) {
                prop_assert!(world.released.contains(&token), "{}: {:?}", n, world.dropped.last());
            }
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_outputs(steps in prop::collection::vec(step(), 0..40)) {
        let run = || {
            let mut world = World::ready(|config| config.announce = tor());
            for step in &steps {
                take(&mut world, step);
            }
            world.trail
        };
        prop_assert_eq!(run(), run());
    }
}
