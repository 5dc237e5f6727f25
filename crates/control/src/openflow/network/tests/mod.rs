//! The network against switches that do what their rules say.

mod cables;
mod placing;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use weft_fabric::addressing::Addressing;
use weft_fabric::topology::Link;
use weft_fabric::{Fabric, HostId, MacAddr};

use super::rules::Action;
use super::*;
use crate::controller::Controller;
use crate::hedera::testing::{Heard, Recorder, fat_tree};
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
        self.restart_with(fresh.network);
    }

    fn restart_with(&mut self, network: OpenFlowNetwork) {
        self.network = network;
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
