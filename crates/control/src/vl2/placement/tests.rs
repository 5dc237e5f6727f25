//! Agents and a scheduler on an ideal network, and a data plane that is a table.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_fabric::routing::FlowKey;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Fabric, HostId, SwitchId};

use super::*;
use crate::controller::Controller;
use crate::directory::auth::Secret;
use crate::directory::key::PrincipalId;
use crate::hedera::testing::{Heard, Recorder};
use crate::hedera::{Hedera, HederaConfig, Placer};
use crate::time::{Duration, Instant};
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::placement::PlacementKey;

const PERIOD: Duration = Duration::from_ms(200);

fn key(host: u32) -> PlacementKey {
    PlacementKey::of(&Secret::new([5; 32]).key_of(PrincipalId(host + 1)))
}

fn aa(host: u32) -> IpAddr {
    Ipv4Addr::from(0x1400_0001 + host).into()
}

fn flow(src: u32, dst: u32, port: u16) -> Flow {
    Flow { source: aa(src), destination: aa(dst), protocol: 6, source_port: port, destination_port: 80 }
}

fn fat_tree() -> Arc<Fabric> {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: weft_fabric::Duration::ZERO };
    Arc::new(Shape::FatTree { k: 4 }.build(link, link).expect("a fabric"))
}

fn identities(fabric: &Arc<Fabric>) -> AgentIdentities {
    let host = |host: HostId| AgentHost { principal: PrincipalId(host.0 + 1), key: key(host.0), addresses: vec![aa(host.0)] };
    let above = fabric.switches().filter(|&it| fabric.node(fabric.switch_node(it)).tier > 1);
    let locators = above.map(|switch| (switch, Ipv4Addr::from(0x0a00_0001 + switch.0))).collect();
    AgentIdentities::new(Arc::clone(fabric), fabric.hosts().map(host).collect(), locators).expect("identities")
}

fn network(fabric: &Arc<Fabric>, generation: u64) -> AgentNetwork {
    network_with(fabric, generation, |hedera| Box::new(hedera))
}

fn network_with(fabric: &Arc<Fabric>, generation: u64, controller: impl FnOnce(Hedera) -> Box<dyn Controller>) -> AgentNetwork {
    let config = HederaConfig { period: PERIOD, placer: Placer::FirstFit, ..HederaConfig::default() };
    let controller = controller(Hedera::new(Arc::clone(fabric), config).expect("a scheduler"));
    let settings = NetworkSettings { generation, period: PERIOD, idle_timeout: Duration::from_secs(10) };
    AgentNetwork::new(identities(fabric), Some(controller), settings)
}

/// Hosts that send at 10 Mbps each over what their tables say.
struct World {
    fabric: Arc<Fabric>,
    now: Instant,
    network: Option<AgentNetwork>,
    hosts: Vec<PlacementHost>,
    /// What each flow has sent since when.
    flows: BTreeMap<Flow, Instant>,
    placed: BTreeMap<Flow, Placement>,
    /// Placements that were made, and removed.
    changes: usize,
    dead: Vec<Ipv4Addr>,
    /// The network lost every datagram of this host.
    cut: Option<usize>,
}

impl World {
    fn new() -> Self {
        let fabric = fat_tree();
        let now = Instant::from_ns(5_000_000_000);
        let hosts = fabric.hosts().map(|host| {
            let schedulers = vec!["10.9.9.9:5305".parse().expect("an address")];
            PlacementHost::new(
                HostConfig { principal: PrincipalId(host.0 + 1), key: key(host.0), schedulers, sequence: 100 },
                now,
            )
        });
        let hosts = hosts.collect();
        let network = Some(network(&fabric, 1));
        let (flows, placed) = (BTreeMap::new(), BTreeMap::new());
        Self { fabric, now, network, hosts, flows, placed, changes: 0, dead: Vec::new(), cut: None }
    }

    fn begin(&mut self, flow: Flow) {
        self.flows.insert(flow, self.now);
        let source = self.host_of(&flow);
        self.input(source, HostInput::Elephant(flow));
    }

