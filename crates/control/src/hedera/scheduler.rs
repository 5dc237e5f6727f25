//! The scheduler as a machine (Hedera section 3): polls, detects, estimates, places, and says only what changed.
//!
//! ```text
//!   Timer ------------> ReadFlowCounters
//!   FlowCounters -----> detect -> estimate demands -> place -> SetPath / ClearPath of the flows whose path changed
//!   Failed -----------> place the flows that crossed the part at once; Restored: the next round may use it again
//!   FlowRemoved ------> its state and reservation end
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use weft_fabric::record::ControlRecord;
use weft_fabric::routing::{FlowKey, Path, RootLabel};
use weft_fabric::topology::Part;
use weft_fabric::{Fabric, HostId, Instant};

use crate::controller::{Controller, FlowCounter, Input, Output};
use crate::hedera::config::{HederaConfig, HederaError};
use crate::hedera::demand::{DemandError, DemandEstimator};
use crate::hedera::detector::Detector;
use crate::hedera::network::{Candidate, Network, Occasion, Place, from_units, to_units};

/// Hedera's scheduler.
pub struct Hedera {
    config: HederaConfig,
    network: Network,
    detector: Detector,
    estimator: DemandEstimator,
    placer: Box<dyn Place>,
    /// Ascending by key.
    large: Vec<Large>,
    outputs: VecDeque<Output>,
    /// When the next reading is due.
    deadline: Instant,
    /// When the last reading was asked for.
    asked: Instant,
    record: ControlRecord,
    candidates: Vec<Candidate>,
}

/// A large flow under way.
#[derive(Clone, Copy, Debug)]
struct Large {
    key: FlowKey,
    flow: Candidate,
    /// The label whose path the world was told; `None` if it is to hash.
    told: Option<RootLabel>,
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
            outputs: VecDeque::new(),
            deadline: Instant::ZERO + config.period,
            asked: Instant::ZERO,
            record: ControlRecord::default(),
            candidates: Vec::new(),
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
        self.detector.read(counters, self.asked);
        self.update_large();
        self.record.rounds += 1;
        self.record.large_flows += self.large.len() as u64;
        let endpoints = self.large.iter().map(|l| (l.key.src, l.key.dst));
        let demands = demands_of(&mut self.estimator, &self.network, endpoints)
            .expect("the world's flows run between two hosts of the fabric");
        for (large, demand) in self.large.iter_mut().zip(demands) {
            large.flow.demand = to_units(demand);
        }
        self.place(Occasion::Round);
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

    /// Lets the algorithm place all large flows that have a choice, and tells the world what changed.
    fn place(&mut self, occasion: Occasion) {
        let network = &self.network;
        let mut free: Vec<&mut Large> =
            self.large.iter_mut().filter(|l| !l.ended && network.has_choice(l.key.src, l.key.dst)).collect();
        self.candidates.clear();
        self.candidates.extend(free.iter().map(|l| l.flow));
        self.placer.place(network, &mut self.candidates, occasion);
        for (large, &flow) in free.iter_mut().zip(&self.candidates) {
            large.flow = flow;
            if let Some(output) = large.change(network) {
                self.record.moves += 1;
                self.outputs.push_back(output);
            }
            large.told = flow.label;
        }
    }

    fn removed(&mut self, key: &FlowKey) {
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
        let hit = |l: &Large| l.flow.label.is_some_and(|label| !self.network.is_up(l.key.src, l.key.dst, label));
        if self.large.iter().any(|l| !l.ended && hit(l)) {
            self.place(Occasion::Failure);
        }
    }

    fn restored(&mut self, part: Part) {
        let links = self.network.restore(part);
        self.placer.links_changed(&self.network, &links);
    }
}

impl Controller for Hedera {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Timer => self.timer(now),
            Input::FlowCounters(counters) => self.round(counters),
            // Flows' counters tell it all.
            Input::LinkCounters(_) => {}
            Input::FlowRemoved(counter) => self.removed(&counter.flow),
            Input::Failed(part) => self.failed(part),
            Input::Restored(part) => self.restored(part),
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
        Self { key, flow: candidate(&key, 0), told: None, ended: false }
    }

    /// What to tell the world: nothing if the path of the new label is the one it knows.
    fn change(&self, network: &Network) -> Option<Output> {
        let Self { key: flow, told, .. } = *self;
        let path_of = |label| network.path(flow.src, flow.dst, label);
        match (told, self.flow.label) {
            (old, new) if old == new => None,
            (_, None) => Some(Output::ClearPath { flow }),
            (old, Some(new)) => {
                let path = path_of(new);
                (old.map(path_of).as_ref() != Some(&path)).then_some(Output::SetPath { flow, path })
            }
        }
    }
}

