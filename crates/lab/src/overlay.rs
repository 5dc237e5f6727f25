//! What is laid over a lab, VL2, NetLord or agents that choose NICs: programs checked, addresses configured, daemons started, drops counted.

use std::sync::atomic::AtomicBool;

use crate::agents::{self, OverlayTimes};
use crate::error::Result;
use crate::names::AGENT;
use crate::plan::{Overlay, Plan};
use crate::programs::find;
use crate::{access, netlord, netns, vl2};

/// Checks that the programs are installed, before anything is made.
///
/// # Errors
/// [`LabError::NoProgram`](crate::LabError::NoProgram), [`LabError::NoEtcd`](crate::LabError::NoEtcd),
/// [`LabError::Missing`](crate::LabError::Missing).
pub(crate) fn check(plan: &Plan) -> Result<()> {
    if !plan.overlay.is_none() {
        find(AGENT)?;
    }
    match &plan.overlay {
        Overlay::None => Ok(()),
        Overlay::Vl2(vl2) => vl2::check(vl2),
        Overlay::Netlord(netlord) => netlord::check(netlord),
        Overlay::Access(_) => access::check(),
    }
}

/// Configures the addresses of hosts or VMs, whose devices are up.
pub(crate) fn configure_addresses(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    match &plan.overlay {
        Overlay::None | Overlay::Access(_) => Ok(()),
        Overlay::Vl2(vl2) => vl2::configure_addresses(plan, vl2, stop),
        Overlay::Netlord(netlord) => netlord::configure_addresses(plan, netlord, stop),
    }
}

/// Starts all daemons; returns when they forward. `None` if the plan has no overlay.
pub(crate) fn start(plan: &Plan, stop: &AtomicBool) -> Result<Option<OverlayTimes>> {
    if plan.overlay.is_none() {
        return Ok(None);
    }
    netns::mount_bpf()?;
    let (directory_s, agents_s) = match &plan.overlay {
        Overlay::None => (0.0, 0.0),
        Overlay::Vl2(vl2) => vl2::start(plan, vl2, stop)?,
        Overlay::Netlord(netlord) => netlord::start(plan, netlord, stop)?,
        Overlay::Access(access) => (0.0, access::start(plan, access, stop)?),
    };
    let rss_bytes = agents::status(plan).map_or(0, |status| status.rss_bytes);
    Ok(Some(OverlayTimes { directory_s, agents_s, rss_bytes }))
}

/// Packets that agents have dropped to keep hosts or tenants apart.
pub(crate) fn isolation_drops(plan: &Plan) -> u64 {
    let reasons = match &plan.overlay {
        Overlay::None | Overlay::Access(_) => return 0,
        Overlay::Vl2(_) => &vl2::ISOLATION_DROPS[..],
        Overlay::Netlord(_) => &netlord::ISOLATION_DROPS[..],
    };
    agents::drops(plan).iter().filter(|(reason, _)| reasons.contains(&reason.as_str())).map(|(_, count)| count).sum()
}
