//! `[[event]]` as the simulators take it.

use weft_fabric::Fabric;
use weft_fabric::topology::Part;
use weft_sim::world::{Change, TimedEvent};

use crate::error::{KeyError, Result};
use crate::scenario::world::{Event, EventKind};

/// Failures and repairs on a fabric, in order of time, without events that only a lab has.
///
/// # Errors
/// An event that names a part which the fabric does not have.
pub fn timed_events(fabric: &Fabric, events: &[Event]) -> Result<Vec<TimedEvent>> {
    events.iter().filter_map(|e| timed(fabric, e).transpose()).collect()
}

fn timed(fabric: &Fabric, event: &Event) -> Result<Option<TimedEvent>> {
    if !event.kind.is_simulated() {
        return Ok(None);
    }
    let part = Part::parse(fabric, &event.part)
        .map_err(|e| KeyError::new(event.key.clone(), e.to_string(), "`weft topo SCENARIO --export dot` lists all names"))?;
    let change = match event.kind {
        EventKind::Fail => Change::Fail(part),
        EventKind::FailSilent => Change::FailSilent(part),
        EventKind::Restore => Change::Restore(part),
        EventKind::Kill | EventKind::Restart | EventKind::Move | EventKind::Forge => return Ok(None),
    };
    Ok(Some(TimedEvent { at: event.at, change }))
}
