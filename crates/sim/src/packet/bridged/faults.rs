//! What fails, and who finds a way around it.
//!
//! ```text
//!   [[event]] --> links go down: what is on them is lost, switches forget what they learnt by them
//!                  |
//!                  +-- spanning tree: after a while it is computed anew, and all tables are emptied
//!                  +-- SPAIN: VLANs stay. The agent of each host misses signs of life, says hello, and moves its flows to other VLANs
//! ```
//! The agent is the one of the real network ([`SpainAgent`]); its destinations are edge switches by their place, its peers hosts. Its
//! hellos are what NetLord's section 3.4 calls chirps; they bear the addresses of hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_control::netlord::spain::{Destination, Input, Output, SpainAgent, SpainConfig, Way};
use weft_fabric::topology::{Health, Part};
use weft_fabric::{CableId, Duration, Fabric, HostId, Instant, LinkId, SwitchId};

use super::engine::{AGENT, Engine, TREE};
use super::fib::Fib;
use super::frames::{Frame, Kind};
use super::lans::Lans;
use super::{BridgedError, BridgedWorld, Ways};
use crate::packet::tcp::NEVER;
use crate::world::{Change, TimedEvent};

/// What fails, and how soon that is found out.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultConfig {
    /// What fails and returns, in order of time.
    pub events: Vec<TimedEvent>,
    /// From a failure until the spanning tree is another one.
    pub reconverge: Duration,
    /// The same from a repair.
    pub restore_delay: Duration,
    /// How SPAIN's agents watch their ways.
    pub agent: SpainConfig,
}

impl Default for FaultConfig {
    /// Nothing fails.
    fn default() -> Self {
        Self { events: Vec::new(), reconverge: Duration::ZERO, restore_delay: Duration::ZERO, agent: SpainConfig::default() }
    }
}

/// What a run shows of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultOutcome {
    /// The longest time from the first frame that a host sent to an edge switch over a VLAN that a failure had cut, while there was another way, until its
    /// agent avoided that VLAN, or the bridges had another tree; what goes on at the end counts up to its last frame. `None` if nothing failed.
    pub reconverge: Option<Duration>,
    /// The longest time from a repair until the part was on a frame's way again; `None` if nothing was repaired, or something is still not.
    pub restore: Option<Duration>,
    /// Chirps that agents sent.
    pub chirps: u64,
    /// Ways, VLANs to an edge switch, that agents avoided.
    pub failovers: u64,
}

/// The state of a run in which something fails.
#[derive(Debug)]
pub(super) struct Faults {
    fabric: Arc<Fabric>,
    config: FaultConfig,
    hosts: Vec<HostId>,
    health: Health,
    /// What the bridges' protocol knows of it.
    believed: Health,
    /// By host, if SPAIN's VLANs are the ways.
    agents: Vec<Option<Agent>>,
    /// By VLAN, then switch: in which part of the VLAN's tree it is.
    parts: Vec<Vec<u32>>,
    /// By switch: in which part of the network.
    whole: Vec<u32>,
    /// By host, edge switch and VLAN: since when frames are sent there in vain.
    in_vain: BTreeMap<(u32, Destination, u16), u64>,
    reconverge: Option<u64>,
    /// Repaired parts that have carried nothing since: when, and their links.
    idle: Vec<(u64, Vec<LinkId>)>,
    restore: Option<u64>,
}

#[derive(Debug)]
struct Agent {
    spain: SpainAgent,
    /// When its timer will come.
    armed: u64,
}

impl Faults {
    /// `None` if nothing fails.
    pub fn new(world: &BridgedWorld, lans: &Lans) -> Result<Option<Self>, BridgedError> {
        let config = world.faults.clone();
        if config.events.is_empty() {
            return Ok(None);
        }
        let mut agents: Vec<Option<Agent>> = (0..world.fabric.host_count()).map(|_| None).collect();
        let hosts = world.hosts();
        if matches!(world.ways, Ways::Spain(_)) {
            for host in &hosts {
                let mut spain = SpainAgent::new(config.agent)?;
                for (place, vlans) in (0..).zip(lans.from(host.0)).filter(|&(place, _)| place != lans.place_of(host.0)) {
                    spain.handle(Instant::ZERO, Input::Table { to: Destination(place), vlans });
                }
                agents[host.index()] = Some(Agent { spain, armed: NEVER });
            }
        }
        let health = Health::new(&world.fabric);
        let mut faults = Self {
            fabric: Arc::clone(&world.fabric),
            config,
            hosts,
            believed: health.clone(),
            health,
            agents,
            parts: Vec::new(),
            whole: Vec::new(),
            in_vain: BTreeMap::new(),
            reconverge: None,
            idle: Vec::new(),
            restore: None,
        };
        faults.divide(lans);
        Ok(Some(faults))
    }

