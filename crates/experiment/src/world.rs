//! From a scenario to a world and back: who carries what, with which scheduler.

pub mod directory;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab;
#[cfg(not(all(feature = "lab", target_os = "linux")))]
#[path = "world/no_lab.rs"]
pub mod lab;
pub mod nl_arp;
pub mod packet;
pub mod tenants;

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_control::hedera::{
    DemandEstimator, Hedera, HederaConfig, HederaError, Placement, Placer, Planner, control_loop_length, place_once,
};
use weft_control::subways::{Subways, SubwaysConfig, SubwaysError};
use weft_fabric::record::{Outcome, TcpRecord};
use weft_fabric::routing::optimal::splittable_fraction;
use weft_fabric::routing::{FlowKey, Path, Router, Routing};
use weft_fabric::topology::{Health, Part};
use weft_fabric::traffic::{FlowSpec, Workload, flows_known_at_start};
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::flow::{AimdParams, FlowConfig, FlowWorld, Rates};
use weft_sim::packet::{PacketConfig, PacketWorld};
use weft_sim::world::{Change, Progress, TimedEvent};

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Run;
use crate::scenario::control::Scheduler;
use crate::scenario::traffic::{Prepared, number_by_line};
use crate::scenario::world::{self, EventKind, Kind};
use crate::wall::Stopwatch;

/// Carries a run, on up to `threads` cores. `on_progress` hears how much of it is done, from 0 to 1.
///
/// # Errors
/// Traffic that the fabric cannot have, and events that name parts which it does not have.
pub fn carry(fabric: &Arc<Fabric>, run: &Run, threads: usize, on_progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
    let scenario = &run.scenario;
    let Prepared { workload, lines } = scenario.traffic.prepare(fabric, scenario.world.seed)?;
    let progress = &mut |p: Progress| on_progress(part_done(&p));
    let mut outcome = match scenario.world.kind {
        Kind::Lab => lab::carry(fabric, run, workload, progress)?,
        Kind::Flow | Kind::Packet => simulate(fabric, run, workload, timed_events(fabric, run)?, threads, progress)?,
    };
    if scenario.world.duration.is_none() {
        all_ended(&outcome)?;
    }
    number_by_line(lines.as_deref(), &mut outcome.flows);
    if let (Some(lines), Some(lab)) = (&lines, &mut outcome.lab) {
        let taken = std::mem::take(&mut lab.tcp);
        lab.tcp = vec![TcpRecord::default(); taken.len()];
        taken.into_iter().zip(lines).for_each(|(tcp, line)| lab.tcp[line.index()] = tcp);
    }
    Ok(outcome)
}

fn simulate(
    fabric: &Arc<Fabric>,
    run: &Run,
    workload: Box<dyn Workload>,
    events: Vec<TimedEvent>,
    threads: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    let scenario = &run.scenario;
    let router = Router::new(Arc::clone(fabric), scenario.control.routing, scenario.world.seed);
    let controller = controller(fabric, run)?;
    let fabric = Arc::clone(fabric);
    if scenario.world.kind == Kind::Flow {
        return Ok(FlowWorld { fabric, router, controller, workload, events, config: config(run) }.run(progress));
    }
    let config = PacketConfig { threads, ..packet::config(&fabric, run)? };
    packet::carry(PacketWorld { fabric, router, controller, workload, events, config }, progress)
}

/// Checks what can be told before a run: its traffic, the parts that its events name, its scheduler's settings.
///
/// # Errors
/// The first of them that this fabric cannot have.
pub fn check(fabric: &Arc<Fabric>, run: &Run) -> Result<()> {
    run.scenario.overlay.check(fabric)?;
    if tenants::check(fabric, run)? {
        return Ok(());
    }
    if run.scenario.world.kind == Kind::Lab {
        lab::check(fabric, run)?;
    }
    if directory::config(fabric, run)?.is_some() || nl_arp::config(fabric, run)?.is_some() {
        return Ok(());
    }
    timed_events(fabric, run)?;
    run.scenario.traffic.prepare(fabric, run.scenario.world.seed)?;
    if run.scenario.world.kind == Kind::Packet {
        packet::config(fabric, run)?;
    }
    match hedera_config(run) {
        Some(config) => Ok(config.check().map_err(at_control)?),
        None => Ok(()),
    }
}

/// A run without a duration lasts until its flows have ended, so they must.
fn all_ended(outcome: &Outcome) -> Result<(), KeyError> {
    match outcome.flows.iter().find(|f| f.end.is_none()) {
        None => Ok(()),
        Some(flow) => Err(KeyError::new(
            "world",
            format!("the flow from host {} to host {} can never end, and so neither can the run", flow.src, flow.dst),
            "add `duration = \"60s\"` to [world], or a `restore` of what fails",
        )),
    }
}

