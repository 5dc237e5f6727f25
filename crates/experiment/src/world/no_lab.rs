//! The lab in a `weft` that is built without it.

use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric::record::Outcome;
use weft_fabric::traffic::Workload;
use weft_sim::world::Progress;

use crate::error::{Error, Result};
use crate::scenario::Scenario;

/// Why no lab can come up here.
pub fn unavailable() -> Option<String> {
    Some("this `weft` has no lab".to_owned())
}

/// Fails.
///
/// # Errors
/// Always.
pub fn need() -> Result<()> {
    Err(Error::NoLab)
}

/// There is no run to end.
pub fn stop() -> bool {
    false
}

/// A run that cannot be executed here.
pub struct LabRun;

/// Nothing can be checked here.
pub(super) fn prepare(_: &Fabric, _: &Fabric, _: &Scenario) -> Result<LabRun> {
    Ok(LabRun)
}

impl LabRun {
    /// Fails.
    pub(super) fn execute(
        self,
        _: &Arc<Fabric>,
        _: &Scenario,
        _: Box<dyn Workload>,
        _: &mut dyn FnMut(Progress),
    ) -> Result<Outcome> {
        need().map(|()| unreachable!("there is no lab"))
    }
}

/// Of no lab.
pub fn payload_fraction(_: &Scenario) -> f64 {
    1.0
}
