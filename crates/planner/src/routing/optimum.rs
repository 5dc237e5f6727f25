//! The largest fraction of a matrix that any routing carries, between two certified bounds.
//!
//! Maximum concurrent flow by multiplicative weights (Garg and Könemann 2007; Fleischer 2000 routes by source): every arc has a length that grows with
//! what was sent over it; in each phase every rack sends its whole demand over shortest paths by length. What was sent, divided by its largest
//! utilisation, is feasible: a lower bound. By duality, capacity times length over demand times distance is an upper bound at any time. Phases end when both are within the
//! tolerance, or after a number of them: then the bounds are wider, and say so.

use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::shortest::Shortest;

/// The bounds of the largest fraction.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bounds {
    /// Some routing carries this fraction.
    pub at_least: f64,
    /// None carries more.
    pub at_most: f64,
}

/// Bounds for the pairs that are connected, of a matrix of which `near` times as much about fits; `None` without traffic between any.
pub fn bounds(network: &Network, matrix: &Matrix, near: f64, tolerance: f64, phases: usize) -> Option<Bounds> {
    best(network, matrix, near, tolerance, phases).map(|best| best.bounds)
}

/// The best routing found, and why there is none much better.
#[derive(Clone, Debug)]
pub struct Best {
    /// How good it is, and how good any could be.
    pub bounds: Bounds,
    /// Its loads in bits per second by arc, for the whole matrix.
    pub loads: Vec<f64>,
    /// The dual solution: how much each arc holds the throughput back; the sum is 1.
    pub prices: Vec<f64>,
}

/// The same with a routing that carries the lower bound, and the prices that prove the upper one.
pub fn best(network: &Network, matrix: &Matrix, near: f64, tolerance: f64, phases: usize) -> Option<Best> {
    let mut state = State::new(network, matrix, near)?;
    let mut bounds = Bounds { at_least: 0.0, at_most: f64::INFINITY };
    let (mut loads, mut prices) = (vec![0.0; network.arcs().len()], Vec::new());
    let mut since = 0;
    for phase in 1..=phases {
        // Smaller and smaller steps: with steps of one size the bounds would stay as far apart as that.
        let fits = (bounds.at_least / near).max(1.0);
        state.step = fits * STEP / (1.0 + phase as f64 / COARSE).sqrt();
        state.phase();
        if phase.is_power_of_two() || phase % EVALUATED == 0 {
            let at_most = near * state.volume() / state.distances();
            if at_most < bounds.at_most {
                bounds.at_most = at_most;
                prices.clone_from(&state.length);
            }
        }
        let sent = near * (phase - since) as f64;
        if sent / state.utilisation() > bounds.at_least {
            bounds.at_least = sent / state.utilisation();
            loads.iter_mut().zip(&state.sent).for_each(|(load, it)| *load = it / sent);
        }
        if phase.is_power_of_two() {
            // What was sent by coarser steps no longer counts.
            state.sent.fill(0.0);
            since = phase;
        }
        if bounds.at_least >= bounds.at_most * (1.0 - tolerance) {
            break;
        }
    }
    for (price, arc) in prices.iter_mut().zip(network.arcs()) {
        *price = if price.is_finite() && arc.capacity.is_finite() { *price * arc.capacity } else { 0.0 };
    }
    let all: f64 = prices.iter().sum();
    prices.iter_mut().for_each(|price| *price /= all);
    Some(Best { bounds, loads, prices })
}

struct State<'a> {
    network: &'a Network,
    /// By source: destinations and rates, which about fit.
    demands: Vec<(usize, Vec<(usize, f64)>)>,
    length: Vec<f64>,
    sent: Vec<f64>,
    shortest: Shortest,
    step: f64,
}

impl<'a> State<'a> {
    fn new(network: &'a Network, matrix: &Matrix, near: f64) -> Option<Self> {
        let arcs = network.arcs().len();
        let length =
            (0..arcs).map(|a| if network.carries(a) { 1.0 / network.arcs()[a].capacity } else { f64::INFINITY }).collect();
        let mut state =
            Self { network, demands: Vec::new(), length, sent: vec![0.0; arcs], shortest: Shortest::default(), step: STEP };
        for src in 0..network.racks() {
            state.search(src);
            let reached = |&dst: &usize| matrix.rate(src, dst) > 0.0 && state.shortest.distance(dst).is_finite();
            let to: Vec<(usize, f64)> =
                (0..network.racks()).filter(reached).map(|dst| (dst, near * matrix.rate(src, dst))).collect();
            if !to.is_empty() {
                state.demands.push((src, to));
            }
        }
        (!state.demands.is_empty()).then_some(state)
    }

    /// Sends all demands once.
    fn phase(&mut self) {
        let demands = std::mem::take(&mut self.demands);
        for (src, to) in &demands {
            self.search(*src);
            for &(dst, rate) in to {
                self.send(*src, dst, rate);
            }
        }
        self.demands = demands;
    }

    /// The sum of demand times distance.
    fn distances(&mut self) -> f64 {
        let demands = std::mem::take(&mut self.demands);
        let mut sum = 0.0;
        for (src, to) in &demands {
            self.search(*src);
            sum += to.iter().map(|&(dst, rate)| rate * self.shortest.distance(dst)).sum::<f64>();
        }
        self.demands = demands;
        sum
    }

    fn send(&mut self, src: usize, dst: usize, rate: f64) {
        for arc in self.shortest.path(self.network, src, dst) {
            self.sent[arc] += rate;
            self.length[arc] *= 1.0 + self.step * rate / self.network.arcs()[arc].capacity;
        }
    }

    fn search(&mut self, src: usize) {
        self.shortest.search(self.network, src, None, |arc| self.length[arc]);
    }

    fn volume(&self) -> f64 {
        let of = |(arc, length): (usize, &f64)| self.network.arcs()[arc].capacity * length;
        let counts = |(arc, length): &(usize, &f64)| length.is_finite() && self.network.arcs()[*arc].capacity.is_finite();
        self.length.iter().enumerate().filter(counts).map(of).sum()
    }

    fn utilisation(&self) -> f64 {
        let of = |(arc, sent): (usize, &f64)| sent / self.network.arcs()[arc].capacity;
        self.sent.iter().enumerate().filter(|(_, s)| **s > 0.0).map(of).fold(0.0, f64::max)
    }
}

/// How much a length grows when an arc is filled once, in the first phase.
const STEP: f64 = 0.1;
/// Phases until steps have become noticeably smaller.
const COARSE: f64 = 32.0;
/// Phases from one upper bound to the next; the first ones come sooner.
const EVALUATED: usize = 8;
