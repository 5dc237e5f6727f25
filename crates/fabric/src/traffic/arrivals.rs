//! Flows that wait for no other flow: all at once, or as Poisson processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::FlowId;
use crate::time::{Duration, Instant};
use crate::traffic::destinations::Destinations;
use crate::traffic::flow::{FlowSpec, Workload};
use crate::traffic::random::{Draw, exponential, generator};
use crate::traffic::sizes::Sizes;

/// All flows begin together. First one of each host, by number, then a second of each, and so on.
pub(super) struct OnceWorkload {
    destinations: Destinations,
    sizes: Sizes,
    start: Instant,
    rounds: u64,
    round: u64,
    next: usize,
}

impl OnceWorkload {
    pub(super) fn new(destinations: Destinations, sizes: Sizes, start: Instant, rounds: u64) -> Self {
        Self { destinations, sizes, start, rounds, round: 0, next: 0 }
    }
}

impl Workload for OnceWorkload {
    fn reacts(&self) -> bool {
        false
    }

    fn next_start(&self) -> Option<Instant> {
        (self.round < self.rounds).then_some(self.start)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let start = self.next_start()?;
        let src = self.destinations.sources()[self.next];
        let flow = FlowSpec { src, dst: self.destinations.of(src, self.round), start, size: self.sizes.of(src, self.round) };
        self.next += 1;
        if self.next == self.destinations.sources().len() {
            self.next = 0;
            self.round += 1;
            if self.round < self.rounds {
                self.destinations.begin_round(self.round);
            }
        }
        Some(flow)
    }
}

/// The first flows of another workload.
pub(super) struct LimitedWorkload {
    inner: Box<dyn Workload>,
    left: u64,
}

impl LimitedWorkload {
    pub(super) fn new(inner: Box<dyn Workload>, flows: u64) -> Self {
        Self { inner, left: flows }
    }
}

impl Workload for LimitedWorkload {
    fn reacts(&self) -> bool {
        self.inner.reacts()
    }

    fn next_start(&self) -> Option<Instant> {
        if self.left > 0 { self.inner.next_start() } else { None }
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        self.left = self.left.checked_sub(1)?;
        self.inner.next_flow()
    }

    fn flow_ended(&mut self, id: FlowId, spec: &FlowSpec, now: Instant) {
        self.inner.flow_ended(id, spec, now);
    }
}

/// Each source begins flows with exponential gaps. The first gap counts from the start.
pub(super) struct PoissonWorkload {
    destinations: Destinations,
    sizes: Sizes,
    /// Flows per second, by position of the source.
    rates: Vec<f64>,
    /// Flows begun, by position of the source.
    begun: Vec<u64>,
    /// The next start of each source; equal starts by source.
    next: BinaryHeap<Reverse<(Instant, u32)>>,
    until: Instant,
    limit: u64,
    seed: u64,
}

impl PoissonWorkload {
    pub(super) fn new(
        destinations: Destinations,
        sizes: Sizes,
        rates: Vec<f64>,
        start: Instant,
        until: Option<Instant>,
        limit: u64,
        seed: u64,
    ) -> Self {
        let sources = destinations.sources().len();
        let mut workload = Self {
            destinations,
            sizes,
            rates,
            begun: vec![0; sources],
            next: BinaryHeap::with_capacity(sources),
            until: until.unwrap_or(Instant::MAX),
            limit,
            seed,
        };
        for source in 0..sources {
            workload.plan_next(source, start);
        }
        workload
    }

    fn plan_next(&mut self, source: usize, now: Instant) {
        let nth = self.begun[source];
        if nth == self.limit {
            return;
        }
        let host = self.destinations.sources()[source];
        let gap = exponential(&mut generator(self.seed, Draw::Gap, u64::from(host.0), nth)) / self.rates[source];
        let at = now.saturating_add(Duration::from_secs_f64(gap));
        if at <= self.until && at < Instant::MAX {
            self.next.push(Reverse((at, source as u32)));
        }
    }
}

impl Workload for PoissonWorkload {
    fn reacts(&self) -> bool {
        false
    }

    fn next_start(&self) -> Option<Instant> {
        self.next.peek().map(|Reverse((at, _))| *at)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let Reverse((start, source)) = self.next.pop()?;
        let source = source as usize;
        let src = self.destinations.sources()[source];
        let nth = self.begun[source];
        self.begun[source] += 1;
        self.plan_next(source, start);
        Some(FlowSpec { src, dst: self.destinations.of(src, nth), start, size: self.sizes.of(src, nth) })
    }
}
