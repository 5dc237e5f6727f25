//! A fabric as far as the page draws it: tiers, layers of cables between them, and every part by name where it is small.
//!
//! ```text
//!   tier 2      [agg0] [agg1]
//!                 |  \/  |        a layer: the cables between two tiers; "up" is towards the higher one
//!   tier 1      [edge0][edge1]    tiles: a layer's links by switch, for fabrics too large to draw link by link
//!                 |  |            a layer above the hosts goes by its upper switches, all others by their lower ones
//!   tier 0       h0  h1
//! ```

use serde::Serialize;
use weft_fabric::{CableId, Fabric, LinkId, NodeId};

/// What the page knows of a fabric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sketch {
    /// What it is, in a line.
    pub title: String,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of switches.
    pub switches: u64,
    /// Number of cables.
    pub cables: u64,
    /// By number, hosts first.
    pub tiers: Vec<Tier>,
    /// By lower tier, then upper tier.
    pub layers: Vec<Layer>,
    /// Names of the switches, by id.
    pub switch_names: Vec<String>,
    /// Their pods.
    pub switch_pods: Vec<Option<u32>>,
    /// Each node and cable, if there are at most [`MAX_DRAWN_CABLES`].
    pub wiring: Option<Wiring>,
}

/// Hosts, or the switches of one height.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// What its nodes' names have in common: `edge`.
    pub name: String,
    /// Number of nodes.
    pub count: u64,
}

/// The cables between two tiers (or inside one).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// The tier nearer to the hosts.
    pub lower: u8,
    /// The other one; equal to `lower` inside a tier.
    pub upper: u8,
    /// Number of cables.
    pub cables: u64,
    /// Sum of their capacities in one direction, in bits per second.
    pub capacity_bps: u64,
    /// First and last switch of each tile, ascending.
    pub tiles: Vec<(u32, u32)>,
    /// Capacity of each tile in one direction, in bits per second.
    pub tile_bps: Vec<u64>,
}

/// A small fabric in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wiring {
    /// Names of hosts, then switches.
    pub names: Vec<String>,
    /// Tier of each node.
    pub tiers: Vec<u8>,
    /// Pod of each node.
    pub pods: Vec<Option<u32>>,
    /// By cable: sending node of its first link.
    pub from: Vec<u32>,
    /// By cable: receiving node of its first link.
    pub to: Vec<u32>,
    /// By cable: capacity of a direction in bits per second.
    pub capacity_bps: Vec<u64>,
}

/// Where a link belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into [`Sketch::layers`].
    pub layer: usize,
    /// Towards the higher tier, or inside one tier.
    pub up: bool,
    /// The switch whose tile it counts to.
    pub switch: u32,
}

impl Sketch {
    /// Describes a fabric.
    pub fn new(fabric: &Fabric) -> Self {
        let layers = layers(fabric);
        let switches = || fabric.switches().map(|s| fabric.node(fabric.switch_node(s)));
        Self {
            title: fabric.title().to_owned(),
            hosts: fabric.host_count() as u64,
            switches: fabric.switch_count() as u64,
            cables: fabric.cables().len() as u64,
            tiers: (0..=fabric.top_tier()).map(|t| tier(fabric, t)).collect(),
            layers,
            switch_names: switches().map(|n| n.name.to_string()).collect(),
            switch_pods: switches().map(|n| n.pod).collect(),
            wiring: (fabric.cables().len() <= MAX_DRAWN_CABLES).then(|| Wiring::new(fabric)),
        }
    }

    /// Where a link of that fabric belongs.
    pub fn place(&self, fabric: &Fabric, id: LinkId) -> Place {
        let ends = ends(fabric, id);
        let layer = self.layers.partition_point(|l| (l.lower, l.upper) < (ends.lower, ends.upper));
        Place { layer, up: ends.up, switch: ends.switch }
    }
}

impl Layer {
    /// The tile of a switch.
    pub fn tile_of(&self, switch: u32) -> usize {
        self.tiles.partition_point(|&(_, last)| last < switch)
    }
}

impl Wiring {
    fn new(fabric: &Fabric) -> Self {
        let first = |c: CableId| fabric.link(c.links()[0]);
        Self {
            names: fabric.nodes().iter().map(|n| n.name.to_string()).collect(),
            tiers: fabric.nodes().iter().map(|n| n.tier).collect(),
            pods: fabric.nodes().iter().map(|n| n.pod).collect(),
            from: fabric.cables().map(|c| first(c).from.0).collect(),
            to: fabric.cables().map(|c| first(c).to.0).collect(),
            capacity_bps: fabric.cables().map(|c| first(c).capacity.0).collect(),
        }
    }
}

/// A link's tiers, direction and switch.
struct Ends {
    lower: u8,
    upper: u8,
    up: bool,
    switch: u32,
}

fn ends(fabric: &Fabric, id: LinkId) -> Ends {
    let link = fabric.link(id);
    let (from, to) = (fabric.node(link.from).tier, fabric.node(link.to).tier);
    let up = from <= to;
    let (lower_node, upper_node) = if up { (link.from, link.to) } else { (link.to, link.from) };
    let switch_of = |node: NodeId| fabric.as_switch(node).map(|s| s.0);
    let switch = switch_of(lower_node).or_else(|| switch_of(upper_node)).expect("a link touches a switch: checked when built");
    Ends { lower: from.min(to), upper: from.max(to), up, switch }
}

