//! The network against switches that do what their rules say.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;
use weft_fabric::addressing::Addressing;
use weft_fabric::topology::Link;
use weft_fabric::{Fabric, HostId, MacAddr};

use super::rules::Action;
use super::*;
use crate::controller::Controller;
use crate::hedera::testing::fat_tree;
use crate::hedera::{Hedera, HederaConfig, Placer};
use crate::openflow::port::PortReason;
use crate::openflow::{
    Action as Do, Field, FieldId, FlowCommand, FlowEntry, FlowMod, FlowRemoved, FlowRemovedReason, Group, GroupCommand,
    Instruction, Match, MultipartReply, PacketIn, PacketOut, Port, PortStatus, ReplyBody, Statistics,
};

/// A switch that keeps rules and groups, and answers.
#[derive(Clone, Default)]
struct Model {
    flows: Vec<FlowMod>,
    groups: BTreeMap<u32, Group>,
    dead_ports: BTreeSet<u32>,
    ports: u32,
    counters: BTreeMap<FlowKey, (u64, Duration)>,
    /// Answers nothing.
    mute: bool,
    /// Has a master that started later.
    superseded: bool,
    changes: usize,
}

/// The network and a model of each switch.
struct World {
    network: OpenFlowNetwork,
    fabric: Arc<Fabric>,
    switches: Vec<Model>,
    /// Where each link's port is connected to, if that is not as the fabric says; `None`: to nothing that speaks LLDP.
    wires: BTreeMap<LinkId, Option<LinkId>>,
    now: Instant,
}

impl Model {
    fn take(&mut self, identities: &Identities, message: &Message) -> Option<Body> {
        let whole = |body| Some(Body::MultipartReply(MultipartReply::whole(body)));
        match &message.body {
            Body::FlowMod(flow) => {
                self.changes += 1;
                self.flows.retain(|f| (f.table, f.priority, &f.matching) != (flow.table, flow.priority, &flow.matching));
                if flow.command == FlowCommand::Add {
                    let group = flow.instructions.iter().find_map(|i| match i {
                        Instruction::ApplyActions(actions) => {
                            actions.iter().find_map(|a| if let Do::Group(g) = a { Some(*g) } else { None })
                        }
                        _ => None,
                    });
                    assert!(group.is_none_or(|g| self.groups.contains_key(&g)), "a rule refers to a group that is not there");
                    self.flows.push(flow.clone());
                }
                None
            }
            Body::GroupMod(change) => {
                self.changes += 1;
                if change.command == GroupCommand::Delete {
                    let used = |f: &FlowMod| format!("{:?}", f.instructions).contains(&format!("Group({})", change.group.id));
                    assert!(!self.flows.iter().any(used), "a group that rules refer to is removed, and they with it");
                    self.groups.remove(&change.group.id);
                } else {
                    let there = self.groups.insert(change.group.id, change.group.clone());
                    assert!(there.is_none(), "the group is there already: a switch refuses it");
                }
                None
            }
            Body::MultipartRequest(MultipartRequest::PortDescriptions(_)) => {
                whole(ReplyBody::PortDescriptions((1..=self.ports).map(|n| port(n, !self.dead_ports.contains(&n))).collect()))
            }
            Body::MultipartRequest(MultipartRequest::GroupDescriptions(_)) => {
                whole(ReplyBody::GroupDescriptions(self.groups.values().cloned().collect()))
            }
            Body::MultipartRequest(MultipartRequest::Flows(filter)) => {
                let entries = if filter.table == 1 { self.counted(identities) } else { self.flows.iter().map(entry).collect() };
                whole(ReplyBody::Flows(entries))
            }
            Body::BarrierRequest => Some(Body::BarrierReply),
            Body::RoleRequest(role) if self.superseded => {
                assert_eq!(role.role, crate::openflow::ControllerRole::Master);
                Some(Body::Error(ErrorMessage { kind: 11, code: 0, data: Vec::new() }))
            }
            Body::RoleRequest(role) => Some(Body::RoleReply(*role)),
            other => panic!("{other:?}"),
        }
    }

    fn counted(&self, identities: &Identities) -> Vec<FlowEntry> {
        let of = |(&key, &(bytes, age)): (&FlowKey, &(u64, Duration))| {
            let matching = placed_match(identities, key);
            let statistics = Statistics { bytes: Some(bytes), duration: Some(age), ..Statistics::default() };
            FlowEntry { statistics, ..entry(&FlowMod::add(1, 1, matching, Vec::new())) }
        };
        self.counters.iter().map(of).collect()
    }

