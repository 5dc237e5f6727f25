//! The scheduler of a run: its settings, checked; its controller; and what it did.

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_control::hedera::{
    DemandEstimator, Hedera, HederaConfig, HederaError, Placement, Placer, Planner, control_loop_length, place_once,
};
use weft_control::subways::{Subways, SubwaysConfig};
use weft_fabric::Fabric;
use weft_fabric::record::Outcome;
use weft_fabric::routing::optimal::splittable_fraction;
use weft_fabric::routing::{FlowKey, Path, Router};
use weft_fabric::topology::Health;

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Scenario;
use crate::scenario::control::Scheduler;
use crate::scenario::traffic::flows::Flows;
use crate::wall::Stopwatch;

/// The scheduler of a run.
#[derive(Clone, Debug)]
pub enum Scheduling {
    /// Switches alone choose paths.
    None,
    /// Hedera's: places large flows by their demands.
    Hedera(HederaConfig),
    /// Subways': spreads the load over ToRs.
    Subways(SubwaysConfig),
}

impl Scheduling {
    /// The scheduler that a scenario asks for.
    ///
    /// # Errors
    /// Settings that it cannot have.
    pub fn of(scenario: &Scenario) -> Result<Self> {
        let (control, seed) = (&scenario.control, scenario.world.seed);
        let placer = match control.scheduler {
            Scheduler::None => return Ok(Self::None),
            Scheduler::Adaptive | Scheduler::Detour => {
                return Ok(Self::Subways(SubwaysConfig { seed, ..control.subways }));
            }
            Scheduler::FirstFit => Placer::FirstFit,
            Scheduler::Annealing => Placer::Annealing,
            Scheduler::AnnealingPerFlow => Placer::AnnealingPerFlow,
            Scheduler::EdgeColoring => Placer::EdgeColoring,
        };
        let config = HederaConfig {
            period: control.period,
            threshold: control.threshold,
            placer,
            iterations: control.iterations,
            c: control.annealing_c,
            seed,
        };
        config.check().map_err(KeyError::from)?;
        Ok(Self::Hedera(config))
    }

    /// Its machine on a fabric. It is made when the run starts: its tables are as large as the fabric.
    ///
    /// # Errors
    /// A fabric that it cannot schedule.
    pub fn controller(self, fabric: &Arc<Fabric>) -> Result<Option<Box<dyn Controller>>> {
        let fabric = Arc::clone(fabric);
        Ok(match self {
            Self::None => None,
            Self::Hedera(config) => Some(Box::new(Hedera::new(fabric, config).map_err(KeyError::from)?)),
            Self::Subways(config) => Some(Box::new(Subways::new(fabric, config).map_err(KeyError::from)?)),
        })
    }

    /// Hedera's settings.
    ///
    /// # Errors
    /// Another scheduler, or none.
    fn hedera(scenario: &Scenario) -> Result<HederaConfig> {
        match Self::of(scenario)? {
            Self::Hedera(config) => Ok(config),
            Self::None | Self::Subways(_) => {
                let help = "choose one that does, such as `first-fit`";
                let message = "there is no scheduler that places flows by their demands";
                Err(KeyError::new("control.scheduler", message, help).into())
            }
        }
    }
}

/// What the scheduler did, by its records; with `control.measure` also how long it takes for the flows at time 0.
///
/// # Errors
/// Flows that it cannot take.
pub fn measure(fabric: &Arc<Fabric>, scenario: &Scenario, flows: &Flows, outcome: &Outcome, metrics: &mut Metrics) -> Result<()> {
    if scenario.control.scheduler == Scheduler::None {
        return Ok(());
    }
    if scenario.control.scheduler.is_subways() {
        let control = outcome.control;
        metrics.put("rounds", control.rounds as f64);
        metrics.put("moves", control.moves as f64);
        metrics.put("detours_mean", control.detours as f64 / control.rounds.max(1) as f64);
        return Ok(());
    }
    let mut large = outcome.control.large_flows as f64 / outcome.control.rounds.max(1) as f64;
    metrics.put("rounds", outcome.control.rounds as f64);
    metrics.put("moves", outcome.control.moves as f64);
    if outcome.control.rounds > 0 {
        metrics.put("large_flows_mean", large);
    }
    if scenario.control.measure {
        let first = flows.first_keys();
        large = first.len() as f64;
        time_placement(fabric, &Scheduling::hedera(scenario)?, &first, metrics)?;
    }
    // Reports and rules cross one switch of the control network on their way to the scheduler (Hedera section 6.4.5).
    metrics.put("control_loop_s", control_loop_length(1, large as u64).as_secs_f64());
    Ok(())
}

