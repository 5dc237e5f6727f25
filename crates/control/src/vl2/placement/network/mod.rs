//! The agents of a fabric as a world for a scheduler: their reports go in, its paths become placements.
//!
//! ```text
//!                  Received                          Placed, FlowCounters, FlowRemoved, Failed, Restored
//!   agents  ------------------------->  AgentNetwork  ---------------------------------------------->  Controller
//!   (UDP)          <- Send --                         <-- ReadFlowCounters, SetPath, ClearPath --
//! ```
//! - **State is soft** (Hedera section 4.6). Agents report where each flow is placed: a scheduler that starts takes this over, and sends again
//!   what differs from what it wants.
//! - A round never waits: it takes the last report of each agent. One that no longer reports costs its own flows alone.
//! - An intermediate switch has failed if more agents report that it does not answer than have flows over it. One agent behind a broken cable
//!   therefore takes no switch from the others.
//! - Of two schedulers at a time agents obey the one that started last. The other learns it from their reports, and sends nothing more.

mod flows;
mod reports;
mod rounds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use weft_fabric::routing::next_hops::NextHops;
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::Health;
use weft_fabric::{Bytes, Fabric, HostId, SwitchId};

use super::host::LoopLengths;
use super::{AgentIdentities, Placement};
use crate::controller::Controller;
use crate::time::{Duration, Instant};
use crate::wire::packet::ip::Flow;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum NetworkInput<'a> {
    /// A datagram has come.
    Received(SocketAddr, &'a [u8]),
    /// The deadline has come.
    Timer,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkOutput {
    /// Send a datagram to an agent.
    Send(SocketAddr, Vec<u8>),
    /// An intermediate switch does not answer, or answers again: for the log.
    Intermediate(SwitchId, bool),
}

/// How agents are treated.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSettings {
    /// Grows from one start of a scheduler to the next: agents obey the last one.
    pub generation: u64,
    /// From one round to the next; agents report twice as often.
    pub period: Duration,
    /// Flows of an agent that has not reported for so long are forgotten.
    pub idle_timeout: Duration,
}

/// The agents, and a scheduler above them.
pub struct AgentNetwork {
    identities: AgentIdentities,
    controller: Option<Box<dyn Controller>>,
    settings: NetworkSettings,
    health: Health,
    next_hops: NextHops,
    /// By host.
    agents: Vec<Agent>,
    flows: BTreeMap<FlowKey, Tracked>,
    /// Intermediate switches that do not answer.
    failed: BTreeSet<SwitchId>,
    /// Flows for which the next orders of a host have something.
    changed: BTreeSet<FlowKey>,
    asked: Instant,
    housekeeping: Instant,
    loops: LoopLengths,
    refusals: AgentRefusals,
    late_rounds: u64,
    superseded_by: u64,
    outputs: VecDeque<NetworkOutput>,
}

/// What an agent has reported.
#[derive(Debug, Default)]
struct Agent {
    address: Option<SocketAddr>,
    heard: Option<Instant>,
    /// Of its last report.
    sequence: u64,
    /// The parts of it that have come.
    parts: BTreeSet<u8>,
    /// The flows that these list.
    listed: BTreeSet<FlowKey>,
    /// When the first of them came.
    received: Instant,
    /// Of the last report that is whole, and when it came.
    complete: Option<(u64, Instant)>,
    /// By how much our clock is ahead of its clock, at most.
    ahead: Option<i128>,
    /// Of the last orders.
    number: u64,
    unreachable: BTreeSet<Ipv4Addr>,
}

/// A large flow of a host.
#[derive(Clone, Debug)]
struct Tracked {
    flow: Flow,
    bytes: Bytes,
    /// Bytes that are older than the reading before its first.
    before: Bytes,
    read_at: Instant,
    age: Duration,
    /// Where its host has it.
    there: Option<Placement>,
    /// The placement that its host gave up.
    refused: Option<Placement>,
    wanted: Option<(Path, Placement)>,
    /// When it was last ordered.
    ordered: Option<Instant>,
}

/// Datagrams and flows that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentRefusals {
    /// No report of this version.
    pub malformed: u64,
    /// Of a principal that is no host.
    pub unknown: u64,
    /// Not tagged with the host's key.
    pub untagged: u64,
    /// Older than the host's last report.
    pub stale: u64,
    /// Flows that are not the host's own, or not to a host of the fabric.
    pub foreign_flows: u64,
    /// Flows beyond the limit of a host.
    pub over_limit: u64,
    /// Paths over no switch that agents know.
    pub unplaceable: u64,
}

impl AgentRefusals {
    /// Each reason with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("malformed", self.malformed),
            ("unknown_principal", self.unknown),
            ("wrong_tag", self.untagged),
            ("stale", self.stale),
            ("foreign_flow", self.foreign_flows),
            ("over_limit", self.over_limit),
            ("unplaceable", self.unplaceable),
        ]
        .into_iter()
    }
}

