//! What fails, and who finds a path around it.
//!
//! ```text
//!   [[event]] --> links go down: what is on them is lost, switches forget what they learnt by them
//!                  |
//!                  +-- spanning tree: after a while it is recomputed, and all tables are flushed
//!                  +-- SPAIN: VLANs stay. The agent of each host misses signs of life, says hello, and moves its flows to other VLANs
//! ```
//! The agent is the one of the real network ([`SpainAgent`]); its destinations are edge switches by their place, its peers hosts. Its
//! hellos are what NetLord's section 3.4 calls chirps; they bear the addresses of hosts.

mod reactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_control::netlord::spain::{Destination, Input, SpainAgent, SpainConfig, VlanPath};
use weft_fabric::time::NsInstant;
use weft_fabric::topology::Health;
use weft_fabric::{CableId, Duration, Fabric, HostId, LinkId, SwitchId};

use super::frames::Frame;
use super::lans::Lans;
use super::{BridgedError, BridgedWorld, Multipath};
use crate::packet::tcp::NEVER;
use crate::world::TimedEvent;

/// What fails, and how soon that is found out.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultConfig {
    /// What fails and returns, in order of time.
    pub events: Vec<TimedEvent>,
    /// From a failure until the spanning tree is another one.
    pub reconverge: Duration,
    /// The same from a repair.
    pub restore_delay: Duration,
    /// How SPAIN's agents watch their paths.
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
    /// The longest time from the first frame that a host sent to an edge switch over a VLAN that a failure had cut, while there was another path, until its
    /// agent avoided that VLAN, or the bridges had another tree; what goes on at the end counts up to its last frame. `None` if nothing failed.
    pub reconverge: Option<Duration>,
    /// The longest time from a repair until the part was on a frame's path again; `None` if nothing was repaired, or something is still not.
    pub restore: Option<Duration>,
    /// Chirps that agents sent.
    pub chirps: u64,
    /// VLAN paths, VLANs to an edge switch, that agents avoided.
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
    /// By host, if SPAIN's VLANs are the paths.
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
        if matches!(world.multipath, Multipath::Spain(_)) {
            for host in &hosts {
                let mut spain = SpainAgent::new(config.agent)?;
                for (place, vlans) in (0..).zip(lans.from(host.0)).filter(|&(place, _)| place != lans.place_of(host.0)) {
                    spain.handle(NsInstant::ZERO, Input::Table { to: Destination(place), vlans });
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

    /// The outcome so far.
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
        let has_path =
            || if vlan == 0 { self.whole[a] == self.whole[b] } else { lans.between(host, to).iter().any(|v| joins(v.0)) };
        if !joins(vlan) && has_path() {
            let since = *self.in_vain.entry((host, Destination(lans.place_of(to)), vlan)).or_insert(now);
            self.reconverge = self.reconverge.max(Some(now - since));
        }
    }

    /// A host's agent avoids paths from now on.
    fn avoided(&mut self, host: u32, paths: &[VlanPath], now: u64) {
        for &(to, vlan) in paths {
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
