//! Servers with two interfaces to the fabric (section 3.7).

use super::*;
use crate::wire::netlord::{Here, NlArp, NotHere, Unicast};

const TENANTS: &str = "version = 1\n[[tenant]]\nid = 7\nname = \"a\"\n[[tenant]]\nid = 8\nname = \"b\"\n";
const OTHER: UplinkId = UplinkId(1);

fn homes(world: &World, agent: usize) -> Vec<Option<u8>> {
    world.agents[agent].vifs().map(|(_, _, _, uplink)| uplink.map(|it| it.0)).collect()
}

/// Four VMs on server 0, one on each of the others.
fn world() -> World {
    let mut world = World::with_nics(2, 4, TENANTS);
    for n in 1..=4 {
        world.attach(0, n.into(), vif(7, 1, n), &[ip(0, n)]);
    }
    for agent in 1..4u8 {
        world.attach(agent.into(), 10 + u32::from(agent), vif(7, 1, 10 + agent), &[ip(0, 10 + agent)]);
    }
    world
}

fn frame(from: u8, to: u8) -> Vec<u8> {
    udp(mac(from), mac(to), ip(0, from), ip(0, to), 80, b"hello")
}

#[test]
fn vms_are_spread_and_each_sends_by_its_own_interface() {
    let mut world = world();
    assert_eq!(homes(&world, 0), [Some(0), Some(1), Some(0), Some(1)]);
    for n in 1..=4u8 {
        world.wire.clear();
        world.send(0, n.into(), &frame(n, 13));
        assert_eq!(world.take(), [(3, 13, frame(n, 13))]);
        let it = Encapsulation::parse(&world.wire[0]).unwrap();
        assert_eq!((it.src, it.dst), (place_of(0, (n + 1) % 2).switch, place(3).switch), "from the switch of its interface");
        // And the answer comes to that one, which hears the path.
        world.send(3, 13, &frame(13, n));
        assert_eq!(world.take(), [(0, n.into(), frame(13, n))]);
        assert_eq!(world.agents[0].chooser.by, Some(UplinkId((n + 1) % 2)));
    }
    // On one server, and on one switch: agent 1's VM is at the first interface, beside agent 0's.
    world.wire.clear();
    world.send(0, 1, &frame(1, 2));
    assert_eq!((world.take().len(), world.wire.len()), (1, 0), "from one interface's VM to another's");
    world.send(0, 1, &frame(1, 11));
    world.send(0, 2, &frame(2, 11));
    assert_eq!(world.take().len(), 2);
    let tags: Vec<_> = world.wire.iter().map(|it| Encapsulation::parse(it).unwrap().tag.is_some()).collect();
    assert_eq!(tags, [false, true], "over the switch, and over the fabric to it");
}

/// The places come one after the other, and so do interfaces that are there again.
#[test]
fn an_interface_that_comes_takes_its_share() {
    let mut world = world();
    world.plug(0, 1, false);
    assert_eq!(homes(&world, 0), [Some(0); 4]);
    assert_eq!(world.agents[0].chooser.lost, [OTHER]);
    world.plug(0, 1, true);
    let mut back = homes(&world, 0);
    back.sort_unstable();
    assert_eq!(back, [Some(0), Some(0), Some(1), Some(1)]);
    // An address that is learnt moves nobody.
    let before = homes(&world, 0);
    world.send(0, 1, &arp_request(mac(1), ip(3, 3), ip(3, 3)));
    assert_eq!(homes(&world, 0), before);
    world.plug(0, 0, false);
    world.plug(0, 1, false);
    assert_eq!(homes(&world, 0), [None; 4]);
}

#[test]
fn what_is_for_all_comes_once_and_not_back() {
    for cut in [None, Some(SPECIAL), Some(SECOND)] {
        let mut world = world();
        world.cut = cut;
        let broadcast = plain(mac(1), BROADCAST, 0x8892, b"to all");
        let to = |agents: &[usize]| -> Vec<_> {
            let here = (2..=4).map(|n| (0, n, broadcast.clone()));
            here.chain(agents.iter().map(|&agent| (agent, 10 + agent as u32, broadcast.clone()))).collect()
        };
        for _ in 0..3 {
            world.send(0, 1, &broadcast);
            assert_eq!(world.take(), to(&[1, 2, 3]), "{cut:?}");
        }
        // Interface by interface, at the sender's and at a receiver's.
        for (agent, nic) in [(0, 0), (0, 1), (2, 0), (2, 1)] {
            world.plug(agent, nic, false);
            world.send(0, 1, &broadcast);
            assert_eq!(world.take(), to(&[1, 2, 3]), "{cut:?} without {nic} of {agent}");
            world.plug(agent, nic, true);
            world.advance(Duration::from_secs(2));
        }
        // Before the agent sees that a cable is cut, the other interface has it too.
        world.unplugged.insert((2, 0));
        world.send(0, 1, &broadcast);
        assert_eq!(world.take(), to(&[1, 2, 3]), "{cut:?}");
        assert!(world.agents.iter().all(|agent| agent.counts().copies > 0));
    }
}