/// What a placer chose for a set of flows, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// By flow: its path from NIC to NIC; `None` if it is left to the hash (hosts of one rack, or no path fits).
    pub paths: Vec<Option<Path>>,
    /// By flow: the label of that path.
    pub labels: Vec<Option<RootLabel>>,
    /// By destination host: the label of all flows to it, if the algorithm gives labels to destinations; `None` for hosts without
    /// flows.
    pub cores: Option<Vec<Option<RootLabel>>>,
    /// What the placed flows' demands exceed the capacities by, summed over the links between switches, in fractions of the
    /// fastest NIC.
    pub energy: f64,
    /// By flow: its natural demand as a fraction of its source's NIC.
    pub demands: Vec<f64>,
}

/// Runs one round on these flows, all taken for large, with an empty memory.
///
/// # Errors
/// [`HederaError`] if a setting means nothing or a flow is wrong.
pub fn place_once(fabric: Arc<Fabric>, flows: &[FlowKey], config: &HederaConfig) -> Result<Placement, HederaError> {
    let mut planner = Planner::new(fabric, config)?;
    let demands = planner.demands(flows)?;
    let assignment = planner.assign(flows, &demands);
    Ok(planner.placement(flows, &demands, &assignment))
}

/// A placer without the machine around it: for [`place_once`], and for measuring each of its parts alone.
pub struct Planner {
    network: Network,
    placer: Box<dyn Place>,
    estimator: DemandEstimator,
}

impl Planner {
    /// A placer with an empty memory.
    ///
    /// # Errors
    /// [`HederaError`] if a setting means nothing.
    pub fn new(fabric: Arc<Fabric>, config: &HederaConfig) -> Result<Self, HederaError> {
        config.check()?;
        let network = Network::new(fabric);
        let placer = config.placer(&network);
        Ok(Self { network, placer, estimator: DemandEstimator::default() })
    }

    /// Natural demands, by flow, as fractions of the fastest NIC.
    ///
    /// # Errors
    /// [`HederaError`] if a flow is wrong.
    pub fn demands(&mut self, flows: &[FlowKey]) -> Result<Vec<f64>, HederaError> {
        Ok(demands_of(&mut self.estimator, &self.network, flows.iter().map(|f| (f.src, f.dst)))?)
    }

    /// Gives labels to flows of these demands, in one round: the placement algorithm and nothing else.
    pub fn assign(&mut self, flows: &[FlowKey], demands: &[f64]) -> Assignment {
        let (numbers, mut candidates): (Vec<usize>, Vec<Candidate>) = flows
            .iter()
            .enumerate()
            .filter(|(_, f)| self.network.has_choice(f.src, f.dst))
            .map(|(i, f)| (i, candidate(f, to_units(demands[i]))))
            .unzip();
        self.placer.place(&self.network, &mut candidates, Occasion::Round);
        Assignment { numbers, candidates }
    }

    /// What an assignment means for each flow.
    pub fn placement(&self, flows: &[FlowKey], demands: &[f64], assignment: &Assignment) -> Placement {
        let network = &self.network;
        let mut labels = vec![None; flows.len()];
        for (&i, flow) in assignment.numbers.iter().zip(&assignment.candidates) {
            labels[i] = flow.label;
        }
        let path = |(flow, label): (&FlowKey, &Option<RootLabel>)| label.map(|label| network.path(flow.src, flow.dst, label));
        Placement {
            paths: flows.iter().zip(&labels).map(path).collect(),
            labels,
            cores: self.placer.labels_of_destinations().map(<[_]>::to_vec),
            energy: from_units(network.energy(&assignment.candidates)),
            demands: flows.iter().zip(demands).map(|(f, d)| d / network.nic()[f.src.index()]).collect(),
        }
    }
}

/// Labels of the flows that have a choice of path.
pub struct Assignment {
    numbers: Vec<usize>,
    candidates: Vec<Candidate>,
}

fn candidate(key: &FlowKey, demand: i64) -> Candidate {
    Candidate { src: key.src, dst: key.dst, demand, label: None, reserved: 0 }
}

/// Natural demands as fractions of the fastest NIC.
fn demands_of(
    estimator: &mut DemandEstimator,
    network: &Network,
    flows: impl Iterator<Item = (HostId, HostId)>,
) -> Result<Vec<f64>, DemandError> {
    let (src, dst): (Vec<u32>, Vec<u32>) = flows.map(|(s, d)| (s.0, d.0)).unzip();
    let mut demands = Vec::new();
    estimator.estimate(&src, &dst, network.nic(), &mut demands)?;
    Ok(demands)
}
