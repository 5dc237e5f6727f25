//! The best routing that is the same for all matrices of a series: the largest utilisation of any link under any of them is as small as possible.
//!
//! ```text
//!   matrices that load links most --> multiplicative weights --> fractions by pair, a certified bound
//!            ^                                                        |
//!            `---- those that exceed what was found <---- all matrices
//! ```
//!
//! Every pair of racks splits its traffic over paths in fixed fractions. Each matrix and arc has a weight that grows with what the matrix sends over the
//! arc; a pair takes the path on which its own rates, times the weights, are smallest. By duality the weighted mean of utilisations is a lower bound
//! for every such routing. Few matrices of a series bind, so only those that the fractions would overload take part: a bound for some of them holds for all.

use rayon::prelude::*;

use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::shortest::Shortest;

/// Fractions of the pairs' traffic, by arc.
#[derive(Clone, Debug, Default)]
pub struct Fractions(Vec<Pair>);

#[derive(Clone, Debug)]
struct Pair {
    src: usize,
    dst: usize,
    /// Arcs and fractions.
    arcs: Vec<(u32, f64)>,
}

/// The best routing found.
#[derive(Clone, Debug)]
pub struct Oblivious {
    /// What it does.
    pub fractions: Fractions,
    /// The largest utilisation under any matrix.
    pub utilisation: f64,
    /// No routing that is the same for all matrices has less.
    pub at_least: f64,
}

impl Fractions {
    /// Loads of all arcs in bits per second, under a matrix.
    pub fn loads(&self, network: &Network, matrix: &Matrix) -> Vec<f64> {
        let mut loads = vec![0.0; network.arcs().len()];
        for Pair { src, dst, arcs } in &self.0 {
            let rate = matrix.rate(*src, *dst);
            arcs.iter().for_each(|&(arc, fraction)| loads[arc as usize] += rate * fraction);
        }
        loads
    }
}

/// Searches it for matrices with traffic, of which each needs at least `each_at_least` of its busiest link by any routing. Ends when the bounds are within the
/// tolerance, or after a number of phases.
pub fn oblivious(network: &Network, matrices: &[&Matrix], each_at_least: &[f64], tolerance: f64, phases: usize) -> Oblivious {
    let mut by_need: Vec<usize> = (0..matrices.len()).collect();
    by_need.sort_by(|&a, &b| each_at_least[b].total_cmp(&each_at_least[a]).then(a.cmp(&b)));
    let mut active: Vec<usize> = by_need.iter().copied().take(AT_A_TIME).collect();
    let mut best = Oblivious { fractions: Fractions::default(), utilisation: f64::INFINITY, at_least: each_at_least[by_need[0]] };
    loop {
        let some: Vec<&Matrix> = active.iter().map(|&i| matrices[i]).collect();
        let (fractions, utilisation, at_least) = State::new(network, &some, best.at_least).solve(tolerance, phases);
        best.at_least = best.at_least.max(at_least);
        let of = |matrix: &&Matrix| network.busiest(&fractions.loads(network, matrix));
        let all: Vec<f64> = matrices.par_iter().map(of).collect();
        let largest = all.iter().copied().fold(0.0, f64::max);
        if largest < best.utilisation {
            (best.utilisation, best.fractions) = (largest, fractions);
        }
        let is_near = best.at_least >= best.utilisation * (1.0 - tolerance);
        let mut exceeding: Vec<usize> =
            (0..matrices.len()).filter(|i| all[*i] > utilisation * (1.0 + NOISE) && !active.contains(i)).collect();
        if is_near || exceeding.is_empty() || active.len() >= ACTIVE_MAX {
            return best;
        }
        exceeding.sort_by(|&a, &b| all[b].total_cmp(&all[a]).then(a.cmp(&b)));
        active.extend(exceeding.into_iter().take(AT_A_TIME));
    }
}

/// Of some matrices.
struct State<'a> {
    network: &'a Network,
    count: usize,
    pairs: Vec<Pair>,
    /// By pair and matrix: rates, of which about as much fits.
    rates: Vec<f64>,
    /// By arc and matrix.
    weight: Vec<f64>,
    sent: Vec<f64>,
    near: f64,
    shortest: Shortest,
}

impl<'a> State<'a> {
    fn new(network: &'a Network, matrices: &[&Matrix], at_least: f64) -> Self {
        let (count, arcs) = (matrices.len(), network.arcs().len());
        let near = 1.0 / at_least;
        let (mut pairs, mut rates, mut shortest) = (Vec::new(), Vec::new(), Shortest::default());
        for src in 0..network.racks() {
            shortest.search(network, src, None, |arc| if network.carries(arc) { 1.0 } else { f64::INFINITY });
            for dst in (0..network.racks()).filter(|&dst| dst != src && shortest.distance(dst).is_finite()) {
                if matrices.iter().any(|m| m.rate(src, dst) > 0.0) {
                    pairs.push(Pair { src, dst, arcs: Vec::new() });
                    rates.extend(matrices.iter().map(|m| near * m.rate(src, dst)));
                }
            }
        }
        let weight = vec![1.0; arcs * count];
        Self { network, count, pairs, rates, weight, sent: vec![0.0; arcs * count], near, shortest }
    }

