//! What breaks in a lab while it is in use, and returns.
//!
//! | | what is done | who notices |
//! | --- | --- | --- |
//! | a failure | the port of one end goes down, and with it the carrier of the other's | both ends, at once |
//! | a silent failure | the queues of both ends hold nothing any more: every packet is dropped and counted | BFD, and OSPF after its dead interval |
//! | a repair | ports up, queues as before, and the routes that the plan gives to ports | |
//! | a program is ended | SIGKILL ([`programs`]) | whoever misses its answers |
//! | a server moves | its cable is plugged in at another ToR ([`moving`]) | the ToRs, by what its agent says; senders, when they send to the old place |
//! | a VM forges | frames that it should not send ([`forging`]) | its agent, and nobody else |
//! | a VM moves | its interface goes to another host | all agents, by NL-ARP |

mod forging;
mod moving;
mod programs;
mod wanted;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use weft_fabric::record::Forged;
use weft_fabric::topology::{Health, Part};
use weft_fabric::{Fabric, Instant, LinkId, NodeId};

use crate::commands;
use crate::error::Result;
use crate::netns;
use crate::plan::{Node, Plan, Port, Role, Routing, Way};
use crate::valiant;

pub(crate) use forging::make as forge;
pub use programs::Program;
pub use wanted::{Verb, Wanted, arrange};

/// What can happen to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails, and its neighbours see it.
    Fail(Part),
    /// It loses everything, and its ports stay up.
    FailSilent(Part),
    /// It works again.
    Restore(Part),
    /// A program is ended.
    Kill(Program),
    /// It is started again; it is ended before, if it runs.
    Restart(Program),
    /// A server moves, by the number of the plan's move.
    Move(usize),
    /// A VM, by its number among the plan's, sends frames that it should not.
    Forge(usize),
    /// A VM moves to another host.
    MoveVm {
        /// Its number among the plan's.
        vm: usize,
        /// The host, an index into [`Plan::nodes`].
        to: usize,
    },
}

/// An event that a lab cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EventError {
    /// What is wrong.
    pub message: String,
    /// The next step.
    pub help: String,
}

impl EventError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl Change {
    /// What it is, and to whom: `("kill", "agent h0")`.
    pub fn text(self, plan: &Plan, fabric: &Fabric) -> (&'static str, String) {
        match self {
            Self::Fail(part) => ("fail", name(fabric, part)),
            Self::FailSilent(part) => ("fail_silent", name(fabric, part)),
            Self::Restore(part) => ("restore", name(fabric, part)),
            Self::Kill(program) => ("kill", program.name(plan)),
            Self::Restart(program) => ("restart", program.name(plan)),
            Self::Move(which) => {
                let moved = plan.overlay.as_ref().map(|vl2| &vl2.moves[which]);
                let name = |node: usize| plan.nodes[node].name.as_str();
                ("move", moved.map_or(String::new(), |m| format!("host {} to {}", name(m.host), name(m.tor))))
            }
            Self::Forge(vm) => ("forge", format!("vm {}", vm_name(plan, vm))),
            Self::MoveVm { vm, to } => ("move", format!("vm {} to {}", vm_name(plan, vm), plan.nodes[to].name)),
        }
    }

    /// The hosts and VMs whose flows it can touch, as indices into the plan's nodes; `None`: those of all.
    pub(crate) fn nodes(self, plan: &Plan, fabric: &Fabric) -> Option<Vec<usize>> {
        let of_node = |node: usize| match plan.nodes[node].role {
            Role::Host => Some(vec![node]),
            _ => Some(hosts_at(plan, node)).filter(|hosts| !hosts.is_empty()),
        };
        match self {
            Self::Fail(part) | Self::FailSilent(part) | Self::Restore(part) => match part {
                Part::Node(node) => of_node(node.index()),
                Part::Cable(cable) => {
                    let link = fabric.link(cable.links()[0]);
                    [link.from, link.to].into_iter().find(|&n| fabric.as_host(n).is_some()).map(|host| vec![host.index()])
                }
            },
            Self::Kill(program) | Self::Restart(program) => match program {
                Program::Agent(node) | Program::Frr(node) => of_node(node),
                Program::Server(_) | Program::Store => None,
            },
            Self::Move(which) => plan.overlay.as_ref().map(|vl2| vec![vl2.moves[which].host]),
            // Whom it might disturb is anybody.
            Self::Forge(_) => None,
            Self::MoveVm { vm, .. } => plan.tenants.as_ref().map(|netlord| vec![netlord.vms[vm].node]),
        }
    }
}

