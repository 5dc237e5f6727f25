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
//! A level is always recomputed from the flows of the link, never adjusted, so errors do not add up over a run: levels agree
//! with each other to [`ROUNDING`] whatever happened before.
//!
//! With a **tolerance** a level may lag behind what is due, and is never above it, so no link is overfilled. A link then keeps count of
//! what its flows leave of it, and gets another level only when that is used up, or exceeds the tolerance of what it gives to the flows that it
//! holds back: most changes end at the links where they begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::flow::maxmin::Sharing;
use crate::flow::maxmin::solver::{Filled, Incidence, fill};

/// Flows by slot, links by id. A link and a flow are a cache line each: a repair jumps from one to the next.
#[derive(Debug)]
pub(crate) struct Levels {
    links: Vec<Link>,
    flows: Vec<Flow>,
    /// By flow: where it stands among the members of each of its links.
    places: Vec<SmallVec<[u32; 6]>>,
    /// Flows on some link.
    count: usize,
    /// Links that flows joined or left since rates were settled.
    dirty: Vec<u32>,
    /// How many joined or left.
    changes: usize,
    /// Flows whose rate may have changed since then.
    touched: Vec<u32>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Counts repairs, to detect stale [`Link::raises`].
    repair: u16,
    /// The fraction by which a level may be below what is due; 0: exact.
    tolerance: f64,
    scratch: Vec<f64>,
}

/// What is known of a link.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Link {
    capacity: f64,
    /// The level that its flows see.
    level: f64,
    /// While queued: the level that its flows' other links call for, as far as known; exact if `fresh`, else an estimate.
    /// Else, if the level is infinite or there is a tolerance: what its flows leave of the capacity.
    due_or_slack: f64,
    /// The key under which it is queued; NaN if it is not.
    key: f64,
    members: Vec<u32>,
    /// Flows that this link, and no other, holds back; none if the level is infinite.
    held: u32,
    /// Repair to which `raises` belongs.
    repair: u16,
    /// How often its level rose in this repair.
    raises: u8,
    fresh: bool,
    dirty: bool,
}

/// A flow's path, and the two lowest levels on it.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    limit: Limit,
    touched: bool,
    links: SmallVec<[u32; 6]>,
}

/// The two lowest levels on a path.
#[derive(Clone, Copy, Debug)]
struct Limit {
    low: f64,
    next: f64,
    /// The link of `low`.
    at: u32,
}

impl Levels {
    /// Levels of idle links, exact or with a tolerance (a fraction below 1).
    pub fn new(capacities: impl Iterator<Item = f64>, tolerance: f64) -> Self {
        Self {
            links: capacities.map(Link::new).collect(),
            flows: Vec::new(),
            places: Vec::new(),
            count: 0,
            dirty: Vec::new(),
            changes: 0,
            touched: Vec::new(),
            queue: BinaryHeap::new(),
            repair: 0,
            tolerance,
            scratch: Vec::new(),
        }
    }
}

/// A flow's rate is whole on each of its links.
impl Sharing for Levels {
    fn set_capacity(&mut self, link: u32, capacity: f64) {
        match self.links.get_mut(link as usize) {
            Some(known) if known.capacity == capacity => {}
            Some(known) => {
                known.capacity = capacity;
                self.soil(link);
            }
            None => self.links.push(Link::new(capacity)),
        }
    }

    fn join(&mut self, slot: u32, path: impl Iterator<Item = (u32, f64)>) {
        let s = slot as usize;
        if s >= self.flows.len() {
            let free = Flow { limit: Limit::NONE, touched: false, links: SmallVec::new() };
            self.flows.resize(s + 1, free);
            self.places.resize(s + 1, SmallVec::new());
        }
        debug_assert!(self.flows[s].links.is_empty());
        for (link, share) in path {
            debug_assert!(share == 1.0, "its rate is whole");
            let members = &mut self.links[link as usize].members;
            self.flows[s].links.push(link);
            self.places[s].push(members.len() as u32);
            members.push(slot);
            self.soil(link);
        }
        self.flows[s].limit = self.limit_of(slot);
        self.touch(slot);
        self.count += 1;
        self.changes += 1;
    }

