//! What a change costs that concerns many agents at once, and what none costs. `WEFT_HERD_AGENTS=100000` runs the size of a large data centre
//! (10 servers); without it 2,000 agents on 3 servers, the loads of which have the same proportions.

mod world;

use weft_control::directory::Generation;
use weft_fabric::time::{NsDuration, NsInstant};

use self::world::{ADDRESSES, HELD, World, home, is_of_other_service, key};

fn agents() -> u32 {
    super::number("WEFT_HERD_AGENTS").map_or(2_000, |agents| agents as u32)
}

/// Agents that hold 100 mappings each and have been idle for a while.
fn idle() -> World {
    idle_with(|_| true)
}

fn idle_with(may: impl Fn(u32) -> bool) -> World {
    let agents = agents();
    let mut world = World::new(agents, (agents / 10_000).max(3), 5);
    world.fill(may);
    world.pass(10_000);
    assert!(world.agents.iter().all(|agent| agent.usable().count() > HELD as usize * 7 / 10));
    world.received.iter_mut().for_each(std::collections::BTreeMap::clear);
    world.sent = 0;
    world
}

/// The most datagrams that any server received within a tenth of a second.
fn busiest(world: &World) -> u64 {
    let tenths = world.received.iter().flat_map(|server| {
        let mut tenths = std::collections::BTreeMap::<u64, u64>::new();
        server.iter().for_each(|(&(tenth, _), count)| *tenths.entry(tenth).or_default() += count);
        tenths.into_values()
    });
    tenths.max().unwrap_or(0)
}

fn received(world: &World, kind: Option<u8>) -> u64 {
    let counts = world.received.iter().flatten().filter(|((_, of), _)| kind.is_none_or(|kind| kind == *of));
    counts.map(|(_, count)| count).sum()
}

fn print(world: &World, name: &str) {
    let (agents, servers) = (world.agents.len(), world.servers.len());
    for (n, server) in world.received.iter().enumerate().take(1) {
        let mut tenths = std::collections::BTreeMap::<u64, u64>::new();
        server.iter().for_each(|(&(tenth, _), count)| *tenths.entry(tenth).or_default() += count);
        let first = tenths.keys().next().copied().unwrap_or(0);
        let tenths: Vec<String> = tenths.iter().map(|(tenth, count)| format!("{}:{count}", tenth - first)).collect();
        println!("{name}, {agents} agents: server {n} of {servers} received, by tenth of a second: {}", tenths.join(" "));
    }
    println!(
        "{name}: busiest {} in 0.1 s; lookups {}, follows {}",
        busiest(world),
        received(world, Some(1)),
        received(world, Some(8))
    );
}

const LOOKUP: u8 = 1;

/// Nothing happens: what an agent sends and receives.
#[test]
fn an_idle_agent_costs_less_than_a_datagram_in_ten_seconds() {
    let mut world = idle();
    world.pass(120_000);
    let datagrams = received(&world, None) + world.sent;
    let rate = datagrams as f64 / 120.0 / world.agents.len() as f64;
    print(&world, "idle");
    println!("idle: {rate:.3} datagrams a second per agent, both directions");
    assert!(rate < 0.1, "{rate}");
    assert!(world.agents.iter().all(|agent| agent.unconfirmed_since().is_none()));
}