/// Times demand estimation and placement of the first flows, the best of five each. The placer's memory is empty each time.
fn time_placement(fabric: &Arc<Fabric>, config: &HederaConfig, first: &[FlowKey], metrics: &mut Metrics) -> Result<()> {
    let (mut estimation, mut placement) = (f64::INFINITY, f64::INFINITY);
    let mut placed = None;
    for _ in 0..TIMED_RUNS {
        let mut planner = Planner::new(Arc::clone(fabric), config).map_err(KeyError::from)?;
        let clock = Stopwatch::start();
        let demands = planner.demands(first).map_err(KeyError::from)?;
        estimation = estimation.min(clock.seconds());
        let clock = Stopwatch::start();
        let assignment = planner.assign(first, &demands);
        placement = placement.min(clock.seconds());
        placed = Some(planner.placement(first, &demands, &assignment));
    }
    metrics.put("demand_wall_s", estimation);
    metrics.put("place_wall_s", placement);
    let demands = || placed.iter().flat_map(|p| &p.demands).copied();
    metrics.put_some("demand_min_fraction", demands().reduce(f64::min));
    metrics.put_some("demand_max_fraction", demands().reduce(f64::max));
    Ok(())
}

const TIMED_RUNS: usize = 5;

/// The flows that a run starts at time 0, as the switches see them.
#[derive(Debug, Default)]
pub struct FirstFlows {
    /// By number.
    pub keys: Vec<FlowKey>,
    /// The paths that the switches would choose; `None` where there is none.
    pub hashed: Vec<Option<Path>>,
}

impl FirstFlows {
    /// The first of these flows.
    pub fn of(fabric: &Arc<Fabric>, scenario: &Scenario, flows: &Flows) -> Self {
        let keys = flows.first_keys();
        let mut router = Router::new(Arc::clone(fabric), scenario.control.routing, scenario.world.seed);
        let hashed = keys.iter().map(|k| router.route(k)).collect();
        Self { keys, hashed }
    }
}

/// The fraction of the non-blocking switch's max-min rates that the intact fabric could carry if the flows that start at time 0 were
/// split over all paths. `None` if there are none, or if it is too much to compute.
///
/// # Errors
/// Demands that cannot be estimated.
pub fn splittable_optimum(fabric: &Fabric, flows: &Flows) -> Result<Option<f64>> {
    let keys = flows.first_keys();
    if keys.is_empty() {
        return Ok(None);
    }
    let (src, dst): (Vec<u32>, Vec<u32>) = keys.iter().map(|k| (k.src.0, k.dst.0)).unzip();
    let nic: Vec<f64> = fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64()).collect();
    let mut rates = Vec::new();
    DemandEstimator::default().estimate(&src, &dst, &nic, &mut rates).map_err(|e| KeyError::from(HederaError::from(e)))?;
    let demands: Vec<_> = keys.iter().zip(rates).map(|(k, rate)| (k.src, k.dst, rate)).collect();
    Ok(splittable_fraction(fabric, &Health::new(fabric), &demands))
}

/// Runs the scenario's scheduler once on its first flows.
///
/// # Errors
/// A scenario without a scheduler, or flows that it cannot take.
pub fn place(fabric: &Arc<Fabric>, scenario: &Scenario, first: &FirstFlows) -> Result<Placement> {
    Ok(place_once(Arc::clone(fabric), &first.keys, &Scheduling::hedera(scenario)?).map_err(KeyError::from)?)
}
