//! What the placement algorithms know of the network: labelled paths, capacities, what has failed.

use std::sync::Arc;

use weft_fabric::routing::{Path, RootLabel, RootPaths};
use weft_fabric::topology::Part;
use weft_fabric::{Fabric, Health, HostId, LinkId, RackId};

use crate::hedera::access::Access;
use crate::hedera::caps::PathCaps;
use crate::hedera::climbs::Climbs;

pub use crate::hedera::units::{NIC, Units, from_units, to_units};

/// A fabric as a scheduler sees it.
#[derive(Clone, Debug)]
pub struct Network {
    fabric: Arc<Fabric>,
    paths: RootPaths,
    climbs: Climbs,
    /// NICs, if some host has several.
    access: Option<Access>,
    /// What one path carries, if that can be less than a host sends.
    caps: Option<PathCaps>,
    health: Health,
    /// By host: its NIC as a fraction of the fastest.
    nic: Vec<f64>,
    /// By link, when it works; that of a bundle of NICs at the first of them.
    nominal: Vec<Units>,
    /// By link: 0 while it is down, as is a bundle of which no NIC works.
    capacity: Vec<Units>,
    links_down: usize,
}

impl Network {
    /// The network while everything works. Lists all labelled paths: O(racks x labels).
    pub fn new(fabric: Arc<Fabric>) -> Self {
        let paths = RootPaths::new(Arc::clone(&fabric));
        let climbs = Climbs::new(&fabric, &paths);
        let fastest = fabric.hosts().map(|h| fabric.nic_capacity(h)).max().expect("a fabric has hosts").as_f64();
        let nominal: Vec<Units> = fabric.links().iter().map(|l| to_units(l.capacity.as_f64() / fastest)).collect();
        let access = Access::new(&fabric, &paths);
        let mut sums = Vec::new();
        for bundle in access.iter().flat_map(Access::shared) {
            for directed in [|l: LinkId| l, LinkId::reverse] {
                let sum = bundle.iter().map(|&l| nominal[directed(l).index()]).sum();
                sums.push((directed(bundle[0]), sum));
            }
        }
        let caps = PathCaps::new(&fabric, &climbs, fastest);
        let mut network = Self {
            nic: fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64() / fastest).collect(),
            health: Health::new(&fabric),
            capacity: nominal.clone(),
            nominal,
            paths,
            climbs,
            access,
            caps,
            fabric,
            links_down: 0,
        };
        for (link, sum) in sums {
            network.nominal[link.index()] = sum;
            network.capacity[link.index()] = sum;
        }
        network
    }

    /// The graph.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The links of each label.
    pub fn climbs(&self) -> &Climbs {
        &self.climbs
    }

    /// By host: the capacity of its NIC as a fraction of the fastest.
    pub fn nic(&self) -> &[f64] {
        &self.nic
    }

    /// What one path carries, if that can be less than a host sends.
    pub fn caps(&self) -> Option<&PathCaps> {
        self.caps.as_ref()
    }

    /// What one flow between two hosts can get, as a fraction of the fastest host's NICs; infinite if there are no caps.
    pub fn cap(&self, src: HostId, dst: HostId) -> f64 {
        let of = |caps: &PathCaps| caps.of(&self.fabric, &self.climbs, src, dst, self.has_choice(src, dst));
        self.caps.as_ref().map_or(f64::INFINITY, of)
    }

    /// The NICs, if some host has several.
    pub fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    /// What works.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// By link: its capacity, 0 while it is down.
    pub fn capacity(&self) -> &[Units] {
        &self.capacity
    }

    /// Whether something is down.
    pub fn degraded(&self) -> bool {
        self.links_down > 0
    }

    /// Whether a host's flows to another one have a choice at all: hosts that share an edge switch have not.
    pub fn has_choice(&self, src: HostId, dst: HostId) -> bool {
        let (from, to) = (self.fabric.rack_of(src), self.fabric.rack_of(dst));
        from != to && (self.access.is_none() || !self.share_a_switch(from, to))
    }

    fn share_a_switch(&self, a: RackId, b: RackId) -> bool {
        let switches = |r: RackId| &self.fabric.racks()[r.index()].switches;
        switches(a).iter().any(|s| switches(b).contains(s))
    }

    /// The path under a label, NIC to NIC.
    pub fn path(&self, src: HostId, dst: HostId, label: RootLabel) -> Path {
        self.paths.path(src, dst, label)
    }

    /// The labels under which flows between two hosts take a path, whichever NIC of a bundle it has: several within a pod, none if labels give no
    /// such path. O(labels).
    pub fn labels_of(&self, src: HostId, dst: HostId, path: &[LinkId]) -> Vec<RootLabel> {
        let [_, between @ .., _] = path else { return Vec::new() };
        if !self.has_choice(src, dst) {
            return Vec::new();
        }
        let (from, to) = (self.fabric.rack_of(src), self.fabric.rack_of(dst));
        let is_path = |label: &RootLabel| {
            let (mut links, mut same) = (between.iter(), true);
            self.climbs.for_each_link(from, to, *label, |link| same &= links.next() == Some(&link));
            same && links.next().is_none()
        };
        (0..self.climbs.labels() as u32).map(RootLabel).filter(is_path).collect()
    }

    /// Whether all links of the path under a label are up (the only NIC of a host is up: no label could replace it).
    pub fn is_up(&self, src: HostId, dst: HostId, label: RootLabel) -> bool {
        let mut up = true;
        if self.degraded() {
            self.for_each_link(src, dst, label, |l| up &= self.capacity[l.index()] > 0);
        }
        up
    }

    /// Calls `each` with the links that a label chooses: those between switches, and of hosts with several NICs the two at the ends (the
    /// first of the bundle).
    #[inline]
    pub fn for_each_link(&self, src: HostId, dst: HostId, label: RootLabel, mut each: impl FnMut(LinkId)) {
        let (from, to) = (self.fabric.rack_of(src), self.fabric.rack_of(dst));
        if let Some(access) = &self.access {
            access.ends((src, from), (dst, to), label).into_iter().for_each(&mut each);
        }
        self.climbs.for_each_link(from, to, label, each);
    }

    /// A part fails. Returns the links that went down by it.
    pub fn fail(&mut self, part: Part) -> Vec<LinkId> {
        let mut links = self.health.fail(&self.fabric, part);
        self.links_down += links.len();
        self.set_capacities(&mut links);
        links
    }

    /// A part works again. Returns the links that came up by it.
    pub fn restore(&mut self, part: Part) -> Vec<LinkId> {
        let mut links = self.health.restore(&self.fabric, part);
        self.links_down -= links.len();
        self.set_capacities(&mut links);
        links
    }

    /// Sets the capacities of links that went down or came up; adds the first links of the bundles that they belong to.
    fn set_capacities(&mut self, links: &mut Vec<LinkId>) {
        for i in 0..links.len() {
            let link = links[i];
            self.capacity[link.index()] = if self.health.is_up(link) { self.nominal[link.index()] } else { 0 };
            let Some(bundle) = self.access.as_ref().and_then(|a| a.bundle_of(&self.fabric, link)) else { continue };
            let outward = self.fabric.as_host(self.fabric.link(link).from).is_some();
            let directed = |l: &LinkId| if outward { *l } else { l.reverse() };
            let up = bundle.iter().map(directed).filter(|&l| self.health.is_up(l)).count() as Units;
            let first = directed(&bundle[0]);
            // NICs of one bundle are taken for alike.
            self.capacity[first.index()] = self.nominal[first.index()] / bundle.len() as Units * up;
            if !links.contains(&first) {
                links.push(first);
            }
        }
    }

    /// The load of each link that labels choose if the flows take the paths of their labels; flows without one are left out.
    pub fn loads(&self, flows: &[Candidate]) -> Vec<Units> {
        let mut loads = vec![0; self.capacity.len()];
        for flow in flows {
            if let Some(label) = flow.label {
                self.for_each_link(flow.src, flow.dst, label, |l| loads[l.index()] += flow.demand);
            }
        }
        loads
    }

    /// Hedera's energy (section 4.4): what the loads exceed the capacities by, summed over all links that labels choose.
    ///
    /// The links of hosts with one NIC are left out: no choice of labels changes their load, and estimated demands never exceed them.
    pub fn energy(&self, flows: &[Candidate]) -> Units {
        self.loads(flows).iter().zip(&self.capacity).map(|(load, capacity)| (load - capacity).max(0)).sum()
    }
}

