//! The thread beside the traffic: makes events happen at their times, and reads all counters over equal spans.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use weft_fabric::record::{BridgeTotals, Forged};
use weft_fabric::{Duration, Fabric, Instant, LinkId, NodeId};

use crate::clock::RunClock;
use crate::counters::{Counters, LinkCounters};
use crate::error::{LabError, Result};
use crate::events::{self, Breaker, Change, Event};
use crate::netlord;
use crate::plan::{Plan, PortId};

/// What was counted.
pub(super) struct Watched {
    /// By time; the first is at the start, the last at the end.
    pub readings: Vec<Reading>,
    /// Links that lost packets silently, and when a reading last said so.
    pub lost: Vec<(LinkId, Instant)>,
    /// Of tenants' bridges, over the run.
    pub bridges: Option<BridgeTotals>,
    /// What became of forged frames.
    pub forged: Option<Forged>,
}

/// All counters at an instant.
pub(super) struct Reading {
    pub at: Instant,
    pub links: Vec<LinkCounters>,
}

pub(super) struct Watch<'a> {
    fabric: &'a Fabric,
    breaker: Breaker<'a>,
    /// The next one last.
    events: Vec<Event>,
    counters: Counters,
    span: Duration,
    readings: Vec<Reading>,
    silent: Vec<LinkId>,
    lost: Vec<(LinkId, Instant)>,
    /// What bridges had counted before.
    bridges: Option<BridgeTotals>,
}

impl<'a> Watch<'a> {
    pub(super) fn open(
        plan: &Plan,
        fabric: &'a Fabric,
        valiant: bool,
        mut events: Vec<Event>,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<Self> {
        events.reverse();
        let counters = Counters::open(plan, fabric, stop)?;
        let wanted = if end == Instant::MAX { 0 } else { end.as_ps() / READINGS as u64 };
        let span = Duration::from_ps(wanted.max(SPAN_LEAST.as_ps()));
        let breaker = Breaker::new(plan, fabric, valiant);
        let bridges = plan.tenants.is_some().then(|| netlord::totals(plan));
        let (readings, silent, lost) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { fabric, breaker, events, counters, span, readings, silent, lost, bridges })
    }

    /// The first reading: before any traffic, or what is sent meanwhile would be missing.
    pub(super) fn begin(&mut self, clock: RunClock) -> Result<()> {
        self.read(clock)
    }

    /// Until the traffic is over.
    pub(super) fn run(mut self, clock: RunClock, over: &AtomicBool) -> Result<Watched> {
        let mut next = Instant::ZERO + self.span;
        while !over.load(Ordering::Relaxed) {
            let now = clock.now();
            while self.events.last().is_some_and(|e| e.at <= now) {
                let event = self.events.pop().expect("there is one");
                match self.happen(event, over) {
                    // The traffic is over: nobody waits for what was to be ready.
                    Err(LabError::Interrupted) => break,
                    happened => happened?,
                }
            }
            if now >= next {
                self.read(clock)?;
                // Spans stay equal when a reading is late; those that a pause swallowed are left out.
                while next <= clock.now() {
                    next += self.span;
                }
            }
            let due = self.events.last().map_or(next, |e| e.at.min(next));
            clock.sleep_until(due, PATIENCE);
        }
        self.read(clock)?;
        let bridges = self.bridges.map(|before| netlord::totals(self.breaker.plan()).since(&before));
        Ok(Watched { readings: self.readings, lost: self.lost, bridges, forged: self.breaker.forged() })
    }

    fn happen(&mut self, event: Event, over: &AtomicBool) -> Result<()> {
        if let Change::Move(which) = event.change {
            return self.move_host(which, over);
        }
        let silent = self.breaker.make(event.change, over)?;
        self.silent.extend(silent);
        if let Change::Restore(part) = event.change {
            let whole = events::links(self.fabric, part);
            self.silent.retain(|l| !whole.contains(l));
        }
        Ok(())
    }

    /// The ToR's end of the host's cable is another port afterwards; the link stays what it was.
    fn move_host(&mut self, which: usize, over: &AtomicBool) -> Result<()> {
        let Some(host) = self.breaker.plan().overlay.as_ref().map(|vl2| vl2.moves[which].host) else { return Ok(()) };
        let down = self.fabric.out(NodeId::from(host))[0].reverse();
        let counted = self.counters.read()?[down.index()];
        self.breaker.make(Change::Move(which), over)?;
        let plan = self.breaker.plan();
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
        if self.readings.len() > READINGS {
            self.thin();
        }
        Ok(())
    }

    /// Every other reading goes: what a link has sent between those that stay is still exact.
    fn thin(&mut self) {
        let mut index = 0;
        self.readings.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.span = Duration::from_ps(self.span.as_ps() * 2);
    }
}

/// Readings at the most.
const READINGS: usize = 1000;
const SPAN_LEAST: Duration = Duration::from_ms(100);
/// How late the end of the traffic may be noticed.
const PATIENCE: StdDuration = StdDuration::from_millis(10);
