//! Simulated Annealing (Hedera section 4.4, figure 6): a core for each destination host, found by a random search that accepts
//! worse states the less the longer it runs.
//!
//! | part | what it is here |
//! | --- | --- |
//! | state | [`seats`]: a core (label) for each host, spread evenly within its pod; at first by position or as another scheduler left it, then the last round's best, or First Fit's (below) |
//! | energy | [`energy`]: exceeded capacity over all links between switches, in fractions of the fastest NIC |
//! | neighbour | two hosts of a pod, of an edge switch, or below one switch swap cores, each with probability 1/3 |
//! | temperature | T = T0, T0 - 1, ..., 1 with T0 the number of iterations |
//! | acceptance | 1 if the energy falls, else exp(c (E - E_n) / T) with c = 0.5 T0 up to 16 hosts and 1000 T0 above |
//!
//! Links that are down have capacity 0, so that all demand on them is exceeded. A flow whose own rack has lost its way to the
//! destination's core makes a *detour*: it gets a core of its own, the one where it exceeds least, until the destination's is in
//! reach again, by repair or because a round has moved the destination.
//! DEVIATION: the paper has no failures and no label but the destination's.
//!
//! Cost of an iteration: proportional to the flows to the two hosts, whatever the size of the fabric. The paper copies every best
//! state; we keep the swaps since the best one and take them back at the end.
//! The search ends early at energy 0: no state is better, so the best state is the one that the remaining iterations would return.
//!
//! Without a number of iterations a round starts from First Fit's placement, if that has less energy than the last round's best state: a host
//! gets the core of most of the demand to it. The scheduler compares what is found with First Fit's placement itself, a core a flow, and
//! takes the better: several flows to a host may need several cores.
//! DEVIATION: the paper starts from the last round's best state. With a number of iterations so do we.

pub mod energy;
pub mod per_flow;
pub mod seats;

use rand::RngExt;
use weft_fabric::rng::{Pcg64, Stream, stream};
use weft_fabric::routing::RootLabel;
use weft_fabric::{HostId, LinkId};

use crate::hedera::first_fit::FirstFit;
use crate::hedera::network::{Candidate, Network, Occasion, Place, Units, from_units};
use energy::Energy;
use seats::Seats;

pub use per_flow::AnnealingPerFlow;

/// The search with a core a destination, and what it remembers from round to round.
#[derive(Clone, Debug)]
pub struct Annealing {
    cooling: Cooling,
    rng: Pcg64,
    seats: Seats,
    energy: Energy,
    /// Something failed or came back since the seats were laid out.
    stale: bool,
    /// Flows have labels that another scheduler gave them.
    took_over: bool,
    /// The last round was rejected: the seats are ahead of the flows.
    rejected: bool,
    destinations: Vec<Option<RootLabel>>,
    /// First Fit's placement of the last round's flows; empty with a number of iterations.
    first_fit: Vec<Candidate>,
}

impl Annealing {
    /// Starts from an even spread.
    pub fn new(network: &Network, cooling: Cooling, seed: u64) -> Self {
        Self {
            cooling,
            rng: stream(seed, Stream::Scheduler),
            seats: Seats::new(network),
            energy: Energy::default(),
            stale: network.degraded(),
            took_over: false,
            rejected: false,
            destinations: Vec::new(),
            first_fit: Vec::new(),
        }
    }

    /// Energy of the state that the last call of [`Place::place`] left.
    pub fn energy(&self) -> Units {
        self.energy.excess()
    }

