//! Addresses that VMs take over from each other, and VIFs that are on two servers.

use super::cases::ROUTED;
use super::*;

/// An address that nobody is configured with.
fn shared() -> IpAddr {
    ip(0, 100)
}

/// Two VMs on different servers, and one that asks.
fn world() -> World {
    let mut world = World::new(3, ROUTED);
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1)]);
    world.attach(2, 2, vif(7, 1, 2), &[ip(0, 2)]);
    world.attach(1, 3, vif(7, 1, 3), &[ip(0, 3)]);
    world
}

fn announce(world: &mut World, agent: usize, id: u32, n: u8, address: IpAddr) {
    world.send(agent, id, &arp_request(mac(n), address, address));
    world.take();
}

/// Who has it, as each agent believes.
fn owners(world: &World, address: IpAddr) -> Vec<Option<Vif>> {
    let query = Query::ip(TenantId(7), MacSpace(1), address);
    world.agents.iter().map(|agent| agent.locations().find(vif(7, 1, 1), query).map(|it| it.vif)).collect()
}

#[test]
fn the_last_to_announce_an_address_has_it() {
    let mut world = world();
    for (agent, id, n) in [(0, 1, 1), (2, 2, 2), (0, 1, 1)] {
        announce(&mut world, agent, id, n, shared());
        assert_eq!(owners(&world, shared()), [Some(vif(7, 1, n)); 3], "all agents");
        world.advance(Duration::from_secs(1));
        world.send(1, 3, &arp_request(mac(3), ip(0, 3), shared()));
        assert_eq!(replied(&world.take()[0].2), Some((shared(), mac(n))));
    }
    let counts = world.agents[0].counts();
    assert_eq!((counts.addresses_taken, counts.addresses_lost, counts.addresses_defended), (1, 1, 0));
    let addresses: Vec<_> = world.agents[2].vifs().map(|(_, _, ips, _)| ips.to_vec()).collect();
    assert_eq!(addresses, [[ip(0, 2)]], "who has lost it does not speak for it");
}

#[test]
fn an_answer_to_all_announces_and_a_question_does_not() {
    let mut world = world();
    announce(&mut world, 0, 1, 1, shared());
    // The former holder looks for a neighbour, with the address that it had.
    world.send(2, 2, &arp_request(mac(2), shared(), ip(0, 3)));
    world.take();
    assert_eq!(owners(&world, shared()), [Some(vif(7, 1, 1)); 3]);
    // As some programs announce: an answer, to all, that nobody has asked for.
    let IpAddr::V4(address) = shared() else { unreachable!() };
    let answer = Arp { is_request: false, sender: (mac(2), address), target: (BROADCAST, address) };
    world.send(2, 2, &answer.frame());
    assert_eq!(owners(&world, shared()), [Some(vif(7, 1, 2)); 3]);
}

#[test]
fn addresses_move_between_vms_of_one_server_and_of_ipv6_too() {
    let mut world = world();
    world.attach(0, 4, vif(7, 1, 4), &[]);
    for (id, n) in [(1, 1), (4, 4)] {
        announce(&mut world, 0, id, n, shared());
        assert_eq!(owners(&world, shared()), [Some(vif(7, 1, n)); 3]);
    }
    let address: std::net::Ipv6Addr = "fd00::100".parse().unwrap();
    for (agent, id, n) in [(0, 1, 1), (2, 2, 2)] {
        let all = "ff02::1".parse().unwrap();
        let frame = Neighbor::advertisement(address, mac(n), all).frame(ndp::group_mac(all), mac(n));
        world.send(agent, id, &frame);
        assert_eq!(owners(&world, address.into()), [Some(vif(7, 1, n)); 3]);
    }
}

#[test]
fn a_configured_address_stays_where_it_is() {
    let mut world = world();
    announce(&mut world, 2, 2, 2, ip(0, 1));
    assert_eq!(owners(&world, ip(0, 1)), [Some(vif(7, 1, 1)); 3]);
    let defended = world.agents[0].counts().addresses_defended;
    assert!(defended > 0);
    assert_eq!(world.agents[2].counts().addresses_lost, 1, "the claim is withdrawn");
    // On its own server, too.
    world.attach(0, 4, vif(7, 1, 4), &[]);
    announce(&mut world, 0, 4, 4, ip(0, 1));
    assert_eq!(owners(&world, ip(0, 1)), [Some(vif(7, 1, 1)); 3]);
    assert_eq!(world.agents[0].counts().addresses_defended, defended + 1);
}

