//! Colouring of a bipartite multigraph with capacities: one stage of the placement.
//!
//! Nodes are the groups that send and those that receive (racks, pods); an edge is a flow between two groups, with its demand for a
//! weight; a colour is a switch above them. A cell (node, colour) is the link between the two, with its capacity:
//!
//! ```text
//!   sending racks      colours        receiving racks
//!        r0 ----------- agg 0 ----------- r2            cell (r0, agg 0): all flows of r0 with colour 0
//!           \_________  agg 1  _________/               together fit the link r0 - agg 0
//! ```
//! A new edge takes the colour with the most room at both of its ends. If it fits in none, some colour `a` has room
//! at one end and `b` at the other, and an **alternating path** makes room: the edge takes `a`, the other end moves an edge from
//! `a` to `b`, that edge's far end moves one from `b` to `a`, and so on until a node has room. With equal weights this always
//! ends well as long as every node has room in some colour: each node that the path passes gives and takes one edge of each colour,
//! and no edge moves twice. That is König's theorem, as an insertion: a graph whose degrees do not exceed the number of colours
//! is coloured without conflict. With unequal weights it is a heuristic: an edge that is heavy enough takes the place of the one
//! that came, and a path that ends with more excess than before is taken back.
//!
//! Cost: O(colours) an edge, and O(length) a path, at most the number of nodes with equal weights.

use crate::hedera::network::Units;

/// The edges that are coloured so far.
#[derive(Clone, Debug)]
pub struct Coloring {
    colours: usize,
    sides: [Side; 2],
    /// By side, `[node][colour]`: the first edge of the cell.
    heads: [Vec<u32>; 2],
    edges: Vec<Edge>,
    /// What the loads exceed the capacities by, over all cells and upper cells.
    excess: Units,
    /// Number of the alternating path under way: edges that it has moved carry it.
    path: u32,
    /// Moves that alternating paths may still make in vain: short ones, and those of any length.
    budget: [usize; 2],
    moved: Vec<u32>,
    open: Vec<Cell>,
}

/// The capacities at one side.
#[derive(Clone, Debug)]
pub struct Side {
    /// `[node][colour]`: capacity less load.
    pub room: Vec<Units>,
    /// By node, the group that holds it one level higher.
    pub group: Vec<u32>,
    /// `[group][colour]`: the capacity that edges which leave the group have above this stage, all ways together.
    pub upper: Vec<Units>,
}

/// A flow between two groups.
#[derive(Clone, Copy, Debug)]
pub struct NewEdge {
    /// Sending and receiving node.
    pub nodes: [u32; 2],
    /// Its demand.
    pub weight: Units,
    /// Whether it leaves the groups one level higher.
    pub leaves: bool,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    new: NewEdge,
    colour: u32,
    path: u32,
    /// By side: neighbours in the list of its cell.
    next: [u32; 2],
    previous: [u32; 2],
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    side: usize,
    node: u32,
    colour: u32,
}

impl Coloring {
    /// No edges yet; `expected` of them are to come, which bounds the work.
    pub fn new(colours: usize, sides: [Side; 2], expected: usize) -> Self {
        let nodes: usize = sides.iter().map(|s| s.group.len()).sum();
        Self {
            colours,
            heads: sides.each_ref().map(|s| vec![NONE; s.room.len()]),
            sides,
            edges: Vec::with_capacity(expected),
            excess: 0,
            path: 0,
            budget: MOVES_IN_VAIN.map(|moves| moves * expected + 8 * nodes),
            moved: Vec::new(),
            open: Vec::new(),
        }
    }

    /// The colour of the `number`-th edge.
    pub fn colour(&self, number: u32) -> u32 {
        self.edges[number as usize].colour
    }

    /// What the loads exceed the capacities by.
    pub fn excess(&self) -> Units {
        self.excess
    }

    /// Adds an edge with this colour, if it has room. Edges are numbered in the order in which they are added.
    pub fn keep(&mut self, edge: NewEdge, colour: u32) -> Option<u32> {
        self.fits(&edge, colour as usize).then(|| {
            let e = self.push(edge);
            self.put(e, colour);
            e
        })
    }

    /// Adds an edge with the best colour.
    pub fn insert(&mut self, edge: NewEdge) -> u32 {
        let e = self.push(edge);
        self.settle(e, edge.weight);
        e
    }