    fn host_of(&self, flow: &Flow) -> usize {
        let of = |host: &HostId| aa(host.0) == flow.source;
        self.fabric.hosts().find(of).expect("a host").index()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_ms(10);
            for host in 0..self.hosts.len() {
                self.input(host, HostInput::Timer);
            }
            if let Some(network) = &mut self.network {
                network.handle(self.now, NetworkInput::Timer);
            }
            self.deliver();
        }
    }

    fn input(&mut self, host: usize, input: HostInput<'_>) {
        self.hosts[host].handle(self.now, input);
        while let Some(output) = self.hosts[host].poll() {
            match output {
                HostOutput::Read => {
                    let sent = |flow: Flow| {
                        let age = self.now.saturating_since(*self.flows.get(&flow)?);
                        let bytes = 100_000 + age.as_ns() / 800;
                        Some((flow, SentBytes { bytes, age: age + Duration::from_ms(80), idle: Duration::ZERO }))
                    };
                    let counts: Vec<(Flow, SentBytes)> = self.hosts[host].flows().filter_map(|(flow, _)| sent(flow)).collect();
                    self.hosts[host].handle(self.now, HostInput::Counts(&counts));
                }
                HostOutput::Send(_, bytes) if self.cut != Some(host) => {
                    let from = SocketAddr::from(([10, 0, 0, host as u8], 40_000));
                    if let Some(network) = &mut self.network {
                        network.handle(self.now, NetworkInput::Received(from, &bytes));
                    }
                    self.deliver();
                }
                HostOutput::Send(..) => {}
                HostOutput::Place(flow, placement) => {
                    self.changes += 1;
                    self.placed.insert(flow, placement);
                }
                HostOutput::Remove(flow) => {
                    self.changes += 1;
                    self.placed.remove(&flow);
                }
                HostOutput::Forget(flow) => drop(self.flows.remove(&flow)),
                HostOutput::Probe(to) if self.dead.contains(&to) => {}
                HostOutput::Probe(to) => self.hosts[host].handle(self.now, HostInput::Answered(to)),
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(output) = self.network.as_mut().and_then(AgentNetwork::poll) {
            let NetworkOutput::Send(to, bytes) = output else { continue };
            let IpAddr::V4(address) = to.ip() else { continue };
            let host = usize::from(address.octets()[3]);
            if self.cut != Some(host) {
                self.input(host, HostInput::Datagram(&bytes));
            }
        }
    }

    fn status(&self) -> NetworkStatus {
        self.network.as_ref().expect("a scheduler").status(self.now)
    }

    /// The stride of half the hosts, from all of them.
    fn stride(&mut self) {
        (0..16).for_each(|host| self.begin(flow(host, (host + 8) % 16, 5000)));
    }

    fn over(&self, locator: Ipv4Addr) -> usize {
        self.placed.values().filter(|placement| placement.intermediate == locator).count()
    }

    fn cores(&self) -> Vec<Ipv4Addr> {
        let identities = identities(&self.fabric);
        self.fabric.switches_of_tier(3).filter_map(|core| identities.locator(core)).collect()
    }
}

#[test]
fn a_stride_is_placed_over_all_cores_alike() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    assert_eq!(world.placed.len(), 16);
    assert!(world.cores().iter().all(|&core| world.over(core) == 4), "{:?}", world.placed);
    assert!(world.placed.values().all(|placement| placement.entropy == 0), "a core fixes the path");
    let status = world.status();
    assert_eq!((status.reporting, status.in_force, status.counted_flows, status.late_rounds), (16, 16, 16, 0), "{status:?}");
    assert_eq!(status.refusals, AgentRefusals::default());
    // On this network orders take no time, which in a report is the same as none.
    assert!(world.hosts.iter().all(|host| host.loops().count > 0 && host.loops().max == Duration::ZERO));
}

#[test]
fn a_flow_that_ends_takes_its_placement_with_it() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    world.input(0, HostInput::Ended(flow(0, 8, 5000)));
    // The data plane has evicted another.
    world.flows.remove(&flow(1, 9, 5000));
    world.run(Duration::from_ms(200));
    assert_eq!((world.placed.len(), world.status().counted_flows), (14, 14));
}

