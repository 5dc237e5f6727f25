//! The paths of pairs of edge switches: as many as are wanted, edge-disjoint where they can be, the shortest first.
//!
//! A used cable is penalised with more than any path is long, so the search runs in stages:
//! 1. shortest paths over cables that the pair does not use yet: depth first along falling distances, and A* once no path of the shortest
//!    length is left;
//! 2. if fewer were found than both switches have cables, augmenting paths as of a maximum flow, which reach the largest number there is
//!    (and may give up a shortest path for two longer ones);
//! 3. further paths of the shortest length that share as few cables as possible with the earlier ones, until one repeats.
//!
//! One pass for each target: its distances serve all sources. O(paths x cables near them) on regular fabrics; stage 2 looks at the
//! whole graph for each pair that it is needed for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::switch_graph::{Arc, SwitchGraph};

/// A path: cables from one switch to another.
pub(super) type Cables = Vec<u32>;

/// Finds paths to one target after the other.
pub(super) struct Finder<'a> {
    graph: &'a SwitchGraph,
    target: u32,
    /// Hops from each switch to the target; [`FAR`] if there is no path.
    distance: Vec<u32>,
    /// By cable: how many paths of the pair use it.
    used: Vec<u32>,
    /// By switch: what a search under way knows, valid if its stamp is that of the search.
    seen: Vec<Seen>,
    stamp: u32,
    open: BinaryHeap<Reverse<(u32, Reverse<u32>, u32)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    stamp: u32,
    cost: u32,
    /// The arc by which it was reached: sending switch and cable.
    from: u32,
    cable: u32,
}

const FAR: u32 = u32::MAX;

impl<'a> Finder<'a> {
    /// Paths over switches alone.
    pub fn new(graph: &'a SwitchGraph, cables: usize) -> Self {
        Self {
            graph,
            target: 0,
            distance: Vec::new(),
            used: vec![0; cables],
            seen: vec![Seen::default(); graph.len()],
            stamp: 0,
            open: BinaryHeap::new(),
        }
    }

