//! Workloads in which the end of a flow begins the next: the shuffle with a few destinations at a time (Hedera section 6.3)
//! and servers that keep a number of flows under way (VL2 section 5.2).
//!
//! ```text
//!   openings: the first `width` flows of each source      flow_ended(f) -> one more of f's source, at that time,
//!        |                                                      |           while its quota lasts
//!        v                                                      v
//!   next_flow() <---- by time, openings first ---------- waiting
//! ```

use std::collections::VecDeque;

use crate::ids::{FlowId, HostId};
use crate::time::{Duration, Instant};
use crate::traffic::destinations::Destinations;
use crate::traffic::error::{TrafficError, parameter};
use crate::traffic::flow::{FlowSpec, Workload};
use crate::traffic::random::{Draw, KeyedPermutation, generator, key};
use crate::traffic::sizes::{Concurrency, Sizes};
use crate::traffic::starts::{MAX_SPREAD_FLOWS, spread_start};

/// What each source does, apart from time.
pub(super) trait Plan: Send {
    /// The hosts that send, ascending.
    fn sources(&self) -> &[HostId];
    /// How many flows a source has under way, given its position among the sources. At least 1, at most the quota.
    fn width(&self, source: usize) -> u64;
    /// How many flows it begins in all.
    fn quota(&self, source: usize) -> u64;
    /// The destination of its `nth` flow.
    fn destination(&self, source: usize, nth: u64) -> HostId;
}

/// Each host goes through the others in a random order of its own.
pub(super) struct ShufflePlan {
    hosts: Vec<HostId>,
    width: u64,
    seed: u64,
}

impl ShufflePlan {
    /// At least two hosts and a concurrency of at least one.
    pub(super) fn new(hosts: Vec<HostId>, concurrency: u32, seed: u64) -> Self {
        let width = u64::from(concurrency).min(hosts.len() as u64 - 1);
        Self { hosts, width, seed }
    }
}

impl Plan for ShufflePlan {
    fn sources(&self) -> &[HostId] {
        &self.hosts
    }

    fn width(&self, _: usize) -> u64 {
        self.width
    }

    fn quota(&self, _: usize) -> u64 {
        self.hosts.len() as u64 - 1
    }

    fn destination(&self, source: usize, nth: u64) -> HostId {
        let order = KeyedPermutation::new(self.quota(source), key(self.seed, Draw::Order, u64::from(self.hosts[source].0), 0));
        self.hosts[(source + 1 + order.apply(nth) as usize) % self.hosts.len()]
    }
}

/// Destinations of a pattern; each source has a number of flows that was drawn once.
pub(super) struct DrawnPlan {
    destinations: Destinations,
    widths: Vec<u32>,
    quota: u64,
}

impl DrawnPlan {
    pub(super) fn new(
        destinations: Destinations,
        concurrency: &Concurrency,
        quota: u64,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        concurrency.check()?;
        let widths = destinations
            .sources()
            .iter()
            .map(|h| concurrency.sample(&mut generator(seed, Draw::Concurrency, u64::from(h.0), 0)))
            .collect();
        Ok(Self { destinations, widths, quota })
    }
}

impl Plan for DrawnPlan {
    fn sources(&self) -> &[HostId] {
        self.destinations.sources()
    }

    fn width(&self, source: usize) -> u64 {
        u64::from(self.widths[source]).min(self.quota)
    }

    fn quota(&self, _: usize) -> u64 {
        self.quota
    }

    fn destination(&self, source: usize, nth: u64) -> HostId {
        self.destinations.of(self.destinations.sources()[source], nth)
    }
}

/// The first flows of each source: made one by one where all begin together, else sorted by start.
pub(super) enum Openings {
    Together { start: Instant, source: usize, nth: u64 },
    Sorted(std::vec::IntoIter<(Instant, u32)>),
}

