//! Agents of hosts and ToRs as a world for a scheduler.
//!
//! ```text
//!                   Received                                LinkCounters, FlowCounters, FlowRemoved, Failed, Restored
//!   agents  -------------------------->  AccessNetwork  ---------------------------------------------------------------->  Controller
//!   (UDP)           <- Send ---                          <-- ReadLinkCounters, ReadFlowCounters, SetAccessPaths, Rebind --
//! ```
//! - **State is soft**: where each flow is, its host reports. What is lost, the next round decides again. A scheduler that starts knows everything after a report of each.
//! - A round never waits. ToRs' counters are extrapolated to its time from each ToR's last two reports.
//! - A cable is down if one of its ends says so.
//! - Of two schedulers at a time agents obey the one that started last. The other learns it from their reports, and sends nothing more.

mod detours;
mod reports;
mod rounds;

pub use detours::DetourStatus;
use detours::Detours;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use weft_fabric::routing::{FlowKey, Router, Routing};
use weft_fabric::topology::Health;
use weft_fabric::{CableId, Fabric, HostId, SwitchId};

use super::addresses::AccessAddresses;
use super::{EVERY_MAX, EVERY_MIN};
use crate::controller::Controller;
use crate::directory::key::PrincipalId;
use crate::time::{Duration, Instant};
use crate::vl2::placement::LoopLengths;
use crate::wire::subways::{FlowId, NicPair};
use crate::wire::vl2::placement::PlacementKey;

/// An agent.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its principal.
    pub principal: PrincipalId,
    /// Its key.
    pub key: PlacementKey,
}

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
    /// A cable is down, or works again: for the log.
    Cable(CableId, bool),
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
    /// Whether the scheduler has detours.
    pub detours: bool,
}

/// Who an agent is the agent of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Host(HostId),
    Tor(SwitchId),
}

/// The agents, and a scheduler above them.
pub struct AccessNetwork {
    addresses: AccessAddresses,
    controller: Box<dyn Controller>,
    settings: NetworkSettings,
    agents: BTreeMap<Place, Agent>,
    by_principal: BTreeMap<PrincipalId, Place>,
    /// Makes the paths of flows from their NICs.
    router: Router,
    health: Health,
    flows: BTreeMap<FlowKey, Tracked>,
    /// By link, of the cables of ToRs: what its sending port has sent.
    meters: BTreeMap<u32, Meter>,
    /// Cables that a host or a ToR reports as down.
    down: BTreeMap<CableId, BTreeSet<Place>>,
    /// Those of which the scheduler knows.
    failed: BTreeSet<CableId>,
    /// By ToR: the weights of the last round, out and in, in bits per second.
    weights: BTreeMap<SwitchId, [u64; 2]>,
    moves: BTreeMap<HostId, Vec<(FlowId, NicPair)>>,
    detours: Detours,
    gap: Duration,
    asked: Instant,
    housekeeping: Instant,
    loops: LoopLengths,
    refusals: AccessRefusals,
    late_rounds: u64,
    superseded_by: u64,
    outputs: VecDeque<NetworkOutput>,
}

/// What an agent has reported.
#[derive(Clone, Debug)]
struct Agent {
    member: Member,
    address: Option<SocketAddr>,
    heard: Option<Instant>,
    /// Of its last report.
    sequence: u64,
    /// The parts of it that have come, and the flows that they list.
    parts: BTreeSet<u8>,
    listed: BTreeSet<FlowKey>,
    /// When the first of them came.
    received: Instant,
    /// Of the last report that is whole, and when it came.
    complete: Option<(u64, Instant)>,
    /// By how much our clock is ahead of its clock, at most.
    ahead: Option<i128>,
    /// Of the last orders.
    number: u64,
    /// Of the last report on detours.
    forward_sequence: u64,
}

/// A flow that its host reports.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    id: FlowId,
    nics: NicPair,
    bytes: u64,
    read_at: Instant,
}

/// A port's counter, which may begin again.
#[derive(Clone, Copy, Debug)]
struct Meter {
    raw: u64,
    total: u64,
    /// Bytes per nanosecond between the last two reports.
    rate: f64,
    read_at: Instant,
    /// What was handed out last.
    given: u64,
}

