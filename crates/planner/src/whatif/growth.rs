//! The transition from one fabric to the next one, with what it carries while it is built.
//!
//! ```text
//!   before, after --cables by names of ends and rate--> kept, removed, added --by upper switch--> batches
//!   all of both in one fabric --each batch: its removed cables down; then its added ones up--> throughput, lowest
//! ```
//! A batch is the changed cables of one switch, the upper end of a cable. A removed and an added cable with a common end are one moved (or replaced) cable, in
//! the batch of the removed one. Servers and their cables stay as before the step, and so does the traffic, without that of racks that go. Subways fabrics with
//! the same servers go through the steps of [`super::rewiring`] instead.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weft_fabric::ids::CableId;
use weft_fabric::topology::{FabricBuilder, FabricError};
use weft_fabric::{BitsPerSec, Duration, Fabric, Health, SwitchId};

use super::cables::{Cable, End, cables, difference, partners, server_cables};
use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::router::Router;

/// What a step changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Switches that are new, by name.
    pub switches_added: Vec<String>,
    /// Switches that go, by name.
    pub switches_removed: Vec<String>,
    /// Switches that stay and get another name: before and after.
    pub switches_renamed: Vec<[String; 2]>,
    /// New cables between switches.
    pub cables_added: usize,
    /// Cables between switches that go.
    pub cables_removed: usize,
    /// Cables between switches of which one end is plugged elsewhere, or that another rate replaces.
    pub cables_moved: usize,
    /// The same of servers' cables. Unless the fabric is Subways with the same servers, servers of a switch are taken as alike.
    pub server_cables_added: usize,
    /// Servers' cables that go.
    pub server_cables_removed: usize,
    /// Servers' cables that are plugged elsewhere, or that another rate replaces.
    pub server_cables_moved: usize,
}

/// The transition of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// What changes.
    pub changes: Changes,
    /// Switches whose cables are changed, one after the other.
    pub batches: usize,
    /// The fraction of the traffic before the step that is between racks that stay; the rest is left out.
    pub kept_traffic: f64,
    /// The smallest throughput while it is built, as a fraction of the traffic before the step; `None` if none of it is between racks that stay, or old and
    /// new switches are not connected.
    pub lowest: Option<f64>,
    /// The switch whose batch has it; `None` if no batch has less than the fabric before the step.
    pub lowest_batch: Option<String>,
}

/// The changed cables of a switch, by their place in both lists.
#[derive(Debug, Default)]
struct Batch {
    removed: Vec<usize>,
    added: Vec<usize>,
}

impl Transition {
    /// From one fabric to another, with the traffic before.
    pub fn between(before: &Fabric, after: &Fabric, matrix: &Matrix) -> Self {
        let [old, new] = [before, after].map(|fabric| cables(before, fabric));
        let (removed, added) = (difference(&old, &new), difference(&new, &old));
        let partner = partners(&removed, &added);
        let moved = partner.iter().flatten().count();
        let batches = batches(&removed, &added, &partner);
        let [old_servers, new_servers] = [before, after].map(|fabric| server_cables(before, fabric));
        let (servers_removed, servers_added) = (difference(&old_servers, &new_servers), difference(&new_servers, &old_servers));
        let servers_moved = servers_removed.len().min(servers_added.len());
        let changes = Changes {
            switches_added: missing(after, before),
            switches_removed: missing(before, after),
            switches_renamed: Vec::new(),
            cables_added: added.len() - moved,
            cables_removed: removed.len() - moved,
            cables_moved: moved,
            server_cables_added: servers_added.len() - servers_moved,
            server_cables_removed: servers_removed.len() - servers_moved,
            server_cables_moved: servers_moved,
        };
        let kept = kept_traffic(before, after, matrix);
        let kept_traffic = if matrix.total() > 0.0 { kept.total() / matrix.total() } else { 1.0 };
        let count = batches.len();
        let union = (kept.total() > 0.0).then(|| union(before, after, [&old, &removed, &added]).ok()).flatten();
        let Some((union, [removed, added])) = union else {
            return Self { changes, batches: count, kept_traffic, lowest: None, lowest_batch: None };
        };
        let mut network = Network::new(&union, &Health::new(&union));
        added.iter().for_each(|&cable| network.set_cable(cable, false));
        let mut lowest = throughput(&network, &kept);
        let mut lowest_batch = None;
        for (switch, batch) in batches {
            for (places, ids, up) in [(batch.removed, &removed, false), (batch.added, &added, true)] {
                if places.is_empty() {
                    continue;
                }
                places.iter().for_each(|&at| network.set_cable(ids[at], up));
                let now = throughput(&network, &kept);
                if now < lowest * (1.0 - ROUNDING) {
                    (lowest, lowest_batch) = (now, Some(switch.clone()));
                }
            }
        }
        Self { changes, batches: count, kept_traffic, lowest: Some(lowest), lowest_batch }
    }
}