    /// What there is to tell.
    pub fn outcome(&self) -> FaultOutcome {
        let counters = || self.agents.iter().flatten().map(|agent| agent.spain.counters());
        FaultOutcome {
            reconverge: self.reconverge.map(Duration::from_ps),
            restore: self.restore.filter(|_| self.idle.is_empty()).map(Duration::from_ps),
            chirps: counters().map(|c| c.chirps).sum(),
            failovers: counters().map(|c| c.failures).sum(),
        }
    }

    /// A frame is on its way by a link.
    #[inline]
    pub fn is_used(&mut self, link: u32, frame: &Frame, now: u64) {
        if self.idle.is_empty() || frame.is_hello() {
            return;
        }
        if let Some(i) = self.idle.iter().position(|(_, links)| links.contains(&LinkId(link))) {
            let (since, _) = self.idle.swap_remove(i);
            self.restore = self.restore.max(Some(now - since));
        }
    }

    /// Finds out which switches each VLAN still joins.
    fn divide(&mut self, lans: &Lans) {
        self.parts = lans.trees().iter().map(|tree| parts(&self.fabric, &self.health, tree.iter().copied())).collect();
        self.whole = parts(&self.fabric, &self.health, self.fabric.cables());
    }

    /// A host sends a frame over a VLAN from one edge switch to another.
    fn sent(&mut self, lans: &Lans, (host, to): (u32, u32), vlan: u16, now: u64) {
        let [a, b] = [host, to].map(|h| lans.attached(h).edge as usize);
        let joins = |vlan: u16| self.parts[usize::from(vlan)][a] == self.parts[usize::from(vlan)][b];
        let has_way =
            || if vlan == 0 { self.whole[a] == self.whole[b] } else { lans.between(host, to).iter().any(|v| joins(v.0)) };
        if !joins(vlan) && has_way() {
            let since = *self.in_vain.entry((host, Destination(lans.place_of(to)), vlan)).or_insert(now);
            self.reconverge = self.reconverge.max(Some(now - since));
        }
    }

    /// A host's agent avoids ways from now on.
    fn avoided(&mut self, host: u32, ways: &[Way], now: u64) {
        for &(to, vlan) in ways {
            let since = self.in_vain.remove(&(host, to, vlan.0));
            self.reconverge = self.reconverge.max(since.map(|since| now - since));
        }
    }

    /// The bridges have another tree.
    fn has_tree(&mut self, now: u64) {
        let longest = std::mem::take(&mut self.in_vain).into_values().map(|since| now - since).max();
        self.reconverge = self.reconverge.max(longest);
    }
}

impl Engine {
    /// The time of an event has come.
    pub(super) fn on_fault(&mut self, number: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        let (part, works, is_noticed) = match faults.config.events[number as usize].change {
            Change::Fail(part) => (part, false, true),
            Change::FailSilent(part) => (part, false, false),
            Change::Restore(part) => (part, true, true),
        };
        let Faults { fabric, health, .. } = &mut *faults;
        let links = if works { health.restore(fabric, part) } else { health.fail(fabric, part) };
        for link in &links {
            self.ports.set_up(link.0, works);
            // A switch sees that its own port is down, and forgets what it learnt by it.
            if let Some(switch) = fabric.as_switch(fabric.link(*link).from).filter(|_| !works && is_noticed) {
                self.fibs[switch.index()].forget(link.0);
            }
        }
        if let Part::Node(node) = part
            && let Some(switch) = fabric.as_switch(node)
        {
            self.fibs[switch.index()].clear();
        }
        faults.idle.retain(|(_, idle)| links.iter().all(|link| !idle.contains(link)));
        if !works {
            faults.reconverge = faults.reconverge.max(Some(0));
        } else if !links.is_empty() {
            faults.idle.push((self.now, links));
        }
        faults.in_vain.clear();
        faults.divide(&self.lans);
        let is_tree = faults.agents.iter().all(Option::is_none);
        if is_tree && is_noticed {
            let delay = if works { faults.config.restore_delay } else { faults.config.reconverge };
            self.wheel.push(self.now.saturating_add(delay.as_ps()), self.timers + TREE, number);
        }
        self.faults = Some(faults);
    }

    /// The bridges have agreed on a tree without what an event took, or with what it brought.
    pub(super) fn on_tree(&mut self, number: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        let Faults { fabric, believed, hosts, config, .. } = &mut *faults;
        match config.events[number as usize].change {
            Change::Fail(part) | Change::FailSilent(part) => believed.fail(fabric, part),
            Change::Restore(part) => believed.restore(fabric, part),
        };
        let lans = Lans::new(fabric, hosts, None, believed);
        if lans.trees() != self.lans.trees() {
            self.lans = lans;
            self.fibs.iter_mut().for_each(Fib::clear);
            faults.has_tree(self.now);
            faults.divide(&self.lans);
        }
        self.faults = Some(faults);
    }