/// Carries the flows of a run, drawn on its own fabric, on a non-blocking switch that nobody schedules and where nothing breaks. `look`
/// hears now and then that it goes on.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub fn carry_ideal(fabric: &Arc<Fabric>, ideal: &Arc<Fabric>, run: &Run, look: &mut dyn FnMut()) -> Result<Outcome> {
    if run.scenario.world.kind == Kind::Packet {
        return packet::carry_ideal(fabric, ideal, run, look);
    }
    let seed = run.scenario.world.seed;
    let world = FlowWorld {
        fabric: Arc::clone(ideal),
        router: Router::new(Arc::clone(ideal), Routing::default(), seed),
        controller: None,
        workload: run.scenario.traffic.prepare(fabric, seed)?.workload,
        events: Vec::new(),
        config: FlowConfig { link_samples: 0, ..config(run) },
    };
    Ok(world.run(&mut |_| look()))
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

/// What breaks and returns, on a fabric, in order of time. What a lab alone knows is left out.
///
/// # Errors
/// Events that name parts which it does not have.
pub fn timed_events(fabric: &Fabric, run: &Run) -> Result<Vec<TimedEvent>> {
    run.scenario.events.iter().filter_map(|e| timed(fabric, e).transpose()).collect()
}

fn timed(fabric: &Fabric, event: &world::Event) -> Result<Option<TimedEvent>> {
    if !event.kind.is_simulated() {
        return Ok(None);
    }
    let part = Part::parse(fabric, &event.part)
        .map_err(|e| KeyError::new(event.key.clone(), e.to_string(), "`weft topo SCENARIO --export dot` lists all names"))?;
    let change = match event.kind {
        EventKind::Fail => Change::Fail(part),
        EventKind::FailSilent => Change::FailSilent(part),
        EventKind::Restore => Change::Restore(part),
        EventKind::Kill | EventKind::Restart | EventKind::Move | EventKind::Forge => return Ok(None),
    };
    Ok(Some(TimedEvent { at: event.at, change }))
}

fn part_done(progress: &Progress) -> f64 {
    if progress.end == Instant::MAX {
        return progress.ended as f64 / (progress.ended + progress.active).max(1) as f64;
    }
    progress.now.as_secs_f64() / progress.end.as_secs_f64()
}

fn controller(fabric: &Arc<Fabric>, run: &Run) -> Result<Option<Box<dyn Controller>>> {
    if run.scenario.control.scheduler.is_subways() {
        return Ok(Some(Box::new(subways(fabric, run)?)));
    }
    let Some(config) = hedera_config(run) else { return Ok(None) };
    Ok(Some(Box::new(Hedera::new(Arc::clone(fabric), config).map_err(at_control)?)))
}

fn subways(fabric: &Arc<Fabric>, run: &Run) -> Result<Subways> {
    let config = SubwaysConfig { seed: run.scenario.world.seed, ..run.scenario.control.subways };
    let error = |e: SubwaysError| KeyError::new("control", e.to_string(), "see docs/scenario.md, [control]");
    Ok(Subways::new(Arc::clone(fabric), config).map_err(error)?)
}

fn at_control(error: HederaError) -> KeyError {
    KeyError::new("control", error.to_string(), "see docs/scenario.md, [control]")
}

/// The scheduler's settings, if the scenario has one.
fn hedera_config(run: &Run) -> Option<HederaConfig> {
    let control = &run.scenario.control;
    let placer = match control.scheduler {
        Scheduler::None | Scheduler::Adaptive | Scheduler::Detour => return None,
        Scheduler::FirstFit => Placer::FirstFit,
        Scheduler::Annealing => Placer::Annealing,
        Scheduler::AnnealingPerFlow => Placer::AnnealingPerFlow,
        Scheduler::EdgeColoring => Placer::EdgeColoring,
    };
    Some(HederaConfig {
        period: control.period,
        threshold: control.threshold,
        placer,
        iterations: control.iterations,
        c: control.annealing_c,
        seed: run.scenario.world.seed,
    })
}

/// What the scheduler did, by its records; with `control.measure` also how long it takes for the flows at time 0.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub fn measure_control(fabric: &Arc<Fabric>, run: &Run, outcome: &Outcome, metrics: &mut Metrics) -> Result<()> {
    if run.scenario.control.scheduler == Scheduler::None {
        return Ok(());
    }
    if run.scenario.control.scheduler.is_subways() {
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
    if run.scenario.control.measure {
        let first = FirstFlows::of(fabric, run)?;
        large = first.keys.len() as f64;
        time_control(fabric, run, &first, metrics)?;
    }
    // Reports and rules cross one switch of the control network on their way to the scheduler (Hedera section 6.4.5).
    metrics.put("control_loop_s", control_loop_length(1, large as u64).as_secs_f64());
    Ok(())
}

