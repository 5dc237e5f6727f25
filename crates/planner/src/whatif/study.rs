//! All states of failure of a study, evaluated in parallel, and what they show together.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::Serialize;

use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::optimum::{self, Bounds};
use crate::routing::router::{Outcome, Router};
use crate::whatif::parts::{Kind, Part, without};
use crate::whatif::rates::Failures;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Pairs of failures too.
    pub pairs: bool,
    /// At most so many states of pairs, or draws; more pairs are sampled.
    pub states: usize,
    /// The service level: a fraction of what the healthy network carries.
    pub level: f64,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// The study of a network.
#[derive(Debug, Serialize)]
pub struct Study {
    /// The fabric's title.
    pub fabric: String,
    /// The pattern, or the file of the matrices.
    pub traffic: String,
    /// Number of racks.
    pub racks: usize,
    /// States of failure that were evaluated, single ones and pairs.
    pub states: usize,
    /// Their `throughput`.
    pub throughput: Quantiles,
    /// Without a failure.
    pub healthy: Healthy,
    /// Of each part alone, in the fabric's order.
    pub single: Vec<State>,
    /// The kind and tier of each of them.
    #[serde(skip)]
    pub single_kinds: Vec<(Kind, u8)>,
    /// Of each kind and tier.
    pub kinds: Vec<KindRow>,
    /// Of pairs, if they were asked for.
    pub pairs: Option<Pairs>,
    /// The pairs that were evaluated.
    #[serde(skip)]
    pub pair_states: Vec<State>,
    /// The five worst states of those above.
    pub worst: Vec<WorstState>,
    /// With rates of failure.
    pub availability: Option<Availability>,
}

/// Quantiles over states of failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The smallest.
    pub p0: f64,
    /// A hundredth of the states have less.
    pub p1: f64,
    /// Half of them have less.
    pub p50: f64,
}

/// The network without failures.
#[derive(Clone, Debug, Serialize)]
pub struct Healthy {
    /// The fraction of the matrix that ECMP carries, all pairs alike.
    pub throughput: f64,
    /// The fraction that is carried if each pair slows down by itself.
    pub carried: f64,
    /// What the best routing would carry, all pairs alike.
    pub optimum: Option<Bounds>,
}

/// A state of failure. Fractions of `carried` and `throughput` are of what the healthy network has.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    /// What is away.
    pub failed: Vec<String>,
    /// Traffic that is carried, each pair as fast as its busiest link allows.
    pub carried: f64,
    /// The same, all pairs slowed down alike; of those that are connected, and at most 1.
    pub throughput: f64,
    /// The fraction of its own rate that the worst pair of racks has.
    pub worst_pair: f64,
    /// Its racks.
    pub worst_racks: Option<[String; 2]>,
    /// Pairs of racks that are not connected.
    pub disconnected: usize,
    #[serde(skip)]
    indices: Vec<usize>,
}

/// The single failures of a kind and tier.
#[derive(Clone, Debug, Serialize)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// The tier; 0 for sets.
    pub tier: u8,
    /// How many parts.
    pub parts: usize,
    /// Mean and smallest of `carried`.
    pub carried: [f64; 2],
    /// Mean and smallest of `throughput`.
    pub throughput: [f64; 2],
    /// Most pairs of racks that one disconnects.
    pub disconnected: usize,
}

/// Pairs of failures.
#[derive(Clone, Debug, Serialize)]
pub struct Pairs {
    /// How many there are.
    pub all: usize,
    /// How many were evaluated, drawn evenly if not all.
    pub evaluated: usize,
    /// Quantiles of `carried`: the worst, 1 %, 5 %, the median.
    pub carried: [f64; 4],
    /// The same of `throughput`.
    pub throughput: [f64; 4],
    /// The fraction of pairs of failures that disconnect racks.
    pub disconnecting: f64,
}

/// One of the worst states, with what the best routing would carry.
#[derive(Clone, Debug, Serialize)]
pub struct WorstState {
    /// The state.
    #[serde(flatten)]
    pub state: State,
    /// Bounds of the throughput that the best routing would have, relative to the healthy network's by ECMP.
    pub optimum: Option<Bounds>,
}

/// What a year looks like.
#[derive(Clone, Debug, Serialize)]
pub struct Availability {
    /// The fraction of time in which nothing has failed.
    pub healthy: f64,
    /// States drawn from the other time.
    pub draws: usize,
    /// The service level.
    pub level: f64,
    /// Days of a year in which less than the level is carried, with the half width of its 95 % interval.
    pub days_below: [f64; 2],
    /// Days of a year in which some pair of racks has less than the level, with its half width.
    pub days_pair_below: [f64; 2],
    /// Days of a year in which some pair of racks is not connected, with its half width.
    pub days_disconnected: [f64; 2],
    /// The mean over time of what is carried.
    pub carried: f64,
}

