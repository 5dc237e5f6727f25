//! The state of the search: which core each host receives from, spread evenly within every pod.
//!
//! ```text
//!   pod      seats, each with a core        occupants
//!   0        c0  c1  c2  c3                 h0 h2 h1 h3       as many hosts as cores: one to one, the paper's case
//!   1        c0  c1  c2  c3                 h4 -  h5 -        fewer hosts: some cores are free
//!   2        c0  c1  c2  c3  c0  c1         h6 .. h11         more hosts: cores repeat, none twice more than another
//! ```
//! A pod is what hangs together below the roots ("any subgrouping down from the core switches", section 3.1): in a leaf-spine each
//! leaf, in a VL2 Clos everything. All moves swap the occupants of two seats of a pod, so that the spread stays even.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand::RngExt;
use weft_fabric::rng::{Pcg64, reduce};
use weft_fabric::routing::RootLabel;
use weft_fabric::{HostId, NodeId, RackId};

use crate::hedera::network::{Candidate, Network, Units};

/// Who sits where.
#[derive(Clone, Debug)]
pub struct Seats {
    /// By pod: its racks, hosts and seats.
    pods: Vec<Pod>,
    /// By seat.
    label: Vec<RootLabel>,
    occupant: Vec<Option<HostId>>,
    /// By host.
    seat_of: Vec<u32>,
    /// Hosts of each rack of at least two.
    racks: Vec<Vec<HostId>>,
    /// By layer between the edge and the roots: for each switch position of each pod, the seats whose cores are reached through it.
    layers: Vec<Vec<Vec<u32>>>,
}

#[derive(Clone, Debug, Default)]
struct Pod {
    racks: Vec<RackId>,
    hosts: Vec<HostId>,
    seats: std::ops::Range<u32>,
}

impl Seats {
    /// The first assignment: the hosts of a rack spread over the switches above it, those of a pod over the cores.
    pub fn new(network: &Network) -> Self {
        let fabric = network.fabric();
        let mut seats = Self {
            pods: pods(network),
            label: Vec::new(),
            occupant: Vec::new(),
            seat_of: vec![0; fabric.host_count()],
            racks: fabric.racks().iter().filter(|r| r.hosts.len() > 1).map(|r| r.hosts.clone()).collect(),
            layers: Vec::new(),
        };
        seats.seat_all(network, |_| None);
        seats
    }

    /// Sets cores apart that a failure has cut off from a pod, and takes them back when they are repaired. Hosts keep their core
    /// where they can.
    pub fn rebuild(&mut self, network: &Network) {
        let old: Vec<RootLabel> = (0..self.seat_of.len()).map(|h| self.label_of(HostId::from(h))).collect();
        self.reseat(network, |host| Some(old[host.index()]));
    }

    /// Gives each host the core that `wish` names, if one is left in its pod, and the others what is left; none a core that a failure has
    /// cut off, where another is free.
    pub fn reseat(&mut self, network: &Network, wish: impl Fn(HostId) -> Option<RootLabel>) {
        self.seat_all(network, wish);
        let stranded: Vec<HostId> =
            network.fabric().hosts().filter(|&h| !descends(network, network.fabric().rack_of(h), self.label_of(h))).collect();
        for host in stranded {
            self.rescue(network, host);
        }
    }

    /// Gives each host a core under which most of the demand to it keeps the path that it has, as far as there are seats, and the others what is left.
    pub fn reseat_by_labels(&mut self, network: &Network, flows: &[Candidate]) {
        // By host and label: the demand that keeps its path.
        let mut kept: BTreeMap<(HostId, RootLabel), Units> = BTreeMap::new();
        for flow in flows {
            let path = flow.label.map(|label| network.path(flow.src, flow.dst, label));
            for label in path.iter().flat_map(|path| network.labels_of(flow.src, flow.dst, path)) {
                *kept.entry((flow.dst, label)).or_default() += flow.demand;
            }
        }
        let kept: Vec<(HostId, RootLabel, Units)> =
            kept.into_iter().map(|((host, label), demand)| (host, label, demand)).collect();
        let mut hosts: Vec<Vec<(HostId, RootLabel, Units)>> = kept.chunk_by(|a, b| a.0 == b.0).map(<[_]>::to_vec).collect();
        hosts.iter_mut().for_each(|labels| labels.sort_by_key(|&(.., demand)| Reverse(demand)));
        // Those with one best core come first: the others leave it to them.
        hosts.sort_by_key(|labels| labels.iter().filter(|label| label.2 == labels[0].2).count());
        let pod_of = |host: HostId| self.pods.iter().position(|pod| pod.seats.contains(&self.seat_of[host.index()]));
        let mut free: BTreeMap<(usize, RootLabel), u32> = BTreeMap::new();
        for (number, pod) in self.pods.iter().enumerate() {
            pod.seats.clone().for_each(|seat| *free.entry((number, self.label(seat))).or_default() += 1);
        }
        let mut wishes = vec![None; self.seat_of.len()];
        for labels in hosts {
            let host = labels[0].0;
            let pod = pod_of(host).expect("a host sits in its pod");
            let mut take = |label: RootLabel| {
                let free = free.get_mut(&(pod, label)).filter(|free| **free > 0)?;
                *free -= 1;
                Some(label)
            };
            wishes[host.index()] = labels.iter().find_map(|&(_, label, _)| take(label));
        }
        self.reseat(network, |host| wishes[host.index()]);
    }

