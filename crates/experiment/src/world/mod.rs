//! From a scenario to a world and back: a run is prepared, which builds and checks it, and then executed, which consumes it.
//!
//! ```text
//!   Run --prepare--> Prepared { fabric, work } --execute--> Executed { fabric, outcome, rest }
//! ```

pub mod control;
pub mod directory;
pub mod events;
pub mod flow;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab;
#[cfg(not(all(feature = "lab", target_os = "linux")))]
#[path = "no_lab.rs"]
pub mod lab;
pub mod nl_arp;
pub mod packet;
pub mod tenants;

use std::sync::Arc;

use weft_fabric::record::Outcome;
use weft_fabric::{Fabric, Instant};
use weft_sim::directory::load::LoadConfig;
use weft_sim::netlord::ArpConfig;
use weft_sim::world::{Progress, TimedEvent};

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Scenario;
use crate::scenario::tenants::Scale;
use crate::scenario::traffic::Traffic;
use crate::scenario::traffic::flows::Flows;
use crate::scenario::world::Kind;
use crate::trust::Regime;
use flow::FlowRun;
use tenants::TenantRun;

/// A run that is built and checked.
pub struct Prepared {
    /// The network; in a lab with its scaled rates.
    pub fabric: Arc<Fabric>,
    /// What runs on it.
    pub work: Work,
    /// Seconds of wall clock that this took, trials of a search included.
    pub seconds: f64,
}

/// What a scenario asks for.
pub enum Work {
    /// Flows or requests, in any world.
    Flows(Box<FlowRun>),
    /// The load of a directory.
    Directory(Box<LoadConfig>),
    /// NL-ARP.
    NlArp(ArpConfig),
    /// Tenants on bridges.
    Tenants(Box<TenantRun>),
}

/// A run that has ended.
pub struct Executed {
    /// The network.
    pub fabric: Arc<Fabric>,
    /// Its records.
    pub outcome: Outcome,
    /// What its metrics need in addition.
    pub rest: Rest,
}

/// What metrics need in addition to the records.
pub enum Rest {
    /// The workload, and the failures and repairs.
    Flows(Flows, Vec<TimedEvent>),
    /// Nothing: the world without flows has measured itself.
    Measured(Metrics),
}

impl Executed {
    /// Of a run in the lab: how its queues appear to TCP.
    pub fn regime(&self, scenario: &Scenario) -> Option<Regime> {
        let flows = if let Rest::Flows(flows, _) = &self.rest { Some(flows) } else { None };
        Regime::of(&self.fabric, scenario, flows)
    }
}

impl Prepared {
    /// Flows that it holds in memory.
    pub fn held(&self) -> usize {
        self.flows().map_or(0, Flows::held)
    }

    /// The workload, if it is flows or requests.
    pub fn flows(&self) -> Option<&Flows> {
        match &self.work {
            Work::Flows(run) => Some(&run.flows),
            Work::Directory(_) | Work::NlArp(_) | Work::Tenants(_) => None,
        }
    }
}

/// Builds and checks a run on the fabric of its scenario.
///
/// # Errors
/// The first of its settings, its traffic and its events that this fabric cannot have.
pub fn prepare(fabric: Arc<Fabric>, scenario: &Scenario) -> Result<Prepared> {
    let (world, is_lab) = (&scenario.world, scenario.world.kind == Kind::Lab);
    let network = match &scenario.traffic {
        _ if is_lab => Arc::new(Fabric::clone(&fabric).scaled(world.lab.scale)),
        Traffic::Tenants(load) if load.scale != Scale::WHOLE => Arc::new(load.scale.network(Fabric::clone(&fabric))),
        _ => Arc::clone(&fabric),
    };
    scenario.overlay.check(&network)?;
    if let Traffic::Matrices(_) = scenario.traffic {
        let message = "the worlds run flows, and these are rates between racks";
        return Err(KeyError::new(
            "traffic",
            message,
            "study them: `weft optimum SCENARIO`, `weft analyze traffic SCENARIO`; or describe flows by `pattern` or `file`",
        )
        .into());
    }
    let work = match &scenario.traffic {
        Traffic::Tenants(load) if world.kind == Kind::Packet => {
            Work::Tenants(Box::new(tenants::prepare(&network, scenario, load)?))
        }
        Traffic::Directory(load) if !is_lab => Work::Directory(Box::new(directory::prepare(&network, scenario, load)?)),
        Traffic::NlArp(load) if !is_lab => Work::NlArp(nl_arp::prepare(&network, scenario, load)?),
        _ => Work::Flows(Box::new(flow::prepare(&network, &fabric, scenario)?)),
    };
    Ok(Prepared { fabric: network, work, seconds: 0.0 })
}

/// Executes a run, on up to `threads` cores. `on_progress` receives the fraction of it that is done.
///
/// # Errors
/// What fails in a lab, and flows that never end in a run without an end.
pub fn execute(prepared: Prepared, scenario: &Scenario, threads: usize, on_progress: &mut dyn FnMut(f64)) -> Result<Executed> {
    let Prepared { fabric, work, .. } = prepared;
    let (outcome, rest) = match work {
        Work::Flows(run) => {
            let rest = Rest::Flows(run.flows.clone(), run.events.clone());
            (run.execute(&fabric, scenario, threads, &mut |p| on_progress(fraction_done(&p)))?, rest)
        }
        Work::Directory(load) => measured(directory::execute(*load, on_progress)),
        Work::NlArp(load) => measured(nl_arp::execute(load, &fabric, on_progress)),
        Work::Tenants(run) => measured(run.execute(on_progress)?),
    };
    Ok(Executed { fabric, outcome, rest })
}

fn measured((outcome, metrics): (Outcome, Metrics)) -> (Outcome, Rest) {
    (outcome, Rest::Measured(metrics))
}

fn fraction_done(progress: &Progress) -> f64 {
    if progress.end == Instant::MAX {
        return progress.ended as f64 / (progress.ended + progress.active).max(1) as f64;
    }
    progress.now.as_secs_f64() / progress.end.as_secs_f64()
}