/// A large flow to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Sending host.
    pub src: HostId,
    /// Receiving host, of another rack.
    pub dst: HostId,
    /// Its natural demand.
    pub demand: Units,
    /// Its label; `None` while it is left to the switches' hash.
    pub label: Option<RootLabel>,
    /// What First Fit has reserved for it under that label.
    pub reserved: Units,
}

/// Why flows are placed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A scheduling round.
    Round,
    /// A part has failed: only flows that crossed it need a new path.
    Failure,
}

/// An algorithm that gives labels to flows. It may keep what it learned from one round to the next.
pub trait Place: Send {
    /// Sets the labels of all flows, which are large and under way. They hold what the last call left, or `None` if they are new.
    fn place(&mut self, network: &Network, flows: &mut [Candidate], occasion: Occasion);

    /// A flow has a label that another scheduler gave it, with a path that works: it is among those of the next call of [`Place::place`].
    fn take_over(&mut self, network: &Network, flow: &mut Candidate) {
        let _ = (network, flow);
    }

    /// The labels of the last call of [`Place::place`] were not taken: the flows keep those that they had before it.
    fn rejected(&mut self, network: &Network, before: &[Candidate], placed: &[Candidate]) {
        let _ = (network, before, placed);
    }

    /// Another placement of the flows of the last round, for the scheduler to take if it is better: then the labels of the last call count
    /// as rejected.
    fn alternative(&self) -> Option<&[Candidate]> {
        None
    }