    /// The core of a host.
    #[inline]
    pub fn label_of(&self, host: HostId) -> RootLabel {
        self.label[self.seat_of[host.index()] as usize]
    }

    /// The core of a seat.
    #[inline]
    pub fn label(&self, seat: u32) -> RootLabel {
        self.label[seat as usize]
    }

    /// Who sits there.
    #[inline]
    pub fn occupant(&self, seat: u32) -> Option<HostId> {
        self.occupant[seat as usize]
    }

    /// Swaps the occupants of two seats of a pod.
    #[inline]
    pub fn swap(&mut self, (a, b): (u32, u32)) {
        self.occupant.swap(a as usize, b as usize);
        for seat in [a, b] {
            if let Some(host) = self.occupant(seat) {
                self.seat_of[host.index()] = seat;
            }
        }
    }

    /// Two seats to swap, by one of the three neighbour functions (section 4.4) with equal probability; `None` if that one finds no pair.
    #[inline]
    pub fn neighbour(&self, rng: &mut Pcg64) -> Option<(u32, u32)> {
        match reduce(rng.random(), 3) {
            0 => self.any_in_a_pod(rng),
            1 => self.any_in_a_rack(rng),
            _ => self.any_through_a_switch(rng),
        }
    }

    /// A host of a random pod and another seat of it: another host's, or a free one where there are more cores than hosts.
    fn any_in_a_pod(&self, rng: &mut Pcg64) -> Option<(u32, u32)> {
        let pod = &self.pods[reduce(rng.random(), self.pods.len())];
        let seats = pod.seats.len();
        if seats < 2 {
            return None;
        }
        let mine = self.seat_of[pick(&pod.hosts, rng).index()];
        let other = pod.seats.start + reduce(rng.random(), seats - 1) as u32;
        Some((mine, other + u32::from(other >= mine)))
    }

    /// Two hosts of a random edge switch.
    fn any_in_a_rack(&self, rng: &mut Pcg64) -> Option<(u32, u32)> {
        if self.racks.is_empty() {
            return None;
        }
        let hosts = pick(&self.racks, rng);
        let (a, b) = pick_two(hosts, rng)?;
        Some((self.seat_of[a.index()], self.seat_of[b.index()]))
    }

    /// Two hosts that reach their cores through one switch: of the edge layer or of one above with equal probability.
    fn any_through_a_switch(&self, rng: &mut Pcg64) -> Option<(u32, u32)> {
        match reduce(rng.random(), self.layers.len() + 1) {
            0 => self.any_in_a_rack(rng),
            layer => {
                let (a, b) = pick_two::<u32>(pick::<Vec<u32>>(&self.layers[layer - 1], rng), rng)?;
                (self.occupant(a).is_some() || self.occupant(b).is_some()).then_some((a, b))
            }
        }
    }

    /// Lays out all seats and gives each host the core that `wish` names, if a seat of it is left, or one of the others.
    fn seat_all(&mut self, network: &Network, wish: impl Fn(HostId) -> Option<RootLabel>) {
        let climbs = network.climbs();
        self.label.clear();
        let mut pods = std::mem::take(&mut self.pods);
        for pod in &mut pods {
            let mut labels: Vec<u32> = (0..climbs.labels() as u32).collect();
            if network.degraded() {
                labels.retain(|&l| pod.racks.iter().any(|&rack| descends(network, rack, RootLabel(l))));
                if labels.is_empty() {
                    labels = (0..climbs.labels() as u32).collect();
                }
            }
            let start = self.label.len() as u32;
            let count = pod.hosts.len().max(labels.len());
            self.label.extend(labels.iter().cycle().take(count).map(|&l| RootLabel(l)));
            pod.seats = start..start + count as u32;
        }
        self.occupant = vec![None; self.label.len()];
        for pod in &pods {
            self.seat_pod(network, pod, &wish);
        }
        self.pods = pods;
        self.index_layers(network);
    }

