//! Which part of the old fabric is which of the new one, and where each server goes.

use std::collections::{BTreeMap, BTreeSet};

use super::{ByLower, Rename, Switches};
use crate::cabling::{Cable, Part, cables};
use crate::topology::shapes::subways::SubwaysWiring;

/// A choice. Parts of the old fabric that go have numbers from those of the new fabric upwards.
pub(super) struct Matching {
    /// By old ToR: the new one.
    tors: Vec<u32>,
    /// By server: its new rack.
    racks: Vec<u32>,
    /// By old aggregation switch.
    aggs: Vec<u32>,
    /// By old core.
    cores: Vec<u32>,
}

impl Matching {
    /// Tries each place of the new ToRs between the old ones, servers in order or where they keep their links, and takes what moves
    /// the fewest cables; of equal ones the first.
    pub fn best(from: &SubwaysWiring, to: &SubwaysWiring) -> Self {
        let shifts = to.tors().div_ceil(from.tors()).max(1);
        let mut best: Option<(u64, Self)> = None;
        for shift in 0..shifts {
            let tors = match_tors(from, to, shift);
            let in_order = (0..to.hosts()).map(|host| to.rack_of(host)).collect();
            for racks in [Some(in_order), keep_links(from, to, &tors)].into_iter().flatten() {
                let matching = Self::new(from, to, tors.clone(), racks);
                let cost = matching.rewired(from, to);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, matching));
                }
            }
        }
        best.expect("servers in order are a choice").1
    }

    fn new(from: &SubwaysWiring, to: &SubwaysWiring, tors: Vec<u32>, racks: Vec<u32>) -> Self {
        let mut shared: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (old, &new) in (0u32..).zip(&tors).filter(|(_, new)| **new < to.tors()) {
            *shared.entry((from.cluster_of(old), to.cluster_of(new))).or_default() += 1;
        }
        let clusters = pair(from.clusters, to.clusters, shared);
        let mut shared: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (old, &new) in (0u32..).zip(&clusters).filter(|(_, new)| **new < to.clusters) {
            *shared.entry((from.network_of(old), to.network_of(new))).or_default() += 1;
        }
        let networks = pair(from.networks(), to.networks(), shared);
        let agg = |old: u32| {
            let (cluster, i) = (clusters[(old / from.aggregations) as usize], old % from.aggregations);
            (cluster < to.clusters && i < to.aggregations).then(|| to.agg(cluster, i))
        };
        let aggs = number((0..from.clusters * from.aggregations).map(agg), to.clusters * to.aggregations);
        let core = |old: u32| {
            let (group, j) = (old / from.agg_uplinks, old % from.agg_uplinks);
            let (network, i) = (networks[(group / from.aggregations) as usize], group % from.aggregations);
            (network < to.networks() && i < to.aggregations && j < to.agg_uplinks).then(|| to.core(network, i, j))
        };
        let cores = number((0..from.cores()).map(core), to.cores());
        Self { tors, racks, aggs, cores }
    }

    /// The old cables, under their new names, by lower end.
    pub fn cables_before(&self, from: &SubwaysWiring) -> ByLower {
        let named = |part| match part {
            Part::Host(_) => part,
            Part::Tor(t) => Part::Tor(self.tors[t as usize]),
            Part::Agg(a) => Part::Agg(self.aggs[a as usize]),
            Part::Core(c) => Part::Core(self.cores[c as usize]),
        };
        by_lower(cables(from).map(|c| Cable { lower: named(c.lower), upper: named(c.upper), ..c }))
    }

    /// The new cables, by lower end, with the servers where this choice puts them.
    pub fn cables_after(&self, to: &SubwaysWiring) -> ByLower {
        let servers = (0u32..).zip(&self.racks).flat_map(|(host, &rack)| {
            to.ports_of_rack(rack).into_iter().map(move |tor| {
                let rate = to.port_link(to.network_of(to.cluster_of(tor))).rate;
                Cable { lower: Part::Host(host), upper: Part::Tor(tor), rate }
            })
        });
        by_lower(servers.chain(cables(to).filter(|c| !c.is_server())))
    }

    pub fn new_switches(&self, to: &SubwaysWiring) -> Switches {
        let fresh = |matched: &[u32], all: u32| all - matched.iter().filter(|&&n| n < all).count() as u32;
        Switches {
            tors: fresh(&self.tors, to.tors()),
            aggs: fresh(&self.aggs, to.clusters * to.aggregations),
            cores: fresh(&self.cores, to.cores()),
        }
    }

    pub fn retired_switches(&self, to: &SubwaysWiring) -> Switches {
        let gone = |matched: &[u32], all: u32| matched.iter().filter(|&&n| n >= all).count() as u32;
        Switches {
            tors: gone(&self.tors, to.tors()),
            aggs: gone(&self.aggs, to.clusters * to.aggregations),
            cores: gone(&self.cores, to.cores()),
        }
    }

    pub fn renamed(&self) -> Vec<Rename> {
        let of_tier = |matched: &[u32], part: fn(u32) -> Part| {
            let changed = (0u32..).zip(matched.to_vec()).filter(|(old, new)| old != new);
            changed.map(|(old, new)| Rename { from: part(old), to: part(new) }).collect::<Vec<_>>()
        };
        [of_tier(&self.tors, Part::Tor), of_tier(&self.aggs, Part::Agg), of_tier(&self.cores, Part::Core)].concat()
    }

    pub fn rack_sizes(&self, to: &SubwaysWiring) -> [u32; 2] {
        let mut sizes = vec![0; to.tors() as usize];
        self.racks.iter().for_each(|&rack| sizes[rack as usize] += 1);
        [*sizes.iter().min().expect("racks"), *sizes.iter().max().expect("racks")]
    }

    /// Cables that are moved, replaced or removed.
    fn rewired(&self, from: &SubwaysWiring, to: &SubwaysWiring) -> u64 {
        let (before, after) = (self.cables_before(from), self.cables_after(to));
        let of_part = |(part, old): (&Part, &Vec<Cable>)| {
            let mut new = after.get(part).cloned().unwrap_or_default();
            let kept = old.iter().filter(|c| new.iter().position(|n| n == *c).map(|i| new.swap_remove(i)).is_some());
            (old.len() - kept.count()) as u64
        };
        before.iter().map(of_part).sum()
    }
}

