//! The packet world: TCP and UDP over output-queued switches, packet by packet.
//!
//! ```text
//!    source                        switch                                   destination
//!   +--------+   +-----------+    +-----------------------------+          +----------+
//!   | sender |-->| NIC queue |--->| route -> output queue, drop |--> ... ->| receiver |
//!   +--------+   +-----------+    | tail by bytes, marks        |          +----------+
//!       ^                         +-----------------------------+               |
//!       +--------- acknowledgements, by a path and queues of their own ---------+
//! ```
//! | module | what it is |
//! | --- | --- |
//! | [`wheel`] | what happens when |
//! | [`ports`], [`buffers`], [`shapers`] | queues and links; buffers that ports share; queues of detours |
//! | [`paths`], [`packets`] | where packets go, and what they are |
//! | [`spread`] | the choice among several paths |
//! | [`tcp`], [`multipath`], [`requests`] | the ends |
//! | [`net`] | the engine that joins them |
//! | [`team`] | one run on several cores |
//! | [`bridged`] | a mode of its own: switches that learn addresses and flood |
//! | [`model`] | the engine as a model of the event loop ([`crate::world`]) |
//!
//! `docs/packet-world.md` says what is modelled and what is not.

mod bare;
pub mod bridged;
mod buffers;
mod capture;
mod model;
mod multipath;
mod net;
mod packets;
mod paths;
mod ports;
#[cfg(test)]
mod reference;
mod requests;
mod settings;
mod shapers;
mod slab;
mod spread;
mod tcp;
mod team;
mod touch;
mod wheel;

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_fabric::record::Outcome;
use weft_fabric::routing::Router;
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, Instant};

use crate::world::{self, Pace, Parts, Progress, TimedEvent};

pub use bare::bare_loop;
pub use capture::Trace;
pub use requests::Requests;
pub use settings::{MAX_PACKET, MAX_SUBFLOWS, PacketConfig, PacketError, Recovery, SwitchQueue, Transport, TransportKind};

/// All that a run needs; [`PacketWorld::run`] consumes it.
pub struct PacketWorld {
    /// The network, whole at the start.
    pub fabric: Arc<Fabric>,
    /// Where the switches send a flow that nobody schedules.
    pub router: Router,
    /// The scheduler, if there is one.
    pub controller: Option<Box<dyn Controller>>,
    /// The workload; with [`PacketConfig::requests`] the flows of its pairs, endless and from time 0.
    pub workload: Box<dyn Workload>,
    /// What fails and comes back; need not be sorted, equal times keep their order.
    pub events: Vec<TimedEvent>,
    /// Settings.
    pub config: PacketConfig,
}

impl PacketWorld {
    /// Carries the workload and says what happened, and what the trace asked for. The same world gives the same outcome, bit by bit.
    ///
    /// # Errors
    /// [`PacketError`] if a setting means nothing on this fabric.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, PacketError> {
        let Self { fabric, router, controller, workload, events, config } = self;
        let reacts = controller.is_some() || workload.reacts();
        let model = model::PacketModel::new(Arc::clone(&fabric), config.engine(&fabric, reacts)?);
        let PacketConfig { duration, reconverge, restore_delay, link_samples, overlay, .. } = config;
        // What failures cost shows between the events of the loop.
        let sample_every = (!events.is_empty()).then_some(SAMPLE_EVERY);
        let pace = Pace { end: Instant::ZERO.saturating_add(duration), sample_every, ..Pace::default() };
        let parts = Parts { fabric, router, controller, workload, events, reconverge, restore_delay, link_samples, overlay };
        Ok(world::run(parts, model, pace, progress))
    }
}

#[cfg(test)]
mod tests;

/// The network is sampled so often in runs in which parts fail.
const SAMPLE_EVERY: Duration = Duration::from_ms(10);
