//! The regular fabrics. Each file fixes names, numbering and wiring of one; ids follow from the order of construction.
//!
//! | [`Shape`] | tiers, from the bottom | names | pod |
//! | --- | --- | --- | --- |
//! | `FatTree` | edge, aggregation, core | `edge0 agg0 core0` | k/2 edge and k/2 aggregation switches |
//! | `TwoLevel`, `TwoLevelOfPorts` | edge, core | `edge0 core0` | one edge switch |
//! | `Clos`, `ClosExplicit` | ToR, aggregation, intermediate | `tor0 agg0 int0` | aggregation switches that share ToRs |
//! | `Tree` | ToR, (aggregation,) core | `tor0 agg0 core0` | a pair of aggregation switches; without them a ToR |
//! | `Clique` | edge | `edge0` | the whole fabric |
//! | `Switch` | the switch | `switch0` | the whole fabric |
//! | `Subways` | ToR, aggregation(, core) | `tor0 agg0 core0` | a cluster; without cores the ToRs and servers of one |
//!
//! Hosts are `h0`, `h1`, ... everywhere, contiguous by rack and then by pod. A pod is what hangs together below the roots,
//! the switches of the highest tier (Hedera section 3.1); where the hosts attach to the roots themselves there is one pod.
//! In Subways servers of type 2 hang in several clusters: there the pod is the cluster of a server's own ToR, and hosts are numbered around
//! the loops, so that those of a pod are not contiguous.

mod clique;
mod clos;
mod fat_tree;
pub(crate) mod limits;
mod single_switch;
pub mod subways;
mod tree;
mod two_level;

pub use fat_tree::fat_tree;
pub use single_switch::{ideal_of, single_switch};
pub use subways::SubwaysSpec;

use crate::time::Duration;
use crate::topology::{Fabric, FabricError};
use crate::units::BitsPerSec;

/// Capacity and propagation delay of a kind of cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cabling {
    /// Bits per second in each direction.
    pub rate: BitsPerSec,
    /// One-way propagation delay.
    pub delay: Duration,
}

/// A regular fabric by its parameters: what `[fabric]` of a scenario says, and `docs/fabrics.md` explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// `fat-tree`: the three-level fat-tree of `k`-port switches (Hedera section 5.1).
    FatTree {
        /// Ports of a switch: even, from 2 to 128.
        k: u32,
    },
    /// `fat-tree` with `levels = 2`: every edge switch to every core switch (NetLord section 5.2).
    TwoLevel {
        /// Edge switches.
        edges: u32,
        /// Core switches: the uplinks of an edge switch.
        cores: u32,
        /// Hosts of an edge switch.
        hosts_per_edge: u32,
    },
    /// `fat-tree` with `levels = 2`, from the ports of its switches: `k` edge switches of k/2 hosts, k/2 cores.
    TwoLevelOfPorts {
        /// Ports of a switch: even.
        k: u32,
    },
    /// `clos`: the folded Clos of VL2 section 4.1, from the ports of its switches.
    Clos {
        /// D_A, ports of an aggregation switch: even; half lead up, half down.
        agg_ports: u32,
        /// D_I, ports of an intermediate switch: even.
        int_ports: u32,
        /// Servers of a ToR: 20 in the paper.
        hosts_per_tor: u32,
    },
    /// `clos` from explicit counts, such as those of the testbed of VL2 section 5.
    ClosExplicit {
        /// Intermediate switches, each linked to every aggregation switch.
        intermediates: u32,
        /// Aggregation switches.
        aggregations: u32,
        /// ToRs.
        tors: u32,
        /// Aggregation switches that a ToR attaches to.
        uplinks_per_tor: u32,
        /// Servers of a ToR.
        hosts_per_tor: u32,
    },
    /// `tree`: the conventional hierarchy (VL2 section 2), its uplinks as thin as the over-subscription asks.
    Tree {
        /// ToRs.
        tors: u32,
        /// Servers of a ToR.
        hosts_per_tor: u32,
        /// ToRs below a pair of aggregation switches; `None` for a tree without that tier.
        tors_per_pod: Option<u32>,
        /// Switches at each place above the ToRs: 2 for a pair, 1 for a tree with a single root.
        redundancy: u32,
        /// Capacity of a ToR's servers over that of its uplinks: 5 for 1:5.
        tor_oversubscription: f64,
        /// Capacity of a pod's servers over that of its links to the cores: 240 for 1:240. Not less than that of the ToR.
        top_oversubscription: f64,
    },
    /// `clique`: every edge switch to every other one (NetLord section 5.2).
    Clique {
        /// Edge switches.
        switches: u32,
        /// Hosts of a switch.
        hosts_per_switch: u32,
    },
    /// `switch`: one non-blocking switch.
    Switch {
        /// Hosts.
        hosts: u32,
    },
    /// `subways`: servers wired to several ToRs (Subways section 4).
    Subways(SubwaysSpec),
}

impl Shape {
    /// The two-level fat-tree of `k`-port switches.
    pub const fn two_level_of_ports(k: u32) -> Self {
        Self::TwoLevelOfPorts { k }
    }

    /// The 80 servers on which VL2 was measured (section 5), with links of 1 and 10 Gbps.
    pub const VL2_TESTBED: Self =
        Self::ClosExplicit { intermediates: 3, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 20 };

    /// Builds the fabric, with `host_link` from hosts to switches and `fabric_link` between switches.
    /// A tree takes only the delay of `fabric_link`: its capacities follow from the over-subscription.
    ///
    /// # Errors
    /// [`FabricError::Parameter`], naming the parameter, what it may be and what to do.
    pub fn build(&self, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
        match *self {
            Self::FatTree { k } => fat_tree::build(k, host_link, fabric_link),
            Self::TwoLevel { edges, cores, hosts_per_edge } => {
                two_level::build(edges, cores, hosts_per_edge, host_link, fabric_link)
            }
            Self::TwoLevelOfPorts { k } => two_level::from_ports(k, host_link, fabric_link),
            Self::Clos { agg_ports, int_ports, hosts_per_tor } => {
                clos::from_ports(agg_ports, int_ports, hosts_per_tor, host_link, fabric_link)
            }
            Self::ClosExplicit { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor } => {
                let counts = clos::Counts { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor };
                clos::from_counts(counts, host_link, fabric_link)
            }
            Self::Tree { tors, hosts_per_tor, tors_per_pod, redundancy, tor_oversubscription, top_oversubscription } => {
                let ratios = tree::Ratios { tor: tor_oversubscription, top: top_oversubscription };
                tree::build(tree::Counts { tors, hosts_per_tor, tors_per_pod, redundancy }, ratios, host_link, fabric_link)
            }
            Self::Clique { switches, hosts_per_switch } => clique::build(switches, hosts_per_switch, host_link, fabric_link),
            Self::Switch { hosts } => single_switch(hosts, host_link),
            Self::Subways(ref spec) => subways::build(spec, host_link, fabric_link),
        }
    }
}

#[cfg(test)]
mod tests;
