//! Cables that fail, return or are swapped, and ports.

use proptest::prelude::*;

use super::*;

#[test]
fn a_failed_cable_moves_its_flows_and_the_default_routes() {
    let mut world = World::new(fat_tree(4), Some(first_fit()));
    let flow = key(0, 8);
    world.count(flow, 500_000_000, Duration::from_secs(1));
    world.wait(Duration::from_secs(1));
    let path = world.network.placements().next().unwrap().path;
    // From the core down: no switch before it sees its own port fail.
    let down = path[3];
    world.set_cable(down, false);
    for pick in 0..8 {
        let now = world.carry(flow, pick).expect("it was moved");
        assert!(!now.contains(&down));
        assert!(world.carry(key(2, 9), pick).is_some_and(|p| !p.contains(&down)), "flows that are hashed avoid it as well");
    }
    world.set_cable(down, true);
    let all: BTreeSet<Path> = (0..8).filter_map(|pick| world.carry(key(2, 9), pick)).collect();
    assert!(all.len() >= 2);
}

/// The links between two tiers, upwards.
fn upward(world: &World, from: &str) -> Vec<LinkId> {
    let node = |node| world.fabric.node(node);
    let links = world.fabric.links().iter().enumerate();
    let is_up = |link: &Link| node(link.from).name.starts_with(from) && node(link.to).tier > node(link.from).tier;
    links.filter(|(_, link)| is_up(link)).map(|(i, _)| LinkId::from(i)).collect()
}

#[test]
fn swapped_cables_are_named_and_not_used_until_they_are_right() {
    let mut world = World::without_switches(fat_tree(4), Some(first_fit()));
    let up = upward(&world, "agg");
    // Of two aggregation switches, to different cores.
    let (a, b) = (up[0], *up.iter().find(|&&l| world.fabric.link(l).to != world.fabric.link(up[0]).to).unwrap());
    world.swap(a, b);
    world.restart(Some(first_fit()));
    let mut wrong = vec![[a, b.reverse()], [b, a.reverse()]];
    wrong.iter_mut().for_each(|pair| pair.sort());
    wrong.sort();
    assert_eq!((world.network.status().miscabled, world.network.status().failed_cables), (wrong, 2));
    for (src, dst, pick) in (0..16).flat_map(|s| (0..16).map(move |d| (s, d))).flat_map(|(s, d)| (0..4).map(move |p| (s, d, p))) {
        if src != dst {
            let path = world.carry(key(src, dst), pick).expect("everything is reached on other ways");
            assert!(!path.iter().any(|link| [a.cable(), b.cable()].contains(&link.cable())));
        }
    }
    // Plugged in again as they should be: the ports go down and up.
    for link in [a, b] {
        world.set_cable(link, false);
    }
    world.wires.clear();
    for link in [a, b] {
        world.set_cable(link, true);
    }
    assert_eq!((world.network.status().miscabled, world.network.status().failed_cables), (Vec::new(), 0));
}

#[test]
fn a_cable_that_is_moved_while_ports_stay_up_is_found_within_an_interval() {
    let mut world = World::new(fat_tree(4), None);
    assert_eq!(world.network.status().miscabled.len(), 0);
    let up = upward(&world, "edge");
    let (a, b) = (up[0], up[3]);
    world.swap(a, b);
    world.wait(Duration::from_secs(16));
    assert_eq!((world.network.status().miscabled.len(), world.network.status().failed_cables), (2, 2));
    world.wires.clear();
    world.wait(Duration::from_secs(16));
    assert_eq!((world.network.status().miscabled.len(), world.network.status().failed_cables), (0, 0));
}

#[test]
fn a_cable_over_which_nothing_is_heard_is_reported_and_used() {
    let mut world = World::new(fat_tree(4), None);
    let link = upward(&world, "agg")[0];
    world.wires.insert(link, None);
    world.wait(Duration::from_secs(120));
    assert_eq!((world.network.status().silent, world.network.status().failed_cables), (vec![link.reverse()], 0));
    world.wires.clear();
    world.wait(Duration::from_secs(16));
    assert_eq!(world.network.status().silent, []);
}

#[test]
fn what_others_announce_changes_nothing() {
    let mut world = World::new(fat_tree(4), None);
    let id = world.fabric.switches().next().unwrap();
    let up = upward(&world, "edge")[0];
    let fields = Match::of([Field::in_port(world.network.identities.port(up))]);
    let forged = Announcer::new([3, 4]).frame(crate::openflow::lldp::SwitchPort { datapath: 9, port: 1 }, 45);
    for data in [forged, vec![0; 3], Vec::new()] {
        let packet = PacketIn { buffer: None, length: 60, reason: 1, table: 0, cookie: 0, fields: fields.clone(), data };
        world.step(Input::Received(id, Message { xid: 0, body: Body::PacketIn(packet) }));
    }
    assert_eq!((world.network.status().miscabled, world.network.status().failed_cables), (Vec::new(), 0));
}