    /// Places the flows by First Fit, with all links free, and starts from there if that has less energy. A flow that fits nowhere keeps the
    /// label that it has.
    fn start_from_first_fit(&mut self, network: &Network, flows: &[Candidate]) {
        self.first_fit.extend(flows.iter().map(|&flow| Candidate { label: None, ..flow }));
        FirstFit::new(network).place(network, &mut self.first_fit, Occasion::Round);
        let labels = main_labels(&self.first_fit, network.fabric().host_count());
        let (seats, excess) = (self.seats.clone(), self.energy.excess());
        self.seats.reseat(network, |host| labels[host.index()]);
        self.energy.load(network, flows, |host| self.seats.label_of(host));
        if self.energy.excess() >= excess {
            self.seats = seats;
            self.energy.load(network, flows, |host| self.seats.label_of(host));
        }
        for (placed, flow) in self.first_fit.iter_mut().zip(flows) {
            placed.reserved = flow.reserved;
            placed.label = placed.label.or(flow.label.filter(|&label| network.is_up(flow.src, flow.dst, label)));
        }
    }

    /// Figure 6: leaves the best state in the seats.
    fn search(&mut self, network: &Network, cooling: &Temperature) {
        let mut best = self.energy.excess();
        let mut since_best: Vec<(u32, u32)> = Vec::new();
        for t in (1..=cooling.t0).rev() {
            if best == 0 {
                break;
            }
            let Some(swap) = self.step(network, cooling, t) else { continue };
            if self.energy.excess() < best {
                best = self.energy.excess();
                since_best.clear();
            } else {
                since_best.push(swap);
            }
        }
        for swap in since_best.into_iter().rev() {
            self.swap(network, swap);
        }
        self.energy.mark();
    }

    /// One iteration: the swap, if it was accepted.
    #[inline]
    fn step(&mut self, network: &Network, cooling: &Temperature, t: u32) -> Option<(u32, u32)> {
        let swap = self.seats.neighbour(&mut self.rng)?;
        let before = self.energy.excess();
        self.energy.mark();
        self.swap(network, swap);
        if cooling.accepts(before, self.energy.excess(), t, &mut self.rng) {
            return Some(swap);
        }
        self.energy.undo();
        self.seats.swap(swap);
        None
    }

    /// Gives each flow its destination's core, or a detour. A failure moves no detour that still works; after a round that was rejected
    /// it moves no flow whose path still works.
    fn give_labels(&mut self, network: &Network, flows: &mut [Candidate], occasion: Occasion) {
        let mut cut_off = Vec::new();
        let stay = occasion == Occasion::Failure && self.rejected;
        for (i, flow) in flows.iter_mut().enumerate() {
            let label = self.seats.label_of(flow.dst);
            if stay && flow.label.is_none_or(|l| network.is_up(flow.src, flow.dst, l)) {
                self.energy.take_off(network, flow, label);
                if let Some(own) = flow.label {
                    self.energy.put_on(network, flow, own);
                }
                continue;
            }
            if network.is_up(flow.src, flow.dst, label) {
                flow.label = Some(label);
                continue;
            }
            self.energy.take_off(network, flow, label);
            match flow.label.filter(|&l| occasion == Occasion::Failure && network.is_up(flow.src, flow.dst, l)) {
                Some(detour) => self.energy.put_on(network, flow, detour),
                None => cut_off.push(i),
            }
        }
        for i in cut_off {
            let flow = &mut flows[i];
            flow.label = self.energy.best_label(network, flow);
            if let Some(detour) = flow.label {
                self.energy.put_on(network, flow, detour);
            }
        }
        self.energy.mark();
    }

    #[inline]
    fn swap(&mut self, network: &Network, (a, b): (u32, u32)) {
        let (core_a, core_b) = (self.seats.label(a), self.seats.label(b));
        if let Some(host) = self.seats.occupant(a) {
            self.energy.relabel(network, host, core_a, core_b);
        }
        if let Some(host) = self.seats.occupant(b) {
            self.energy.relabel(network, host, core_b, core_a);
        }
        self.seats.swap((a, b));
    }
}