/// The fraction of a matrix that ECMP carries, all pairs of racks alike; 0 if a pair with traffic is not connected.
pub fn throughput(network: &Network, matrix: &Matrix) -> f64 {
    let outcome = Router::default().evaluate(network, matrix);
    if outcome.disconnected > 0 { 0.0 } else { outcome.throughput }
}

/// Batches in order, each with its switch.
fn batches(removed: &[Cable], added: &[Cable], partner: &[Option<usize>]) -> Vec<(String, Batch)> {
    let mut all: BTreeMap<&End, Batch> = BTreeMap::new();
    for (at, cable) in removed.iter().enumerate() {
        let batch = all.entry(&cable.upper).or_default();
        batch.removed.push(at);
        batch.added.extend(partner[at]);
    }
    let is_moved: BTreeSet<usize> = partner.iter().flatten().copied().collect();
    for (at, cable) in added.iter().enumerate().filter(|(at, _)| !is_moved.contains(at)) {
        all.entry(&cable.upper).or_default().added.push(at);
    }
    all.into_iter().map(|(end, batch)| (end.name.clone(), batch)).collect()
}

/// Switches of one fabric that the other has not.
fn missing(of: &Fabric, other: &Fabric) -> Vec<String> {
    let names = of.switches().map(|s| of.node(of.switch_node(s)).name.to_string());
    names.filter(|name| other.node_by_name(name).is_none()).collect()
}

/// The traffic between racks that stay.
fn kept_traffic(before: &Fabric, after: &Fabric, matrix: &Matrix) -> Matrix {
    let names = |fabric: &Fabric| -> Vec<String> {
        let network = Network::new(fabric, &Health::new(fabric));
        (0..network.racks()).map(|rack| network.name(rack as u32).to_owned()).collect()
    };
    let new: BTreeSet<String> = names(after).into_iter().collect();
    let stays: Vec<bool> = names(before).iter().map(|name| new.contains(name)).collect();
    let mut kept = Matrix::zero(matrix.racks());
    for src in (0..matrix.racks()).filter(|&rack| stays[rack]) {
        for dst in (0..matrix.racks()).filter(|&rack| stays[rack]) {
            *kept.rate_mut(src, dst) = matrix.rate(src, dst);
        }
    }
    kept
}

/// The servers before, with the switches and cables of both; and which cables are removed and added.
fn union(before: &Fabric, after: &Fabric, lists: [&[Cable]; 3]) -> Result<(Fabric, [Vec<CableId>; 2]), FabricError> {
    let [old, removed, added] = lists;
    let mut builder = FabricBuilder::new("both");
    let hosts: Vec<_> = before.hosts().map(|h| builder.host(before.node(h.node()).name.clone(), None)).collect();
    let mut switches: BTreeMap<String, SwitchId> = BTreeMap::new();
    for (fabric, id) in [before, after].into_iter().flat_map(|f| f.switches().map(move |s| (f, f.switch_node(s)))) {
        let node = fabric.node(id);
        if !switches.contains_key(&*node.name) {
            switches.insert(node.name.to_string(), builder.switch(node.name.clone(), node.tier, None));
        }
    }
    let mut count = 0;
    for host in before.hosts() {
        for link in before.out(host.node()).iter().map(|&l| before.link(l)) {
            builder.cable(hosts[host.index()], switches[&*before.node(link.to).name], link.capacity, link.delay);
            count += 1;
        }
    }
    let kept = difference(old, removed);
    let mut place = |builder: &mut FabricBuilder, cables: &[Cable]| -> Vec<CableId> {
        let first = count;
        for it in cables {
            builder.cable(switches[&it.upper.name], switches[&it.lower.name], BitsPerSec(it.rate), Duration::ZERO);
        }
        count += cables.len() as u32;
        (first..count).map(CableId).collect()
    };
    place(&mut builder, &kept);
    let [removed, added] = [removed, added].map(|cables| place(&mut builder, cables));
    Ok((builder.build()?, [removed, added]))
}

