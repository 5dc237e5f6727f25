//! The thread that applies events at their times, and reads all counters at equal intervals, while the traffic runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use weft_fabric::record::{BridgeTotals, ControlRecord, CpuWait, Forged};
use weft_fabric::{Duration, Fabric, Instant, LinkId, NodeId};

use super::waits::Waits;
use crate::clock::RunClock;
use crate::counters::{Counters, LinkCounters};
use crate::error::{LabError, Result};
use crate::events::{self, Change, Event, Injector, Program};
use crate::netlord;
use crate::openflow::scheduler::Activity;
use crate::plan::{Plan, PortId};

/// The measurements of a run.
pub(super) struct Measurements {
    /// By time; the first is at the start, the last at the end.
    pub readings: Vec<Reading>,
    /// Links that lost packets silently, each with the time of the last reading that showed it.
    pub lost: Vec<(LinkId, Instant)>,
    /// Counters of NetLord's bridges, over the run.
    pub bridges: Option<BridgeTotals>,
    /// The outcome of forged frames.
    pub forged: Option<Forged>,
    /// What the scheduler of the switches did.
    pub control: ControlRecord,
    /// The longest wait of a program for a processor.
    pub longest_wait: Option<CpuWait>,
}

/// All counters at one time.
pub(super) struct Reading {
    pub at: Instant,
    pub links: Vec<LinkCounters>,
}

/// The monitor.
pub(super) struct Monitor<'a> {
    fabric: &'a Fabric,
    injector: Injector<'a>,
    /// The next event last.
    events: Vec<Event>,
    counters: Counters,
    interval: Duration,
    readings: Vec<Reading>,
    silent: Vec<LinkId>,
    lost: Vec<(LinkId, Instant)>,
    /// Counters of NetLord's bridges before the run.
    bridges: Option<BridgeTotals>,
    /// What the scheduler does, if there is one.
    control: Option<Activity>,
    waits: Waits,
}

impl<'a> Monitor<'a> {
    pub(super) fn open(
        plan: &Plan,
        fabric: &'a Fabric,
        vlb: bool,
        mut events: Vec<Event>,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<Self> {
        events.reverse();
        let counters = Counters::open(plan, fabric, stop)?;
        let least = if end == Instant::MAX { 0 } else { end.as_ps() / READINGS_MAX as u64 };
        let interval = Duration::from_ps(least.max(INTERVAL_MIN.as_ps()));
        let injector = Injector::new(plan, fabric, vlb);
        let bridges = plan.overlay.netlord().is_some().then(|| netlord::totals(plan));
        let (readings, silent, lost) = (Vec::new(), Vec::new(), Vec::new());
        let waits = Waits::new(plan);
        Ok(Self { fabric, injector, events, counters, interval, readings, silent, lost, bridges, control: None, waits })
    }

    /// Takes the first reading, before any traffic is sent.
    pub(super) fn begin(&mut self, clock: RunClock) -> Result<()> {
        self.control = Activity::begin(self.injector.plan());
        self.waits.sample(clock.now());
        self.read(clock)
    }

    /// Runs until the traffic is over.
    pub(super) fn run(mut self, clock: RunClock, over: &AtomicBool) -> Result<Measurements> {
        let mut next = Instant::ZERO + self.interval;
        while !over.load(Ordering::Relaxed) {
            let now = clock.now();
            self.waits.sample(now);
            while self.events.last().is_some_and(|e| e.at <= now) {
                let event = self.events.pop().expect("an event");
                match self.apply(event, over) {
                    // The traffic is over, so it does not matter whether programs became ready.
                    Err(LabError::Interrupted) => break,
                    applied => applied?,
                }
            }
            if now >= next {
                self.read(clock)?;
                // Intervals stay equal when a reading is late; missed readings are left out.
                while next <= clock.now() {
                    next += self.interval;
                }
            }
            let due = self.events.last().map_or(next, |e| e.at.min(next));
            clock.sleep_until(due, POLL);
        }
        self.read(clock)?;
        let bridges = self.bridges.map(|before| netlord::totals(self.injector.plan()).since(&before));
        let control = self.control.map_or_else(ControlRecord::default, |it| it.total(self.injector.plan()));
        let (forged, longest_wait) = (self.injector.forged(), self.waits.longest(clock.now()));
        Ok(Measurements { readings: self.readings, lost: self.lost, bridges, forged, control, longest_wait })
    }

    fn apply(&mut self, event: Event, over: &AtomicBool) -> Result<()> {
        if let Change::Move(which) = event.change {
            return self.move_host(which, over);
        }
        if let Change::Kill(Program::Scheduler) | Change::Restart(Program::Scheduler) = event.change
            && let Some(control) = &mut self.control
        {
            control.interrupt(self.injector.plan());
        }
        let silent = self.injector.apply(event.change, over)?;
        self.silent.extend(silent);
        if let Change::Restore(part) = event.change {
            let restored = events::links(self.fabric, part);
            self.silent.retain(|l| !restored.contains(l));
        }
        Ok(())
    }

    /// The ToR's end of the host's cable becomes a port of another ToR, and the counters of the link continue with it.
    fn move_host(&mut self, which: usize, over: &AtomicBool) -> Result<()> {
        let Some(host) = self.injector.plan().overlay.vl2().map(|vl2| vl2.moves[which].host) else { return Ok(()) };
        let down = self.fabric.out(NodeId::from(host))[0].reverse();
        let counted = self.counters.read()?[down.index()];
        self.injector.apply(Change::Move(which), over)?;
        let plan = self.injector.plan();
        let PortId { node: tor, port } = plan.nodes[host].ports[0].peer;
        self.counters.follow(down, counted, (tor, &plan.nodes[tor]), &plan.nodes[tor].ports[port].name)
    }

    fn read(&mut self, clock: RunClock) -> Result<()> {
        let links = self.counters.read()?;
        let at = clock.now();
        if let Some(last) = self.readings.last() {
            for &link in &self.silent {
                if links[link.index()].drops > last.links[link.index()].drops {
                    self.lost.retain(|(l, _)| *l != link);
                    self.lost.push((link, at));
                }
            }
        }
        self.readings.push(Reading { at, links });
        if self.readings.len() > READINGS_MAX {
            self.thin();
        }
        Ok(())
    }

    /// Removes every other reading: differences between the remaining ones are still exact.
    fn thin(&mut self) {
        let mut index = 0;
        self.readings.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.interval = Duration::from_ps(self.interval.as_ps() * 2);
    }
}

/// Readings, at most.
const READINGS_MAX: usize = 1000;
const INTERVAL_MIN: Duration = Duration::from_ms(100);
/// The interval at which the end of the traffic is checked.
const POLL: StdDuration = StdDuration::from_millis(10);