/// Evaluates all that is asked.
pub fn study(network: &Network, parts: &[Part], matrix: &Matrix, failures: Option<&Failures>, question: Question) -> Study {
    let base = Router::default().evaluate(network, matrix);
    let evaluator = Evaluator { network, parts, matrix, base: &base };
    let single = evaluator.all((0..parts.len()).map(|i| vec![i]).collect());
    let mut random = Pcg64::new(question.seed.into(), STREAM);
    let pairs = question.pairs.then(|| evaluator.all(pairs_of(parts.len(), question.states, &mut random)));
    let availability = failures.map(|failures| {
        let draws: Vec<Vec<usize>> = (0..question.states).map(|_| failures.draw(&mut random)).collect();
        Availability::of(failures.healthy(), question.level, &evaluator.all(draws))
    });
    let mut worst: Vec<&State> = single.iter().chain(pairs.iter().flatten()).collect();
    worst.sort_by(|a, b| a.carried.total_cmp(&b.carried).then(a.throughput.total_cmp(&b.throughput)));
    let worst = worst.into_iter().take(WORST).map(|state| evaluator.worst(state)).collect();
    Study {
        fabric: String::new(),
        traffic: String::new(),
        racks: network.racks(),
        states: single.len() + pairs.as_ref().map_or(0, Vec::len),
        throughput: Quantiles::of(single.iter().chain(pairs.iter().flatten()).map(|state| state.throughput).collect()),
        healthy: evaluator.healthy(),
        kinds: kinds(parts, &single),
        worst,
        pairs: pairs.as_deref().map(|states| Pairs::of(parts.len(), states)),
        pair_states: pairs.unwrap_or_default(),
        single_kinds: parts.iter().map(|part| (part.kind, part.tier)).collect(),
        single,
        availability,
    }
}

impl Quantiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let [p0, p1, p50] = [0.0, 0.01, 0.5].map(|q| values[((values.len() - 1) as f64 * q) as usize]);
        Self { p0, p1, p50 }
    }
}

struct Evaluator<'a> {
    network: &'a Network,
    parts: &'a [Part],
    matrix: &'a Matrix,
    base: &'a Outcome,
}

impl Evaluator<'_> {
    fn all(&self, states: Vec<Vec<usize>>) -> Vec<State> {
        let memory = || (self.network.clone(), Router::default());
        let evaluate = |(network, router): &mut (Network, Router), indices: Vec<usize>| {
            let parts: Vec<&Part> = indices.iter().map(|&i| &self.parts[i]).collect();
            let outcome = without(network, &parts, |network| router.evaluate(network, self.matrix));
            self.state(&outcome, indices)
        };
        states.into_par_iter().map_init(memory, evaluate).collect()
    }

    fn state(&self, outcome: &Outcome, indices: Vec<usize>) -> State {
        let name = |rack: usize| self.network.name(rack as u32).to_owned();
        State {
            failed: indices.iter().map(|&i| self.parts[i].name.clone()).collect(),
            carried: relative(outcome.carried, self.base.carried),
            throughput: relative(outcome.throughput, self.base.throughput).min(1.0),
            worst_pair: outcome.worst.map_or(1.0, |pair| pair.fraction),
            worst_racks: outcome.worst.map(|pair| [name(pair.src), name(pair.dst)]),
            disconnected: outcome.disconnected,
            indices,
        }
    }

    fn healthy(&self) -> Healthy {
        let Outcome { throughput, carried, .. } = *self.base;
        let optimum = optimum::bounds(self.network, self.matrix, near(throughput), TOLERANCE, PHASES);
        Healthy { throughput, carried, optimum }
    }

    fn worst(&self, state: &State) -> WorstState {
        let parts: Vec<&Part> = state.indices.iter().map(|&i| &self.parts[i]).collect();
        let near = near(state.throughput * self.base.throughput);
        let bounds = without(&mut self.network.clone(), &parts, |n| optimum::bounds(n, self.matrix, near, TOLERANCE, PHASES));
        let of_base = |b: Bounds| {
            let [at_least, at_most] = [b.at_least, b.at_most].map(|it| relative(it, self.base.throughput).min(1.0));
            Bounds { at_least: at_least.max(state.throughput), at_most }
        };
        WorstState { state: state.clone(), optimum: bounds.map(of_base) }
    }
}