/// Of sums of loads.
pub(super) const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_fabric::topology::shapes::{Cabling, Shape};

    use super::*;

    fn build(shape: &Shape, gbps: u64) -> Fabric {
        let cabling = |gbps| Cabling { rate: BitsPerSec(gbps * 1_000_000_000), delay: Duration::ZERO };
        shape.build(cabling(1), cabling(gbps)).expect("a fabric")
    }

    fn transition(before: &Fabric, after: &Fabric) -> Transition {
        Transition::between(before, after, &Matrix::stride(&Network::new(before, &Health::new(before))))
    }

    /// Racks of another kind have other names, so nothing of a fat-tree becomes a Clos in place.
    /// A Clos with 4 servers per ToR, links between switches of this many Gbps.
    fn clos(intermediates: u32, pairs: u32, tors_per_pair: u32, gbps: u64) -> Fabric {
        let (aggregations, tors) = (2 * pairs, pairs * tors_per_pair);
        let shape = Shape::ClosExplicit { intermediates, aggregations, tors, uplinks_per_tor: 2, hosts_per_tor: 4 };
        build(&shape, gbps)
    }

    fn clos_of_any_size() -> impl Strategy<Value = Fabric> {
        (1u32..5, 1u32..4, 1u32..4, 1u64..5).prop_map(|(int, pairs, tors, gbps)| clos(int, pairs, tors, gbps))
    }

    proptest! {
        /// Parts are conserved, and while it is built no more is carried than at either end: the last state is the fabric after the step.
        #[test]
        fn a_step_leads_from_one_fabric_to_the_other(before in clos_of_any_size(), after in clos_of_any_size()) {
            let network = |fabric: &Fabric| Network::new(fabric, &Health::new(fabric));
            prop_assume!(network(&before).racks() > 1);
            let matrix = Matrix::uniform(&network(&before));
            let step = Transition::between(&before, &after, &matrix);
            let changes = &step.changes;
            let cables = |fabric: &Fabric| cables(&before, fabric).len();
            prop_assert_eq!(cables(&before) + changes.cables_added, cables(&after) + changes.cables_removed);
            let servers = |fabric: &Fabric| server_cables(&before, fabric).len();
            prop_assert_eq!(servers(&before) + changes.server_cables_added, servers(&after) + changes.server_cables_removed);
            let switches = |fabric: &Fabric| fabric.switch_count();
            prop_assert_eq!(switches(&before) + changes.switches_added.len(), switches(&after) + changes.switches_removed.len());
            let kept = kept_traffic(&before, &after, &matrix);
            prop_assert_eq!(step.lowest.is_none(), kept.total() == 0.0);
            if let Some(lowest) = step.lowest {
                prop_assert!(lowest <= throughput(&network(&before), &kept) * (1.0 + 1e-9));
                // ToRs are numbered from the first: those that stay are the first of the new fabric, with NICs as before.
                let mut at_the_end = Matrix::zero(network(&after).racks());
                for src in 0..kept.racks().min(at_the_end.racks()) {
                    for dst in 0..kept.racks().min(at_the_end.racks()) {
                        *at_the_end.rate_mut(src, dst) = kept.rate(src, dst);
                    }
                }
                prop_assert!(lowest <= throughput(&network(&after), &at_the_end) * (1.0 + 1e-9), "{}", lowest);
            }
            let back = Transition::between(&after, &before, &Matrix::uniform(&network(&after)));
            prop_assert_eq!((back.changes.cables_added, back.changes.cables_removed), (changes.cables_removed, changes.cables_added));
            let nothing = Transition::between(&before, &before, &matrix);
            prop_assert_eq!((nothing.batches, nothing.lowest), (0, Some(throughput(&network(&before), &matrix))));
        }
    }

    #[test]
    fn another_kind_is_not_built_in_place() {
        let clos = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 2 };
        let it = transition(&build(&Shape::FatTree { k: 4 }, 1), &build(&clos, 1));
        assert_eq!((it.lowest, it.lowest_batch), (None, None));
    }

    /// An edge switch of a fat-tree has half of its uplinks while those to one of its two aggregation switches are replaced.
    #[test]
    fn faster_cables_take_half_of_a_fat_tree() {
        let [slow, fast] = [1, 2].map(|gbps| build(&Shape::FatTree { k: 4 }, gbps));
        assert_eq!(transition(&slow, &slow).batches, 0);
        let it = transition(&slow, &fast);
        assert_eq!((it.changes.cables_moved, it.changes.cables_added), (32, 0));
        assert!(it.lowest.is_some_and(|lowest| (lowest - 0.5).abs() < 1e-9), "{it:?}");
    }
}
