//! The OpenFlow switches of a fabric as a world for a scheduler: their counters go in, its paths become rules.
//!
//! ```text
//!                 Up, Received, Down                 Placed, FlowCounters, FlowRemoved, Failed, Restored
//!   sessions  ------------------------->  OpenFlowNetwork ---------------------------------------------->  Controller
//!   (a daemon)       <- Send --                            <-- ReadFlowCounters, SetPath, ClearPath --
//!
//!   a switch:   away --Up--> asking (groups, rules, ports) --> installing (what differs, a barrier) --> ready
//! ```
//! - **State is soft** (Hedera section 4.6). A switch that comes keeps its rules: what it has is compared with what it should have, placed flows that
//!   another scheduler left are learnt from it and handed over to this one, and only differences are sent.
//! - A switch that does not answer costs its own flows alone: after a second a round goes on with the last counters of that switch.
//! - Rates come from the entries' own durations, not from when an answer came.
//! - Of two schedulers at a time the one that started last is master of the switches (OpenFlow 1.3.5, section 6.3.6). The other notices it at the first refusal, and
//!   leaves the switch alone.
//! - A port that goes down fails its cable: the scheduler moves placed flows, and default routes are computed again. With no scheduler
//!   running, each switch's groups leave out their own dead ports. So does a cable that leads elsewhere than the fabric says (LLDP).

mod cables;
mod counters;
mod identities;
mod messages;
mod placing;
mod received;
mod rounds;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_fabric::routing::next_hops::{NextHops, Target};
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::Health;
use weft_fabric::{Bytes, Fabric, HostId, LinkId, SwitchId};

use crate::controller::Controller;
use crate::openflow::lldp::Announcer;
use crate::openflow::{Body, ControllerRole, ErrorMessage, Message, MultipartRequest, Role, Version};
use crate::time::{Duration, Instant, NS_PER_S};

pub use identities::{HostIdentity, Identities, IdentityError};
pub(super) use messages::answer_arp;

use cables::Cables;
use counters::Counters;
use rules::{Matched, Rules};

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// A switch's session is up.
    Up(SwitchId, Version),
    /// A switch has sent a message, multipart replies whole.
    Received(SwitchId, Message),
    /// A switch has sent a message with this xid that cannot be read: if it was an answer, there is none.
    Unreadable(SwitchId, u32),
    /// A switch's session has ended. Its rules are still there.
    Down(SwitchId),
    /// The deadline has come.
    Timer,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to a switch.
    Send(SwitchId, Message),
    /// A switch has refused something: for the log.
    Refused(SwitchId, ErrorMessage),
}

/// The switches, and a scheduler above them.
pub struct OpenFlowNetwork {
    identities: Identities,
    controller: Option<Box<dyn Controller>>,
    settings: Settings,
    health: Health,
    next_hops: NextHops,
    /// Next hops as if all parts worked: where a switch has a choice.
    choice: NextHops,
    /// Links whose sending port is down.
    dead_ports: BTreeSet<LinkId>,
    announcer: Announcer,
    cables: Cables,
    /// By switch.
    switches: Vec<Switch>,
    counters: Counters,
    /// The path of each placed flow.
    placed: BTreeMap<FlowKey, Path>,
    /// A round that waits for counters.
    reading: Option<Reading>,
    outputs: VecDeque<Output>,
    xid: u32,
}

/// How switches are set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Entries of a flow end when it has been idle for so long: whole seconds, at least one.
    pub idle_timeout: Duration,
    /// Makes the switches' hashes.
    pub seed: u64,
    /// Grows from one start of a scheduler to the next: the last one is master.
    pub generation: u64,
    /// Of the LLDP announcements of ports: random, so that nobody else makes them.
    pub secret: [u64; 2],
}

/// A switch.
#[derive(Debug, Default)]
struct Switch {
    phase: Phase,
    version: Option<Version>,
    /// What each request that is on its way asks for.
    pending: BTreeMap<u32, Pending>,
    /// Rules that it has or has been sent, without those of placed flows.
    installed: Rules,
    /// The port of each placed flow that has a rule here.
    placed: BTreeMap<FlowKey, u32>,
    /// What a switch that has just come has.
    found: Found,
    refused: u64,
    missing_ports: Vec<u32>,
    /// It has called a port live.
    knows_liveness: bool,
    /// Ports that are up and that it does not call live.
    lifeless: BTreeSet<u32>,
}

/// How far a switch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Away,
    Asking,
    Installing,
    Ready,
    /// Another controller is master.
    Superseded,
}

