//! What can be said of a fabric before any traffic: counts, over-subscription, bisection bandwidth, path diversity.

mod bisection;
pub mod max_flow;
mod paths;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::topology::Fabric;
use crate::topology::switch_graph::SwitchGraph;

pub use bisection::Bisection;
pub use paths::{Paths, Spread};

/// The figures of a healthy fabric. Rates are in bits per second in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// What the fabric is, in a line.
    pub title: String,
    /// Hosts.
    pub hosts: usize,
    /// Switches of all tiers.
    pub switches: usize,
    /// Groups of hosts that attach to the same switches.
    pub racks: usize,
    /// Groups of racks that hang together below the roots.
    pub pods: usize,
    /// Cables, those of the hosts included.
    pub cables: usize,
    /// Used ports of all switches.
    pub ports: usize,
    /// Switches by tier, from the edge upwards.
    pub tiers: Vec<Tier>,
    /// Cables by the tiers that they join and their capacity: what a bill of material lists.
    pub cabling: Vec<CableGroup>,
    /// What the fabric can carry from one half of the hosts to the other.
    pub bisection: Bisection,
    /// How many paths there are between racks.
    pub paths: Paths,
    /// Links on the longest of the shortest paths between hosts, NICs included.
    pub diameter: u32,
}

/// The switches of a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// 1 for edge switches, and so on upwards.
    pub tier: u8,
    /// What their names begin with: `edge`, `agg`.
    pub name: String,
    /// How many there are.
    pub switches: usize,
    /// Used ports of the switch that has the fewest.
    pub ports_min: usize,
    /// Used ports of the switch that has the most.
    pub ports_max: usize,
    /// Capacity towards lower tiers, of all switches together.
    pub down_bps: u64,
    /// Capacity towards higher tiers, of all switches together.
    pub up_bps: u64,
    /// Capacity towards switches of the same tier, of all switches together: a clique's.
    pub lateral_bps: u64,
    /// Capacity down over capacity up, of the switch where it is least; `None` for roots.
    pub oversubscription_min: Option<f64>,
    /// The same where it is most. 1 is none, 5 is what the field writes 1:5.
    pub oversubscription_max: Option<f64>,
    /// The NICs of all hosts over the capacity up of the whole tier; `None` for roots.
    pub oversubscription_from_hosts: Option<f64>,
}

/// Cables of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CableGroup {
    /// The lower tier; 0 for hosts.
    pub from_tier: u8,
    /// The higher tier.
    pub to_tier: u8,
    /// Capacity in one direction.
    pub capacity_bps: u64,
    /// How many there are.
    pub count: usize,
}

impl Metrics {
    /// Measures a fabric. At 100,000 hosts it takes about a second.
    pub fn of(fabric: &Fabric) -> Self {
        let graph = SwitchGraph::new(fabric);
        let (paths, diameter) = paths::measure(fabric, &graph);
        let mut pods: Vec<u32> = fabric.hosts().map(|h| fabric.pod_of(h)).collect();
        pods.sort_unstable();
        pods.dedup();
        Self {
            title: fabric.title().to_owned(),
            hosts: fabric.host_count(),
            switches: fabric.switch_count(),
            racks: fabric.racks().len(),
            pods: pods.len(),
            cables: fabric.cables().len(),
            ports: fabric.switches().map(|s| fabric.out(fabric.switch_node(s)).len()).sum(),
            tiers: tiers(fabric),
            cabling: cabling(fabric),
            bisection: bisection::measure(fabric, &graph),
            paths,
            diameter,
        }
    }
}

fn tiers(fabric: &Fabric) -> Vec<Tier> {
    let nics: u64 = fabric.hosts().map(|h| fabric.nic_capacity(h).0).sum();
    (1..=fabric.top_tier()).filter_map(|tier| tier_of(fabric, tier, nics)).collect()
}

fn tier_of(fabric: &Fabric, tier: u8, nics: u64) -> Option<Tier> {
    let first = fabric.switches_of_tier(tier).next()?;
    let name = fabric.node(fabric.switch_node(first)).name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let mut of_tier = Tier {
        tier,
        name,
        switches: 0,
        ports_min: usize::MAX,
        ports_max: 0,
        down_bps: 0,
        up_bps: 0,
        lateral_bps: 0,
        oversubscription_min: None,
        oversubscription_max: None,
        oversubscription_from_hosts: None,
    };
    for switch in fabric.switches_of_tier(tier) {
        let out = fabric.out(fabric.switch_node(switch));
        of_tier.switches += 1;
        of_tier.ports_min = of_tier.ports_min.min(out.len());
        of_tier.ports_max = of_tier.ports_max.max(out.len());
        let (mut down, mut up) = (0, 0);
        for link in out.iter().map(|&l| fabric.link(l)) {
            match fabric.node(link.to).tier.cmp(&tier) {
                Ordering::Less => down += link.capacity.0,
                Ordering::Equal => of_tier.lateral_bps += link.capacity.0,
                Ordering::Greater => up += link.capacity.0,
            }
        }
        of_tier.down_bps += down;
        of_tier.up_bps += up;
        if up > 0 {
            let ratio = down as f64 / up as f64;
            of_tier.oversubscription_min = Some(of_tier.oversubscription_min.map_or(ratio, |r| r.min(ratio)));
            of_tier.oversubscription_max = Some(of_tier.oversubscription_max.map_or(ratio, |r| r.max(ratio)));
        }
    }
    if of_tier.up_bps > 0 {
        of_tier.oversubscription_from_hosts = Some(nics as f64 / of_tier.up_bps as f64);
    }
    Some(of_tier)
}

fn cabling(fabric: &Fabric) -> Vec<CableGroup> {
    let mut groups: BTreeMap<(u8, u8, u64), usize> = BTreeMap::new();
    for link in fabric.links().iter().step_by(2) {
        let (a, b) = (fabric.node(link.from).tier, fabric.node(link.to).tier);
        *groups.entry((a.min(b), a.max(b), link.capacity.0)).or_default() += 1;
    }
    groups
        .into_iter()
        .map(|((from_tier, to_tier, capacity_bps), count)| CableGroup { from_tier, to_tier, capacity_bps, count })
        .collect()
}

#[cfg(test)]
mod tests;