/// One address in a hundred moves within a second, all agents idle before: agents that hold one learn of it within a second, and nobody confirms the rest.
#[test]
fn many_moves_in_a_second_wake_those_that_hold_them() {
    let mut world = idle();
    let keys = agents() * ADDRESSES;
    let (moves, start) = (keys / 100, world.now);
    let mut made: Vec<(NsInstant, u32, Generation)> = Vec::new();
    let mut checked = 0;
    for n in 0..moves {
        world.run_until(start + NsDuration::from_ns(1_000_000_000 / u64::from(moves) * u64::from(n)));
        // Not one that asks: an agent that loses that must look all up again.
        let key = n * 100 % keys + 1 + n % (ADDRESSES - 1);
        let generation = world.move_key(key, (n * 7 + 1) % agents());
        made.push((world.now, key, generation));
        checked += check_due(&world, &made[checked..]);
    }
    for _ in 0..110 {
        world.pass(10);
        checked += check_due(&world, &made[checked..]);
    }
    print(&world, "moves");
    assert_eq!(checked, made.len());
    world.pass(4_000);
    print(&world, "moves, 4 s later");
    let affected: usize = made.iter().map(|&(_, key, _)| world.holders[key as usize].len()).sum();
    let (lookups, all) = (received(&world, Some(LOOKUP)), received(&world, None));
    println!("moves: {affected} mappings in use moved; {lookups} lookups, {all} requests in all");
    // Two copies of each lookup, and what is lost; of the 100 mappings of each agent, one.
    assert!(lookups < 5 * affected as u64 / 2, "{lookups} lookups for {affected} mappings");
    let (agents, servers) = (world.agents.len() as u64, world.servers.len() as u64);
    assert!(all < 10 * agents, "{all} requests");
    assert!(busiest(&world) < 3 * agents / servers, "{} in a tenth of a second", busiest(&world));
}

/// Many more moves than one page has room for, of addresses that nobody holds: agents notice nothing of them.
#[test]
fn moves_of_what_nobody_holds_cost_agents_nothing() {
    let mut world = idle_with(|key| key % ADDRESSES != 9);
    let (agents, start) = (agents(), world.now);
    let moves = agents.min(2_000);
    for n in 0..moves {
        world.run_until(start + NsDuration::from_ns(1_000_000_000 / u64::from(moves) * u64::from(n)));
        world.move_key(n * ADDRESSES + 9, (n * 7 + 1) % agents);
    }
    world.pass(1_000);
    print(&world, "moves of others");
    assert_eq!(received(&world, Some(LOOKUP)), 0);
    assert!(received(&world, None) < u64::from(agents), "{} requests", received(&world, None));
}

/// How many moves are a second old, all of whose holders know of them.
fn check_due(world: &World, made: &[(NsInstant, u32, Generation)]) -> usize {
    let due = made.iter().take_while(|(at, ..)| *at + NsDuration::from_secs(1) <= world.now);
    due.map(|&(at, moved, generation)| {
        for &holder in &world.holders[moved as usize] {
            let held = world.agents[holder as usize].cached(key(moved), Some(home(holder)));
            let is_new = held.is_none_or(|(held, _)| held >= generation);
            assert!(is_new, "agent {holder} uses {} of {held:?}, which moved at {at}, {} later", key(moved), world.now - at);
        }
    })
    .count()
}

/// The policy takes away one mapping in ten: these are out of use within a second, and the others are confirmed in about five.
#[test]
fn a_narrower_policy_is_in_force_within_a_second_and_floods_nobody() {
    let mut world = idle();
    world.are_busy = false;
    world.set_policy(2);
    world.pass(1_000);
    print(&world, "policy, first second");
    for (n, agent) in world.agents.iter().enumerate() {
        let forbidden = agent.usable().find(|(key, ..)| is_of_other_service(key));
        assert!(forbidden.is_none(), "agent {n} uses {forbidden:?}");
    }
    let (agents, servers) = (world.agents.len() as u64, world.servers.len() as u64);
    let first = received(&world, None);
    assert!(first < 8 * agents, "{first} requests in the first second");
    assert!(busiest(&world) < 3 * agents / servers, "{} in a tenth of a second", busiest(&world));
    world.pass(6_000);
    print(&world, "policy");
    for (n, agent) in world.agents.iter().enumerate() {
        let held = agent.usable().count();
        assert!(held > HELD as usize * 3 / 4, "agent {n} holds {held}");
    }
    assert!(busiest(&world) < 3 * agents / servers, "{} in a tenth of a second", busiest(&world));
    assert!(received(&world, Some(LOOKUP)) < 6 * agents, "{} lookups of 100 names each", received(&world, Some(LOOKUP)));
}
