//! Max-min fair rates that are repaired when flows come and go.
//!
//! Every link has a **level**: the rate x at which its flows fill it, where each flow takes min(x, what its other links allow),
//! and infinity if they cannot fill it. A flow's rate is the lowest level on its path. Levels that agree with each other in this
//! sense are the max-min fair ones, and there is only one such set.
//!
//! ```text
//!   a flow leaves:   its links get other levels -> their flows other rates -> the other links of those get other levels ...
//! ```
//! A link's level depends only on levels below it. So changes are worked off in ascending order, as in dynamic shortest paths
//! (Ramalingam and Reps 1996): take the link whose old or due level is the lowest of all that disagree; nothing that happens later
//! reaches down to it. In a fat-tree with 8,192 hosts and 50,000 flows a departure changes some 100 rates, and 25,000 flows
//! stay untouched.
//!
//! A level is always computed anew from the flows of the link, never adjusted, so errors do not add up over a run: levels agree
//! with each other to [`TOLERANCE`] whatever happened before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;
use weft_fabric::LinkId;

use crate::flow::maxmin::solver::{Filled, Incidence, fill};

/// Flows by slot, links by id.
#[derive(Debug)]
pub(crate) struct Levels {
    links: Vec<LinkState>,
    capacities: Vec<f64>,
    members: Vec<Vec<u32>>,
    limits: Vec<Limit>,
    hops: Vec<SmallVec<[Hop; 6]>>,
    /// Flows on some link.
    count: usize,
    /// Links that flows joined or left since rates were settled.
    dirty: Vec<u32>,
    /// How many joined or left.
    changes: usize,
    /// Flows whose rate may have changed since then.
    touched: Vec<u32>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Counts repairs, to tell stale [`LinkState::raises`].
    repair: u32,
    scratch: Vec<f64>,
}

/// What is known of a link.
#[derive(Clone, Debug)]
struct LinkState {
    /// The level that its flows see.
    level: f64,
    /// The level that its flows' other links call for, as far as known: exact if `fresh`, else an estimate.
    due: f64,
    /// The key under which it is queued; NaN if it is not.
    key: f64,
    /// Flows that this link, and no other, holds back; none if the level is infinite.
    held: u32,
    /// While the level is infinite: what its flows leave of the capacity.
    slack: f64,
    /// Repair to which `raises` belongs.
    repair: u32,
    /// How often its level rose in this repair.
    raises: u16,
    fresh: bool,
    dirty: bool,
}

/// The two lowest levels on a flow's path.
#[derive(Clone, Copy, Debug)]
struct Limit {
    low: f64,
    next: f64,
    /// The link of `low`.
    at: u32,
    touched: bool,
}

/// A link of a flow's path, and where the flow stands among its members.
#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    link: u32,
    place: u32,
}

impl Levels {
    pub fn new(capacities: Vec<f64>) -> Self {
        let link = LinkState {
            level: f64::INFINITY,
            due: f64::INFINITY,
            key: f64::NAN,
            held: 0,
            slack: 0.0,
            repair: 0,
            raises: 0,
            fresh: false,
            dirty: false,
        };
        Self {
            links: vec![link; capacities.len()],
            members: vec![Vec::new(); capacities.len()],
            capacities,
            limits: Vec::new(),
            hops: Vec::new(),
            count: 0,
            dirty: Vec::new(),
            changes: 0,
            touched: Vec::new(),
            queue: BinaryHeap::new(),
            repair: 0,
            scratch: Vec::new(),
        }
    }

    /// Puts a flow on its links; the slot must be free.
    pub fn join(&mut self, slot: u32, path: &[LinkId]) {
        let s = slot as usize;
        if s >= self.hops.len() {
            self.hops.resize_with(s + 1, SmallVec::new);
            self.limits.resize(s + 1, Limit { low: f64::INFINITY, next: f64::INFINITY, at: 0, touched: false });
        }
        debug_assert!(self.hops[s].is_empty());
        for &link in path {
            let members = &mut self.members[link.index()];
            self.hops[s].push(Hop { link: link.0, place: members.len() as u32 });
            members.push(slot);
            self.soil(link.0);
        }
        self.limits[s] = Limit { touched: self.limits[s].touched, ..self.limit_of(slot) };
        self.touch(slot);
        self.count += 1;
        self.changes += 1;
    }

    /// Takes a flow off its links; the slot is free then.
    pub fn leave(&mut self, slot: u32) {
        for hop in std::mem::take(&mut self.hops[slot as usize]) {
            let members = &mut self.members[hop.link as usize];
            members.swap_remove(hop.place as usize);
            if let Some(&moved) = members.get(hop.place as usize) {
                let hops = &mut self.hops[moved as usize];
                hops.iter_mut().find(|h| h.link == hop.link).expect("members cross the link").place = hop.place;
            }
            self.soil(hop.link);
        }
        self.count -= 1;
        self.changes += 1;
    }

