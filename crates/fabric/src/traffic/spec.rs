//! A description of traffic, and the workload that it stands for on a fabric.
//!
//! ```text
//!   TrafficSpec  = pattern (who sends to whom) x size (how much) x arrivals (when)
//!       .workload(fabric, seed) -> Box<dyn Workload>
//! ```
//! The keys of the scenario's `[traffic]` table map to these fields one to one; `docs/traffic.md` lists them.
//! Racks and pods are those of the fabric that is passed in. To carry the same flows on a non-blocking switch, generate
//! them from the real fabric: the host ids are the same, and the same arguments give the same flows again.

use crate::ids::HostId;
use crate::time::{Duration, Instant};
use crate::topology::Fabric;
use crate::traffic::arrivals::{LimitedWorkload, OnceWorkload, PoissonWorkload};
use crate::traffic::destinations::Destinations;
use crate::traffic::error::{TrafficError, parameter};
use crate::traffic::flow::{StaticWorkload, Workload};
use crate::traffic::hosts::{HostList, Participants, Place};
use crate::traffic::loops::{DrawnPlan, LoopWorkload, Openings, ShufflePlan};
use crate::traffic::many_to_many::ManyToMany;
use crate::traffic::pattern::{Pattern, ShuffleMode};
use crate::traffic::shuffle::AllPairs;
use crate::traffic::sizes::{Concurrency, SizeSpec, Sizes};
use crate::traffic::starts::{MAX_SPREAD_FLOWS, spread_start};

/// Which flows want to move, when, and how much.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSpec {
    /// Who sends to whom: `pattern`.
    pub pattern: Pattern,
    /// Which hosts take part: `hosts`, `racks`, `place`, `first_rack`.
    pub among: Participants,
    /// How much a flow sends: `size`.
    pub size: SizeSpec,
    /// When flows begin: `arrivals`.
    pub arrivals: Arrivals,
    /// How many flows a sending host begins in all: `flows_per_host`. `None` is 1 for [`Arrivals::Once`] and without
    /// limit otherwise. A shuffle fixes the number itself: leave it out.
    pub flows_per_host: Option<u64>,
    /// At most so many flows in all: `flows`. The hosts take turns, so that each begins as many as the others, or one more.
    /// Without `flows_per_host`, [`Arrivals::Once`] begins just as many.
    pub flows: Option<u64>,
    /// When the first flows may begin: `start`.
    pub start: Instant,
    /// The first flows begin at times that are uniform in this span after `start`: `start_spread`. Zero: all at once.
    pub start_spread: Duration,
    /// Each first flow begins so long after the one before it: `start_every`. Zero: see `start_spread`.
    pub start_every: Duration,
}

/// When flows begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// All at the start.
    Once,
    /// Each sending host begins flows as a Poisson process (Hedera section 5.5).
    Poisson {
        /// How many.
        rate: ArrivalRate,
        /// No flow begins after this; `None`: as long as the run lasts.
        until: Option<Instant>,
    },
    /// Each sending host draws a number once and keeps so many flows under way: a new one begins as one ends
    /// (VL2 section 5.2).
    ClosedLoop {
        /// The number of flows.
        concurrency: Concurrency,
    },
}

/// The mean rate of a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalRate {
    /// Flows per second of each sending host.
    PerHost(f64),
    /// The fraction of its NIC's capacity that a sending host offers on average: with flows of mean size m bytes,
    /// load x capacity / 8m flows per second.
    Load(f64),
}

impl TrafficSpec {
    /// Flows of this pattern and size that all begin at time 0, one a host (a shuffle: one a pair).
    pub const fn new(pattern: Pattern, size: SizeSpec) -> Self {
        Self {
            pattern,
            among: Participants { hosts: None, listed: None, racks: None, place: Place::Spread },
            size,
            arrivals: Arrivals::Once,
            flows_per_host: None,
            flows: None,
            start: Instant::ZERO,
            start_spread: Duration::ZERO,
            start_every: Duration::ZERO,
        }
    }

    /// The flows on a fabric. The same arguments give the same flows. Flows that begin together are made one by one
    /// as they are taken, so that millions need no memory.
    ///
    /// # Errors
    /// [`TrafficError`], naming the key at fault and what it may be.
    pub fn workload(&self, fabric: &Fabric, seed: u64) -> Result<Box<dyn Workload>, TrafficError> {
        if fabric.host_count() < 2 {
            return Err(TrafficError::TooFewHosts { hosts: fabric.host_count() });
        }
        self.size.check()?;
        if self.flows_per_host == Some(0) {
            return Err(parameter("flows_per_host", 0, "a sending host begins at least one flow"));
        }
        if self.flows == Some(0) {
            return Err(parameter("flows", 0, "at least one flow begins"));
        }
        self.check_starts()?;
        let members = self.among.pick(fabric)?;
        let all = self.flows_per_host.map(|n| n.saturating_mul(members.len() as u64));
        if let Some(count) = self.flows.or(all).filter(|&n| n > MAX_FLOWS && self.arrivals == Arrivals::Once) {
            let key = if self.flows.is_some() { "flows" } else { "flows_per_host" };
            return Err(parameter(key, count, format!("a run has at most {MAX_FLOWS} flows")));
        }
        let workload = match &self.pattern {
            Pattern::Shuffle { mode } => self.shuffle(fabric, members, seed, *mode),
            Pattern::ManyToMany { senders, receivers, flows_per_pair } => {
                self.many_to_many(fabric, seed, (senders, receivers), *flows_per_pair)
            }
            _ => self.drawn(fabric, members, seed),
        }?;
        Ok(match self.flows {
            None => workload,
            Some(flows) => Box::new(LimitedWorkload::new(workload, flows)),
        })
    }