/// Datagrams and flows that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRefusals {
    /// No report of this version.
    pub malformed: u64,
    /// Of a principal that is neither host nor ToR.
    pub unknown: u64,
    /// Not tagged with the key of its agent.
    pub untagged: u64,
    /// Older than the agent's last report.
    pub stale: u64,
    /// Flows to what is no host of the fabric, or over NICs that are not there.
    pub foreign_flows: u64,
    /// Flows beyond the limit of a host.
    pub over_limit: u64,
    /// Ports that the ToR does not have in the fabric.
    pub foreign_ports: u64,
}

impl AccessRefusals {
    /// Each reason with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("malformed", self.malformed),
            ("unknown_principal", self.unknown),
            ("wrong_tag", self.untagged),
            ("stale", self.stale),
            ("foreign_flow", self.foreign_flows),
            ("over_limit", self.over_limit),
            ("foreign_port", self.foreign_ports),
        ]
        .into_iter()
    }
}

/// How the network is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// Agents that report.
    pub reporting: usize,
    /// Names of hosts and ToRs whose agents do not.
    pub away: Vec<String>,
    /// Whether agents obey a scheduler that started later.
    pub is_superseded: bool,
    /// Cables that are down.
    pub down: Vec<CableId>,
    /// Of a scheduler with detours.
    pub detours: Option<DetourStatus>,
    /// Flows that hosts report.
    pub flows: usize,
    /// Rounds with hosts that have not reported since the round before.
    pub late_rounds: u64,
    /// Lengths of the control loop, as agents measure them.
    pub loops: LoopLengths,
    /// What was dropped.
    pub refusals: AccessRefusals,
}

/// The weights of a ToR for new flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorLoad {
    /// Which.
    pub switch: SwitchId,
    /// V: what is left of its uplinks for flows that leave, in bits per second.
    pub out: u64,
    /// E: for flows that arrive.
    pub into: u64,
}

impl AccessNetwork {
    /// A network of which no agent has reported: `hosts` by the fabric's order, `tors` those that report.
    pub fn new(
        addresses: AccessAddresses,
        hosts: Vec<Member>,
        tors: BTreeMap<SwitchId, Member>,
        controller: Box<dyn Controller>,
        settings: NetworkSettings,
    ) -> Self {
        let fabric = addresses.fabric().clone();
        let members = fabric.hosts().map(Place::Host).zip(hosts).chain(tors.into_iter().map(|(tor, it)| (Place::Tor(tor), it)));
        let agents: BTreeMap<Place, Agent> = members.map(|(place, member)| (place, Agent::of(member))).collect();
        let mut network = Self {
            by_principal: agents.iter().map(|(&place, agent)| (agent.member.principal, place)).collect(),
            agents,
            router: Router::new(fabric.clone(), Routing::default(), 0),
            health: Health::new(&fabric),
            flows: BTreeMap::new(),
            meters: BTreeMap::new(),
            down: BTreeMap::new(),
            failed: BTreeSet::new(),
            weights: BTreeMap::new(),
            moves: BTreeMap::new(),
            detours: Detours::default(),
            gap: Duration::ZERO,
            asked: Instant::ZERO,
            housekeeping: Instant::ZERO,
            loops: LoopLengths::default(),
            refusals: AccessRefusals::default(),
            late_rounds: 0,
            superseded_by: 0,
            outputs: VecDeque::new(),
            addresses,
            controller,
            settings,
        };
        network.forget_participants();
        network
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: NetworkInput<'_>) {
        match input {
            NetworkInput::Received(from, bytes) => self.received(now, from, bytes),
            NetworkInput::Timer => self.timer(now),
        }
    }

    /// The next thing to do; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<NetworkOutput> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`NetworkInput::Timer`].
    pub fn deadline(&self) -> Instant {
        self.controller.deadline().map_or(self.housekeeping, |round| round.min(self.housekeeping))
    }

    /// The fabric's NICs.
    pub const fn addresses(&self) -> &AccessAddresses {
        &self.addresses
    }

    /// The scheduler.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// All agents of the fabric.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }

