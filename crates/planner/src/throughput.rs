//! What a fabric carries at worst: ECMP on a sample of the matrices that NICs allow, without failures and with each kind of single failure.
//!
//! ```text
//!   uniform, stride, permutations of racks at random --router--> fractions of the NICs' rates: worst, p99, median
//!                        |
//!                  the worst of them --cables and switches away, by kind and tier--> under failure
//! ```
//! Permutations of racks at full rate are corners of the hose model (VL2 section 4.2.2): what they all have, a matrix between them has too. The sample is no
//! proof: there may be a worse one.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::Serialize;
use weft_fabric::{Fabric, Health};

use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::router::{Router, Scheme};
use crate::whatif::parts::{self, Kind, Part, without};

/// Throughput of a fabric, in bits per second for each server unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// What the NICs of a server carry.
    pub nics_bps: f64,
    /// Matrices that were evaluated.
    pub matrices: usize,
    /// With the worst of them.
    pub worst_bps: f64,
    /// What 99 % of them reach.
    pub p99_bps: f64,
    /// Half of them.
    pub median_bps: f64,
    /// With the worst of them and the worst single failure of a cable or switch, for racks that it does not cut off.
    pub failure_bps: f64,
    /// What that failure is.
    pub worst_failure: Option<String>,
    /// Failures that were evaluated: some of each kind and tier.
    pub failures: usize,
    /// The largest fraction of the servers that the failure of a switch cuts off.
    pub cut_off: f64,
}

impl Throughput {
    /// Of a fabric. With one rack there is no traffic between racks: NICs alone limit, and the switch of the rack cuts all off.
    pub fn of(fabric: &Fabric) -> Self {
        let network = Network::new(fabric, &Health::new(fabric));
        let servers = fabric.host_count() as f64;
        let nics_bps = (0..network.racks()).map(|rack| network.nics_of(rack)).sum::<f64>() / servers;
        let cut_off = cut_off(fabric);
        if network.racks() < 2 {
            let failure_bps = if cut_off < 1.0 { nics_bps / 2.0 } else { 0.0 };
            let all = Self {
                nics_bps,
                matrices: 0,
                worst_bps: nics_bps,
                p99_bps: nics_bps,
                median_bps: nics_bps,
                failure_bps,
                worst_failure: None,
                failures: 0,
                cut_off,
            };
            return all;
        }
        let matrices = matrices(&network);
        let memory = Router::default;
        let busiest = |router: &mut Router, matrix: &Matrix| fraction(router.busiest(&network, matrix, Scheme::Ecmp));
        let carried: Vec<f64> = matrices.par_iter().map_init(memory, busiest).collect();
        let (worst, _) = carried.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).expect("there are matrices");
        let (failures, worst_failure, under_failure) = failures(fabric, &network, &matrices[worst], carried[worst]);
        let mut sorted = carried;
        sorted.sort_by(f64::total_cmp);
        let quantile = |q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize] * nics_bps;
        Self {
            nics_bps,
            matrices: sorted.len(),
            worst_bps: quantile(0.0),
            p99_bps: quantile(0.01),
            median_bps: quantile(0.5),
            failure_bps: under_failure * nics_bps,
            worst_failure,
            failures,
            cut_off,
        }
    }
}

/// The throughput that a largest utilisation leaves.
fn fraction(busiest: f64) -> f64 {
    if busiest > 1.0 { 1.0 / busiest } else { 1.0 }
}

/// Uniform, stride and permutations: fewer of a large network.
fn matrices(network: &Network) -> Vec<Matrix> {
    let mut random = Pcg64::new(1, STREAM);
    let count = (WORK / work(network)).clamp(3, MATRICES);
    let patterns = [Matrix::uniform(network), Matrix::stride(network)];
    patterns.into_iter().chain((2..count).map(|_| permutation(network, &mut random))).collect()
}

/// About how many operations the evaluation of a matrix takes.
fn work(network: &Network) -> usize {
    (network.racks() * (network.arcs().len() + network.racks())).max(1)
}

/// Every rack sends to another one at the rate of the slower side's NICs, and receives from one.
fn permutation(network: &Network, random: &mut Pcg64) -> Matrix {
    let racks = network.racks();
    let mut order: Vec<usize> = (0..racks).collect();
    for last in (1..racks).rev() {
        // Sattolo's: a single cycle, so that no rack sends to itself.
        order.swap(last, random.random_range(0..last));
    }
    let mut matrix = Matrix::zero(racks);
    for (src, &dst) in order.iter().enumerate() {
        *matrix.rate_mut(src, dst) = network.nics_of(src).min(network.nics_of(dst));
    }
    matrix
}

