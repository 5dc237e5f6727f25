//! Agents that choose the NICs of flows, on all hosts and their ToRs, and the scheduler above them (Subways section 5.2).

mod layout;

use serde::{Deserialize, Serialize};

/// The agents of a lab whose hosts have several NICs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The fabric with the rates of the lab, as a weft-fabric file.
    pub fabric: String,
    /// `[scheduler]` of the scheduler's configuration.
    pub settings: String,
    /// The host on which the scheduler runs, as an index into the plan's nodes.
    pub host: usize,
    /// Whether hosts take part in detours.
    #[serde(default)]
    pub detours: bool,
    /// Its NICs at whose addresses agents report: one in each network of switches.
    pub nics: Vec<usize>,
}
