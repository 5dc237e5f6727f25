//! From the events of a scenario to changes of a lab; an event that the lab does not support is an error before the lab comes up.

use weft_fabric::Fabric;
use weft_fabric::topology::Part;

use super::moves::{self, Move};
use super::spec::{EventSpec, Verb};
use super::{Change, Event, EventError, Program};
use crate::error::Result;
use crate::plan::{Overlay, Plan};

/// Resolves the events of a scenario, which are in order of time. Returns the plan with a place for each server that moves, and the events.
///
/// # Errors
/// The index of an event that this lab does not support, and why.
pub fn resolve(plan: Plan, fabric: &Fabric, specs: &[EventSpec<'_>]) -> Result<(Plan, Vec<Event>), (usize, EventError)> {
    let mut vm_moves = moves::of_vms(&plan, specs)?;
    let moves = if let Overlay::Netlord(_) = plan.overlay { Vec::new() } else { moves::of_hosts(&plan, specs)? };
    let places: Vec<(usize, usize)> = moves.iter().map(|(_, Move { host, tor })| (*host, *tor)).collect();
    let first = moves.first().map_or(0, |(index, _)| *index);
    let plan = if places.is_empty() { Ok(plan) } else { plan.with_moves(&places) };
    let plan = plan.map_err(|error| (first, EventError::Plan(error)))?;
    let mut events = Vec::with_capacity(specs.len());
    for (index, &EventSpec { at, verb, object }) in specs.iter().enumerate() {
        let of_event = |error| (index, error);
        let part = || {
            part(fabric, object).and_then(|part| moves::check_not_moving(&plan, fabric, part).map(|()| part)).map_err(of_event)
        };
        let program = || Program::parse(&plan, object).map_err(of_event);
        let change = match verb {
            Verb::Fail => Change::Fail(part()?),
            Verb::FailSilent => Change::FailSilent(part()?),
            Verb::Restore => Change::Restore(part()?),
            Verb::Forge => Change::Forge(moves::forger(&plan, object).map_err(of_event)?),
            Verb::Kill => Change::Kill(program()?),
            Verb::Restart => Change::Restart(program()?),
            Verb::Move if plan.overlay.netlord().is_some() => vm_moves.remove(0),
            Verb::Move => Change::Move(moves.iter().position(|(i, _)| *i == index).expect("moves were collected before")),
        };
        events.push(Event { at, change });
    }
    Ok((plan, events))
}

fn part(fabric: &Fabric, text: &str) -> Result<Part, EventError> {
    Part::parse(fabric, text).map_err(EventError::Part)
}