    /// The port by which a packet of a flow leaves; `None`: it is dropped. `pick` chooses among the live ports of a group.
    fn forward(&self, identities: &Identities, key: FlowKey, pick: usize) -> Option<u32> {
        let address = |host: HostId| u32::from(identities.host(host).address);
        let value = |id: FieldId| match id {
            FieldId::ETH_TYPE => Some(0x0800),
            FieldId::IP_PROTO => Some(6),
            FieldId::IPV4_SRC => Some(u64::from(address(key.src))),
            FieldId::IPV4_DST => Some(u64::from(address(key.dst))),
            FieldId::TCP_SRC => Some(u64::from(key.sport)),
            FieldId::TCP_DST => Some(u64::from(key.dport)),
            _ => None,
        };
        let number = |octets: &[u8]| octets.iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let hits = |m: &Match| {
            m.fields().iter().all(|f| {
                let mask = f.mask().map_or(u64::MAX, number);
                value(f.id()).is_some_and(|v| v & mask == number(f.value()) & mask)
            })
        };
        let best = self.flows.iter().filter(|f| f.table == 2 && hits(&f.matching)).max_by_key(|f| f.priority)?;
        let [Instruction::ApplyActions(actions)] = &best.instructions[..] else { return None };
        match actions.last()? {
            Do::Output { port, .. } => Some(*port),
            Do::Group(group) => {
                let live: Vec<u32> = self.groups[group].buckets.iter().filter_map(|b| b.watch_port).collect();
                let live: Vec<u32> = live.into_iter().filter(|p| !self.dead_ports.contains(p)).collect();
                (!live.is_empty()).then(|| live[pick % live.len()])
            }
            _ => None,
        }
    }
}

impl World {
    /// All switches come.
    fn new(fabric: Arc<Fabric>, controller: Option<HederaConfig>) -> Self {
        let mut world = Self::without_switches(fabric, controller);
        for switch in world.fabric.switches() {
            world.step(Input::Up(switch, Version::V15));
        }
        world
    }

    fn without_switches(fabric: Arc<Fabric>, controller: Option<HederaConfig>) -> Self {
        let controller = controller.map(|c| Box::new(Hedera::new(Arc::clone(&fabric), c).unwrap()) as Box<dyn Controller>);
        let settings = Settings { idle_timeout: Duration::from_secs(10), seed: 1, generation: 1, secret: [1, 2] };
        let network = OpenFlowNetwork::new(identities(&fabric), controller, settings);
        let ports = |s: SwitchId| fabric.out(fabric.switch_node(s)).len() as u32;
        let switches = fabric.switches().map(|s| Model { ports: ports(s), ..Model::default() }).collect();
        Self { network, fabric, switches, wires: BTreeMap::new(), now: Instant::ZERO }
    }

    /// The same switches below another scheduler.
    fn restart(&mut self, controller: Option<HederaConfig>) {
        let fresh = Self::without_switches(Arc::clone(&self.fabric), controller);
        self.network = fresh.network;
        for switch in &mut self.switches {
            switch.changes = 0;
        }
        for switch in self.fabric.switches() {
            self.step(Input::Up(switch, Version::V15));
        }
    }

    fn step(&mut self, input: Input) {
        self.network.handle(self.now, input);
        while let Some(output) = self.network.poll() {
            let (id, message) = match output {
                Output::Send(id, message) => (id, message),
                Output::Refused(id, _) if self.switches[id.index()].superseded => continue,
                Output::Refused(..) => panic!("{output:?}"),
            };
            if let Body::PacketOut(out) = message.body {
                self.deliver(id, out);
                continue;
            }
            let switch = &mut self.switches[id.index()];
            if switch.mute && matches!(message.body, Body::MultipartRequest(_)) {
                continue;
            }
            if let Some(body) = switch.take(&self.network.identities, &message) {
                self.network.handle(self.now, Input::Received(id, Message { xid: message.xid, body }));
            }
        }
    }

    /// A frame leaves a switch, and comes to the controller where it arrives if a rule says so.
    fn deliver(&mut self, id: SwitchId, out: PacketOut) {
        let [Do::Output { port, .. }] = out.actions[..] else { panic!("{out:?}") };
        let link = self.network.identities.link_of(id, port).expect("a port of the fabric");
        assert!(!self.switches[id.index()].dead_ports.contains(&port), "nothing is sent out of a dead port");
        let Some(at) = *self.wires.get(&link).unwrap_or(&Some(link.reverse())) else { return };
        let to = self.fabric.as_switch(self.fabric.link(at).from).expect("LLDP goes to switches");
        let in_port = self.network.identities.port(at);
        let (fields, length) = (Match::of([Field::in_port(in_port)]), out.data.len() as u16);
        let is_taken = |f: &FlowMod| f.table == 0 && f.priority == 40 && f.matching.in_port() == Some(in_port);
        if self.switches[to.index()].flows.iter().any(is_taken) {
            let packet = PacketIn { buffer: None, length, reason: 1, table: 0, cookie: 0, fields, data: out.data };
            self.network.handle(self.now, Input::Received(to, Message { xid: 0, body: Body::PacketIn(packet) }));
        }
    }

