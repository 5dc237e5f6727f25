//! What one path carries: the limit of a single flow between hosts with several NICs, or faster than the links above them.
//!
//! Demand estimation shares the sum of a host's NICs, and knows no links between switches. A flow takes one NIC at each end and one path in
//! between, and cannot want more than the narrowest of these links.

use weft_fabric::routing::RootLabel;
use weft_fabric::{Fabric, HostId};

use crate::hedera::climbs::Climbs;

/// Limits of single flows, in fractions of the fastest host's NICs.
#[derive(Clone, Debug)]
pub struct PathCaps {
    /// By host: its fastest NIC.
    nic: Vec<f64>,
    /// The fastest link that leaves an edge switch upwards: no path carries more.
    ceiling: f64,
    unit: f64,
}

impl PathCaps {
    /// `None` if every path carries what a host sends. `unit` is the capacity of the fastest host in bits per second.
    pub fn new(fabric: &Fabric, climbs: &Climbs, unit: f64) -> Option<Self> {
        let single = |h: HostId| fabric.out(h.node()).iter().map(|&l| fabric.link(l).capacity).max();
        let is_switch = |n| fabric.as_host(n).is_none();
        let between = fabric.links().iter().filter(|l| is_switch(l.from) && is_switch(l.to)).map(|l| l.capacity.as_f64());
        let narrowest = between.fold(f64::INFINITY, f64::min);
        if fabric.hosts().all(|h| single(h) == Some(fabric.nic_capacity(h))) && narrowest >= unit {
            return None;
        }
        let nic = fabric.hosts().map(|h| single(h).map_or(0.0, |c| c.as_f64()) / unit).collect();
        Some(Self { nic, ceiling: climbs.fastest_first(fabric) / unit, unit })
    }

    /// What one flow between two hosts gets at most: on the best of all labels if they have a `choice`, else by their NICs.
    pub fn of(&self, fabric: &Fabric, climbs: &Climbs, src: HostId, dst: HostId, choice: bool) -> f64 {
        let nics = self.nic[src.index()].min(self.nic[dst.index()]);
        if !choice {
            return nics;
        }
        let (from, to) = (fabric.rack_of(src), fabric.rack_of(dst));
        let enough = nics.min(self.ceiling);
        let mut best = 0.0;
        for label in (0..climbs.labels() as u32).map(RootLabel) {
            let mut narrowest = f64::INFINITY;
            climbs.for_each_link(from, to, label, |l| narrowest = narrowest.min(fabric.link(l).capacity.as_f64()));
            best = f64::max(best, narrowest / self.unit);
            if best >= enough {
                return enough;
            }
        }
        best.min(enough)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_fabric::topology::FabricBuilder;
    use weft_fabric::{BitsPerSec, Duration};

    use super::*;
    use crate::hedera::network::Network;
    use crate::hedera::testing::{clos, fat_tree, single};

    #[test]
    fn most_fabrics_need_no_caps() {
        for fabric in [fat_tree(4), clos(4, 6, 3), single(4)] {
            assert!(Network::new(fabric).caps().is_none());
        }
    }

    #[test]
    fn a_flow_gets_the_narrowest_link_of_the_best_path() {
        let gbps = |n: u64| BitsPerSec(n * 1_000_000_000);
        let mut b = FabricBuilder::new("unequal");
        let tors: Vec<_> = (0..2).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
        let tops: Vec<_> = (0..2).map(|i| b.switch(format!("top{i}"), 2, None)).collect();
        let hosts: Vec<_> = (0..4).map(|i| b.host(format!("h{i}"), None)).collect();
        for (i, &host) in hosts.iter().enumerate() {
            b.cable(host, tors[i / 2], gbps(10), Duration::ZERO);
        }
        for (&top, rates) in tops.iter().zip([[1, 8], [4, 5]]) {
            tors.iter().zip(rates).for_each(|(&tor, rate)| b.cable(tor, top, gbps(rate), Duration::ZERO));
        }
        let network = Network::new(Arc::new(b.build().unwrap()));
        let cap = |src, dst| {
            let (src, dst) = (HostId(src), HostId(dst));
            network.caps().unwrap().of(network.fabric(), network.climbs(), src, dst, network.has_choice(src, dst))
        };
        assert_eq!(cap(0, 2), 0.4);
        assert_eq!(cap(0, 1), 1.0, "within a rack");
    }
}