    /// The flows that hosts report, ascending by key, with their NICs and bytes.
    pub fn flows(&self) -> impl Iterator<Item = (FlowKey, NicPair, u64)> + '_ {
        self.flows.iter().map(|(&key, it)| (key, it.nics, it.bytes))
    }

    /// The weights of each ToR for new flows.
    pub fn loads(&self) -> impl Iterator<Item = TorLoad> + '_ {
        self.weights.iter().map(|(&switch, &[out, into])| TorLoad { switch, out, into })
    }

    /// How it is.
    pub fn status(&self, now: Instant) -> NetworkStatus {
        let away: Vec<String> =
            self.agents.iter().filter(|(_, agent)| self.is_away(now, agent)).map(|(&it, _)| self.name(it)).collect();
        NetworkStatus {
            reporting: self.agents.len() - away.len(),
            away,
            is_superseded: self.superseded_by > 0,
            down: self.down.keys().copied().collect(),
            detours: self.settings.detours.then(|| self.detour_status()),
            flows: self.flows.len(),
            late_rounds: self.late_rounds,
            loops: self.loops,
            refusals: self.refusals,
        }
    }

    fn fabric(&self) -> &Fabric {
        self.addresses.fabric()
    }

    fn name(&self, place: Place) -> String {
        let node = match place {
            Place::Host(host) => host.node(),
            Place::Tor(switch) => self.fabric().switch_node(switch),
        };
        self.fabric().node(node).name.to_string()
    }

    /// From one report of an agent to the next.
    fn every(&self) -> Duration {
        Duration::from_ns((self.settings.period.as_ns() / 2).clamp(EVERY_MIN.as_ns(), EVERY_MAX.as_ns()))
    }

    fn is_away(&self, now: Instant, agent: &Agent) -> bool {
        let silent = self.every() * 3 + AWAY;
        agent.heard.is_none_or(|heard| now.saturating_since(heard) > silent)
    }

    /// NICs that are down.
    fn down_nics(&self) -> Vec<Ipv4Addr> {
        let ends = self.down.keys().flat_map(|cable| cable.links()).filter_map(|link| {
            let host = self.fabric().as_host(self.fabric().link(link).from)?;
            self.addresses.of(host).get(usize::from(self.addresses.nic(host, link)?)).copied()
        });
        ends.collect()
    }
}

impl Agent {
    const fn of(member: Member) -> Self {
        Self {
            member,
            address: None,
            heard: None,
            sequence: 0,
            parts: BTreeSet::new(),
            listed: BTreeSet::new(),
            received: Instant::ZERO,
            complete: None,
            ahead: None,
            number: 0,
            forward_sequence: 0,
        }
    }

    /// Time of the agent's clock as ours.
    fn local_time(&mut self, now: Instant, time: Duration) -> Instant {
        let ahead = i128::from(now.as_ns()) - i128::from(time.as_ns());
        let ahead = *self.ahead.insert(self.ahead.map_or(ahead, |before| before.min(ahead)));
        u64::try_from(i128::from(time.as_ns()) + ahead).map_or(now, Instant::from_ns).min(now)
    }
}

impl Meter {
    const fn new(raw: u64, read_at: Instant) -> Self {
        Self { raw, total: 0, rate: 0.0, read_at, given: 0 }
    }

    /// Takes a reading. A counter that went back began again.
    fn read(&mut self, raw: u64, at: Instant) {
        let length = at.saturating_since(self.read_at).as_ns();
        if length == 0 {
            return;
        }
        let bytes = raw.checked_sub(self.raw).unwrap_or(raw);
        self.total += bytes;
        (self.raw, self.rate, self.read_at) = (raw, bytes as f64 / length as f64, at);
    }

    /// What it shows at `now`, at most `longest` after the last reading: never less than before.
    fn at(&mut self, now: Instant, longest: Duration) -> u64 {
        let length = now.saturating_since(self.read_at).as_ns().min(longest.as_ns());
        self.given = self.given.max(self.total + (self.rate * length as f64) as u64);
        self.given
    }
}

/// An agent that has not reported for three reports and this time is away.
const AWAY: Duration = Duration::from_secs(1);
