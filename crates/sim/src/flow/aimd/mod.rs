//! Flows that probe for bandwidth in ticks of one round trip (Hedera section 5.5).
//!
//! Each tick visits the flows in a new random order. A flow whose path has a full link halves its rate, and leaves slow start for
//! good; any other doubles its rate (slow start) or adds a constant (congestion avoidance), but takes no more than is free on its
//! path. Then its rate holds until the end of the tick. A flow alone on NICs of 1 Gbps sends 62.5, 77.5, 92.5, 107.5, 122.5, 125 MB/s
//! in turn: 78 % of the NIC.

mod lanes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weft_fabric::rng::{Stream, stream};
use weft_fabric::time::PS_PER_S;
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{BitsPerSec, Duration, FlowId, Instant, LinkId};

use crate::flow::AimdParams;
use crate::world::{Ended, Limits, Look, Model};
use lanes::{Draws, Entry, Lanes, MOST, SPARE, Step, TABLE_LEAST, lanes};

/// The model. A flow has a slot; when it moves it also has a place in the lanes.
pub(crate) struct Aimd {
    now: Instant,
    tick: Duration,
    units: Units,
    step: Step,
    random: Draws,
    lanes: Box<dyn Lanes>,
    fabric: Arc<Fabric>,
    limits: Limits,
    /// What each limit allows, in quanta.
    limited: Vec<i32>,
    /// What is left of each link, in quanta, then the link that nobody fills, then what is left of each limit.
    residuals: Vec<i32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    slot_of: Vec<u32>,
    /// By slot: its place in the lanes. Outdated after a pass.
    place_of: Vec<u32>,
    places_known: bool,
    /// Slots with a new path, which begin at [`Model::settle`].
    joining: Vec<u32>,
    /// Finite flows in the lanes or joining.
    ending: usize,
    finished: Vec<u32>,
    /// Quanta x ticks delivered by all flows.
    total: u128,
    work: u64,
    /// `work` at the last look.
    looked: u64,
}

/// What the lanes need not know of a flow, and all of it while it stands still.
#[derive(Clone, Debug)]
struct Slot {
    id: FlowId,
    size: Size,
    /// `left` at the beginning.
    whole: i64,
    entry: Entry,
    /// When it was taken out of the lanes: on a new path at the same instant it keeps what rate it can.
    left_lanes: Instant,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Still,
    Joining,
    Moving,
}

/// How rates and bytes are counted.
#[derive(Clone, Copy, Debug)]
struct Units {
    /// Bytes per second in a quantum of rate: a power of two, 1 up to 4.3 Gbps.
    quantum: u64,
    tick_ps: u64,
}

impl Aimd {
    pub fn new(fabric: Arc<Fabric>, params: AimdParams, seed: u64) -> Self {
        let links = fabric.links();
        let most = links.iter().map(|l| l.capacity.0 / 8).max().unwrap_or(0);
        let quantum = most.div_ceil(MOST as u64).next_power_of_two();
        let tick = Duration::from_ps(params.tick.as_ps().max(1));
        let units = Units { quantum, tick_ps: tick.as_ps() };
        let mut residuals: Vec<i32> = links.iter().map(|l| (l.capacity.0 / 8 / quantum) as i32).collect();
        residuals.push(SPARE);
        residuals.resize(residuals.len().max(TABLE_LEAST), 0);
        Self {
            now: Instant::ZERO,
            tick,
            units,
            step: Step { increase: units.quanta(params.increase_bytes_per_s), initial: units.quanta(params.initial_bytes_per_s) },
            random: Draws::new(stream(seed, Stream::Aimd)),
            lanes: lanes(2, links.len(), 0),
            fabric,
            limits: Limits::default(),
            limited: Vec::new(),
            residuals,
            slots: Vec::new(),
            free: Vec::new(),
            slot_of: Vec::new(),
            place_of: Vec::new(),
            places_known: true,
            joining: Vec::new(),
            ending: 0,
            finished: Vec::new(),
            total: 0,
            work: 0,
            looked: 0,
        }
    }