    /// A flow has ended.
    fn ended(&mut self, network: &Network, flow: &Candidate) {
        let _ = (network, flow);
    }

    /// These links went down or came up.
    fn links_changed(&mut self, network: &Network, links: &[LinkId]) {
        let _ = (network, links);
    }

    /// By destination host, the label of all flows to it, if the algorithm gives labels to destinations.
    fn labels_of_destinations(&self) -> Option<&[Option<RootLabel>]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hedera::testing::fat_tree;

    #[test]
    fn equal_parts_fill_a_link_and_never_overflow_it() {
        for parts in 1..2000 {
            assert!(to_units(1.0 / f64::from(parts)) * Units::from(parts) <= NIC, "{parts}");
        }
        assert_eq!(to_units(1.0 - 1e-15), NIC);
        assert_eq!(to_units(1.0 + 1e-15), NIC);
    }

    #[test]
    fn a_failed_link_has_no_capacity_until_it_is_restored() {
        let mut network = Network::new(fat_tree(4));
        let part = Part::parse(network.fabric(), "switch core0").unwrap();
        assert_eq!(network.fail(part).len(), 8);
        assert!(!network.is_up(HostId(0), HostId(15), RootLabel(0)));
        assert!(network.is_up(HostId(0), HostId(15), RootLabel(1)));
        assert!(network.is_up(HostId(0), HostId(2), RootLabel(0)), "turns below the core");
        assert_eq!(network.restore(part).len(), 8);
        assert!(!network.degraded());
    }

    #[test]
    fn energy_sums_what_exceeds_the_capacities() {
        let network = Network::new(fat_tree(4));
        let flow =
            |src, dst| Candidate { src: HostId(src), dst: HostId(dst), demand: NIC, label: Some(RootLabel(0)), reserved: 0 };
        // Two flows of one edge switch to two pods share edge-agg and agg-core.
        assert_eq!(network.energy(&[flow(0, 4), flow(1, 8)]), 2 * NIC);
        assert_eq!(network.energy(&[flow(0, 4), flow(4, 0)]), 0);
    }
}
