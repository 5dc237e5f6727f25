//! The scheduler as a machine (Hedera section 3): polls, detects, estimates, places, and says only what changed.
//!
//! ```text
//!   Timer ------------> ReadFlowCounters
//!   FlowCounters -----> detect -> estimate demands -> place -> compare with what is there -> SetPath / ClearPath of the flows
//!                                                              whose path changed, unless goodput would fall
//!   Failed -----------> place the flows that crossed the part at once; Restored: the next round may use it again
//!   FlowRemoved ------> its state and reservation end
//!   Placed -----------> the flow is large and has the label of its path, once it is counted
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weft_fabric::record::ControlRecord;
use weft_fabric::routing::{FlowKey, RootLabel};
use weft_fabric::topology::Part;
use weft_fabric::{Fabric, LinkId};

use crate::controller::{Controller, FlowCounter, Input, Output};
use crate::hedera::config::{HederaConfig, HederaError};
use crate::hedera::demand::DemandEstimator;
use crate::hedera::detector::Detector;
use crate::hedera::guard::{Change, Guard};
use crate::hedera::network::{Candidate, Network, Occasion, Place, to_units};
use crate::hedera::planner::{candidate, demands_of};
use crate::time::Instant;

/// Hedera's scheduler.
pub struct Hedera {
    config: HederaConfig,
    network: Network,
    detector: Detector,
    estimator: DemandEstimator,
    placer: Box<dyn Place>,
    /// Ascending by key.
    large: Vec<Large>,
    /// Flows that another scheduler has placed and that are not counted yet: the label of the path that they have; `None` if they were left to
    /// the hash since, because that path does not work.
    taken_over: BTreeMap<FlowKey, Option<RootLabel>>,
    outputs: VecDeque<Output>,
    /// When the next reading is due.
    deadline: Instant,
    /// When the last reading was asked for.
    asked: Instant,
    record: ControlRecord,
    guard: Guard,
    /// Large flows that have a choice, before and after placement.
    before: Vec<Candidate>,
    candidates: Vec<Candidate>,
    /// Their numbers in `large`.
    free: Vec<u32>,
}

/// A large flow under way.
#[derive(Clone, Copy, Debug)]
struct Large {
    key: FlowKey,
    flow: Candidate,
    /// The label whose path was sent to the world; `None` if the flow is hashed.
    sent: Option<RootLabel>,
    ended: bool,
}

impl Hedera {
    /// A scheduler for a fabric of which everything works; it first reads the counters after one period.
    ///
    /// # Errors
    /// [`HederaError`] if a setting means nothing.
    pub fn new(fabric: Arc<Fabric>, config: HederaConfig) -> Result<Self, HederaError> {
        config.check()?;
        let network = Network::new(fabric);
        Ok(Self {
            detector: Detector::new(network.fabric(), config.threshold),
            estimator: DemandEstimator::default(),
            placer: config.placer(&network),
            large: Vec::new(),
            taken_over: BTreeMap::new(),
            outputs: VecDeque::new(),
            deadline: Instant::ZERO + config.period,
            asked: Instant::ZERO,
            record: ControlRecord::default(),
            guard: Guard::default(),
            before: Vec::new(),
            candidates: Vec::new(),
            free: Vec::new(),
            network,
            config,
        })
    }

    fn timer(&mut self, now: Instant) {
        if now < self.deadline {
            return;
        }
        self.outputs.push_back(Output::ReadFlowCounters);
        self.asked = now;
        while self.deadline <= now {
            self.deadline += self.config.period;
        }
    }

