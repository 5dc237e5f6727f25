//! VL2's agents: ready when their addresses are attached.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::agents::{start_all, wait_for_status};
use crate::error::{LabError, Result};
use crate::plan::{Node, Plan};
use crate::programs::READY_WITHIN;

/// Starts all agents, and waits until the addresses of all hosts are attached.
pub(super) fn start(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    start_all(plan, stop)?;
    wait_until_attached(plan, plan.hosts(), stop)
}

/// Waits until the addresses of these hosts are attached: after its start an agent reports them to its ToR, and the ToR to the directory.
pub(super) fn wait_until_attached<'a>(plan: &Plan, hosts: impl Iterator<Item = &'a Node>, stop: &AtomicBool) -> Result<()> {
    let late = wait_for_status(plan, hosts, stop, is_attached)?;
    let Some(host) = late.first() else { return Ok(()) };
    Err(LabError::NotAttached { node: host.name.clone(), seconds: READY_WITHIN.as_secs(), others: late.len() - 1 })
}

/// Whether an agent reports that all its addresses are attached.
fn is_attached(status: &Value) -> bool {
    let addresses = status["addresses"].as_array();
    addresses.is_some_and(|all| all.len() >= ADDRESSES && all.iter().all(|a| a["attached"] == true))
}

/// Addresses of a host: one of IPv4, which it may have to lease before, and one of IPv6.
const ADDRESSES: usize = 2;
