//! The packet world: TCP and UDP over output-queued switches, packet by packet.
#![allow(dead_code)]
mod model;
mod net;
mod packets;
mod paths;
mod ports;
mod tcp;
mod touch;
mod wheel;

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_fabric::record::Outcome;
use weft_fabric::routing::Router;
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::Workload;
use weft_fabric::{Bytes, Duration, Instant};

use crate::world::{self, Pace, Parts, Progress, TimedEvent};

/// All that a run needs; [`PacketWorld::run`] consumes it.
pub struct PacketWorld {
    /// The network, whole at the start.
    pub fabric: Arc<Fabric>,
    /// Where the switches send a flow that nobody schedules.
    pub router: Router,
    /// The scheduler, if there is one.
    pub controller: Option<Box<dyn Controller>>,
    /// What wants to move.
    pub workload: Box<dyn Workload>,
    /// What fails and comes back; need not be sorted, equal times keep their order.
    pub events: Vec<TimedEvent>,
    /// Settings.
    pub config: PacketConfig,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketConfig {
    pub switch_queue: Bytes,
    pub nic_queue: Bytes,
    pub hop_delay: Duration,
    pub duration: Duration,
    pub reconverge: Duration,
    pub restore_delay: Duration,
    pub link_samples: usize,
}

impl PacketWorld {
    /// Carries the workload and says what happened. The same world gives the same outcome, bit by bit.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Outcome {
        let Self { fabric, router, controller, workload, events, config } = self;
        let PacketConfig { reconverge, restore_delay, link_samples, duration, .. } = config;
        let ports = ports::Ports::new(&fabric, config.hop_delay, |l| {
            let size = if fabric.as_host(fabric.link(l).from).is_some() { config.nic_queue } else { config.switch_queue };
            ports::Queue { size, mark: None }
        });
        let net = net::Net::new(&fabric, ports, tcp::Tcp::default(), net::Sizes { mss: 1460, header: 40, detour_header: 20 });
        let model = model::PacketModel {
            fabric: Arc::clone(&fabric), net, sizes: vec![], opening: vec![], ending: 0, short: 0, ended: vec![] };
        let end = Instant::ZERO.saturating_add(duration);
        let parts = Parts { fabric, router, controller, workload, events, reconverge, restore_delay, link_samples };
        world::run(parts, model, Pace { end, unit: Duration::ZERO, sample_every: None }, progress)
    }
}
