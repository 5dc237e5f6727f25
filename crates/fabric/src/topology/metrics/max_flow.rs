//! Maximum flow by Dinic's algorithm: blocking flows over layered networks, each found by depth-first search that never tries
//! an arc twice. O(nodes^2 arcs) in general, a handful of rounds on a folded Clos.

/// A flow network with arcs in pairs: arc `a` and its reverse `a ^ 1`. Its memory serves many flows.
#[derive(Clone, Debug, Default)]
pub struct FlowNetwork {
    /// By arc: its ends and what it can carry.
    added: Vec<([u32; 2], u64)>,
    /// The same arcs, sorted by the node that they leave; empty after one is added.
    arcs: Vec<FlowArc>,
    /// In that order: what each can carry at first.
    capacity: Vec<u64>,
    /// By arc: its place in that order.
    place: Vec<u32>,
    /// By node: where its arcs begin.
    start: Vec<u32>,
    /// By node: its distance from the source, and the next arc to try.
    level: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
struct FlowArc {
    to: u32,
    /// The place of its reverse.
    mate: u32,
    /// What it can still carry.
    residual: u64,
}

impl FlowNetwork {
    /// Nodes without arcs.
    pub fn new(nodes: usize) -> Self {
        let (level, next) = (vec![0; nodes], vec![0; nodes]);
        Self { start: vec![0; nodes + 1], level, next, ..Self::default() }
    }

    /// Adds an arc that carries `forward` from `a` to `b` and `backward` from `b` to `a`; returns its number. Takes all flow back.
    pub fn arc(&mut self, a: usize, b: usize, forward: u64, backward: u64) -> usize {
        let id = self.added.len();
        self.added.push(([a as u32, b as u32], forward));
        self.added.push(([b as u32, a as u32], backward));
        self.arcs.clear();
        id
    }

    /// Gives an arc another forward capacity, which [`Self::reset`] applies; its reverse carries nothing.
    pub fn set_one_way(&mut self, arc: usize, capacity: u64) {
        self.sort();
        for (arc, capacity) in [(arc, capacity), (arc ^ 1, 0)] {
            self.added[arc].1 = capacity;
            self.capacity[self.place[arc] as usize] = capacity;
        }
    }

    /// Takes all flow back.
    pub fn reset(&mut self) {
        self.sort();
        self.arcs.iter_mut().zip(&self.capacity).for_each(|(arc, &capacity)| arc.residual = capacity);
    }

    /// Adds as much flow from `source` to `sink`, which differ, as there is room for, and returns how much.
    pub fn maximise(&mut self, source: usize, sink: usize) -> u64 {
        self.maximise_up_to(source, sink, u64::MAX)
    }

    /// The same, but stops once the added flow is at least `enough`.
    pub fn maximise_up_to(&mut self, source: usize, sink: usize, enough: u64) -> u64 {
        self.sort();
        // No more leaves the source or enters the sink: this saves the search that would find nothing.
        let leaves = self.out(source).iter().fold(0, |sum: u64, arc| sum.saturating_add(arc.residual));
        let enters = self.out(sink).iter().fold(0, |sum: u64, arc| sum.saturating_add(self.arcs[arc.mate as usize].residual));
        let enough = enough.min(leaves).min(enters);
        let mut total = 0;
        while total < enough && self.layer(source, sink) {
            let nodes = self.next.len();
            self.next.copy_from_slice(&self.start[..nodes]);
            total += self.block(source, sink);
        }
        total
    }

    /// By node: whether more flow from `source` could reach it. After [`Self::maximise`] the arcs out of this set are a smallest cut.
    pub fn reachable(&mut self, source: usize) -> Vec<bool> {
        self.sort();
        // No node is the sink: the search ends when there is nothing more to reach.
        self.layer(source, usize::MAX);
        self.level.iter().map(|&level| level != u32::MAX).collect()
    }

    /// Sorts the arcs by the node that they leave, if some were added.
    fn sort(&mut self) {
        if self.arcs.len() == self.added.len() {
            return;
        }
        let mut order: Vec<u32> = (0..self.added.len() as u32).collect();
        order.sort_by_key(|&arc| self.added[arc as usize].0[0]);
        self.place.resize(order.len(), 0);
        order.iter().zip(0..).for_each(|(&arc, place)| self.place[arc as usize] = place);
        let sorted = |&arc: &u32| {
            let ([_, to], capacity) = self.added[arc as usize];
            FlowArc { to, mate: self.place[arc as usize ^ 1], residual: capacity }
        };
        self.arcs = order.iter().map(sorted).collect();
        self.capacity = self.arcs.iter().map(|arc| arc.residual).collect();
        let leaves = |node: u32| order.partition_point(|&arc| self.added[arc as usize].0[0] < node) as u32;
        self.start = (0..self.start.len() as u32).map(leaves).collect();
    }

    fn out(&self, node: usize) -> &[FlowArc] {
        &self.arcs[self.start[node] as usize..self.start[node + 1] as usize]
    }

