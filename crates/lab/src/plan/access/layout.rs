//! Lays the agents over a plan.

use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::sync::Arc;

use weft_control::directory::auth::Secret;
use weft_control::subways::{DetourConfig, Rebind, SubwaysConfig};
use weft_control::wire::subways;
use weft_control::wire::vl2::placement::PlacementKey;
use weft_fabric::formats::topology::{Export, write};
use weft_fabric::routing::NextHops;
use weft_fabric::time::NsDuration;
use weft_fabric::topology::Health;
use weft_fabric::{Fabric, NodeId};

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
        // The last host is the least likely to have traffic of its own: patterns begin with the first.
        let host = self.hosts().count() - 1;
        let nics = nics(fabric, host);
        let file = write(&Fabric::clone(fabric).scaled(self.scale), Export::Native);
        let fabric = file.map_err(|error| PlanError::OpenflowFabric { reason: error.reason })?;
        self.overlay =
            Overlay::Access(Box::new(Access { fabric, settings: section(config), host, detours: config.detour.is_some(), nics }));
        Ok(self)
    }

    /// The switches to which hosts are attached.
    pub fn is_edge(&self, node: usize) -> bool {
        self.nodes[node].role == Role::Switch && self.nodes[node].ports.iter().any(|p| self.nodes[p.peer.node].role == Role::Host)
    }
}

impl Access {
    /// Where agents report: a list of TOML.
    pub fn addresses(&self, plan: &Plan) -> String {
        let ports = self.nics.iter().filter_map(|&nic| plan.nodes[self.host].ports[nic].address);
        let all: Vec<String> = ports.map(|net| format!("\"{}\"", SocketAddrV4::new(net.address, subways::PORT))).collect();
        format!("[{}]", all.join(", "))
    }

    /// The scheduler's configuration: a TOML file in the folder of the fabric's file.
    pub fn config(&self, plan: &Plan, secret: &Secret) -> String {
        let mut text = format!("fabric = \"{FABRIC_FILE}\"\nsocket = \"{SOCKET}\"\nmetrics = \"off\"\n\n{}", self.settings);
        let _ = write!(text, "\n[access]\nlisten = {}\n", self.addresses(plan));
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

/// The NICs of a host that lead to different networks of switches, which only hosts join.
fn nics(fabric: &Fabric, host: usize) -> Vec<usize> {
    let links = fabric.out(NodeId::from(host));
    let mut next_hops = NextHops::new(Arc::new(fabric.clone()));
    let health = Health::new(fabric);
    let mut first: Vec<usize> = Vec::new();
    for (nic, &link) in links.iter().enumerate() {
        let Some(to) = fabric.as_switch(fabric.link(link).to) else { continue };
        let mut joins = |&other: &usize| next_hops.distance(&health, fabric.link(links[other]).to, to).is_some();
        if !first.iter().any(&mut joins) {
            first.push(nic);
        }
    }
    first
}

/// `[scheduler]` of its configuration.
fn section(config: &SubwaysConfig) -> String {
    let SubwaysConfig { period, ewma_gain, aggressiveness, utilisation_floor, rebind, flowlet_gap, detour, seed } = config;
    let kind = if detour.is_some() { "detour" } else { "adaptive" };
    let rebind = match rebind {
        Rebind::Surplus => "surplus",
        Rebind::All => "all",
    };
    let [period, gap] = [period, flowlet_gap].map(|time| NsDuration::from_ns(time.as_ns()));
    let section = format!(
        "[scheduler]\nkind = \"{kind}\"\nperiod = \"{period}\"\newma_gain = {ewma_gain:?}\naggressiveness = {aggressiveness:?}\n\
         utilisation_floor = {utilisation_floor:?}\nrebind = \"{rebind}\"\nflowlet_gap = \"{gap}\"\nseed = {seed}\n"
    );
    section + &detour.as_ref().map_or_else(String::new, detours)
}

/// The keys of detours.
fn detours(config: &DetourConfig) -> String {
    let DetourConfig { detect, hot_duration, hot_threshold, usable, max_servers, edge_rule } = config;
    let [detect, duration] = [detect, hot_duration].map(|time| NsDuration::from_ns(time.as_ns()));
    format!(
        "detect = \"{detect}\"\nhot_duration = \"{duration}\"\nhot_threshold = {hot_threshold:?}\ndetour_usable = {usable:?}\n\
         max_detour_servers = {max_servers}\nedge_rule = {edge_rule}\n"
    )
}
