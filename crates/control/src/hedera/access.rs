//! The NICs of hosts that have several: links that a label chooses, like those between switches (Subways section 4).
//!
//! ```text
//!   label -> climb -> its ToR -> a bundle: the NICs of the host on that ToR -> one of them, the least loaded
//!
//!   type 0   host === ToR              one bundle of two NICs: no label changes its load
//!   type 1   host --- ToR a, ToR b     two bundles of one NIC: the label chooses
//! ```
//! Loads and capacities of a bundle are kept at its first link, in each direction. Flows of a host whose NICs are all alike to the labels
//! are spread over the NICs of the bundle when they are given a path.

use smallvec::SmallVec;
use weft_fabric::routing::{Path, RootLabel, RootPaths};
use weft_fabric::{Fabric, Health, HostId, LinkId, NodeId, RackId};

use crate::hedera::units::Units;

/// The bundles of all hosts, and which of them each label takes.
#[derive(Clone, Debug)]
pub struct Access {
    labels: usize,
    /// `[rack][label]`: the position of the bundle by which the rack's hosts send and receive.
    up: Vec<u8>,
    down: Vec<u8>,
    /// By host: where its bundles begin; those of one rack are in the same order.
    start: Vec<u32>,
    bundles: Vec<Bundle>,
}

/// The NICs of a host on one switch.
type Bundle = SmallVec<[LinkId; 2]>;

impl Access {
    /// `None` if every host has one NIC.
    pub fn new(fabric: &Fabric, paths: &RootPaths) -> Option<Self> {
        if fabric.hosts().all(|h| fabric.out(h.node()).len() == 1) {
            return None;
        }
        let mut start = vec![0];
        let mut bundles: Vec<Bundle> = Vec::new();
        for host in fabric.hosts() {
            let first = bundles.len();
            for &nic in fabric.out(host.node()) {
                let to = fabric.link(nic).to;
                match bundles[first..].iter_mut().find(|b| fabric.link(b[0]).to == to) {
                    Some(bundle) => bundle.push(nic),
                    None => bundles.push(SmallVec::from_slice(&[nic])),
                }
            }
            start.push(bundles.len() as u32);
        }
        let labels = paths.label_count();
        let mut access = Self { labels, up: Vec::new(), down: Vec::new(), start, bundles };
        for (r, rack) in fabric.racks().iter().enumerate() {
            let of_rack = access.of(rack.hosts[0]);
            // The bundle of the switch that a climb leaves; of an empty climb, the first.
            let position = |climb: &[LinkId]| {
                let from = climb.first().map(|&l| fabric.link(l).from);
                let to = |b: &Bundle| fabric.link(b[0]).to;
                from.and_then(|from: NodeId| of_rack.iter().position(|b| to(b) == from)).unwrap_or(0) as u8
            };
            let all = || (0..labels as u32).map(RootLabel);
            let up: Vec<u8> = all().map(|l| position(paths.up(RackId::from(r), l))).collect();
            let down: Vec<u8> = all().map(|l| position(paths.down(RackId::from(r), l))).collect();
            access.up.extend(up);
            access.down.extend(down);
        }
        Some(access)
    }

    /// The links at which the loads of a path's two bundles are kept, in the direction of the path.
    #[inline]
    pub fn ends(&self, (src, from): (HostId, RackId), (dst, to): (HostId, RackId), label: RootLabel) -> [LinkId; 2] {
        let at = |rack: RackId| rack.index() * self.labels + label.0 as usize;
        let (up, down) = (self.up[at(from)] as usize, self.down[at(to)] as usize);
        [self.of(src)[up][0], self.of(dst)[down][0].reverse()]
    }

    /// Links of NICs whose bundles have several: their capacity is kept at the first of them.
    pub fn shared(&self) -> impl Iterator<Item = &[LinkId]> {
        self.bundles.iter().filter(|b| b.len() > 1).map(|b| &b[..])
    }

    /// The bundle of a host's link (in either direction), if it holds several NICs.
    pub fn bundle_of(&self, fabric: &Fabric, link: LinkId) -> Option<&[LinkId]> {
        let (out, back) = (fabric.as_host(fabric.link(link).from), fabric.as_host(fabric.link(link).to));
        let nic = if out.is_some() { link } else { link.reverse() };
        let bundles = self.of(out.or(back)?);
        bundles.iter().find(|b| b.len() > 1 && b.contains(&nic)).map(|b| &b[..])
    }

    fn of(&self, host: HostId) -> &[Bundle] {
        &self.bundles[self.start[host.index()] as usize..self.start[host.index() + 1] as usize]
    }
}

/// Spreads flows over the NICs of their bundles.
#[derive(Clone, Debug, Default)]
pub struct NicChoice {
    /// By link: the demands on it.
    load: Vec<Units>,
}

impl NicChoice {
    /// Forgets all loads.
    pub fn clear(&mut self, fabric: &Fabric) {
        self.load.clear();
        self.load.resize(fabric.links().len(), 0);
    }

    /// Counts a flow that stays on its path.
    pub fn keep(&mut self, path: &[LinkId], demand: Units) {
        if let [first, .., last] = path {
            self.load[first.index()] += demand;
            self.load[last.index()] += demand;
        }
    }

    /// Gives a path the NICs with the least load of those in its bundles that are up, and counts it.
    pub fn choose(&mut self, access: &Access, fabric: &Fabric, health: &Health, path: &mut Path, demand: Units) {
        let last = path.len() - 1;
        for end in [0, last] {
            let given = path[end];
            let bundle = access.bundle_of(fabric, given).unwrap_or_default();
            let directed = |nic: &LinkId| if end == 0 { *nic } else { nic.reverse() };
            let up = bundle.iter().map(directed).filter(|&l| health.is_up(l));
            path[end] = up.min_by_key(|l| self.load[l.index()]).unwrap_or(given);
        }
        self.keep(path, demand);
    }
}
