//! Routes, large flows and their rules, over switches that come and go.

use super::*;

#[test]
fn every_host_reaches_every_other_by_every_choice() {
    let world = World::new(fat_tree(4), None);
    assert_eq!(world.network.status().installed, 20);
    for (src, dst) in (0..16).flat_map(|s| (0..16).map(move |d| (s, d))).filter(|(s, d)| s != d) {
        let paths: BTreeSet<Path> = (0..8).filter_map(|pick| world.carry(key(src, dst), pick)).collect();
        assert_eq!(paths.iter().map(|p| p.len()).max(), paths.iter().map(|p| p.len()).min());
        assert!(!paths.is_empty(), "{src} to {dst}");
        if src / 4 != dst / 4 {
            // All switches pick alike here, so two of the four cores are seen.
            assert!(paths.len() >= 2, "{src} to {dst}");
        }
    }
}

#[test]
fn two_large_flows_that_collide_are_placed_apart() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let flows = [key(0, 8), key(1, 12)];
    for second in 1..=3 {
        let age = Duration::from_secs(second);
        flows.iter().for_each(|&f| world.count(f, 100_000_000 * second, age));
        world.wait(Duration::from_secs(1));
    }
    let placed: Vec<Placement> = world.network.placements().collect();
    assert_eq!(placed.len(), 2);
    for placement in &placed {
        // Whatever the hash: the rules decide at each switch that has a choice.
        assert!((0..4).all(|pick| world.carry(placement.flow, pick).as_ref() == Some(&placement.path)));
    }
    let shared = placed[0].path[1..5].iter().filter(|l| placed[1].path.contains(l)).count();
    assert_eq!(shared, 0, "each has its own links");
    // Two entries a flow (section 6.4.5): edge and aggregation.
    let entries = world.switches.iter().flat_map(|s| &s.flows).filter(|f| f.priority == 100).count();
    assert_eq!(entries, 4);
}

#[test]
fn a_flow_that_ends_leaves_no_rule() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let flow = key(0, 8);
    world.count(flow, 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(1));
    assert_eq!(world.network.placements().len(), 1);
    let edge = world.network.identities.edge_of(flow.src);
    let removed = FlowRemoved {
        cookie: 0,
        priority: 1,
        reason: FlowRemovedReason::IdleTimeout,
        table: 1,
        idle_timeout: 10,
        hard_timeout: 0,
        statistics: Statistics::default(),
        matching: placed_match(&world.network.identities, flow),
    };
    world.step(Input::Received(edge, Message { xid: 0, body: Body::FlowRemoved(removed) }));
    assert_eq!(world.network.placements().len(), 0);
    assert!(world.switches.iter().flat_map(|s| &s.flows).all(|f| f.priority != 100));
}

#[test]
fn a_connection_that_ended_while_its_switch_was_away_is_forgotten() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let flow = key(0, 8);
    world.count(flow, 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(1));
    let edge = world.network.identities.edge_of(flow.src);
    world.step(Input::Down(edge));
    world.wait(Duration::from_secs(2));
    assert_eq!(world.network.placements().len(), 1, "its rules are there, and it may go on");
    world.switches[edge.index()].counters.clear();
    world.step(Input::Up(edge, Version::V15));
    world.wait(Duration::from_secs(2));
    assert_eq!(world.network.placements().len(), 0);
    assert!(world.switches.iter().flat_map(|s| &s.flows).all(|f| f.priority != 100));
}

#[test]
fn a_new_scheduler_learns_placed_flows_and_changes_nothing() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    world.count(key(0, 8), 500_000_000, Duration::from_secs(1));
    world.count(key(5, 13), 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(1));
    let before: Vec<Placement> = world.network.placements().collect();
    let groups: Vec<_> = world.switches.iter().map(|s| s.groups.clone()).collect();
    assert_eq!(before.len(), 2);
    world.restart(None);
    assert_eq!(world.network.placements().collect::<Vec<_>>(), before);
    assert_eq!(world.switches.iter().map(|s| s.groups.clone()).collect::<Vec<_>>(), groups);
    for placement in before {
        assert_eq!(world.carry(placement.flow, 3), Some(placement.path));
    }
}

