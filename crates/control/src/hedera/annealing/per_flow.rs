//! The baseline of section 4.4, its "straightforward approach": Simulated Annealing with a core for each flow.
//!
//! The search space has (cores)^(flows) states instead of (cores)^(hosts); a move gives one random flow a random core. The paper
//! recomputes the energy of each state, in time proportional to the flows. [`Recomputing`](EnergyBy::Recomputing) does so, for
//! comparison; [`Increments`](EnergyBy::Increments) visits the same states in the same order and looks at the moved flow alone.

use rand::RngExt;
use weft_fabric::rng::{Pcg64, Stream, reduce, stream};
use weft_fabric::routing::RootLabel;

use crate::hedera::annealing::Cooling;
use crate::hedera::network::{Candidate, Network, Occasion, Place, Units};

/// How the energy of a neighbour is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBy {
    /// From all flows.
    Recomputing,
    /// From the energy before and the flow that moves.
    Increments,
}

/// The search with a core a flow.
#[derive(Clone, Debug)]
pub struct AnnealingPerFlow {
    cooling: Cooling,
    energy_by: EnergyBy,
    rng: Pcg64,
    /// By link: its load.
    loads: Vec<Units>,
    energy: Units,
}

impl AnnealingPerFlow {
    /// New flows start with random cores.
    pub fn new(cooling: Cooling, energy_by: EnergyBy, seed: u64) -> Self {
        Self { cooling, energy_by, rng: stream(seed, Stream::Scheduler), loads: Vec::new(), energy: 0 }
    }

    /// Energy of the state that the last call of [`Place::place`] left.
    pub fn energy(&self) -> Units {
        self.energy
    }

    fn search(&mut self, network: &Network, flows: &mut [Candidate]) {
        self.loads = network.loads(flows);
        self.energy = network.energy(flows);
        let mut best = self.energy;
        let mut since_best: Vec<(usize, Option<RootLabel>)> = Vec::new();
        let cooling = self.cooling.start(flows.len());
        for t in (1..=cooling.t0).rev() {
            if best == 0 {
                break;
            }
            let i = reduce(self.rng.random(), flows.len());
            let old = flows[i].label;
            let new = RootLabel(reduce(self.rng.random(), network.climbs().labels()) as u32);
            let neighbour = self.relabel(network, flows, i, Some(new));
            if !cooling.accepts(self.energy, neighbour, t, &mut self.rng) {
                self.relabel(network, flows, i, old);
                continue;
            }
            self.energy = neighbour;
            if neighbour < best {
                best = neighbour;
                since_best.clear();
            } else {
                since_best.push((i, old));
            }
        }
        for (i, old) in since_best.into_iter().rev() {
            self.relabel(network, flows, i, old);
        }
        self.energy = best;
    }

    /// Gives a flow a label and returns the energy then.
    fn relabel(&mut self, network: &Network, flows: &mut [Candidate], i: usize, label: Option<RootLabel>) -> Units {
        let old = std::mem::replace(&mut flows[i].label, label);
        if self.energy_by == EnergyBy::Recomputing {
            return network.energy(flows);
        }
        let mut energy = self.energy;
        let Candidate { src, dst, demand, .. } = flows[i];
        for (label, demand) in [(old, -demand), (label, demand)] {
            let Some(label) = label else { continue };
            network.for_each_link(src, dst, label, |link| {
                let (load, capacity) = (&mut self.loads[link.index()], network.capacity()[link.index()]);
                energy -= (*load - capacity).max(0);
                *load += demand;
                energy += (*load - capacity).max(0);
            });
        }
        energy
    }

    /// A random label whose path is up; any if there is none.
    fn draw(&mut self, network: &Network, flow: &Candidate) -> RootLabel {
        let labels = network.climbs().labels();
        let first = reduce(self.rng.random(), labels);
        let label = |step: usize| RootLabel(((first + step) % labels) as u32);
        (0..labels).map(label).find(|&l| network.is_up(flow.src, flow.dst, l)).unwrap_or(label(0))
    }
}

impl Place for AnnealingPerFlow {
    fn place(&mut self, network: &Network, flows: &mut [Candidate], occasion: Occasion) {
        for flow in flows.iter_mut() {
            if !flow.label.is_some_and(|label| network.is_up(flow.src, flow.dst, label)) {
                flow.label = Some(self.draw(network, flow));
            }
        }
        if occasion == Occasion::Round && !flows.is_empty() {
            self.search(network, flows);
        }
        for flow in flows.iter_mut() {
            flow.label = flow.label.filter(|&label| network.is_up(flow.src, flow.dst, label));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hedera::network::NIC;
    use crate::hedera::testing::{fat_tree, random_flows};

    proptest! {
        #[test]
        fn both_ways_to_the_energy_visit_the_same_states(seed: u64, count in 1u32..60) {
            let network = Network::new(fat_tree(4));
            let flows: Vec<Candidate> = random_flows(16, count, seed)
                .iter()
                .filter(|f| network.has_choice(f.src, f.dst))
                .map(|f| Candidate { src: f.src, dst: f.dst, demand: NIC / 4, label: None, reserved: 0 })
                .collect();
            let cooling = Cooling { iterations: Some(200), c: 0.5 };
            let [a, b] = [EnergyBy::Recomputing, EnergyBy::Increments].map(|by| {
                let mut flows = flows.clone();
                let mut search = AnnealingPerFlow::new(cooling, by, seed);
                search.place(&network, &mut flows, Occasion::Round);
                (search.energy(), network.energy(&flows), flows)
            });
            prop_assert_eq!(a.0, a.1);
            prop_assert_eq!(a, b);
        }
    }
}
