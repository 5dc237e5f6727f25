//! Flows at max-min fair rates, event by event.
//!
//! [`levels`] repairs the rates when flows come and go; [`solver`] computes them from scratch; [`shares`] does so for flows that are spread
//! over several paths; [`first`] finds the flow that ends first. Between events rates are constant, so bytes grow linearly: a flow's bytes are booked only when its rate changes.

mod first;
mod levels;
mod link;
mod queue;
mod shares;
pub(crate) mod solver;
mod sum;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::sync::Arc;

use weft_fabric::time::PS_PER_S;
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{BitsPerSec, FlowId, Instant, LinkId};

use crate::world::{Ended, Limits, Look, Model};
use first::First;

pub(crate) use levels::Levels;
pub(crate) use shares::Shares;

/// Max-min fair rates of flows in slots, on links with capacities.
pub(crate) trait Sharing {
    /// Gives a link another capacity; the next number is a new link.
    fn set_capacity(&mut self, link: u32, capacity: f64);
    /// Puts a flow on its links, each with its share of the rate; the slot must be free.
    fn join(&mut self, slot: u32, links: impl Iterator<Item = (u32, f64)>);
    /// Takes a flow off its links; the slot is free then.
    fn leave(&mut self, slot: u32);
    /// Makes the rates fair again. Returns the flows whose rate may have changed, in a list to [`Sharing::recycle`].
    fn settle(&mut self) -> Vec<u32>;
    /// The rate of a flow on some link.
    fn rate(&self, slot: u32) -> f64;
    /// Takes the list back for reuse.
    fn recycle(&mut self, touched: Vec<u32>);
}

/// The model. Flows under way have slots, which are used again.
#[derive(Debug)]
pub(crate) struct MaxMin<S> {
    now: Instant,
    fabric: Arc<Fabric>,
    levels: S,
    limits: Limits,
    ends: First,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By flow: its slot.
    slot_of: Vec<u32>,
    /// Flows under way that move and are finite.
    ending: usize,
    /// Sum of the rates, and of the bytes delivered until `now`.
    rate_bps: f64,
    total: f64,
    /// Bytes of flows that have ended.
    ended_bytes: u64,
    until_recount: usize,
    work: u64,
}

/// A cache line each.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    id: FlowId,
    on_path: bool,
    /// Bytes until `since`.
    done: f64,
    /// Bytes in all; infinite if it does not end.
    size: f64,
    rate_bps: f64,
    since: Instant,
}

impl<S: Sharing> MaxMin<S> {
    /// Nothing yet; `levels` has the links of the fabric.
    pub fn new(fabric: Arc<Fabric>, levels: S) -> Self {
        Self {
            now: Instant::ZERO,
            levels,
            fabric,
            limits: Limits::default(),
            ends: First::default(),
            slots: Vec::new(),
            free: Vec::new(),
            slot_of: Vec::new(),
            ending: 0,
            rate_bps: 0.0,
            total: 0.0,
            ended_bytes: 0,
            until_recount: 0,
            work: 0,
        }
    }

    fn slot(&self, id: FlowId) -> &Slot {
        &self.slots[self.slot_of[id.index()] as usize]
    }

    /// Takes a flow off the links that it is on, and puts it on others; `None`: it stands still.
    fn put(&mut self, id: FlowId, links: Option<impl Iterator<Item = (u32, f64)>>) {
        let slot = self.slot_of[id.index()];
        let flow = &mut self.slots[slot as usize];
        let finite = flow.size < f64::INFINITY;
        if std::mem::replace(&mut flow.on_path, links.is_some()) {
            self.levels.leave(slot);
            self.ending -= usize::from(finite);
        }
        match links {
            None => self.set_rate(slot, 0.0),
            Some(links) => {
                self.levels.join(slot, links);
                self.ending += usize::from(finite);
            }
        }
    }

    fn set_rate(&mut self, slot: u32, rate_bps: f64) {
        let flow = &mut self.slots[slot as usize];
        if flow.rate_bps == rate_bps {
            return;
        }
        self.work += 1;
        flow.done = flow.done_at(self.now);
        flow.since = self.now;
        self.rate_bps += rate_bps - flow.rate_bps;
        flow.rate_bps = rate_bps;
        self.ends.set(slot, flow.end().as_ps());
    }

    /// Reads what [`MaxMin::set_rate`] is about to need, so that the processor waits for many cache lines at once.
    fn warm(&self, slots: &[u32]) {
        let of_slot = |sum: u64, &slot: &u32| sum ^ u64::from(self.slots[slot as usize].id.0) ^ self.ends.of(slot);
        black_box(slots.iter().fold(0, of_slot));
    }