#[test]
fn what_an_agent_says_and_hears_by_its_other_interface_is_no_news() {
    let mut world = world();
    // No agent has taken itself for another.
    for (n, own) in [4, 1, 1, 1].into_iter().enumerate() {
        assert_eq!(world.agents[n].locations().table().len(), 7 - own, "agent {n} knows the others' and not its own");
        let counts = world.agents[n].locations().counts();
        assert_eq!((counts.not_heres, counts.not_heres_sent, counts.stale), (0, 0, 0));
    }
    // A VM that has moved away is looked for elsewhere, and not here.
    world.send(0, 1, &frame(1, 2));
    world.take();
    world.input(0, Input::Detach(VifId(2)));
    world.attach(3, 20, vif(7, 1, 2), &[ip(0, 2)]);
    world.send(0, 1, &frame(1, 2));
    assert_eq!(world.take(), [(3, 20, frame(1, 2))]);
    // An agent that asks hears its own question, and no answer of its own.
    world.send(0, 1, &frame(1, 99));
    world.advance(Duration::from_secs(3));
    let counts = world.agents[0].locations().counts();
    assert_eq!((counts.answers_sent, counts.wheres), (0, 0));
}

/// What stands for this server's other interface is corrected without a frame to itself.
#[test]
fn a_stale_place_that_is_ones_own_is_corrected() {
    let mut world = world();
    world.deaf.extend(0..4);
    world.input(3, Input::Detach(VifId(13)));
    world.attach(2, 30, vif(7, 1, 13), &[ip(0, 13)]);
    world.deaf.clear();
    // As if it had been behind the other interface of server 0.
    let at = place_of(0, 1);
    let here = Unicast::Here { vif: vif(7, 1, 13), at, ip4: None, answers: None };
    world.agents[0].locations.handle(Instant::ZERO, LocationInput::Unicast(here));
    world.send(0, 1, &frame(1, 13));
    world.advance(Duration::from_secs(1));
    world.send(0, 1, &frame(1, 13));
    assert!(world.take().contains(&(2, 30, frame(1, 13))));
    // A frame of this server's that has come to its other interface for nobody: the correction is for itself.
    let sender = Query::vif(vif(7, 1, 1));
    let missing = vif(7, 1, 77);
    let here = Unicast::Here { vif: missing, at, ip4: None, answers: None };
    world.agents[0].locations.handle(Instant::ZERO, LocationInput::Unicast(here));
    world.agents[0].locations.handle(world.now, LocationInput::Misdelivered { vif: missing, here: at, sender });
    world.wire.clear();
    world.input(0, Input::Timer);
    let known = world.agents[0].locations().table().find(missing);
    assert_eq!(known, None);
    assert!(world.wire.iter().all(|frame| NlArp::parse(frame).is_ok()), "nothing but the question where it is");
}

#[test]
fn misdelivery_is_reported_of_the_interface_that_it_came_to() {
    let mut world = world();
    world.send(3, 13, &frame(13, 2));
    world.take();
    assert_eq!(world.agents[3].locations().table().find(vif(7, 1, 2)), Some(place_of(0, 1)));
    world.deaf.insert(3);
    world.input(0, Input::Detach(VifId(2)));
    world.attach(1, 20, vif(7, 1, 2), &[ip(0, 2)]);
    world.deaf.clear();
    for _ in 0..2 {
        world.send(3, 13, &frame(13, 2));
        world.advance(Duration::from_ms(200));
    }
    assert!(world.take().contains(&(1, 20, frame(13, 2))), "found again");
    assert_eq!(world.agents[3].locations().counts().stale, 1);
    // Somebody else's word about another place of the VIF deletes nothing.
    let wrong = NlArp::NotHere(NotHere { vif: vif(7, 1, 1) });
    let mut out = Vec::new();
    wrong.emit(place_of(0, 1), VlanId::new(SPECIAL).unwrap(), &mut out);
    world.input(3, Input::FromFabric { uplink: OTHER, frame: &out });
    assert_eq!(world.agents[3].locations().table().find(vif(7, 1, 1)), Some(place(0)));
    let moved = NlArp::Here(Here { vif: vif(7, 1, 1), ip4: None, ip6: None });
    out.clear();
    moved.emit(place_of(0, 1), VlanId::new(SPECIAL).unwrap(), &mut out);
    world.input(3, Input::FromFabric { uplink: UPLINK, frame: &out });
    assert_eq!(world.agents[3].locations().table().find(vif(7, 1, 1)), Some(place_of(0, 1)));
}

