//! NetLord's agents: ready when each host's agent knows its location, and each edge switch its hosts.

use std::sync::atomic::AtomicBool;

use crate::agents::{socket, start_all, wait_for_status};
use crate::error::{LabError, Result};
use crate::names::AGENT;
use crate::plan::Plan;
use crate::programs::{self, READY_WITHIN};

/// Starts all agents; [`wait_until_healthy`] waits for what they have to discover.
pub(super) fn start(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    start_all(plan, stop)
}

/// Waits until all agents report that they are healthy.
pub(crate) fn wait_until_healthy(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    let late = wait_for_status(plan, plan.with_agents(), stop, |status| status["verdict"] == "ok")?;
    let Some(node) = late.first() else { return Ok(()) };
    let status = programs::ask(&socket(plan, node)).unwrap_or_default();
    let problems = status["ok"]["problems"].to_string();
    let message = format!("it is not healthy after {} s: {problems}", READY_WITHIN.as_secs());
    Err(LabError::Program { program: AGENT.to_owned(), place: node.name.clone(), message })
}
