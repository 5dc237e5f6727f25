//! Traffic matrices divided into flows and placed: values by hand, and max-min fair rates compared with those of the hash.

use std::sync::Arc;

use weft_experiment::scenario::traffic::matrices::Volatile;
use weft_fabric::routing::Path;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Duration, Fabric, Health, LinkId};
use weft_planner::network::Network;
use weft_planner::optimum::schedulers::{PLACERS, Placed, Setup, on_matrices};
use weft_planner::routing::matrix::Matrix;
use weft_planner::routing::volatile;

const GBPS: f64 = 1e9;

fn fabric(shape: &Shape, fabric_gbps: u64) -> (Arc<Fabric>, Network) {
    let cabling = |gbps| Cabling { rate: BitsPerSec(gbps * 1_000_000_000), delay: Duration::ZERO };
    let fabric = Arc::new(shape.build(cabling(1), cabling(fabric_gbps)).expect("a fabric"));
    let network = Network::new(&fabric, &Health::new(&fabric));
    (fabric, network)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

/// 2.5 Gbps between racks of two hosts with NICs of 1 Gbps: three equal flows, from the two hosts in turn; 1 Gbps is one.
#[test]
fn a_rate_becomes_as_few_flows_as_no_nic_limits() {
    let (fabric, network) = fabric(&Shape::FatTree { k: 4 }, 1);
    let mut matrix = Matrix::zero(network.racks());
    (*matrix.rate_mut(0, 5), *matrix.rate_mut(3, 1)) = (2.5 * GBPS, GBPS);
    let placed = Placed::new(&Setup::default(), &fabric, &matrix);
    let ends: Vec<(u32, u32)> = placed.keys.iter().map(|key| (key.src.0, key.dst.0)).collect();
    assert_eq!(ends, [(0, 10), (1, 11), (0, 10), (6, 2)]);
    let rates = [2.5 / 3.0, 2.5 / 3.0, 2.5 / 3.0, 1.0];
    assert!(placed.rates.iter().zip(rates).all(|(&rate, expected)| close(rate, expected * GBPS)), "{:?}", placed.rates);
    assert_eq!(placed.keys, Placed::new(&Setup::default(), &fabric, &matrix).keys, "the same seed");
}

/// Four pods, each rack sends to one of the pod after the next with all NICs: every scheduler finds paths that no two flows share, the hash does not.
#[test]
fn schedulers_avoid_the_collisions_of_the_hash() {
    let (fabric, network) = fabric(&Shape::FatTree { k: 4 }, 1);
    let network = network.with_fast_nics();
    let matrices = [(0.0, Matrix::stride(&network))];
    let busiest: Vec<(&str, f64)> = on_matrices(&Setup::default(), &fabric, &network, &matrices, 1_000)
        .iter()
        .map(|other| (other.name, network.busiest(other.loads[0].as_ref().expect("routed"))))
        .collect();
    let names: Vec<&str> = busiest.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["hash", "first-fit", "annealing", "annealing-per-flow", "edge-coloring"]);
    assert!(busiest[0].1 >= 2.0 - 1e-9, "{busiest:?}");
    for (name, busiest) in busiest.into_iter().skip(1).filter(|(name, _)| *name != "annealing") {
        assert!(close(busiest, 1.0), "{name}: {busiest}");
    }
}

/// More flows than are asked for: the matrices that are placed are evenly spaced, and the others have no loads.
#[test]
fn many_matrices_are_sampled() {
    let (fabric, network) = fabric(&Shape::FatTree { k: 4 }, 1);
    let network = network.with_fast_nics();
    let matrix = Matrix::uniform(&network);
    let flows = Placed::new(&Setup::default(), &fabric, &matrix).keys.len();
    assert_eq!(flows, 56, "a flow for each pair of racks");
    let matrices = vec![(0.0, matrix); 40];
    let others = on_matrices(&Setup::default(), &fabric, &network, &matrices, 56 * 12 + 55);
    for other in &others {
        let routed: Vec<usize> = (0..matrices.len()).filter(|&i| other.loads[i].is_some()).collect();
        assert_eq!(routed.len(), 12, "{}", other.name);
        assert!(routed[0] == 0 && routed.windows(2).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))), "{}", other.name);
    }
}