#[test]
fn a_port_that_is_no_longer_live_is_not_used() {
    let mut world = World::new(fat_tree(4), None);
    let link = upward(&world, "agg")[0];
    let switch = world.fabric.as_switch(world.fabric.link(link).from).unwrap();
    let (number, other) = (world.network.identities.port(link), 1);
    let mut says = |port: Port| {
        let status = PortStatus { reason: PortReason::Modify, port };
        world.step(Input::Received(switch, Message { xid: 0, body: Body::PortStatus(status) }));
        world.network.status().failed_cables
    };
    let (up, live) = (|n| port(n, true), |n| Port { state: Port::STATE_LIVE, ..port(n, true) });
    assert_eq!(says(up(number)), 0, "a switch that knows nothing of liveness");
    assert_eq!(says(live(other)), 3, "it does, and has not called the other three live");
    assert_eq!(says(live(number)), 2);
    assert_eq!(says(up(number)), 3);
    let down = |n| Port { state: Port::STATE_LIVE | Port::STATE_LINK_DOWN, ..port(n, true) };
    assert_eq!((says(live(number)), says(down(number))), (2, 3));
}

#[test]
fn a_switch_that_lacks_a_port_is_reported() {
    let mut world = World::without_switches(fat_tree(4), None);
    world.switches[0].ports -= 1;
    world.restart(None);
    assert_eq!(world.network.status().missing_ports.len(), 1);
    assert_eq!(world.network.status().failed_cables, 1);
}

#[test]
fn two_switches_of_one_datapath_are_an_error() {
    let fabric = fat_tree(4);
    let hosts = fabric
        .hosts()
        .map(|h| HostIdentity { address: Ipv4Addr::from(0x0a00_0001 + h.0), mac: MacAddr([2, 0, 0, 0, 1, h.0 as u8]) });
    let hosts: Vec<HostIdentity> = hosts.collect();
    let ports: Vec<u32> = (0..fabric.links().len() as u32).map(|l| l + 1).collect();
    let error = Identities::with(Arc::clone(&fabric), vec![7; 20], ports.clone(), hosts.clone()).unwrap_err();
    assert!(matches!(error, IdentityError::SameDatapath { datapath: 7, .. }));
    let error = Identities::with(Arc::clone(&fabric), (1..=20).collect(), vec![1; ports.len()], hosts.clone()).unwrap_err();
    assert!(matches!(error, IdentityError::SamePort { port: 1, .. }));
    let same = vec![hosts[0]; hosts.len()];
    assert!(matches!(Identities::new(fabric, same).unwrap_err(), IdentityError::SameAddress { .. }));
}

proptest! {
    /// However cables between switches are plugged in: those that are wrong are not used, and only those.
    #[test]
    fn the_cables_that_are_wrong_are_known(swaps in proptest::collection::vec((0usize..32, 0usize..32), 0..6)) {
        let mut world = World::without_switches(fat_tree(4), None);
        let between: Vec<LinkId> = ["edge", "agg"].iter().flat_map(|tier| upward(&world, tier)).collect();
        let mut ends: Vec<usize> = (0..between.len()).collect();
        swaps.iter().for_each(|&(a, b)| ends.swap(a % between.len(), b % between.len()));
        for (i, &end) in ends.iter().enumerate() {
            let (link, at) = (between[i], between[end].reverse());
            world.wires.extend([(link, Some(at)), (at, Some(link))]);
        }
        world.restart(None);
        let wrong: BTreeSet<[LinkId; 2]> = ends.iter().enumerate().filter(|(i, end)| i != *end)
            .map(|(i, &end)| [between[i], between[end].reverse()]).map(|[a, b]| [a.min(b), a.max(b)]).collect();
        prop_assert_eq!(world.network.status().failed_cables, wrong.len());
        prop_assert_eq!(world.network.status().miscabled.into_iter().collect::<BTreeSet<_>>(), wrong);
    }

    /// Whatever cables between switches fail and return in whatever order: who is connected is reached, and nothing loops.
    #[test]
    fn failures_leave_connected_hosts_connected(events in proptest::collection::vec((0usize..32, any::<bool>()), 1..12), pick in 0usize..8) {
        let mut world = World::new(fat_tree(4), None);
        let between: Vec<LinkId> = world.fabric.cables().map(|c| c.links()[0])
            .filter(|&l| world.fabric.as_host(world.fabric.link(l).from).is_none() && world.fabric.as_host(world.fabric.link(l).to).is_none())
            .collect();
        for (cable, up) in events {
            world.set_cable(between[cable % between.len()], up);
        }
        let health = world.network.health.clone();
        let mut hops = NextHops::new(Arc::clone(&world.fabric));
        for (src, dst) in (0..16).step_by(3).flat_map(|s| (0..16).map(move |d| (s, d))).filter(|(s, d)| s != d) {
            let (from, to) = (HostId(src), HostId(dst));
            let edge = world.fabric.switch_node(world.network.identities.edge_of(from));
            let target = world.network.identities.edge_of(to);
            let reachable = hops.distance(&health, edge, target).is_some();
            prop_assert_eq!(world.carry(key(src, dst), pick).is_some(), reachable);
        }
    }
}
