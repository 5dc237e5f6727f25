//! Programs of a lab that end and start again: which there are, and how that is done.
//!
//! | | what is ended (SIGKILL) | what goes on |
//! | --- | --- | --- |
//! | `agent NODE` | `weft-agent` of a host or a switch | its eBPF programs and their tables, a switch's anycast addresses |
//! | `server N` | `weft-directory`, the Nth from 0 | its store |
//! | `store` | the etcd that directory servers share | what the servers hold in memory |
//! | `frr NODE` | all routing daemons of a switch | the kernel's routes, until zebra starts again |

use std::sync::atomic::AtomicBool;

use weft_fabric::Fabric;
use weft_fabric::topology::edit_distance;

use super::EventError;
use crate::error::Result;
use crate::plan::overlay::Store;
use crate::plan::{Node, Plan, Role, Routing};
use crate::programs::wait_for;
use crate::vl2::control;
use crate::{directory, frr, netns, state, valiant};

/// A program, or several that stand for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The agent of a node, an index into [`Plan::nodes`].
    Agent(usize),
    /// A directory server, by its number.
    Server(usize),
    /// What the directory servers share.
    Store,
    /// The routing daemons of a switch, an index into [`Plan::nodes`].
    Frr(usize),
}

impl Program {
    /// Reads `agent NODE`, `server N`, `store` or `frr NODE`.
    ///
    /// # Errors
    /// [`EventError`] if there is no such program in the plan.
    pub fn parse(plan: &Plan, text: &str) -> Result<Self, EventError> {
        let (kind, name) = text.trim().split_once(' ').map_or((text.trim(), ""), |(kind, name)| (kind, name.trim()));
        match kind {
            "agent" | "server" | "frr" if name.is_empty() => Err(EventError::new(
                format!("`{kind}` of which one?"),
                "write such as \"agent h0\", \"agent tor0\", \"server 0\" or \"frr agg0\"",
            )),
            "agent" => agent(plan, name).map(Self::Agent),
            "server" => server(plan, name).map(Self::Server),
            "store" if name.is_empty() => match directory(plan)?.1 {
                Store::Etcd => Ok(Self::Store),
                Store::Embedded => Err(EventError::new(
                    "the directory's store is a part of its server",
                    "write \"server 0\", or store = \"etcd\" in [directory]",
                )),
            },
            "frr" => routers(plan, name).map(Self::Frr),
            _ => Err(EventError::new(
                format!("`{text}` is no program of a lab"),
                "write such as \"agent h0\", \"agent tor0\", \"server 0\", \"store\" or \"frr agg0\"",
            )),
        }
    }

    /// As [`Self::parse`] reads it.
    pub fn name(self, plan: &Plan) -> String {
        match self {
            Self::Agent(node) => format!("agent {}", plan.nodes[node].name),
            Self::Server(number) => format!("server {number}"),
            Self::Store => "store".to_owned(),
            Self::Frr(node) => format!("frr {}", plan.nodes[node].name),
        }
    }

    /// Ends it at once. Whether it ran.
    pub(super) fn kill(self, plan: &Plan) -> bool {
        match self {
            Self::Agent(node) => control::kill_agent(&plan.nodes[node]),
            Self::Server(number) => directory::kill_server(plan, number),
            Self::Store => directory::kill_store(plan),
            Self::Frr(node) => control::kill_programs(&plan.nodes[node], &[&frr::ALL[..], &["staticd"]].concat()) > 0,
        }
    }

    /// Starts it, by the files that it was started with before, and waits until it is ready.
    pub(super) fn start(self, plan: &Plan, fabric: &Fabric, valiant: bool, stop: &AtomicBool) -> Result<()> {
        match self {
            Self::Agent(node) => control::start_agents_of(plan, &[node], stop),
            Self::Server(number) => directory::of_lab(plan, |directory| {
                let started = directory.start_server(number)?;
                wait_for(&[started], stop)
            })
            .unwrap_or(Ok(())),
            Self::Store => directory::of_lab(plan, |directory| directory.start_store()).unwrap_or(Ok(())),
            Self::Frr(index) => {
                let node = &plan.nodes[index];
                netns::within(&node.namespace, || {
                    frr::start_all(plan, node, &state::daemons(&state::path(&plan.name)))?;
                    if valiant { valiant::follow_again(plan, fabric, index) } else { Ok(()) }
                })
            }
        }
    }
}

/// A node with an agent.
fn agent(plan: &Plan, name: &str) -> Result<usize, EventError> {
    let Some(netlord) = &plan.tenants else { return overlay(plan).and_then(|()| node(plan, name)) };
    let found = node(plan, name)?;
    if netlord.is_ovs(found) {
        let help = "name a host or an edge switch, or write core = \"ebpf\" in [switches]";
        return Err(EventError::new(format!("no agent runs on {name}: it is Open vSwitch"), help));
    }
    Ok(found)
}

fn overlay(plan: &Plan) -> Result<(), EventError> {
    if plan.has_agents() {
        return Ok(());
    }
    Err(EventError::new(
        "neither agents nor a directory run here: there is no overlay",
        "add `[overlay]` with kind = \"vl2\", or leave the event out",
    ))
}

/// Where directory servers run, and where they keep mappings.
fn directory(plan: &Plan) -> Result<(&[usize], Store), EventError> {
    overlay(plan)?;
    plan.directory().ok_or_else(|| {
        let help = "write locations = \"directory\" in [overlay], or such as \"agent h0\" or \"agent edge0\" here";
        EventError::new("no directory runs in this lab: agents tell each other where VMs are", help)
    })
}

/// A host or a switch by its name.
pub(super) fn node(plan: &Plan, name: &str) -> Result<usize, EventError> {
    let inside = || plan.nodes.iter().enumerate().filter(|(_, n)| matches!(n.role, Role::Host | Role::Switch));
    inside().find(|(_, n)| n.name == name).map(|(i, _)| i).ok_or_else(|| {
        let near = inside().map(|(_, n)| n.name.as_str()).min_by_key(|known| edit_distance(known, name));
        let hint = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        EventError::new(format!("there is no node called `{name}`{hint}"), "`weft topo SCENARIO --export dot` lists all names")
    })
}

fn server(plan: &Plan, name: &str) -> Result<usize, EventError> {
    let count = directory(plan)?.0.len();
    name.parse().ok().filter(|&n| n < count).ok_or_else(|| {
        EventError::new(
            format!("there is no directory server `{name}`: they are server 0 to server {}", count - 1),
            "name one of them, or raise `servers` in [directory]",
        )
    })
}

fn routers(plan: &Plan, name: &str) -> Result<usize, EventError> {
    if plan.tenants.is_some() {
        return Err(EventError::new(
            "no FRR runs in a lab of tenants: its switches are bridges",
            "write such as \"agent edge0\"",
        ));
    }
    if plan.routing == Routing::Static {
        let help = "write routing = \"frr\" in [world], or leave the event out";
        return Err(EventError::new("no FRR runs here: the lab's routes are static", help));
    }
    let is_host = |node: &Node| node.role == Role::Host;
    match node(plan, name)? {
        host if is_host(&plan.nodes[host]) => {
            Err(EventError::new(format!("no FRR runs on {name}: it is a host"), "name a switch, such as \"frr agg0\""))
        }
        switch => Ok(switch),
    }
}
