//! SPAIN's plan for a scenario, as people and programs read it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use weft_control::netlord::edge_mac;
use weft_control::netlord::spain::SpainTables;
use weft_control::netlord::vlans::Vlans;
use weft_fabric::routing::spain::{Plan, SpainConfig};
use weft_fabric::{Fabric, SwitchId};

use crate::error::{KeyError, Result};
use crate::scenario::keys::Keys;
use crate::scenario::source::{Overrides, Source};
use crate::scenario::tenants::{self, Scale, TenantSpec};
use crate::scenario::{control, fabric::FabricSpec};

/// VLANs, paths and configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// What the fabric is, in a line.
    pub fabric: String,
    /// VLANs that are needed.
    pub vlans: usize,
    /// No packing has fewer.
    pub bound: usize,
    /// Switches with hosts that take part.
    pub edge_switches: usize,
    /// Pairs of them.
    pub pairs: u64,
    /// Paths of a pair: the fewest, the mean, the most.
    pub paths: [f64; 3],
    /// Those among them that share no cable with another.
    pub disjoint: [f64; 3],
    /// Hops between switches of the longest path.
    pub longest_hops: u32,
    /// Cables between switches.
    pub cables: u32,
    /// Those that lie in a VLAN.
    pub cables_used: u32,
    /// The VLANs of the trees that reach all agents, and the cables that several of them have.
    pub special: Special,
    /// Entries that the largest learning table of an edge switch needs with NetLord, if all send to all.
    pub fib_entries: usize,
    /// The ports of all switches.
    pub switches: Vec<Switch>,
}

/// The trees that reach all agents.
#[derive(Clone, Debug, Serialize)]
pub struct Special {
    /// Their VLANs.
    pub vlans: Vec<u16>,
    /// Cables that more than one of them has.
    pub shared_cables: usize,
}

/// A switch's configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Switch {
    /// Its name.
    pub switch: String,
    /// Its ports, numbered from 1.
    pub ports: Vec<Port>,
}

/// A port's VLANs.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    /// Its number.
    pub port: usize,
    /// The node at the other end.
    pub to: String,
    /// The VLANs, all tagged: `1-4,7`.
    pub vlans: String,
}

/// The plan of a scenario file, and its fabric.
///
/// # Errors
/// What is wrong with the tables that it reads, or more VLANs than there are.
pub fn plan(path: &Path, overrides: &Overrides) -> Result<(Arc<Fabric>, Plan)> {
    plan_of(&Source::read(path, overrides)?)
}

/// The plan of a scenario, as it is shown.
///
/// # Errors
/// As of [`plan`].
pub fn survey_of(source: &Source) -> Result<Survey> {
    plan_of(source).map(|(fabric, plan)| of_plan(&fabric, &plan))
}

fn plan_of(source: &Source) -> Result<(Arc<Fabric>, Plan)> {
    let variant = source.variants()?.swap_remove(0);
    let root = Keys::new("", &variant.table);
    let read = || -> Result<(Arc<Fabric>, Plan), KeyError> {
        let fabric = Arc::new(FabricSpec::read(&root.table("fabric")?, &source.folder)?.build()?);
        let config = control::read_spain(&root.table("control")?)?;
        let seed = root.table("world")?.or("seed", config.seed)?;
        let edges = if tenants::is_pattern(&root) { Some(edges(&fabric, &TenantSpec::read(&root)?)?) } else { None };
        let config = SpainConfig { seed, ..config };
        let plan = match edges {
            Some(edges) => Plan::between(&fabric, edges, &config),
            None => Plan::new(&fabric, &config),
        };
        Ok((fabric, plan?))
    };
    read().map_err(|e| source.at(e))
}

/// The switches of the tenants' hosts.
fn edges(fabric: &Fabric, spec: &TenantSpec) -> Result<Vec<SwitchId>, KeyError> {
    let tenants = spec.on(fabric, Scale::WHOLE)?;
    let hosts = tenants.iter().flat_map(|t| &t.hosts);
    let mut edges: Vec<SwitchId> = hosts.filter_map(|h| fabric.as_switch(fabric.link(fabric.out(h.node())[0]).to)).collect();
    edges.sort_unstable();
    edges.dedup();
    Ok(edges)
}

/// A plan as it is shown.
pub fn of_plan(fabric: &Fabric, plan: &Plan) -> Survey {
    let diversity = plan.diversity();
    let configs = plan.switch_configs(fabric);
    let name = |cable: weft_fabric::CableId, switch: SwitchId| {
        let link = fabric.link(cable.links()[0]);
        let node = if link.from == fabric.switch_node(switch) { link.to } else { link.from };
        fabric.node(node).name.to_string()
    };
    let switches = configs.iter().map(|config| Switch {
        switch: fabric.node(fabric.switch_node(config.switch)).name.to_string(),
        ports: (1..)
            .zip(&config.ports)
            .map(|(port, p)| Port {
                port,
                to: name(p.cable, config.switch),
                vlans: Vlans::of(p.vlans.iter().map(|vlan| vlan.0)).to_string(),
            })
            .collect(),
    });
    Survey {
        fabric: fabric.title().to_owned(),
        vlans: plan.vlans().len(),
        bound: plan.bound(),
        edge_switches: plan.edges().len(),
        pairs: diversity.pairs,
        paths: diversity.paths,
        disjoint: diversity.disjoint,
        longest_hops: diversity.longest,
        cables: diversity.cables[0],
        cables_used: diversity.cables[1],
        special: special(plan),
        fib_entries: plan.edges().iter().map(|&e| entries(fabric, plan, e)).max().unwrap_or(0),
        switches: switches.collect(),
    }
}

fn special(plan: &Plan) -> Special {
    let mut cables: Vec<_> = plan.trees().flat_map(|(_, cables)| cables).collect();
    cables.sort_unstable();
    let shared = cables.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).count();
    Special { vlans: plan.trees().map(|(vlan, _)| vlan.0).collect(), shared_cables: shared }
}

/// A pair's VLANs each cost an entry at both ends, and a server one at its own switch.
fn entries(fabric: &Fabric, plan: &Plan, edge: SwitchId) -> usize {
    let remote: usize = plan.edges().iter().map(|&other| plan.vlans_between(edge, other).count()).sum();
    let out = fabric.out(fabric.switch_node(edge));
    remote + out.iter().filter(|&&l| fabric.as_host(fabric.link(l).to).is_some()).count()
}

/// The agents' tables: the VLANs by which each edge switch is reached from each other one. The addresses are those of labs, in the order of the edge switches.
pub fn tables(plan: &Plan, version: u32) -> SpainTables {
    let edges: Vec<_> = (1..).map(edge_mac).zip(plan.edges()).collect();
    let table = |from: SwitchId| {
        let others = edges.iter().filter(|(_, to)| **to != from);
        others.map(|&(mac, &to)| (mac, Vlans::of(plan.vlans_between(from, to).map(|vlan| vlan.0)))).collect()
    };
    SpainTables { version, from: edges.iter().map(|&(mac, &from)| (mac, table(from))).collect() }
}
