//! Each of some hosts to each of some others, a number of flows each, all at once (Subways section 8.2: 12 senders, 4 receivers and
//! 4 flows a pair).

use crate::ids::HostId;
use crate::time::Instant;
use crate::traffic::flow::{FlowSpec, Workload};
use crate::traffic::sizes::Sizes;

/// By sender, then by receiver; a pair's flows follow one another. A host that is on both sides does not send to itself.
pub(super) struct ManyToMany {
    pairs: Vec<(HostId, HostId)>,
    flows_per_pair: u32,
    sizes: Sizes,
    start: Instant,
    /// The next pair and the number of its next flow.
    pair: usize,
    copy: u32,
    /// Flows that the sender of the next pair has begun.
    begun: u64,
}

impl ManyToMany {
    pub(super) fn new(pairs: Vec<(HostId, HostId)>, flows_per_pair: u32, sizes: Sizes, start: Instant) -> Self {
        Self { pairs, flows_per_pair, sizes, start, pair: 0, copy: 0, begun: 0 }
    }
}

impl Workload for ManyToMany {
    fn reacts(&self) -> bool {
        false
    }

    fn next_start(&self) -> Option<Instant> {
        (self.pair < self.pairs.len()).then_some(self.start)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let start = self.next_start()?;
        let (src, dst) = self.pairs[self.pair];
        let flow = FlowSpec { src, dst, start, size: self.sizes.of(src, self.begun) };
        self.begun += 1;
        self.copy += 1;
        if self.copy == self.flows_per_pair {
            (self.pair, self.copy) = (self.pair + 1, 0);
            if self.pairs.get(self.pair).is_some_and(|&(next, _)| next != src) {
                self.begun = 0;
            }
        }
        Some(flow)
    }
}