/// Times demand estimation and placement of the first flows, the best of five each. The placer's memory is empty each time.
fn time_control(fabric: &Arc<Fabric>, run: &Run, first: &FirstFlows, metrics: &mut Metrics) -> Result<()> {
    let config = need_scheduler(run)?;
    let (mut estimation, mut placement) = (f64::INFINITY, f64::INFINITY);
    let mut placed = None;
    for _ in 0..TIMED_RUNS {
        let mut planner = Planner::new(Arc::clone(fabric), &config).map_err(at_control)?;
        let clock = Stopwatch::start();
        let demands = planner.demands(&first.keys).map_err(at_control)?;
        estimation = estimation.min(clock.seconds());
        let clock = Stopwatch::start();
        let assignment = planner.assign(&first.keys, &demands);
        placement = placement.min(clock.seconds());
        placed = Some(planner.placement(&first.keys, &demands, &assignment));
    }
    metrics.put("demand_wall_s", estimation);
    metrics.put("place_wall_s", placement);
    let demands = || placed.iter().flat_map(|p| &p.demands).copied();
    metrics.put_some("demand_min_fraction", demands().reduce(f64::min));
    metrics.put_some("demand_max_fraction", demands().reduce(f64::max));
    Ok(())
}

const TIMED_RUNS: usize = 5;

/// The flows that a run begins at time 0, as the switches see them.
#[derive(Debug)]
pub struct FirstFlows {
    /// By number.
    pub keys: Vec<FlowKey>,
    /// The paths that the switches would choose; `None` where there is no way.
    pub hashed: Vec<Option<Path>>,
}

impl FirstFlows {
    /// Draws them.
    ///
    /// # Errors
    /// Traffic that the fabric cannot have.
    pub fn of(fabric: &Arc<Fabric>, run: &Run) -> Result<Self> {
        let keys = first_keys(fabric, run)?;
        let mut router = Router::new(Arc::clone(fabric), run.scenario.control.routing, run.scenario.world.seed);
        let hashed = keys.iter().map(|k| router.route(k)).collect();
        Ok(Self { keys, hashed })
    }
}

/// The flows that a run begins without waiting for one to end, a million at the most.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub fn known_flows(fabric: &Arc<Fabric>, run: &Run) -> Result<Vec<FlowSpec>> {
    let mut workload = run.scenario.traffic.prepare(fabric, run.scenario.world.seed)?.workload;
    Ok(flows_known_at_start(&mut *workload, 1_000_000))
}

fn first_keys(fabric: &Arc<Fabric>, run: &Run) -> Result<Vec<FlowKey>> {
    let mut workload = run.scenario.traffic.prepare(fabric, run.scenario.world.seed)?.workload;
    let mut keys = Vec::new();
    while workload.next_start() == Some(Instant::ZERO) {
        let Some(flow) = workload.next_flow() else { break };
        keys.push(FlowKey::of_flow(keys.len() as u32, flow.src, flow.dst));
    }
    Ok(keys)
}

/// The part of the non-blocking switch's max-min rates that the fabric, whole as at the start, could carry if the flows that begin
/// at time 0 were split over all paths. `None` if there are none, or if it is too much to compute.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub fn splittable_optimum(fabric: &Arc<Fabric>, run: &Run) -> Result<Option<f64>> {
    let keys = first_keys(fabric, run)?;
    if keys.is_empty() {
        return Ok(None);
    }
    let (src, dst): (Vec<u32>, Vec<u32>) = keys.iter().map(|k| (k.src.0, k.dst.0)).unzip();
    let nic: Vec<f64> = fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64()).collect();
    let mut rates = Vec::new();
    DemandEstimator::default().estimate(&src, &dst, &nic, &mut rates).map_err(|e| at_control(e.into()))?;
    let demands: Vec<_> = keys.iter().zip(rates).map(|(k, rate)| (k.src, k.dst, rate)).collect();
    Ok(splittable_fraction(fabric, &Health::new(fabric), &demands))
}

/// Runs the scenario's scheduler once on its first flows.
///
/// # Errors
/// A scenario without a scheduler, or flows that it cannot take.
pub fn place(fabric: &Arc<Fabric>, run: &Run, first: &FirstFlows) -> Result<Placement> {
    Ok(place_once(Arc::clone(fabric), &first.keys, &need_scheduler(run)?).map_err(at_control)?)
}

fn need_scheduler(run: &Run) -> Result<HederaConfig> {
    let missing = || {
        let help = "choose one that does, such as `first-fit`";
        KeyError::new("control.scheduler", "there is no scheduler that places flows by their demands", help)
    };
    Ok(hedera_config(run).ok_or_else(missing)?)
}