impl Place for Annealing {
    fn place(&mut self, network: &Network, flows: &mut [Candidate], occasion: Occasion) {
        if std::mem::take(&mut self.stale) {
            self.seats.rebuild(network);
        }
        if std::mem::take(&mut self.took_over) {
            self.seats.reseat_by_labels(network, flows);
        }
        self.energy.load(network, flows, |host| self.seats.label_of(host));
        self.first_fit.clear();
        if occasion == Occasion::Round {
            self.rejected = false;
            if self.cooling.iterations.is_none() {
                self.start_from_first_fit(network, flows);
            }
            self.search(network, &self.cooling.start(flows.len()));
        }
        self.give_labels(network, flows, occasion);
        let label = |host: HostId| self.energy.has_arrivals(host).then(|| self.seats.label_of(host));
        self.destinations.clear();
        self.destinations.extend(network.fabric().hosts().map(label));
    }

    fn take_over(&mut self, _: &Network, _: &mut Candidate) {
        self.took_over = true;
    }

    fn rejected(&mut self, _: &Network, _: &[Candidate], _: &[Candidate]) {
        // The next round searches on from here.
        self.rejected = true;
    }

    fn alternative(&self) -> Option<&[Candidate]> {
        (!self.first_fit.is_empty()).then_some(&self.first_fit)
    }

    fn links_changed(&mut self, _: &Network, _: &[LinkId]) {
        self.stale = true;
    }

    fn labels_of_destinations(&self) -> Option<&[Option<RootLabel>]> {
        Some(&self.destinations)
    }
}

/// By host: the label of most of the demand to it, as far as it is placed.
fn main_labels(flows: &[Candidate], hosts: usize) -> Vec<Option<RootLabel>> {
    let mut placed: Vec<(HostId, RootLabel, Units)> = flows.iter().filter_map(|f| Some((f.dst, f.label?, f.demand))).collect();
    placed.sort_unstable();
    let mut most = vec![(0, None); hosts];
    for alike in placed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let demand = alike.iter().map(|(.., demand)| demand).sum();
        let (host, label, _) = alike[0];
        if demand > most[host.index()].0 {
            most[host.index()] = (demand, Some(label));
        }
    }
    most.into_iter().map(|(_, label)| label).collect()
}

/// How the search cools.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cooling {
    /// T0: the temperature falls from it to 1. `None`: as many as [`Cooling::iterations_for`] gives the flows of the round, which then
    /// starts from First Fit's placement if that is better.
    pub iterations: Option<u32>,
    /// The paper's c as a multiple of T0.
    pub c: f64,
}

impl Cooling {
    /// The paper's c for a fabric of so many hosts.
    pub const fn c_for(hosts: usize) -> f64 {
        if hosts <= 16 { 0.5 } else { 1000.0 }
    }

    /// The iterations of a round with so many flows: 100 a flow, at least the paper's 1,000, and at most as many as keep a round below
    /// a second.
    pub fn iterations_for(flows: usize) -> u32 {
        let wanted = flows.saturating_mul(ITERATIONS_PER_FLOW);
        wanted.clamp(LEAST_ITERATIONS, MOST_ITERATIONS) as u32
    }

    pub(super) fn start(&self, flows: usize) -> Temperature {
        Temperature { t0: self.iterations.unwrap_or_else(|| Self::iterations_for(flows)), c: self.c }
    }
}

/// At 1,024 hosts 100,000 iterations come within 4 % of the non-blocking switch, ten times as many gain 2 % more.
const ITERATIONS_PER_FLOW: usize = 100;
const LEAST_ITERATIONS: usize = 1_000;
const MOST_ITERATIONS: usize = 1_000_000;

/// The cooling of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Temperature {
    pub t0: u32,
    pub c: f64,
}

