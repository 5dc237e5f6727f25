//! Max-min fair rates of flows that are spread over several paths.
//!
//! A flow has one rate, of which each of its links carries a share: packets that choose among paths at random load them so, and the most
//! loaded link holds back the whole flow, for what it delays or drops is missing from all. Rates are computed from scratch whenever
//! flows have come or gone ([`super::solver`]).

use crate::flow::maxmin::Sharing;
use crate::flow::maxmin::solver::{Incidence, fill};

/// Flows by slot, links by number.
#[derive(Debug)]
pub(crate) struct Shares {
    capacities: Vec<f64>,
    flows: Vec<Flow>,
    changed: bool,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    /// Links with their shares; none if the slot is free.
    links: Box<[(u32, f64)]>,
    rate: f64,
}

/// Flows, and what crosses each link.
struct Parts<'a> {
    flows: &'a [Flow],
    links: Vec<Link>,
}

#[derive(Clone, Debug, Default)]
struct Link {
    members: Vec<u32>,
    weight: f64,
}

impl Shares {
    /// Shares of idle links.
    pub fn new(capacities: impl Iterator<Item = f64>) -> Self {
        Self { capacities: capacities.collect(), flows: Vec::new(), changed: false }
    }
}

impl Sharing for Shares {
    fn set_capacity(&mut self, link: u32, capacity: f64) {
        let link = link as usize;
        self.capacities.resize(self.capacities.len().max(link + 1), capacity);
        self.capacities[link] = capacity;
        self.changed = true;
    }

    fn join(&mut self, slot: u32, links: impl Iterator<Item = (u32, f64)>) {
        let slot = slot as usize;
        self.flows.resize(self.flows.len().max(slot + 1), Flow::default());
        self.flows[slot] = Flow { links: links.collect(), rate: 0.0 };
        self.changed = true;
    }

    fn leave(&mut self, slot: u32) {
        self.flows[slot as usize] = Flow::default();
        self.changed = true;
    }

    fn settle(&mut self) -> Vec<u32> {
        if !std::mem::take(&mut self.changed) {
            return Vec::new();
        }
        self.fill();
        (0..self.flows.len() as u32).filter(|&slot| !self.flows[slot as usize].links.is_empty()).collect()
    }

    fn rate(&self, slot: u32) -> f64 {
        self.flows[slot as usize].rate
    }

    fn recycle(&mut self, _: Vec<u32>) {}
}

impl Shares {
    fn fill(&mut self) {
        let mut links = vec![Link::default(); self.capacities.len()];
        for (slot, flow) in (0..).zip(&self.flows) {
            for &(link, part) in &flow.links {
                let link = &mut links[link as usize];
                link.members.push(slot);
                link.weight += part;
            }
        }
        let rates = fill(&Parts { flows: &self.flows, links }, &self.capacities).rates;
        self.flows.iter_mut().zip(rates).for_each(|(flow, rate)| flow.rate = rate);
    }
}

impl Incidence for Parts<'_> {
    fn flow_count(&self) -> usize {
        self.flows.len()
    }

    fn links(&self, flow: u32) -> impl Iterator<Item = (u32, f64)> {
        self.flows[flow as usize].links.iter().copied()
    }

    fn members(&self, link: u32) -> &[u32] {
        &self.links[link as usize].members
    }

    fn weight(&self, link: u32) -> f64 {
        self.links[link as usize].weight
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::max_min;

    fn rates(capacities: &[f64], flows: &[Vec<(u32, f64)>]) -> Vec<f64> {
        let mut shares = Shares::new(capacities.iter().copied());
        (0..).zip(flows).for_each(|(slot, links)| shares.join(slot, links.iter().copied()));
        shares.settle();
        (0..flows.len() as u32).map(|slot| shares.rate(slot)).collect()
    }

    #[test]
    fn the_most_loaded_link_holds_back_a_flow() {
        // Half of the first flow crosses each of two links; the second flow has one of them for itself otherwise.
        assert_eq!(rates(&[10.0, 10.0], &[vec![(0, 0.5), (1, 0.5)], vec![(1, 1.0)]]), [10.0 / 1.5, 10.0 / 1.5]);
        assert_eq!(rates(&[1.0, 10.0], &[vec![(0, 0.5), (1, 0.5)], vec![(1, 1.0)]]), [2.0, 9.0]);
    }

    prop_compose! {
        fn nets()(links in 1usize..8)(
            capacities in prop::collection::vec(1.0f64..20.0, links),
            flows in prop::collection::vec(prop::collection::btree_map(0..links as u32, 1u32..5, 1..=links), 1..12),
        ) -> (Vec<f64>, Vec<Vec<(u32, f64)>>) {
            (capacities, flows.into_iter().map(|f| f.into_iter().map(|(l, s)| (l, f64::from(s) / 4.0)).collect()).collect())
        }
    }

    proptest! {
        /// No link carries more than it can, and each flow has a full link where none has more: that is max-min, and unique.
        #[test]
        fn every_flow_has_a_bottleneck((capacities, flows) in nets()) {
            let rates = rates(&capacities, &flows);
            let share = |f: usize, link: u32| flows[f].iter().find(|s| s.0 == link).map_or(0.0, |s| s.1);
            let load = |link: u32| (0..flows.len()).map(|f| rates[f] * share(f, link)).sum::<f64>();
            for (link, capacity) in (0..).zip(&capacities) {
                prop_assert!(load(link) <= capacity * (1.0 + 1e-9));
            }
            for (f, links) in flows.iter().enumerate() {
                let is_bottleneck = |link: u32| {
                    let most = (0..flows.len()).filter(|&g| share(g, link) > 0.0).map(|g| rates[g]).fold(0.0, f64::max);
                    load(link) >= capacities[link as usize] * (1.0 - 1e-9) && rates[f] >= most * (1.0 - 1e-9)
                };
                prop_assert!(links.iter().any(|&(link, _)| is_bottleneck(link)));
            }
        }

        #[test]
        fn whole_shares_are_single_paths((capacities, flows) in nets()) {
            let whole: Vec<Vec<(u32, f64)>> = flows.iter().map(|f| f.iter().map(|&(l, _)| (l, 1.0)).collect()).collect();
            let links: Vec<u32> = whole.iter().flatten().map(|s| s.0).collect();
            let ends = whole.iter().scan(0, |end, f| { *end += f.len(); Some(*end) });
            let offsets: Vec<usize> = std::iter::once(0).chain(ends).collect();
            let expected = max_min(&offsets, &links, &capacities).unwrap();
            for (rate, expected) in rates(&capacities, &whole).into_iter().zip(expected) {
                prop_assert!((rate - expected).abs() <= 1e-9 * expected);
            }
        }
    }
}