    /// Rounding adds up in the two sums; from time to time they are recomputed.
    fn recount(&mut self) {
        self.until_recount = self.until_recount.saturating_sub(1);
        if self.until_recount > 0 {
            return;
        }
        let live = || self.slots.iter().filter(|s| s.id != NOBODY);
        self.rate_bps = live().map(|s| s.rate_bps).sum();
        self.total = self.ended_bytes as f64 + live().map(|s| s.done_at(self.now)).sum::<f64>();
        self.until_recount = self.slots.len().max(RECOUNT_LEAST);
    }
}

impl<S: Sharing> Model for MaxMin<S> {
    fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        let size = match spec.size {
            Size::Finite(bytes) => bytes.0 as f64,
            Size::Infinite => f64::INFINITY,
        };
        let flow = Slot { id, on_path: false, done: 0.0, size, rate_bps: 0.0, since: self.now };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(flow);
        } else {
            self.slots[slot as usize] = flow;
        }
        if id.index() >= self.slot_of.len() {
            self.slot_of.resize(id.index() + 1, u32::MAX);
        }
        self.slot_of[id.index()] = slot;
    }

    fn set_path(&mut self, id: FlowId, _: u32, path: &[LinkId]) {
        // A limit is one more link, which only the flows of its path cross.
        let first = self.fabric.links().len() as u32;
        let limits = self.limits.on(&self.fabric, path);
        let limits = limits.iter().map(|l| first + l.number);
        self.put(id, (!path.is_empty()).then(|| path.iter().map(|l| l.0).chain(limits).map(|link| (link, 1.0))));
    }

    fn set_shares(&mut self, id: FlowId, shares: &[(LinkId, f64)]) {
        self.put(id, (!shares.is_empty()).then(|| shares.iter().map(|&(link, share)| (link.0, share))));
    }

    fn set_limit(&mut self, links: &[LinkId], rate: BitsPerSec) {
        let link = self.fabric.links().len() as u32 + self.limits.number(links);
        self.levels.set_capacity(link, rate.as_f64());
    }

    fn settle(&mut self) {
        let touched = self.levels.settle();
        for some in touched.chunks(AT_ONCE) {
            self.warm(some);
            for &slot in some {
                if self.slots[slot as usize].on_path {
                    self.set_rate(slot, self.levels.rate(slot));
                }
            }
        }
        self.levels.recycle(touched);
        self.recount();
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>, _: Look<'_>) -> Instant {
        let (first, _) = self.ends.earliest();
        let to = until.min(Instant::from_ps(first));
        self.total += self.rate_bps / 8.0 * (to - self.now).as_secs_f64();
        self.now = to;
        let before = ended.len();
        while let (at, slot) = self.ends.earliest()
            && at != u64::MAX
            && at <= to.as_ps()
        {
            let flow = &mut self.slots[slot as usize];
            ended.push(Ended { id: flow.id, at: to });
            self.ended_bytes += flow.size as u64;
            self.rate_bps -= flow.rate_bps;
            self.slot_of[flow.id.index()] = u32::MAX;
            *flow = Slot { id: NOBODY, on_path: false, rate_bps: 0.0, ..*flow };
            self.levels.leave(slot);
            self.ends.set(slot, u64::MAX);
            self.free.push(slot);
            self.ending -= 1;
        }
        ended[before..].sort_unstable_by_key(|e| e.id);
        to
    }

    fn will_end(&self) -> bool {
        self.ending > 0
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        self.slot(id).done_at(self.now) as u64
    }

    fn delivered_total(&self) -> f64 {
        self.total
    }

    fn work(&self) -> u64 {
        self.work
    }
}

impl Slot {
    fn done_at(&self, now: Instant) -> f64 {
        (self.done + self.rate_bps / 8.0 * (now - self.since).as_secs_f64()).min(self.size)
    }

    /// When the last byte is delivered at the present rate, rounded up to the picosecond.
    fn end(&self) -> Instant {
        let ps = (self.size - self.done) * 8.0 / self.rate_bps * PS_PER_S as f64;
        // The cast saturates; no rate at all is "never" (0 / 0 cannot be: a flow with nothing left has ended).
        let whole = ps as u64;
        let up = u64::from((whole as f64) < ps);
        self.since.saturating_add(weft_fabric::Duration::from_ps(whole.saturating_add(up)))
    }
}

/// Marks a free slot.
const NOBODY: FlowId = FlowId(u32::MAX);
/// Flows whose state is fetched at once.
const AT_ONCE: usize = 32;
/// Minimum number of changes between two recounts.
const RECOUNT_LEAST: usize = 1_024;
