//! The largest fraction of a matrix that any routing carries, between two certified bounds.
//!
//! Maximum concurrent flow by multiplicative weights (Garg and Könemann 2007; Fleischer 2000 routes by source): every arc has a length that grows with
//! what was sent over it; in each phase every rack sends its whole demand over shortest paths by length. What was sent, divided by its largest
//! utilisation, is feasible: a lower bound. By duality, capacity times length over demand times distance is an upper bound at any time. Phases end when both are within the
//! tolerance, or after a number of them: then the bounds are wider, and say so.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::network::{Index, Network};
use crate::routing::matrix::Matrix;

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
    let mut state = State::new(network, matrix, near)?;
    let mut bounds = Bounds { at_least: 0.0, at_most: f64::INFINITY };
    let mut since = 0;
    for phase in 1..=phases {
        // Smaller and smaller steps: with steps of one size the bounds would stay as far apart as that.
        let fits = (bounds.at_least / near).max(1.0);
        state.step = fits * STEP / (1.0 + phase as f64 / COARSE).sqrt();
        state.phase();
        if phase.is_power_of_two() || phase % EVALUATED == 0 {
            bounds.at_most = bounds.at_most.min(near * state.volume() / state.distances());
        }
        bounds.at_least = bounds.at_least.max(near * (phase - since) as f64 / state.utilisation());
        if phase.is_power_of_two() {
            // What was sent by coarser steps no longer counts.
            state.sent.fill(0.0);
            since = phase;
        }
        if bounds.at_least >= bounds.at_most * (1.0 - tolerance) {
            break;
        }
    }
    Some(bounds)
}

struct State<'a> {
    network: &'a Network,
    /// By source: destinations and rates, which about fit.
    demands: Vec<(usize, Vec<(usize, f64)>)>,
    length: Vec<f64>,
    sent: Vec<f64>,
    distance: Vec<f64>,
    parent: Vec<u32>,
    step: f64,
}

impl<'a> State<'a> {
    fn new(network: &'a Network, matrix: &Matrix, near: f64) -> Option<Self> {
        let arcs = network.arcs().len();
        let length =
            (0..arcs).map(|a| if network.carries(a) { 1.0 / network.arcs()[a].capacity } else { f64::INFINITY }).collect();
        let mut state = Self {
            network,
            demands: Vec::new(),
            length,
            sent: vec![0.0; arcs],
            distance: vec![0.0; network.len()],
            parent: vec![NONE; network.len()],
            step: STEP,
        };
        for src in 0..network.racks() {
            state.search(src);
            let reached = |&dst: &usize| matrix.rate(src, dst) > 0.0 && state.distance[dst].is_finite();
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
            sum += to.iter().map(|&(dst, rate)| rate * self.distance[dst]).sum::<f64>();
        }
        self.demands = demands;
        sum
    }

    fn send(&mut self, src: usize, dst: usize, rate: f64) {
        let mut node = dst as Index;
        while node as usize != src {
            let arc = self.parent[node as usize] as usize;
            self.sent[arc] += rate;
            self.length[arc] *= 1.0 + self.step * rate / self.network.arcs()[arc].capacity;
            node = self.network.arcs()[arc].from;
        }
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

    /// Dijkstra by length; other racks are ends.
    fn search(&mut self, src: usize) {
        self.distance.fill(f64::INFINITY);
        self.distance[src] = 0.0;
        let mut heap = BinaryHeap::from([(Reverse(Length(0.0)), src as Index)]);
        while let Some((Reverse(Length(distance)), node)) = heap.pop() {
            let is_end = (node as usize) < self.network.racks() && node as usize != src;
            if distance > self.distance[node as usize] || is_end {
                continue;
            }
            for arc in self.network.out(node) {
                let to = self.network.arcs()[arc].to as usize;
                let longer = distance + self.length[arc];
                if longer < self.distance[to] {
                    self.distance[to] = longer;
                    self.parent[to] = arc as u32;
                    heap.push((Reverse(Length(longer)), to as Index));
                }
            }
        }
    }
}

/// An ordered length: never NaN.
#[derive(PartialEq)]
struct Length(f64);

impl Eq for Length {}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Length {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

const NONE: u32 = u32::MAX;
/// How much a length grows when an arc is filled once, in the first phase.
const STEP: f64 = 0.1;
/// Phases until steps have become noticeably smaller.
const COARSE: f64 = 32.0;
/// Phases from one upper bound to the next; the first ones come sooner.
const EVALUATED: usize = 8;
