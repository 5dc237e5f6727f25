//! Lays the agents over a plan.

use std::fmt::Write as _;
use std::net::SocketAddrV4;

use weft_control::directory::auth::Secret;
use weft_control::subways::{Rebind, SubwaysConfig};
use weft_control::wire::subways;
use weft_control::wire::vl2::placement::PlacementKey;
use weft_fabric::Fabric;
use weft_fabric::formats::topology::{Export, write};
use weft_fabric::time::NsDuration;

use super::Access;
use crate::directory::principal;
use crate::plan::openflow::{FABRIC_FILE, SOCKET};
use crate::plan::overlay::Overlay;
use crate::plan::{Plan, PlanError, Role};

impl Plan {
    /// The plan with agents that choose the NICs of flows; unchanged if every host has one NIC.
    ///
    /// # Errors
    /// [`PlanError`] if the fabric cannot be written.
    pub fn with_access(mut self, fabric: &Fabric, config: &SubwaysConfig) -> Result<Self, PlanError> {
        if self.hosts().all(|host| host.ports.len() < 2) {
            return Ok(self);
        }
        let file = write(&Fabric::clone(fabric).scaled(self.scale), Export::Native);
        let fabric = file.map_err(|error| PlanError::OpenflowFabric { reason: error.reason })?;
        // The last host is the least likely to have traffic of its own: patterns begin with the first.
        let host = self.hosts().count() - 1;
        self.overlay = Overlay::Access(Box::new(Access { fabric, settings: section(config), host }));
        Ok(self)
    }

    /// The switches to which hosts are attached.
    pub fn is_edge(&self, node: usize) -> bool {
        self.nodes[node].role == Role::Switch && self.nodes[node].ports.iter().any(|p| self.nodes[p.peer.node].role == Role::Host)
    }
}

impl Access {
    /// Where agents report.
    pub fn address(&self, plan: &Plan) -> SocketAddrV4 {
        SocketAddrV4::new(plan.nodes[self.host].locator, subways::PORT)
    }

    /// The scheduler's configuration: a TOML file in the folder of the fabric's file.
    pub fn config(&self, plan: &Plan, secret: &Secret) -> String {
        let mut text = format!("fabric = \"{FABRIC_FILE}\"\nsocket = \"{SOCKET}\"\nmetrics = \"off\"\n\n{}", self.settings);
        let _ = write!(text, "\n[access]\nlisten = \"{}\"\n", self.address(plan));
        for (at, node) in plan.nodes.iter().enumerate() {
            let kind = match node.role {
                Role::Host => "host",
                _ if plan.is_edge(at) => "tor",
                _ => continue,
            };
            let key = PlacementKey::of(&secret.key_of(principal(at))).to_hex();
            let (name, number) = (&node.name, principal(at).0);
            let _ = write!(text, "\n[[access.{kind}]]\nname = {name:?}\nprincipal = {number}\nplacement_key = \"{key}\"\n");
        }
        text
    }
}

/// `[scheduler]` of its configuration.
fn section(config: &SubwaysConfig) -> String {
    let SubwaysConfig { period, ewma_gain, aggressiveness, utilisation_floor, rebind, flowlet_gap, seed, .. } = config;
    let rebind = match rebind {
        Rebind::Surplus => "surplus",
        Rebind::All => "all",
    };
    let [period, gap] = [period, flowlet_gap].map(|time| NsDuration::from_ns(time.as_ns()));
    format!(
        "[scheduler]\nkind = \"adaptive\"\nperiod = \"{period}\"\newma_gain = {ewma_gain:?}\naggressiveness = {aggressiveness:?}\n\
         utilisation_floor = {utilisation_floor:?}\nrebind = \"{rebind}\"\nflowlet_gap = \"{gap}\"\nseed = {seed}\n"
    )
}
