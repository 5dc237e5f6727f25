//! What breaks in a lab while it is in use, and returns.
//!
//! | | what is done | who notices |
//! | --- | --- | --- |
//! | a failure | the port of one end goes down, and with it the carrier of the other's | both ends, at once |
//! | a silent failure | the queues of both ends hold nothing any more: every packet is dropped and counted | BFD, and OSPF after its dead interval |
//! | a repair | ports up, queues as before, and the routes that the plan gives to ports | |

use std::collections::BTreeSet;

use weft_fabric::topology::{Health, Part};
use weft_fabric::{Fabric, Instant, LinkId, NodeId};

use crate::commands;
use crate::error::Result;
use crate::netns;
use crate::plan::{Node, Plan, Port, Routing, Way};
use crate::valiant;

/// What can happen to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails, and its neighbours see it.
    Fail(Part),
    /// It loses everything, and its ports stay up.
    FailSilent(Part),
    /// It works again.
    Restore(Part),
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
    plan: &'a Plan,
    fabric: &'a Fabric,
    /// Whether switches send what comes from below on up.
    valiant: bool,
    /// Which ports are up.
    health: Health,
}

impl<'a> Breaker<'a> {
    pub(crate) fn new(plan: &'a Plan, fabric: &'a Fabric, valiant: bool) -> Self {
        Self { plan, fabric, valiant, health: Health::new(fabric) }
    }

    /// Makes a change. Returns the links of a part that now loses packets silently.
    pub(crate) fn make(&mut self, change: Change) -> Result<Vec<LinkId>> {
        let (plan, fabric) = (self.plan, self.fabric);
        match change {
            Change::Fail(part) => {
                self.health.fail(fabric, part);
                for (node, port) in near_ends(plan, fabric, part) {
                    inside(node, "ip", &format!("link set {} down\n", port.name))?;
                }
                Ok(Vec::new())
            }
            Change::FailSilent(part) => {
                for (node, port) in both_ends(plan, fabric, part) {
                    inside(node, "tc", &queue(port, QUEUE_OF_NOTHING))?;
                }
                Ok(links(fabric, part))
            }
            Change::Restore(part) => {
                self.health.restore(fabric, part);
                for (node, port) in near_ends(plan, fabric, part) {
                    inside(node, "ip", &format!("link set {} up\n", port.name))?;
                }
                let mut nodes = BTreeSet::new();
                for (node, port) in both_ends(plan, fabric, part) {
                    inside(node, "tc", &queue(port, port.queue_bytes))?;
                    nodes.insert(plan.nodes.iter().position(|n| std::ptr::eq(n, node)).expect("a node of the plan"));
                }
                nodes.into_iter().try_for_each(|i| inside(&plan.nodes[i], "ip", &self.routes(i)))?;
                Ok(Vec::new())
            }
        }
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
        let mut batch = commands::routes(&able, self.plan.routing);
        if self.valiant && self.plan.routing == Routing::Static {
            batch += &valiant::routes(self.plan, self.fabric, node, &usable);
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
