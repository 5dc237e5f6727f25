//! Cables of two fabrics, compared by the names of their ends and their rates.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weft_fabric::Fabric;
use weft_fabric::ids::CableId;

/// A cable: its ends, the upper one first, and its rate in bits per second. In order: the highest tier first, then new switches, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cable {
    pub upper: End,
    pub lower: End,
    pub rate: u64,
}

/// An end of a cable. Servers have no name, so that those of a switch are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub tier: Reverse<u8>,
    pub is_old: bool,
    pub name: String,
}

/// The cables between switches, sorted.
pub fn cables(before: &Fabric, fabric: &Fabric) -> Vec<Cable> {
    sorted_cables(before, fabric, |cable| cable.lower.tier.0 > 0)
}

/// The cables of servers, which have no names, sorted.
pub fn server_cables(before: &Fabric, fabric: &Fabric) -> Vec<Cable> {
    sorted_cables(before, fabric, |cable| cable.lower.tier.0 == 0)
}

fn sorted_cables(before: &Fabric, fabric: &Fabric, is_wanted: fn(&Cable) -> bool) -> Vec<Cable> {
    let end = |id| {
        let node = fabric.node(id);
        let is_old = before.node_by_name(&node.name).is_some();
        let tier = Reverse(node.tier);
        if node.tier == 0 {
            End { tier, is_old: true, name: String::new() }
        } else {
            End { tier, is_old, name: node.name.to_string() }
        }
    };
    let cable = |id: CableId| {
        let link = fabric.link(id.links()[0]);
        let (a, b) = (end(link.from), end(link.to));
        let (upper, lower) = if a <= b { (a, b) } else { (b, a) };
        Cable { upper, lower, rate: link.capacity.0 }
    };
    let mut all: Vec<Cable> = fabric.cables().map(cable).filter(is_wanted).collect();
    all.sort_unstable();
    all
}

/// The cables of one list that the other has not, each as often as it is missing.
pub fn difference(of: &[Cable], other: &[Cable]) -> Vec<Cable> {
    let mut left: BTreeMap<&Cable, usize> = BTreeMap::new();
    other.iter().for_each(|cable| *left.entry(cable).or_default() += 1);
    let mut missing = Vec::new();
    for cable in of {
        match left.get_mut(cable) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(cable.clone()),
        }
    }
    missing
}

/// By removed cable: the added one that it becomes if it is moved or replaced.
pub fn partners(removed: &[Cable], added: &[Cable]) -> Vec<Option<usize>> {
    let mut partner = vec![None; removed.len()];
    let mut is_free = vec![true; added.len()];
    let alike: [fn(&Cable, &Cable) -> bool; 3] =
        [|a, b| (&a.upper, &a.lower) == (&b.upper, &b.lower), |a, b| a.lower == b.lower, |a, b| a.upper == b.upper];
    for is_alike in alike {
        for (at, cable) in removed.iter().enumerate().filter(|(at, _)| partner[*at].is_none()).collect::<Vec<_>>() {
            partner[at] = (0..added.len()).find(|&other| is_free[other] && is_alike(cable, &added[other]));
            if let Some(other) = partner[at] {
                is_free[other] = false;
            }
        }
    }
    partner
}
