//! A run in a lab: the lab comes up, runs a workload while events happen, is measured, and goes down.
//!
//! ```text
//!   Lab::up --> VLB --> +-- traffic: sockets of all hosts (one thread) --------------+
//!                       +-- monitor: events at their times, counters of all ports ---+--> paths --> Outcome
//!                       +-- the caller: progress, and whether to stop ---------------+
//!   down, also after errors
//! ```

mod monitor;
mod record;
mod waits;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use weft_fabric::record::Outcome;
use weft_fabric::routing::Router;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Fabric, FlowId, Instant};

use crate::clock::RunClock;
use crate::counters::Cpu;
use crate::error::Result;
use crate::events::Event;
use crate::lab::{self, Lab};
use crate::plan::{LabName, Plan};
use crate::state::{self, Process};
use crate::traffic::{
    Flow, FlowTraffic, NicSelection, Probes, ProgressCounters, RequestTraffic, Requests, TrafficSettings, Transport, mptcp,
};
use crate::vlb;
use monitor::Monitor;

/// A run.
pub struct Job {
    /// The lab; its rates are those of the fabric times its scale.
    pub plan: Plan,
    /// The file that it was made from, for `weft lab status`.
    pub scenario: PathBuf,
    /// Whether switches use Valiant Load Balancing.
    pub vlb: bool,
    /// Selects the NICs of flows between hosts with several, as in the simulated worlds.
    pub router: Router,
    /// The traffic.
    pub load: Load,
    /// The transport protocol of flows.
    pub transport: Transport,
    /// Events, in order of time.
    pub events: Vec<Event>,
    /// The time limit of the traffic.
    pub duration: Option<Duration>,
    /// Flows whose congestion windows are sampled.
    pub windows: Vec<FlowId>,
    /// The interval of these samples.
    pub window_every: Duration,
}

/// The traffic of a run.
pub enum Load {
    /// Flows, as TCP connections.
    Flows(Box<dyn Workload>),
    /// Requests and responses, as datagrams.
    Requests(Requests),
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start of the traffic.
    pub now: Instant,
    /// Open flows.
    pub active: usize,
    /// Flows that have ended.
    pub ended: usize,
}

/// Executes a run. `fabric` is that of the plan, with the rates of the lab. When `stop` is set it ends soon, and nothing is left.
///
/// # Errors
/// [`crate::LabError`]; nothing is left in any case.
pub fn execute(fabric: &Fabric, job: Job, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let Job { plan, scenario, vlb, router, load, transport, events, duration, windows, window_every } = job;
    let end = duration.map_or(Instant::MAX, |d| Instant::ZERO + d);
    lab::need_root()?;
    if transport != Transport::Tcp {
        mptcp::check()?;
    }
    remove_orphans();
    let lab = up(plan, scenario, stop, progress)?;
    let plan = &lab.0.record.plan;
    if vlb {
        vlb::install(plan, fabric, stop)?;
    }
    let counters = ProgressCounters::default();
    let times: Vec<Instant> = events.iter().map(|e| e.at).collect();
    let settings =
        TrafficSettings { transport, end, sample_every: sample_every(duration), windows, window_every, events: times.clone() };
    let times = &times[..];
    let has_choice = plan.overlay.is_none() && fabric.hosts().any(|h| fabric.out(h.node()).len() > 1);
    let nics = has_choice.then(|| NicSelection::new(fabric, router, &events));
    let mut monitor = Monitor::open(plan, fabric, vlb, events.clone(), end, stop)?;
    let over = AtomicBool::new(false);
    let (traffic, probes, measured, cpu) = std::thread::scope(|scope| {
        let guard = SetOnDrop(&over);
        let (counters, over) = (&counters, &over);
        let (ready, start) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let (is_ready, go) = (ready.0, start.1);
        let traffic = scope.spawn(move || {
            let start = || {
                let _ = is_ready.send(());
                go.recv().map_err(|_| crate::LabError::Interrupted)
            };
            match load {
                Load::Flows(workload) => {
                    let traffic = FlowTraffic::new(plan, nics, workload, settings, counters)?;
                    Ok((traffic.run(start()?, over)?, None))
                }
                Load::Requests(requests) => {
                    let traffic = RequestTraffic::new(plan, requests, settings.end, settings.sample_every, counters)?;
                    traffic.run(start()?, over).map(|(outcome, totals)| (outcome, Some(totals)))
                }
            }
        });
        // If the listeners cannot be opened the thread ends, and the channel with it.
        let _ = ready.1.recv();
        let (clock, before) = (RunClock::start(), Cpu::now());
        let first = monitor.begin(clock);
        let _ = start.0.send(clock);
        let probes = if times.is_empty() { None } else { Some(scope.spawn(move || probe(plan, clock, times, over))) };
        let monitor = scope.spawn(move || first.and_then(|()| monitor.run(clock, over)));
        while !traffic.is_finished() {
            std::thread::sleep(POLL);
            let (active, ended) = (counters.active.load(Ordering::Relaxed), counters.ended.load(Ordering::Relaxed));
            progress(Progress { now: clock.now(), active, ended });
            if stop.load(Ordering::Relaxed) || monitor.is_finished() {
                over.store(true, Ordering::Relaxed);
            }
        }
        let after = Cpu::now();
        let cpu = (after.idle_since(before), after.own_since(before));
        drop(guard);
        (joined(traffic), probes.map_or_else(|| Ok(Vec::new()), joined), joined(monitor), cpu)
    });
    // An error of the monitor ends the traffic too, so it is reported first.
    let measured = measured?;
    let (mut traffic, requests) = traffic?;
    traffic.probes = probes?;
    let mut outcome = record::outcome(plan, fabric, traffic, measured, &events, cpu, stop)?;
    outcome.packets.as_mut().expect("packets are counted").requests = requests;
    Ok(outcome)
}