    /// The fractions, the largest utilisation, and a bound below any.
    fn solve(mut self, tolerance: f64, phases: usize) -> (Fractions, f64, f64) {
        let (mut best, mut utilisation, mut at_least) = (Vec::new(), f64::INFINITY, 0.0_f64);
        let mut since = 0;
        for phase in 1..=phases {
            self.phase(STEP / (1.0 + phase as f64 / COARSE).sqrt());
            if phase.is_power_of_two() || phase % EVALUATED == 0 {
                let times = (phase - since) as f64;
                let found = self.utilisation() / times / self.near;
                at_least = at_least.max(self.bound() / self.near);
                if found < utilisation {
                    utilisation = found;
                    best.clone_from(&self.pairs);
                    best.iter_mut().flat_map(|pair| &mut pair.arcs).for_each(|(_, fraction)| *fraction /= times);
                }
            }
            if phase.is_power_of_two() {
                // What was sent by coarser steps no longer counts.
                self.sent.fill(0.0);
                self.pairs.iter_mut().for_each(|pair| pair.arcs.clear());
                since = phase;
            }
            if at_least >= utilisation * (1.0 - tolerance) {
                break;
            }
        }
        (Fractions(best), utilisation, at_least)
    }

    /// Every pair takes one more path.
    fn phase(&mut self, step: f64) {
        let mut pairs = std::mem::take(&mut self.pairs);
        for (at, pair) in pairs.iter_mut().enumerate() {
            self.search(at, pair.src, pair.dst);
            let Self { network, count, rates, weight, sent, shortest, .. } = self;
            let rates = &rates[at * *count..(at + 1) * *count];
            for arc in shortest.path(network, pair.src, pair.dst) {
                let capacity = network.arcs()[arc].capacity;
                for (k, rate) in rates.iter().enumerate() {
                    sent[arc * *count + k] += rate / capacity;
                    weight[arc * *count + k] *= 1.0 + step * rate / capacity;
                }
                match pair.arcs.iter_mut().find(|(it, _)| *it as usize == arc) {
                    Some((_, times)) => *times += 1.0,
                    None => pair.arcs.push((arc as u32, 1.0)),
                }
            }
        }
        self.pairs = pairs;
        // Only ratios matter; large numbers would end in infinity.
        if self.weight.iter().any(|w| *w > WEIGHT_MAX) {
            self.weight.iter_mut().for_each(|w| *w /= WEIGHT_MAX);
        }
    }

    fn search(&mut self, at: usize, src: usize, dst: usize) {
        let Self { network, count, rates, weight, shortest, .. } = self;
        let (count, rates) = (*count, &rates[at * *count..(at + 1) * *count]);
        shortest.search(network, src, Some(dst), |arc| {
            if !network.carries(arc) {
                return f64::INFINITY;
            }
            let weights = &weight[arc * count..(arc + 1) * count];
            rates.iter().zip(weights).map(|(rate, weight)| rate * weight).sum::<f64>() / network.arcs()[arc].capacity
        });
    }

    /// The largest sum of utilisations.
    fn utilisation(&self) -> f64 {
        self.sent.iter().copied().fold(0.0, f64::max)
    }

    /// What every routing's mean of utilisations has, by weight.
    fn bound(&mut self) -> f64 {
        let mut sum = 0.0;
        for at in 0..self.pairs.len() {
            let Pair { src, dst, .. } = self.pairs[at];
            self.search(at, src, dst);
            sum += self.shortest.distance(dst);
        }
        let counts = |(arc, _): &(usize, &[f64])| self.network.carries(*arc) && self.network.arcs()[*arc].capacity.is_finite();
        let weights = self.weight.chunks(self.count).enumerate().filter(counts);
        sum / weights.map(|(_, of_arc)| of_arc.iter().sum::<f64>()).sum::<f64>()
    }
}

/// Matrices that join at a time, and that take part at most.
const AT_A_TIME: usize = 8;
const ACTIVE_MAX: usize = 64;
/// A matrix exceeds what was found by more than rounding.
const NOISE: f64 = 1e-6;
/// How much a weight grows when an arc is filled once, in the first phase.
const STEP: f64 = 0.1;
/// Phases until steps have become noticeably smaller.
const COARSE: f64 = 32.0;
/// Phases from one evaluation to the next; the first ones come sooner.
const EVALUATED: usize = 8;
const WEIGHT_MAX: f64 = 1e100;