    /// Makes the rates max-min fair again. Returns the flows whose rate may have changed; [`Levels::rate`] tells.
    pub fn settle(&mut self) -> Vec<u32> {
        if self.changes > REFILL_LEAST && self.changes * REFILL_SHARE > self.count {
            self.refill();
        } else if !self.dirty.is_empty() {
            self.repair();
        }
        self.changes = 0;
        let touched = std::mem::take(&mut self.touched);
        for &slot in &touched {
            self.limits[slot as usize].touched = false;
        }
        touched
    }

    /// The rate of a flow on some link.
    pub fn rate(&self, slot: u32) -> f64 {
        self.limits[slot as usize].low
    }

    /// Gives the list of [`Levels::settle`] back for reuse.
    pub fn recycle(&mut self, mut touched: Vec<u32>) {
        touched.clear();
        self.touched = touched;
    }

    fn soil(&mut self, link: u32) {
        if !std::mem::replace(&mut self.links[link as usize].dirty, true) {
            self.dirty.push(link);
        }
    }

    fn touch(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.limits[slot as usize].touched, true) {
            self.touched.push(slot);
        }
    }

    fn limit_of(&self, slot: u32) -> Limit {
        let mut limit = Limit { low: f64::INFINITY, next: f64::INFINITY, at: u32::MAX, touched: false };
        for hop in &self.hops[slot as usize] {
            let level = self.links[hop.link as usize].level;
            if level < limit.low || limit.at == u32::MAX {
                limit.next = limit.low;
                limit.low = level;
                limit.at = hop.link;
            } else if level < limit.next {
                limit.next = level;
            }
        }
        limit
    }

    /// Computes the level that the other links of its members call for.
    fn level_due(&mut self, link: u32) -> f64 {
        let open = &mut self.scratch;
        open.clear();
        open.extend(self.members[link as usize].iter().map(|&slot| self.limits[slot as usize].without(link)));
        let Water { level, held, left } = water_level(open, self.capacities[link as usize]);
        let state = &mut self.links[link as usize];
        state.due = level;
        state.held = held;
        state.slack = left;
        state.fresh = true;
        level
    }

    fn refill(&mut self) {
        let Filled { levels, .. } = fill(&Members(self), &self.capacities);
        for (link, level) in self.links.iter_mut().zip(levels) {
            link.level = level;
            link.dirty = false;
        }
        self.dirty.clear();
        self.relimit();
        // Links that stopped no flow may yet be full, or have a level above all of their flows.
        for link in 0..self.links.len() as u32 {
            if self.links[link as usize].level == f64::INFINITY && !self.members[link as usize].is_empty() {
                self.links[link as usize].level = self.level_due(link);
            }
        }
        self.relimit();
    }

    fn relimit(&mut self) {
        for slot in 0..self.hops.len() as u32 {
            if !self.hops[slot as usize].is_empty() {
                self.limits[slot as usize] = Limit { touched: self.limits[slot as usize].touched, ..self.limit_of(slot) };
                self.touch(slot);
            }
        }
    }

    fn repair(&mut self) {
        self.repair = self.repair.wrapping_add(1);
        let mut dirty = std::mem::take(&mut self.dirty);
        for link in dirty.drain(..) {
            self.links[link as usize].dirty = false;
            self.links[link as usize].key = f64::NAN;
            self.examine(link);
        }
        self.dirty = dirty;
        let mut patience = PATIENCE * (self.links.len() + 64);
        while let Some(Reverse((bits, link))) = self.queue.pop() {
            let state = &mut self.links[link as usize];
            if state.key.to_bits() != bits {
                continue;
            }
            state.key = f64::NAN;
            if !state.fresh && !self.examine_now(link) {
                continue;
            }
            self.adopt(link);
            patience -= 1;
            if patience == 0 {
                // Rounding has made two links disagree for ever: begin anew.
                self.queue.clear();
                self.links.iter_mut().for_each(|l| l.key = f64::NAN);
                self.refill();
                return;
            }
        }
    }

    /// Computes the due level, and queues the link if it differs from its level.
    fn examine(&mut self, link: u32) {
        let due = self.level_due(link);
        let state = &mut self.links[link as usize];
        if agree(state.level, due) {
            state.key = f64::NAN;
        } else {
            let key = state.level.min(due);
            self.enqueue(link, key);
        }
    }

    /// The same for a link just taken from the queue: true if it is still the first, false if it is settled or queued again.
    fn examine_now(&mut self, link: u32) -> bool {
        let due = self.level_due(link);
        let state = &self.links[link as usize];
        if agree(state.level, due) {
            return false;
        }
        let key = state.level.min(due);
        if self.queue.peek().is_some_and(|&Reverse((next, _))| key.to_bits() > next) {
            self.enqueue(link, key);
            return false;
        }
        true
    }

    fn enqueue(&mut self, link: u32, key: f64) {
        self.links[link as usize].key = key;
        self.queue.push(Reverse((key.to_bits(), link)));
    }

    /// Gives a link its due level, and tells the other links of its flows.
    fn adopt(&mut self, link: u32) {
        let repair = self.repair;
        let state = &mut self.links[link as usize];
        let old = state.level;
        let mut new = state.due;
        if new > old {
            let raises = if state.repair == repair { state.raises + 1 } else { 1 };
            (state.repair, state.raises) = (repair, raises);
            if raises > RAISES {
                // Links that lift each other in turn: from infinity it can only come down, once and for all.
                new = f64::INFINITY;
            }
        }
        state.level = new;
        for i in 0..self.members[link as usize].len() {
            let slot = self.members[link as usize][i];
            self.relevel(slot, link, old, new);
        }
        let state = &self.links[link as usize];
        if !agree(state.level, state.due) {
            let key = state.level.min(state.due);
            self.enqueue(link, key);
        }
    }

    /// The level of a link on the flow's path has changed.
    fn relevel(&mut self, slot: u32, link: u32, old: f64, new: f64) {
        let before = self.limits[slot as usize];
        let after = if before.at == link {
            if new <= before.next { Limit { low: new, ..before } } else { self.limit_of(slot) }
        } else if new < before.low {
            Limit { low: new, next: before.low, at: link, ..before }
        } else if new <= before.next {
            Limit { next: new, ..before }
        } else if old <= before.next {
            self.limit_of(slot)
        } else {
            return;
        };
        self.limits[slot as usize] = Limit { touched: before.touched, ..after };
        if before.low != after.low {
            self.touch(slot);
        } else if before.next == after.next {
            return;
        }
        for h in 0..self.hops[slot as usize].len() {
            let other = self.hops[slot as usize][h].link;
            if other != link {
                self.hear(other, before.without(other), after.without(other));
            }
        }
    }

    /// What its other links allow a member of this link has changed from `was` to `is`.
    fn hear(&mut self, link: u32, was: f64, is: f64) {
        if was == is {
            return;
        }
        let margin = SLACK * self.capacities[link as usize];
        let state = &mut self.links[link as usize];
        let queued = !state.key.is_nan();
        if !queued {
            if state.level == f64::INFINITY {
                // Most links are not full, and stay so. (Infinity less infinity is not above the margin either.)
                state.slack += was - is;
                if state.slack > margin {
                    return;
                }
            }
            if was.min(is) >= state.level {
                return;
            }
            state.due = state.level;
        } else if was.min(is) >= state.level.max(state.due) {
            return;
        }
        // An estimate is enough: it decides when the link is looked at, not what it gets.
        let cap = if state.due == f64::INFINITY { was.max(is).min(MOST) } else { state.due };
        state.due = (cap - (is.min(cap) - was.min(cap)) / f64::from(state.held.max(1))).max(0.0);
        state.fresh = false;
        let key = state.level.min(state.due);
        if !queued || key < state.key {
            self.enqueue(link, key);
        }
    }
}

