//! The flow world: a flow is a rate on a path, and a rate model decides the rates.
//!
//! ```text
//!   Workload --starts--> +-----------+ --paths--> +---------------------+
//!   Router   --paths---> |   world   |            |      rate model     |
//!   events   --parts---> | event loop| <--ended-- |  max-min  or  AIMD  |
//!                        +-----------+            +---------------------+
//!                          |  ^   counters, failures, ended flows
//!                          v  |   paths
//!                        Controller
//! ```
//! What happens at one instant happens in this order: flows end; parts fail or come back; routing learns of it; flows begin;
//! the controller's timer runs out; then rates are computed once. Within each of these, first in first out.
//! `docs/flow-world.md` says what is modelled and what is not.

mod aimd;
mod maxmin;
pub mod slots;

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_fabric::record::Outcome;
use weft_fabric::routing::Router;
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Instant};

use crate::world::{self, Overlay, Pace, Parts};

pub use crate::world::{Change, Progress, TimedEvent};
pub use maxmin::solver::{MaxMinError, max_min};

/// All that a run needs; [`FlowWorld::run`] consumes it.
pub struct FlowWorld {
    /// The network, whole at the start.
    pub fabric: Arc<Fabric>,
    /// Where the switches send a flow that nobody schedules.
    pub router: Router,
    /// The scheduler, if there is one.
    pub controller: Option<Box<dyn Controller>>,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// What fails and comes back; need not be sorted, equal times keep their order.
    pub events: Vec<TimedEvent>,
    /// Settings.
    pub config: FlowConfig,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// How rates are decided.
    pub rates: Rates,
    /// The run ends here, or when all flows have ended. [`Duration::MAX`]: run until nothing can happen any more
    /// (with a controller whose timer never stops, give a real duration).
    pub duration: Duration,
    /// From a failure until the switches' routes avoid it.
    pub reconverge: Duration,
    /// From a repair until the switches' routes use it again.
    pub restore_delay: Duration,
    /// The most samples of link utilisation over the run, up to 1,000; 0 for none.
    pub link_samples: usize,
    /// Max-min: the fraction by which the rate at which a link's flows fill it may stay below the fair one, below 1; 0 for exact rates.
    pub tolerance: f64,
    /// VL2's agents, if hosts have them.
    pub overlay: Overlay,
    /// Seed of the run: the AIMD model shuffles by it.
    pub seed: u64,
}

/// How rates are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// Max-min fair rates at every instant: exact, or within [`FlowConfig::tolerance`].
    MaxMin,
    /// Slow start and AIMD in ticks (Hedera section 5.5).
    Aimd(AimdParams),
    /// Slots without redistribution, once (Hedera section 2.2 and figure 3): see [`slots`]. All flows of the workload are taken as
    /// simultaneous and endless, and no flow records are kept. Events and the controller play no part.
    Slots {
        /// n: a host sends so many flows, each at 1/n of its NIC.
        flows_per_host: u32,
    },
}

/// Settings of the AIMD model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AimdParams {
    /// Length of a tick: one round trip.
    pub tick: Duration,
    /// Additive increase in bytes per second, a tick.
    pub increase_bytes_per_s: u64,
    /// What slow start begins with, in bytes per second.
    pub initial_bytes_per_s: u64,
}

impl Default for AimdParams {
    /// The paper's: 100 us, 15 MB/s (a segment of 1,500 bytes a round trip), and one segment to begin with.
    fn default() -> Self {
        Self { tick: Duration::from_us(100), increase_bytes_per_s: 15_000_000, initial_bytes_per_s: 15_000_000 }
    }
}

impl FlowConfig {
    /// Max-min rates until all flows have ended; a failure costs 100 ms, a repair is used at once.
    pub fn new(rates: Rates, seed: u64) -> Self {
        Self {
            rates,
            duration: Duration::MAX,
            reconverge: Duration::from_ms(100),
            restore_delay: Duration::ZERO,
            link_samples: 1_000,
            tolerance: 0.0,
            overlay: Overlay::default(),
            seed,
        }
    }
}

impl FlowWorld {
    /// Carries the workload and says what happened. The same world gives the same outcome, bit by bit.
    ///
    /// # Panics
    /// If the router gives flows several paths, and rates are other than max-min.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Outcome {
        let duration = self.config.duration;
        let end = Instant::ZERO.saturating_add(duration);
        let spreads = self.router.spreads();
        let fabric = Arc::clone(&self.fabric);
        let capacities = fabric.links().iter().map(|l| l.capacity.as_f64());
        match self.config.rates {
            Rates::MaxMin if spreads => {
                let model = maxmin::MaxMin::new(Arc::clone(&fabric), maxmin::Shares::new(capacities));
                world::run(self.parts(), model, Pace { end, unit: Duration::ZERO, sample_every: None }, progress)
            }
            _ if spreads => panic!("only max-min rates have flows with several paths"),
            Rates::MaxMin => {
                let levels = maxmin::Levels::new(capacities, self.config.tolerance);
                let model = maxmin::MaxMin::new(Arc::clone(&fabric), levels);
                world::run(self.parts(), model, Pace { end, unit: Duration::ZERO, sample_every: None }, progress)
            }
            Rates::Aimd(params) => {
                let model = aimd::Aimd::new(Arc::clone(&self.fabric), params, self.config.seed);
                let tick = params.tick.as_ps().max(1);
                // The run ends with a whole tick.
                let end = if end == Instant::MAX { end } else { Instant::from_ps(end.as_ps() / tick * tick) };
                let sample = if end == Instant::MAX { 1 } else { end.as_ps().div_ceil(tick).div_ceil(AIMD_SAMPLES) };
                let unit = Duration::from_ps(tick);
                world::run(self.parts(), model, Pace { end, unit, sample_every: Some(unit * sample) }, progress)
            }
            Rates::Slots { flows_per_host } => {
                let Self { fabric, mut router, mut workload, .. } = self;
                let counted = slots::count(&fabric, &mut router, &mut *workload, flows_per_host, &mut |flows| {
                    progress(Progress { now: Instant::ZERO, end, active: 0, ended: flows as usize, events: flows });
                });
                slots::outcome(&fabric, &counted, flows_per_host, duration)
            }
        }
    }

    fn parts(self) -> Parts {
        let Self { fabric, router, controller, workload, events, config } = self;
        let FlowConfig { reconverge, restore_delay, link_samples, overlay, .. } = config;
        Parts { fabric, router, controller, workload, events, reconverge, restore_delay, link_samples, overlay }
    }
}

/// Samples of a run in ticks whose length is known, besides those where flows begin or end.
const AIMD_SAMPLES: u64 = 6_000;
