//! Events while a lab is in use: failures, repairs, programs that end, servers and VMs that move, VMs that forge.
//!
//! | | what is done | who notices |
//! | --- | --- | --- |
//! | a failure | the port of one end is set down, and the other end loses its carrier | both ends, at once |
//! | a silent failure | the queues of both ends get a size of zero: every packet is dropped and counted | BFD, and OSPF after its dead interval |
//! | a repair | ports up, queues as before, and the routes of the plan by these ports | |
//! | a program is killed | SIGKILL ([`programs`]) | its clients |
//! | a server moves | its cable is plugged in at another ToR ([`crate::vl2`]) | the ToRs, by its agent's reports; senders, when they send to the old ToR |
//! | a VM forges | it sends frames with others' addresses ([`forging`]) | its agent only |
//! | a VM moves | its interface goes to another host ([`crate::netlord`]) | all agents, by NL-ARP |

mod error;
mod forging;
mod moves;
mod programs;
mod resolve;
mod spec;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use weft_fabric::record::Forged;
use weft_fabric::topology::{Health, Part};
use weft_fabric::{Fabric, Instant, LinkId, NodeId};

use crate::batch::run_batch;
use crate::error::Result;
use crate::plan::{Node, Plan, Port, Role, RouteTarget, Routing};
use crate::{commands, netlord, vl2, vlb};

pub use error::EventError;
pub(crate) use forging::forge;
pub use programs::Program;
pub use resolve::resolve;
pub use spec::{EventSpec, Verb};

/// A change of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A part fails, and its neighbours notice at once.
    Fail(Part),
    /// A part loses all packets, and its ports stay up.
    FailSilent(Part),
    /// A part works again.
    Restore(Part),
    /// A program is killed.
    Kill(Program),
    /// A program is started again; it is killed before, if it runs.
    Restart(Program),
    /// A server moves, by the number of the move in the plan.
    Move(usize),
    /// A VM, by its number in the plan, sends forged frames.
    Forge(usize),
    /// A VM moves to another host.
    MoveVm {
        /// Its number in the plan.
        vm: usize,
        /// The host, an index into [`Plan::nodes`].
        to: usize,
    },
}

impl Change {
    /// Its verb and its object: `("kill", "agent h0")`.
    pub fn text(self, plan: &Plan, fabric: &Fabric) -> (&'static str, String) {
        match self {
            Self::Fail(part) => ("fail", name(fabric, part)),
            Self::FailSilent(part) => ("fail_silent", name(fabric, part)),
            Self::Restore(part) => ("restore", name(fabric, part)),
            Self::Kill(program) => ("kill", program.name(plan)),
            Self::Restart(program) => ("restart", program.name(plan)),
            Self::Move(which) => {
                let moved = plan.overlay.vl2().map(|vl2| &vl2.moves[which]);
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
                Program::Server(_) | Program::Store | Program::Scheduler => None,
            },
            Self::Move(which) => plan.overlay.vl2().map(|vl2| vec![vl2.moves[which].host]),
            // It might disturb anybody.
            Self::Forge(_) => None,
            Self::MoveVm { vm, .. } => plan.overlay.netlord().map(|netlord| vec![netlord.vms[vm].node]),
        }
    }
}

fn vm_name(plan: &Plan, vm: usize) -> &str {
    plan.overlay.netlord().map_or("", |netlord| &plan.nodes[netlord.vms[vm].node].name)
}

/// The hosts of a switch.
fn hosts_at(plan: &Plan, switch: usize) -> Vec<usize> {
    let peers = plan.nodes[switch].ports.iter().map(|p| p.peer.node);
    peers
        .filter(|&peer| plan.nodes[peer].role == Role::Host && plan.nodes[peer].ports.iter().any(|p| p.peer.node == switch))
        .collect()
}

/// The name of a part in a scenario.
fn name(fabric: &Fabric, part: Part) -> String {
    match part {
        Part::Cable(cable) => format!("link {}", fabric.link_name(cable.links()[0])),
        Part::Node(node) if fabric.as_host(node).is_some() => format!("host {}", fabric.node(node).name),
        Part::Node(node) => format!("switch {}", fabric.node(node).name),
    }
}

/// A change at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// What.
    pub change: Change,
}

/// Applies changes to a lab.
#[derive(Debug)]
pub struct Injector<'a> {
    /// The present plan: servers may have moved.
    plan: Plan,
    fabric: &'a Fabric,
    /// Whether switches use VLB ([`vlb`]).
    vlb: bool,
    /// Which ports are up.
    health: Health,
    /// The outcome of forged frames.
    forged: Option<Forged>,
}