impl Limit {
    /// What the links other than this one allow.
    fn without(&self, link: u32) -> f64 {
        if self.at == link { self.next } else { self.low }
    }
}

/// What [`water_level`] finds.
struct Water {
    level: f64,
    /// Flows whose limits are not below the level.
    held: u32,
    /// What is left of the capacity if nothing is held.
    left: f64,
}

/// The x with sum of min(x, limit) = capacity; infinity if all limits together are less.
fn water_level(open: &mut Vec<f64>, capacity: f64) -> Water {
    let mut left = capacity;
    loop {
        let share = left / open.len() as f64;
        let before = open.len();
        open.retain(|&limit| {
            let below = limit < share;
            left -= if below { limit } else { 0.0 };
            !below
        });
        if open.is_empty() {
            return Water { level: f64::INFINITY, held: 0, left };
        }
        if open.len() == before {
            return Water { level: share.max(0.0), held: open.len() as u32, left: 0.0 };
        }
    }
}

/// Whether two levels are the same but for rounding.
fn agree(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= TOLERANCE * a.min(b)
}

struct Members<'a>(&'a Levels);

impl Incidence for Members<'_> {
    fn flow_count(&self) -> usize {
        self.0.hops.len()
    }

    fn links(&self, flow: u32) -> impl Iterator<Item = u32> {
        self.0.hops[flow as usize].iter().map(|h| h.link)
    }

    fn members(&self, link: u32) -> &[u32] {
        &self.0.members[link as usize]
    }
}

/// Levels that differ by less, relatively, are the same.
const TOLERANCE: f64 = 1e-13;
/// A link that is not full is looked at again when less than this part of its capacity seems left: far more than rounding can
/// have added up to.
const SLACK: f64 = 1e-6;
/// Stands for infinity where a difference is taken.
const MOST: f64 = 1e300;
/// A link whose level rose so often in a repair is lifted to infinity, to come down at its last level.
const RAISES: u16 = 3;
/// Repairs of more steps than this for each link begin anew.
const PATIENCE: usize = 8;
/// More changes than this at one instant, and more than one flow in [`REFILL_SHARE`], are solved from scratch.
const REFILL_LEAST: usize = 32;
const REFILL_SHARE: usize = 32;
