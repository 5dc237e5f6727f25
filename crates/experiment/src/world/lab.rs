//! The settings of a run as a lab takes them: real packets on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_control::subways::{DetourConfig, SubwaysConfig};
use weft_control::wire::subways::HOPS_MAX;
use weft_fabric::record::Outcome;
use weft_fabric::routing::{HashFields, Router, RoutingKind};
use weft_fabric::time::NsDuration;
use weft_fabric::traffic::Workload;
use weft_fabric::traffic::tenants::TenantWorkload;
use weft_fabric::{Duration, Fabric, Instant};
use weft_lab::events::{Event, EventSpec, Verb};
use weft_lab::need_root;
use weft_lab::plan::netlord::{Exchange, MTU_VM, Reach};
use weft_lab::plan::openflow::{SchedulerKind, SchedulerSpec};
use weft_lab::plan::vl2::{LocatorKind, ServiceSpec, Vl2Spec};
use weft_lab::plan::{MTU_FABRIC, MTU_HOST, Plan, PlanError, Routing, Settings, Timers};
use weft_lab::run::{Job, Load, execute, name_of_run};
use weft_lab::traffic::{PORT, PORT_FIRST, Requests, Transport};
use weft_sim::packet::{Trace, TransportKind};
use weft_sim::world::Progress;

use super::packet;
use crate::error::{KeyError, Problem, Result};
use crate::scenario::Scenario;
use crate::scenario::control::{Bridging, Control, Scheduler};
use crate::scenario::lab::{NIC_QUEUE, SWITCH_QUEUE, delay_left_out};
use crate::scenario::lab_tenants::store;
use crate::scenario::overlay::{Kind, Locator, OverlaySpec, Service};
use crate::scenario::tenants::{Scale, TenantLoad};
use crate::scenario::traffic::Traffic;
use crate::scenario::world::{EventKind, LabRouting, LabSettings, Ospf};

/// Why no lab can come up here; `None` if one can.
pub fn unavailable() -> Option<String> {
    need_root().is_err().then(|| "a lab needs root".to_owned())
}

/// Fails where no lab can come up.
///
/// # Errors
/// The reason, and the next step.
pub fn need() -> Result<()> {
    Ok(need_root()?)
}

/// Asks a run in a lab to end; `false` if there is none.
pub fn stop() -> bool {
    STOP.store(true, Ordering::Relaxed);
    RUNNING.load(Ordering::Relaxed)
}

/// A run that is ready to start in the lab.
pub struct LabRun {
    plan: Plan,
    events: Vec<Event>,
    /// The load, if it is other than the flows of the scenario.
    load: Option<Load>,
    trace: Trace,
    /// Delay of the links, which the lab cannot have.
    delay: Option<Duration>,
}

/// Builds and checks a run: `network` has the rates of the lab, `fabric` those of the scenario.
///
/// # Errors
/// Settings that a lab cannot have.
pub(super) fn prepare(network: &Fabric, fabric: &Fabric, scenario: &Scenario) -> Result<LabRun> {
    check(scenario)?;
    let trace = scenario.trace.on(network)?;
    let (plan, events) = plan(fabric, scenario)?;
    let load = match (requests(network, scenario)?, &scenario.traffic) {
        (Some(requests), _) => Some(Load::Requests(requests)),
        (None, Traffic::Tenants(load)) => Some(Load::Flows(shuffles(&plan, load, scenario.world.seed))),
        (None, _) => None,
    };
    Ok(LabRun { plan, events, load, trace, delay: delay_left_out(network) })
}