#[test]
fn a_new_scheduler_with_rounds_moves_no_placed_flow() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    // The first of two that would share an uplink, and others, end: with an empty memory the second would take its path.
    let (ended, kept) = ([key(0, 8), key(4, 12)], [key(1, 9), key(5, 13)]);
    let ages = |world: &mut World, flows: &[FlowKey], second: u64| {
        flows.iter().for_each(|&f| world.count(f, 125_000_000 * second, Duration::from_secs(second)));
        world.wait(Duration::from_secs(1));
    };
    ages(&mut world, &[ended, kept].concat(), 1);
    assert_eq!(world.network.placements().len(), 4);
    world.switches.iter_mut().for_each(|switch| switch.counters.clear());
    ages(&mut world, &kept, 2);
    let before: Vec<Placement> = world.network.placements().collect();
    assert_eq!(before.iter().map(|p| p.flow).collect::<Vec<_>>(), kept);
    world.restart(Some(first_fit()));
    world.switches.iter_mut().for_each(|switch| switch.changes = 0);
    for second in 3..6 {
        ages(&mut world, &kept, second);
    }
    assert_eq!(world.switches.iter().map(|s| s.changes).sum::<usize>(), 0, "no rule is sent");
    assert_eq!(world.network.placements().collect::<Vec<_>>(), before);
    // A new one takes what is free.
    world.count(key(0, 8), 125_000_000, Duration::from_secs(1));
    ages(&mut world, &kept, 6);
    let paths: Vec<Placement> = world.network.placements().collect();
    assert_eq!((paths.len(), &paths[1..]), (3, &before[..]));
    assert!(!paths[0].path[1..5].iter().any(|link| paths[1].path.contains(link)));
}

#[test]
fn what_is_learnt_is_handed_over_once() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let (goes_on, ended) = (key(0, 8), key(5, 13));
    [goes_on, ended].into_iter().for_each(|flow| world.count(flow, 500_000_000, Duration::from_secs(1)));
    world.wait(Duration::from_secs(1));
    let mut expected: Vec<Heard> = world.network.placements().map(|p| Heard::Placed(p.flow, p.path)).collect();
    assert_eq!(expected.len(), 2);
    let edge = world.network.identities.edge_of(ended.src);
    world.switches[edge.index()].counters.clear();
    let heard = Arc::default();
    let mut network = World::without_switches(Arc::clone(&world.fabric), None).network;
    let hedera = Hedera::new(Arc::clone(&world.fabric), first_fit()).unwrap();
    network.controller = Some(Box::new(Recorder(hedera, Arc::clone(&heard))));
    world.restart_with(network);
    assert_eq!(*heard.lock().unwrap(), expected, "before the first round");
    // One that ended is forgotten once the counters of its switch are known.
    world.wait(Duration::from_secs(2));
    expected.push(Heard::Removed(ended));
    assert_eq!(*heard.lock().unwrap(), expected);
    for switch in world.fabric.switches() {
        world.step(Input::Down(switch));
        world.step(Input::Up(switch, Version::V15));
    }
    world.wait(Duration::from_secs(2));
    assert_eq!(*heard.lock().unwrap(), expected, "switches that come again have nothing new");
}

#[test]
fn a_new_scheduler_does_not_take_the_past_of_a_connection_for_its_rate() {
    // One that starts, and a standby whose clock has run for long.
    for now in [0, 100] {
        let mut world = World::new(fat_tree(4), None);
        let (large, acks) = (key(0, 8), key(8, 0));
        world.now = Instant::ZERO + Duration::from_secs(now);
        let mut network = World::without_switches(Arc::clone(&world.fabric), Some(first_fit())).network;
        // The first round of a standby is due at once, before any switch has answered.
        network.handle(world.now, Input::Timer);
        world.restart_with(network);
        for second in 0..4 {
            // 500 Mbps, and a fiftieth of it back, for 50 s already.
            let age = Duration::from_secs(50 + second);
            world.count(large, 62_500_000 * (50 + second), age);
            world.count(acks, 1_250_000 * (50 + second), age);
            world.wait(Duration::from_secs(1));
        }
        assert_eq!(world.network.placements().map(|p| p.flow).collect::<Vec<_>>(), [large], "{now}");
    }
}