    fn seat_pod(&mut self, network: &Network, pod: &Pod, wish: impl Fn(HostId) -> Option<RootLabel>) {
        // Free seats by position of the lowest switch above the edge, and of each label, the first on top.
        let column = |label: RootLabel| network.climbs().down().first().map_or(0, |level| level.column(label) as usize);
        let columns = network.climbs().down().first().map_or(1, |level| level.columns());
        let mut by_label: Vec<Vec<u32>> = vec![Vec::new(); network.climbs().labels()];
        pod.seats.clone().rev().for_each(|seat| by_label[self.label(seat).0 as usize].push(seat));
        let mut waiting = Vec::new();
        for &rack in &pod.racks {
            for (position, &host) in network.fabric().racks()[rack.index()].hosts.iter().enumerate() {
                match wish(host).and_then(|label| by_label[label.0 as usize].pop()) {
                    Some(seat) => self.sit(host, seat),
                    None => waiting.push((position, host)),
                }
            }
        }
        let mut by_column: Vec<Vec<u32>> = vec![Vec::new(); columns];
        let free = pod.seats.clone().rev().filter(|&seat| self.occupant(seat).is_none());
        free.for_each(|seat| by_column[column(self.label(seat))].push(seat));
        for (position, host) in waiting {
            let seat = (0..columns).find_map(|step| by_column[(position + step) % columns].pop());
            self.sit(host, seat.expect("a pod has a seat for every host"));
        }
    }

    fn sit(&mut self, host: HostId, seat: u32) {
        self.occupant[seat as usize] = Some(host);
        self.seat_of[host.index()] = seat;
    }

    /// Swaps a host that its core no longer reaches with another seat that serves both, if there is one.
    fn rescue(&mut self, network: &Network, host: HostId) {
        let fabric = network.fabric();
        let mine = self.seat_of[host.index()];
        let seats = self.pods.iter().find(|p| p.seats.contains(&mine)).expect("a host sits in its pod").seats.clone();
        let label = self.label(mine);
        let serves_both = |&seat: &u32| {
            descends(network, fabric.rack_of(host), self.label(seat))
                && self.occupant(seat).is_none_or(|other| descends(network, fabric.rack_of(other), label))
        };
        if let Some(seat) = (mine + 1..seats.end).chain(seats.start..mine).find(serves_both) {
            self.swap((mine, seat));
        }
    }

    fn index_layers(&mut self, network: &Network) {
        let down = network.climbs().down();
        self.layers.clear();
        for level in down.iter().take(down.len().saturating_sub(1)) {
            let mut groups = Vec::new();
            for pod in &self.pods {
                let mut of_pod = vec![Vec::new(); level.columns()];
                pod.seats.clone().for_each(|seat| of_pod[level.column(self.label(seat)) as usize].push(seat));
                groups.extend(of_pod.into_iter().filter(|g| g.len() > 1));
            }
            if !groups.is_empty() {
                self.layers.push(groups);
            }
        }
    }
}

fn pick<'a, T>(from: &'a [T], rng: &mut Pcg64) -> &'a T {
    &from[reduce(rng.random(), from.len())]
}

/// Two unlike elements.
fn pick_two<T: Copy>(from: &[T], rng: &mut Pcg64) -> Option<(T, T)> {
    let n = from.len();
    if n < 2 {
        return None;
    }
    let a = reduce(rng.random(), n);
    let b = reduce(rng.random(), n - 1);
    Some((from[a], from[b + usize::from(b >= a)]))
}

/// Whether all links from the core down to the rack are up.
fn descends(network: &Network, rack: RackId, label: RootLabel) -> bool {
    network.climbs().down().iter().all(|level| {
        let link = level.link(rack, label);
        link == weft_fabric::routing::roots::NO_LINK || network.capacity()[link.reverse().index()] > 0
    })
}