fn vm_name(plan: &Plan, vm: usize) -> &str {
    plan.tenants.as_ref().map_or("", |netlord| &plan.nodes[netlord.vms[vm].node].name)
}

/// Hosts that hang on a switch.
fn hosts_at(plan: &Plan, switch: usize) -> Vec<usize> {
    let peers = plan.nodes[switch].ports.iter().map(|p| p.peer.node);
    peers
        .filter(|&peer| plan.nodes[peer].role == Role::Host && plan.nodes[peer].ports.iter().any(|p| p.peer.node == switch))
        .collect()
}

/// A part as a scenario names it.
fn name(fabric: &Fabric, part: Part) -> String {
    match part {
        Part::Cable(cable) => format!("link {}", fabric.link_name(cable.links()[0])),
        Part::Node(node) if fabric.as_host(node).is_some() => format!("host {}", fabric.node(node).name),
        Part::Node(node) => format!("switch {}", fabric.node(node).name),
    }
}

/// Something that happens at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// What.
    pub change: Change,
}

/// A lab whose parts fail and return.
pub(crate) struct Breaker<'a> {
    /// As it is now: servers may have moved.
    plan: Plan,
    fabric: &'a Fabric,
    /// Whether switches send what comes from below on up.
    valiant: bool,
    /// Which ports are up.
    health: Health,
    /// What became of forged frames.
    forged: Option<Forged>,
}

impl<'a> Breaker<'a> {
    pub(crate) fn new(plan: &Plan, fabric: &'a Fabric, valiant: bool) -> Self {
        Self { plan: plan.clone(), fabric, valiant, health: Health::new(fabric), forged: None }
    }

    /// The lab as it is now.
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What became of all forged frames so far.
    pub(crate) const fn forged(&self) -> Option<Forged> {
        self.forged
    }

    /// Makes a change, unless told to stop meanwhile. Returns the links of a part that now loses packets silently.
    pub(crate) fn make(&mut self, change: Change, stop: &AtomicBool) -> Result<Vec<LinkId>> {
        match change {
            Change::Fail(part) => self.fail(part)?,
            Change::FailSilent(part) => {
                self.silence(part)?;
                return Ok(links(self.fabric, part));
            }
            Change::Restore(part) => self.restore(part)?,
            Change::Kill(program) => {
                if !program.kill(&self.plan) {
                    tracing::warn!("`{}` did not run when it was to be ended", program.name(&self.plan));
                }
            }
            Change::Restart(program) => {
                program.kill(&self.plan);
                program.start(&self.plan, self.fabric, self.valiant, stop)?;
            }
            Change::Move(which) => moving::make(&mut self.plan, which, stop)?,
            Change::Forge(vm) => {
                let came = forge(&self.plan, vm)?;
                self.forged.get_or_insert_default().add(came);
            }
            Change::MoveVm { vm, to } => moving::make_of_vm(&mut self.plan, vm, to)?,
        }
        Ok(Vec::new())
    }

    fn fail(&mut self, part: Part) -> Result<()> {
        self.health.fail(self.fabric, part);
        near_ends(&self.plan, self.fabric, part)
            .into_iter()
            .try_for_each(|(node, port)| inside(node, "ip", &format!("link set {} down\n", port.name)))
    }

    fn silence(&self, part: Part) -> Result<()> {
        both_ends(&self.plan, self.fabric, part)
            .into_iter()
            .try_for_each(|(node, port)| inside(node, "tc", &queue(port, QUEUE_OF_NOTHING)))
    }