fn layers(fabric: &Fabric) -> Vec<Layer> {
    let mut keys: Vec<(u8, u8)> = fabric.cables().map(|c| ends(fabric, c.links()[0])).map(|e| (e.lower, e.upper)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|key| layer(fabric, key)).collect()
}

fn layer(fabric: &Fabric, (lower, upper): (u8, u8)) -> Layer {
    let mut layer = Layer { lower, upper, cables: 0, capacity_bps: 0, tiles: Vec::new(), tile_bps: Vec::new() };
    let mut by_switch = vec![0u64; fabric.switch_count()];
    for cable in fabric.cables() {
        for link in cable.links() {
            let ends = ends(fabric, link);
            // Inside a tier both directions are "up": each counts to its sender.
            if (ends.lower, ends.upper) == (lower, upper) && ends.up {
                let capacity = fabric.link(link).capacity.0;
                by_switch[ends.switch as usize] += capacity;
                layer.capacity_bps += capacity;
                layer.cables += 1;
            }
        }
    }
    if lower == upper {
        layer.cables /= 2;
        layer.capacity_bps /= 2;
    }
    let owners: Vec<u32> = (0..by_switch.len() as u32).filter(|&s| by_switch[s as usize] > 0).collect();
    for group in owners.chunks(owners.len().div_ceil(MAX_TILES).max(1)) {
        layer.tiles.push((group[0], group[group.len() - 1]));
        layer.tile_bps.push(group.iter().map(|&s| by_switch[s as usize]).sum());
    }
    layer
}

fn tier(fabric: &Fabric, tier: u8) -> Tier {
    let mut nodes = fabric.nodes().iter().filter(|n| n.tier == tier).map(|n| kind(&n.name)).peekable();
    let first = nodes.peek().copied().unwrap_or_default();
    let (mut count, mut alike) = (0, !first.is_empty());
    for kind in nodes {
        count += 1;
        alike &= kind == first;
    }
    let name = match (tier, alike) {
        (0, _) => "hosts".to_owned(),
        (_, true) => first.to_owned(),
        (_, false) => format!("tier {tier}"),
    };
    Tier { name, count }
}

/// `edge` of `pod0-edge1`: the last part of a name without its number.
fn kind(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Fabrics with more cables are drawn by layer and switch.
pub const MAX_DRAWN_CABLES: usize = 1_500;
/// Tiles of a layer and direction.
const MAX_TILES: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::FabricBuilder;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, Duration};

    const GBPS: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };

    #[test]
    fn a_fat_tree_has_three_layers() {
        let sketch = Sketch::new(&fat_tree(4, GBPS).expect("k is even"));
        let tiers: Vec<_> = sketch.tiers.iter().map(|t| (t.name.as_str(), t.count)).collect();
        assert_eq!(tiers, [("hosts", 16), ("edge", 8), ("agg", 8), ("core", 4)]);
        let layers: Vec<_> = sketch.layers.iter().map(|l| (l.lower, l.upper, l.cables, l.tiles.len())).collect();
        assert_eq!(layers, [(0, 1, 16, 8), (1, 2, 16, 8), (2, 3, 16, 8)]);
        assert_eq!(sketch.layers[2].tile_bps, [2_000_000_000; 8]);
        assert_eq!(sketch.wiring.expect("48 cables are drawn").from.len(), 48);
    }

    #[test]
    fn every_link_has_a_place_and_its_reverse_the_opposite_one() {
        let fabric = fat_tree(6, GBPS).expect("k is even");
        let sketch = Sketch::new(&fabric);
        for cable in fabric.cables() {
            let [a, b] = cable.links().map(|l| sketch.place(&fabric, l));
            assert_eq!((a.layer, a.switch), (b.layer, b.switch));
            assert!(a.up != b.up);
            let (first, last) = sketch.layers[a.layer].tiles[sketch.layers[a.layer].tile_of(a.switch)];
            assert!(first <= a.switch && a.switch <= last);
        }
    }

    #[test]
    fn cables_inside_a_tier_are_a_layer_of_their_own() {
        let mut builder = FabricBuilder::new("two switches");
        let (h, a, b) = (builder.host("h0", None), builder.switch("left", 1, None), builder.switch("right", 1, None));
        builder.cable(h, a, GBPS.rate, GBPS.delay);
        builder.cable(a, b, GBPS.rate, GBPS.delay);
        let fabric = builder.build().expect("connected");
        let sketch = Sketch::new(&fabric);
        let across = &sketch.layers[1];
        assert_eq!((across.lower, across.upper, across.cables, across.capacity_bps), (1, 1, 1, 1_000_000_000));
        assert_eq!(across.tiles, [(0, 0), (1, 1)]);
        assert_eq!(sketch.place(&fabric, LinkId(3)), Place { layer: 1, up: true, switch: 1 });
        assert_eq!(sketch.tiers[1].name, "tier 1");
    }

    #[test]
    fn large_fabrics_keep_no_wiring() {
        assert_eq!(Sketch::new(&fat_tree(16, GBPS).expect("k is even")).wiring, None);
    }
}
