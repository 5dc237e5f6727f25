//! Max-min fair rates that are repaired when flows come and go.
//!
//! Every link has a **level**: the rate that it allows each of its flows, and infinity if they do not fill it. The link with the lowest level
//! on a flow's path **holds** the flow, whose rate is this level. Levels are the max-min fair ones if every link that holds flows is full: its level is
//!
//! ```text
//!   (capacity - rates of the flows that other links hold) / number of flows that it holds
//! ```
//! A link keeps the upper part of this fraction, the capacity that is free for the flows that it holds, up to date whenever the rate of one of the others
//! changes. So it knows at once whether its level is still right, without a look at its flows:
//!
//! ```text
//!   a flow leaves:   its links get other levels -> the flows that they hold other rates -> the other links of those get other levels ...
//! ```
//! A link's level depends only on levels below it. So changes are worked off in ascending order, as in dynamic shortest paths
//! (Ramalingam and Reps 1996): take the link whose old or due level is the lowest of all that disagree; nothing that happens later
//! reaches down to it. A link visits only the flows that it holds, or begins to hold: it begins when its level falls below their rates, and ends when it
//! rises above the level of another link on their path.
//!
//! Free capacity is a [`Sum`] of twice the precision of a float, so errors do not add up over a run: levels agree with each other to [`ROUNDING`](super::link::ROUNDING) whatever
//! happened before.
//!
//! With a **tolerance** a level may lag behind what is due, and is never above it, so no link is overfilled: most changes end at the links where
//! they begin.

use std::hint::black_box;

use smallvec::SmallVec;

use crate::flow::maxmin::Sharing;
use crate::flow::maxmin::link::{Link, Rest, agree, water_level};
use crate::flow::maxmin::queue::{Entry, Queue};
use crate::flow::maxmin::solver::{Filled, Incidence, fill};
use crate::flow::maxmin::sum::Change;

/// Flows by slot, links by id. A flow is a cache line, and a link half a line: a repair jumps from one to the next.
#[derive(Debug)]
pub(crate) struct Levels {
    links: Vec<Link>,
    rests: Vec<Rest>,
    /// By link: the key under which it is queued, rounded; NaN if it is not.
    keys: Vec<f32>,
    /// By link: its flows, those that it holds first.
    members: Vec<Vec<u32>>,
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
    queue: Queue,
    /// Counts repairs, to detect stale [`Link::raises`].
    repair: u16,
    /// The fraction by which a level may be below what is due; 0: exact.
    tolerance: f64,
    /// Limits of flows, for [`water_level`].
    limits: Vec<f64>,
}

/// A flow's path and rate.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    rate: f64,
    /// The link that holds it: none on its path has a lower level.
    holder: u32,
    touched: bool,
    links: SmallVec<[u32; 6]>,
}

impl Levels {
    /// Levels of idle links, exact or with a tolerance (a fraction below 1).
    pub fn new(capacities: impl Iterator<Item = f64>, tolerance: f64) -> Self {
        let rests: Vec<Rest> = capacities.map(Rest::new).collect();
        Self {
            keys: vec![f32::NAN; rests.len()],
            members: vec![Vec::new(); rests.len()],
            links: rests.iter().map(|rest| Link::new(rest.capacity)).collect(),
            rests,
            flows: Vec::new(),
            places: Vec::new(),
            count: 0,
            dirty: Vec::new(),
            changes: 0,
            touched: Vec::new(),
            queue: Queue::default(),
            repair: 0,
            tolerance,
            limits: Vec::new(),
        }
    }
}

/// A flow's rate is whole on each of its links.
impl Sharing for Levels {
    fn set_capacity(&mut self, link: u32, capacity: f64) {
        match self.rests.get_mut(link as usize) {
            Some(known) if known.capacity == capacity => {}
            Some(known) => {
                self.links[link as usize].free.add(Change::new(capacity, known.capacity));
                known.capacity = capacity;
                self.soil(link);
            }
            None => {
                self.rests.push(Rest::new(capacity));
                self.keys.push(f32::NAN);
                self.links.push(Link::new(capacity));
                self.members.push(Vec::new());
            }
        }
    }

    fn join(&mut self, slot: u32, path: impl Iterator<Item = (u32, f64)>) {
        let s = slot as usize;
        if s >= self.flows.len() {
            let free = Flow { rate: f64::INFINITY, holder: u32::MAX, touched: false, links: SmallVec::new() };
            self.flows.resize(s + 1, free);
            self.places.resize(s + 1, SmallVec::new());
        }
        debug_assert!(self.flows[s].links.is_empty());
        self.flows[s].rate = f64::INFINITY;
        for (link, share) in path {
            debug_assert!(share == 1.0, "its rate is whole");
            let members = &mut self.members[link as usize];
            self.flows[s].links.push(link);
            self.places[s].push(members.len() as u32);
            members.push(slot);
            self.soil(link);
        }
        self.first_rate(slot);
        self.touch(slot);
        self.count += 1;
        self.changes += 1;
    }