/// What an answer will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Role,
    Groups,
    Rules,
    Ports,
    Installed,
    Counters,
}

/// What a switch has when it comes.
#[derive(Debug, Default)]
struct Found {
    groups: BTreeSet<u32>,
    flows: Vec<messages::Found>,
}

/// A round that waits.
#[derive(Debug)]
struct Reading {
    until: Instant,
    waiting: BTreeSet<SwitchId>,
}

/// A placed flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The flow.
    pub flow: FlowKey,
    /// Its links, NIC to NIC.
    pub path: Path,
}

/// How the network is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Switches with a session.
    pub connected: usize,
    /// Switches that another controller, started later, is master of.
    pub superseded: Vec<SwitchId>,
    /// Those that have acknowledged all of their rules.
    pub installed: usize,
    /// Switches without a session.
    pub away: Vec<SwitchId>,
    /// Switches that speak OpenFlow 1.3 and have groups: their hash cannot be set, so traffic may polarise.
    pub polarised: Vec<SwitchId>,
    /// Ports that the fabric has and the switch lacks.
    pub missing_ports: Vec<(SwitchId, u32)>,
    /// Messages that each switch has refused.
    pub refused: Vec<(SwitchId, u64)>,
    /// Cables that are not used: they are down, or lead elsewhere.
    pub failed_cables: usize,
    /// Ports that a cable connects and the fabric does not, each by the link that leaves there.
    pub miscabled: Vec<[LinkId; 2]>,
    /// Links at whose port no announcement of the other end comes in.
    pub silent: Vec<LinkId>,
    /// Rounds that went on without the counters of some switch.
    pub late_rounds: u64,
    /// TCP connections that are counted.
    pub counted_flows: usize,
}

impl OpenFlowNetwork {
    /// A network of which no switch has come yet. Without a controller, flows are hashed.
    pub fn new(identities: Identities, controller: Option<Box<dyn Controller>>, settings: Settings) -> Self {
        let fabric = Arc::clone(identities.fabric());
        let switches = std::iter::repeat_with(Switch::default).take(fabric.switch_count()).collect();
        Self {
            health: Health::new(&fabric),
            choice: NextHops::new(Arc::clone(&fabric)),
            dead_ports: BTreeSet::new(),
            announcer: Announcer::new(settings.secret),
            cables: Cables::new(&fabric),
            next_hops: NextHops::new(fabric),
            controller,
            settings,
            switches,
            counters: Counters::default(),
            placed: BTreeMap::new(),
            reading: None,
            outputs: VecDeque::new(),
            xid: 0,
            identities,
        }
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Up(switch, version) => self.up(switch, version),
            Input::Received(switch, message) => self.received(now, switch, message),
            Input::Unreadable(switch, xid) => self.unreadable(now, switch, xid),
            Input::Down(switch) => self.down(now, switch),
            Input::Timer => self.timer(now),
        }
        self.run_controller(now);
    }

    /// The next thing to do; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`Input::Timer`].
    pub fn deadline(&self) -> Option<Instant> {
        let round = self.controller.as_ref().and_then(|c| c.deadline());
        round.into_iter().chain(self.reading.as_ref().map(|r| r.until)).chain(self.cables.next).min()
    }

    /// The fabric's parts as OpenFlow names them.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// The scheduler.
    pub fn controller(&self) -> Option<&dyn Controller> {
        self.controller.as_deref()
    }

    /// The placed flows, ascending by key.
    pub fn placements(&self) -> impl ExactSizeIterator<Item = Placement> + '_ {
        self.placed.iter().map(|(&flow, path)| Placement { flow, path: path.clone() })
    }

    /// What a connection has sent so far, and its mean rate in bits a second.
    pub fn counter(&self, flow: &FlowKey) -> Option<(Bytes, f64)> {
        self.counters.get(flow)
    }

    /// The switches with several equal ports to a host, each with its ports.
    pub fn choices_of(&mut self, host: HostId) -> Vec<(SwitchId, Vec<u32>)> {
        let fabric = Arc::clone(self.fabric());
        let rack = Target::Rack(fabric.rack_of(host));
        let ports = |switch: SwitchId| {
            let links = self.next_hops.toward(&self.health, rack, fabric.switch_node(switch));
            let ports: Vec<u32> = links.iter().map(|&link| self.identities.port(link)).collect();
            (ports.len() > 1).then_some((switch, ports))
        };
        fabric.switches().filter_map(ports).collect()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let fabric = self.fabric();
        let mut status = Status {
            failed_cables: fabric.cables().filter(|c| !self.health.is_up(c.links()[0])).count(),
            late_rounds: self.counters.late_rounds,
            counted_flows: self.counters.len(),
            miscabled: self.cables.wrong().collect(),
            silent: self.cables.silent().collect(),
            ..Status::default()
        };
        for (id, switch) in fabric.switches().zip(&self.switches) {
            match switch.phase {
                Phase::Away => status.away.push(id),
                Phase::Ready => status.installed += 1,
                Phase::Superseded => status.superseded.push(id),
                Phase::Asking | Phase::Installing => {}
            }
            if switch.version == Some(Version::V13) && !switch.installed.groups.is_empty() {
                status.polarised.push(id);
            }
            if switch.refused > 0 {
                status.refused.push((id, switch.refused));
            }
            status.missing_ports.extend(switch.missing_ports.iter().map(|&port| (id, port)));
        }
        status.connected = self.switches.len() - status.away.len();
        status
    }

    fn fabric(&self) -> &Arc<Fabric> {
        self.identities.fabric()
    }
}