fn relative(now: f64, healthy: f64) -> f64 {
    if now.is_finite() { now / healthy } else { 1.0 }
}

/// A scale for which a matrix about fits.
fn near(throughput: f64) -> f64 {
    if throughput.is_finite() && throughput > 0.0 { throughput } else { 1.0 }
}

/// All pairs, or so many of them, each once, in order.
fn pairs_of(parts: usize, most: usize, random: &mut Pcg64) -> Vec<Vec<usize>> {
    let all = parts * parts.saturating_sub(1) / 2;
    if all <= most {
        return (0..parts).flat_map(|a| (a + 1..parts).map(move |b| vec![a, b])).collect();
    }
    // Floyd's: each set of so many numbers is as likely as any other.
    let mut drawn = BTreeSet::new();
    for last in all - most..all {
        let n = random.random_range(0..=last);
        drawn.insert(if drawn.contains(&n) { last } else { n });
    }
    drawn.into_iter().map(pair).collect()
}

/// The n-th pair (a, b) with a < b, ordered by b.
fn pair(n: usize) -> Vec<usize> {
    let mut b = ((1.0 + (8.0 * n as f64 + 1.0).sqrt()) / 2.0) as usize;
    while b * (b - 1) / 2 > n {
        b -= 1;
    }
    while b * (b + 1) / 2 <= n {
        b += 1;
    }
    vec![n - b * (b - 1) / 2, b]
}

fn kinds(parts: &[Part], single: &[State]) -> Vec<KindRow> {
    let mut keys: Vec<(Kind, u8)> = parts.iter().map(|part| (part.kind, part.tier)).collect();
    keys.sort_unstable();
    keys.dedup();
    let row = |(kind, tier)| {
        let of: Vec<&State> =
            parts.iter().zip(single).filter(|(p, _)| (p.kind, p.tier) == (kind, tier)).map(|(_, s)| s).collect();
        let both = |value: fn(&State) -> f64| {
            let mean = of.iter().map(|s| value(s)).sum::<f64>() / of.len() as f64;
            [mean, of.iter().map(|s| value(s)).fold(f64::INFINITY, f64::min)]
        };
        let disconnected = of.iter().map(|s| s.disconnected).max().unwrap_or(0);
        KindRow { kind, tier, parts: of.len(), carried: both(|s| s.carried), throughput: both(|s| s.throughput), disconnected }
    };
    keys.into_iter().map(row).collect()
}

impl Pairs {
    fn of(parts: usize, states: &[State]) -> Self {
        let quantiles = |value: fn(&State) -> f64| {
            let mut all: Vec<f64> = states.iter().map(value).collect();
            all.sort_by(f64::total_cmp);
            [0.0, 0.01, 0.05, 0.5].map(|q| all.get(((all.len().saturating_sub(1)) as f64 * q) as usize).copied().unwrap_or(1.0))
        };
        Self {
            all: parts * parts.saturating_sub(1) / 2,
            evaluated: states.len(),
            carried: quantiles(|s| s.carried),
            throughput: quantiles(|s| s.throughput),
            disconnecting: fraction(states, |s| s.disconnected > 0),
        }
    }
}

impl Availability {
    fn of(healthy: f64, level: f64, states: &[State]) -> Self {
        let away = 1.0 - healthy;
        let days = |is_so: &dyn Fn(&State) -> bool| {
            let p = fraction(states, is_so);
            let half = 1.96 * (p * (1.0 - p) / states.len().max(1) as f64).sqrt();
            [p, half].map(|it| it * away * DAYS)
        };
        let mean = if states.is_empty() { 1.0 } else { states.iter().map(|s| s.carried).sum::<f64>() / states.len() as f64 };
        Self {
            healthy,
            draws: states.len(),
            level,
            days_below: days(&|s| s.carried < level),
            days_pair_below: days(&|s| s.worst_pair < level),
            days_disconnected: days(&|s| s.disconnected > 0),
            carried: healthy + away * mean,
        }
    }
}

fn fraction(states: &[State], is_so: impl Fn(&State) -> bool) -> f64 {
    states.iter().filter(|state| is_so(state)).count() as f64 / states.len().max(1) as f64
}

/// The stream of random numbers of this study.
const STREAM: u128 = 0x7768_6174_6966;
const WORST: usize = 5;
const DAYS: f64 = 365.0;
/// Of the optimum's bounds; beyond so many phases they stay wider.
const TOLERANCE: f64 = 0.02;
const PHASES: usize = 400;
