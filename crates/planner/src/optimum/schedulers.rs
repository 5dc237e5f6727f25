//! Routings that place flows: the switches' hash, and Hedera's placers.
//!
//! A scenario's own flows are placed as they are. A traffic matrix is divided into flows first: the rate of each pair of racks into as few equal flows as no NIC
//! limits, each from the host of the one rack to the host of the other that have the least so far. All flows are placed, large or not, by a scheduler without a memory.
//! As in a run, it leaves all to the hash if its paths would lower the goodput (`weft_control::hedera::guard`).

use std::sync::Arc;

use rayon::prelude::*;
use weft_control::hedera::goodput::Goodput;
use weft_control::hedera::{HederaConfig, Placer, Planner, place_once};
use weft_experiment::scenario::Run;
use weft_experiment::world::control::FirstFlows;
use weft_fabric::rng::mix;
use weft_fabric::routing::{FlowKey, Path, Router, Routing};
use weft_fabric::{Fabric, HostId};

use crate::network::Network;
use crate::optimum::others::Other;
use crate::routing::matrix::Matrix;

/// What switches hash, and how schedulers place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    routing: Routing,
    scheduler: HederaConfig,
}

impl Setup {
    /// Of a scenario, or the defaults.
    pub fn of(run: Option<&Run>) -> Self {
        let Some(run) = run else { return Self::default() };
        let control = &run.scenario.control;
        let scheduler = HederaConfig {
            period: control.period,
            threshold: control.threshold,
            placer: Placer::default(),
            iterations: control.iterations,
            c: control.annealing_c,
            seed: run.scenario.world.seed,
        };
        Self { routing: control.routing, scheduler }
    }

    fn with(&self, placer: Placer) -> HederaConfig {
        HederaConfig { placer, ..self.scheduler }
    }
}

/// The scenario's flows at time 0 with their estimated demands: by the switches' hash, and by each of Hedera's placers that the fabric has paths for.
pub fn on_flows(run: &Run, fabric: &Arc<Fabric>, network: &Network) -> Vec<Other> {
    let Ok(flows) = run.scenario.traffic.flows(fabric, run.scenario.world.seed) else { return Vec::new() };
    let first = FirstFlows::of(fabric, &run.scenario, &flows);
    let setup = Setup::of(Some(run));
    let mut others = Vec::new();
    for (name, placer) in PLACERS {
        let Ok(mut placement) = place_once(Arc::clone(fabric), &first.keys, &setup.with(placer)) else { continue };
        keep_the_better(fabric, &first.hashed, &mut placement.paths);
        let nic = |i: usize| fabric.nic_capacity(first.keys[i].src).as_f64();
        let rates: Vec<f64> = placement.demands.iter().enumerate().map(|(i, demand)| demand * nic(i)).collect();
        let mut add = |name, paths: &[Option<Path>]| {
            others.push(Other { name, loads: vec![Some(loads(fabric, network, &rates, paths, &first.hashed))] });
        };
        if placer == PLACERS[0].1 {
            add(HASH, &[]);
        }
        add(name, &placement.paths);
    }
    others
}

/// The flows of each matrix, or of some, evenly spaced, if all have more than `most` flows together.
pub fn on_matrices(
    setup: &Setup,
    fabric: &Arc<Fabric>,
    network: &Network,
    matrices: &[(f64, Matrix)],
    most: usize,
) -> Vec<Other> {
    let nics = slowest_nics(fabric);
    let flows = |matrix: &Matrix| pairs(matrix).map(|(src, dst)| flows_of(matrix, &nics, src, dst)).sum::<usize>();
    let flows = matrices.iter().map(|(_, matrix)| flows(matrix)).max().unwrap_or(0);
    let some = (most / flows.max(1)).clamp(1, matrices.len());
    let chosen: Vec<usize> = (0..some).map(|i| i * matrices.len() / some).collect();
    let of = |&at: &usize| of_matrix(setup, fabric, network, &matrices[at].1);
    let placed: Vec<Vec<Option<Vec<f64>>>> = chosen.par_iter().map(of).collect();
    let names = [HASH].into_iter().chain(PLACERS.map(|(name, _)| name));
    let mut others: Vec<Other> = names.map(|name| Other { name, loads: vec![None; matrices.len()] }).collect();
    for (at, placed) in chosen.into_iter().zip(placed) {
        for (other, loads) in others.iter_mut().zip(placed) {
            other.loads[at] = loads;
        }
    }
    others.retain(|other| other.loads.iter().any(Option::is_some));
    others
}

/// Loads by the hash and by each placer.
fn of_matrix(setup: &Setup, fabric: &Arc<Fabric>, network: &Network, matrix: &Matrix) -> Vec<Option<Vec<f64>>> {
    let placed = Placed::new(setup, fabric, matrix);
    let loads = |paths: &[Option<Path>]| loads(fabric, network, &placed.rates, paths, &placed.hashed);
    [Some(loads(&[]))].into_iter().chain(placed.by_placer.iter().map(|paths| Some(loads(paths.as_ref()?)))).collect()
}

/// The flows of a matrix and their paths.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Who sends to whom.
    pub keys: Vec<FlowKey>,
    /// By flow, in bits per second.
    pub rates: Vec<f64>,
    /// By flow: the path that the switches choose.
    pub hashed: Vec<Option<Path>>,
    /// By placer and flow, where the fabric has paths for the placer: its path; `None` leaves the flow to the switches.
    pub by_placer: [Option<Vec<Option<Path>>>; PLACERS.len()],
}

