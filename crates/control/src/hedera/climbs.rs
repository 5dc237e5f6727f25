//! The links of every label's path, in tables small enough for the caches.
//!
//! [`RootPaths`] lists a climb for every rack and label. Racks of one pod climb alike above the edge, and labels that share an
//! aggregation switch begin alike, so each level of the climbs is a small table:
//!
//! ```text
//!   level 1, agg -> core     row = pod            column = core          link = table[row of rack][column of label]
//!   level 0, edge -> agg     row = edge switch    column = position of the aggregation switch
//! ```
//! Racks with equal rows share one, labels with equal columns share one. For k = 48: 1,152 x 24 and 48 x 576 links instead of
//! 1,152 x 576 x 2.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weft_fabric::routing::roots::NO_LINK;
use weft_fabric::routing::{RootLabel, RootPaths};
use weft_fabric::{Fabric, LinkId, RackId};

/// One level of the climbs: level 0 leaves the edge switches.
#[derive(Clone, Debug)]
pub struct Level {
    row_of_rack: Vec<u32>,
    column_of_label: Vec<u32>,
    columns: usize,
    rows: usize,
    links: Vec<LinkId>,
}

impl Level {
    /// The link that a rack climbs at this level under a label; [`NO_LINK`] if its climb is shorter.
    #[inline]
    pub fn link(&self, rack: RackId, label: RootLabel) -> LinkId {
        self.at(self.row(rack), self.column(label))
    }

    /// The row of a rack: racks of one row have the same links here, label by label.
    #[inline]
    pub fn row(&self, rack: RackId) -> u32 {
        self.row_of_rack[rack.index()]
    }

    /// The column of a label: labels of one column have the same links here, rack by rack.
    #[inline]
    pub fn column(&self, label: RootLabel) -> u32 {
        self.column_of_label[label.0 as usize]
    }