/// Sends probes from a thread of its own, which changes namespaces.
fn probe(plan: &Plan, clock: RunClock, events: &[Instant], over: &AtomicBool) -> Result<Vec<Flow>> {
    Ok(Probes::open(plan)?.run(clock, events, over))
}

/// A lab that is removed at the end of the run.
struct RunLab(Lab);

impl Drop for RunLab {
    fn drop(&mut self) {
        let name = &self.0.record.plan.name;
        if let Err(e) = lab::down(name) {
            tracing::warn!("parts of the lab `{name}` are left, which `weft lab down --name {name}` removes: {e}");
        }
    }
}

/// Sets a flag when it is dropped, so that other threads end also after an error or a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Brings the lab up on a thread of its own, while the caller gets progress and can stop.
fn up(plan: Plan, scenario: PathBuf, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Result<RunLab> {
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = SetOnDrop(&cancelled);
        let cancelled = &cancelled;
        let building =
            scope.spawn(move || Lab::up_for(Some(Process::own()), plan, &scenario, cancelled).map(|(lab, _)| RunLab(lab)));
        while !building.is_finished() {
            std::thread::sleep(POLL);
            progress(Progress { now: Instant::ZERO, active: 0, ended: 0 });
            if stop.load(Ordering::Relaxed) {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
        let lab = joined(building);
        drop(guard);
        lab
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The interval of samples: short enough to show recoveries of some tens of milliseconds, unless the run is long.
fn sample_every(duration: Option<Duration>) -> Duration {
    let long = duration.map_or(0, |d| d.as_ps() / SAMPLES_MAX);
    Duration::from_ps(long.max(SAMPLE_MIN.as_ps()))
}

/// The name of the lab of a run of this process.
pub fn name_of_run() -> LabName {
    format!("{RUN_PREFIX}{:x}", std::process::id()).parse().expect("letters and digits")
}

/// Removes the labs of runs whose process was killed.
fn remove_orphans() {
    for name in lab::names() {
        if is_orphan(&name) {
            tracing::warn!("removing the lab `{name}` of a run that was killed");
            if let Err(e) = lab::down(&name) {
                tracing::warn!("`weft lab down --name {name}` removes what is left of it: {e}");
            }
        }
    }
}

/// Whether a lab belongs to a run that has ended. Of a lab without a record, whose setup or removal was interrupted, the name contains the process.
fn is_orphan(name: &LabName) -> bool {
    match state::read(name) {
        Ok(record) => record.owner.is_some_and(|owner| !owner.is_alive()),
        Err(_) => {
            let process = name.as_str().strip_prefix(RUN_PREFIX).and_then(|pid| u32::from_str_radix(pid, 16).ok());
            process.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        }
    }
}

const RUN_PREFIX: &str = "run";

const POLL: StdDuration = StdDuration::from_millis(20);
const SAMPLE_MIN: Duration = Duration::from_ms(10);
const SAMPLES_MAX: u64 = 30_000;
