//! What switches do with a flow that nobody schedules: single path, ECMP, VLB, spray or flowlets.
//!
//! ECMP: every switch hashes the flow with a seed of its own and takes that one of its equal-cost next hops. One seed for all
//! switches polarises: the next switch picks the same path again, and half of the paths stay empty. VLB (VL2 section 4.2.2): a
//! random intermediate switch for each flow, ECMP to it and from it.
//!
//! Spray and flowlets do not hash: every switch draws a next hop for each packet (Dixit et al., INFOCOM 2013), or for each burst of a flow's
//! packets after a pause (LetFlow: Vanini et al., NSDI 2017). [`Router::spread`] lists the paths that result, each with its probability.
//!
//! Hosts with several NICs first choose a leaving and an arriving [`AccessPath`] (Subways sections 4.2 and 4.3): a shared ToR if there is one,
//! else by weight among the pairs whose ToRs are nearest to each other; switches then hash from the one ToR to the other. Between such
//! hosts a shared ToR forwards at once, with VLB too.

use std::sync::Arc;

use rand::RngExt;

use smallvec::SmallVec;

use crate::ids::{HostId, LinkId, NodeId, SwitchId};
use crate::rng::{Stream, mix, reduce, stream};
use crate::routing::access_paths::{AccessPath, Direction, Pairing, crosses_itself, cut, nic_paths};
use crate::routing::next_hops::{NextHops, Target};
use crate::routing::{FlowKey, HashFields, Path};
use crate::time::Duration;
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
    /// At random, a packet and a switch.
    Spray,
    /// At random, a switch and a flowlet: the packets of a flow up to a pause.
    Flowlet {
        /// The shortest pause.
        gap: Duration,
    },
}

impl RoutingKind {
    /// The shortest pause after which a flow's packets take another path, zero with spray; `None` if they keep to one.
    pub fn gap(self) -> Option<Duration> {
        match self {
            Self::SinglePath | Self::Ecmp | Self::Vlb => None,
            Self::Spray => Some(Duration::ZERO),
            Self::Flowlet { gap } => Some(gap),
        }
    }
}

/// The paths among which the packets of a flow choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Each with its probability; the sum is 1.
    pub paths: Vec<(Path, f64)>,
    /// A packet draws again if the flow sent nothing for so long before it.
    pub gap: Duration,
    /// For the draws.
    pub seed: u64,
}

/// Settings of [`Router`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// How next hops are chosen.
    pub kind: RoutingKind,
    /// What is hashed.
    pub hash: HashFields,
    /// All switches share one seed: for the study of polarisation.
    pub polarised: bool,
    /// VLB bounces flows within a rack off an intermediate too (VL2 section 1: traffic between any two servers). Else these stay at their ToR, as with the
    /// agents of a lab whose locators are those of ToRs.
    pub vlb_local: bool,
}

