//! Whole runs: what must hold of any, and what the paper says of small ones.

use proptest::prelude::*;
use weft_fabric::BitsPerSec;
use weft_fabric::topology::shapes::{Cabling, Shape};

use super::super::*;
use crate::packet::SwitchQueue;

pub(super) const SCHEMES: [(Multipath, Addresses); 4] = [
    (Multipath::SpanningTree, Addresses::Vm),
    (Multipath::Spain(SPAIN), Addresses::Vm),
    (Multipath::Spain(SPAIN), Addresses::Edge),
    (Multipath::SpanningTree, Addresses::Host),
];
pub(super) const SPAIN: SpainConfig = SpainConfig { paths: 16, orders: 2, seed: 1, trees: 1 };

pub(super) fn world(shape: Shape, tenants: u32, entries: u32) -> BridgedWorld {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
    let fabric = Arc::new(shape.build(link, link).unwrap());
    let hosts = fabric.hosts().collect();
    BridgedWorld {
        tenants: vec![Tenants { count: tenants, hosts, vms_per_host: 1 }],
        fabric,
        load: Load {
            bytes: Bytes(20_000),
            incoming: 3,
            pause: Duration::from_ms(1),
            start_spread: Duration::from_ms(1),
            trials: 1,
            duration: Duration::from_secs(60),
            gap: Duration::from_secs(2),
            warmup: Duration::ZERO,
        },
        multipath: Multipath::SpanningTree,
        returns: Returns::Same,
        addresses: Addresses::Vm,
        fib: FibConfig { entries, ways: None, ageing: Duration::from_secs(1), learn_rate: None, learn_queue: 1_000 },
        faults: FaultConfig::default(),
        packet: PacketConfig { switch_queue: SwitchQueue::Fixed(Bytes(150_000)), ..PacketConfig::default() },
        seed: 7,
    }
}

pub(super) const TWO_LEVEL: Shape = Shape::TwoLevel { edges: 4, cores: 4, hosts_per_edge: 2 };

pub(super) fn run(world: BridgedWorld) -> BridgedOutcome {
    world.run(&mut |_| {}).unwrap()
}

/// Runs, and looks at the engine before it is gone: every frame has come to an end.
pub(super) fn run_and_balance(world: BridgedWorld) -> BridgedOutcome {
    world.check().unwrap();
    let plan = world.plan().unwrap();
    let mut engine = Engine::new(&world, plan.as_ref()).unwrap();
    engine.run(&world.load, &mut |_| {});
    // What was under way at the end.
    while let Some(event) = engine.wheel.pop(u64::MAX) {
        engine.take(event);
    }
    let totals = engine.totals;
    assert_eq!(engine.frames.under_way(), 0);
    assert_eq!(totals.sent + totals.copied, totals.ended);
    assert!(engine.incoming.iter().all(|&n| n == 0));
    let mut outcome = BridgedOutcome::default();
    engine.finish(&mut outcome);
    outcome
}

#[test]
fn all_is_delivered_under_every_scheme() {
    for shape in [TWO_LEVEL, Shape::Clique { switches: 4, hosts_per_switch: 2 }, Shape::Switch { hosts: 8 }] {
        for (multipath, addresses) in SCHEMES {
            let outcome = run_and_balance(BridgedWorld { multipath, addresses, ..world(shape, 5, 10_000) });
            let trial = outcome.trials[0];
            assert_eq!((trial.begun - outcome.refused, trial.finished, trial.bytes), (280, 280, 280 * 20_000));
            assert!(trial.completion_s.is_some() && outcome.evictions == 0);
        }
    }
}