    fn restore(&mut self, part: Part) -> Result<()> {
        self.health.restore(self.fabric, part);
        let plan = &self.plan;
        for (node, port) in near_ends(plan, self.fabric, part) {
            inside(node, "ip", &format!("link set {} up\n", port.name))?;
        }
        let mut nodes = BTreeSet::new();
        for (node, port) in both_ends(plan, self.fabric, part) {
            inside(node, "tc", &queue(port, port.queue_bytes))?;
            nodes.insert(plan.nodes.iter().position(|n| std::ptr::eq(n, node)).expect("a node of the plan"));
        }
        nodes.into_iter().try_for_each(|i| inside(&plan.nodes[i], "ip", &self.routes(i)))
    }

    /// The routes of a node by those of its ports that are up: the kernel takes no next hop at a port that is down, and forgets a route that has
    /// no other one. Some may be there already; rules stay when a port goes down.
    fn routes(&self, node: usize) -> String {
        let links = self.fabric.out(NodeId::from(node));
        // Ports to the outside are no part of the fabric.
        let usable = |port: usize| links.get(port).is_none_or(|&link| self.health.is_up(link));
        let mut able = self.plan.nodes[node].clone();
        able.local.retain(|r| match &r.way {
            Way::Direct(port) => usable(*port),
            Way::Gateway(hop) | Way::Behind(hop) => usable(hop.port),
            Way::Via(_) | Way::Unreachable => true,
        });
        for route in &mut able.fabric {
            if let Way::Via(hops) = &mut route.way {
                hops.retain(|h| usable(h.port));
            }
        }
        able.fabric.retain(|r| !matches!(&r.way, Way::Via(hops) if hops.is_empty()));
        let mut batch = commands::routes(&able, self.plan.routing, self.plan.ecmp_width());
        if self.valiant && self.plan.routing == Routing::Static {
            batch += &valiant::routes(&self.plan, self.fabric, node, &usable);
        }
        let routes = batch.lines().filter(|l| l.starts_with("route add"));
        routes.map(|l| l.replacen("route add", "route replace", 1) + "\n").collect()
    }
}

/// Directed links of a part.
pub(crate) fn links(fabric: &Fabric, part: Part) -> Vec<LinkId> {
    match part {
        Part::Cable(cable) => cable.links().to_vec(),
        Part::Node(node) => fabric.out(node).iter().flat_map(|l| [*l, l.reverse()]).collect(),
    }
}

fn queue(port: &Port, bytes: u64) -> String {
    let Port { name, rate_bps, burst_bytes, .. } = port;
    format!("qdisc change dev {name} root tbf rate {rate_bps}bit burst {burst_bytes} limit {bytes}\n")
}

/// The ports that are set down: a node's own, or of a cable one.
fn near_ends<'a>(plan: &'a Plan, fabric: &Fabric, part: Part) -> Vec<(&'a Node, &'a Port)> {
    let of = |link: LinkId| port_of(plan, fabric, link);
    match part {
        Part::Cable(cable) => vec![of(cable.links()[0])],
        Part::Node(node) => fabric.out(node).iter().map(|&l| of(l)).collect(),
    }
}

fn both_ends<'a>(plan: &'a Plan, fabric: &Fabric, part: Part) -> Vec<(&'a Node, &'a Port)> {
    links(fabric, part).into_iter().map(|l| port_of(plan, fabric, l)).collect()
}

/// The node and the port that a link leaves from.
fn port_of<'a>(plan: &'a Plan, fabric: &Fabric, link: LinkId) -> (&'a Node, &'a Port) {
    let from = fabric.link(link).from;
    let port = fabric.out(from).iter().position(|&l| l == link).expect("a node lists its links");
    let node = &plan.nodes[from.index()];
    (node, &node.ports[port])
}

fn inside(node: &Node, program: &'static str, batch: &str) -> Result<()> {
    netns::within(&node.namespace, || netns::batch(program, batch, &node.namespace))
}

/// Not one packet fits.
const QUEUE_OF_NOTHING: u64 = 1;
