//! A run's settings as those of the packet world.

use std::sync::Arc;

use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing};
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::packet::{PacketConfig, PacketError, PacketWorld, Requests, Trace, Transport, TransportKind};

use crate::error::{KeyError, Result};
use crate::scenario::Run;
use crate::scenario::control::Scheduler;
use crate::scenario::world::Queues;

/// Settings of a run on a fabric.
///
/// # Errors
/// Settings that mean nothing there.
pub(super) fn config(fabric: &Fabric, run: &Run) -> Result<PacketConfig> {
    let (world, control) = (&run.scenario.world, &run.scenario.control);
    let queues = &world.queues;
    let config = PacketConfig {
        transport: transport(fabric, run),
        switch_queue: queues.switch,
        nic_queue: queues.nic,
        ecn_threshold: queues.ecn_threshold,
        nic_duplex: queues.nic_duplex,
        host_jitter: queues.host_jitter,
        hop_delay: queues.hop_delay,
        detour_header: queues.detour_header,
        requests: requests(fabric, run)?,
        trace: run.scenario.trace.on(fabric)?,
        duration: world.duration.unwrap_or(Duration::MAX),
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        ..PacketConfig::default()
    };
    config.check().map_err(|e| at_queue(e, queues))?;
    if matches!(config.transport.kind, TransportKind::Mptcp { .. }) && control.scheduler != Scheduler::None {
        let message = "MPTCP spreads its subflows itself, and a scheduler would move only the first";
        return Err(KeyError::new("control.scheduler", message, "write scheduler = \"none\", or another transport").into());
    }
    Ok(config)
}

/// The requests of a run, if those are its load; the ones within its window count.
fn requests(fabric: &Fabric, run: &Run) -> Result<Option<Requests>> {
    let world = &run.scenario.world;
    let Some(load) = run.scenario.traffic.requests(fabric, world.seed)? else { return Ok(None) };
    let end = world.duration.unwrap_or(Duration::MAX).as_ps() - world.cooldown.as_ps();
    Ok(Some(Requests { load, from: Instant::ZERO + world.warmup, to: Instant::from_ps(end) }))
}

/// MPTCP takes each combination of the two hosts' NICs (Subways section 5.1), unless the scenario says how many.
fn transport(fabric: &Fabric, run: &Run) -> Transport {
    let spec = &run.scenario.transport;
    let mut transport = spec.transport.clone();
    if let TransportKind::Mptcp { subflows } = &mut transport.kind
        && spec.subflows.is_none()
    {
        let ports = fabric.hosts().map(|h| fabric.out(h.node()).len() as u32).max().unwrap_or(1);
        if ports > 1 {
            *subflows = (ports * ports).min(weft_sim::packet::MAX_SUBFLOWS);
        }
    }
    transport
}

/// A queue's error, at the one of the two that is too small.
fn at_queue(error: PacketError, queues: &Queues) -> KeyError {
    let nic = matches!(error, PacketError::QueueTooSmall { queue, .. } if queues.switch != Some(queue));
    let error = located(error);
    if nic { KeyError { key: "world.nic_queue".to_owned(), ..error } } else { error }
}

fn located(error: PacketError) -> KeyError {
    let (key, help) = match error {
        PacketError::PacketTooLarge { .. } | PacketError::NoPayload => ("transport.mss", "write a size such as \"1460B\""),
        PacketError::NoHeader => ("transport.header", "write a size such as \"40B\""),
        PacketError::QueueTooSmall { .. } => ("world.switch_queue", "enlarge `switch_queue` or `nic_queue`, or leave it out"),
        PacketError::WindowTooSmall { .. } => ("transport.max_window", "enlarge it, or leave it out"),
        PacketError::NoWindow => ("transport.initial_window", "write 1 or more"),
        PacketError::Subflows(_) => ("transport.subflows", "choose a number from 2 to 16"),
        PacketError::NoTimeout => ("transport.rto_min", "write a time such as \"200ms\""),
        PacketError::Duplex(_) => ("world.nic_duplex", "write a number above 0 and at most 1, such as 0.9"),
    };
    KeyError::new(key, error.to_string(), help)
}

/// Carries the flows of a run, drawn on its own fabric, on a non-blocking switch that nobody schedules and where nothing breaks.
///
/// # Errors
/// Traffic that the fabric cannot have.
pub(super) fn carry_ideal(fabric: &Arc<Fabric>, ideal: &Arc<Fabric>, run: &Run, look: &mut dyn FnMut()) -> Result<Outcome> {
    let seed = run.scenario.world.seed;
    let world = PacketWorld {
        fabric: Arc::clone(ideal),
        router: Router::new(Arc::clone(ideal), Routing::default(), seed),
        controller: None,
        workload: run.scenario.traffic.prepare(fabric, seed)?.workload,
        events: Vec::new(),
        config: PacketConfig { link_samples: 0, trace: Trace::default(), ..config(fabric, run)? },
    };
    Ok(world.run(&mut |_| look()).map_err(located)?)
}

/// Carries a world.
///
/// # Errors
/// Settings that mean nothing.
pub(super) fn carry(world: PacketWorld, progress: &mut dyn FnMut(weft_sim::world::Progress)) -> Result<Outcome> {
    Ok(world.run(progress).map_err(located)?)
}

/// The part of the bits on a saturated link in both directions that is payload: a segment's payload over the segment and the
/// acknowledgements of the other direction that share its link (VL2 section 5.1).
pub fn payload_part(transport: &Transport) -> f64 {
    let [mss, header] = [transport.mss, transport.header].map(|b| b.0 as f64);
    let acks_a_segment = if transport.delayed_ack.is_some() { 0.5 } else { 1.0 };
    mss / (mss + header + acks_a_segment * header)
}