impl Placed {
    /// Divides a matrix and places its flows.
    pub fn new(setup: &Setup, fabric: &Arc<Fabric>, matrix: &Matrix) -> Self {
        let (keys, rates) = divided(fabric, matrix, setup.scheduler.seed);
        let mut router = Router::new(Arc::clone(fabric), setup.routing, setup.scheduler.seed);
        let hashed: Vec<Option<Path>> = keys.iter().map(|key| router.route(key)).collect();
        let fastest = fabric.hosts().map(|h| fabric.nic_capacity(h)).max().expect("a fabric has hosts").as_f64();
        let demands: Vec<f64> = rates.iter().map(|rate| rate / fastest).collect();
        let by_placer = PLACERS.map(|(_, placer)| {
            let mut planner = Planner::new(Arc::clone(fabric), &setup.with(placer)).ok()?;
            let assignment = planner.assign(&keys, &demands);
            let mut paths = planner.placement(&keys, &demands, &assignment).paths;
            keep_the_better(fabric, &hashed, &mut paths);
            Some(paths)
        });
        Self { keys, rates, hashed, by_placer }
    }
}

/// Leaves all flows to the hash if the placed paths have less goodput, every flow counted as greedy.
fn keep_the_better(fabric: &Fabric, hashed: &[Option<Path>], placed: &mut [Option<Path>]) {
    let mut goodput = Goodput::default();
    let mut total = |paths: &mut dyn Iterator<Item = &Option<Path>>| {
        goodput.clear();
        paths.flatten().for_each(|path| goodput.add(path));
        goodput.total(fabric)
    };
    let before = total(&mut hashed.iter());
    let after = total(&mut placed.iter().zip(hashed).map(|(placed, hashed)| if placed.is_some() { placed } else { hashed }));
    if after < before * (1.0 - ROUNDING) {
        placed.fill(None);
    }
}

/// Flows between hosts that carry a matrix, and the rate of each in bits per second. Ports are drawn by the seed.
fn divided(fabric: &Fabric, matrix: &Matrix, seed: u64) -> (Vec<FlowKey>, Vec<f64>) {
    let hosts = |rack: usize| &fabric.racks()[rack].hosts;
    let nics = slowest_nics(fabric);
    let (mut sent, mut received) = (vec![0.0; fabric.host_count()], vec![0.0; fabric.host_count()]);
    let take = |hosts: &[HostId], load: &mut [f64], rate: f64| {
        let least = hosts.iter().copied().min_by(|a, b| load[a.index()].total_cmp(&load[b.index()])).expect("a rack has hosts");
        load[least.index()] += rate;
        least
    };
    let (mut keys, mut rates) = (Vec::new(), Vec::new());
    for (src, dst) in pairs(matrix) {
        let count = flows_of(matrix, &nics, src, dst);
        let rate = matrix.rate(src, dst) / count as f64;
        for _ in 0..count {
            let [sport, dport] = [0, 16].map(|shift| (mix(seed ^ mix(keys.len() as u64)) >> shift) as u16);
            let (src, dst) = (take(hosts(src), &mut sent, rate), take(hosts(dst), &mut received, rate));
            keys.push(FlowKey { src, dst, sport, dport });
            rates.push(rate);
        }
    }
    (keys, rates)
}

/// Pairs of racks with traffic.
fn pairs(matrix: &Matrix) -> impl Iterator<Item = (usize, usize)> + '_ {
    let racks = matrix.racks();
    let all = (0..racks).flat_map(move |src| (0..racks).map(move |dst| (src, dst)));
    all.filter(|&(src, dst)| src != dst && matrix.rate(src, dst) > 0.0)
}

/// Flows of a pair: as few as no NIC limits.
fn flows_of(matrix: &Matrix, nics: &[f64], src: usize, dst: usize) -> usize {
    // A rate that is a multiple of the NIC's but for rounding needs no further flow.
    (matrix.rate(src, dst) / nics[src].min(nics[dst]) - ROUNDING).ceil().max(1.0) as usize
}

/// By rack: the rate of its slowest NIC.
fn slowest_nics(fabric: &Fabric) -> Vec<f64> {
    let nic = |&host: &HostId| fabric.nic_capacity(host).as_f64();
    fabric.racks().iter().map(|rack| rack.hosts.iter().map(nic).fold(f64::INFINITY, f64::min)).collect()
}

/// Loads of all arcs by flows on their placed paths, or on those of the hash.
fn loads(fabric: &Fabric, network: &Network, rates: &[f64], placed: &[Option<Path>], hashed: &[Option<Path>]) -> Vec<f64> {
    let mut loads = vec![0.0; network.arcs().len()];
    for (i, rate) in rates.iter().enumerate() {
        let path = placed.get(i).and_then(Option::as_ref).or(hashed[i].as_ref());
        for arc in path.into_iter().flatten().filter_map(|&link| network.arc_of(fabric, link)) {
            loads[arc] += rate;
        }
    }
    loads
}

/// Flows of all matrices together that `weft optimum` places, some seconds of work.
pub const FLOWS: usize = 200_000;
const ROUNDING: f64 = 1e-9;
const HASH: &str = "hash";
/// In the order of [`Placed::by_placer`].
pub const PLACERS: [(&str, Placer); 4] = [
    ("first-fit", Placer::FirstFit),
    ("annealing", Placer::Annealing),
    ("annealing-per-flow", Placer::AnnealingPerFlow),
    ("edge-coloring", Placer::EdgeColoring),
];
