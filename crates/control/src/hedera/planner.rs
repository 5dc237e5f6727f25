//! One round without the machine around it: for `weft place`, and for measuring each part alone.

use std::sync::Arc;

use weft_fabric::routing::{FlowKey, Path, RootLabel};
use weft_fabric::{Fabric, HostId};

use crate::hedera::access::NicChoice;
use crate::hedera::config::{HederaConfig, HederaError};
use crate::hedera::demand::{DemandError, DemandEstimator};
use crate::hedera::network::{Candidate, Network, Occasion, Place, from_units, to_units};

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
    /// What the placed flows' demands exceed the capacities by, summed over the links that labels choose, in fractions of the
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
        let mut paths = vec![None; flows.len()];
        let mut nics = NicChoice::default();
        nics.clear(network.fabric());
        for (&i, flow) in assignment.numbers.iter().zip(&assignment.candidates) {
            labels[i] = flow.label;
            paths[i] = flow.label.map(|label| {
                let mut path = network.path(flow.src, flow.dst, label);
                if let Some(access) = network.access() {
                    nics.choose(access, network.fabric(), network.health(), &mut path, flow.demand);
                }
                path
            });
        }
        Placement {
            paths,
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

pub(super) fn candidate(key: &FlowKey, demand: i64) -> Candidate {
    Candidate { src: key.src, dst: key.dst, demand, label: None, reserved: 0 }
}

/// Natural demands as fractions of the fastest host's NICs.
pub(super) fn demands_of(
    estimator: &mut DemandEstimator,
    network: &Network,
    flows: impl Iterator<Item = (HostId, HostId)>,
) -> Result<Vec<f64>, DemandError> {
    let (src, dst): (Vec<u32>, Vec<u32>) = flows.map(|(s, d)| (s.0, d.0)).unzip();
    let mut demands = Vec::new();
    // Pairs that are wrong have no cap; the estimator names them.
    let hosts = network.fabric().host_count() as u32;
    let good = |(&s, &d): (&u32, &u32)| s < hosts && d < hosts && s != d;
    let caps: Vec<f64> = match network.caps() {
        Some(_) => src.iter().zip(&dst).map(|p| if good(p) { network.cap(HostId(*p.0), HostId(*p.1)) } else { 1.0 }).collect(),
        None => Vec::new(),
    };
    estimator.estimate_capped(&src, &dst, network.nic(), &caps, &mut demands)?;
    Ok(demands)
}