#[test]
fn a_scheduler_that_starts_again_learns_what_is_placed() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    let before = world.placed.clone();
    world.network = None;
    world.run(Duration::from_secs(3));
    world.begin(flow(3, 12, 6000));
    world.run(Duration::from_secs(2));
    assert_eq!(world.placed, before, "nothing is placed, and nothing moves");
    world.network = Some(network(&world.fabric, 2));
    world.run(Duration::from_ms(1200));
    let status = world.status();
    // Of the new one's paths none may be free.
    assert!(status.in_force >= 16 && status.counted_flows == 17, "{status:?}");
    let moved = before.iter().filter(|(flow, placement)| world.placed.get(flow) != Some(placement)).count();
    assert_eq!(moved, 0, "{:?}", world.placed);
}

#[test]
fn a_scheduler_that_takes_over_moves_nothing_and_places_around_it() {
    let mut world = World::new();
    // Two that share an uplink; the first one ends, so that its path would be the second's with an empty memory.
    for (src, dst) in [(0, 8), (1, 9), (4, 12), (5, 13)] {
        world.begin(flow(src, dst, 5000));
        world.run(Duration::from_ms(300));
    }
    world.run(Duration::from_secs(1));
    for (src, dst) in [(0, 8), (4, 12)] {
        world.input(src as usize, HostInput::Ended(flow(src, dst, 5000)));
    }
    world.run(Duration::from_secs(1));
    let before = world.placed.clone();
    assert_eq!(before.keys().copied().collect::<Vec<_>>(), [flow(1, 9, 5000), flow(5, 13, 5000)]);
    world.network = None;
    world.run(Duration::from_secs(1));
    world.changes = 0;
    let heard = Arc::default();
    world.network = Some(network_with(&world.fabric, 2, |hedera| Box::new(Recorder(hedera, Arc::clone(&heard)))));
    world.run(Duration::from_secs(3));
    assert_eq!((world.changes, world.status().in_force), (0, 2), "{:?}", world.placed);
    let identities = identities(&world.fabric);
    let keys: Vec<FlowKey> = before.keys().filter_map(|flow| identities.key_of(flow)).collect();
    let is_placed = |heard: &Heard| match heard {
        Heard::Placed(flow, _) => Some(*flow),
        Heard::Removed(_) => None,
    };
    let handed_over: Vec<FlowKey> = heard.lock().expect("a list").iter().filter_map(is_placed).collect();
    assert_eq!(handed_over, keys, "each is handed over once");
    // All of its uplink is free but the path of the other.
    world.begin(flow(0, 8, 6000));
    world.run(Duration::from_secs(1));
    let core = |host: u32, dst: u32, port| world.placed[&flow(host, dst, port)].intermediate;
    assert_ne!(core(0, 8, 6000), core(1, 9, 5000));
    assert_eq!((world.changes, world.placed.len()), (1, 3));
}

#[test]
fn an_older_scheduler_is_not_obeyed_and_learns_it() {
    let mut world = World::new();
    world.network = Some(network(&world.fabric, 7));
    world.run(Duration::from_secs(1));
    world.network = Some(network(&world.fabric, 6));
    world.stride();
    world.run(Duration::from_secs(1));
    assert!(world.placed.is_empty());
    assert!(world.status().is_superseded);
    assert_eq!(world.hosts[0].scheduler(world.now).map(|(generation, _)| generation), Some(7));
}

#[test]
fn a_dead_intermediate_is_left_by_all_and_used_again() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    let core = world.cores()[0];
    world.dead.push(core);
    let hit: Vec<Flow> = world.placed.iter().filter(|(_, it)| it.intermediate == core).map(|(&flow, _)| flow).collect();
    for flow in &hit {
        let host = world.host_of(flow);
        world.input(host, HostInput::Congested(*flow));
    }
    world.run(Duration::from_ms(1000));
    assert_eq!(world.over(core), 0, "agents fall back by themselves");
    world.run(Duration::from_secs(1));
    let status = world.status();
    assert_eq!(status.failed.len(), 1, "{status:?}");
    assert_eq!(world.over(core), 0);
    world.dead.clear();
    world.run(Duration::from_secs(2));
    assert!(world.status().failed.is_empty(), "{:?}", world.status());
}

#[test]
fn one_agent_takes_no_intermediate_from_the_others() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    let core = world.placed[&flow(0, 8, 5000)].intermediate;
    world.dead.push(core);
    // The others do not notice anything.
    world.input(0, HostInput::Undeliverable(flow(0, 8, 5000)));
    world.run(Duration::from_secs(1));
    assert!(world.status().failed.is_empty() && world.over(core) == 3, "{:?}", world.placed);
}

