//! What fails, and what is lost by it.

use proptest::prelude::*;
use weft_control::netlord::spain::SpainConfig;
use weft_fabric::time::NsDuration;
use weft_fabric::topology::Part;
use weft_fabric::{CableId, SwitchId};

use super::super::*;
use super::runs::{SCHEMES, SPAIN, TWO_LEVEL, run, run_and_balance, world};
use crate::world::{Change, TimedEvent};

const PERIOD: Duration = Duration::from_ms(10);
const TREE_DELAY: Duration = Duration::from_ms(50);

fn at(ms: u64, change: Change) -> TimedEvent {
    TimedEvent { at: Instant::ZERO + Duration::from_ms(ms), change }
}

fn faults(mut events: Vec<TimedEvent>) -> FaultConfig {
    events.sort_by_key(|e| e.at);
    let agent = SpainConfig { period: PERIOD.to_ns(), answer: NsDuration::from_ms(5), ..SpainConfig::default() };
    FaultConfig { events, reconverge: TREE_DELAY, restore_delay: TREE_DELAY, agent }
}

/// Cables between switches.
fn trunks(fabric: &Fabric) -> Vec<CableId> {
    fabric.cables().filter(|c| fabric.as_host(fabric.link(c.links()[0]).from).is_none()).collect()
}

/// 280 transfers that take about 150 ms.
fn busy(events: impl FnOnce(&Fabric) -> Vec<TimedEvent>) -> BridgedWorld {
    let mut world = world(TWO_LEVEL, 5, 10_000);
    world.load.bytes = Bytes(400_000);
    world.packet.transport.rto_min = Duration::from_ms(5);
    world.faults = faults(events(&world.fabric));
    world
}

/// A cable, or a switch without hosts: all is delivered, and no agent sends over a dead VLAN for three chirps.
#[test]
fn agents_go_around_what_fails_in_under_three_chirps() {
    for (multipath, addresses) in [(Multipath::Spain(SPAIN), Addresses::Vm), (Multipath::Spain(SPAIN), Addresses::Edge)] {
        for returns in [Returns::Same, Returns::Own { chirp: PERIOD }] {
            for is_switch in [false, true] {
                let events = |fabric: &Fabric| {
                    let core = fabric.switches_of_tier(fabric.top_tier()).next().unwrap();
                    // A cable that is seen to be down, and a switch that nobody misses but the agents.
                    let change = match is_switch {
                        true => Change::FailSilent(Part::Node(fabric.switch_node(core))),
                        false => Change::Fail(Part::Cable(trunks(fabric)[0])),
                    };
                    vec![at(30, change)]
                };
                let outcome = run_and_balance(BridgedWorld { multipath, addresses, returns, ..busy(events) });
                let (trial, faults) = (outcome.trials[0], outcome.faults);
                assert_eq!((trial.finished, trial.bytes), (280, 280 * 400_000), "{faults:?}");
                let took = faults.reconverge.expect("something failed");
                assert!(took > Duration::ZERO && took < PERIOD * 3, "{took}");
                assert!(faults.failovers > 0 && faults.chirps >= 2 * faults.failovers);
            }
        }
    }
}

/// The tree is cut until the bridges have another one; all is delivered after that.
#[test]
fn the_spanning_tree_is_recomputed() {
    let root = |fabric: &Fabric| fabric.switches_of_tier(fabric.top_tier()).next().unwrap();
    let core = |fabric: &Fabric| vec![at(30, Change::Fail(Part::Node(fabric.switch_node(root(fabric)))))];
    let outcome = run_and_balance(busy(core));
    let took = outcome.faults.reconverge.expect("something failed");
    assert!(took > TREE_DELAY / 2 && took < TREE_DELAY, "{took}");
    assert_eq!((outcome.trials[0].finished, outcome.faults.chirps), (280, 0));
    // Unnoticed, it stays cut.
    let silent = |fabric: &Fabric| vec![at(30, Change::FailSilent(Part::Node(fabric.switch_node(root(fabric)))))];
    let mut world = busy(silent);
    world.load.duration = Duration::from_ms(500);
    let outcome = run_and_balance(world);
    assert!(outcome.trials[0].completion_s.is_none());
    assert!(outcome.faults.reconverge.is_some_and(|took| took > Duration::from_ms(300)));
    // A cable that the tree does not have is no loss, and a repaired one that it had has its frames again.
    let spare = |fabric: &Fabric| vec![at(30, Change::Fail(Part::Cable(*trunks(fabric).last().unwrap())))];
    assert_eq!(run(busy(spare)).faults.reconverge, Some(Duration::ZERO));
    let first = |fabric: &Fabric| {
        let part = Part::Cable(trunks(fabric)[0]);
        vec![at(10, Change::Fail(part)), at(20, Change::Restore(part))]
    };
    let took = run(busy(first)).faults.restore.expect("it is used again");
    assert!(took < TREE_DELAY * 2, "{took}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 12 / 256))]
    /// Whatever fails and returns, noticed or not: every frame comes to an end, all bytes arrive once all works again, and the same world gives the same
    /// outcome.
    #[test]
    fn what_returns_carries_all_again(
        scheme in 0usize..4, own: bool, entries in 8u32..200, seed: u64,
        parts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0u64..80, 1u64..80, any::<bool>()), 1..5),
    ) {
        let (multipath, addresses) = SCHEMES[scheme];
        let world = || {
            let events = |fabric: &Fabric| {
                let cables = fabric.cables().map(Part::Cable);
                let switches = (0..fabric.switch_count() as u32).map(|s| Part::Node(fabric.switch_node(SwitchId(s))));
                let all: Vec<Part> = cables.chain(switches).collect();
                let events = parts.iter().flat_map(|(index, is_silent, from, length, _)| {
                    let part = *index.get(&all);
                    let change = if *is_silent { Change::FailSilent(part) } else { Change::Fail(part) };
                    [at(*from, change), at(from + length, Change::Restore(part))]
                });
                events.collect()
            };
            let returns = if own { Returns::Own { chirp: PERIOD } } else { Returns::Same };
            let mut world = BridgedWorld { multipath, addresses, returns, seed, ..busy(events) };
            world.load.bytes = Bytes(30_000);
            world.fib.entries = entries;
            world
        };
        let outcome = run_and_balance(world());
        let trial = outcome.trials[0];
        prop_assert_eq!((trial.finished, trial.bytes), (280, 280 * 30_000));
        prop_assert!(outcome.faults.reconverge.is_some());
        let again = run_and_balance(world());
        prop_assert_eq!(outcome, again);
    }
}