#[test]
fn switches_learn_vms_once_a_vlan_or_only_each_other() {
    let most = |multipath, addresses| run(BridgedWorld { multipath, addresses, ..world(TWO_LEVEL, 20, 1 << 20) }).fib_most;
    let plain = most(Multipath::SpanningTree, Addresses::Vm);
    assert_eq!(plain, 160, "all VMs at the root");
    assert!(most(Multipath::Spain(SPAIN), Addresses::Vm) > 2 * plain);
    // Three other switches in each of four VLANs, and two servers.
    assert_eq!(most(Multipath::Spain(SPAIN), Addresses::Edge), 14);
    assert_eq!(most(Multipath::SpanningTree, Addresses::Host), 8);
}

/// Where both ends of a transfer choose for themselves, a switch learns the receiver on the transfer's VLAN by chirps.
#[test]
fn agents_that_choose_for_themselves_need_chirps() {
    let floods = |returns, addresses, entries| {
        let mut world = BridgedWorld { multipath: Multipath::Spain(SPAIN), returns, addresses, ..world(TWO_LEVEL, 5, entries) };
        world.load.bytes = Bytes(200_000);
        let outcome = run_and_balance(world);
        assert_eq!(outcome.trials[0].finished, 280);
        outcome.trials[0].floods
    };
    let own = |ms| Returns::Own { chirp: Duration::from_ms(ms) };
    let [same, first, edge] =
        [(Returns::Same, Addresses::Vm), (own(1_000_000), Addresses::Vm), (own(1_000_000), Addresses::Edge)]
            .map(|(returns, addresses)| floods(returns, addresses, 10_000));
    assert!(first > 1.2 * same, "{same} {first}");
    assert!(edge < 0.5 * first, "{edge} {first}");
    // In a table that is too small what only chirps show is soon forgotten.
    let [same, often, first] = [Returns::Same, own(1), own(1_000_000)].map(|r| floods(r, Addresses::Vm, 40));
    assert!(often > same && first > 1.2 * often, "{same} {often} {first}");
}

#[test]
fn where_addresses_do_not_fit_plain_floods_and_netlord_does_not() {
    let of = |multipath, addresses| run(BridgedWorld { multipath, addresses, ..world(TWO_LEVEL, 40, 64) });
    let plain = of(Multipath::SpanningTree, Addresses::Vm);
    let netlord = of(Multipath::Spain(SPAIN), Addresses::Edge);
    assert!(plain.evictions > 1_000 && netlord.evictions == 0);
    assert!(plain.trials[0].floods > 50.0 * netlord.trials[0].floods, "{:?} {:?}", plain.trials, netlord.trials);
    let goodput = |o: &BridgedOutcome| o.trials[0].bytes as f64 / o.trials[0].seconds;
    assert!(goodput(&netlord) > 2.0 * goodput(&plain));
}

/// NetLord, table 1: with R edge switches and R / 2 cores a table needs R^2 / 2 entries, when all send to all.
#[test]
fn netlord_floods_for_want_of_entries_above_the_limit_and_not_at_it() {
    let at = |radix: u32, entries: u32| {
        let mut world = world(Shape::two_level_of_ports(radix), 60, entries);
        world.load =
            Load { bytes: Bytes(200_000), duration: Duration::from_ms(400), warmup: Duration::from_ms(100), ..world.load };
        let outcome = run(BridgedWorld { multipath: Multipath::Spain(SPAIN), addresses: Addresses::Edge, ..world });
        (outcome.evictions, outcome.trials[0].floods, outcome.fib_most)
    };
    let (evictions, floods, most) = at(6, 18);
    assert_eq!((evictions, floods, most), (0, 0.0, 18), "at the limit");
    let (evictions, floods, _) = at(6, 17);
    assert!(evictions > 0 && floods > 0.0, "an entry too few");
    let (evictions, floods, _) = at(8, 18);
    assert!(evictions > 0 && floods > 0.0, "two switches too many");
}