#[test]
fn a_flow_that_loses_windows_on_a_path_refuses_it_for_a_while() {
    let mut world = World::new();
    world.stride();
    world.run(Duration::from_secs(1));
    let lost = flow(0, 8, 5000);
    let before = world.placed[&lost];
    world.input(0, HostInput::Congested(lost));
    assert_eq!(world.placed.get(&lost), Some(&before), "its core answers: congestion can be the cause");
    world.run(Duration::from_ms(500));
    world.input(0, HostInput::Congested(lost));
    world.run(Duration::from_secs(1));
    assert_ne!(world.placed.get(&lost), Some(&before));
    world.run(Duration::from_secs(6));
    assert!(world.placed.contains_key(&lost), "it is placed again");
}

#[test]
fn an_agent_that_is_silent_costs_its_own_flows_alone() {
    let mut world = World::new();
    world.cut = Some(2);
    world.stride();
    world.run(Duration::from_secs(2));
    assert_eq!(world.placed.len(), 15);
    let status = world.status();
    assert_eq!(status.away, [HostId(2)]);
    // One that falls silent later keeps its flow, and the rounds go on.
    world.cut = Some(5);
    world.run(Duration::from_secs(3));
    assert!(world.placed.contains_key(&flow(5, 13, 5000)) && world.status().late_rounds > 0);
    world.input(6, HostInput::Ended(flow(6, 14, 5000)));
    world.begin(flow(6, 14, 7000));
    world.run(Duration::from_secs(1));
    assert!(world.placed.contains_key(&flow(6, 14, 7000)), "its path is free");
}

#[test]
fn what_is_not_a_hosts_own_is_dropped_and_counted() {
    use crate::wire::vl2::placement::{Report, Reported};
    let fabric = fat_tree();
    let mut network = network(&fabric, 1);
    let from: SocketAddr = "10.0.0.1:4000".parse().expect("an address");
    let now = Instant::from_ns(1_000_000_000);
    let reported = |flow: Flow| Reported { flow, bytes: 1 << 20, age: Duration::from_ms(9), placement: None, is_refused: false };
    let report = |principal: u32, sequence: u64, flows: Vec<Reported>| Report {
        principal: PrincipalId(principal),
        sequence,
        time: Duration::from_ms(1),
        generation: 1,
        loop_length: Duration::ZERO,
        part: 0,
        parts: 1,
        flows,
        unreachable: Vec::new(),
    };
    let own = report(1, 5, vec![reported(flow(0, 9, 1)), reported(flow(1, 9, 1)), reported(flow(0, 99, 1))]).emit(&key(0));
    for bytes in [
        own.clone(),
        own,
        report(1, 4, Vec::new()).emit(&key(0)),
        report(1, 6, Vec::new()).emit(&key(1)),
        report(99, 1, Vec::new()).emit(&key(98)),
        b"WP".to_vec(),
    ] {
        network.handle(now, NetworkInput::Received(from, &bytes));
    }
    let status = network.status(now);
    let refusals =
        AgentRefusals { malformed: 1, unknown: 1, untagged: 1, stale: 2, foreign_flows: 2, ..AgentRefusals::default() };
    assert_eq!((status.counted_flows, status.refusals), (1, refusals));
}

#[test]
fn a_clos_leaves_a_choice_to_the_entropy_value() {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: weft_fabric::Duration::ZERO };
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let fabric = Arc::new(shape.build(link, link).expect("a fabric"));
    let mut network = network(&fabric, 1);
    let top: SwitchId = fabric.switches_of_tier(fabric.top_tier()).next().expect("an intermediate");
    let locator = network.identities().locator(top).expect("its locator");
    let flow = network.identities().key_of(&flow(0, 2, 1)).expect("a flow");
    let path = network.path_over(flow, Placement { intermediate: locator, entropy: 0 }).expect("a path");
    let placement = network.placement_of(&path).expect("a placement");
    assert_eq!(placement.intermediate, locator);
    assert_ne!(placement.entropy, 0);
    assert_eq!((fabric.link(path[0]).from, fabric.link(path[path.len() - 1]).to), (HostId(0).node(), HostId(2).node()));
}