#[test]
fn connections_of_a_switch_that_comes_late_have_no_rate_yet() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let (acks, edge) = (key(0, 8), world.network.identities.edge_of(HostId(0)));
    world.step(Input::Down(edge));
    world.wait(Duration::from_secs(50));
    world.step(Input::Up(edge, Version::V15));
    for second in 0..3 {
        world.count(acks, 1_250_000 * (45 + second), Duration::from_secs(45 + second));
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.network.placements().len(), 0);
}

#[test]
fn rules_of_another_fabric_are_removed() {
    let mut world = World::without_switches(fat_tree(4), None);
    let stale = Match::of([Field::eth_type(0x0800), Field::ipv4_dst(Ipv4Addr::new(10, 9, 9, 9))]);
    let mut flow = FlowMod::add(2, 32, stale, Vec::new());
    flow.cookie = 0x5745_4654 << 32 | 1;
    world.switches[0].flows.push(flow);
    world.restart(None);
    assert!(world.switches[0].flows.iter().all(|f| f.matching.ipv4(FieldId::IPV4_DST) != Some(Ipv4Addr::new(10, 9, 9, 9))));
}

#[test]
fn a_switch_with_a_later_master_is_left_alone() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let (flow, edge) = (key(0, 8), world.network.identities.edge_of(HostId(0)));
    world.switches[edge.index()].superseded = true;
    let error = ErrorMessage { kind: 1, code: 10, data: Vec::new() };
    world.step(Input::Received(edge, Message { xid: 0, body: Body::Error(error) }));
    world.switches[edge.index()].changes = 0;
    world.count(flow, 500_000_000, Duration::from_secs(1));
    world.count(key(8, 0), 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(3));
    assert_eq!(world.switches[edge.index()].changes, 0);
    assert_eq!(world.network.status().superseded, [edge]);
    // It comes again, and the master is still there.
    world.step(Input::Down(edge));
    world.step(Input::Up(edge, Version::V13));
    assert_eq!((world.switches[edge.index()].changes, world.network.status().superseded), (0, vec![edge]));
}

#[test]
fn a_mute_switch_costs_its_own_flows_alone() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let mute = world.network.identities.edge_of(HostId(0));
    world.switches[mute.index()].mute = true;
    world.count(key(0, 8), 500_000_000, Duration::from_secs(1));
    world.count(key(5, 13), 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(3));
    let placed: Vec<FlowKey> = world.network.placements().map(|p| p.flow).collect();
    assert_eq!(placed, [key(5, 13)]);
    assert!(world.network.status().late_rounds > 0);
    world.wait(Duration::from_secs(100));
    assert!(world.network.switches[mute.index()].pending.len() <= 1, "what it never answers is not kept");
}

#[test]
fn an_answer_that_cannot_be_read_is_not_waited_for() {
    let mut world = World::without_switches(fat_tree(4), Some(first_fit()));
    let id = world.network.identities.edge_of(HostId(0));
    world.switches[id.index()].mute = true;
    world.step(Input::Up(id, Version::V15));
    let asked: Vec<u32> = world.network.switches[id.index()].pending.keys().copied().collect();
    assert_eq!((asked.len(), world.network.status().installed), (3, 0));
    asked.into_iter().for_each(|xid| world.step(Input::Unreadable(id, xid)));
    assert_eq!(world.network.status().installed, 1, "it gets all rules, as if it had none");
    world.wait(Duration::from_ms(1001));
    let asked: Vec<u32> = world.network.switches[id.index()].pending.keys().copied().collect();
    asked.into_iter().for_each(|xid| world.step(Input::Unreadable(id, xid)));
    assert_eq!((world.network.status().late_rounds, world.network.reading.is_none()), (0, true));
}
