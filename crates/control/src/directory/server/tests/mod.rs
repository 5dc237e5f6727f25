mod rules;
mod world;

use proptest::prelude::*;

use self::world::World;
use super::Input;
use crate::directory::key::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, UpdateId, Value};
use crate::time::Duration;
use crate::wire::directory::{Op, Outcome, Update};

fn key(n: u8) -> Key {
    Key::App4([20, 0, 0, n].into())
}

fn value(n: u8) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4([10, 0, 0, n].into()),
        mac: None,
        group: GroupId(0),
        service: ServiceId(1),
        owner: PrincipalId(7),
        lease_ms: 1000,
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// A new update of some keys (to be put or deleted; the second is what it expects, if anything), to a server.
    Submit(usize, Vec<(u8, bool)>, Option<u64>),
    /// One more copy of an earlier update.
    Again(usize, usize),
    StoreTakes(usize, usize, bool, bool),
    ServerHears(usize, usize),
    Follow(usize, usize),
    Deliver(usize, bool),
    Lose(usize),
    Wait(u64),
    WatchLost(usize),
    StoreLost(usize),
    StoreBack(usize),
    Purge(usize),
    Restart(usize),
    Orphan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let server = || 0usize..2;
    let which = || 0usize..64;
    let rarely = || prop::bool::weighted(0.15);
    let keys = prop::collection::vec((0u8..6, prop::bool::weighted(0.7)), 1..4);
    let step = prop_oneof![
        8 => (server(), keys, prop::option::weighted(0.2, 0u64..30)).prop_map(|(at, keys, expect)| Step::Submit(at, keys, expect)),
        6 => (server(), which()).prop_map(|(at, which)| Step::Again(at, which)),
        8 => (server(), which(), rarely(), rarely()).prop_map(|(at, which, there, back)| Step::StoreTakes(at, which, there, back)),
        8 => (server(), which()).prop_map(|(at, which)| Step::ServerHears(at, which)),
        6 => (server(), 1usize..6).prop_map(|(at, count)| Step::Follow(at, count)),
        5 => (which(), rarely()).prop_map(|(which, again)| Step::Deliver(which, again)),
        1 => which().prop_map(Step::Lose),
        8 => (1u64..40).prop_map(Step::Wait),
        1 => server().prop_map(Step::WatchLost),
        1 => server().prop_map(Step::StoreLost),
        2 => server().prop_map(Step::StoreBack),
        1 => server().prop_map(Step::Purge),
        1 => server().prop_map(Step::Restart),
        1 => Just(Step::Orphan),
    ];
    prop::collection::vec(step, 1..250)
}

fn take(world: &mut World, step: Step, submitted: &mut Vec<UpdateId>) {
    match step {
        Step::Submit(at, keys, expect) => {
            let id = UpdateId { writer: PrincipalId(1 + submitted.len() as u32 % 2), number: submitted.len() as u64 };
            let mut ops: Vec<Op> = Vec::new();
            for (n, put) in keys {
                if ops.iter().all(|op| op.key != key(n)) {
                    let value = put.then(|| value(submitted.len() as u8));
                    ops.push(Op { key: key(n), expect: expect.map(Generation), value });
                }
            }
            let known = world.nodes[1 - at].server.shared().revision;
            submitted.push(id);
            world.submit(at, id, Update { number: id.number, known, ops });
        }
        Step::Again(at, which) if !submitted.is_empty() => {
            let id = submitted[which % submitted.len()];
            let update = world.updates[&id].clone();
            world.submit(at, id, update);
        }
        Step::Again(..) => {}
        Step::StoreTakes(at, which, there, back) => world.store_takes(at, which, there, back),
        Step::ServerHears(at, which) => world.server_hears(at, which),
        Step::Follow(at, count) => world.follow(at, count),
        Step::Deliver(which, again) => world.deliver(which, again),
        Step::Lose(which) if !world.datagrams.is_empty() => {
            let which = which % world.datagrams.len();
            world.datagrams.swap_remove(which);
        }
        Step::Lose(_) => {}
        Step::Wait(ms) => world.wait(Duration::from_ms(ms)),
        Step::WatchLost(at) => world.input(at, Input::WatchLost),
        Step::StoreLost(at) => world.input(at, Input::StoreLost),
        Step::StoreBack(at) => world.input(at, Input::StoreBack),
        Step::Purge(at) => world.purge(at),
        Step::Restart(at) => world.restart(at),
        Step::Orphan => {
            if let Some((ops, purged)) = world.orphans.pop() {
                world.store.commit(&ops, purged);
            }
        }
    }
}

proptest! {
    #[test]
    fn updates_are_applied_exactly_once_and_servers_agree(steps in steps()) {
        let mut world = World::new();
        let mut submitted = Vec::new();
        for step in steps {
            take(&mut world, step, &mut submitted);
            world.check_steps();
        }
        world.check_history();
        world.heal();
        world.check_history();
        world.check_healed();
    }
}

/// Two servers that are quick and well: every update gets through, whatever else happens to be under way.
#[test]
fn a_busy_hour_has_no_losers() {
    let mut world = World::new();
    for n in 0..2 {
        world.follow(n, 0);
    }
    let mut submitted = Vec::new();
    for round in 0..400usize {
        let step = Step::Submit(round % 2, vec![((round % 5) as u8, round % 7 != 0), (5, true)], None);
        take(&mut world, step, &mut submitted);
        for n in 0..2 {
            world.store_takes(n, round, false, false);
            world.server_hears(n, round);
            world.follow(n, 1000);
        }
        world.wait(Duration::from_ms(3));
    }
    world.heal();
    world.check_history();
    world.check_healed();
    let committed = world.answers.values().filter(|(answers, _)| answers[0].outcome == Outcome::Committed).count();
    assert_eq!(committed, 400, "nobody is turned away, though all want the same key");
}
