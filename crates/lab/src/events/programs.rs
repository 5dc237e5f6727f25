//! Programs of a lab that are killed and started again.
//!
//! | | what is killed (SIGKILL) | what continues |
//! | --- | --- | --- |
//! | `agent NODE` | `weft-agent` of a host or a switch | its eBPF programs and their tables, a switch's anycast addresses |
//! | `server N` | `weft-directory`, the Nth from 0 | its store |
//! | `store` | the etcd that directory servers share | what the servers hold in memory |
//! | `scheduler` | `weft-scheduler` | the switches' rules, or the agents' placements |
//! | `frr NODE` | all routing daemons of a switch | the kernel's routes, until zebra starts again |

use std::sync::atomic::AtomicBool;

use weft_fabric::Fabric;
use weft_fabric::topology::edit_distance;

use super::EventError;
use crate::directory::{Directory, kill_server, kill_store, restart_server};
use crate::error::Result;
use crate::openflow::scheduler;
use crate::plan::{DirectoryServers, Node, Overlay, Plan, Role, Routing, Store};
use crate::{agents, frr, netns, programs, state, vlb};

/// A program, or several that work as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The agent of a node, an index into [`Plan::nodes`].
    Agent(usize),
    /// A directory server, by its number.
    Server(usize),
    /// The store that the directory servers share.
    Store,
    /// The scheduler of the switches.
    Scheduler,
    /// The routing daemons of a switch, an index into [`Plan::nodes`].
    Frr(usize),
}

impl Program {
    /// Reads `agent NODE`, `server N`, `store`, `scheduler` or `frr NODE`.
    ///
    /// # Errors
    /// [`EventError`] if there is no such program in the plan.
    pub fn parse(plan: &Plan, text: &str) -> Result<Self, EventError> {
        let (kind, name) = text.trim().split_once(' ').map_or((text.trim(), ""), |(kind, name)| (kind, name.trim()));
        match kind {
            "agent" | "server" | "frr" if name.is_empty() => Err(EventError::ProgramUnnamed { kind: kind.to_owned() }),
            "agent" => agent(plan, name).map(Self::Agent),
            "server" => server(plan, name).map(Self::Server),
            "store" if name.is_empty() => match directory(plan)?.store {
                Store::Etcd => Ok(Self::Store),
                Store::Embedded => Err(EventError::StoreEmbedded),
            },
            "scheduler" if name.is_empty() => scheduler::is_there(plan).then_some(Self::Scheduler).ok_or(EventError::NoScheduler),
            "frr" => routers(plan, name).map(Self::Frr),
            _ => Err(EventError::NoProgram { text: text.to_owned() }),
        }
    }

    /// Its name, as [`Self::parse`] reads it.
    pub fn name(self, plan: &Plan) -> String {
        match self {
            Self::Agent(node) => format!("agent {}", plan.nodes[node].name),
            Self::Server(number) => format!("server {number}"),
            Self::Store => "store".to_owned(),
            Self::Scheduler => "scheduler".to_owned(),
            Self::Frr(node) => format!("frr {}", plan.nodes[node].name),
        }
    }

    /// Kills it. Whether it ran.
    pub(super) fn kill(self, plan: &Plan) -> bool {
        match self {
            Self::Agent(node) => agents::kill(&plan.nodes[node]),
            Self::Server(number) => kill_server(plan, number),
            Self::Store => kill_store(plan),
            Self::Scheduler => scheduler::kill(plan),
            Self::Frr(node) => programs::kill(&plan.nodes[node].namespace, &[&frr::ALL[..], &["staticd"]].concat()) > 0,
        }
    }

    /// Starts it with the files of its first start, and waits until it is ready.
    pub(super) fn start(self, plan: &Plan, fabric: &Fabric, vlb: bool, stop: &AtomicBool) -> Result<()> {
        match self {
            Self::Agent(node) => agents::restart(plan, &[&plan.nodes[node]], stop),
            Self::Server(number) => restart_server(plan, number, stop),
            Self::Store => Directory::of_lab(plan).map_or(Ok(()), |directory| directory.start_store()),
            Self::Scheduler => scheduler::restart(plan, stop),
            Self::Frr(index) => {
                let node = &plan.nodes[index];
                netns::within(&node.namespace, || {
                    frr::start_all(plan, node, &state::daemons(&state::path(&plan.name)))?;
                    if vlb { vlb::reconfigure(plan, fabric, index) } else { Ok(()) }
                })
            }
        }
    }
}

/// A node with an agent.
fn agent(plan: &Plan, name: &str) -> Result<usize, EventError> {
    if plan.overlay.is_none() {
        return Err(EventError::NoOverlay);
    }
    let found = node(plan, name)?;
    match plan.overlay.netlord() {
        Some(netlord) if netlord.is_ovs(found) => Err(EventError::NoAgent { switch: name.to_owned() }),
        _ => Ok(found),
    }
}

fn directory(plan: &Plan) -> Result<&DirectoryServers, EventError> {
    let missing = if plan.overlay.is_none() { EventError::NoOverlay } else { EventError::NoDirectory };
    plan.overlay.directory().ok_or(missing)
}

/// A host or a switch by its name.
pub(super) fn node(plan: &Plan, name: &str) -> Result<usize, EventError> {
    let inside = || plan.nodes.iter().enumerate().filter(|(_, n)| matches!(n.role, Role::Host | Role::Switch));
    inside().find(|(_, n)| n.name == name).map(|(i, _)| i).ok_or_else(|| {
        let guess = inside().map(|(_, n)| n.name.as_str()).min_by_key(|known| edit_distance(known, name)).map(str::to_owned);
        EventError::NoNode { name: name.to_owned(), guess }
    })
}

fn server(plan: &Plan, name: &str) -> Result<usize, EventError> {
    let count = directory(plan)?.hosts.len();
    let found = name.parse().ok().filter(|&n| n < count);
    found.ok_or_else(|| EventError::NoServer { name: name.to_owned(), last: count - 1 })
}

fn routers(plan: &Plan, name: &str) -> Result<usize, EventError> {
    if let Overlay::Netlord(_) = plan.overlay {
        return Err(EventError::Bridges);
    }
    match plan.routing {
        Routing::Static => return Err(EventError::StaticRoutes),
        Routing::Openflow => return Err(EventError::Rules),
        Routing::Frr => {}
    }
    let is_host = |node: &Node| node.role == Role::Host;
    match node(plan, name)? {
        host if is_host(&plan.nodes[host]) => Err(EventError::NotARouter { name: name.to_owned() }),
        switch => Ok(switch),
    }
}