    fn find_places(&mut self) {
        if std::mem::replace(&mut self.places_known, true) {
            return;
        }
        self.place_of.resize(self.slots.len(), u32::MAX);
        for place in 0..self.lanes.len() {
            self.place_of[self.lanes.slot(place) as usize] = place as u32;
        }
    }

    /// Puts a flow into the lanes.
    fn enter(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.state = State::Moving;
        let entry = &mut state.entry;
        // Less than nothing is free below a limit that has become lower.
        let free = entry.links.iter().map(|&l| self.residuals[l as usize]).min().unwrap_or(0).max(0);
        if state.left_lanes == self.now {
            entry.rate = entry.rate.min(free);
        } else {
            (entry.rate, entry.slow_start) = (0, true);
        }
        for &link in &entry.links {
            self.residuals[link as usize] -= entry.rate;
        }
        if entry.links.len() > self.lanes.width() {
            let width = entry.links.len();
            self.rebuild_lanes(width);
        }
        if self.places_known {
            self.place_of.resize(self.slots.len(), u32::MAX);
            self.place_of[slot as usize] = self.lanes.len() as u32;
        }
        self.lanes.push(&self.slots[slot as usize].entry);
    }

    fn rebuild_lanes(&mut self, width: usize) {
        let mut wider = lanes(width, self.fabric.links().len(), self.limited.len());
        (0..self.lanes.len()).for_each(|place| wider.push(&self.lanes.get(place)));
        self.lanes = wider;
    }

    /// The place of a limit among the residuals.
    fn residual_of(&self, limit: u32) -> u32 {
        self.fabric.links().len() as u32 + 1 + limit
    }

    /// Takes the flow at a place out of the lanes, and frees its bandwidth.
    fn take(&mut self, place: usize) -> u32 {
        let entry = self.lanes.get(place);
        let slot = entry.slot;
        for &link in &entry.links {
            self.residuals[link as usize] += entry.rate;
        }
        self.lanes.swap_remove(place);
        if self.places_known && place < self.lanes.len() {
            self.place_of[self.lanes.slot(place) as usize] = place as u32;
        }
        let state = &mut self.slots[slot as usize];
        state.entry = entry;
        state.left_lanes = self.now;
        state.state = State::Still;
        slot
    }

    fn pass(&mut self, ended: &mut Vec<Ended>) {
        let mut finished = std::mem::take(&mut self.finished);
        let rates = self.lanes.pass(&mut self.residuals, self.step, &mut self.random, &mut finished);
        self.work += self.lanes.len() as u64;
        self.total += u128::from(rates);
        self.places_known = false;
        let began = self.now;
        self.now += self.tick;
        // From the last place on, so that places stay what they are.
        for place in finished.drain(..).rev() {
            let slot = self.take(place as usize);
            let flow = &mut self.slots[slot as usize];
            self.total -= u128::from(flow.entry.left.unsigned_abs());
            let before = (flow.entry.left + i64::from(flow.entry.rate)) as u128;
            let ps = (before * u128::from(self.units.tick_ps)).div_ceil(flow.entry.rate as u128);
            ended.push(Ended { id: flow.id, at: began + Duration::from_ps(ps as u64) });
            self.slot_of[flow.id.index()] = u32::MAX;
            self.free.push(slot);
            self.ending -= 1;
        }
        self.finished = finished;
    }
}