    fn leave(&mut self, slot: u32) {
        let Flow { rate, holder, .. } = self.flows[slot as usize];
        for hop in 0..self.flows[slot as usize].links.len() {
            let link = self.flows[slot as usize].links[hop];
            if link == holder {
                self.release(slot, hop);
            } else {
                self.links[link as usize].note(Change::new(0.0, rate), 0.0);
            }
            let last = self.members[link as usize].len() as u32 - 1;
            self.swap(slot, hop, last);
            self.members[link as usize].pop();
            self.soil(link);
        }
        self.flows[slot as usize].links = SmallVec::new();
        self.places[slot as usize] = SmallVec::new();
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
        self.flows[slot as usize].rate
    }

    fn recycle(&mut self, mut touched: Vec<u32>) {
        touched.clear();
        self.touched = touched;
    }
}

/// Which link holds which flow.
impl Levels {
    fn soil(&mut self, link: u32) {
        if !std::mem::replace(&mut self.rests[link as usize].dirty, true) {
            self.dirty.push(link);
        }
    }

    fn touch(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.flows[slot as usize].touched, true) {
            self.touched.push(slot);
        }
    }

    /// Moves a flow to another place among the members of a link on its path, and the flow that is there to the flow's own.
    fn swap(&mut self, slot: u32, hop: usize, to: u32) {
        let from = std::mem::replace(&mut self.places[slot as usize][hop], to);
        if from != to {
            let link = self.flows[slot as usize].links[hop];
            let members = &mut self.members[link as usize];
            members.swap(from as usize, to as usize);
            let other = members[from as usize];
            let hop = self.flows[other as usize].links.iter().position(|&l| l == link).expect("members cross the link");
            self.places[other as usize][hop] = from;
        }
    }

    /// From now on the link holds the flow.
    fn hold(&mut self, slot: u32, hop: usize) {
        let link = self.flows[slot as usize].links[hop];
        let held = self.links[link as usize].held;
        self.swap(slot, hop, held);
        self.links[link as usize].held = held + 1;
    }

    /// From now on the link does not hold the flow.
    fn release(&mut self, slot: u32, hop: usize) {
        let link = self.flows[slot as usize].links[hop];
        let held = self.links[link as usize].held - 1;
        self.swap(slot, hop, held);
        self.links[link as usize].held = held;
    }

    /// The link of the lowest level on a flow's path, apart from one, and this level; infinity if there is none.
    fn lowest(&self, slot: u32, apart_from: u32) -> (f64, u32) {
        let mut lowest = (f64::INFINITY, u32::MAX);
        for &link in &self.flows[slot as usize].links {
            let level = self.links[link as usize].level;
            if level < lowest.0 && link != apart_from {
                lowest = (level, link);
            }
        }
        lowest
    }

    /// Gives a flow that has just joined its links a rate and a holder.
    fn first_rate(&mut self, slot: u32) {
        let (mut level, mut holder) = self.lowest(slot, u32::MAX);
        if level == f64::INFINITY {
            // No link holds any flow. One that is given a level above the rates of all of its flows may hold this one.
            let Some(&first) = self.flows[slot as usize].links.first() else { return };
            let state = &mut self.links[first as usize];
            level = state.free.value().max(f64::from(state.peak));
            state.level = level;
            holder = first;
        }
        self.place(slot, holder, level);
    }

    /// Adds a flow that has no holder so far to the books of its links.
    fn place(&mut self, slot: u32, holder: u32, rate: f64) {
        for hop in 0..self.flows[slot as usize].links.len() {
            let link = self.flows[slot as usize].links[hop];
            if link == holder {
                self.hold(slot, hop);
            } else {
                self.links[link as usize].note(Change::new(rate, 0.0), rate);
            }
        }
        let flow = &mut self.flows[slot as usize];
        (flow.rate, flow.holder) = (rate, holder);
    }

    /// Gives a flow another rate and holder, because a link has another level.
    fn hand_over(&mut self, slot: u32, rate: f64, holder: u32, because_of: u32) {
        let flow = &mut self.flows[slot as usize];
        let (was, from) = (flow.rate, flow.holder);
        (flow.rate, flow.holder) = (rate, holder);
        self.touch(slot);
        let change = Change::new(rate, was);
        for hop in 0..self.flows[slot as usize].links.len() {
            let link = self.flows[slot as usize].links[hop];
            if link == from {
                self.release(slot, hop);
                self.links[link as usize].note(Change::new(rate, 0.0), rate);
            } else if link == holder {
                self.hold(slot, hop);
                self.links[link as usize].note(Change::new(0.0, was), 0.0);
            } else {
                self.links[link as usize].note(change, rate);
            }
            if link != because_of {
                self.check(link);
            }
        }
    }
}