    /// One after the other begin only flows that all begin by themselves.
    fn check_starts(&self) -> Result<(), TrafficError> {
        let every = self.start_every;
        let sequential = matches!(self.pattern, Pattern::Shuffle { mode: ShuffleMode::Sequential { .. } });
        if every != Duration::ZERO && (sequential || self.arrivals != Arrivals::Once) {
            return Err(parameter("start_every", every, "here flows begin as others end, or at random: leave it out"));
        }
        if every != Duration::ZERO && self.start_spread != Duration::ZERO {
            return Err(parameter("start_every", every, "`start_spread` says otherwise when flows begin: leave one of them out"));
        }
        Ok(())
    }

    fn shuffle(
        &self,
        fabric: &Fabric,
        hosts: Vec<HostId>,
        seed: u64,
        mode: ShuffleMode,
    ) -> Result<Box<dyn Workload>, TrafficError> {
        self.begins_its_flows_itself("a shuffle has one flow a pair: leave it out, or set `hosts`")?;
        if hosts.len() < 2 {
            return Err(parameter("hosts", hosts.len(), "a shuffle needs at least two hosts"));
        }
        let sizes = Sizes::new(&self.size, seed);
        match mode {
            ShuffleMode::Parallel => {
                let flows = (hosts.len() as u64).saturating_mul(hosts.len() as u64 - 1);
                self.spread_out(AllPairs::new(hosts, sizes, self.start), flows, seed)
            }
            ShuffleMode::Sequential { concurrency: 0 } => {
                Err(parameter("concurrency", 0, "a host sends to at least one destination at a time"))
            }
            ShuffleMode::Sequential { concurrency } => {
                let plan = ShufflePlan::new(hosts, concurrency, seed);
                let openings = Openings::new(&plan, self.start, self.start_spread, seed)?;
                Ok(Box::new(LoopWorkload::new(plan, sizes, openings, fabric.host_count())))
            }
        }
    }

    fn many_to_many(
        &self,
        fabric: &Fabric,
        seed: u64,
        (senders, receivers): (&HostList, &HostList),
        flows_per_pair: u32,
    ) -> Result<Box<dyn Workload>, TrafficError> {
        self.begins_its_flows_itself("the pattern has a number of flows a pair: set `flows_per_pair` instead")?;
        if !self.among.is_everybody() {
            let key = if self.among.racks.is_some() { "racks" } else { "hosts" };
            return Err(parameter(key, "...", "the pattern names its senders and receivers: leave it out"));
        }
        let senders = senders.pick(fabric, "sender_racks", "senders")?;
        let receivers = receivers.pick(fabric, "receiver_racks", "receivers")?;
        let count = (senders.len() as u64).saturating_mul(receivers.len() as u64).saturating_mul(u64::from(flows_per_pair));
        if flows_per_pair == 0 || count > MAX_FLOWS {
            let rule = format!("from 1 on, and at most {MAX_FLOWS} flows in all");
            return Err(parameter("flows_per_pair", flows_per_pair, rule));
        }
        let pairs: Vec<_> =
            senders.iter().flat_map(|&s| receivers.iter().map(move |&r| (s, r))).filter(|(s, r)| s != r).collect();
        if pairs.is_empty() {
            return Err(parameter("receivers", receivers[0], "the only receiver is the only sender"));
        }
        let flows = pairs.len() as u64 * u64::from(flows_per_pair);
        self.spread_out(ManyToMany::new(pairs, flows_per_pair, Sizes::new(&self.size, seed), self.start), flows, seed)
    }

    /// For patterns that fix when flows begin and how many there are.
    fn begins_its_flows_itself(&self, instead: &str) -> Result<(), TrafficError> {
        if self.arrivals != Arrivals::Once {
            return Err(parameter("arrivals", "poisson or closed-loop", "this pattern begins its flows itself: leave it out"));
        }
        match self.flows_per_host {
            None => Ok(()),
            Some(flows) => Err(parameter("flows_per_host", flows, instead)),
        }
    }

