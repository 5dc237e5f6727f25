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
    let mut part_of: BTreeMap<&str, Option<Part>> = BTreeMap::new();
    let mut find = |device| *part_of.entry(device).or_insert_with(|| part(device, fabric));
    let parts: Vec<Option<Part>> = failures.iter().map(|it| find(&*it.device)).collect();
    // Both ends of each failure, in order of time; ends first.
    let mut events: Vec<(f64, bool, usize)> = Vec::new();
    for (at, failure) in failures.iter().enumerate().filter(|(at, _)| parts[*at].is_some()) {
        events.push((failure.start_s, true, at));
        events.push((failure.end_s, false, at));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut down = Down::new(fabric);
    let (mut active, mut is_seen, mut is_whole) = (Vec::new(), vec![false; failures.len()], vec![false; failures.len()]);
    let (mut time_cut, mut host_s, mut most) = (0.0, 0.0, 0u64);
    for (at, &(now, begins, failure)) in events.iter().enumerate() {
        let part = parts[failure].expect("only parts of the fabric");
        if begins {
            down.add(part);
            active.push(failure);
        } else {
            down.remove(part);
            active.retain(|&it| it != failure);
        }
        let until = events.get(at + 1).map_or(now, |next| next.0);
        if until <= now || active.is_empty() {
            continue;
        }
        let connected = Components::of(fabric, &down);
        let cut = fabric.host_count() as u64 - connected.largest;
        if cut > 0 {
            see(fabric, &down, &connected, &active, &parts, &mut is_seen);
            time_cut += until - now;
            host_s += (until - now) * cut as f64;
            most = most.max(cut);
        }
        for &it in &active {
            is_whole[it] = is_whole[it] || down.has_whole_place(fabric, parts[it]);
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

/// Marks the failures without which fewer hosts would be cut off; all, if that holds for none alone.
fn see(fabric: &Fabric, down: &Down, connected: &Components, active: &[usize], parts: &[Option<Part>], is_seen: &mut [bool]) {
    let helps =
        |failure: usize| connected.largest < connected.joined_by(fabric, down, parts[failure].expect("a part of the fabric"));
    let (seen, unseen): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&failure| is_seen[failure]);
    let found: Vec<usize> = unseen.iter().copied().filter(|&failure| helps(failure)).collect();
    let is_for_none = found.is_empty() && !seen.into_iter().any(helps);
    (if is_for_none { unseen } else { found }).into_iter().for_each(|failure| is_seen[failure] = true);
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

/// What does not work, by how many failures.
struct Down {
    nodes: Vec<u32>,
    cables: Vec<u32>,
    /// The switches of each tier and pod.
    places: BTreeMap<(u8, Option<u32>), Vec<usize>>,
}

impl Down {
    fn new(fabric: &Fabric) -> Self {
        let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (id, node) in fabric.nodes().iter().enumerate().filter(|(_, node)| node.tier > 0) {
            places.entry((node.tier, node.pod)).or_default().push(id);
        }
        Self { nodes: vec![0; fabric.nodes().len()], cables: vec![0; fabric.links().len() / 2], places }
    }

    fn add(&mut self, part: Part) {
        *self.failures_of(part) += 1;
    }

    fn remove(&mut self, part: Part) {
        *self.failures_of(part) -= 1;
    }

    fn failures_of(&mut self, part: Part) -> &mut u32 {
        match part {
            Part::Node(node) => &mut self.nodes[node as usize],
            Part::Cable(cable) => &mut self.cables[cable as usize],
        }
    }

    fn works(&self, part: Part) -> bool {
        match part {
            Part::Node(node) => self.nodes[node as usize] == 0,
            Part::Cable(cable) => self.cables[cable as usize] == 0,
        }
    }

    /// Whether all switches of a switch's tier and pod are down, where there are several.
    fn has_whole_place(&self, fabric: &Fabric, part: Option<Part>) -> bool {
        let Some(Part::Node(node)) = part else { return false };
        let me = fabric.node(NodeId(node));
        let place = self.places.get(&(me.tier, me.pod));
        place.is_some_and(|place| place.len() > 1 && place.iter().all(|&id| self.nodes[id] > 0))
    }
}

/// The connected parts of what works.
struct Components {
    /// Of each node; [`NONE`] of those that are down, and of switches without a host.
    of: Vec<u32>,
    /// Hosts of each.
    hosts: Vec<u64>,
    /// Hosts of the largest.
    largest: u64,
}

const NONE: u32 = u32::MAX;

impl Components {
    fn of(fabric: &Fabric, down: &Down) -> Self {
        let mut it = Self { of: vec![NONE; fabric.nodes().len()], hosts: Vec::new(), largest: 0 };
        let mut queue = Vec::new();
        for start in 0..fabric.host_count() as u32 {
            if it.of[start as usize] != NONE || !down.works(Part::Node(start)) {
                continue;
            }
            let (component, mut hosts) = (it.hosts.len() as u32, 0);
            it.of[start as usize] = component;
            queue.push(NodeId(start));
            while let Some(node) = queue.pop() {
                hosts += u64::from((node.0 as usize) < fabric.host_count());
                for &link in fabric.out(node) {
                    let to = fabric.link(link).to;
                    let works = down.works(Part::Cable(link.0 / 2)) && down.works(Part::Node(to.0));
                    if works && it.of[to.0 as usize] == NONE {
                        it.of[to.0 as usize] = component;
                        queue.push(to);
                    }
                }
            }
            it.hosts.push(hosts);
            it.largest = it.largest.max(hosts);
        }
        it
    }

    /// Hosts that one part would connect if it worked; 0 if it still would not.
    fn joined_by(&self, fabric: &Fabric, down: &Down, part: Part) -> u64 {
        let (mut components, mut hosts) = (Vec::new(), 0);
        match part {
            Part::Node(node) if down.nodes[node as usize] == 1 => {
                hosts += u64::from((node as usize) < fabric.host_count());
                let up = fabric.out(NodeId(node)).iter().filter(|link| down.works(Part::Cable(link.0 / 2)));
                components.extend(up.map(|&link| self.of[fabric.link(link).to.0 as usize]));
            }
            Part::Cable(cable) if down.cables[cable as usize] == 1 => {
                let link = &fabric.links()[2 * cable as usize];
                components.extend([link.from, link.to].map(|end| self.of[end.0 as usize]));
            }
            _ => return 0,
        }
        components.sort_unstable();
        components.dedup();
        hosts + components.into_iter().filter(|&it| it != NONE).map(|it| self.hosts[it as usize]).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, Duration};

    /// Hosts outside of the largest connected part, by definition: who reaches whom.
    fn cut_off(fabric: &Fabric, down: &Down) -> u64 {
        let mut largest = 0;
        for host in (0..fabric.host_count() as u32).filter(|&host| down.works(Part::Node(host))) {
            let mut reached = std::collections::BTreeSet::from([host]);
            let mut before = 0;
            while reached.len() > before {
                before = reached.len();
                for (id, link) in (0..).zip(fabric.links()) {
                    let works = down.works(Part::Cable(id / 2)) && down.works(Part::Node(link.to.0));
                    if works && reached.contains(&link.from.0) {
                        reached.insert(link.to.0);
                    }
                }
            }
            largest = largest.max(reached.range(..fabric.host_count() as u32).count() as u64);
        }
        fabric.host_count() as u64 - largest
    }

    proptest! {
        #[test]
        fn what_a_repair_connects_is_what_it_would_connect(failed in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..14)) {
            let fabric = fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).expect("a fabric");
            let mut down = Down::new(&fabric);
            let part = |(is_node, at): &(bool, prop::sample::Index)| match is_node {
                true => Part::Node(at.index(fabric.nodes().len()) as u32),
                false => Part::Cable(at.index(fabric.links().len() / 2) as u32),
            };
            let parts: Vec<Part> = failed.iter().map(part).collect();
            parts.iter().for_each(|&part| down.add(part));
            let connected = Components::of(&fabric, &down);
            let cut = cut_off(&fabric, &down);
            prop_assert_eq!(fabric.host_count() as u64 - connected.largest, cut);
            for part in parts {
                let helps = connected.joined_by(&fabric, &down, part) > connected.largest;
                down.remove(part);
                prop_assert_eq!(helps, cut_off(&fabric, &down) < cut);
                down.add(part);
            }
        }
    }

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