/// How many single failures were evaluated, the worst one and the fraction that it leaves.
fn failures(fabric: &Fabric, network: &Network, matrix: &Matrix, healthy: f64) -> (usize, Option<String>, f64) {
    let parts = parts::all(fabric, network, &[Kind::Cable, Kind::Switch]);
    let some = sample(&parts, (WORK / work(network)).clamp(1, FAILURES));
    let memory = || (network.clone(), Router::default());
    let evaluate = |(network, router): &mut (Network, Router), part: &&Part| {
        let outcome = without(network, &[part], |network| router.evaluate(network, matrix));
        // An edge switch takes its rack along, which `cut_off` counts; any other pair without a path has nothing.
        let is_cut = outcome.disconnected > 0 && (part.kind, part.tier) != (Kind::Switch, 1);
        if is_cut { 0.0 } else { outcome.throughput.min(1.0) }
    };
    let carried: Vec<f64> = some.par_iter().map_init(memory, evaluate).collect();
    let worst = carried.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    match worst {
        Some((at, &left)) => (some.len(), Some(some[at].name.clone()), left.min(healthy)),
        None => (0, None, healthy),
    }
}

/// At most so many parts of each kind and tier, evenly spaced.
fn sample(parts: &[Part], most: usize) -> Vec<&Part> {
    let mut groups: Vec<((Kind, u8), Vec<&Part>)> = Vec::new();
    for part in parts {
        let key = (part.kind, part.tier);
        match groups.iter_mut().find(|(of, _)| *of == key) {
            Some((_, group)) => group.push(part),
            None => groups.push((key, vec![part])),
        }
    }
    let spaced = |(_, group): &(_, Vec<&'_ Part>)| -> Vec<usize> {
        let count = group.len().min(most);
        (0..count).map(|i| i * group.len() / count).collect()
    };
    groups.iter().flat_map(|group| spaced(group).into_iter().map(|at| group.1[at])).collect()
}

/// The largest fraction of the servers that have a single switch in common.
fn cut_off(fabric: &Fabric) -> f64 {
    let mut by_switch = vec![0; fabric.switch_count()];
    for rack in fabric.racks() {
        if let [only] = rack.switches[..] {
            by_switch[only.index()] += rack.hosts.len();
        }
    }
    by_switch.into_iter().max().unwrap_or(0) as f64 / fabric.host_count().max(1) as f64
}

/// The stream of random numbers of permutations.
const STREAM: u128 = 0x7468_726f_7567_6870;
/// Operations for all matrices of a fabric, and for the failures of a kind and tier.
const WORK: usize = 10_000_000;
const MATRICES: usize = 200;
const FAILURES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Duration};

    fn gbps(rate: u64) -> Cabling {
        Cabling { rate: BitsPerSec(rate * 1_000_000_000), delay: Duration::ZERO }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.max(1.0)
    }

    /// A fat-tree carries every permutation of racks by ECMP; without one of 2 uplinks, an edge switch has half.
    #[test]
    fn a_fat_tree_is_non_blocking() {
        let fabric = Shape::FatTree { k: 4 }.build(gbps(1), gbps(1)).expect("a fabric");
        let it = Throughput::of(&fabric);
        assert!(close(it.worst_bps, 1e9) && close(it.median_bps, 1e9) && it.matrices == MATRICES, "{it:?}");
        assert!(close(it.failure_bps, 0.5e9), "{it:?}");
        assert!(close(it.cut_off, 2.0 / 16.0), "{it:?}");
    }

    /// Over-subscribed 1:4 at the top: what crosses it has a quarter, and with one core of two away an eighth; a single root leaves nothing.
    #[test]
    fn a_tree_has_its_over_subscription() {
        let tree = |redundancy, top| Shape::Tree {
            tors: 8,
            hosts_per_tor: 4,
            tors_per_pod: Some(2),
            redundancy,
            tor_oversubscription: 1.0,
            top_oversubscription: top,
        };
        let pair = Throughput::of(&tree(2, 4.0).build(gbps(1), gbps(1)).expect("a fabric"));
        assert!(close(pair.worst_bps, 0.25e9) && close(pair.failure_bps, 0.125e9), "{pair:?}");
        let single = Throughput::of(&tree(1, 1.0).build(gbps(1), gbps(1)).expect("a fabric"));
        assert!(close(single.worst_bps, 1e9) && single.failure_bps == 0.0, "{single:?}");
    }

    #[test]
    fn a_rack_alone_is_limited_by_its_nics() {
        let it = Throughput::of(&Shape::Switch { hosts: 4 }.build(gbps(1), gbps(1)).expect("a fabric"));
        assert!(close(it.worst_bps, 1e9) && it.failure_bps == 0.0 && close(it.cut_off, 1.0), "{it:?}");
    }
}