impl Default for Routing {
    fn default() -> Self {
        Self { kind: RoutingKind::default(), hash: HashFields::default(), polarised: false, vlb_local: true }
    }
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
    /// Whether some host has several NICs or paths of its own.
    has_choice: bool,
    /// Leaving and arriving paths by host, where a controller has set them; empty before it first does.
    paths: [Vec<Option<Box<[AccessPath]>>>; 2],
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
            has_choice: fabric.hosts().any(|h| fabric.out(h.node()).len() > 1),
            paths: [Vec::new(), Vec::new()],
            fabric,
            routing,
        }
    }

    /// From now on flows leave (or reach) the host by these paths, instead of its NICs; `None` restores the NICs. Paths that cross a
    /// failed part are ignored; if none is left, flows use the NICs. Flows between hosts that share a ToR always take it.
    ///
    /// # Panics
    /// If a path has no links.
    pub fn set_access_paths(&mut self, host: HostId, direction: Direction, paths: Option<Vec<AccessPath>>) {
        assert!(paths.iter().flatten().all(|w| !w.links.is_empty()), "a path has links");
        let of = &mut self.paths[direction as usize];
        if of.is_empty() {
            of.resize(self.fabric.host_count(), None);
        }
        of[host.index()] = paths.filter(|w| !w.is_empty()).map(Vec::into_boxed_slice);
        self.has_choice = true;
    }

    /// The path of a flow that leaves and arrives by these links and hashes in between; `None` if a part of them has failed or there
    /// is no path from the one ToR to the other.
    ///
    /// # Panics
    /// If either is empty.
    pub fn route_through(&mut self, key: &FlowKey, leaving: &[LinkId], arriving: &[LinkId]) -> Option<Path> {
        if !self.believed.path_is_up(leaving) || !self.believed.path_is_up(arriving) {
            return None;
        }
        let entropy = key.entropy(self.routing.hash);
        let from = self.fabric.link(leaving[leaving.len() - 1]).to;
        let to = self.fabric.link(arriving[0]).from;
        let mut path = Path::from_slice(leaving);
        if from != to {
            let target = Target::Switch(self.fabric.as_switch(to)?);
            let mut node = from;
            if self.routing.kind == RoutingKind::Vlb {
                let via = self.intermediate(key, node, target)?;
                node = self.walk(entropy, Target::Switch(via), node, &mut path)?;
            }
            self.walk(entropy, target, node, &mut path)?;
        }
        path.extend_from_slice(arriving);
        Some(path)
    }

    /// Routing learns the state of the fabric and repairs its routes.
    pub fn health_changed(&mut self, health: &Health) {
        self.believed = health.clone();
        self.next_hops.invalidate();
    }

    /// The path of a flow, or `None` if the destination cannot be reached.
    pub fn route(&mut self, key: &FlowKey) -> Option<Path> {
        if self.has_choice && self.chooses(key) {
            let (leaving, arriving) = self.choose_ways(key)?;
            return self.route_through(key, &leaving.links, &arriving.links);
        }
        let mut path = Path::new();
        let entropy = key.entropy(self.routing.hash);
        let target = Target::Rack(self.fabric.rack_of(key.dst));
        let mut node = key.src.node();
        let same_rack = self.fabric.rack_of(key.src) == self.fabric.rack_of(key.dst);
        if self.routing.kind == RoutingKind::Vlb && (self.routing.vlb_local || !same_rack) {
            let via = self.intermediate(key, node, target)?;
            node = self.walk(entropy, Target::Switch(via), node, &mut path)?;
        }
        node = self.walk(entropy, target, node, &mut path)?;
        path.push(self.last_hop(node, key)?);
        Some(path)
    }

    /// Whether the packets of a flow choose among paths.
    pub fn spreads(&self) -> bool {
        self.routing.kind.gap().is_some()
    }

    /// The paths among which the packets of a flow choose; `None` if they keep to the one of [`Router::route`], or there is none. A host with
    /// several NICs binds the flow to one of them, by hash. Of more than [`MAX_PATHS`] paths so many are drawn.
    pub fn spread(&mut self, key: &FlowKey) -> Option<Spread> {
        let gap = self.routing.kind.gap()?;
        let route = self.route(key)?;
        let (a, b) = cut(&self.fabric, &route);
        let (leaving, arriving) = (&route[..a], &route[b..]);
        let target = Target::Switch(self.fabric.as_switch(self.fabric.link(arriving[0]).from)?);
        let mut paths = Vec::new();
        let mut open = vec![(Path::from_slice(leaving), 1.0)];
        while let Some((path, probability)) = open.pop() {
            let node = self.fabric.link(path[path.len() - 1]).to;
            let choices = self.next_hops.toward(&self.believed, target, node);
            if choices.is_empty() {
                paths.push((path.iter().chain(arriving).copied().collect(), probability));
            }
            for &link in choices.iter().rev() {
                let mut longer = path.clone();
                longer.push(link);
                open.push((longer, probability / choices.len() as f64));
            }
            if paths.len() + open.len() > MAX_PATHS {
                paths = self.draw_paths(key, leaving, target, arriving)?;
                break;
            }
        }
        Some(Spread { paths, gap, seed: mix(key.entropy(HashFields::FiveTuple) ^ self.vlb_seed) })
    }

    /// As many paths as are kept, drawn switch by switch.
    fn draw_paths(&mut self, key: &FlowKey, leaving: &[LinkId], target: Target, arriving: &[LinkId]) -> Option<Vec<(Path, f64)>> {
        let entropy = key.entropy(HashFields::FiveTuple);
        let node = self.fabric.link(leaving[leaving.len() - 1]).to;
        let drawn = (0..MAX_PATHS).map(|i| {
            let mut path = Path::from_slice(leaving);
            self.walk(mix(entropy.wrapping_add(i as u64)), target, node, &mut path)?;
            path.extend_from_slice(arriving);
            Some((path, 1.0 / MAX_PATHS as f64))
        });
        drawn.collect()
    }

    /// Whether either end of the flow has more than one way.
    fn chooses(&self, key: &FlowKey) -> bool {
        [(key.src, Direction::Out), (key.dst, Direction::In)]
            .iter()
            .any(|&(host, direction)| self.fabric.out(host.node()).len() > 1 || self.access_paths_of(host, direction).is_some())
    }

    fn access_paths_of(&self, host: HostId, direction: Direction) -> Option<&[AccessPath]> {
        self.paths[direction as usize].get(host.index())?.as_deref()
    }

    /// A leaving and an arriving path.
    fn choose_ways(&mut self, key: &FlowKey) -> Option<(AccessPath, AccessPath)> {
        let ([leaving, arriving], pairing) = self.candidates(key.src, key.dst)?;
        let (l, a) = match self.routing.kind {
            RoutingKind::SinglePath => pairing.first()?,
            _ => pairing.draw(&leaving, &arriving, key.entropy(self.routing.hash))?,
        };
        Some((leaving[l].clone(), arriving[a].clone()))
    }

    /// The pairs of a leaving and an arriving path among which the flows from one host to another choose, each with its probability; the sum is 1.
    /// Empty if no pair is connected.
    pub fn access_pairs(&mut self, src: HostId, dst: HostId) -> Vec<(AccessPath, AccessPath, f64)> {
        let Some(([leaving, arriving], pairing)) = self.candidates(src, dst) else { return Vec::new() };
        let probabilities = pairing.probabilities(&leaving, &arriving);
        let pairs = leaving.iter().flat_map(|l| arriving.iter().map(move |a| (l.clone(), a.clone())));
        pairs.zip(probabilities).filter(|(_, p)| *p > 0.0).map(|((l, a), p)| (l, a, p)).collect()
    }

    /// The access paths of both ends, and which of them go together: through a shared ToR by the NICs alone, else by the controller's paths
    /// where there are such. `None` if none do.
    fn candidates(&mut self, src: HostId, dst: HostId) -> Option<([AccessPaths; 2], Pairing)> {
        let ends = [(src, Direction::Out), (dst, Direction::In)];
        let nics: [AccessPaths; 2] =
            ends.map(|(host, direction)| nic_paths(&self.fabric, &self.believed, host, direction).collect());
        let pairs = nics[0].iter().flat_map(|l| nics[1].iter().map(move |a| (l, a)));
        let shortest = pairs.filter_map(|(l, a)| self.distance(l, a)).min()?;
        if shortest > 0 && ends.iter().any(|&(host, direction)| self.access_paths_of(host, direction).is_some()) {
            let set: [AccessPaths; 2] = std::array::from_fn(|end| {
                let (host, direction) = ends[end];
                let paths = self.access_paths_of(host, direction).into_iter().flatten().cloned();
                let up: AccessPaths = paths.filter(|w| self.believed.path_is_up(&w.links)).collect();
                if up.is_empty() { nics[end].clone() } else { up }
            });
            let pairing = self.pairing(&set, shortest);
            if pairing.first().is_some() {
                return Some((set, pairing));
            }
        }
        let pairing = self.pairing(&nics, shortest);
        Some((nics, pairing))
    }

    /// The pairs of paths whose ToRs are at most `farthest` links apart.
    fn pairing(&mut self, [leaving, arriving]: &[AccessPaths; 2], farthest: usize) -> Pairing {
        Pairing::new(leaving, arriving, |l, a| {
            self.distance(l, a).is_some_and(|d| d <= farthest) && !crosses_itself(&self.fabric, &l.links, &a.links)
        })
    }

    /// Links between the ToRs of two paths.
    fn distance(&mut self, leaving: &AccessPath, arriving: &AccessPath) -> Option<usize> {
        let to = self.fabric.as_switch(arriving.tor(&self.fabric, Direction::In))?;
        self.next_hops.distance(&self.believed, leaving.tor(&self.fabric, Direction::Out), to)
    }

    /// The intermediate switch of a flow: one of those that both ends can reach, by the flow's own hash. The flows of a dead
    /// intermediate hash again until they find a live one, so that they spread over all of the others and the rest stay.
    fn intermediate(&mut self, key: &FlowKey, from: NodeId, target: Target) -> Option<SwitchId> {
        let draw = mix(key.entropy(HashFields::FiveTuple) ^ self.vlb_seed);
        let count = self.intermediates.len();
        let hashed = (0..REHASHES).map(|i| reduce(if i == 0 { draw } else { mix(draw ^ i) }, count));
        let usable = |&i: &usize| {
            let via = self.intermediates[i];
            let node = self.fabric.switch_node(via);
            self.believed.node_is_up(node)
                && (node == from || !self.next_hops.toward(&self.believed, Target::Switch(via), from).is_empty())
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

/// Few hosts have more paths.
type AccessPaths = SmallVec<[AccessPath; 4]>;

/// The most paths among which a flow's packets choose: a fat-tree of 65,536 hosts has 1,024.
pub const MAX_PATHS: usize = 1_024;
/// Before all intermediates are tried in turn: with half of them dead, one flow in 2^32 gets there.
const REHASHES: u64 = 32;

/// Hosts have one link: they never hash.
fn seed_at(fabric: &Fabric, seeds: &[u64], node: NodeId) -> u64 {
    fabric.as_switch(node).map_or(0, |s| seeds[s.index()])
}