/// Both announce it before either has heard the other.
fn announce_at_once(world: &mut World, address: IpAddr, order: [(usize, u32, u8); 2]) {
    for (agent, id, n) in order {
        world.agents[agent].handle(world.now, Input::FromVif { id: VifId(id), frame: &arp_request(mac(n), address, address) });
    }
    world.settle();
}

/// The VIFs that speak for an address, by agent.
fn speakers(world: &World, address: IpAddr) -> Vec<Vif> {
    let all = world.agents.iter().flat_map(Agent::vifs);
    all.filter(|(_, _, ips, _)| ips.contains(&address)).map(|(_, vif, ..)| vif).collect()
}

#[test]
fn of_two_that_announce_an_address_at_once_one_has_it() {
    let (first, second) = ((0, 1, 1), (2, 2, 2));
    for order in [[first, second], [second, first]] {
        for is_taken in [false, true] {
            let mut world = world();
            if is_taken {
                announce(&mut world, 1, 3, 3, shared());
                world.advance(Duration::from_secs(1));
            }
            announce_at_once(&mut world, shared(), order);
            assert_eq!(speakers(&world, shared()), [vif(7, 1, 2)], "{order:?} {is_taken}");
            assert_eq!(owners(&world, shared()), [Some(vif(7, 1, 2)); 3]);
            // Later, the last to announce has it, as ever.
            world.advance(Duration::from_secs(1));
            announce(&mut world, 0, 1, 1, shared());
            assert_eq!(speakers(&world, shared()), [vif(7, 1, 1)]);
        }
    }
}

#[test]
fn who_is_configured_with_an_address_keeps_it_when_another_announces_it_at_once() {
    // The other has the greater MAC address, and has heard nothing yet.
    let mut world = World::new(3, ROUTED);
    world.attach(2, 2, vif(7, 1, 2), &[]);
    world.agents[0].handle(world.now, Input::Attach { id: VifId(1), vif: vif(7, 1, 1), addresses: vec![ip(0, 1)] });
    let frame = arp_request(mac(2), ip(0, 1), ip(0, 1));
    world.agents[2].handle(world.now, Input::FromVif { id: VifId(2), frame: &frame });
    world.settle();
    assert_eq!(speakers(&world, ip(0, 1)), [vif(7, 1, 1)]);
    assert_eq!(owners(&world, ip(0, 1)), [Some(vif(7, 1, 1)); 3]);
    assert!(world.wire.len() < 60, "{} frames", world.wire.len());
}

#[test]
fn takeovers_are_limited() {
    let mut world = world();
    for n in 0..20 {
        for (agent, id, mac) in [(0, 1, 1), (2, 2, 2)] {
            announce(&mut world, agent, id, mac, shared());
            world.advance(Duration::from_ms(100));
        }
        assert!(n < 7 || world.agents[2].counts().takeovers_limited > 0);
    }
    // Five at once, and one in each of four seconds.
    let counts = [0, 2].map(|agent| world.agents[agent].counts().addresses_taken);
    assert!(counts.iter().all(|&taken| taken <= 9), "{counts:?}");
    // Names of another tenant or MAC space are other names.
    world.attach(1, 9, vif(7, 2, 1), &[]);
    announce(&mut world, 1, 9, 1, shared());
    assert!(owners(&world, shared()).iter().all(|owner| owner.is_some_and(|it| it.space == MacSpace(1))));
}

#[test]
fn a_vif_on_two_servers_is_reported_unless_it_has_just_moved() {
    let twice = |world: &World, agent: usize| world.agents[agent].twice(world.now).collect::<Vec<_>>();
    let mut world = world();
    // It moves, and its old server hears of it a little later.
    world.attach(1, 5, vif(7, 1, 1), &[ip(0, 1)]);
    assert_eq!(twice(&world, 0), []);
    world.input(0, Input::Detach(VifId(1)));
    world.advance(Duration::from_secs(20));
    assert_eq!(twice(&world, 0), []);
    // Another server has it, and so has this one.
    world.attach(2, 6, vif(7, 1, 1), &[ip(0, 1)]);
    world.advance(Duration::from_secs(5));
    assert_eq!(twice(&world, 1), []);
    world.advance(Duration::from_secs(6));
    assert_eq!(twice(&world, 1), [(vif(7, 1, 1), place(2))]);
    world.advance(Duration::from_secs(600));
    assert_eq!(twice(&world, 1), [], "nothing was heard of it for long");
    world.attach(2, 6, vif(7, 1, 1), &[ip(0, 1)]);
    world.advance(Duration::from_secs(11));
    assert_eq!(twice(&world, 1).len(), 1);
    world.input(1, Input::Detach(VifId(5)));
    assert_eq!(twice(&world, 1), []);
}