/// The parts of the fabric that hang together without its roots, by their first rack.
fn pods(network: &Network) -> Vec<Pod> {
    let fabric = network.fabric();
    let top = fabric.top_tier();
    let mut pod_of = vec![u32::MAX; fabric.nodes().len()];
    let mut pods: Vec<Pod> = Vec::new();
    for (r, rack) in fabric.racks().iter().enumerate() {
        let first = fabric.switch_node(rack.switches[0]);
        let is_root = |n: NodeId| fabric.node(n).tier == top;
        // A rack on a root is a pod of its own.
        let known = pod_of[first.index()];
        let pod = if known == u32::MAX || is_root(first) { pods.len() as u32 } else { known };
        if pod as usize == pods.len() {
            pods.push(Pod::default());
            let mut open: Vec<NodeId> = rack.switches.iter().map(|&s| fabric.switch_node(s)).filter(|&n| !is_root(n)).collect();
            while let Some(node) = open.pop() {
                if pod_of[node.index()] == u32::MAX {
                    pod_of[node.index()] = pod;
                    open.extend(fabric.out(node).iter().map(|&l| fabric.link(l).to).filter(|&n| !is_root(n)));
                }
            }
        }
        pods[pod as usize].racks.push(RackId::from(r));
        pods[pod as usize].hosts.extend(&rack.hosts);
    }
    pods
}

#[cfg(test)]
mod tests {
    use weft_fabric::topology::Part;

    use super::*;
    use crate::hedera::testing::{clos, fat_tree, leaf_spine, rng};

    fn labels(seats: &Seats, hosts: usize) -> Vec<u32> {
        (0..hosts).map(|h| seats.label_of(HostId::from(h)).0).collect()
    }

    #[test]
    fn a_fat_tree_starts_with_a_core_a_host_in_each_pod() {
        let network = Network::new(fat_tree(4));
        let seats = Seats::new(&network);
        // The hosts of a rack under both aggregation switches, the racks of a pod on unlike cores.
        assert_eq!(labels(&seats, 8), [0, 2, 1, 3, 0, 2, 1, 3]);
    }

    #[test]
    fn each_leaf_of_a_leaf_spine_is_a_pod() {
        let network = Network::new(leaf_spine(2, 3, 4));
        let seats = Seats::new(&network);
        assert_eq!(seats.pods.len(), 2);
        assert_eq!(labels(&seats, 8), [0, 1, 2, 0, 0, 1, 2, 0], "spines repeat");
        let network = Network::new(clos(4, 6, 3));
        assert_eq!(Seats::new(&network).pods.len(), 1);
    }

    #[test]
    fn moves_keep_the_spread_and_stay_in_the_pod() {
        for fabric in [fat_tree(4), fat_tree(6), leaf_spine(3, 5, 2), clos(4, 6, 3)] {
            let network = Network::new(fabric);
            let hosts = network.fabric().host_count();
            let mut seats = Seats::new(&network);
            let mut rng = rng(1);
            let sorted = |seats: &Seats, pod: &Pod| {
                let mut labels: Vec<_> = pod.seats.clone().map(|s| seats.label(s)).collect();
                labels.sort();
                (labels, pod.seats.clone().filter_map(|s| seats.occupant(s)).collect::<std::collections::BTreeSet<_>>())
            };
            let before: Vec<_> = seats.pods.iter().map(|p| sorted(&seats, p)).collect();
            for _ in 0..2000 {
                if let Some((a, b)) = seats.neighbour(&mut rng) {
                    assert_ne!(a, b);
                    assert!(seats.occupant(a).is_some() || seats.occupant(b).is_some());
                    seats.swap((a, b));
                }
            }
            assert_eq!(before, seats.pods.iter().map(|p| sorted(&seats, p)).collect::<Vec<_>>());
            assert!((0..hosts).all(|h| seats.occupant(seats.seat_of[h]) == Some(HostId::from(h))));
        }
    }

    #[test]
    fn hosts_leave_a_dead_core_and_only_those() {
        let mut network = Network::new(fat_tree(4));
        let mut seats = Seats::new(&network);
        let before = labels(&seats, 16);
        network.fail(Part::parse(network.fabric(), "switch core0").unwrap());
        seats.rebuild(&network);
        let after = labels(&seats, 16);
        for (old, new) in before.iter().zip(&after) {
            assert!(*new != 0 && (*old == 0 || old == new), "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_host_cut_off_from_its_core_swaps_with_one_that_is_not() {
        let mut network = Network::new(fat_tree(4));
        let mut seats = Seats::new(&network);
        network.fail(Part::parse(network.fabric(), "link edge0-agg0").unwrap());
        seats.rebuild(&network);
        let after = labels(&seats, 16);
        assert!(after[..2].iter().all(|&l| l >= 2), "{after:?}");
        assert_eq!(after[4..], labels(&Seats::new(&network), 16)[4..]);
    }
}