    /// Turns to another target.
    pub fn aim(&mut self, target: u32) {
        self.target = target;
        self.distance = vec![FAR; self.graph.len()];
        self.distance[target as usize] = 0;
        let mut queue = vec![target];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for arc in self.graph.arcs(at) {
                if self.distance[arc.to as usize] == FAR {
                    self.distance[arc.to as usize] = self.distance[at as usize] + 1;
                    queue.push(arc.to);
                }
            }
        }
    }

    /// At most `k` paths from `source` to the target, the edge-disjoint ones first, and how many these are.
    pub fn paths(&mut self, source: u32, k: usize) -> (Vec<Cables>, usize) {
        let mut paths: Vec<Cables> = Vec::new();
        if source == self.target || self.distance[source as usize] == FAR {
            return (paths, 0);
        }
        let most = k.min(self.graph.arcs(source).len()).min(self.graph.arcs(self.target).len());
        let mut falling = true;
        while paths.len() < most {
            let path = if falling { self.descend(source) } else { self.search(source) };
            match path {
                Some(path) => {
                    self.count(&path, 1);
                    paths.push(path);
                }
                None if falling => falling = false,
                None => break,
            }
        }
        if paths.len() < most {
            paths = self.augment(source, paths, most);
        }
        let disjoint = paths.len();
        while paths.len() < k {
            let path = self.least_shared(source);
            if paths.contains(&path) {
                break;
            }
            self.count(&path, 1);
            paths.push(path);
        }
        for path in &paths {
            self.count(path, -1);
        }
        (paths, disjoint)
    }

    fn count(&mut self, path: &[u32], by: i32) {
        for &cable in path {
            self.used[cable as usize] = self.used[cable as usize].wrapping_add_signed(by);
        }
    }

    fn next_stamp(&mut self) {
        self.stamp += 1;
    }

    /// A path of the shortest length over unused cables; depth first, and no switch twice.
    fn descend(&mut self, source: u32) -> Option<Cables> {
        self.next_stamp();
        // Each switch of the path with the number of its next arc.
        let mut stack = vec![(source, 0usize)];
        let mut path = Cables::new();
        while let Some((at, next)) = stack.last_mut() {
            let wanted = self.distance[*at as usize] - 1;
            if wanted == 0 {
                // The target has fewer cables than a root: it knows which lead here.
                let here = *at;
                let last = self.graph.arcs(self.target).iter().find(|a| a.to == here && self.used[cable(a) as usize] == 0);
                if let Some(last) = last {
                    path.push(cable(last));
                    return Some(path);
                }
                stack.pop();
                path.pop();
                continue;
            }
            let arcs = self.graph.arcs(*at);
            let (distance, used, seen, stamp) = (&self.distance, &self.used, &self.seen, self.stamp);
            let fits = |arc: &Arc| {
                distance[arc.to as usize] == wanted && used[cable(arc) as usize] == 0 && seen[arc.to as usize].stamp != stamp
            };
            match arcs[*next..].iter().position(fits) {
                Some(ahead) => {
                    let arc = arcs[*next + ahead];
                    *next += ahead + 1;
                    self.seen[arc.to as usize].stamp = self.stamp;
                    path.push(cable(&arc));
                    stack.push((arc.to, 0));
                }
                None => {
                    stack.pop();
                    path.pop();
                }
            }
        }
        None
    }

    /// The shortest path over unused cables, by A* with the distances for bounds.
    fn search(&mut self, source: u32) -> Option<Cables> {
        self.next_stamp();
        self.open.clear();
        self.reach(source, Seen { stamp: self.stamp, cost: 0, from: source, cable: FAR });
        while let Some(Reverse((_, Reverse(cost), at))) = self.open.pop() {
            if at == self.target {
                return Some(self.trace(source));
            }
            if self.seen[at as usize].cost < cost {
                continue;
            }
            for arc in self.graph.arcs(at) {
                let known = self.seen[arc.to as usize];
                let better = known.stamp != self.stamp || cost + 1 < known.cost;
                if better && self.used[cable(arc) as usize] == 0 {
                    self.reach(arc.to, Seen { stamp: self.stamp, cost: cost + 1, from: at, cable: cable(arc) });
                }
            }
        }
        None
    }

    fn reach(&mut self, to: u32, how: Seen) {
        self.seen[to as usize] = how;
        self.open.push(Reverse((how.cost + self.distance[to as usize], Reverse(how.cost), to)));
    }

    /// The path by which a search has come to the target.
    fn trace(&self, source: u32) -> Cables {
        let mut path = Cables::new();
        let mut at = self.target;
        while at != source {
            let Seen { from, cable, .. } = self.seen[at as usize];
            path.push(cable);
            at = from;
        }
        path.reverse();
        path
    }

    /// The largest number of edge-disjoint paths up to `most`, from those that there are: as a maximum flow of ones.
    fn augment(&mut self, source: u32, paths: Vec<Cables>, most: usize) -> Vec<Cables> {
        // By cable: the switch that it leads away from, if a path uses it.
        let mut tail = vec![FAR; self.used.len()];
        for path in &paths {
            let mut at = source;
            for &c in path {
                tail[c as usize] = at;
                at = self.other_end(at, c);
            }
        }
        let mut flow = paths.len();
        while flow < most && self.augment_once(source, &mut tail) {
            flow += 1;
        }
        if flow == paths.len() {
            return paths;
        }
        for path in &paths {
            self.count(path, -1);
        }
        let mut fresh: Vec<Cables> = (0..flow).map(|_| self.follow(source, &mut tail)).collect();
        fresh.sort_by_key(Vec::len);
        for path in &fresh {
            self.count(path, 1);
        }
        fresh
    }

    /// One more path, which may take cables back from others.
    fn augment_once(&mut self, source: u32, tail: &mut [u32]) -> bool {
        self.next_stamp();
        self.seen[source as usize].stamp = self.stamp;
        let mut queue = vec![source];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for arc in self.graph.arcs(at) {
                let user = tail[cable(arc) as usize];
                // A used cable can only be taken back: against the direction of its path.
                if self.seen[arc.to as usize].stamp != self.stamp && (user == FAR || user == arc.to) {
                    self.seen[arc.to as usize] = Seen { stamp: self.stamp, cost: 0, from: at, cable: cable(arc) };
                    queue.push(arc.to);
                }
            }
            if self.seen[self.target as usize].stamp == self.stamp {
                let mut at = self.target;
                while at != source {
                    let Seen { from, cable, .. } = self.seen[at as usize];
                    let slot = &mut tail[cable as usize];
                    *slot = if *slot == FAR { from } else { FAR };
                    at = from;
                }
                return true;
            }
        }
        false
    }

    /// Takes one path out of a flow, without the loops that it may have.
    fn follow(&self, source: u32, tail: &mut [u32]) -> Cables {
        let mut path = Cables::new();
        let mut switches = vec![source];
        let mut at = source;
        while at != self.target {
            let arc = self.graph.arcs(at).iter().find(|a| tail[cable(a) as usize] == at).expect("what flows in flows out");
            tail[cable(arc) as usize] = FAR;
            at = arc.to;
            path.push(cable(arc));
            if let Some(before) = switches.iter().position(|&s| s == at) {
                path.truncate(before);
                switches.truncate(before);
            }
            switches.push(at);
        }
        path
    }

    fn other_end(&self, at: u32, wanted: u32) -> u32 {
        self.graph.arcs(at).iter().find(|a| cable(a) == wanted).expect("a cable of this switch").to
    }

    /// Of the paths of the shortest length, the one that shares the fewest cables with the pair's others: switch by switch, those nearest
    /// to the source first.
    fn least_shared(&mut self, source: u32) -> Cables {
        self.next_stamp();
        self.seen[source as usize] = Seen { stamp: self.stamp, cost: 0, from: source, cable: FAR };
        let mut queue = vec![source];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            let Seen { cost, .. } = self.seen[at as usize];
            for arc in self.graph.arcs(at) {
                if self.distance[arc.to as usize].wrapping_add(1) != self.distance[at as usize] {
                    continue;
                }
                let cost = cost + self.used[cable(arc) as usize];
                let known = self.seen[arc.to as usize];
                if known.stamp != self.stamp {
                    queue.push(arc.to);
                }
                if known.stamp != self.stamp || cost < known.cost {
                    self.seen[arc.to as usize] = Seen { stamp: self.stamp, cost, from: at, cable: cable(arc) };
                }
            }
        }
        self.trace(source)
    }
}

/// The cable of an arc.
pub(super) fn cable(arc: &Arc) -> u32 {
    arc.link.cable().0
}
