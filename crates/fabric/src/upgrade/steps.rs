//! The order: what is new is plugged first, from the top down; then cables move, no part losing more than one at a time; then the rest goes.

use std::collections::BTreeMap;

use super::{ByLower, Change, OfPart, Service, Step, tier};
use crate::cabling::{Cable, Part};
use crate::topology::shapes::subways::{SubwaysWiring, Wiring};
use crate::units::BitsPerSec;

/// Sorts the changes into steps and follows what stays in service.
pub(super) fn order(to: &SubwaysWiring, before: &ByLower, diff: BTreeMap<Part, OfPart>) -> Vec<Step> {
    let mut rounds: BTreeMap<(u8, usize, usize), Vec<Change>> = BTreeMap::new();
    for (lower, of_part) in diff {
        let tier = tier(lower);
        let mut moved = 0;
        for change in of_part.changes {
            let key = match change {
                Change::Add(_) => (0, 2 - tier, 0),
                Change::Move { .. } | Change::Replace { .. } => {
                    moved += 1;
                    (1, 2 - tier, moved)
                }
                Change::Remove(_) => (2, tier, 0),
            };
            rounds.entry(key).or_default().push(change);
        }
    }
    let mut world = World::new(to, before);
    let last: BTreeMap<(u8, usize), usize> = rounds.keys().map(|&(phase, tier, round)| ((phase, tier), round)).collect();
    rounds
        .into_iter()
        .map(|(key, changes)| {
            changes.iter().for_each(|c| world.take_out(c));
            let in_service = world.service();
            changes.iter().for_each(|c| world.plug(c));
            let title = title(key, last[&(key.0, key.1)]);
            Step { title, count: changes.len(), in_service, changes }
        })
        .collect()
}

fn title((phase, place, round): (u8, usize, usize), rounds: usize) -> String {
    let what = |tier: usize| ["servers", "ToRs", "aggregation switches"][tier];
    let of = if rounds > 1 { format!(", {round} of {rounds}") } else { String::new() };
    match phase {
        0 => format!("plug the new cables of {}", what(2 - place)),
        1 => format!("rewire {}, a cable each at a time{of}", what(2 - place)),
        _ => format!("take out cables of {}", what(place)),
    }
}

/// The cables that are plugged, under the names of the new fabric.
struct World {
    live: ByLower,
    /// Servers wired as trunks use the links to one ToR only.
    trunks: bool,
    server_bps: f64,
    uplink_bps: f64,
}

impl World {
    fn new(to: &SubwaysWiring, before: &ByLower) -> Self {
        let mut world =
            Self { live: before.clone(), trunks: to.kind.wiring() == Wiring::Trunk, server_bps: 1.0, uplink_bps: 1.0 };
        let now = world.service();
        world.server_bps = now.server_capacity;
        world.uplink_bps = now.uplink_capacity;
        world
    }

    fn take_out(&mut self, change: &Change) {
        let (lower, upper, rate) = match *change {
            Change::Add(_) => return,
            Change::Move { end, from, rate_bps, .. } => (end, from, BitsPerSec(rate_bps)),
            Change::Replace { end, from, from_bps, .. } => (end, from, BitsPerSec(from_bps)),
            Change::Remove(cable) => (cable.lower, cable.upper, cable.rate),
        };
        let cables = self.live.get_mut(&lower).expect("it has cables");
        let at = cables.iter().position(|&c| c == Cable { lower, upper, rate });
        cables.remove(at.expect("the cable is plugged"));
    }

    fn plug(&mut self, change: &Change) {
        let cable = match *change {
            Change::Add(cable) => cable,
            Change::Move { end, to, rate_bps, .. } => Cable { lower: end, upper: to, rate: BitsPerSec(rate_bps) },
            Change::Replace { end, to, to_bps, .. } => Cable { lower: end, upper: to, rate: BitsPerSec(to_bps) },
            Change::Remove(_) => return,
        };
        self.live.entry(cable.lower).or_default().push(cable);
    }

    /// What works with the cables that are plugged; capacities over those before the upgrade.
    fn service(&self) -> Service {
        let mut service = Service {
            servers_cut_off: 0,
            server_links_min: u32::MAX,
            server_capacity: 0.0,
            tor_uplinks_min: u32::MAX,
            uplink_capacity: 0.0,
        };
        let uplinks = |tor: Part| self.live.get(&tor).map_or(&[][..], |cables| cables);
        let mut serving: Vec<Part> = Vec::new();
        for (_, cables) in self.live.range(Part::Host(0)..=Part::Host(u32::MAX)) {
            let usable = self.usable(cables, &uplinks);
            service.server_links_min = service.server_links_min.min(usable.len() as u32);
            service.servers_cut_off += u64::from(usable.is_empty());
            service.server_capacity += usable.iter().map(|c| c.rate.as_f64()).sum::<f64>() / self.server_bps;
            serving.extend(usable.iter().map(|c| c.upper));
        }
        serving.sort_unstable();
        serving.dedup();
        for tor in serving {
            let up = uplinks(tor);
            service.tor_uplinks_min = service.tor_uplinks_min.min(up.len() as u32);
            service.uplink_capacity += up.iter().map(|c| c.rate.as_f64()).sum::<f64>() / self.uplink_bps;
        }
        service
    }

    /// The links of a server that lead somewhere: all to ToRs with uplinks; of a trunk those to the ToR that has the most.
    fn usable<'a>(&self, cables: &[Cable], uplinks: &impl Fn(Part) -> &'a [Cable]) -> Vec<Cable> {
        let mut alive: Vec<Cable> = cables.iter().copied().filter(|c| !uplinks(c.upper).is_empty()).collect();
        if self.trunks {
            let links = |tor: Part| alive.iter().filter(|c| c.upper == tor).count();
            let best = alive.iter().map(|c| c.upper).max_by_key(|&tor| (links(tor), std::cmp::Reverse(tor)));
            alive.retain(|c| Some(c.upper) == best);
        }
        alive
    }
}