    fn round(&mut self, counters: &[FlowCounter<'_>]) {
        self.detector.read(counters, self.asked, |key| self.taken_over.contains_key(key));
        self.update_large();
        self.record.rounds += 1;
        self.record.large_flows += self.large.len() as u64;
        let endpoints = self.large.iter().map(|l| (l.key.src, l.key.dst));
        let demands = demands_of(&mut self.estimator, &self.network, endpoints)
            .expect("the world's flows run between two hosts of the fabric");
        for (large, demand) in self.large.iter_mut().zip(demands) {
            large.flow.demand = to_units(demand);
            if let Some(label) = self.taken_over.remove(&large.key) {
                large.take_over(&self.network, &mut *self.placer, label);
            }
        }
        self.place(Occasion::Round, counters);
    }

    /// Takes over the detector's large flows; those that are gone have ended.
    fn update_large(&mut self) {
        let mut old = std::mem::take(&mut self.large).into_iter().peekable();
        let mut large = Vec::with_capacity(old.len());
        let end = |placer: &mut dyn Place, gone: Large| {
            if !gone.ended {
                placer.ended(&self.network, &gone.flow);
            }
        };
        for key in self.detector.large() {
            while let Some(gone) = old.next_if(|l| l.key < key || (l.key == key && l.ended)) {
                end(&mut *self.placer, gone);
            }
            large.push(old.next_if(|l| l.key == key).unwrap_or_else(|| Large::new(key)));
        }
        old.for_each(|gone| end(&mut *self.placer, gone));
        self.large = large;
    }

    /// Lets the algorithm place all large flows that have a choice, and sends the changes to the world; in a round only if they do not
    /// lower the goodput.
    fn place(&mut self, occasion: Occasion, counters: &[FlowCounter<'_>]) {
        let network = &self.network;
        let is_free = |l: &Large| !l.ended && network.has_choice(l.key.src, l.key.dst);
        self.free.clear();
        self.free.extend((0..self.large.len() as u32).filter(|&i| is_free(&self.large[i as usize])));
        self.before.clear();
        self.before.extend(self.free.iter().map(|&i| self.large[i as usize].flow));
        self.candidates.clone_from(&self.before);
        self.placer.place(network, &mut self.candidates, occasion);
        keep_paths(network, &self.before, &mut self.candidates);
        let proposed = std::mem::take(&mut self.candidates);
        let changes = self.changes(&proposed, counters);
        self.candidates = proposed;
        let accepted = match occasion {
            Occasion::Round => self.better(changes, counters),
            Occasion::Failure => Some(changes),
        };
        let Some(changes) = accepted else { return };
        for (&i, flow) in self.free.iter().zip(&self.candidates) {
            let large = &mut self.large[i as usize];
            large.flow = *flow;
            large.sent = flow.label;
        }
        self.record.moves += changes.len() as u64;
        self.outputs.extend(changes.into_iter().map(|Change { key: flow, path, .. }| match path {
            Some(path) => Output::SetPath { flow, path },
            None => Output::ClearPath { flow },
        }));
    }

    /// What a placement of the free flows changes.
    fn changes(&mut self, placed: &[Candidate], counters: &[FlowCounter<'_>]) -> Vec<Change> {
        let placed = self.free.iter().zip(placed);
        let mut changes: Vec<Change> =
            placed.filter_map(|(&i, flow)| self.large[i as usize].change(&self.network, flow)).collect();
        self.guard.spread(&self.network, counters, self.large.iter().map(|l| (l.key, l.flow.demand)), &mut changes);
        changes
    }

    /// The changes of a round, or those of the placer's other placement, which is then in `candidates`; `None` if both would lower the
    /// goodput.
    fn better(&mut self, changes: Vec<Change>, counters: &[FlowCounter<'_>]) -> Option<Vec<Change>> {
        let mut alternative = self.placer.alternative().map(<[Candidate]>::to_vec);
        if let Some(placed) = &mut alternative {
            keep_paths(&self.network, &self.before, placed);
        }
        if changes.is_empty() && alternative.is_none() {
            return Some(changes);
        }
        let demands = self.large.iter().map(|l| (l.key, l.flow.demand));
        if self.large.len() == counters.len() && self.guard.is_best(&self.network, demands, &self.candidates) {
            return Some(changes);
        }
        let mut proposals = vec![changes];
        proposals.extend(alternative.as_ref().map(|placed| self.changes(placed, counters)));
        let best = self.guard.best(&self.network, counters, &proposals);
        if best != Some(0) {
            self.placer.rejected(&self.network, &self.before, &self.candidates);
        }
        if let (Some(1), Some(placed)) = (best, alternative) {
            self.candidates = placed;
        }
        best.map(|best| proposals.swap_remove(best))
    }

    /// The world has a path that another scheduler gave the flow.
    fn placed(&mut self, key: FlowKey, path: &[LinkId]) {
        let labels = self.network.labels_of(key.src, key.dst, path);
        let label = labels.into_iter().find(|&label| self.network.is_up(key.src, key.dst, label));
        if label.is_none() {
            self.outputs.push_back(Output::ClearPath { flow: key });
        }
        self.taken_over.insert(key, label);
    }

    fn removed(&mut self, key: &FlowKey) {
        self.taken_over.remove(key);
        self.detector.removed(key);
        if let Ok(i) = self.large.binary_search_by_key(key, |l| l.key)
            && !std::mem::replace(&mut self.large[i].ended, true)
        {
            self.placer.ended(&self.network, &self.large[i].flow);
        }
    }

    fn failed(&mut self, part: Part) {
        let links = self.network.fail(part);
        self.placer.links_changed(&self.network, &links);
        for (&flow, label) in &mut self.taken_over {
            if label.take_if(|label| !self.network.is_up(flow.src, flow.dst, *label)).is_some() {
                self.outputs.push_back(Output::ClearPath { flow });
            }
        }
        let hit = |l: &Large| l.flow.label.is_some_and(|label| !self.network.is_up(l.key.src, l.key.dst, label));
        if self.large.iter().any(|l| !l.ended && hit(l)) {
            self.place(Occasion::Failure, &[]);
        }
    }

    fn restored(&mut self, part: Part) {
        let links = self.network.restore(part);
        self.placer.links_changed(&self.network, &links);
    }
}

/// A flow for which the algorithm has no path keeps the one that it has, if that works: where the switches' hash would send it is not known.
fn keep_paths(network: &Network, before: &[Candidate], placed: &mut [Candidate]) {
    for (before, placed) in before.iter().zip(placed).filter(|(_, placed)| placed.label.is_none()) {
        placed.label = before.label.filter(|&label| network.is_up(before.src, before.dst, label));
    }
}

impl Controller for Hedera {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Timer => self.timer(now),
            Input::FlowCounters(counters) => self.round(counters),
            // The flows' counters suffice.
            Input::LinkCounters(_) => {}
            Input::Placed(flow, path) => self.placed(flow, path),
            Input::FlowRemoved(counter) => self.removed(&counter.flow),
            Input::Failed(part) => self.failed(part),
            Input::Restored(part) => self.restored(part),
            Input::Detours(..) => {}
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }

    fn record(&self) -> ControlRecord {
        self.record
    }
}

impl Large {
    fn new(key: FlowKey) -> Self {
        Self { key, flow: candidate(&key, 0), sent: None, ended: false }
    }

    /// The world has the path of a label that another scheduler chose, or hashes the flow. A flow that has no label yet keeps it.
    fn take_over(&mut self, network: &Network, placer: &mut dyn Place, label: Option<RootLabel>) {
        self.sent = label;
        if self.flow.label.is_none() && label.is_some() {
            self.flow.label = label;
            placer.take_over(network, &mut self.flow);
        }
    }

    /// What a placement changes: nothing if the world has the path of the new label already.
    fn change(&self, network: &Network, placed: &Candidate) -> Option<Change> {
        let Self { key, sent, .. } = *self;
        let path_of = |label| network.path(key.src, key.dst, label);
        let path = match (sent, placed.label) {
            (old, new) if old == new => return None,
            (_, None) => None,
            (old, Some(new)) => Some(path_of(new)).filter(|path| old.map(path_of).as_ref() != Some(path)),
        };
        (placed.label.is_none() || path.is_some()).then_some(Change { key, demand: placed.demand, path })
    }
}
