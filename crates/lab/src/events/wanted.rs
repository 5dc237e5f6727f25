//! Events as a scenario has them, and what they are in a lab; what cannot be is told before there is one.

use weft_fabric::topology::Part;
use weft_fabric::{Fabric, Instant};

use super::moving::{self, Route};
use super::{Change, Event, EventError, Program};
use crate::error::Result;
use crate::plan::{Plan, PlanError};

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A part fails.
    Fail,
    /// A part loses everything, and nobody is told.
    FailSilent,
    /// A part works again.
    Restore,
    /// A program is ended.
    Kill,
    /// A program is started again; it is ended before, if it runs.
    Restart,
    /// A server moves to another ToR, `host h1 to tor2`, or a VM to another host, `vm acme-web1 to h3`.
    Move,
    /// A VM sends frames that it should not: `vm acme-web1`.
    Forge,
}

/// An event of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// When.
    pub at: Instant,
    /// What.
    pub verb: Verb,
    /// To whom.
    pub object: &'a str,
}

/// The events, and the plan with a place for each server that moves. The events are in order of time.
///
/// # Errors
/// The position of an event that this lab cannot have, and why.
pub fn arrange(plan: Plan, fabric: &Fabric, wanted: &[Wanted<'_>]) -> Result<(Plan, Vec<Event>), (usize, EventError)> {
    let mut vm_moves = moving::of_vms(&plan, wanted)?;
    let moves = if plan.tenants.is_some() { Vec::new() } else { moving::routes(&plan, wanted)? };
    let places: Vec<(usize, usize)> = moves.iter().map(|(_, Route { host, tor })| (*host, *tor)).collect();
    let first = moves.first().map_or(0, |(index, _)| *index);
    let plan = if places.is_empty() { Ok(plan) } else { plan.with_moves(&places) };
    let plan = plan.map_err(|error| (first, of_plan(&error)))?;
    let mut events = Vec::with_capacity(wanted.len());
    for (index, &Wanted { at, verb, object }) in wanted.iter().enumerate() {
        let of_event = |error| (index, error);
        let part = || part(fabric, object).and_then(|part| moving::stays(&plan, fabric, part).map(|()| part)).map_err(of_event);
        let program = || Program::parse(&plan, object).map_err(of_event);
        let change = match verb {
            Verb::Fail => Change::Fail(part()?),
            Verb::FailSilent => Change::FailSilent(part()?),
            Verb::Restore => Change::Restore(part()?),
            Verb::Forge => Change::Forge(moving::forger(&plan, object).map_err(of_event)?),
            Verb::Kill => Change::Kill(program()?),
            Verb::Restart => Change::Restart(program()?),
            Verb::Move if plan.tenants.is_some() => vm_moves.remove(0),
            Verb::Move => Change::Move(moves.iter().position(|(i, _)| *i == index).expect("it was found before")),
        };
        events.push(Event { at, change });
    }
    Ok((plan, events))
}

fn part(fabric: &Fabric, text: &str) -> Result<Part, EventError> {
    Part::parse(fabric, text).map_err(|e| EventError::new(e.to_string(), "`weft topo SCENARIO --export dot` lists all names"))
}

fn of_plan(error: &PlanError) -> EventError {
    EventError::new(error.to_string(), "docs/vl2.md tells what a server that moves needs")
}