    /// A host sends a frame: its agent chooses the VLAN.
    pub(super) fn outgoing(&mut self, frame: &mut Frame) {
        let ends = self.hosts_of(frame);
        let [from, to] = [ends.0, ends.1].map(|host| self.lans.place_of(host));
        if from == to || !frame.is_of_flow() {
            return;
        }
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = &mut faults.agents[ends.0 as usize]
            && let Some(vlan) = agent.spain.choose(Destination(to), self.flow_of(frame))
        {
            frame.vlan = vlan.0;
            self.keep_vlan(frame);
            agent.spain.handle(Instant::from_ps(self.now), Input::Sent { way: (Destination(to), vlan), peer: ends.1 });
            let failed = self.run_agent(ends.0, agent);
            faults.avoided(ends.0, &failed, self.now);
        }
        faults.sent(&self.lans, ends, frame.vlan, self.now);
        self.faults = Some(faults);
    }

    /// An end goes on by another VLAN.
    fn keep_vlan(&mut self, frame: &Frame) {
        match (frame.kind, &mut self.rx[frame.vm as usize]) {
            (Kind::Syn | Kind::Data, _) => self.tx[frame.vm as usize].vlan = frame.vlan,
            (_, rx) if rx.transfer == frame.transfer => rx.vlan = frame.vlan,
            _ => {}
        }
    }

    /// A host gets a frame: a sign of life of its way.
    pub(super) fn incoming(&mut self, frame: &Frame) {
        let (peer, host) = self.hosts_of(frame);
        let [from, here] = [peer, host].map(|host| self.lans.place_of(host));
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = faults.agents[host as usize].as_mut().filter(|_| from != here) {
            let way = (Destination(from), weft_fabric::routing::spain::VlanId(frame.vlan));
            let is_asked = frame.kind == Kind::Hello;
            let input = if is_asked { Input::Chirped { way, peer } } else { Input::Heard { way, peer } };
            agent.spain.handle(Instant::from_ps(self.now), input);
            let failed = self.run_agent(host, agent);
            faults.avoided(host, &failed, self.now);
        }
        self.faults = Some(faults);
    }

    /// The timer of a host's agent has come.
    pub(super) fn on_agent(&mut self, host: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = faults.agents[host as usize].as_mut().filter(|agent| agent.armed == self.now) {
            agent.armed = NEVER;
            agent.spain.handle(Instant::from_ps(self.now), Input::Timer);
            let failed = self.run_agent(host, agent);
            faults.avoided(host, &failed, self.now);
        }
        self.faults = Some(faults);
    }

    /// Does what an agent asks for, and returns the ways that it avoids from now on.
    fn run_agent(&mut self, host: u32, agent: &mut Agent) -> Vec<Way> {
        let mut failed = Vec::new();
        while let Some(output) = agent.spain.poll() {
            let (kind, (_, vlan), peer) = match output {
                Output::Chirp(way, peer) => (Kind::Hello, way, peer),
                Output::Answer(way, peer) => (Kind::HelloBack, way, peer),
                Output::Failed(way) => {
                    failed.push(way);
                    continue;
                }
                Output::Restored(_) => continue,
            };
            let len = self.header;
            self.emit(Frame { vm: host, peer, number: 0, transfer: 0, len, vlan: vlan.0, kind, flags: 0 });
        }
        let deadline = agent.spain.deadline().map_or(NEVER, Instant::as_ps);
        if deadline < agent.armed {
            agent.armed = deadline;
            self.wheel.push(deadline.max(self.now), self.timers + AGENT, host);
        }
        failed
    }
}

/// By switch: which of the switches that working cables join to it is the least.
fn parts(fabric: &Fabric, health: &Health, cables: impl Iterator<Item = CableId>) -> Vec<u32> {
    let mut least: Vec<u32> = (0..fabric.switch_count() as u32).collect();
    fn find(least: &mut [u32], mut at: u32) -> u32 {
        while least[at as usize] != at {
            least[at as usize] = least[least[at as usize] as usize];
            at = least[at as usize];
        }
        at
    }
    for link in cables.map(|cable| cable.links()[0]).filter(|&link| health.is_up(link)) {
        let ends = [fabric.link(link).from, fabric.link(link).to].map(|node| fabric.as_switch(node));
        if let [Some(a), Some(b)] = ends.map(|end| end.map(|SwitchId(s)| find(&mut least, s))) {
            least[a.max(b) as usize] = a.min(b);
        }
    }
    (0..least.len() as u32).map(|at| find(&mut least, at)).collect()
}