#[test]
fn trials_find_empty_tables_and_the_same_outcome_comes_again() {
    let world = || {
        let world = world(TWO_LEVEL, 10, 1_000);
        BridgedWorld { load: Load { trials: 3, ..world.load }, ..world }
    };
    let outcome = run(world());
    assert_eq!(outcome.trials.len(), 3);
    let [a, b, c] = [0, 1, 2].map(|i| outcome.trials[i].floods);
    assert!(a > 0.0 && (b - a).abs() < 0.3 * a && (c - a).abs() < 0.3 * a, "{a} {b} {c}");
    assert_eq!(run(world()), outcome);
    // Without the gap nothing is forgotten.
    let mut warm = world();
    warm.load.gap = Duration::ZERO;
    let warm = run(warm);
    assert!(warm.trials[1].floods < 0.1 * warm.trials[0].floods, "{:?}", warm.trials);
}

/// Addresses share buckets before the table is full.
#[test]
fn a_table_of_few_ways_forgets_before_it_is_full() {
    let of = |ways| {
        let mut world = world(TWO_LEVEL, 20, 192);
        world.fib.ways = ways;
        let outcome = run_and_balance(world);
        (outcome.evictions, outcome.trials[0].floods, outcome.trials[0].finished)
    };
    let [any, four, one] = [None, Some(4), Some(1)].map(of);
    assert_eq!(any.0, 0, "160 VMs fit");
    assert!(four.0 > 0 && one.0 > four.0 && one.1 > four.1 && four.1 > any.1, "{any:?} {four:?} {one:?}");
    assert!([any, four, one].iter().all(|it| it.2 == 20 * 56));
    let mut odd = world(TWO_LEVEL, 1, 10);
    odd.fib.ways = Some(4);
    assert_eq!(odd.check(), Err(BridgedError::Associativity { entries: 10, ways: 4 }));
}

#[test]
fn a_slow_processor_floods_for_longer() {
    let floods = |learn_rate| {
        let mut world = world(TWO_LEVEL, 10, 1_000);
        world.fib.learn_rate = learn_rate;
        run(world).trials[0].floods
    };
    assert!(floods(Some(2_000)) > 3.0 * floods(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 24 / 256))]
    #[test]
    fn whatever_is_sent_comes_to_an_end(
        scheme in 0usize..4, tenants in 1u32..12, entries in 0u32..60, bytes in 1u64..60_000, incoming in 1u32..4, ms in 1u64..200,
        queue in 5_000u64..60_000, delays: bool, seed: u64,
    ) {
        let (multipath, addresses) = SCHEMES[scheme];
        let mut world = world(TWO_LEVEL, tenants, entries);
        world.load = Load { bytes: Bytes(bytes), incoming, duration: Duration::from_ms(ms), trials: 2, ..world.load };
        world.packet.switch_queue = SwitchQueue::Fixed(Bytes(queue));
        world.packet.transport.delayed_ack = delays.then_some(Duration::from_ms(1));
        let outcome = run_and_balance(BridgedWorld { multipath, addresses, seed, ..world });
        for trial in &outcome.trials {
            prop_assert!(trial.finished <= trial.begun && trial.bytes <= u64::from(tenants) * 56 * bytes);
            prop_assert_eq!(trial.completion_s.is_some(), trial.finished == u64::from(tenants) * 56);
        }
        prop_assert!(outcome.fib_most <= u64::from(entries));
    }
}

#[test]
fn vms_of_a_server_share_its_nic_and_lose_nothing_there() {
    // 200 VMs a server send 14 segments each at once: 2,800 packets.
    let drops = |nic_queue| {
        let mut world = world(Shape::Switch { hosts: 4 }, 200, 10_000);
        world.packet.nic_queue = nic_queue;
        let fabric = Arc::clone(&world.fabric);
        let outcome = run(world);
        assert_eq!(outcome.trials[0].finished, 4 * 3 * 200);
        let of_hosts = outcome.links.iter().filter(|l| fabric.as_host(fabric.link(l.id).from).is_some());
        of_hosts.map(|l| l.drops).sum::<u64>()
    };
    assert_eq!(drops(None), 0);
    assert!(drops(Some(Bytes(150_000))) > 0);
}
