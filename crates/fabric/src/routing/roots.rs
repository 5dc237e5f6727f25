//! Paths named by the root that they cross: what Hedera calls a core (sections 3.1 and 4.4), on any multi-rooted tree.
//!
//! A path climbs from the source's edge switch to a root and descends to the destination's. In a fat-tree a core fixes both
//! halves. Where a root can be reached in several paths (a VL2 ToR has two aggregation switches), a label also fixes which:
//!
//! ```text
//!   label = (root, path up, path down)        links(src -> dst) = climb(src rack, root, up) + reverse(climb(dst rack, root, down)),
//!                                           cut where the two halves first share a switch
//! ```
//! Labels are the same for all pairs of hosts, so that a scheduler can give one to a destination. The wiring is that of the healthy
//! fabric: labels keep their meaning when parts fail, and a scheduler asks [`Health::path_is_up`](crate::Health::path_is_up).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ids::{HostId, LinkId, RackId, SwitchId};
use crate::routing::Path;
use crate::routing::next_hops::{NextHops, Target};
use crate::topology::{Fabric, Health};

/// A path across the roots: an index into [`RootPaths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RootLabel(pub u32);

/// All labelled paths of a fabric.
#[derive(Clone, Debug)]
pub struct RootPaths {
    fabric: Arc<Fabric>,
    roots: Vec<SwitchId>,
    /// The number of paths from a rack to a root: the largest number over all pairs.
    paths: usize,
    /// Longest climb, in links.
    height: usize,
    /// `[rack][root][path][height]`, padded with [`NO_LINK`].
    climbs: Vec<LinkId>,
}

/// Pads climbs that are shorter than the highest, and those that do not exist.
pub const NO_LINK: LinkId = LinkId(u32::MAX);

impl RootPaths {
    /// Lists the roots (the switches of the highest tier) and every rack's paths up to them.
    pub fn new(fabric: Arc<Fabric>) -> Self {
        let health = Health::new(&fabric);
        let mut next_hops = NextHops::new(Arc::clone(&fabric));
        let roots: Vec<SwitchId> = fabric.switches_of_tier(fabric.top_tier()).collect();
        let mut all = Vec::with_capacity(fabric.racks().len() * roots.len());
        for r in 0..fabric.racks().len() {
            for &root in &roots {
                all.push(climbs_to(&fabric, &health, &mut next_hops, RackId::from(r), root));
            }
        }
        let paths = all.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let height = all.iter().flatten().map(|c| c.len()).max().unwrap_or(0);
        let mut climbs = Vec::with_capacity(all.len() * paths * height);
        for of_pair in &all {
            for path in 0..paths {
                // A rack with fewer paths repeats them, so that every label leads somewhere.
                let climb = of_pair.get(path % of_pair.len().max(1)).map_or(&[][..], |c| &c[..]);
                climbs.extend_from_slice(climb);
                climbs.extend(std::iter::repeat_n(NO_LINK, height - climb.len()));
            }
        }
        Self { fabric, roots, paths, height, climbs }
    }

    /// The roots, ascending.
    pub fn roots(&self) -> &[SwitchId] {
        &self.roots
    }

    /// The number of labels: roots x paths up x paths down. In a fat-tree, the number of cores.
    pub fn label_count(&self) -> usize {
        self.roots.len() * self.paths * self.paths
    }

    /// The root of a label.
    pub fn root_of(&self, label: RootLabel) -> SwitchId {
        self.roots[label.0 as usize / (self.paths * self.paths)]
    }

    /// Longest climb in links: 2 in a fat-tree.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The climb of a rack under a label when its hosts send: links from its edge switch up to the root.
    #[inline]
    pub fn up(&self, rack: RackId, label: RootLabel) -> &[LinkId] {
        let (root, up, _) = self.split(label);
        self.climb(rack, root, up)
    }

    /// The same when its hosts receive: still climbing; the descent is these links, reversed and in reverse order.
    #[inline]
    pub fn down(&self, rack: RackId, label: RootLabel) -> &[LinkId] {
        let (root, _, down) = self.split(label);
        self.climb(rack, root, down)
    }

    /// The path from host to host under a label, NIC to NIC. It turns at the lowest switch that both halves share.
    pub fn path(&self, src: HostId, dst: HostId, label: RootLabel) -> Path {
        let fabric = &*self.fabric;
        let (from, to) = (fabric.rack_of(src), fabric.rack_of(dst));
        let (up, down) = (self.up(from, label), self.down(to, label));
        let mut path = Path::new();
        let nic = |host: HostId, climb: &[LinkId], rack: RackId| {
            let edge = match climb.first() {
                Some(&first) => fabric.link(first).from,
                None => fabric.switch_node(fabric.racks()[rack.index()].switches[0]),
            };
            let out = fabric.out(host.node());
            *out.iter().find(|&&l| fabric.link(l).to == edge).unwrap_or(&out[0])
        };
        let (first, last) = (nic(src, up, from), nic(dst, down, to));
        path.push(first);
        let (climbed, descended) = meet(fabric, fabric.link(first).to, up, fabric.link(last).to, down);
        path.extend_from_slice(&up[..climbed]);
        path.extend(down[..descended].iter().rev().map(|l| l.reverse()));
        path.push(last.reverse());
        path
    }

    #[inline]
    fn split(&self, label: RootLabel) -> (usize, usize, usize) {
        let l = label.0 as usize;
        (l / (self.paths * self.paths), l / self.paths % self.paths, l % self.paths)
    }

    #[inline]
    fn climb(&self, rack: RackId, root: usize, path: usize) -> &[LinkId] {
        let start = ((rack.index() * self.roots.len() + root) * self.paths + path) * self.height;
        let climb = &self.climbs[start..start + self.height];
        let len = climb.iter().position(|&l| l == NO_LINK).unwrap_or(self.height);
        &climb[..len]
    }
}

/// How many links of each half remain when both are cut at the lowest switch that they share.
fn meet(fabric: &Fabric, up_edge: crate::NodeId, up: &[LinkId], down_edge: crate::NodeId, down: &[LinkId]) -> (usize, usize) {
    let mut here = up_edge;
    for climbed in 0..=up.len() {
        let mut there = down_edge;
        for descended in 0..=down.len() {
            if here == there {
                return (climbed, descended);
            }
            if let Some(&l) = down.get(descended) {
                there = fabric.link(l).to;
            }
        }
        if let Some(&l) = up.get(climbed) {
            here = fabric.link(l).to;
        }
    }
    (up.len(), down.len())
}

/// All shortest climbs from a rack's edge switches to a root.
fn climbs_to(fabric: &Fabric, health: &Health, next: &mut NextHops, rack: RackId, root: SwitchId) -> Vec<Path> {
    let mut done = Vec::new();
    // Several NICs on one switch are one start.
    let mut edges: SmallVec<[SwitchId; 4]> = SmallVec::new();
    for &switch in &fabric.racks()[rack.index()].switches {
        if !edges.contains(&switch) {
            edges.push(switch);
        }
    }
    let mut open: Vec<(crate::NodeId, Path)> = edges.iter().rev().map(|&s| (fabric.switch_node(s), Path::new())).collect();
    while let Some((node, path)) = open.pop() {
        let choices = next.toward(health, Target::Switch(root), node);
        if choices.is_empty() {
            if node == fabric.switch_node(root) {
                done.push(path);
            }
            continue;
        }
        for &link in choices.iter().rev() {
            let mut longer = path.clone();
            longer.push(link);
            open.push((fabric.link(link).to, longer));
        }
    }
    done
}
