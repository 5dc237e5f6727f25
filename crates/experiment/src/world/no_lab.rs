//! The lab where there is none: it says so.

use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric::record::Outcome;
use weft_fabric::traffic::Workload;
use weft_sim::world::Progress;

use crate::error::{Error, Result};
use crate::scenario::Run;

/// Why no lab can come up here.
pub fn unavailable() -> Option<String> {
    Some("this `weft` has no lab".to_owned())
}

/// Fails.
///
/// # Errors
/// Always.
pub fn need() -> Result<()> {
    Err(Error::usage("this `weft` has no lab", "a lab is made of Linux namespaces: build weft on Linux, with its feature `lab`"))
}

/// There is no run to end.
pub fn stop() -> bool {
    false
}

/// Nothing is to be told beforehand.
pub(super) fn check(_: &Fabric, _: &Run) -> Result<()> {
    Ok(())
}

/// Fails.
pub(super) fn carry(_: &Arc<Fabric>, _: &Run, _: Box<dyn Workload>, _: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    need().map(|()| unreachable!("there is no lab"))
}

/// Of no lab.
pub fn payload_part(_: &Run) -> f64 {
    1.0
}