    fn leave(&mut self, slot: u32) {
        let links = std::mem::take(&mut self.flows[slot as usize].links);
        let places = std::mem::take(&mut self.places[slot as usize]);
        for (link, place) in links.into_iter().zip(places) {
            let members = &mut self.links[link as usize].members;
            members.swap_remove(place as usize);
            if let Some(&moved) = members.get(place as usize) {
                let hop = self.flows[moved as usize].links.iter().position(|&l| l == link).expect("members cross the link");
                self.places[moved as usize][hop] = place;
            }
            self.soil(link);
        }
        self.count -= 1;
        self.changes += 1;
    }

    fn settle(&mut self) -> Vec<u32> {
        if self.changes > REFILL_LEAST && self.changes * REFILL_SHARE > self.count {
            self.refill();
        } else if !self.dirty.is_empty() {
            self.repair();
        }
        self.changes = 0;
        let touched = std::mem::take(&mut self.touched);
        for &slot in &touched {
            self.flows[slot as usize].touched = false;
        }
        touched
    }

    fn rate(&self, slot: u32) -> f64 {
        self.flows[slot as usize].limit.low
    }

    fn recycle(&mut self, mut touched: Vec<u32>) {
        touched.clear();
        self.touched = touched;
    }
}

impl Levels {
    fn soil(&mut self, link: u32) {
        if !std::mem::replace(&mut self.links[link as usize].dirty, true) {
            self.dirty.push(link);
        }
    }