/// The repair.
impl Levels {
    fn refill(&mut self) {
        let capacities: Vec<f64> = self.rests.iter().map(|rest| rest.capacity).collect();
        let Filled { levels, .. } = fill(&Members(self), &capacities);
        for (number, level) in levels.into_iter().enumerate() {
            self.links[number] = Link { level, ..Link::new(capacities[number]) };
            self.rests[number] = Rest::new(capacities[number]);
            self.keys[number] = f32::NAN;
        }
        self.dirty.clear();
        for slot in 0..self.flows.len() as u32 {
            if !self.flows[slot as usize].links.is_empty() {
                let (level, holder) = self.lowest(slot, u32::MAX);
                self.place(slot, holder, level);
                self.touch(slot);
            }
        }
    }

    fn repair(&mut self) {
        self.repair = self.repair.wrapping_add(1);
        let mut dirty = std::mem::take(&mut self.dirty);
        for link in dirty.drain(..) {
            self.rests[link as usize].dirty = false;
            self.check(link);
        }
        self.dirty = dirty;
        let mut steps_left = MAX_STEPS * (self.links.len() + 64);
        loop {
            self.warm();
            let Some((bits, link)) = self.queue.pop() else { return };
            let key = &mut self.keys[link as usize];
            if key.to_bits() != bits {
                continue;
            }
            *key = f32::NAN;
            let Some(due) = self.first_due(link) else { continue };
            self.adopt(link, due);
            steps_left -= 1;
            if steps_left == 0 {
                // Rounding has made two links disagree for ever: start from scratch.
                self.queue.clear();
                self.refill();
                return;
            }
        }
    }

    /// Reads what the next links of the queue are about to need. These short loops let the processor wait for many cache lines at once; in
    /// the work itself each wait would come after the other.
    fn warm(&mut self) {
        let next = self.queue.advance();
        let held = |&(_, link): &Entry| &self.members[link as usize][..self.links[link as usize].held as usize];
        let mut sum = 0;
        for members in next.iter().map(held) {
            sum ^= members.first().copied().unwrap_or(0);
        }
        for &slot in next.iter().flat_map(held) {
            sum ^= self.flows[slot as usize].holder;
        }
        for entry in next {
            for &slot in held(entry) {
                for &link in &self.flows[slot as usize].links {
                    sum ^= self.links[link as usize].held;
                }
            }
        }
        black_box(sum);
    }

    /// Queues a link if its level is not right, and not queued with as low a key.
    fn check(&mut self, link: u32) {
        if let Some(key) = self.links[link as usize].wants(self.tolerance, &self.rests[link as usize]) {
            let queued = self.keys[link as usize];
            if queued.is_nan() || (key as f32) < queued {
                self.enqueue(link, key);
            }
        }
    }

    fn enqueue(&mut self, link: u32, key: f64) {
        let key = key as f32;
        self.keys[link as usize] = key;
        self.queue.push((key.to_bits(), link));
    }

    fn is_after_next(&self, key: f64) -> bool {
        self.queue.peek().is_some_and(|(next, _)| (key as f32).to_bits() > next)
    }

    /// The due level of a link just taken from the queue; `None` if its level is right by now, or it is queued again because others come first.
    fn first_due(&mut self, link: u32) -> Option<f64> {
        let key = self.links[link as usize].wants(self.tolerance, &self.rests[link as usize])?;
        if self.is_after_next(key) {
            self.enqueue(link, key);
            return None;
        }
        let due = self.due(link);
        let level = self.links[link as usize].level;
        if agree(level, due, self.tolerance) {
            return None;
        }
        let key = level.min(due);
        if self.is_after_next(key) {
            self.enqueue(link, key);
            return None;
        }
        Some(due)
    }

    /// Computes the level at which the flows of a link fill it, as far as other links let them.
    fn due(&mut self, link: u32) -> f64 {
        let mut limits = std::mem::take(&mut self.limits);
        limits.clear();
        let state = &self.links[link as usize];
        let level = if state.rises(&self.rests[link as usize]) {
            let held = &self.members[link as usize][..state.held as usize];
            limits.extend(held.iter().map(|&slot| self.lowest(slot, link).0));
            water_level(&mut limits, 0, state.free)
        } else {
            self.due_below(link, &mut limits)
        };
        self.limits = limits;
        level
    }

