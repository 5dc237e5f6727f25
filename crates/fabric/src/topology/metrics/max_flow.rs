//! Maximum flow by Dinic's algorithm: blocking flows over layered networks, each found by depth-first search that never tries
//! an arc twice. O(nodes^2 arcs) in general, a handful of rounds on a folded Clos.

/// A flow network with arcs in pairs: arc `a` and its reverse `a ^ 1`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowNetwork {
    arcs: Vec<FlowArc>,
    /// By node.
    out: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct FlowArc {
    to: u32,
    /// What it can still carry.
    residual: u64,
    /// What it can carry at first.
    capacity: u64,
}

impl FlowNetwork {
    /// Nodes without arcs.
    pub fn new(nodes: usize) -> Self {
        Self { arcs: Vec::new(), out: vec![Vec::new(); nodes] }
    }

    /// Adds an arc that carries `forward` from `a` to `b` and `backward` from `b` to `a`; returns its number.
    pub fn arc(&mut self, a: usize, b: usize, forward: u64, backward: u64) -> usize {
        let id = self.arcs.len();
        self.arcs.push(FlowArc { to: b as u32, residual: forward, capacity: forward });
        self.arcs.push(FlowArc { to: a as u32, residual: backward, capacity: backward });
        self.out[a].push(id as u32);
        self.out[b].push(id as u32 + 1);
        id
    }

    /// Gives an arc another forward capacity; its reverse carries nothing.
    pub fn set_one_way(&mut self, arc: usize, capacity: u64) {
        self.arcs[arc].capacity = capacity;
        self.arcs[arc ^ 1].capacity = 0;
    }

    /// Takes all flow back.
    pub fn reset(&mut self) {
        for arc in &mut self.arcs {
            arc.residual = arc.capacity;
        }
    }

    /// Adds as much flow from `source` to `sink` as there is room for, and returns how much.
    pub fn maximise(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0;
        let mut level = vec![u32::MAX; self.out.len()];
        let mut next = vec![0; self.out.len()];
        while self.layer(source, sink, &mut level) {
            next.fill(0);
            total += self.block(source, sink, &level, &mut next);
        }
        total
    }

    /// Distances from the source over arcs with room; false if the sink is out of reach.
    fn layer(&self, source: usize, sink: usize, level: &mut [u32]) -> bool {
        level.fill(u32::MAX);
        level[source] = 0;
        let mut queue = vec![source as u32];
        let mut head = 0;
        while let Some(&node) = queue.get(head) {
            head += 1;
            for &a in &self.out[node as usize] {
                let arc = self.arcs[a as usize];
                if arc.residual > 0 && level[arc.to as usize] == u32::MAX {
                    level[arc.to as usize] = level[node as usize] + 1;
                    if arc.to as usize == sink {
                        return true;
                    }
                    queue.push(arc.to);
                }
            }
        }
        false
    }

    /// Saturates an arc on every path of the layered network. An explicit stack: paths may be long in odd graphs.
    fn block(&mut self, source: usize, sink: usize, level: &[u32], next: &mut [usize]) -> u64 {
        let mut total = 0;
        let mut path: Vec<u32> = Vec::new();
        let mut node = source;
        loop {
            if node == sink {
                let room = path.iter().map(|&a| self.arcs[a as usize].residual).min().expect("source and sink differ");
                total += room;
                let mut cut = 0;
                for (i, &a) in path.iter().enumerate().rev() {
                    self.arcs[a as usize].residual -= room;
                    self.arcs[a as usize ^ 1].residual += room;
                    if self.arcs[a as usize].residual == 0 {
                        cut = i;
                    }
                }
                node = self.arcs[path[cut] as usize ^ 1].to as usize;
                path.truncate(cut);
            } else if let Some(&a) = self.out[node].get(next[node]) {
                let arc = self.arcs[a as usize];
                if arc.residual > 0 && level[arc.to as usize] == level[node] + 1 {
                    path.push(a);
                    node = arc.to as usize;
                } else {
                    next[node] += 1;
                }
            } else if let Some(back) = path.pop() {
                node = self.arcs[back as usize ^ 1].to as usize;
                next[node] += 1;
            } else {
                return total;
            }
        }
    }
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
            prop_assert_eq!(net.maximise(0, nodes - 1), smallest_cut(nodes, &arcs));
        }
    }
}