/// How the network is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// Hosts whose agents report.
    pub reporting: usize,
    /// Hosts whose agents do not.
    pub away: Vec<HostId>,
    /// Whether agents obey a scheduler that started later.
    pub is_superseded: bool,
    /// Intermediate switches that do not answer.
    pub failed: Vec<SwitchId>,
    /// Large flows that hosts report.
    pub counted_flows: usize,
    /// Flows that are placed and where they should be.
    pub in_force: usize,
    /// Rounds with agents that have not reported since the round before.
    pub late_rounds: u64,
    /// Lengths of the control loop, as agents measure them.
    pub loops: LoopLengths,
    /// What was dropped.
    pub refusals: AgentRefusals,
}

impl AgentNetwork {
    /// A network of which no agent has reported. Without a controller, flows keep to anycast addresses.
    pub fn new(identities: AgentIdentities, controller: Option<Box<dyn Controller>>, settings: NetworkSettings) -> Self {
        let fabric = identities.fabric();
        Self {
            health: Health::new(fabric),
            next_hops: NextHops::new(std::sync::Arc::clone(fabric)),
            agents: std::iter::repeat_with(Agent::default).take(fabric.host_count()).collect(),
            flows: BTreeMap::new(),
            failed: BTreeSet::new(),
            changed: BTreeSet::new(),
            asked: Instant::ZERO,
            housekeeping: Instant::ZERO,
            loops: LoopLengths::default(),
            refusals: AgentRefusals::default(),
            late_rounds: 0,
            superseded_by: 0,
            outputs: VecDeque::new(),
            controller,
            settings,
            identities,
        }
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: NetworkInput<'_>) {
        match input {
            NetworkInput::Received(from, bytes) => self.received(now, from, bytes),
            NetworkInput::Timer => self.timer(now),
        }
        self.run_controller(now);
        self.send_orders(now);
    }

    /// The next thing to do; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<NetworkOutput> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`NetworkInput::Timer`].
    pub fn deadline(&self) -> Instant {
        let round = self.controller.as_ref().and_then(|controller| controller.deadline());
        round.map_or(self.housekeeping, |round| round.min(self.housekeeping))
    }

    /// The fabric's parts as agents name them.
    pub const fn identities(&self) -> &AgentIdentities {
        &self.identities
    }

    /// The scheduler.
    pub fn controller(&self) -> Option<&dyn Controller> {
        self.controller.as_deref()
    }

    /// The placed flows, ascending by key, each with its path and the intermediate switch.
    pub fn placements(&self) -> impl Iterator<Item = (FlowKey, &Path, Ipv4Addr)> + '_ {
        self.flows.iter().filter_map(|(&key, tracked)| {
            let (path, placement) = tracked.wanted.as_ref()?;
            Some((key, path, placement.intermediate))
        })
    }

    /// What a flow has sent so far, and its mean rate in bits a second.
    pub fn counter(&self, key: &FlowKey) -> Option<(Bytes, f64)> {
        let tracked = self.flows.get(key)?;
        let seconds = tracked.age.as_secs_f64();
        Some((tracked.bytes, if seconds > 0.0 { tracked.bytes.bits() as f64 / seconds } else { 0.0 }))
    }

    /// How it is.
    pub fn status(&self, now: Instant) -> NetworkStatus {
        let hosts = self.fabric().hosts();
        let away: Vec<HostId> = hosts.filter(|host| self.is_away(now, *host)).collect();
        NetworkStatus {
            reporting: self.agents.len() - away.len(),
            away,
            is_superseded: self.superseded_by > 0,
            failed: self.failed.iter().copied().collect(),
            counted_flows: self.flows.len(),
            in_force: self.flows.values().filter(|it| it.there.is_some() && it.there == it.placement()).count(),
            late_rounds: self.late_rounds,
            loops: self.loops,
            refusals: self.refusals,
        }
    }

    fn fabric(&self) -> &Fabric {
        self.identities.fabric()
    }

    /// From one report of an agent to the next.
    fn every(&self) -> Duration {
        Duration::from_ns((self.settings.period.as_ns() / 2).clamp(EVERY_MIN.as_ns(), EVERY_MAX.as_ns()))
    }

    fn is_away(&self, now: Instant, host: HostId) -> bool {
        let silent = self.every() * 3 + AWAY;
        self.agents[host.index()].heard.is_none_or(|heard| now.saturating_since(heard) > silent)
    }
}

impl Tracked {
    fn placement(&self) -> Option<Placement> {
        self.wanted.as_ref().map(|(_, placement)| *placement)
    }
}

/// From one report to the next, at least.
const EVERY_MIN: Duration = Duration::from_ms(50);
/// From one report to the next, at most.
const EVERY_MAX: Duration = Duration::from_secs(1);
/// An agent that has not reported for three reports and this time is away.
const AWAY: Duration = Duration::from_secs(1);
