//! A run in a lab: it comes up, carries a workload while parts of it fail and return, is counted, and goes down.
//!
//! ```text
//!   Lab::up --> valiant --> +-- traffic: sockets of all hosts (one thread) ------------+
//!                           +-- watch: events at their times, counters of all ports ---+--> paths --> Outcome
//!                           +-- the caller: progress, and whether to stop -------------+
//!   down, whatever happens
//! ```

mod record;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use weft_fabric::record::Outcome;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Fabric, FlowId, Instant};

use crate::clock::RunClock;
use crate::counters::Cpu;
use crate::error::Result;
use crate::events::Event;
use crate::lab::{self, Lab};
use crate::plan::{LabName, Plan};
use crate::state::{self, Process};
use crate::traffic::requests::Asking;
use crate::traffic::{Beats, Board, Flow, Orders, Requests, Traffic};
use crate::valiant;
use watch::Watch;

/// A run.
pub struct Job {
    /// The lab; its rates are those of the fabric times its scale.
    pub plan: Plan,
    /// The file that it was made from, for `weft lab status`.
    pub scenario: PathBuf,
    /// Whether flows go by an intermediate switch.
    pub valiant: bool,
    /// What wants to move.
    pub load: Load,
    /// What fails and returns, in order of time.
    pub events: Vec<Event>,
    /// It ends then at the latest.
    pub duration: Option<Duration>,
    /// Flows whose congestion windows are noted.
    pub windows: Vec<FlowId>,
    /// How often.
    pub window_every: Duration,
}

/// What a run carries.
pub enum Load {
    /// Flows, as TCP connections.
    Flows(Box<dyn Workload>),
    /// Requests and responses, as datagrams.
    Requests(Requests),
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start of the traffic.
    pub now: Instant,
    /// Flows under way.
    pub active: usize,
    /// Flows that have ended.
    pub ended: usize,
}

/// Carries it. `fabric` is what the plan was made from, with the rates of the lab. When `stop` is set it ends soon, and nothing is left.
///
/// # Errors
/// [`crate::LabError`]; whatever it is, nothing is left.
pub fn carry(fabric: &Fabric, job: Job, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let Job { plan, scenario, valiant, load, events, duration, windows, window_every } = job;
    let end = duration.map_or(Instant::MAX, |d| Instant::ZERO + d);
    lab::need_root()?;
    remove_orphans();
    let standing = up(plan, scenario, stop, progress)?;
    let plan = &standing.0.record.plan;
    if valiant {
        valiant::install(plan, fabric, stop)?;
    }
    let board = Board::default();
    let times: Vec<Instant> = events.iter().map(|e| e.at).collect();
    let orders = Orders { end, sample_every: sample_every(duration), windows, window_every, events: times.clone() };
    let times = &times[..];
    let mut watch = Watch::open(plan, fabric, valiant, events.clone(), end, stop)?;
    let over = AtomicBool::new(false);
    let (carried, beats, watched, idle) = std::thread::scope(|scope| {
        let ends = Ends(&over);
        let (board, over) = (&board, &over);
        let (ready, start) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let (is_ready, go) = (ready.0, start.1);
        let traffic = scope.spawn(move || {
            let begun = || {
                let _ = is_ready.send(());
                go.recv().map_err(|_| crate::LabError::Interrupted)
            };
            match load {
                Load::Flows(workload) => {
                    let traffic = Traffic::new(plan, workload, orders, board)?;
                    Ok((traffic.run(begun()?, over)?, None))
                }
                Load::Requests(requests) => {
                    let asking = Asking::new(plan, requests, orders.end, orders.sample_every, board)?;
                    asking.run(begun()?, over).map(|(carried, totals)| (carried, Some(totals)))
                }
            }
        });
        // Nobody is ready if the listeners cannot be opened: the thread has ended then.
        let _ = ready.1.recv();
        let (clock, before) = (RunClock::start(), Cpu::now());
        let first = watch.begin(clock);
        let _ = start.0.send(clock);
        let beats = if times.is_empty() { None } else { Some(scope.spawn(move || beat(plan, clock, times, over))) };
        let watch = scope.spawn(move || first.and_then(|()| watch.run(clock, over)));
        while !traffic.is_finished() {
            std::thread::sleep(LOOK);
            let (active, ended) = (board.active.load(Ordering::Relaxed), board.ended.load(Ordering::Relaxed));
            progress(Progress { now: clock.now(), active, ended });
            if stop.load(Ordering::Relaxed) || watch.is_finished() {
                over.store(true, Ordering::Relaxed);
            }
        }
        let idle = Cpu::now().idle_since(before);
        drop(ends);
        (joined(traffic), beats.map_or_else(|| Ok(Vec::new()), joined), joined(watch), idle)
    });
    // What went wrong with the counters ended the traffic too.
    let watched = watched?;
    let (mut carried, requests) = carried?;
    carried.beats = beats?;
    let mut outcome = record::outcome(plan, fabric, carried, watched, &events, idle, stop)?;
    outcome.packets.as_mut().expect("packets are counted").requests = requests;
    Ok(outcome)
}

/// Watches ways from a thread of its own, which is moved between namespaces.
fn beat(plan: &Plan, clock: RunClock, events: &[Instant], over: &AtomicBool) -> Result<Vec<Flow>> {
    Ok(Beats::open(plan)?.run(clock, events, over))
}

/// A lab that goes with the run.
struct Standing(Lab);

impl Drop for Standing {
    fn drop(&mut self) {
        let name = &self.0.record.plan.name;
        if let Err(e) = lab::down(name) {
            tracing::warn!("something of the lab `{name}` is left, which `weft lab down --name {name}` removes: {e}");
        }
    }
}

/// A thread that is waited for ends, whatever becomes of the one that waits.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Brings the lab up on a thread of its own: the caller is told meanwhile that it goes on, and may want to stop.
fn up(plan: Plan, scenario: PathBuf, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Result<Standing> {
    let given_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&given_up);
        let given_up = &given_up;
        let building =
            scope.spawn(move || Lab::up_for(Some(Process::own()), plan, &scenario, given_up).map(|(lab, _)| Standing(lab)));
        while !building.is_finished() {
            std::thread::sleep(LOOK);
            progress(Progress { now: Instant::ZERO, active: 0, ended: 0 });
            if stop.load(Ordering::Relaxed) {
                given_up.store(true, Ordering::Relaxed);
            }
        }
        let standing = joined(building);
        drop(ends);
        standing
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Often enough for a recovery of some tens of milliseconds, unless the run is long.
fn sample_every(duration: Option<Duration>) -> Duration {
    let few = duration.map_or(0, |d| d.as_ps() / SAMPLES_MAX);
    Duration::from_ps(few.max(SAMPLE_LEAST.as_ps()))
}

/// The name of the lab of a run of this process.
pub fn name_of_run() -> LabName {
    format!("{OF_RUNS}{:x}", std::process::id()).parse().expect("letters and digits")
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

/// Whether it is the lab of a run that has ended. One that has no record was not yet, or is no longer, what a run carries by: its name tells whose it is.
fn is_orphan(name: &LabName) -> bool {
    match state::read(name) {
        Ok(record) => record.owner.is_some_and(|owner| !owner.is_alive()),
        Err(_) => {
            let process = name.as_str().strip_prefix(OF_RUNS).and_then(|pid| u32::from_str_radix(pid, 16).ok());
            process.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        }
    }
}

const OF_RUNS: &str = "run";

const LOOK: StdDuration = StdDuration::from_millis(20);
const SAMPLE_LEAST: Duration = Duration::from_ms(10);
const SAMPLES_MAX: u64 = 30_000;