    fn drawn(&self, fabric: &Fabric, members: Vec<HostId>, seed: u64) -> Result<Box<dyn Workload>, TrafficError> {
        let destinations = Destinations::new(&self.pattern, fabric, members, seed)?;
        let sizes = Sizes::new(&self.size, seed);
        match &self.arrivals {
            Arrivals::Once => {
                let needed = self.flows.map_or(1, |flows| flows.div_ceil(destinations.sources().len() as u64));
                let rounds = self.flows_per_host.unwrap_or(needed);
                let flows = rounds.saturating_mul(destinations.sources().len() as u64);
                self.spread_out(OnceWorkload::new(destinations, sizes, self.start, rounds), flows, seed)
            }
            Arrivals::Poisson { rate, until } => {
                if self.start_spread != Duration::ZERO {
                    return Err(parameter(
                        "start_spread",
                        self.start_spread,
                        "Poisson arrivals are spread already: leave it out",
                    ));
                }
                let rates = self.rates(*rate, &destinations, fabric)?;
                let limit = self.flows_per_host.unwrap_or(u64::MAX);
                Ok(Box::new(PoissonWorkload::new(destinations, sizes, rates, self.start, *until, limit, seed)))
            }
            Arrivals::ClosedLoop { concurrency } => {
                let plan = DrawnPlan::new(destinations, concurrency, self.flows_per_host.unwrap_or(u64::MAX), seed)?;
                let openings = Openings::new(&plan, self.start, self.start_spread, seed)?;
                Ok(Box::new(LoopWorkload::new(plan, sizes, openings, fabric.host_count())))
            }
        }
    }

    /// The workload itself where all begin at once; else its flows, each with a start of its own.
    fn spread_out(
        &self,
        mut workload: impl Workload + 'static,
        flows: u64,
        seed: u64,
    ) -> Result<Box<dyn Workload>, TrafficError> {
        let (key, span) = match (self.start_spread, self.start_every) {
            (Duration::ZERO, Duration::ZERO) => return Ok(Box::new(workload)),
            (spread, Duration::ZERO) => ("start_spread", spread),
            (_, every) => ("start_every", every),
        };
        if flows > MAX_SPREAD_FLOWS {
            let rule = format!("{flows} flows are too many to sort by start: at most {MAX_SPREAD_FLOWS}, or leave it out");
            return Err(parameter(key, span, rule));
        }
        let mut all = Vec::new();
        while let Some(mut flow) = workload.next_flow() {
            flow.start = match key {
                "start_spread" => spread_start(self.start, span, seed, flow.src, all.len() as u64),
                _ => self.start.saturating_add(Duration::from_ps(span.as_ps().saturating_mul(all.len() as u64))),
            };
            all.push(flow);
        }
        Ok(Box::new(StaticWorkload::new(all)))
    }

    /// The largest part of its NIC's capacity that Poisson arrivals ask a host to send, or a favoured one to receive. Above 1 no
    /// fabric can carry them. `None` for other arrivals, and for flows without end.
    ///
    /// # Errors
    /// As for [`TrafficSpec::workload`].
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>, TrafficError> {
        let (Arrivals::Poisson { rate, .. }, Some(mean)) = (&self.arrivals, self.size.mean()) else { return Ok(None) };
        if matches!(self.pattern, Pattern::Shuffle { .. } | Pattern::ManyToMany { .. }) {
            return Ok(None);
        }
        let destinations = Destinations::new(&self.pattern, fabric, self.among.pick(fabric)?, seed)?;
        let rates = self.rates(*rate, &destinations, fabric)?;
        let nic = |host: HostId| fabric.nic_capacity(host).as_f64();
        let sent = destinations.sources().iter().zip(&rates).map(|(&h, rate)| rate * 8.0 * mean / nic(h)).fold(0.0, f64::max);
        let all = rates.iter().sum::<f64>() * 8.0 * mean;
        let received = destinations.favourite().map_or(0.0, |(host, part)| all * part / nic(host));
        Ok(Some(sent.max(received)))
    }

    /// Flows per second of each source.
    fn rates(&self, rate: ArrivalRate, destinations: &Destinations, fabric: &Fabric) -> Result<Vec<f64>, TrafficError> {
        let per_source: Box<dyn Fn(HostId) -> f64> = match rate {
            ArrivalRate::PerHost(rate) => {
                if !(rate > 0.0 && rate <= MAX_RATE) {
                    return Err(parameter("rate", rate, format!("flows per second of a host: above 0, at most {MAX_RATE}")));
                }
                Box::new(move |_| rate)
            }
            ArrivalRate::Load(load) => {
                if !(load > 0.0 && load <= MAX_LOAD) {
                    return Err(parameter("load", load, format!("a fraction of the NIC: above 0, at most {MAX_LOAD}")));
                }
                let mean = self.size.mean().ok_or_else(|| {
                    parameter("load", load, "flows without end have no mean size: give a `size`, or a `rate` of flows per second")
                })?;
                Box::new(move |host| load * fabric.nic_capacity(host).as_f64() / (8.0 * mean))
            }
        };
        Ok(destinations.sources().iter().map(|&host| (per_source(host) * destinations.share(host)).min(MAX_RATE)).collect())
    }
}

/// Flows that begin together; a record of each is kept, but by the slots model.
const MAX_FLOWS: u64 = 100_000_000;
/// Flows per second of a host; at most one a nanosecond, so that time moves on.
const MAX_RATE: f64 = 1e9;
/// A host may be offered more than it can send, within reason.
const MAX_LOAD: f64 = 100.0;