    fn touch(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.flows[slot as usize].touched, true) {
            self.touched.push(slot);
        }
    }

    fn limit_of(&self, slot: u32) -> Limit {
        let mut limit = Limit::NONE;
        for &link in &self.flows[slot as usize].links {
            let level = self.links[link as usize].level;
            if level < limit.low || limit.at == u32::MAX {
                limit = Limit { low: level, next: limit.low, at: link };
            } else if level < limit.next {
                limit.next = level;
            }
        }
        limit
    }

    /// Computes the level that the other links of its members call for.
    fn examine(&mut self, link: u32) -> f64 {
        let state = &mut self.links[link as usize];
        self.scratch.clear();
        self.scratch.extend(state.members.iter().map(|&slot| self.flows[slot as usize].limit.without(link)));
        let Water { level, held, left } = water_level(&mut self.scratch, state.capacity);
        state.held = held;
        state.fresh = true;
        state.due_or_slack = if state.level == level && held == 0 { left } else { level };
        if self.tolerance > 0.0 && agree(state.level, level, self.tolerance) {
            self.take_stock(link);
        }
        level
    }

    /// Counts what the flows of a link leave of it at its level, and which of them it holds back.
    fn take_stock(&mut self, link: u32) {
        let state = &mut self.links[link as usize];
        let limits = state.members.iter().map(|&slot| self.flows[slot as usize].limit.without(link));
        let (mut used, mut held) = (0.0, 0);
        for limit in limits {
            used += limit.min(state.level);
            held += u32::from(limit >= state.level);
        }
        state.held = held;
        state.due_or_slack = state.capacity - used;
    }

    fn refill(&mut self) {
        let capacities: Vec<f64> = self.links.iter().map(|l| l.capacity).collect();
        let Filled { levels, .. } = fill(&Members(self), &capacities);
        for (link, level) in self.links.iter_mut().zip(levels) {
            link.level = level;
            link.dirty = false;
        }
        self.dirty.clear();
        self.relimit();
        // Links that stopped no flow may yet be full, or have a level above all of their flows.
        for link in 0..self.links.len() as u32 {
            let level = self.examine(link);
            let state = &mut self.links[link as usize];
            if state.level == f64::INFINITY && level < f64::INFINITY {
                state.level = level;
                if self.tolerance > 0.0 {
                    self.take_stock(link);
                }
            }
        }
        self.relimit();
    }

    fn relimit(&mut self) {
        for slot in 0..self.flows.len() as u32 {
            if !self.flows[slot as usize].links.is_empty() {
                self.flows[slot as usize].limit = self.limit_of(slot);
                self.touch(slot);
            }
        }
    }

    fn repair(&mut self) {
        self.repair = self.repair.wrapping_add(1);
        let mut dirty = std::mem::take(&mut self.dirty);
        for link in dirty.drain(..) {
            let due = self.examine(link);
            let state = &mut self.links[link as usize];
            state.dirty = false;
            if !agree(state.level, due, self.tolerance) {
                let key = state.level.min(due);
                self.enqueue(link, key);
            }
        }
        self.dirty = dirty;
        let mut steps_left = MAX_STEPS * (self.links.len() + 64);
        while let Some(Reverse((bits, link))) = self.queue.pop() {
            let state = &mut self.links[link as usize];
            if state.key.to_bits() != bits {
                continue;
            }
            state.key = f64::NAN;
            if !state.fresh && !self.is_first(link) {
                continue;
            }
            self.adopt(link);
            steps_left -= 1;
            if steps_left == 0 {
                // Rounding has made two links disagree for ever: start from scratch.
                self.queue.clear();
                self.links.iter_mut().for_each(|l| l.key = f64::NAN);
                self.refill();
                return;
            }
        }
    }

    /// Examines a link just taken from the queue: true if it is still the first, false if it agrees by now or is queued again.
    fn is_first(&mut self, link: u32) -> bool {
        let due = self.examine(link);
        let level = self.links[link as usize].level;
        if agree(level, due, self.tolerance) {
            return false;
        }
        let key = level.min(due);
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

    /// Gives a link its due level, and notifies the other links of its flows.
    fn adopt(&mut self, link: u32) {
        let state = &mut self.links[link as usize];
        // With a tolerance the middle of what is allowed: as far from the next change upwards as downwards.
        let (old, due) = (state.level, state.due_or_slack * (1.0 - self.tolerance / 2.0));
        let mut new = due;
        if new > old {
            state.raises = if state.repair == self.repair { state.raises + 1 } else { 1 };
            state.repair = self.repair;
            if state.raises > RAISES {
                // Links that lift each other in turn: from infinity it can only come down, once and for all.
                new = f64::INFINITY;
            }
        }
        state.level = new;
        let members = std::mem::take(&mut state.members);
        self.warm(&members);
        for &slot in &members {
            self.relevel(slot, link, old, new);
        }
        let state = &mut self.links[link as usize];
        state.members = members;
        if new != due {
            self.enqueue(link, due);
        } else if new == f64::INFINITY {
            // What is left of it was not noted: the first change to come looks.
            state.due_or_slack = 0.0;
        } else if self.tolerance > 0.0 {
            self.take_stock(link);
        }
    }

    /// Reads what [`Levels::relevel`] is about to need. These short loops let the processor wait for many cache lines at once; in
    /// the work itself each wait would come after the other.
    fn warm(&self, members: &[u32]) {
        let of_flow = |sum: u32, &slot: &u32| sum ^ self.flows[slot as usize].limit.at;
        std::hint::black_box(members.iter().fold(0, of_flow));
        let links = members.iter().flat_map(|&slot| &self.flows[slot as usize].links);
        std::hint::black_box(links.fold(0, |sum, &link| sum ^ self.links[link as usize].held));
    }

    /// The level of a link on the flow's path has changed.
    fn relevel(&mut self, slot: u32, link: u32, old: f64, new: f64) {
        let before = self.flows[slot as usize].limit;
        let after = if before.at == link {
            if new <= before.next { Limit { low: new, ..before } } else { self.limit_of(slot) }
        } else if new < before.low {
            Limit { low: new, next: before.low, at: link }
        } else if new <= before.next {
            Limit { next: new, ..before }
        } else if old <= before.next {
            self.limit_of(slot)
        } else {
            return;
        };
        self.flows[slot as usize].limit = after;
        if before.low != after.low {
            self.touch(slot);
        } else if before.next == after.next {
            return;
        }
        for h in 0..self.flows[slot as usize].links.len() {
            let other = self.flows[slot as usize].links[h];
            let (was, is) = (before.without(other), after.without(other));
            if other != link && was != is {
                self.hear(other, was, is);
            }
        }
    }

    /// What its other links allow a member of this link has changed from `was` to `is`.
    fn hear(&mut self, link: u32, was: f64, is: f64) {
        let state = &mut self.links[link as usize];
        let queued = !state.key.is_nan();
        let lower = was.min(is);
        if !queued {
            if state.level == f64::INFINITY {
                // Most links are not full, and stay so. (Infinity less infinity is not above the margin either.)
                state.due_or_slack += was - is;
                if state.due_or_slack > SLACK * state.capacity {
                    return;
                }
            }
            if lower >= state.level {
                return;
            }
            if self.tolerance > 0.0 && state.level < f64::INFINITY {
                state.due_or_slack += was.min(state.level) - is.min(state.level);
                state.held = state.held + u32::from(is >= state.level) - u32::from(was >= state.level);
                let left = state.due_or_slack;
                if left >= -ROUNDING_OF_SUMS * state.capacity && left <= self.tolerance * state.level * f64::from(state.held) {
                    return;
                }
            }
            state.due_or_slack = state.level;
        } else if lower >= state.level.max(state.due_or_slack) {
            return;
        }
        // An estimate is enough: it decides when the link is looked at, not what it gets.
        let due = if state.due_or_slack == f64::INFINITY { was.max(is).min(MOST) } else { state.due_or_slack };
        state.due_or_slack = (due - (is.min(due) - was.min(due)) / f64::from(state.held.max(1))).max(0.0);
        state.fresh = false;
        let key = state.level.min(state.due_or_slack);
        if !queued || key < state.key {
            self.enqueue(link, key);
        }
    }
}