    /// Recolours every edge in an overfull cell, as long as that helps.
    pub fn repair(&mut self) {
        for e in 0..self.edges.len() as u32 {
            if self.excess == 0 {
                return;
            }
            if self.is_over(e) {
                self.take(e);
                self.settle(e, Units::MIN + 1);
            }
        }
    }

    /// Gives an edge that is in no cell a colour. Alternating paths start from colours with `least` room at one end.
    fn settle(&mut self, e: u32, least: Units) {
        let edge = self.edges[e as usize].new;
        if let Some(colour) = self.roomiest_fit(&edge) {
            self.put(e, colour);
            return;
        }
        let [from, to] = [0, 1].map(|side| self.roomiest(&edge, side, least));
        let any_length = 2 * (self.sides[0].group.len() + self.sides[1].group.len()) + 16;
        for (most, pairs, purse) in [(4, usize::MAX, 0), (16, 4, 0), (any_length, 1, 1)] {
            let all = from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))).filter(|&(a, b)| a != b);
            for (a, b) in all.filter(|&(a, b)| a != NONE && b != NONE).take(pairs) {
                for (first, second) in [(a, b), (b, a)] {
                    if self.budget[purse] == 0 {
                        break;
                    }
                    if self.alternate(e, first, second, most) {
                        return;
                    }
                    self.budget[purse] = self.budget[purse].saturating_sub(self.moved.len() + 1);
                    self.take_back(e, first ^ second);
                }
            }
        }
        let colour = self.least_excess(&edge);
        self.put(e, colour);
    }

    fn push(&mut self, new: NewEdge) -> u32 {
        self.edges.push(Edge { new, colour: NONE, path: 0, next: [NONE; 2], previous: [NONE; 2] });
        self.edges.len() as u32 - 1
    }

    /// Puts an edge into the cells of a colour.
    fn put(&mut self, e: u32, colour: u32) {
        let NewEdge { nodes, weight, leaves } = self.edges[e as usize].new;
        self.edges[e as usize].colour = colour;
        for (side, &node) in nodes.iter().enumerate() {
            let cell = node as usize * self.colours + colour as usize;
            self.load(side, node, colour, weight, leaves);
            let head = std::mem::replace(&mut self.heads[side][cell], e);
            self.edges[e as usize].next[side] = head;
            self.edges[e as usize].previous[side] = NONE;
            if head != NONE {
                self.edges[head as usize].previous[side] = e;
            }
        }
    }

    /// Takes an edge out of its cells.
    fn take(&mut self, e: u32) {
        let Edge { new: NewEdge { nodes, weight, leaves }, colour, next, previous, .. } = self.edges[e as usize];
        for (side, &node) in nodes.iter().enumerate() {
            self.load(side, node, colour, -weight, leaves);
            match previous[side] {
                NONE => self.heads[side][node as usize * self.colours + colour as usize] = next[side],
                p => self.edges[p as usize].next[side] = next[side],
            }
            if next[side] != NONE {
                self.edges[next[side] as usize].previous[side] = previous[side];
            }
        }
    }

    fn load(&mut self, side: usize, node: u32, colour: u32, weight: Units, leaves: bool) {
        let Side { room, group, upper } = &mut self.sides[side];
        let mut add = |room: &mut Units| {
            let old = std::mem::replace(room, *room - weight);
            self.excess += old.min(0) - (old - weight).min(0);
        };
        add(&mut room[node as usize * self.colours + colour as usize]);
        if leaves {
            add(&mut upper[group[node as usize] as usize * self.colours + colour as usize]);
        }
    }

    /// The room that an edge finds in a colour at one side.
    fn room(&self, edge: &NewEdge, side: usize, colour: usize) -> Units {
        let Side { room, group, upper } = &self.sides[side];
        let node = edge.nodes[side] as usize;
        let here = room[node * self.colours + colour];
        if edge.leaves { here.min(upper[group[node] as usize * self.colours + colour]) } else { here }
    }

    fn fits(&self, edge: &NewEdge, colour: usize) -> bool {
        self.room(edge, 0, colour) >= edge.weight && self.room(edge, 1, colour) >= edge.weight
    }

    /// The colour with the most room, if the edge fits at both ends: even loads leave room for demands that grow next round, and
    /// since large edges come first, small ones fill what is left.
    fn roomiest_fit(&self, edge: &NewEdge) -> Option<u32> {
        let left = |colour| {
            let [a, b] = [0, 1].map(|side| self.room(edge, side, colour) - edge.weight);
            (a >= 0 && b >= 0).then_some((a.min(b), std::cmp::Reverse(colour as u32)))
        };
        (0..self.colours).filter_map(left).max().map(|(_, colour)| colour.0)
    }

    /// The colours with the most room at one end, the roomiest first.
    fn roomiest(&self, edge: &NewEdge, side: usize, least: Units) -> [u32; TRIED] {
        let mut best = [(least - 1, NONE); TRIED];
        for colour in 0..self.colours {
            let room = self.room(edge, side, colour);
            if let Some(rank) = best.iter().position(|&(r, _)| room > r) {
                best[rank..].rotate_right(1);
                best[rank] = (room, colour as u32);
            }
        }
        best.map(|(_, colour)| colour)
    }

    fn least_excess(&self, edge: &NewEdge) -> u32 {
        let over = |colour: &u32| -> (Units, Units) {
            let rooms = [0, 1].map(|side| self.room(edge, side, *colour as usize));
            (rooms.iter().map(|r| (edge.weight - r.max(&0)).max(0)).sum(), -rooms[0].saturating_add(rooms[1]))
        };
        (0..self.colours as u32).min_by_key(over).expect("a stage has a colour")
    }

    fn is_over(&self, e: u32) -> bool {
        let Edge { new, colour, .. } = &self.edges[e as usize];
        [0, 1].iter().any(|&side| self.room(new, side, *colour as usize) < 0)
    }

    /// Inserts an edge with colour `a` and makes room for it by an alternating path of `a` and `b` that moves at most `most` edges.
    /// Returns whether the excess did not grow; else all is to be taken back.
    fn alternate(&mut self, e: u32, a: u32, b: u32, most: usize) -> bool {
        let before = self.excess;
        self.path += 1;
        self.edges[e as usize].path = self.path;
        self.put(e, a);
        self.moved.clear();
        self.open.clear();
        self.open_cells(e);
        while let Some(cell) = self.open.pop() {
            let over = -self.room_of(cell);
            if over <= 0 {
                continue;
            }
            let other = a ^ b ^ cell.colour;
            let Some(next) = self.pick(cell, other, over).filter(|_| self.moved.len() < most) else { break };
            self.take(next);
            self.put(next, other);
            self.edges[next as usize].path = self.path;
            self.moved.push(next);
            self.open.push(cell);
            self.open_cells(next);
        }
        self.excess <= before
    }

    /// Undoes an alternating path of two colours, given their exclusive or, and takes out the edge that it began with.
    fn take_back(&mut self, e: u32, both: u32) {
        for i in (0..self.moved.len()).rev() {
            let moved = self.moved[i];
            let colour = both ^ self.edges[moved as usize].colour;
            self.take(moved);
            self.put(moved, colour);
        }
        self.take(e);
    }

    fn open_cells(&mut self, e: u32) {
        let Edge { new, colour, .. } = self.edges[e as usize];
        for (side, &node) in new.nodes.iter().enumerate() {
            let cell = Cell { side, node, colour };
            if self.room_of(cell) < 0 {
                self.open.push(cell);
            }
        }
    }

    fn room_of(&self, cell: Cell) -> Units {
        self.sides[cell.side].room[cell.node as usize * self.colours + cell.colour as usize]
    }

    /// The edge to move out of an overfull cell: one that this path has not moved yet; the lightest that suffices and that the other
    /// colour has room for at this node, else the lightest that suffices, else the heaviest.
    fn pick(&self, cell: Cell, other: u32, over: Units) -> Option<u32> {
        let room = self.room_of(Cell { colour: other, ..cell });
        let mut best = None;
        let mut e = self.heads[cell.side][cell.node as usize * self.colours + cell.colour as usize];
        while e != NONE {
            let edge = &self.edges[e as usize];
            let weight = edge.new.weight;
            if edge.path != self.path {
                let suffices = weight >= over;
                let rank = (!(suffices && weight <= room), !suffices, if suffices { weight } else { -weight });
                if best.is_none_or(|(r, _)| rank < r) {
                    best = Some((rank, e));
                }
            }
            e = edge.next[cell.side];
        }
        best.map(|(_, e)| e)
    }
}

