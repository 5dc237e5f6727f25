//! From a scenario to the flow world and back: who carries what, with which scheduler.

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_control::hedera::{Hedera, HederaConfig, Placement, Placer, control_loop, place_once};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{FlowKey, Path, RootLabel, RootPaths, Router, Routing};
use weft_fabric::topology::Part;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::flow::{AimdParams, Change, FlowConfig, FlowWorld, Progress, Rates, TimedEvent};

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Run;
use crate::scenario::control::Scheduler;
use crate::scenario::world::{self, EventKind};

/// Carries a run. `on_progress` hears how much of it is done, from 0 to 1.
///
/// # Errors
/// Traffic that the fabric cannot have, and events that name parts which it does not have.
pub fn carry(fabric: &Arc<Fabric>, run: &Run, on_progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
    let scenario = &run.scenario;
    let events = scenario.events.iter().map(|e| timed(fabric, e)).collect::<Result<Vec<_>, _>>()?;
    let world = FlowWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), scenario.control.routing, scenario.world.seed),
        controller: controller(fabric, run),
        workload: scenario.traffic.workload(fabric, scenario.world.seed)?,
        events,
        config: config(run),
    };
    Ok(world.run(&mut |p| on_progress(part_done(&p))))
}

/// Carries the flows of a run, drawn on its own fabric, on a non-blocking switch that nobody schedules and where nothing breaks.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub fn carry_ideal(fabric: &Arc<Fabric>, ideal: &Arc<Fabric>, run: &Run) -> Result<Outcome> {
    let seed = run.scenario.world.seed;
    let world = FlowWorld {
        fabric: Arc::clone(ideal),
        router: Router::new(Arc::clone(ideal), Routing::default(), seed),
        controller: None,
        workload: run.scenario.traffic.workload(fabric, seed)?,
        events: Vec::new(),
        config: FlowConfig { link_samples: 0, ..config(run) },
    };
    Ok(world.run(&mut |_| {}))
}

fn config(run: &Run) -> FlowConfig {
    let (world, control) = (&run.scenario.world, &run.scenario.control);
    FlowConfig {
        rates: match world.rates {
            world::Rates::MaxMin => Rates::MaxMin,
            world::Rates::Aimd { tick, increase } => {
                Rates::Aimd(AimdParams { tick, increase_bytes_per_s: increase.0, ..AimdParams::default() })
            }
            world::Rates::Slots => Rates::Slots { flows_per_host: run.scenario.traffic.flows_per_host() },
        },
        duration: world.duration.unwrap_or(Duration::MAX),
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        ..FlowConfig::new(Rates::MaxMin, world.seed)
    }
}

fn timed(fabric: &Fabric, event: &world::Event) -> Result<TimedEvent, KeyError> {
    let part = Part::parse(fabric, &event.part)
        .map_err(|e| KeyError::new(event.key.clone(), e.to_string(), "`weft topo SCENARIO --export dot` lists all names"))?;
    let change = match event.kind {
        EventKind::Fail => Change::Fail(part),
        EventKind::FailSilent => Change::FailSilent(part),
        EventKind::Restore => Change::Restore(part),
    };
    Ok(TimedEvent { at: event.at, change })
}

fn part_done(progress: &Progress) -> f64 {
    if progress.duration == Duration::MAX {
        return progress.ended as f64 / (progress.ended + progress.active).max(1) as f64;
    }
    progress.now.as_secs_f64() / progress.duration.as_secs_f64()
}

fn controller(fabric: &Arc<Fabric>, run: &Run) -> Option<Box<dyn Controller>> {
    let config = hedera_config(fabric, run)?;
    Some(Box::new(Hedera::new(Arc::clone(fabric), config)))
}

/// The scheduler's settings, if the scenario has one.
fn hedera_config(fabric: &Fabric, run: &Run) -> Option<HederaConfig> {
    let control = &run.scenario.control;
    let placer = match control.scheduler {
        Scheduler::None => return None,
        Scheduler::FirstFit => Placer::FirstFit,
        Scheduler::Annealing => Placer::Annealing,
        Scheduler::AnnealingPerFlow => Placer::AnnealingPerFlow,
        Scheduler::EdgeColoring => Placer::EdgeColoring,
    };
    let paper = if fabric.host_count() <= 16 { 0.5 } else { 1000.0 };
    Some(HederaConfig {
        period: control.period,
        threshold: control.threshold,
        placer,
        iterations: control.iterations,
        c: control.annealing_c.unwrap_or(paper),
        seed: run.scenario.world.seed,
        ..HederaConfig::default()
    })
}