    /// The cables of two links are plugged in at each other's second end.
    fn swap(&mut self, a: LinkId, b: LinkId) {
        self.wires.extend([(a, Some(b.reverse())), (b.reverse(), Some(a)), (b, Some(a.reverse())), (a.reverse(), Some(b))]);
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(deadline) = self.network.deadline().filter(|&d| d <= until) {
            self.now = deadline.max(self.now);
            self.step(Input::Timer);
        }
        self.now = until;
    }

    /// The path of a flow's packets; `None` if they are dropped, or cross more switches than there are: they loop.
    fn carry(&self, key: FlowKey, pick: usize) -> Option<Path> {
        let identities = &self.network.identities;
        let mut path = Path::from_slice(self.fabric.out(key.src.node()));
        while let Some(switch) = self.fabric.as_switch(self.fabric.link(*path.last()?).to) {
            let port = self.switches[switch.index()].forward(identities, key, pick)?;
            if self.switches[switch.index()].dead_ports.contains(&port) || path.len() > self.switches.len() {
                return None;
            }
            path.push(identities.link_of(switch, port)?);
        }
        (self.fabric.link(*path.last()?).to == key.dst.node()).then_some(path)
    }

    /// A cable fails or comes back at both of its ends.
    fn set_cable(&mut self, link: LinkId, up: bool) {
        for link in [link, link.reverse()] {
            let Some(switch) = self.fabric.as_switch(self.fabric.link(link).from) else { continue };
            let number = self.network.identities.port(link);
            let dead = &mut self.switches[switch.index()].dead_ports;
            if up {
                dead.remove(&number)
            } else {
                dead.insert(number)
            };
            let status = PortStatus { reason: PortReason::Modify, port: port(number, up) };
            self.step(Input::Received(switch, Message { xid: 0, body: Body::PortStatus(status) }));
        }
    }

    fn count(&mut self, key: FlowKey, bytes: u64, age: Duration) {
        let edge = self.network.identities.edge_of(key.src);
        self.switches[edge.index()].counters.insert(key, (bytes, age));
    }
}

fn identities(fabric: &Arc<Fabric>) -> Identities {
    let addressing = Addressing::new(fabric).unwrap();
    let of = |host: HostId| HostIdentity {
        address: Ipv4Addr::from(addressing.host(host).0),
        mac: MacAddr([2, 0, 0, 0, (host.0 >> 8) as u8, host.0 as u8]),
    };
    Identities::new(Arc::clone(fabric), fabric.hosts().map(of).collect()).unwrap()
}

fn port(number: u32, up: bool) -> Port {
    let state = if up { 0 } else { Port::STATE_LINK_DOWN };
    let name = crate::openflow::port::Text::new(&format!("p{number}"));
    Port { number, mac: MacAddr([2, 0, 0, 1, 0, number as u8]), name, config: 0, state, ethernet: None, other: Vec::new() }
}

fn entry(flow: &FlowMod) -> FlowEntry {
    FlowEntry {
        table: flow.table,
        priority: flow.priority,
        idle_timeout: flow.idle_timeout,
        hard_timeout: 0,
        flags: flow.flags,
        importance: 0,
        cookie: flow.cookie,
        statistics: Statistics::default(),
        matching: flow.matching.clone(),
        instructions: flow.instructions.clone(),
    }
}

fn placed_match(identities: &Identities, key: FlowKey) -> Match {
    let Body::FlowMod(flow) = messages::add(identities, Matched::Flow(key), Action::Drop, 1) else { unreachable!() };
    flow.matching
}

fn first_fit() -> HederaConfig {
    HederaConfig { placer: Placer::FirstFit, period: Duration::from_secs(1), ..HederaConfig::default() }
}

fn key(src: u32, dst: u32) -> FlowKey {
    FlowKey { src: HostId(src), dst: HostId(dst), sport: 5000, dport: 80 }
}

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
fn a_new_scheduler_does_not_take_the_past_of_a_connection_for_its_rate() {
    let mut world = World::new(fat_tree(4), None);
    world.wait(Duration::from_secs(100));
    let (large, acks) = (key(0, 8), key(8, 0));
    world.restart(Some(first_fit()));
    world.now = Instant::ZERO;
    for second in 0..4 {
        // 500 Mbps, and a fiftieth of it back, for 100 s already.
        let age = Duration::from_secs(100 + second);
        world.count(large, 62_500_000 * (100 + second), age);
        world.count(acks, 1_250_000 * (100 + second), age);
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.network.placements().map(|p| p.flow).collect::<Vec<_>>(), [large]);
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
