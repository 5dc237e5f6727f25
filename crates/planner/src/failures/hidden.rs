//! What a fabric's redundancy hides: the failures are replayed on it, and hosts that lose every path to most others are counted.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_fabric::{Fabric, NodeId};

use super::log::Failure;

/// What the fabric hides.
#[derive(Clone, Debug, Serialize)]
pub struct Hidden {
    /// The fabric.
    pub fabric: String,
    /// Failures of devices of the fabric.
    pub replayed: u64,
    /// Failures of devices that it does not have: left out.
    pub unknown: u64,
    /// The first of those.
    pub first_unknown: Option<String>,
    /// Failures without which no fewer hosts would have been cut off.
    pub hidden: u64,
    /// Their fraction.
    pub hidden_fraction: f64,
    /// Time during which some host was cut off, in seconds.
    pub time_with_hosts_cut_off_s: f64,
    /// Sum over the hosts of the time for which each was cut off, in hours.
    pub host_hours_lost: f64,
    /// Most hosts that were cut off at a time.
    pub most_hosts_cut_off: u64,
    /// Failures during which all switches of a place (tier and pod) were down: redundancy within the place did not help (VL2 section 3.4: 0.3 %).
    pub whole_place_down: u64,
}

/// A switch, a host, or a cable by its first link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Node(u32),
    Cable(u32),
}

