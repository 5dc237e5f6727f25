//! The all-to-all shuffle with all flows at once (VL2 section 5.1), made flow by flow: n (n - 1) of them need no memory.

use crate::ids::HostId;
use crate::time::Instant;
use crate::traffic::flow::{FlowSpec, Workload};
use crate::traffic::sizes::Sizes;

/// Each host to each other one, by source and then by destination.
pub(super) struct AllPairs {
    hosts: Vec<HostId>,
    sizes: Sizes,
    start: Instant,
    source: usize,
    /// Number of the destination among the other hosts.
    nth: usize,
}

impl AllPairs {
    /// At least two hosts.
    pub(super) fn new(hosts: Vec<HostId>, sizes: Sizes, start: Instant) -> Self {
        Self { hosts, sizes, start, source: 0, nth: 0 }
    }
}

impl Workload for AllPairs {
    fn reacts(&self) -> bool {
        false
    }

    fn next_start(&self) -> Option<Instant> {
        (self.source < self.hosts.len()).then_some(self.start)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let start = self.next_start()?;
        let src = self.hosts[self.source];
        let dst = self.hosts[self.nth + usize::from(self.nth >= self.source)];
        let size = self.sizes.of(src, self.nth as u64);
        self.nth += 1;
        if self.nth == self.hosts.len() - 1 {
            self.nth = 0;
            self.source += 1;
        }
        Some(FlowSpec { src, dst, start, size })
    }
}