/// Switches come and go.
impl OpenFlowNetwork {
    fn up(&mut self, id: SwitchId, version: Version) {
        let switch = &mut self.switches[id.index()];
        let refused = switch.refused;
        *switch = Switch { phase: Phase::Asking, version: Some(version), refused, ..Switch::default() };
        let role = Role { role: ControllerRole::Master, short_id: None, generation: self.settings.generation };
        let xid = self.send(id, Body::RoleRequest(role));
        self.switches[id.index()].pending.insert(xid, Pending::Role);
        self.ask(id, Pending::Ports, MultipartRequest::PortDescriptions(None));
        self.ask(id, Pending::Groups, MultipartRequest::GroupDescriptions(None));
        self.ask(id, Pending::Rules, messages::all_rules());
    }

    fn down(&mut self, now: Instant, id: SwitchId) {
        let refused = self.switches[id.index()].refused;
        self.switches[id.index()] = Switch { refused, ..Switch::default() };
        self.answered(now, id);
    }

    /// Compares what a switch has with what it should have, and sends what differs.
    fn reconcile(&mut self, now: Instant, id: SwitchId) {
        let found = std::mem::take(&mut self.switches[id.index()].found);
        for flow in &found.flows {
            if let (Some(Matched::Flow(key)), Some(port)) = (flow.matched, flow.output) {
                self.learn(now, id, key, port);
            }
        }
        let wanted = Rules::of(&self.identities, &self.health, &mut self.next_hops, id);
        let known = |matched: &Matched| wanted.flows.contains_key(matched) || matches!(matched, Matched::Flow(_));
        let stale: Vec<_> = found.flows.iter().filter(|f| !f.matched.as_ref().is_some_and(known)).map(messages::delete).collect();
        let there = Rules { flows: BTreeMap::new(), groups: found.groups.iter().map(|&g| (g, Vec::new())).collect() };
        self.switches[id.index()].phase = Phase::Installing;
        self.switches[id.index()].installed = there;
        for body in stale {
            self.send(id, body);
        }
        self.install(id, wanted);
        let paths: Vec<(FlowKey, Path)> = self.placed.iter().map(|(&key, path)| (key, path.clone())).collect();
        for (key, path) in paths {
            if let Some(&(_, port)) = self.choices(&path).iter().find(|(switch, _)| *switch == id) {
                self.place_at(id, key, port);
            }
        }
        let xid = self.send(id, Body::BarrierRequest);
        self.switches[id.index()].pending.insert(xid, Pending::Installed);
    }

    /// In the seconds of OpenFlow.
    fn idle_timeout(&self) -> u16 {
        u16::try_from(self.settings.idle_timeout.as_ns().div_ceil(NS_PER_S)).unwrap_or(u16::MAX).max(1)
    }

    fn ask(&mut self, id: SwitchId, asked: Pending, request: MultipartRequest) {
        let xid = self.send(id, Body::MultipartRequest(request));
        self.switches[id.index()].pending.insert(xid, asked);
    }

    fn send(&mut self, id: SwitchId, body: Body) -> u32 {
        self.xid = self.xid % XIDS + 1;
        self.outputs.push_back(Output::Send(id, Message { xid: self.xid, body }));
        self.xid
    }
}

/// Transaction ids of this machine are 1 to this; a session has those above for itself.
const XIDS: u32 = 0x7fff_ffff;