impl Model for Aimd {
    fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        let whole = match spec.size {
            Size::Finite(bytes) => self.units.of_bytes(bytes.0),
            Size::Infinite => FOR_EVER,
        };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let entry = Entry { slot, left: whole, rate: 0, slow_start: true, links: Default::default() };
        let flow = Slot { id, size: spec.size, whole, entry, left_lanes: Instant::MAX, state: State::Still };
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
        let slot = self.slot_of[id.index()];
        let finite = self.slots[slot as usize].size != Size::Infinite;
        match self.slots[slot as usize].state {
            State::Still => {}
            State::Joining => {
                self.joining.retain(|&s| s != slot);
                self.slots[slot as usize].state = State::Still;
                self.ending -= usize::from(finite);
            }
            State::Moving => {
                self.find_places();
                self.take(self.place_of[slot as usize] as usize);
                self.ending -= usize::from(finite);
            }
        }
        if !path.is_empty() {
            let limits = self.limits.on(&self.fabric, path);
            let first = self.residual_of(0);
            let limits = limits.iter().map(|l| first + l.number);
            let flow = &mut self.slots[slot as usize];
            flow.entry.links = path.iter().map(|l| l.0).chain(limits).collect();
            flow.state = State::Joining;
            self.joining.push(slot);
            self.ending += usize::from(finite);
        }
    }

    fn set_limit(&mut self, links: &[LinkId], rate: BitsPerSec) {
        let (number, links) = (self.limits.number(links), self.fabric.links().len());
        let (limit, place) = (self.units.quanta(rate.0 / 8), self.residual_of(number) as usize);
        if number as usize == self.limited.len() {
            self.limited.push(0);
            self.residuals.resize(self.residuals.len().max(place + 1), 0);
            if links + self.limited.len() == usize::from(u16::MAX) {
                // Numbers no longer fit in the narrow lanes.
                self.rebuild_lanes(self.lanes.width());
            }
        }
        self.residuals[place] += limit - std::mem::replace(&mut self.limited[number as usize], limit);
    }

    fn settle(&mut self) {
        let joining = std::mem::take(&mut self.joining);
        for &slot in &joining {
            self.enter(slot);
        }
        self.joining = joining;
        self.joining.clear();
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>, look: Look<'_>) -> Instant {
        let before = ended.len();
        while self.now < until && ended.len() == before {
            if self.lanes.len() == 0 {
                let ticks = (until - self.now).as_ps().div_ceil(self.units.tick_ps);
                self.now = self.now.saturating_add(self.tick * ticks);
                break;
            }
            self.pass(ended);
            if self.work - self.looked >= LOOK_EVERY {
                self.looked = self.work;
                look(self.now, self.work);
            }
        }
        ended[before..].sort_unstable_by_key(|e| (e.at, e.id));
        self.now
    }

    fn will_end(&self) -> bool {
        self.ending > 0
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        let slot = self.slot_of[id.index()] as usize;
        let left = if self.slots[slot].state == State::Moving {
            self.find_places();
            self.lanes.left(self.place_of[slot] as usize)
        } else {
            self.slots[slot].entry.left
        };
        let bytes = self.units.to_bytes((self.slots[slot].whole - left) as u128);
        match self.slots[slot].size {
            Size::Finite(size) => bytes.min(size.0),
            Size::Infinite => bytes,
        }
    }

    fn delivered_total(&self) -> f64 {
        self.total as f64 * self.units.quantum as f64 * self.units.tick_ps as f64 / PS_PER_S as f64
    }

    fn work(&self) -> u64 {
        self.work
    }
}

impl Units {
    /// A rate.
    fn quanta(self, bytes_per_s: u64) -> i32 {
        (bytes_per_s / self.quantum).clamp(1, MOST as u64) as i32
    }

    /// Quanta x ticks that deliver so many bytes, rounded up.
    fn of_bytes(self, bytes: u64) -> i64 {
        let exact = (u128::from(bytes) * u128::from(PS_PER_S)).div_ceil(u128::from(self.quantum) * u128::from(self.tick_ps));
        i64::try_from(exact).unwrap_or(FOR_EVER).min(FOR_EVER)
    }

    fn to_bytes(self, units: u128) -> u64 {
        (units * u128::from(self.quantum) * u128::from(self.tick_ps) / u128::from(PS_PER_S)) as u64
    }
}

/// Quanta x ticks that no run reaches.
const FOR_EVER: i64 = i64::MAX / 2;
/// Flow updates between two progress reports.
const LOOK_EVERY: u64 = 1 << 20;