impl Openings {
    pub(super) fn new(plan: &impl Plan, start: Instant, spread: Duration, seed: u64) -> Result<Self, TrafficError> {
        if spread == Duration::ZERO {
            return Ok(Self::Together { start, source: 0, nth: 0 });
        }
        let sources = plan.sources();
        let flows = (0..sources.len()).fold(0u64, |sum, s| sum.saturating_add(plan.width(s)));
        if flows > MAX_SPREAD_FLOWS {
            let rule = format!("{flows} first flows are too many to sort by start: at most {MAX_SPREAD_FLOWS}, or leave it out");
            return Err(parameter("start_spread", spread, rule));
        }
        let mut starts = Vec::with_capacity(flows as usize);
        for (source, &host) in sources.iter().enumerate() {
            starts.extend((0..plan.width(source)).map(|nth| (spread_start(start, spread, seed, host, nth), source as u32)));
        }
        starts.sort();
        Ok(Self::Sorted(starts.into_iter()))
    }

    fn next_start(&self, sources: usize) -> Option<Instant> {
        match self {
            Self::Together { start, source, .. } => (*source < sources).then_some(*start),
            Self::Sorted(starts) => starts.as_slice().first().map(|s| s.0),
        }
    }

    fn take(&mut self, plan: &impl Plan) -> Option<(Instant, usize)> {
        match self {
            Self::Together { start, source, nth } => {
                let taken = (*source < plan.sources().len()).then_some((*start, *source))?;
                *nth += 1;
                if *nth == plan.width(*source) {
                    (*source, *nth) = (*source + 1, 0);
                }
                Some(taken)
            }
            Self::Sorted(starts) => starts.next().map(|(at, source)| (at, source as usize)),
        }
    }
}

/// The workload of a [`Plan`].
pub(super) struct LoopWorkload<P> {
    plan: P,
    sizes: Sizes,
    openings: Openings,
    waiting: VecDeque<(Instant, u32)>,
    /// Position of each host among the sources; [`NO_SOURCE`] for those that send nothing.
    position: Vec<u32>,
    /// Flows taken, by position.
    taken: Vec<u64>,
    /// Flows taken, waiting, or still to be opened, by position.
    promised: Vec<u64>,
    last_start: Instant,
}

impl<P: Plan> LoopWorkload<P> {
    pub(super) fn new(plan: P, sizes: Sizes, openings: Openings, hosts: usize) -> Self {
        let mut position = vec![NO_SOURCE; hosts];
        for (i, host) in plan.sources().iter().enumerate() {
            position[host.index()] = i as u32;
        }
        let sources = plan.sources().len();
        let promised = (0..sources).map(|s| plan.width(s)).collect();
        Self {
            plan,
            sizes,
            openings,
            waiting: VecDeque::new(),
            position,
            taken: vec![0; sources],
            promised,
            last_start: Instant::ZERO,
        }
    }
}

impl<P: Plan> Workload for LoopWorkload<P> {
    fn next_start(&self) -> Option<Instant> {
        let opening = self.openings.next_start(self.plan.sources().len());
        let waiting = self.waiting.front().map(|w| w.0);
        opening.into_iter().chain(waiting).min()
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let start = self.next_start()?;
        let opening = self.openings.next_start(self.plan.sources().len()) == Some(start);
        let (_, source) = if opening {
            self.openings.take(&self.plan)?
        } else {
            self.waiting.pop_front().map(|(at, source)| (at, source as usize))?
        };
        self.last_start = start;
        let nth = self.taken[source];
        self.taken[source] += 1;
        let src = self.plan.sources()[source];
        Some(FlowSpec { src, dst: self.plan.destination(source, nth), start, size: self.sizes.of(src, nth) })
    }

    fn flow_ended(&mut self, _: FlowId, spec: &FlowSpec, now: Instant) {
        let Some(&source) = self.position.get(spec.src.index()).filter(|&&p| p != NO_SOURCE) else { return };
        let promised = &mut self.promised[source as usize];
        if *promised < self.plan.quota(source as usize) {
            *promised += 1;
            let earliest = self.waiting.back().map_or(self.last_start, |w| w.0);
            self.waiting.push_back((now.max(earliest), source));
        }
    }
}

const NO_SOURCE: u32 = u32::MAX;