    /// Distances from the source over arcs with room; false if the sink is out of reach.
    fn layer(&mut self, source: usize, sink: usize) -> bool {
        let Self { arcs, start, level, queue, .. } = self;
        level.fill(u32::MAX);
        level[source] = 0;
        queue.clear();
        queue.push(source as u32);
        let mut head = 0;
        while let Some(&node) = queue.get(head) {
            head += 1;
            let further = level[node as usize] + 1;
            for arc in &arcs[start[node as usize] as usize..start[node as usize + 1] as usize] {
                if arc.residual > 0 && level[arc.to as usize] == u32::MAX {
                    level[arc.to as usize] = further;
                    if arc.to as usize == sink {
                        return true;
                    }
                    queue.push(arc.to);
                }
            }
        }
        false
    }

    /// Saturates an arc on every path of the layered network. An explicit stack: paths may be long in odd graphs. What is sent over an arc is
    /// accounted for when the search leaves it, so paths that share arcs share the work.
    fn block(&mut self, source: usize, sink: usize) -> u64 {
        let Self { arcs, start, level, next, path, .. } = self;
        path.clear();
        path.push(Step { arc: u32::MAX, room: u64::MAX, sent: 0 });
        let mut node = source;
        loop {
            let step = path.last_mut().expect("the source's");
            if node == sink {
                step.sent = step.room;
            }
            let room = step.room - step.sent;
            let leads_on = |a: &u32| arcs[*a as usize].residual > 0 && level[arcs[*a as usize].to as usize] == level[node] + 1;
            if room > 0 {
                next[node] = (next[node]..start[node + 1]).find(leads_on).unwrap_or(start[node + 1]);
            }
            if room > 0 && next[node] < start[node + 1] {
                let arc = next[node];
                path.push(Step { arc, room: room.min(arcs[arc as usize].residual), sent: 0 });
                node = arcs[arc as usize].to as usize;
                continue;
            }
            let done = path.pop().expect("the source's");
            let Some(before) = path.last_mut() else { return done.sent };
            before.sent += done.sent;
            let mate = arcs[done.arc as usize].mate as usize;
            arcs[done.arc as usize].residual -= done.sent;
            arcs[mate].residual += done.sent;
            node = arcs[mate].to as usize;
            // It would send no more, or is full.
            next[node] += u32::from(done.sent < done.room);
        }
    }
}

/// An arc of the path that is searched.
#[derive(Clone, Copy, Debug)]
struct Step {
    arc: u32,
    /// What can be sent over it, and what was.
    room: u64,
    sent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_paths_and_a_bridge() {
        let mut net = FlowNetwork::new(4);
        for (a, b, c) in [(0, 1, 10), (0, 2, 5), (1, 2, 15), (1, 3, 5), (2, 3, 10)] {
            net.arc(a, b, c, 0);
        }
        assert_eq!(net.maximise(0, 3), 15);
        assert_eq!(net.maximise(0, 3), 0);
        net.reset();
        assert_eq!(net.maximise(0, 3), 15);
        assert_eq!(net.maximise(3, 0), 15, "what flowed there flows back");
    }

    /// The reference: the smallest cut over all sets of nodes with the source and without the sink.
    fn smallest_cut(nodes: usize, arcs: &[(usize, usize, u64, u64)]) -> u64 {
        (0u32..1 << nodes)
            .filter(|set| set & 1 == 1 && set >> (nodes - 1) == 0)
            .map(|set| {
                let inside = |n: usize| set >> n & 1 == 1;
                arcs.iter()
                    .map(|&(a, b, f, r)| match (inside(a), inside(b)) {
                        (true, false) => f,
                        (false, true) => r,
                        _ => 0,
                    })
                    .sum::<u64>()
            })
            .min()
            .expect("the set of the source alone")
    }

    proptest! {
        #[test]
        fn equals_the_smallest_cut(
            nodes in 2usize..8, arcs in prop::collection::vec((0usize..8, 0usize..8, 0u64..20, 0u64..20), 0..24),
        ) {
            let arcs: Vec<_> = arcs.into_iter().map(|(a, b, f, r)| (a % nodes, b % nodes, f, r)).filter(|a| a.0 != a.1).collect();
            let mut net = FlowNetwork::new(nodes);
            for &(a, b, f, r) in &arcs {
                net.arc(a, b, f, r);
            }
            let smallest = smallest_cut(nodes, &arcs);
            prop_assert_eq!(net.maximise(0, nodes - 1), smallest);
            // What is reachable is a cut of that capacity.
            let side = net.reachable(0);
            prop_assert!(side[0] && !side[nodes - 1]);
            let crossing = |&(a, b, f, r): &(usize, usize, u64, u64)| match (side[a], side[b]) {
                (true, false) => f,
                (false, true) => r,
                _ => 0,
            };
            prop_assert_eq!(arcs.iter().map(crossing).sum::<u64>(), smallest);
            net.reset();
            let some = net.maximise_up_to(0, nodes - 1, smallest / 2);
            prop_assert!(some >= smallest / 2 && some <= smallest);
        }
    }
}