impl<'a> Injector<'a> {
    /// For a lab that stands, of a plan for this fabric; `vlb`: its switches use VLB.
    pub fn new(plan: &Plan, fabric: &'a Fabric, vlb: bool) -> Self {
        Self { plan: plan.clone(), fabric, vlb, health: Health::new(fabric), forged: None }
    }

    /// The present plan.
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The outcome of all forged frames so far.
    pub(crate) const fn forged(&self) -> Option<Forged> {
        self.forged
    }

    /// Applies a change; ends early when `stop` is set. Returns the links of a part that now loses packets silently.
    ///
    /// # Errors
    /// [`LabError`](crate::LabError) if the kernel or a program refuses.
    pub fn apply(&mut self, change: Change, stop: &AtomicBool) -> Result<Vec<LinkId>> {
        match change {
            Change::Fail(part) => self.fail(part)?,
            Change::FailSilent(part) => {
                self.silence(part)?;
                return Ok(links(self.fabric, part));
            }
            Change::Restore(part) => self.restore(part)?,
            Change::Kill(program) => {
                if !program.kill(&self.plan) {
                    tracing::warn!("`{}` did not run when it was to be killed", program.name(&self.plan));
                }
            }
            Change::Restart(program) => {
                program.kill(&self.plan);
                program.start(&self.plan, self.fabric, self.vlb, stop)?;
            }
            Change::Move(which) => vl2::moves::migrate(&mut self.plan, which, stop)?,
            Change::Forge(vm) => {
                let outcome = forge(&self.plan, vm)?;
                self.forged.get_or_insert_default().add(outcome);
            }
            Change::MoveVm { vm, to } => netlord::moves::migrate(&mut self.plan, vm, to)?,
        }
        Ok(Vec::new())
    }

    fn fail(&mut self, part: Part) -> Result<()> {
        self.health.fail(self.fabric, part);
        near_ends(&self.plan, self.fabric, part)
            .into_iter()
            .try_for_each(|(node, port)| run_batch(node, "ip", &format!("link set {} down\n", port.name)))
    }

    fn silence(&self, part: Part) -> Result<()> {
        both_ends(&self.plan, self.fabric, part)
            .into_iter()
            .try_for_each(|(node, port)| run_batch(node, "tc", &queue(port, EMPTY_QUEUE)))
    }

    fn restore(&mut self, part: Part) -> Result<()> {
        self.health.restore(self.fabric, part);
        let plan = &self.plan;
        for (node, port) in near_ends(plan, self.fabric, part) {
            run_batch(node, "ip", &format!("link set {} up\n", port.name))?;
        }
        let mut nodes = BTreeSet::new();
        for (node, port) in both_ends(plan, self.fabric, part) {
            run_batch(node, "tc", &queue(port, port.queue_bytes))?;
            nodes.insert(plan.nodes.iter().position(|n| std::ptr::eq(n, node)).expect("a node of the plan"));
        }
        nodes.into_iter().try_for_each(|i| run_batch(&plan.nodes[i], "ip", &self.routes(i)))
    }

    /// The routes of a node by those of its ports that are up: the kernel accepts no next hop at a port that is down, and removes a route without other
    /// next hops. Some may exist already; rules stay when a port is set down.
    fn routes(&self, node: usize) -> String {
        let links = self.fabric.out(NodeId::from(node));
        // Ports to the outside are not in the fabric.
        let usable = |port: usize| links.get(port).is_none_or(|&link| self.health.is_up(link));
        let mut able = self.plan.nodes[node].clone();
        able.local.retain(|r| match &r.target {
            RouteTarget::Direct(port) => usable(*port),
            RouteTarget::Gateway(hop) | RouteTarget::Behind(hop) => usable(hop.port),
            RouteTarget::Via(_) | RouteTarget::Unreachable => true,
        });
        for route in &mut able.fabric {
            if let RouteTarget::Via(hops) = &mut route.target {
                hops.retain(|h| usable(h.port));
            }
        }
        able.fabric.retain(|r| !matches!(&r.target, RouteTarget::Via(hops) if hops.is_empty()));
        let mut batch = commands::routes(&able, self.plan.routing, self.plan.ecmp_width());
        if self.vlb && self.plan.routing == Routing::Static {
            batch += &vlb::routes(&self.plan, self.fabric, node, &usable);
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

/// The ports that are set down: those of a node, or one of a cable.
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

/// Bytes of a queue into which no packet fits.
const EMPTY_QUEUE: u64 = 1;
