//! Runs of flows and requests: in the flow world, in the packet world, and in the lab.

use std::sync::Arc;

use weft_fabric::record::{Outcome, TcpRecord};
use weft_fabric::routing::{Router, Routing};
use weft_fabric::{Duration, Fabric};
use weft_sim::flow::{AimdParams, FlowConfig, FlowWorld, Rates};
use weft_sim::packet::{PacketConfig, PacketWorld, Trace};
use weft_sim::world::{Overlay, Progress, TimedEvent};

use super::control::Scheduling;
use super::events::timed_events;
use super::{lab, packet};
use crate::error::{KeyError, Result};
use crate::scenario::Scenario;
use crate::scenario::traffic::flows::{Flows, number_by_line};
use crate::scenario::world::{self, Kind};
use crate::trust::Regime;

/// Flows, and what they are run with.
pub struct FlowRun {
    /// The workload.
    pub flows: Flows,
    /// Failures and repairs.
    pub events: Vec<TimedEvent>,
    scheduling: Scheduling,
    engine: Engine,
}

/// The world that runs the flows, with its settings.
enum Engine {
    Flow(FlowConfig),
    Packet(Box<PacketConfig>),
    Lab(Box<lab::LabRun>),
}

/// Builds and checks a run on a network; `fabric` is the same before its rates are scaled, as for a lab.
///
/// # Errors
/// Traffic or settings that the network cannot have, and events that name parts which it does not have.
pub fn prepare(network: &Arc<Fabric>, fabric: &Fabric, scenario: &Scenario) -> Result<FlowRun> {
    let lab = if scenario.world.kind == Kind::Lab { Some(lab::prepare(network, fabric, scenario)?) } else { None };
    let events = timed_events(network, &scenario.events)?;
    let flows = scenario.traffic.flows(network, scenario.world.seed)?;
    let engine = match lab {
        Some(lab) => Engine::Lab(Box::new(lab)),
        None if scenario.world.kind == Kind::Packet => Engine::Packet(Box::new(packet::config(network, scenario)?)),
        None => {
            let overlay = scenario.overlay.agents(network.host_count());
            Engine::Flow(FlowConfig { overlay, ..flow_config(scenario) })
        }
    };
    Ok(FlowRun { flows, events, scheduling: Scheduling::of(scenario)?, engine })
}

impl FlowRun {
    /// Runs the flows on up to `threads` cores; `progress` receives the time and the flows that have ended.
    ///
    /// # Errors
    /// What fails in a lab, and flows that never end in a run without an end.
    pub fn execute(
        self,
        network: &Arc<Fabric>,
        scenario: &Scenario,
        threads: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome> {
        let Self { flows, events, scheduling, engine } = self;
        let router = || Router::new(Arc::clone(network), scenario.control.routing, scenario.world.seed);
        let (fabric, workload) = (Arc::clone(network), flows.begin());
        let mut outcome = match engine {
            Engine::Flow(config) => {
                let (router, controller) = (router(), scheduling.controller(network)?);
                FlowWorld { fabric, router, controller, workload, events, config }.run(progress)
            }
            Engine::Packet(config) => {
                let (router, controller) = (router(), scheduling.controller(network)?);
                let config = PacketConfig { threads, ..*config };
                packet::execute(PacketWorld { fabric, router, controller, workload, events, config }, progress)?
            }
            Engine::Lab(lab) => {
                if let Some(warning) = Regime::of(network, scenario, Some(&flows)).and_then(|regime| regime.warning()) {
                    tracing::warn!("{warning}");
                }
                lab.execute(network, scenario, workload, progress)?
            }
        };
        if scenario.world.duration.is_none() {
            all_ended(&outcome)?;
        }
        number_by_line(flows.lines(), &mut outcome.flows);
        if let (Some(lines), Some(lab)) = (flows.lines(), &mut outcome.lab) {
            let taken = std::mem::take(&mut lab.tcp);
            lab.tcp = vec![TcpRecord::default(); taken.len()];
            taken.into_iter().zip(lines).for_each(|(tcp, line)| lab.tcp[line.index()] = tcp);
        }
        Ok(outcome)
    }
}

/// A run without a duration lasts until its flows have ended, so they must.
fn all_ended(outcome: &Outcome) -> Result<(), KeyError> {
    let refused = outcome.overlay.as_ref().map_or(&[][..], |overlay| &overlay.refused);
    match outcome.flows.iter().find(|f| f.end.is_none() && refused.binary_search(&f.id).is_err()) {
        None => Ok(()),
        Some(flow) => Err(KeyError::new(
            "world",
            format!("the flow from host {} to host {} can never end, and so neither can the run", flow.src, flow.dst),
            "add `duration = \"60s\"` to [world], or a `restore` of what fails",
        )),
    }
}

/// Runs the same flows, drawn on their own fabric, on a non-blocking switch without scheduler or failures. `on_progress` is called often.
///
/// # Errors
/// Settings of packets that the fabric cannot have.
pub fn execute_ideal(
    network: &Fabric,
    ideal: &Arc<Fabric>,
    scenario: &Scenario,
    flows: &Flows,
    on_progress: &mut dyn FnMut(),
) -> Result<Outcome> {
    let router = Router::new(Arc::clone(ideal), Routing::default(), scenario.world.seed);
    let (fabric, controller, workload, events) = (Arc::clone(ideal), None, flows.begin(), Vec::new());
    if scenario.world.kind == Kind::Packet {
        let config = packet::config(network, scenario)?;
        let overlay = rules_alone(config.overlay);
        let config = PacketConfig { link_samples: 0, trace: Trace::default(), overlay, ..config };
        let world = PacketWorld { fabric, router, controller, workload, events, config };
        return packet::execute(world, &mut |_| on_progress());
    }
    let overlay = rules_alone(scenario.overlay.agents(network.host_count()));
    let config = FlowConfig { link_samples: 0, overlay, ..flow_config(scenario) };
    Ok(FlowWorld { fabric, router, controller, workload, events, config }.run(&mut |_| on_progress()))
}

/// The ideal switch refuses the same flows, and costs nothing.
fn rules_alone(overlay: Overlay) -> Overlay {
    Overlay { services: overlay.services, ..Overlay::default() }
}

fn flow_config(scenario: &Scenario) -> FlowConfig {
    let (world, control) = (&scenario.world, &scenario.control);
    FlowConfig {
        rates: match world.rates {
            world::Rates::MaxMin { .. } => Rates::MaxMin,
            world::Rates::Aimd { tick, increase } => {
                Rates::Aimd(AimdParams { tick, increase_bytes_per_s: increase.0, ..AimdParams::default() })
            }
            world::Rates::Slots => Rates::Slots { flows_per_host: scenario.traffic.flows_per_host() },
        },
        duration: world.duration.unwrap_or(Duration::MAX),
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        tolerance: if let world::Rates::MaxMin { tolerance } = world.rates { tolerance } else { 0.0 },
        ..FlowConfig::new(Rates::MaxMin, world.seed)
    }
}
