//! Places that an earlier agent left in the kernel. Frames go there; the directory is asked for each on behalf of a VIF of its space, until it answers.
//!
//! ```text
//!   Adopt --> used, asked each second while there is a VIF to ask for --found--> known (elsewhere: Moved)
//!                        | no server answers: used as long as `fail_static` allows, 60 s at least
//!                        '-- unknown, forbidden, time over: Moved to nowhere
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::{Pull, binding, key};
use crate::directory::Value;
use crate::directory::resolver::{Input, Resolution};
use crate::netlord::locations::{Binding, LocationOutput, Query};
use crate::netlord::{Location, Vif};
use crate::time::{Duration, Instant};
use crate::wire::netlord::Question;

/// All that is not confirmed yet.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    /// Where, and until when that is used unconfirmed.
    places: BTreeMap<Vif, (Location, Instant)>,
    /// Lookups under way: which VIF, on whose behalf.
    asked: BTreeMap<u64, (Vif, Vif)>,
    due: Instant,
}

impl Adopted {
    pub fn deadline(&self) -> Option<Instant> {
        (!self.places.is_empty()).then_some(self.due)
    }

    /// There is a VIF more to ask for.
    pub fn ask_at(&mut self, now: Instant) {
        self.due = self.due.min(now);
    }

    pub fn find(&self, query: Query) -> Option<Binding> {
        let Question::Mac(mac) = query.what else { return None };
        let vif = Vif { tenant: query.tenant, space: query.space, mac };
        self.places.get(&vif).map(|&(at, _)| Binding { vif, at })
    }

    /// The VIF is not at this place; whether it was adopted there.
    pub fn remove_at(&mut self, vif: Vif, at: Location) -> bool {
        let is_there = self.places.get(&vif).is_some_and(|(place, _)| *place == at);
        is_there && self.places.remove(&vif).is_some()
    }
}

impl Pull {
    pub(super) fn adopt(&mut self, vif: Vif, at: Location) {
        let until = self.now.saturating_add(self.resolver.fail_static().max(ADOPTED));
        self.adopted.places.insert(vif, (at, until));
        self.adopted.due = self.now;
    }

    pub(super) fn adopted_timer(&mut self) {
        if self.adopted.places.is_empty() || self.now < self.adopted.due {
            return;
        }
        self.adopted.due = self.now.saturating_add(AGAIN);
        let over: Vec<Vif> =
            self.adopted.places.iter().filter(|(_, (_, until))| *until <= self.now).map(|(&vif, _)| vif).collect();
        for vif in over {
            self.adopted.places.remove(&vif);
            self.out.push_back(LocationOutput::Moved { vif, at: None });
        }
        let under_way: BTreeSet<Vif> = self.adopted.asked.values().map(|(vif, _)| *vif).collect();
        let wanted: Vec<Vif> = self.adopted.places.keys().filter(|vif| !under_way.contains(vif)).copied().collect();
        for vif in wanted {
            let of_its_space = |it: &&Vif| (it.tenant, it.space) == (vif.tenant, vif.space);
            let Some(&asker) = self.local.keys().find(of_its_space) else { continue };
            self.last_token += 1;
            self.adopted.asked.insert(self.last_token, (vif, asker));
            let (key, asker) = (key(Query::vif(vif)), Some(key(Query::vif(asker))));
            self.resolver.handle(self.now, Input::Resolve { key, asker, token: self.last_token });
        }
    }

    /// Whether it is the end of such a lookup.
    pub(super) fn adopted_resolved(&mut self, token: u64, resolution: &Resolution) -> bool {
        let Some((vif, asker)) = self.adopted.asked.remove(&token) else { return false };
        if *resolution == Resolution::Unanswered {
            return true;
        }
        let Some((at, _)) = self.adopted.places.remove(&vif) else { return true };
        let query = Query::vif(vif);
        let found = match resolution {
            Resolution::Found(_, Value::Mapping(mapping)) => binding(query, mapping),
            _ => None,
        };
        if let Some(binding) = found {
            self.known.insert((query, asker), binding);
        }
        let now_at = found.map(|it| it.at);
        if now_at != Some(at) {
            self.out.push_back(LocationOutput::Moved { vif, at: now_at });
        }
        true
    }
}

/// What is adopted is used at least so long while no directory server confirms it.
const ADOPTED: Duration = Duration::from_secs(60);
/// It is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