impl Temperature {
    /// Whether the search goes on from the neighbour: the paper's P(E_n, E, T) > RAND().
    #[inline]
    pub fn accepts(&self, energy: Units, neighbour: Units, t: u32, rng: &mut Pcg64) -> bool {
        if neighbour <= energy {
            // At equal energies P = exp(0), and a random number lies below 1.
            return true;
        }
        let c = self.c * f64::from(self.t0);
        libm::exp(c * from_units(energy - neighbour) / f64::from(t)) > rng.random::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_fabric::topology::Part;

    use super::*;
    use crate::hedera::network::{NIC, to_units};
    use crate::hedera::testing::{bijection, clos, fat_tree, leaf_spine, random_flows};

    fn candidates(network: &Network, flows: &[weft_fabric::routing::FlowKey]) -> Vec<Candidate> {
        flows
            .iter()
            .filter(|f| network.has_choice(f.src, f.dst))
            .map(|f| Candidate { src: f.src, dst: f.dst, demand: NIC / 3, label: None, reserved: 0 })
            .collect()
    }

    fn with_labels(annealing: &Annealing, flows: &[Candidate]) -> Vec<Candidate> {
        flows.iter().map(|&f| Candidate { label: Some(annealing.seats.label_of(f.dst)), ..f }).collect()
    }

    const HOT: Cooling = Cooling { iterations: Some(300), c: 0.01 };

    proptest! {
        #[test]
        fn energy_is_that_of_a_full_recomputation_at_every_step(shape in 0..4usize, count in 1u32..60, seed: u64, broken: bool) {
            let mut network = Network::new([fat_tree(4), fat_tree(6), leaf_spine(4, 3, 4), clos(4, 6, 3)][shape].clone());
            if broken {
                network.fail(Part::Cable(weft_fabric::CableId(network.fabric().links().len() as u32 / 2 - 1)));
            }
            let mut flows = random_flows(network.fabric().host_count() as u32, count, seed);
            flows.retain(|f| network.has_choice(f.src, f.dst));
            let mut rng = crate::hedera::testing::rng(seed);
            let mut flows = candidates(&network, &flows);
            flows.iter_mut().for_each(|f| f.demand = to_units(rng.random::<f64>()));
            let mut annealing = Annealing::new(&network, HOT, seed);
            annealing.energy.load(&network, &flows, |host| annealing.seats.label_of(host));
            for t in (1..=60).rev() {
                prop_assert_eq!(annealing.energy.excess(), network.energy(&with_labels(&annealing, &flows)));
                annealing.step(&network, &HOT.start(0), t);
            }
        }

        #[test]
        fn the_best_state_is_kept(seed: u64) {
            let network = Network::new(fat_tree(4));
            let mut flows = candidates(&network, &random_flows(16, 60, seed));
            let mut annealing = Annealing::new(&network, HOT, seed);
            annealing.energy.load(&network, &flows, |host| annealing.seats.label_of(host));
            let first = annealing.energy.excess();
            annealing.place(&network, &mut flows, Occasion::Round);
            prop_assert!(annealing.energy() <= first);
            prop_assert_eq!(annealing.energy(), network.energy(&flows));
            // The next round starts from it: it never gets worse.
            let second = annealing.energy();
            annealing.place(&network, &mut flows, Occasion::Round);
            prop_assert!(annealing.energy() <= second);
        }
    }

    #[test]
    fn acceptance_is_the_papers() {
        let cooling = Cooling { iterations: Some(100), c: 0.5 }.start(0);
        let mut rng = crate::hedera::testing::rng(1);
        assert!(cooling.accepts(NIC, NIC - 1, 1, &mut rng));
        assert!(cooling.accepts(NIC, NIC, 1, &mut rng));
        // Worse by a tenth of a NIC at half time: exp(50 x -0.1 / 50) = 0.905.
        let draws = 20_000;
        let accepted = (0..draws).filter(|_| cooling.accepts(0, NIC / 10, 50, &mut rng)).count();
        assert!((accepted as f64 / f64::from(draws) - 0.905).abs() < 0.01, "{accepted}");
    }

    #[test]
    fn a_bijection_of_sixteen_hosts_is_soon_free_of_conflicts() {
        let network = Network::new(fat_tree(4));
        let mut solved = 0;
        for seed in 0..20 {
            let mut flows = candidates(&network, &bijection(16, seed));
            flows.iter_mut().for_each(|f| f.demand = NIC);
            let mut annealing = Annealing::new(&network, Cooling { iterations: Some(1000), c: 0.5 }, seed);
            annealing.place(&network, &mut flows, Occasion::Round);
            solved += u32::from(annealing.energy() == 0);
        }
        assert!(solved >= 15, "{solved} of 20");
    }

    #[test]
    fn nothing_moves_when_nothing_can_be_better() {
        let network = Network::new(fat_tree(4));
        let mut flows = candidates(&network, &random_flows(16, 4, 3));
        let mut annealing = Annealing::new(&network, Cooling { iterations: Some(1000), c: 0.5 }, 1);
        annealing.place(&network, &mut flows, Occasion::Round);
        let before = flows.clone();
        annealing.place(&network, &mut flows, Occasion::Round);
        assert_eq!(flows, before);
    }

    proptest! {
        #[test]
        fn flows_that_are_cut_off_from_their_destinations_core_make_detours(
            shape in 0..4usize, count in 1u32..60, seed: u64, failures in 1usize..4,
        ) {
            let mut network = Network::new([fat_tree(4), fat_tree(6), leaf_spine(4, 3, 4), clos(4, 6, 3)][shape].clone());
            let mut flows = candidates(&network, &random_flows(network.fabric().host_count() as u32, count, seed));
            let mut annealing = Annealing::new(&network, HOT, seed);
            annealing.place(&network, &mut flows, Occasion::Round);
            let mut rng = crate::hedera::testing::rng(seed);
            for _ in 0..failures {
                let cable = weft_fabric::rng::reduce(rng.random(), network.fabric().cables().len());
                let links = network.fail(Part::Cable(weft_fabric::CableId(cable as u32)));
                annealing.links_changed(&network, &links);
                for occasion in [Occasion::Failure, Occasion::Round] {
                    annealing.place(&network, &mut flows, occasion);
                    for f in &flows {
                        let up = |l: usize| network.is_up(f.src, f.dst, RootLabel(l as u32));
                        prop_assert_eq!(f.label.is_some(), (0..network.climbs().labels()).any(up));
                        prop_assert!(f.label.is_none_or(|l| network.is_up(f.src, f.dst, l)));
                    }
                    prop_assert_eq!(annealing.energy(), network.energy(&flows));
                }
            }
        }
    }

    #[test]
    fn a_detour_ends_when_the_destinations_core_is_back() {
        let mut network = Network::new(fat_tree(4));
        let mut flows = candidates(&network, &bijection(16, 5));
        let mut annealing = Annealing::new(&network, Cooling { iterations: Some(1000), c: 0.5 }, 1);
        annealing.place(&network, &mut flows, Occasion::Round);
        let before = flows.clone();
        let part = Part::parse(network.fabric(), "link edge0-agg0").unwrap();
        let links = network.fail(part);
        annealing.links_changed(&network, &links);
        annealing.place(&network, &mut flows, Occasion::Failure);
        let detours = flows.clone();
        assert_ne!(detours, before);
        annealing.place(&network, &mut flows, Occasion::Failure);
        assert_eq!(flows, detours, "they stay where they are");
        let links = network.restore(part);
        annealing.links_changed(&network, &links);
        annealing.place(&network, &mut flows, Occasion::Round);
        assert!(flows.iter().all(|f| f.label == Some(annealing.seats.label_of(f.dst))));
    }

    #[test]
    fn flows_avoid_what_has_failed() {
        let mut network = Network::new(fat_tree(4));
        let mut flows = candidates(&network, &bijection(16, 5));
        let mut annealing = Annealing::new(&network, Cooling { iterations: Some(1000), c: 0.5 }, 1);
        annealing.place(&network, &mut flows, Occasion::Round);
        let links = network.fail(Part::parse(network.fabric(), "switch core1").unwrap());
        annealing.links_changed(&network, &links);
        annealing.place(&network, &mut flows, Occasion::Failure);
        let across = |f: &&Candidate| network.fabric().pod_of(f.src) != network.fabric().pod_of(f.dst);
        assert!(flows.iter().filter(across).all(|f| f.label.is_some_and(|l| l.0 != 1)), "{flows:?}");
    }
}