#[test]
fn a_cut_cable_moves_its_vms_and_their_peers_know_at_once() {
    let mut world = world();
    for n in 1..=4u8 {
        world.send(3, 13, &frame(13, n));
        world.send(0, n.into(), &frame(n, 13));
    }
    world.take();
    world.maps.clear();
    world.plug(0, 0, false);
    assert_eq!(homes(&world, 0), [Some(1); 4]);
    let moved: Vec<_> = world
        .maps
        .iter()
        .filter_map(|it| match it {
            (3, MapChange::Remote { vif, at }) => Some((vif.mac, *at)),
            _ => None,
        })
        .collect();
    assert!(moved.contains(&(mac(1), Some(place_of(0, 1)))) && moved.contains(&(mac(3), Some(place_of(0, 1)))), "{moved:?}");
    let lost = world.lost;
    for n in 1..=4u8 {
        world.send(3, 13, &frame(13, n));
        world.send(0, n.into(), &frame(n, 13));
        assert_eq!(world.take(), [(0, n.into(), frame(13, n)), (3, 13, frame(n, 13))]);
    }
    assert_eq!(world.lost, lost, "nothing goes to the old place");
    // The same when it is the switch that is silent.
    let soon = lldp(place_of(0, 1), 2);
    world.plug(0, 0, true);
    world.input(0, Input::FromFabric { uplink: OTHER, frame: &soon });
    world.advance(Duration::from_secs(3));
    world.input(0, Input::Timer);
    assert_eq!(homes(&world, 0), [Some(0); 4]);
    assert!(world.agents[0].location(OTHER).is_none());
}

#[test]
fn a_chirp_leaves_and_is_answered_by_the_interface_that_it_is_about() {
    let mut world = World::with_nics(2, 4, TENANTS);
    let vlan = VlanId::new(3).unwrap();
    for (by, to) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        world.wire.clear();
        let chirp = Chirp { by: UplinkId(by), to: place_of(3, to), vlan, is_answer: false };
        world.agents[0].chooser.chirps.push_back(chirp);
        world.input(0, Input::Timer);
        let ends: Vec<_> = world.wire.iter().map(|it| Encapsulation::parse(it).unwrap()).map(|it| (it.src, it.dst)).collect();
        let (here, there) = (place_of(0, by).switch, place_of(3, to).switch);
        assert_eq!(ends, [(here, there), (there, here)]);
        assert_eq!(world.agents[0].chooser.by, Some(UplinkId(by)));
        assert_eq!(world.agents[3].chooser.by, Some(UplinkId(to)));
    }
    // An interface without a place has nothing to say.
    world.plug(0, 1, false);
    world.wire.clear();
    world.agents[0].chooser.chirps.push_back(Chirp { by: OTHER, to: place(3), vlan, is_answer: false });
    world.input(0, Input::Timer);
    assert_eq!(world.wire.len(), 0);
}

/// The asker takes it for a sign of life of the path from that place.
#[test]
fn an_answer_leaves_by_the_interface_that_it_names() {
    let mut world = World::with_nics(2, 4, TENANTS);
    world.deaf.insert(3);
    for n in 1..=2 {
        world.attach(0, n.into(), vif(7, 1, n), &[]);
    }
    world.deaf.clear();
    world.attach(3, 13, vif(7, 1, 13), &[]);
    for n in 1..=2u8 {
        world.wire.clear();
        world.send(3, 13, &frame(13, n));
        assert_eq!(world.take(), [(0, n.into(), frame(13, n))]);
        let mut sent = world.wire.iter().filter_map(|it| Encapsulation::parse(it).ok());
        let answer = sent.find(|it| it.overlay.tenant == PROVIDER).expect("an answer");
        assert_eq!(answer.src, place_of(0, n - 1).switch);
    }
    // And so does word that a VM is not there.
    world.deaf.insert(3);
    world.input(0, Input::Detach(VifId(2)));
    world.deaf.clear();
    world.wire.clear();
    world.send(3, 13, &frame(13, 2));
    let mut sent = world.wire.iter().filter_map(|it| Encapsulation::parse(it).ok());
    let correction = sent.find(|it| it.overlay.tenant == PROVIDER).expect("a correction");
    assert_eq!(correction.src, place_of(0, 1).switch);
}

/// Both interfaces at one switch.
#[test]
fn two_interfaces_at_one_switch_are_two_places() {
    let mut world = World::with_nics(2, 2, TENANTS);
    let second = Location { switch: place(0).switch, port: EdgePort::new(9).unwrap() };
    world.input(0, Input::FromFabric { uplink: OTHER, frame: &lldp(second, 60) });
    let agent = &mut world.agents[0];
    for n in 1..=2 {
        agent.handle(Instant::ZERO, Input::Attach { id: VifId(n.into()), vif: vif(7, 1, n), addresses: vec![ip(0, n)] });
    }
    while agent.poll().is_some() {}
    agent.locations.handle(
        Instant::ZERO,
        LocationInput::Unicast(Unicast::Here { vif: vif(7, 1, 3), at: place(1), ip4: None, answers: None }),
    );
    for (n, hardware) in [(1, hardware_of(0, 0)), (2, hardware_of(0, 1))] {
        agent.handle(Instant::ZERO, Input::FromVif { id: VifId(n.into()), frame: &frame(n, 3) });
        let sent = std::iter::from_fn(|| agent.poll()).find_map(|it| match it {
            Output::ToFabric { uplink, frame } => Some((uplink.0 + 1, frame)),
            _ => None,
        });
        let (by, sent) = sent.expect("it is sent");
        let it = Encapsulation::parse(&sent).unwrap();
        assert_eq!((by, it.src, it.tag), (n, hardware, None), "by its own interface, with that one's address");
    }
}