/// Spreads the fewer ToRs evenly over the more, `shift` further.
fn match_tors(from: &SubwaysWiring, to: &SubwaysWiring, shift: u32) -> Vec<u32> {
    let (old, new) = (u64::from(from.tors()), u64::from(to.tors()));
    let taken: BTreeMap<u64, u64> = if new >= old {
        (0..old).map(|t| (t, t * new / old + u64::from(shift))).collect()
    } else {
        (0..new).map(|t| (t * old / new, t)).collect()
    };
    number((0..old).map(|t| taken.get(&t).map(|&n| n as u32)), to.tors())
}

/// Gives each server the rack in which it keeps its links, as far as the ports of the ToRs allow; `None` if that leaves ports over
/// that no server can use together.
fn keep_links(from: &SubwaysWiring, to: &SubwaysWiring, tors: &[u32]) -> Option<Vec<u32>> {
    let mut free = vec![to.server_ports(); to.tors() as usize];
    let mut racks = Vec::with_capacity(from.hosts() as usize);
    for rack in 0..from.tors() {
        let mut links: Vec<u32> = from.ports_of_rack(rack).iter().map(|&t| tors[t as usize]).collect();
        links.retain(|&t| t < to.tors());
        let candidates = candidates(to, &links);
        let most = candidates.first().map_or(0, |c| c.0);
        let equal = candidates.iter().take_while(|c| c.0 == most).count() as u32;
        for i in 0..from.servers_per_rack {
            // An even share for each rack that keeps the most links, then whatever has ports, then ever further away.
            let share = (i * equal).checked_div(from.servers_per_rack).unwrap_or(0) as usize;
            let preferred = candidates.get(share).into_iter().chain(&candidates).map(|c| c.1);
            let centre = tors[rack as usize].min(to.tors() - 1);
            let chosen = preferred.chain(outwards(centre, to.tors())).find(|&r| has_ports(to, &free, r))?;
            to.ports_of_rack(chosen).iter().for_each(|&t| free[t as usize] -= 1);
            racks.push(chosen);
        }
    }
    Some(racks)
}

/// The new racks that keep any of the links, most of them first, and how many.
fn candidates(to: &SubwaysWiring, links: &[u32]) -> Vec<(usize, u32)> {
    let racks: BTreeSet<u32> = links.iter().flat_map(|&t| to.racks_of_tor(t)).collect();
    let kept = |rack: u32| {
        let mut ports = to.ports_of_rack(rack);
        links.iter().filter(|&t| ports.iter().position(|p| p == t).map(|i| ports.swap_remove(i)).is_some()).count()
    };
    let mut candidates: Vec<(usize, u32)> = racks.into_iter().map(|rack| (kept(rack), rack)).collect();
    candidates.sort_by_key(|&(kept, rack)| (std::cmp::Reverse(kept), rack));
    candidates
}

/// All racks, the nearest to `centre` first, the next one before the one before.
fn outwards(centre: u32, racks: u32) -> impl Iterator<Item = u32> {
    let both = (1..racks).flat_map(move |d| [centre.checked_add(d).filter(|&r| r < racks), centre.checked_sub(d)]);
    std::iter::once(Some(centre)).chain(both).flatten()
}

fn has_ports(to: &SubwaysWiring, free: &[u32], rack: u32) -> bool {
    let ports = to.ports_of_rack(rack);
    ports.iter().all(|&t| free[t as usize] >= ports.iter().filter(|&&p| p == t).count() as u32)
}

/// Pairs old things with new ones, those that share the most first; the rest of the old ones get numbers from `new` upwards.
fn pair(old: u32, new: u32, shared: BTreeMap<(u32, u32), u32>) -> Vec<u32> {
    let mut order: Vec<_> = shared.into_iter().collect();
    order.sort_by_key(|&(ids, count)| (std::cmp::Reverse(count), ids));
    let mut of_old = vec![None; old as usize];
    let mut taken = BTreeSet::new();
    for ((a, b), _) in order {
        if of_old[a as usize].is_none() && taken.insert(b) {
            of_old[a as usize] = Some(b);
        }
    }
    number(of_old.into_iter(), new)
}

/// Numbers from `beyond` upwards for what is `None`.
fn number(matched: impl Iterator<Item = Option<u32>>, beyond: u32) -> Vec<u32> {
    let mut next = beyond;
    matched
        .map(|m| {
            m.unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}

fn by_lower(cables: impl Iterator<Item = Cable>) -> ByLower {
    let mut by_lower = ByLower::new();
    cables.for_each(|cable| by_lower.entry(cable.lower).or_default().push(cable));
    by_lower
}
