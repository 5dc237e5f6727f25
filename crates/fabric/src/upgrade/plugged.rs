//! The cables that are plugged while an upgrade is carried out, and what works with them.

use super::{ByLower, Change, Service};
use crate::cabling::{Cable, Part};
use crate::units::BitsPerSec;

/// The cables that are plugged, under the names of the new fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugged {
    by_lower: ByLower,
    /// Servers wired as trunks use the links to one ToR only.
    trunks: bool,
}

impl Plugged {
    pub(super) const fn new(by_lower: ByLower, trunks: bool) -> Self {
        Self { by_lower, trunks }
    }

    /// Takes out the cable that a change moves, replaces or removes.
    ///
    /// # Panics
    /// If it is not plugged: the changes of a plan are in an order in which each is.
    pub fn take_out(&mut self, change: &Change) {
        let Some(cable) = change.unplugged() else { return };
        let cables = self.by_lower.get_mut(&cable.lower).expect("it has cables");
        let at = cables.iter().position(|&it| it == cable);
        cables.remove(at.expect("the cable is plugged"));
    }

    /// Plugs the cable that a change leads to.
    pub fn plug(&mut self, change: &Change) {
        if let Some(cable) = change.plugged() {
            self.by_lower.entry(cable.lower).or_default().push(cable);
        }
    }

    /// All cables, by lower end.
    pub fn cables(&self) -> impl Iterator<Item = Cable> + '_ {
        self.by_lower.values().flatten().copied()
    }

    /// The cables of servers that lead somewhere, by server: all to ToRs with uplinks; of a trunk those to the ToR that has the most.
    pub fn usable(&self) -> impl Iterator<Item = Vec<Cable>> + '_ {
        self.by_lower.range(Part::Host(0)..=Part::Host(u32::MAX)).map(|(_, cables)| {
            let mut alive: Vec<Cable> = cables.iter().copied().filter(|c| !self.uplinks(c.upper).is_empty()).collect();
            if self.trunks {
                let links = |tor: Part| alive.iter().filter(|c| c.upper == tor).count();
                let best = alive.iter().map(|c| c.upper).max_by_key(|&tor| (links(tor), std::cmp::Reverse(tor)));
                alive.retain(|c| Some(c.upper) == best);
            }
            alive
        })
    }

    fn uplinks(&self, tor: Part) -> &[Cable] {
        self.by_lower.get(&tor).map_or(&[], |cables| cables)
    }

    /// What works; capacities in bits per second.
    pub(super) fn service(&self) -> Service {
        let mut service = Service {
            servers_cut_off: 0,
            server_links_min: u32::MAX,
            server_capacity: 0.0,
            tor_uplinks_min: u32::MAX,
            uplink_capacity: 0.0,
        };
        let mut serving: Vec<Part> = Vec::new();
        for usable in self.usable() {
            service.server_links_min = service.server_links_min.min(usable.len() as u32);
            service.servers_cut_off += u64::from(usable.is_empty());
            service.server_capacity += usable.iter().map(|c| c.rate.as_f64()).sum::<f64>();
            serving.extend(usable.iter().map(|c| c.upper));
        }
        serving.sort_unstable();
        serving.dedup();
        for tor in serving {
            let up = self.uplinks(tor);
            service.tor_uplinks_min = service.tor_uplinks_min.min(up.len() as u32);
            service.uplink_capacity += up.iter().map(|c| c.rate.as_f64()).sum::<f64>();
        }
        service
    }
}

impl Service {
    /// The same with capacities over those at the start.
    pub(super) fn over(self, start: &Self) -> Self {
        let server_capacity = self.server_capacity / start.server_capacity;
        Self { server_capacity, uplink_capacity: self.uplink_capacity / start.uplink_capacity, ..self }
    }
}

impl Change {
    /// The cable that it takes out.
    pub const fn unplugged(&self) -> Option<Cable> {
        match *self {
            Self::Add(_) => None,
            Self::Move { end, from, rate_bps, .. } => Some(Cable { lower: end, upper: from, rate: BitsPerSec(rate_bps) }),
            Self::Replace { end, from, from_bps, .. } => Some(Cable { lower: end, upper: from, rate: BitsPerSec(from_bps) }),
            Self::Remove(cable) => Some(cable),
        }
    }

    /// The cable that is plugged after it.
    pub const fn plugged(&self) -> Option<Cable> {
        match *self {
            Self::Add(cable) => Some(cable),
            Self::Move { end, to, rate_bps, .. } => Some(Cable { lower: end, upper: to, rate: BitsPerSec(rate_bps) }),
            Self::Replace { end, to, to_bps, .. } => Some(Cable { lower: end, upper: to, rate: BitsPerSec(to_bps) }),
            Self::Remove(_) => None,
        }
    }
}