    /// The link of a row and a column.
    #[inline]
    pub fn at(&self, row: u32, column: u32) -> LinkId {
        self.links[row as usize * self.columns + column as usize]
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn new(racks: usize, labels: usize, link: impl Fn(RackId, RootLabel) -> LinkId) -> Self {
        let mut rows: Vec<Vec<LinkId>> = Vec::new();
        let mut known: FxHashMap<Vec<LinkId>, u32> = FxHashMap::default();
        let mut row_of_rack = Vec::with_capacity(racks);
        for rack in (0..racks).map(RackId::from) {
            let row: Vec<LinkId> = (0..labels).map(|l| link(rack, RootLabel(l as u32))).collect();
            let next = rows.len() as u32;
            let number = *known.entry(row).or_insert_with_key(|row| {
                rows.push(row.clone());
                next
            });
            row_of_rack.push(number);
        }
        let mut columns: Vec<usize> = Vec::new();
        let mut known: FxHashMap<Vec<LinkId>, u32> = FxHashMap::default();
        let mut column_of_label = Vec::with_capacity(labels);
        for label in 0..labels {
            let column: Vec<LinkId> = rows.iter().map(|row| row[label]).collect();
            let next = columns.len() as u32;
            let number = *known.entry(column).or_insert_with(|| {
                columns.push(label);
                next
            });
            column_of_label.push(number);
        }
        let links = rows.iter().flat_map(|row| columns.iter().map(|&label| row[label])).collect();
        Self { row_of_rack, column_of_label, columns: columns.len(), rows: rows.len(), links }
    }
}

/// The climbs of all racks under all labels, when they send and when they receive.
#[derive(Clone, Debug)]
pub struct Climbs {
    labels: usize,
    up: Vec<Level>,
    down: Vec<Level>,
    /// Where each link leads: the switch at the top of a step.
    to: Vec<u32>,
    /// By rack, for climbs of no step: its number shows whether two racks share an edge switch.
    edges: Vec<SmallVec<[u32; 2]>>,
    nested: bool,
}

impl Climbs {
    /// Tabulates the climbs, in O(racks x labels x height).
    pub fn new(fabric: &Fabric, paths: &RootPaths) -> Self {
        let (racks, labels) = (fabric.racks().len(), paths.label_count());
        let step = |climb: &[LinkId], level: usize| climb.get(level).copied().unwrap_or(NO_LINK);
        let up: Vec<Level> = (0..paths.height()).map(|i| Level::new(racks, labels, |r, l| step(paths.up(r, l), i))).collect();
        let one_way = labels == paths.roots().len();
        let down = if one_way {
            up.clone()
        } else {
            (0..paths.height()).map(|i| Level::new(racks, labels, |r, l| step(paths.down(r, l), i))).collect()
        };
        let to = fabric.links().iter().map(|l| l.to.0).collect();
        let edge = |r: &weft_fabric::topology::Rack| -> SmallVec<[u32; 2]> {
            let mut edges: SmallVec<[u32; 2]> = r.switches.iter().map(|&s| fabric.switch_node(s).0).collect();
            edges.sort_unstable();
            edges.dedup();
            edges
        };
        let edges: Vec<SmallVec<[u32; 2]>> = fabric.racks().iter().map(edge).collect();
        let nested = one_way && edges.iter().all(|e| e.len() == 1) && is_nested(fabric, &up);
        Self { labels, up, down, to, edges, nested }
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// Longest climb in links.
    pub fn height(&self) -> usize {
        self.up.len()
    }

    /// Levels of the climbs of senders, from the edge up.
    pub fn up(&self) -> &[Level] {
        &self.up
    }

    /// Levels of the climbs of receivers: the descent in reverse.
    pub fn down(&self) -> &[Level] {
        &self.down
    }

    /// Whether the fabric is a tree of groups (racks, pods, ...) and each label crosses one switch of a group, so that two racks
    /// turn at the same level under all labels, and [`Climbs::turn_of_groups`] knows it. So it is in a fat-tree and a leaf-spine.
    pub fn nested(&self) -> bool {
        self.nested
    }

    /// The fastest of the links that leave the edge switches, in bits per second; infinite if none does.
    pub fn fastest_first(&self, fabric: &Fabric) -> f64 {
        let links = self.up.first().into_iter().flat_map(|level| &level.links).filter(|&&l| l != NO_LINK);
        links.map(|&l| fabric.link(l).capacity.as_f64()).reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// In a nested fabric, how many links a path between two racks climbs, and descends.
    #[inline]
    pub fn turn_of_groups(&self, from: RackId, to: RackId) -> usize {
        debug_assert!(self.nested);
        self.up.iter().position(|level| level.row(from) == level.row(to)).unwrap_or(self.up.len())
    }

    /// How many links of the climbs of sender and receiver a path between two racks keeps under a label: up to the lowest switch
    /// that both share.
    #[inline]
    pub fn turn(&self, from: RackId, to: RackId, label: RootLabel) -> (usize, usize) {
        if self.nested {
            let level = self.turn_of_groups(from, to);
            return (level, level);
        }
        self.meet(from, to, label)
    }

    /// Calls `each` with the links between switches of a path: the climb, then the descent.
    #[inline]
    pub fn for_each_link(&self, from: RackId, to: RackId, label: RootLabel, mut each: impl FnMut(LinkId)) {
        let (climbed, descended) = self.turn(from, to, label);
        for level in &self.up[..climbed] {
            each(level.link(from, label));
        }
        for level in self.down[..descended].iter().rev() {
            each(level.link(to, label).reverse());
        }
    }

    /// The switches of a climb: the edge switch it leaves, then the top of each step.
    fn switches(&self, levels: &[Level], rack: RackId, label: RootLabel) -> SmallVec<[(u32, usize); 4]> {
        let mut passed = SmallVec::new();
        if let [edge] = self.edges[rack.index()][..] {
            passed.push((edge, 0));
        }
        for (i, level) in levels.iter().enumerate() {
            let link = level.link(rack, label);
            if link == NO_LINK {
                break;
            }
            if passed.is_empty() {
                // Of a rack with several edge switches, the one that the climb leaves.
                passed.push((self.to[link.reverse().index()], 0));
            }
            passed.push((self.to[link.index()], i + 1));
        }
        passed
    }

    fn meet(&self, from: RackId, to: RackId, label: RootLabel) -> (usize, usize) {
        let (up, down) = (self.switches(&self.up, from, label), self.switches(&self.down, to, label));
        for &(here, climbed) in &up {
            if let Some(&(_, descended)) = down.iter().find(|&&(there, _)| here == there) {
                return (climbed, descended);
            }
        }
        (up.len().saturating_sub(1), down.len().saturating_sub(1))
    }
}

/// Whether the switches that each row of a level starts from belong to that row alone.
fn is_nested(fabric: &Fabric, levels: &[Level]) -> bool {
    let mut owner: Vec<Option<(usize, u32)>> = vec![None; fabric.nodes().len()];
    for (i, level) in levels.iter().enumerate() {
        for row in 0..level.rows as u32 {
            for column in 0..level.columns as u32 {
                let link = level.at(row, column);
                if link == NO_LINK {
                    return false;
                }
                let owner = &mut owner[fabric.link(link).from.index()];
                if *owner.get_or_insert((i, row)) != (i, row) {
                    return false;
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hedera::testing::{clos, fat_tree, leaf_spine, single};

    #[test]
    fn tables_hold_the_paths_of_the_fabric() {
        for fabric in [fat_tree(4), fat_tree(6), leaf_spine(3, 4, 2), clos(4, 6, 3), single(5)] {
            let paths = RootPaths::new(fabric.clone());
            let climbs = Climbs::new(&fabric, &paths);
            for (a, b) in fabric.hosts().flat_map(|a| fabric.hosts().map(move |b| (a, b))).filter(|(a, b)| a != b) {
                for label in (0..paths.label_count() as u32).map(RootLabel) {
                    let mut got = vec![];
                    climbs.for_each_link(fabric.rack_of(a), fabric.rack_of(b), label, |l| got.push(l));
                    let path = paths.path(a, b, label);
                    assert_eq!(got, path[1..path.len() - 1], "{} {a:?} {b:?} {label:?}", fabric.title());
                }
            }
        }
    }

    #[test]
    fn fat_trees_and_leaf_spines_are_nested_and_compact() {
        let fabric = fat_tree(8);
        let climbs = Climbs::new(&fabric, &RootPaths::new(fabric.clone()));
        assert!(climbs.nested());
        assert_eq!(climbs.up().iter().map(|l| (l.rows(), l.columns())).collect::<Vec<_>>(), [(32, 4), (8, 16)]);
        let fabric = leaf_spine(3, 4, 2);
        assert!(Climbs::new(&fabric, &RootPaths::new(fabric.clone())).nested());
        let fabric = clos(4, 6, 3);
        assert!(!Climbs::new(&fabric, &RootPaths::new(fabric.clone())).nested());
    }
}