const NONE: u32 = u32::MAX;

/// How many colours an edge without room tries at each end.
const TRIED: usize = 3;

/// What alternating paths may move in vain, on average over the edges: it bounds the work where demands are unequal and racks full.
/// With equal demands no path of any length is in vain.
const MOVES_IN_VAIN: [usize; 2] = [2, 1];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(nodes: usize, colours: usize, capacity: Units) -> Side {
        Side { room: vec![capacity; nodes * colours], group: vec![0; nodes], upper: vec![Units::MAX / 4; colours] }
    }

    fn edge(u: u32, v: u32, weight: Units) -> NewEdge {
        NewEdge { nodes: [u, v], weight, leaves: false }
    }

    /// Loads and lists, recomputed.
    fn check(coloring: &Coloring, capacity: Units) -> Units {
        let mut excess = 0;
        for (side, sums) in coloring.sides.iter().enumerate() {
            let mut loads = vec![0; sums.room.len()];
            for e in &coloring.edges {
                loads[e.new.nodes[side] as usize * coloring.colours + e.colour as usize] += e.new.weight;
            }
            for (cell, &load) in loads.iter().enumerate() {
                assert_eq!(sums.room[cell], capacity - load);
                let mut listed = 0;
                let mut e = coloring.heads[side][cell];
                while e != NONE {
                    listed += coloring.edges[e as usize].new.weight;
                    e = coloring.edges[e as usize].next[side];
                }
                assert_eq!(listed, load);
                excess += (load - capacity).max(0);
            }
        }
        assert_eq!(coloring.excess(), excess);
        excess
    }

    proptest! {
        /// König: `d` perfect matchings (a graph of degree `d`), shuffled, in `d` colours.
        #[test]
        fn regular_graphs_are_coloured_without_conflict(nodes in 1u32..30, degree in 1u32..9, parts in 1i64..4, seed: u64) {
            use rand::RngExt;
            let mut rng = crate::hedera::testing::rng(seed);
            let mut edges = vec![];
            for _ in 0..degree * parts as u32 {
                let mut to: Vec<u32> = (0..nodes).collect();
                for i in (1..nodes as usize).rev() {
                    to.swap(i, rng.random_range(0..=i));
                }
                edges.extend(to.iter().enumerate().map(|(u, &v)| edge(u as u32, v, 1)));
            }
            for i in (1..edges.len()).rev() {
                edges.swap(i, rng.random_range(0..=i));
            }
            let sides = [side(nodes as usize, degree as usize, parts), side(nodes as usize, degree as usize, parts)];
            let mut coloring = Coloring::new(degree as usize, sides, edges.len());
            edges.into_iter().for_each(|e| { coloring.insert(e); });
            prop_assert_eq!(check(&coloring, parts), 0);
        }

        #[test]
        fn sums_and_lists_agree_whatever_happens(edges in prop::collection::vec((0u32..6, 0u32..6, 1i64..60), 1..80)) {
            let mut coloring = Coloring::new(4, [side(6, 4, 100), side(6, 4, 100)], edges.len());
            for (u, v, w) in edges {
                coloring.insert(edge(u, v, w));
            }
            let before = check(&coloring, 100);
            coloring.repair();
            prop_assert!(check(&coloring, 100) <= before);
        }
    }

    #[test]
    fn a_kept_colour_is_kept_only_if_it_fits() {
        let mut coloring = Coloring::new(2, [side(1, 2, 10), side(2, 2, 10)], 3);
        assert_eq!(coloring.keep(edge(0, 0, 6), 1), Some(0));
        assert_eq!(coloring.keep(edge(0, 1, 6), 1), None);
        let e = coloring.insert(edge(0, 1, 6));
        assert_eq!(coloring.colour(e), 0);
    }

    #[test]
    fn a_colour_without_capacity_is_not_used() {
        let mut up = side(2, 2, 1);
        up.room[0] = 0;
        let mut coloring = Coloring::new(2, [up, side(2, 2, 1)], 2);
        // Edge 1 takes colour 1 at the receiver; edge 0, which can only have colour 1, moves it.
        coloring.keep(edge(1, 0, 1), 1).unwrap();
        let e = coloring.insert(edge(0, 0, 1));
        assert_eq!((coloring.colour(e), coloring.excess()), (1, 0));
    }
}