    /// The due level of a link with too high a level. Of the flows that it does not hold, those that are faster get it as well.
    fn due_below(&mut self, link: u32, limits: &mut Vec<f64>) -> f64 {
        let state = &mut self.links[link as usize];
        let mut free = state.free;
        let share = if state.held > 0 { free.value() / f64::from(state.held) } else { 0.0 };
        if f64::from(state.peak) > share {
            state.peak = 0.0;
            for &slot in &self.members[link as usize][state.held as usize..] {
                let rate = self.flows[slot as usize].rate;
                state.raise_peak(rate);
                if rate > share {
                    limits.push(rate);
                    free.add(Change::new(rate, 0.0));
                }
            }
        }
        water_level(limits, state.held as usize, free)
    }

    /// Gives a link its due level, and its flows their rates.
    fn adopt(&mut self, link: u32, due: f64) {
        let tolerance = self.tolerance;
        let state = &self.links[link as usize];
        // With a tolerance the middle of what is allowed: as far from the next change upwards as downwards.
        let (old, due) = (state.level, due * (1.0 - tolerance / 2.0));
        if due < old {
            self.fall(link, old, due);
            return;
        }
        let rest = &mut self.rests[link as usize];
        rest.raises = if rest.repair == self.repair { rest.raises.saturating_add(1) } else { 1 };
        rest.repair = self.repair;
        if rest.raises <= RAISES || due == f64::INFINITY {
            self.rise(link, old, due);
        } else {
            // Links that lift each other in turn: from its capacity it can only come down, once and for all.
            let top = rest.capacity.max(old);
            self.rise(link, old, top);
            self.enqueue(link, due.min(top));
        }
    }

    /// A link gets a lower level, and holds also the flows that are faster.
    fn fall(&mut self, link: u32, old: f64, new: f64) {
        let Link { held, peak, .. } = self.links[link as usize];
        self.links[link as usize].level = new;
        let change = Change::new(new, old);
        for place in 0..held as usize {
            let slot = self.members[link as usize][place];
            self.set_rate(slot, link, new, change);
        }
        if f64::from(peak) <= new {
            return;
        }
        for place in held as usize..self.members[link as usize].len() {
            let slot = self.members[link as usize][place];
            if self.flows[slot as usize].rate > new {
                self.hand_over(slot, new, link, link);
            }
        }
        self.links[link as usize].peak = 0.0;
        self.links[link as usize].raise_peak(new);
    }

    /// A link gets a higher level. Flows that have a lower level on their path are held there from now on.
    fn rise(&mut self, link: u32, old: f64, new: f64) {
        self.links[link as usize].level = new;
        let change = Change::new(new, old);
        for place in (0..self.links[link as usize].held as usize).rev() {
            let slot = self.members[link as usize][place];
            let (level, holder) = self.lowest(slot, link);
            if level < new {
                self.hand_over(slot, level, holder, link);
            } else {
                self.set_rate(slot, link, new, change);
            }
        }
    }

    /// Gives a flow the new rate of the link that holds it.
    fn set_rate(&mut self, slot: u32, holder: u32, rate: f64, change: Change) {
        self.touch(slot);
        self.flows[slot as usize].rate = rate;
        for hop in 0..self.flows[slot as usize].links.len() {
            let other = self.flows[slot as usize].links[hop];
            if other != holder {
                self.links[other as usize].note(change, rate);
                self.check(other);
            }
        }
    }
}

#[cfg(test)]
impl Levels {
    /// Compares what links and flows keep with what the levels say; panics if they differ.
    pub fn audit(&self) {
        for (number, link) in (0u32..).zip(&self.links) {
            let members = &self.members[number as usize];
            let (held, others) = members.split_at(link.held as usize);
            let flow = |slot: &u32| &self.flows[*slot as usize];
            assert!(held.iter().all(|slot| flow(slot).holder == number && flow(slot).rate == link.level));
            assert!(
                others.iter().all(|slot| flow(slot).holder != number && flow(slot).rate <= link.level.min(f64::from(link.peak)))
            );
            let capacity = self.rests[number as usize].capacity;
            let free = capacity - others.iter().map(|slot| flow(slot).rate).sum::<f64>();
            // A capacity may have been far higher before: what a sum keeps is precise to 1e-30 of the highest.
            assert!((link.free.value() - free).abs() <= 1e-13 * capacity + 1e-18, "{} {free}", link.free.value());
            for (place, &slot) in members.iter().enumerate() {
                let hop = flow(&slot).links.iter().position(|&l| l == number).expect("members cross the link");
                assert_eq!(self.places[slot as usize][hop], place as u32);
            }
        }
    }
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
        &self.0.members[link as usize]
    }
}

/// A link whose level rose so often in a repair is lifted to its capacity, to come down at its last level.
const RAISES: u8 = 3;
/// Repairs of more steps than this for each link start from scratch.
const MAX_STEPS: usize = 8;
/// More changes than this at one instant, and more than one flow in [`REFILL_SHARE`], are solved from scratch.
const REFILL_LEAST: usize = 32;
const REFILL_SHARE: usize = 32;