/// Replays failures on a fabric.
pub fn of(failures: &[Failure], fabric: &Fabric) -> Hidden {
    let parts: Vec<Option<Part>> = failures.iter().map(|it| part(&it.device, fabric)).collect();
    // Both ends of each failure, in order of time; ends first.
    let mut events: Vec<(f64, bool, usize)> = Vec::new();
    for (at, failure) in failures.iter().enumerate().filter(|(at, _)| parts[*at].is_some()) {
        events.push((failure.start_s, true, at));
        events.push((failure.end_s, false, at));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut down: BTreeMap<Part, u32> = BTreeMap::new();
    let (mut active, mut is_seen, mut is_whole) = (Vec::new(), vec![false; failures.len()], vec![false; failures.len()]);
    let (mut time_cut, mut host_s, mut most) = (0.0, 0.0, 0u64);
    for (at, &(now, begins, failure)) in events.iter().enumerate() {
        let part = parts[failure].expect("only parts of the fabric");
        if begins {
            *down.entry(part).or_default() += 1;
            active.push(failure);
        } else {
            active.retain(|&it| it != failure);
            let left = down.get_mut(&part).expect("it is down");
            *left -= 1;
            if *left == 0 {
                down.remove(&part);
            }
        }
        let until = events.get(at + 1).map_or(now, |next| next.0);
        if until <= now || down.is_empty() {
            continue;
        }
        let cut = cut_off(fabric, &down);
        if cut > 0 {
            responsible(fabric, &down, &active, &parts, cut).into_iter().for_each(|it| is_seen[it] = true);
            time_cut += until - now;
            host_s += (until - now) * cut as f64;
            most = most.max(cut);
        }
        for &it in active.iter().filter(|&&it| is_place_down(fabric, parts[it], &down)) {
            is_whole[it] = true;
        }
    }
    let replayed = parts.iter().flatten().count() as u64;
    let seen = is_seen.iter().filter(|it| **it).count() as u64;
    let first_unknown = failures.iter().zip(&parts).find(|(_, part)| part.is_none()).map(|(it, _)| it.device.clone());
    Hidden {
        fabric: fabric.title().to_owned(),
        replayed,
        unknown: failures.len() as u64 - replayed,
        first_unknown,
        hidden: replayed - seen,
        hidden_fraction: if replayed > 0 { (replayed - seen) as f64 / replayed as f64 } else { 0.0 },
        time_with_hosts_cut_off_s: time_cut,
        host_hours_lost: host_s / 3_600.0,
        most_hosts_cut_off: most,
        whole_place_down: is_whole.iter().filter(|it| **it).count() as u64,
    }
}

/// Failures without which fewer hosts would be cut off; all, if that holds for none alone.
fn responsible(fabric: &Fabric, down: &BTreeMap<Part, u32>, active: &[usize], parts: &[Option<Part>], cut: u64) -> Vec<usize> {
    let helps = |part: Part| {
        let mut without = down.clone();
        without.remove(&part);
        cut_off(fabric, &without) < cut
    };
    let found: Vec<usize> = active.iter().copied().filter(|&it| parts[it].is_some_and(helps)).collect();
    if found.is_empty() { active.to_vec() } else { found }
}

/// A node by name, or a cable by the names of its ends: `tor0-agg1`.
fn part(device: &str, fabric: &Fabric) -> Option<Part> {
    if let Some(node) = fabric.node_by_name(device) {
        return Some(Part::Node(node.0));
    }
    device.match_indices('-').find_map(|(at, _)| {
        let (a, b) = (fabric.node_by_name(&device[..at])?, fabric.node_by_name(&device[at + 1..])?);
        fabric.cable_between(a, b).map(|cable| Part::Cable(cable.0))
    })
}

/// Hosts that are not in the largest connected part.
fn cut_off(fabric: &Fabric, down: &BTreeMap<Part, u32>) -> u64 {
    let mut is_seen: Vec<bool> = (0..fabric.nodes().len() as u32).map(|it| down.contains_key(&Part::Node(it))).collect();
    let mut largest = 0;
    for start in 0..fabric.host_count() as u32 {
        if std::mem::replace(&mut is_seen[start as usize], true) {
            continue;
        }
        let (mut hosts, mut queue) = (0, vec![NodeId(start)]);
        while let Some(node) = queue.pop() {
            hosts += u64::from(fabric.node(node).tier == 0);
            for &link in fabric.out(node) {
                let to = fabric.link(link).to;
                let is_down = down.contains_key(&Part::Cable(link.0 / 2));
                if !is_down && !std::mem::replace(&mut is_seen[to.0 as usize], true) {
                    queue.push(to);
                }
            }
        }
        largest = largest.max(hosts);
    }
    fabric.host_count() as u64 - largest
}

/// Whether all switches of the part's tier and pod are down, where there are several.
fn is_place_down(fabric: &Fabric, part: Option<Part>, down: &BTreeMap<Part, u32>) -> bool {
    let Some(Part::Node(node)) = part else { return false };
    let me = fabric.node(NodeId(node));
    let same = (0..).zip(fabric.nodes()).filter(|(_, it)| it.tier == me.tier && it.pod == me.pod && me.tier > 0);
    let (mut all, mut failed) = (0, 0);
    for (id, _) in same {
        all += 1;
        failed += u32::from(down.contains_key(&Part::Node(id)));
    }
    all > 1 && all == failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, Duration};

    #[test]
    fn a_fat_tree_hides_all_but_its_edge() {
        let fabric = fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).expect("a fabric");
        let log = "start,end,device,kind,cause\n0,3600,core0,core,\n100,200,agg0,agg,\n150,180,agg1,agg,\n5000,8600,edge0,tor,\n9000,9100,h0-edge0,link,\n9500,9600,pdu7,power,\n";
        let hidden = of(&super::super::parse(log).expect("a log"), &fabric);
        assert_eq!((hidden.replayed, hidden.unknown, hidden.first_unknown.as_deref()), (5, 1, Some("pdu7")));
        // agg0 and agg1 are the pair of pod 0: together they cut off its 4 hosts for 30 s.
        // The core is one of four: it is not to blame.
        assert_eq!((hidden.hidden, hidden.most_hosts_cut_off, hidden.whole_place_down), (1, 4, 2));
        assert_eq!(hidden.time_with_hosts_cut_off_s, 30.0 + 3_600.0 + 100.0);
        let hours = (4.0 * 30.0 + 2.0 * 3_600.0 + 100.0) / 3_600.0;
        assert!((hidden.host_hours_lost - hours).abs() < 1e-9);
    }
}
