//! Subways (CoNEXT 2015, section 4): servers with p ports, each rack wired to an overlapping set of ToRs, on a three-layer fat-tree.
//!
//! ```text
//!   core       0  1  2     3  4  5        core group i serves the aggregation switch i of every cluster
//!               \ | /       \ | /
//!   agg           0           1    ...    A to a cluster
//!                 |  \     /  |
//!   tor      0    1    2    3    4    5   each to every aggregation switch of its cluster
//!            |  / |  / |  / |  / |  / |   type 1 and 2, p = 2: rack i to ToR i and to the next one counter-clockwise;
//!   rack     0    1    2    3    4    5   rack 0 closes the loop at the last ToR. Type 0: p links to ToR i
//! ```
//! | | |
//! | --- | --- |
//! | racks and ToRs | rack i has ToR i; ids ascend clockwise around each loop, loop after loop |
//! | NICs of a host | its own ToR, then those clockwise, the nearest first, then those counter-clockwise (section 4.2) |
//! | clusters, types 0 and 1 | ToR t is in cluster t / racks_per_cluster |
//! | clusters, type 2 | the ToRs of a block of c clusters are dealt round, one to each cluster in turn (section 4.3) |
//! | pod | the cluster; that of a host is the cluster of its own ToR |
//! | aggregation switches | `agg{cluster * A + i}` |
//! | cores | `core{(network * A + i) * U + j}`, j below U, the uplinks of an aggregation switch |
//!
//! Parallel interconnects (sections 4.3 and 8.4): with `speeds`, cluster k belongs to network k mod n, which has that speed and cores of its own.
//!
//! DEVIATION: section 8.1 gives switches above the ToRs 12 ports, and clusters of 12 racks: all ports would lead down. Here an
//! aggregation switch has 12 ports down and, at 4:1, 3 up, and the ports of a ToR follow from p (30 down and 6 up for p = 2).

mod spec;
mod wiring;

pub use spec::{Balancing, RackSize, Speeds, SubwaysSpec, SubwaysType, Trunk, Uplinks, Wiring};
pub use wiring::SubwaysWiring;

use crate::topology::shapes::Cabling;
use crate::topology::{Fabric, FabricBuilder, FabricError};

pub(super) fn build(spec: &SubwaysSpec, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    let wiring = spec.wiring(host_link, fabric_link)?;
    let mut fabric = FabricBuilder::new(wiring.title());
    let tors: Vec<_> = (0..wiring.tors()).map(|t| fabric.switch(format!("tor{t}"), 1, Some(wiring.cluster_of(t)))).collect();
    let aggs: Vec<_> = (0..wiring.clusters * wiring.aggregations)
        .map(|a| fabric.switch(format!("agg{a}"), 2, (wiring.levels == 3).then_some(a / wiring.aggregations)))
        .collect();
    let cores: Vec<_> = (0..wiring.cores()).map(|c| fabric.switch(format!("core{c}"), 3, None)).collect();
    for host in 0..wiring.hosts() {
        let rack = wiring.rack_of(host);
        let id = fabric.host(format!("h{host}"), Some(wiring.cluster_of(rack)));
        for tor in wiring.nics_of_rack(rack) {
            let link = wiring.host_link(wiring.network_of(wiring.cluster_of(tor)));
            fabric.cable(id, tors[tor as usize], link.rate, link.delay);
        }
    }
    for tor in 0..wiring.tors() {
        let cluster = wiring.cluster_of(tor);
        let link = wiring.fabric_link(wiring.network_of(cluster));
        for i in 0..wiring.aggregations {
            fabric.cable(tors[tor as usize], aggs[wiring.agg(cluster, i) as usize], link.rate, link.delay);
        }
    }
    for cluster in 0..wiring.clusters {
        let link = wiring.fabric_link(wiring.network_of(cluster));
        for i in 0..wiring.aggregations {
            for j in 0..wiring.agg_uplinks {
                let core = wiring.core(wiring.network_of(cluster), i, j);
                fabric.cable(aggs[wiring.agg(cluster, i) as usize], cores[core as usize], link.rate, link.delay);
            }
        }
    }
    fabric.build()
}

#[cfg(test)]
mod tests;