impl LabRun {
    /// Runs the flows. Labs come up one after another.
    pub(super) fn execute(
        self,
        network: &Arc<Fabric>,
        scenario: &Scenario,
        flows: Box<dyn Workload>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome> {
        need()?;
        let Self { plan, events, load, trace, delay } = self;
        if let Some(delay) = delay {
            tracing::warn!("the lab cannot delay packets: the links' delay of {delay} is left out");
        }
        if trace.port.is_some() || !trace.queues.is_empty() {
            tracing::warn!("the lab traces windows alone: `queues` and `pcap` of [trace] are ignored");
        }
        let duration = scenario.world.duration;
        let job = Job {
            plan,
            scenario: PathBuf::from(&scenario.title),
            // An overlay bounces packets by itself.
            vlb: scenario.control.routing.kind == RoutingKind::Vlb && scenario.overlay.kind == Kind::None,
            router: Router::new(Arc::clone(network), scenario.control.routing, scenario.world.seed),
            load: load.unwrap_or(Load::Flows(flows)),
            transport: transport(network, scenario),
            events,
            duration,
            windows: trace.windows,
            window_every: trace.every,
        };
        let end = duration.map_or(Instant::MAX, |d| Instant::ZERO + d);
        let mut on_progress = |p: weft_lab::run::Progress| {
            progress(Progress { now: p.now, end, active: p.active, ended: p.ended, events: 0 });
        };
        let _running = Running::begin();
        Ok(execute(network, job, &STOP, &mut on_progress)?)
    }
}

fn check(scenario: &Scenario) -> Result<()> {
    let control = &scenario.control;
    let refuse = |key: &str, message: &str, help: &str| Err(KeyError::new(key, message, help).into());
    if scenario.traffic.is_directory() {
        return refuse("traffic.pattern", "the lab runs no load of a directory", "`weft bench directory` measures the real one");
    }
    if matches!(scenario.traffic, Traffic::NlArp(_)) {
        return refuse("traffic.pattern", "the lab runs no load of NL-ARP", "write kind = \"flow\" in [world]");
    }
    if scenario.traffic.is_requests() && scenario.world.duration.is_none() {
        return Err(KeyError::at("world", Problem::Endless { what: "these requests never end" }).into());
    }
    check_scheduler(scenario)?;
    if let Traffic::Tenants(load) = &scenario.traffic {
        check_tenants(scenario, load)?;
    } else if !matches!(control.routing.kind, RoutingKind::Ecmp | RoutingKind::Vlb) {
        return refuse("control.routing", "the lab spreads flows over all shortest paths", "write routing = \"ecmp\" or \"vlb\"");
    } else if scenario.lab_routing() == LabRouting::Openflow && control.routing.kind != RoutingKind::Ecmp {
        let message = "with routing = \"openflow\" in [world] the switches' rules spread flows over all shortest paths";
        return refuse("control.routing", message, "write routing = \"ecmp\"");
    }
    if control.routing.hash != HashFields::FiveTuple {
        return refuse("control.hash", "the lab's switches hash the five-tuple", "write hash = \"5-tuple\"");
    }
    if control.routing.polarised {
        return refuse("control.polarised", "the lab's switches have seeds of their own", "leave it out");
    }
    check_transport(scenario)
}

/// The kernel's TCP, or its MPTCP between hosts that have a locator on each NIC.
fn check_transport(scenario: &Scenario) -> Result<()> {
    let refuse = |message: &str, help: &str| Err(KeyError::new("transport.kind", message, help).into());
    let has_overlay = scenario.lab_tenants.is_some() || scenario.overlay.kind != Kind::None;
    match scenario.transport.transport.kind {
        TransportKind::NewReno | TransportKind::Cubic => Ok(()),
        TransportKind::Mptcp { .. } if has_overlay => {
            refuse("below an overlay a host has one address", "leave `kind` out, or `[overlay]`")
        }
        TransportKind::Mptcp { .. } if scenario.lab_routing() == LabRouting::Openflow => {
            refuse("a scheduler would move only one subflow", "leave `kind` out, or write routing = \"frr\" in [world]")
        }
        TransportKind::Mptcp { .. } if scenario.traffic.is_requests() => refuse("requests are datagrams", "leave `kind` out"),
        TransportKind::Mptcp { .. } => Ok(()),
        TransportKind::Dctcp => {
            refuse("the lab's hosts use the kernel's TCP, which is CUBIC", "leave `kind` out, or write kind = \"mptcp\"")
        }
    }
}

/// The transport protocol of flows.
fn transport(network: &Fabric, scenario: &Scenario) -> Transport {
    match packet::transport(network, scenario).kind {
        TransportKind::Mptcp { subflows } => Transport::Mptcp { subflows },
        TransportKind::NewReno | TransportKind::Cubic | TransportKind::Dctcp => Transport::Tcp,
    }
}

/// Hedera's schedulers install rules by OpenFlow, or placements by VL2's agents; that of Subways steers agents of hosts with several NICs.
fn check_scheduler(scenario: &Scenario) -> Result<(), KeyError> {
    let scheduler = scenario.control.scheduler;
    let has_agents = matches!(scenario.overlay.kind, Kind::Vl2 { .. });
    let is_steered = has_agents || scenario.lab_routing() == LabRouting::Openflow;
    if scheduler.is_subways() {
        return check_access(scenario, has_agents || scenario.lab_tenants.is_some());
    }
    match scenario.world.lab.routing {
        _ if scheduler == Scheduler::None || (scheduler.is_hedera() && is_steered) => Ok(()),
        Some(given) if scheduler.is_hedera() => {
            let message = format!("with routing = \"{}\" in [world] the lab's switches alone choose paths", given.name());
            let help = "write routing = \"openflow\" in [world] or kind = \"vl2\" in [overlay], or leave `control.scheduler` out";
            Err(KeyError::new("control.scheduler", message, help))
        }
        _ => Err(KeyError::no_scheduler("in the lab switches alone choose paths")),
    }
}

/// Agents choose the NICs of TCP between hosts with several.
fn check_access(scenario: &Scenario, has_overlay: bool) -> Result<(), KeyError> {
    let refuse = |key: &str, message: &str, help: &str| Err(KeyError::new(key, message, help));
    if has_overlay {
        return refuse("control.scheduler", "below an overlay hosts have one NIC", "leave `[overlay]` out");
    }
    if scenario.traffic.is_requests() {
        return refuse("control.scheduler", "requests are datagrams, and agents choose NICs for TCP", "leave `scheduler` out");
    }
    if matches!(scenario.transport.transport.kind, TransportKind::Mptcp { .. }) {
        let message = "MPTCP chooses among NICs by itself, and agents would choose again";
        return refuse("transport.kind", message, "leave `kind` out, or `control.scheduler`");
    }
    if scenario.control.given_period.is_some_and(|period| period < ACCESS_LEAST) {
        return refuse(
            "control.period",
            "agents of a lab report each 20 ms at most",
            "write 40ms or more, or leave it out for 200ms",
        );
    }
    if scenario.control.subways.detour.is_some_and(|detour| detour.max_servers > HOPS_MAX) {
        let help = format!("write {HOPS_MAX} or 1");
        return refuse(
            "control.max_detour_servers",
            "agents of a lab write headers for so many servers at each end of a flow",
            &help,
        );
    }
    Ok(())
}

/// Tenants of a lab are those of NetLord, in one trial.
fn check_tenants(scenario: &Scenario, load: &TenantLoad) -> Result<(), KeyError> {
    if scenario.lab_tenants.is_none() {
        let help = "write kind = \"netlord\" in [overlay], or kind = \"packet\" in [world]";
        return Err(KeyError::new("overlay.kind", "tenants of a lab are NetLord's", help));
    }
    if scenario.control.bridging != Some(Bridging::Spain) {
        let help = "write routing = \"spain\"";
        return Err(KeyError::new("control.routing", "in a lab tenants' frames go over SPAIN's VLANs", help));
    }
    if load.trials != 1 {
        let help = "write trials = 1, and `seeds = 3` in [world] for several";
        return Err(KeyError::new("traffic.trials", "a run in the lab is one trial", help));
    }
    if load.scale != Scale::WHOLE {
        let help = "leave it out, and write `scale` in [world], which divides the rates of links";
        return Err(KeyError::new("traffic.scale", "a lab has all its tenants", help));
    }
    Ok(())
}

/// The shuffles of a plan's tenants, among VMs that reach each other.
fn shuffles(plan: &Plan, load: &TenantLoad, seed: u64) -> Box<dyn Workload> {
    let Some(netlord) = plan.overlay.netlord() else { unreachable!("it was checked that they are NetLord's") };
    let (reach, vms) = (Reach::of(netlord), netlord.vms.clone());
    let reaches = move |a: u32, b: u32| reach.has(&vms[a as usize], &vms[b as usize], FLOWS);
    Box::new(TenantWorkload::new(&netlord.tenant_sizes(), load.shuffle(), Box::new(reaches), seed))
}

/// The requests of a run, if those are its load; the ones within its window count.
fn requests(fabric: &Fabric, scenario: &Scenario) -> Result<Option<Requests>> {
    let world = &scenario.world;
    let Some(load) = scenario.traffic.requests(fabric, world.seed)? else { return Ok(None) };
    let end = world.duration.unwrap_or(Duration::MAX).as_ps() - world.cooldown.as_ps();
    Ok(Some(Requests { load, from: Instant::ZERO + world.warmup, to: Instant::from_ps(end) }))
}

/// The lab of a run, and its events.
fn plan(fabric: &Fabric, scenario: &Scenario) -> Result<(Plan, Vec<Event>)> {
    let world = &scenario.world;
    let settings = Settings {
        name: name_of_run(),
        routing: routing(scenario.lab_routing()),
        timers: timers(world.lab),
        scale: world.lab.scale,
        seed: world.seed,
        switch_queue: world.queues.of_port().unwrap_or(SWITCH_QUEUE),
        nic_queue: world.queues.nic.unwrap_or(NIC_QUEUE),
    };
    let plan = Plan::new(fabric, &settings).map(|plan| plan.with_scheduler(scheduler(&scenario.control, world.seed)));
    let plan = plan.and_then(|plan| match &scenario.lab_tenants {
        Some(tenants) => plan.with_netlord(fabric, tenants),
        None => {
            let plan = laid_over(plan, fabric, &scenario.overlay)?;
            let plan = plan.with_agent_scheduler(fabric, scheduler(&scenario.control, world.seed))?;
            with_access(plan, fabric, &scenario.control, world.seed)
        }
    });
    let plan = plan.map_err(KeyError::from)?;
    let events = &scenario.events;
    let specs: Vec<EventSpec<'_>> = events.iter().map(|e| EventSpec { at: e.at, verb: verb(e.kind), object: &e.part }).collect();
    let resolved = weft_lab::events::resolve(plan, fabric, &specs);
    resolved.map_err(|(index, error)| KeyError::new(events[index].key.clone(), error.to_string(), error.help()).into())
}

const fn verb(kind: EventKind) -> Verb {
    match kind {
        EventKind::Fail => Verb::Fail,
        EventKind::FailSilent => Verb::FailSilent,
        EventKind::Restore => Verb::Restore,
        EventKind::Kill => Verb::Kill,
        EventKind::Restart => Verb::Restart,
        EventKind::Move => Verb::Move,
        EventKind::Forge => Verb::Forge,
    }
}

/// A plan with the overlay of a scenario.
///
/// # Errors
/// A fabric that cannot have it.
pub fn laid_over(plan: Plan, fabric: &Fabric, spec: &OverlaySpec) -> std::result::Result<Plan, PlanError> {
    let Kind::Vl2 { locator, ecmp_width, dhcp } = spec.kind else { return Ok(plan) };
    let service = |s: &Service| ServiceSpec { name: s.name.clone(), hosts: s.hosts.clone(), allow: s.allow.clone() };
    let locator = match locator {
        Locator::Tor => LocatorKind::Tor,
        Locator::Host => LocatorKind::Host,
    };
    let services = spec.services.iter().map(service).collect();
    let vl2 = Vl2Spec { locator, ecmp_width, services, external: spec.external.clone() };
    let plan = plan.with_vl2(fabric, &vl2)?.with_directory(spec.directory.servers, store(spec.directory.store))?;
    Ok(if dhcp { plan.with_dhcp() } else { plan })
}

/// A plan with agents that choose the NICs of flows, if the scenario has Subways' scheduler.
///
/// # Errors
/// A fabric that cannot be written.
pub fn with_access(plan: Plan, fabric: &Fabric, control: &Control, seed: u64) -> std::result::Result<Plan, PlanError> {
    if !control.scheduler.is_subways() {
        return Ok(plan);
    }
    // Real counters come by reports, and those over links of some Mbps.
    let period = control.given_period.unwrap_or(ACCESS_PERIOD);
    let detour = control.subways.detour.map(|detour| {
        let detect = detour.detect.max(period);
        DetourConfig { detect, hot_duration: detour.hot_duration.max(detect), ..detour }
    });
    plan.with_access(fabric, &SubwaysConfig { period, seed, detour, ..control.subways })
}

/// Who finds the routes.
pub fn routing(routing: LabRouting) -> Routing {
    match routing {
        LabRouting::Frr => Routing::Frr,
        LabRouting::Static => Routing::Static,
        LabRouting::Openflow => Routing::Openflow,
    }
}

/// The settings of the lab's scheduler. Those of Subways, which move flows between NICs, are not for it.
pub fn scheduler(control: &Control, seed: u64) -> SchedulerSpec {
    let kind = match control.scheduler {
        Scheduler::None | Scheduler::Adaptive | Scheduler::Detour => SchedulerKind::None,
        Scheduler::FirstFit => SchedulerKind::FirstFit,
        Scheduler::Annealing => SchedulerKind::Annealing,
        Scheduler::AnnealingPerFlow => SchedulerKind::AnnealingPerFlow,
        Scheduler::EdgeColoring => SchedulerKind::EdgeColoring,
    };
    let Control { period, threshold, iterations, annealing_c: c, .. } = *control;
    SchedulerSpec { kind, period_ns: period.as_ns(), threshold, seed, iterations, c }
}

/// How soon OSPF notices.
pub fn timers(lab: LabSettings) -> Timers {
    match lab.ospf {
        Ospf::Fast => Timers::FAST,
        Ospf::Default => Timers::DEFAULT,
        Ospf::Timers { hello_s, dead_s, bfd, broadcast } => Timers { hello_s, dead_s, bfd, broadcast, patient: false },
    }
}

/// Fraction of payload on a busy link: segments of 1448 bytes in frames of 1514, and for every second one a frame of 66. Below an overlay
/// segments are as large as two more headers of 20 bytes allow in packets of 1600; below NetLord, as 34 do, and each frame has a tag.
pub fn payload_fraction(scenario: &Scenario) -> f64 {
    let (packet, headers) = match scenario.overlay.kind {
        Kind::None if scenario.lab_tenants.is_some() => (f64::from(MTU_FABRIC) + TAG, f64::from(MTU_FABRIC - MTU_VM) + TAG),
        Kind::None => (f64::from(MTU_HOST), 0.0),
        Kind::Vl2 { .. } => (f64::from(MTU_FABRIC), 40.0),
    };
    let (ethernet, tcp) = (14.0, 52.0);
    (packet - headers - tcp) / (ethernet + packet + (ethernet + headers + tcp) / 2.0)
}

/// From one round of a lab's adaptive scheduler to the next, unless the scenario says otherwise, and the least: agents report twice in a round.
const ACCESS_PERIOD: NsDuration = NsDuration::from_ms(200);
/// See [`ACCESS_PERIOD`].
const ACCESS_LEAST: NsDuration = NsDuration::from_ms(40);
/// A VLAN tag.
const TAG: f64 = 4.0;
/// What flows are, to virtual routers' rules.
const FLOWS: Exchange = Exchange::Tcp(PORT_FIRST, PORT);

/// While it lives, a lab of this process is there.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.store(true, Ordering::Relaxed);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
    }
}

static RUNNING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
