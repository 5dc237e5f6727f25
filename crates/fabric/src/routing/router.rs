//! What switches do with a flow that nobody schedules: single path, ECMP, or VLB.
//!
//! ECMP: every switch hashes the flow with a seed of its own and takes that one of its equal-cost next hops. One seed for all
//! switches polarises: the next switch picks the same way again, and half of the paths stay empty. VLB (VL2 section 4.2.2): a
//! random intermediate switch for each flow, ECMP to it and from it.

use std::sync::Arc;

use rand::RngExt;

use crate::ids::{LinkId, NodeId, SwitchId};
use crate::rng::{Stream, mix, reduce, stream};
use crate::routing::next_hops::{NextHops, Target};
use crate::routing::{FlowKey, HashFields, Path};
use crate::topology::{Fabric, Health};

/// How switches choose among equal-cost next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RoutingKind {
    /// Always the first: one tree a destination, as a spanning tree leaves it.
    SinglePath,
    /// By hash, a flow and a switch.
    #[default]
    Ecmp,
    /// Through a random intermediate switch a flow, by hash on the way to it and from it.
    Vlb,
}

/// Settings of [`Router`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Routing {
    /// How next hops are chosen.
    pub kind: RoutingKind,
    /// What is hashed.
    pub hash: HashFields,
    /// All switches share one seed: for the study of polarisation.
    pub polarised: bool,
}

/// Picks a flow's path, hop by hop, as the switches would. Failed links are avoided as soon as
/// [`Router::health_changed`] says that routing has re-converged.
#[derive(Clone, Debug)]
pub struct Router {
    fabric: Arc<Fabric>,
    routing: Routing,
    seeds: Vec<u64>,
    vlb_seed: u64,
    intermediates: Vec<SwitchId>,
    next_hops: NextHops,
    /// What routing believes; lags the truth until it re-converges.
    believed: Health,
}

impl Router {
    /// A router for a healthy fabric; `seed` is the run's.
    pub fn new(fabric: Arc<Fabric>, routing: Routing, seed: u64) -> Self {
        let mut rng = stream(seed, Stream::HashSeeds);
        let shared: u64 = rng.random();
        let seeds = fabric.switches().map(|_| if routing.polarised { shared } else { rng.random() }).collect();
        let top = fabric.top_tier();
        Self {
            seeds,
            vlb_seed: stream(seed, Stream::Vlb).random(),
            intermediates: fabric.switches_of_tier(top).collect(),
            next_hops: NextHops::new(Arc::clone(&fabric)),
            believed: Health::new(&fabric),
            fabric,
            routing,
        }
    }

    /// Routing learns the state of the fabric and repairs its routes.
    pub fn health_changed(&mut self, health: &Health) {
        self.believed = health.clone();
        self.next_hops.invalidate();
    }

    /// The path of a flow, or `None` if the destination cannot be reached.
    pub fn route(&mut self, key: &FlowKey) -> Option<Path> {
        let mut path = Path::new();
        let entropy = key.entropy(self.routing.hash);
        let target = self.target(key, entropy)?;
        let mut node = key.src.node();
        let same_rack = self.fabric.rack_of(key.src) == self.fabric.rack_of(key.dst);
        if self.routing.kind == RoutingKind::Vlb && !same_rack {
            let via = self.intermediate(key, target)?;
            node = self.walk(entropy, Target::Switch(via), node, &mut path)?;
        }
        node = self.walk(entropy, target, node, &mut path)?;
        path.push(self.last_hop(node, key)?);
        Some(path)
    }

    /// The destination's rack; if the destination has lost a NIC, one of the switches that it still reaches.
    fn target(&mut self, key: &FlowKey, entropy: u64) -> Option<Target> {
        let rack = Target::Rack(self.fabric.rack_of(key.dst));
        let nics = self.fabric.out(key.dst.node());
        if nics.iter().all(|l| self.believed.is_up(l.reverse())) {
            return Some(rack);
        }
        let up = nics.iter().filter(|l| self.believed.is_up(l.reverse()));
        let attached: Vec<SwitchId> = up.filter_map(|&l| self.fabric.as_switch(self.fabric.link(l).to)).collect();
        let start = reduce(mix(entropy), attached.len());
        (0..attached.len())
            .map(|i| Target::Switch(attached[(start + i) % attached.len()]))
            .find(|&switch| !self.next_hops.toward(&self.believed, switch, key.src.node()).is_empty())
    }

    /// The intermediate switch of a flow: one of those that both ends can reach, by the flow's own hash. The flows of a dead
    /// intermediate hash again until they find a live one, so that they spread over all of the others and the rest stay.
    fn intermediate(&mut self, key: &FlowKey, target: Target) -> Option<SwitchId> {
        let draw = mix(key.entropy(HashFields::FiveTuple) ^ self.vlb_seed);
        let count = self.intermediates.len();
        let hashed = (0..REHASHES).map(|i| reduce(if i == 0 { draw } else { mix(draw ^ i) }, count));
        let usable = |&i: &usize| {
            let via = self.intermediates[i];
            let node = self.fabric.switch_node(via);
            self.believed.node_is_up(node)
                && !self.next_hops.toward(&self.believed, Target::Switch(via), key.src.node()).is_empty()
                && (self.arrived(target, node) || !self.next_hops.toward(&self.believed, target, node).is_empty())
        };
        let found = hashed.chain(0..count).find(usable)?;
        Some(self.intermediates[found])
    }

    /// Follows next hops from `node` to the target; returns the switch that is it.
    fn walk(&mut self, entropy: u64, target: Target, mut node: NodeId, path: &mut Path) -> Option<NodeId> {
        loop {
            let choices = self.next_hops.toward(&self.believed, target, node);
            let link = match choices {
                [] => return self.arrived(target, node).then_some(node),
                [only] => *only,
                _ if self.routing.kind == RoutingKind::SinglePath => choices[0],
                _ => choices[reduce(mix(entropy ^ seed_at(&self.fabric, &self.seeds, node)), choices.len())],
            };
            path.push(link);
            node = self.fabric.link(link).to;
        }
    }

    fn arrived(&self, target: Target, node: NodeId) -> bool {
        let Some(switch) = self.fabric.as_switch(node) else { return false };
        match target {
            Target::Switch(s) => s == switch,
            Target::Rack(rack) => self.fabric.racks()[rack.index()].switches.contains(&switch),
        }
    }

    /// The link from an edge switch down to the destination, if it is up.
    fn last_hop(&self, switch: NodeId, key: &FlowKey) -> Option<LinkId> {
        let up = self.fabric.out(key.dst.node()).iter().find(|&&l| self.fabric.link(l).to == switch)?;
        Some(up.reverse()).filter(|&l| self.believed.is_up(l))
    }
}

/// Before all intermediates are tried in turn: with half of them dead, one flow in 2^32 gets there.
const REHASHES: u64 = 32;

/// Hosts share the seed 0: they hash only where they have several NICs.
fn seed_at(fabric: &Fabric, seeds: &[u64], node: NodeId) -> u64 {
    fabric.as_switch(node).map_or(0, |s| seeds[s.index()])
}