/// The sum of the max-min fair rates: all flows grow alike until a link is full or they have what they want. Slow and plain.
fn goodput(fabric: &Fabric, rates: &[f64], paths: &[&Path]) -> f64 {
    let mut now = vec![0.0; rates.len()];
    let mut is_open = vec![true; rates.len()];
    while is_open.contains(&true) {
        let mut left: Vec<f64> = fabric.links().iter().map(|link| link.capacity.as_f64()).collect();
        let mut users = vec![0usize; left.len()];
        for (i, path) in paths.iter().enumerate() {
            path.iter().for_each(|link: &LinkId| {
                left[link.index()] -= now[i];
                users[link.index()] += usize::from(is_open[i]);
            });
        }
        let by_links = (0..left.len()).filter(|&l| users[l] > 0).map(|l| left[l] / users[l] as f64).fold(f64::INFINITY, f64::min);
        let by_demands = (0..rates.len()).filter(|&i| is_open[i]).map(|i| rates[i] - now[i]).fold(f64::INFINITY, f64::min);
        let more = by_links.min(by_demands).max(0.0);
        for (i, path) in paths.iter().enumerate().filter(|(i, _)| is_open[*i]).collect::<Vec<_>>() {
            now[i] += more;
            let is_full = |link: &LinkId| left[link.index()] - more * users[link.index()] as f64 <= 1.0;
            is_open[i] = rates[i] - now[i] > 1.0 && !path.iter().any(is_full);
        }
    }
    now.iter().sum()
}

/// On VL2's Clos and on fat-trees with random matrices at full load: no scheduler has less goodput than hashed flows, all of them greedy; where the fabric is not
/// over-subscribed, it has at least 99 % of theirs with the flows' rates.
#[test]
fn no_scheduler_is_worse_than_the_hash() {
    let spec = Volatile { patterns: 6, intervals: 6, interval: Duration::from_secs(1), stay: 0.0, load: 1.0, spread: 1.0 };
    let clos =
        |tors, hosts_per_tor| Shape::ClosExplicit { intermediates: 3, aggregations: 4, tors, uplinks_per_tor: 2, hosts_per_tor };
    let (k4, k6) = (Shape::FatTree { k: 4 }, Shape::FatTree { k: 6 });
    let fabrics = [(clos(6, 4), 2, false), (clos(8, 20), 10, false), (clos(10, 6), 1, true), (k4, 1, false), (k6, 1, false)];
    for (shape, gbps, is_oversubscribed) in fabrics {
        let (fabric, network) = fabric(&shape, gbps);
        for (number, (_, matrix)) in volatile::draw(&spec, &network, 7).iter().enumerate() {
            let placed = Placed::new(&Setup::default(), &fabric, matrix);
            let hashed: Vec<&Path> = placed.hashed.iter().map(|path| path.as_ref().expect("connected")).collect();
            for ((name, _), paths) in PLACERS.iter().zip(&placed.by_placer) {
                let paths = paths.as_ref().expect("it has roots");
                let paths: Vec<&Path> = paths.iter().zip(&hashed).map(|(path, hashed)| path.as_ref().unwrap_or(hashed)).collect();
                let compare = |rates: &[f64], least: f64| {
                    let [by_hash, by_placer] = [&hashed, &paths].map(|paths| goodput(&fabric, rates, paths));
                    let title = fabric.title();
                    assert!(by_placer >= least * by_hash, "{name} on {title}, matrix {number}: {by_placer} of {by_hash}");
                };
                compare(&vec![f64::INFINITY; paths.len()], 1.0 - 1e-6);
                if !is_oversubscribed {
                    compare(&placed.rates, 0.99);
                }
            }
        }
    }
}