impl Link {
    fn new(capacity: f64) -> Self {
        Self {
            capacity,
            level: f64::INFINITY,
            due_or_slack: capacity,
            key: f64::NAN,
            members: Vec::new(),
            held: 0,
            repair: 0,
            raises: 0,
            fresh: false,
            dirty: false,
        }
    }
}

impl Limit {
    /// Of a path without links.
    const NONE: Self = Self { low: f64::INFINITY, next: f64::INFINITY, at: u32::MAX };

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

/// Whether a level is the one due but for rounding, or below it by no more than the tolerance.
fn agree(level: f64, due: f64, tolerance: f64) -> bool {
    level == due || (level - due).abs() <= ROUNDING * level.min(due) || (level < due && level >= due * (1.0 - tolerance))
}

struct Members<'a>(&'a Levels);

impl Incidence for Members<'_> {
    fn flow_count(&self) -> usize {
        self.0.flows.len()
    }

    fn links(&self, flow: u32) -> impl Iterator<Item = (u32, f64)> {
        self.0.flows[flow as usize].links.iter().map(|&link| (link, 1.0))
    }

    fn members(&self, link: u32) -> &[u32] {
        &self.0.links[link as usize].members
    }
}

/// Levels that differ by less, relatively, are the same.
const ROUNDING: f64 = 1e-13;
/// With a tolerance: what is left of a link is a sum of changes, and as precise as this fraction of its capacity.
const ROUNDING_OF_SUMS: f64 = 1e-10;
/// A link that is not full is looked at again when less than this part of its capacity seems left: far more than rounding can
/// have added up to.
const SLACK: f64 = 1e-6;
/// Stands for infinity where a difference is taken.
const MOST: f64 = 1e300;
/// A link whose level rose so often in a repair is lifted to infinity, to come down at its last level.
const RAISES: u8 = 3;
/// Repairs of more steps than this for each link start from scratch.
const MAX_STEPS: usize = 8;
/// More changes than this at one instant, and more than one flow in [`REFILL_SHARE`], are solved from scratch.
const REFILL_LEAST: usize = 32;
const REFILL_SHARE: usize = 32;
