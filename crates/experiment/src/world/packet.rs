//! The settings of a run as the packet world takes them.

use weft_fabric::record::Outcome;
use weft_fabric::{Bytes, Duration, Fabric, Instant};
use weft_sim::packet::{PacketConfig, PacketError, PacketWorld, Requests, Transport, TransportKind};
use weft_sim::world::Progress;

use crate::error::{KeyError, Result};
use crate::scenario::Scenario;
use crate::scenario::control::Scheduler;
use crate::scenario::world::Queues;

/// Settings of a run on a fabric.
///
/// # Errors
/// Settings that mean nothing there.
pub(super) fn config(fabric: &Fabric, scenario: &Scenario) -> Result<PacketConfig> {
    let (world, control) = (&scenario.world, &scenario.control);
    let queues = &world.queues;
    let config = PacketConfig {
        transport: transport(fabric, scenario),
        switch_queue: queues.switch,
        nic_queue: queues.nic,
        ecn_threshold: queues.ecn_threshold,
        nic_duplex: queues.nic_duplex,
        host_jitter: queues.host_jitter,
        hop_delay: queues.hop_delay,
        detour_header: queues.detour_header,
        requests: requests(fabric, scenario)?,
        trace: scenario.trace.on(fabric)?,
        duration: world.duration.unwrap_or(Duration::MAX),
        reconverge: control.reconverge,
        restore_delay: control.restore_delay,
        overlay: scenario.overlay.agents(fabric.host_count()),
        ..PacketConfig::default()
    };
    config.check().map_err(|e| at_queue(e, queues))?;
    if matches!(config.transport.kind, TransportKind::Mptcp { .. }) && control.scheduler != Scheduler::None {
        let message = "MPTCP spreads its subflows itself, and a scheduler would move only the first";
        return Err(KeyError::new("control.scheduler", message, "write scheduler = \"none\", or another transport").into());
    }
    Ok(config)
}

/// The smallest queue of a switch's port, and how many full packets it holds.
pub fn least_switch_queue(fabric: &Fabric, scenario: &Scenario) -> Option<(Bytes, u64)> {
    config(fabric, scenario).ok()?.least_switch_queue(fabric)
}

/// The requests of a run, if those are its load; the ones within its window count.
fn requests(fabric: &Fabric, scenario: &Scenario) -> Result<Option<Requests>> {
    let world = &scenario.world;
    let Some(load) = scenario.traffic.requests(fabric, world.seed)? else { return Ok(None) };
    let end = world.duration.unwrap_or(Duration::MAX).as_ps() - world.cooldown.as_ps();
    Ok(Some(Requests { load, from: Instant::ZERO + world.warmup, to: Instant::from_ps(end) }))
}

/// MPTCP takes each combination of the two hosts' NICs (Subways section 5.1), unless the scenario says how many.
pub(super) fn transport(fabric: &Fabric, scenario: &Scenario) -> Transport {
    let spec = &scenario.transport;
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

/// An error of the queues, at the key of the one that is too small.
fn at_queue(error: PacketError, queues: &Queues) -> KeyError {
    let key = match &error {
        PacketError::QueueTooSmall { queue, .. } if queues.nic == Some(*queue) && queues.of_port() != Some(*queue) => {
            "world.nic_queue"
        }
        PacketError::QueueTooSmall { .. } if queues.of_port().is_none() => "world.switch_buffer",
        _ => return error.into(),
    };
    KeyError { key: key.to_owned(), ..error.into() }
}

/// Runs a world.
///
/// # Errors
/// Settings that mean nothing.
pub(super) fn execute(world: PacketWorld, progress: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    Ok(world.run(progress).map_err(KeyError::from)?)
}

/// The fraction of the bits on a saturated link in both directions that is payload: a segment's payload over the segment and the
/// acknowledgements of the other direction that share its link (VL2 section 5.1).
pub fn payload_fraction(transport: &Transport) -> f64 {
    let [mss, header] = [transport.mss, transport.header].map(|b| b.0 as f64);
    let acks_per_segment = if transport.delayed_ack.is_some() { 0.5 } else { 1.0 };
    mss / (mss + header + acks_per_segment * header)
}
