//! The goodput of a placement: the sum of the max-min fair rates of all flows on the paths that they would take.
//!
//! A round compares this estimate with that of the paths that are there. Every flow counts as greedy, as in the flow world: the energy of
//! section 4.4 sees large flows only, and says nothing of how links that are too full are shared.
//!
//! Cost: linear in flows times links on a path, plus a bucket queue of the links.

use weft_fabric::{Fabric, LinkId};

use crate::hedera::shares::{ShareQueue, Shared};

/// Paths, and the scratch memory to fill them.
#[derive(Clone, Debug, Default)]
pub struct Goodput {
    /// By flow: where its links begin in `links`; one entry more than flows.
    offsets: Vec<u32>,
    links: Vec<u32>,
    /// By link: where its flows begin in `members`.
    start: Vec<u32>,
    members: Vec<u32>,
    fixed: Vec<bool>,
    shared: Vec<Shared>,
    queue: ShareQueue,
}

impl Goodput {
    /// Forgets all flows.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        self.links.clear();
    }

    /// Adds a flow on a path; without links it counts as nothing.
    pub fn add(&mut self, path: &[LinkId]) {
        if !path.is_empty() {
            self.links.extend(path.iter().map(|l| l.0));
            self.offsets.push(self.links.len() as u32);
        }
    }

    /// The sum of the max-min fair rates, in bits per second.
    pub fn total(&mut self, fabric: &Fabric) -> f64 {
        self.index(fabric);
        let mut total = 0.0;
        self.queue.fill(&self.shared);
        while let Some((key, link)) = self.queue.pop() {
            let shared = self.shared[link as usize];
            if shared.flows == 0 {
                continue;
            }
            let rate = shared.share();
            if rate > key {
                self.queue.push(rate, link);
                continue;
            }
            for &flow in &self.members[self.start[link as usize] as usize..self.start[link as usize + 1] as usize] {
                if std::mem::replace(&mut self.fixed[flow as usize], true) {
                    continue;
                }
                total += rate;
                let path = self.offsets[flow as usize] as usize..self.offsets[flow as usize + 1] as usize;
                for &crossed in &self.links[path] {
                    self.shared[crossed as usize].fix(rate);
                }
            }
        }
        total
    }

    /// Lists the flows of each link, by counting sort.
    fn index(&mut self, fabric: &Fabric) {
        self.start.clear();
        self.start.resize(fabric.links().len() + 1, 0);
        self.links.iter().for_each(|&l| self.start[l as usize] += 1);
        self.shared.clear();
        let counted = fabric.links().iter().zip(&self.start);
        self.shared.extend(counted.map(|(l, &flows)| Shared { left: if flows > 0 { l.capacity.as_f64() } else { 0.0 }, flows }));
        let mut sum = 0;
        for slot in &mut self.start {
            sum += *slot;
            *slot = sum;
        }
        self.members.clear();
        self.members.resize(self.links.len(), 0);
        self.fixed.clear();
        self.fixed.resize(self.offsets.len() - 1, false);
        for (flow, bounds) in self.offsets.windows(2).enumerate() {
            for &link in &self.links[bounds[0] as usize..bounds[1] as usize] {
                self.start[link as usize] -= 1;
                self.members[self.start[link as usize] as usize] = flow as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weft_fabric::routing::{Path, Router, Routing};

    use super::*;
    use crate::hedera::testing::{clos, fat_tree, leaf_spine, random_flows};

    fn total(fabric: &Fabric, paths: &[Path]) -> f64 {
        let mut goodput = Goodput::default();
        goodput.clear();
        paths.iter().for_each(|p| goodput.add(p));
        goodput.total(fabric)
    }

    /// Filling link by link, each time from all flows.
    fn slow(fabric: &Fabric, paths: &[Path]) -> f64 {
        let mut rates: Vec<Option<f64>> = vec![None; paths.len()];
        loop {
            let share = |l: &LinkId| {
                let crossing = || (0..paths.len()).filter(|&f| paths[f].contains(l));
                let taken: f64 = crossing().filter_map(|f| rates[f]).sum();
                let open = crossing().filter(|&f| rates[f].is_none()).count();
                (open > 0).then(|| ((fabric.link(*l).capacity.as_f64() - taken) / open as f64, *l))
            };
            let all = (0..fabric.links().len()).map(LinkId::from);
            let first = all.filter_map(|l| share(&l)).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((rate, link)) = first else { break };
            for f in 0..paths.len() {
                if rates[f].is_none() && paths[f].contains(&link) {
                    rates[f] = Some(rate);
                }
            }
        }
        rates.into_iter().flatten().sum()
    }

    #[test]
    fn two_flows_share_a_link_and_leave_the_rest_to_a_third() {
        let fabric = leaf_spine(2, 1, 2);
        let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
        let flows = [(0, 2), (1, 3), (2, 3)];
        let flows = flows.map(|(s, d)| weft_fabric::routing::FlowKey::of_flow(s, weft_fabric::HostId(s), weft_fabric::HostId(d)));
        let paths = flows.map(|f| router.route(&f).unwrap());
        assert_eq!(total(&fabric, &paths), 1.5e9);
        assert_eq!(total(&fabric, &[]), 0.0);
        assert_eq!(total(&fabric, &[Path::new()]), 0.0);
    }

    proptest! {
        #[test]
        fn agrees_with_filling_from_scratch(shape in 0..3usize, count in 1u32..40, seed: u64) {
            let fabric = [fat_tree(4), leaf_spine(4, 3, 4), clos(4, 6, 3)][shape].clone();
            let mut router = Router::new(Arc::clone(&fabric), Routing::default(), seed);
            let flows = random_flows(fabric.host_count() as u32, count, seed);
            let paths: Vec<Path> = flows.iter().map(|f| router.route(f).unwrap()).collect();
            let (fast, slow) = (total(&fabric, &paths), slow(&fabric, &paths));
            prop_assert!((fast / slow - 1.0).abs() < 1e-9, "{fast} instead of {slow}");
        }
    }
}
