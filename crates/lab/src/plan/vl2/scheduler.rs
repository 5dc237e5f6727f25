//! `weft-scheduler` over VL2's agents (Hedera section 3): flows are placed over intermediate switches, and no switch needs OpenFlow.

use std::fmt::Write as _;
use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};
use weft_control::directory::auth::Secret;
use weft_control::wire::vl2::placement::{self, PlacementKey};
use weft_fabric::Fabric;
use weft_fabric::formats::topology::{Export, write};

use crate::directory::principal;
use crate::plan::openflow::{FABRIC_FILE, SOCKET, SchedulerKind, SchedulerSpec};
use crate::plan::{Plan, PlanError, Role};

/// The scheduler of a lab's agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentScheduler {
    /// The fabric with the rates of the lab, as a weft-fabric file.
    pub fabric: String,
    /// Its settings.
    pub settings: SchedulerSpec,
    /// The host on which it runs, as an index into [`Plan::nodes`].
    pub host: usize,
}

impl Plan {
    /// The plan with a scheduler of VL2's agents; unchanged without VL2, and without a scheduler.
    ///
    /// # Errors
    /// [`PlanError`] if there are no intermediate switches, or the fabric cannot be written.
    pub fn with_agent_scheduler(mut self, fabric: &Fabric, settings: SchedulerSpec) -> Result<Self, PlanError> {
        let scale = self.scale;
        let Some(vl2) = self.overlay.vl2_mut().filter(|_| settings.kind != SchedulerKind::None) else { return Ok(self) };
        if vl2.intermediates.is_empty() {
            return Err(PlanError::NoIntermediates);
        }
        let file = write(&Fabric::clone(fabric).scaled(scale), Export::Native);
        let fabric = file.map_err(|error| PlanError::OpenflowFabric { reason: error.reason })?;
        // With the directory: the last host is the least likely to have traffic of its own.
        let Some(host) = vl2.hosts.last().map(|host| host.node) else { return Ok(self) };
        vl2.scheduler = Some(AgentScheduler { fabric, settings, host });
        Ok(self)
    }
}

impl AgentScheduler {
    /// Where agents report.
    pub fn address(&self, plan: &Plan) -> SocketAddrV4 {
        SocketAddrV4::new(plan.nodes[self.host].locator, placement::PORT)
    }

    /// The scheduler's configuration: a TOML file in the folder of the fabric's file.
    pub fn config(&self, plan: &Plan, secret: &Secret) -> String {
        let mut text = format!("fabric = \"{FABRIC_FILE}\"\nsocket = \"{SOCKET}\"\nmetrics = \"off\"\n\n");
        text += &self.settings.section();
        let _ = write!(text, "\n[agents]\nlisten = \"{}\"\n\n[agents.intermediates]\n", self.address(plan));
        let vl2 = plan.overlay.vl2();
        let is_tor = |node: usize| vl2.is_some_and(|vl2| vl2.is_tor(node));
        for (_, switch) in plan.nodes.iter().enumerate().filter(|(at, node)| node.role == Role::Switch && !is_tor(*at)) {
            let _ = writeln!(text, "{:?} = \"{}\"", switch.name, switch.locator);
        }
        for host in vl2.iter().flat_map(|vl2| &vl2.hosts) {
            let (name, number) = (&plan.nodes[host.node].name, principal(host.node));
            let key = PlacementKey::of(&secret.key_of(number)).to_hex();
            let _ = write!(
                text,
                "\n[[agents.host]]\nname = {name:?}\nprincipal = {}\nplacement_key = \"{key}\"\naddresses = [\"{}\", \"{}\"]\n",
                number.0, host.aa4, host.aa6
            );
        }
        text
    }
}
