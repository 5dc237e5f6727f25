//! Routings beside those of the router: SPAIN's, by its own paths, and schedulers, which place flows.

use std::sync::Arc;

use weft_control::hedera::{HederaConfig, Placer, place_once};
use weft_experiment::scenario::Run;
use weft_experiment::world::control::FirstFlows;
use weft_fabric::routing::spain::{Plan, SpainConfig};
use weft_fabric::{Fabric, LinkId};

use crate::network::Network;
use crate::routing::matrix::Matrix;

/// A routing and its loads.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its name in results.
    pub name: &'static str,
    /// By matrix: loads of all arcs, in bits per second.
    pub loads: Vec<Vec<f64>>,
}

/// SPAIN with its default settings: every pair of racks splits its traffic evenly over its paths (NetLord, section 3.4: VLANs by a hash). `None` where racks have
/// several switches, or the paths need too many VLANs.
pub fn spain(fabric: &Fabric, network: &Network, matrices: &[(f64, Matrix)]) -> Option<Other> {
    let edges: Option<Vec<_>> = fabric.racks().iter().map(|rack| (rack.switches.len() == 1).then(|| rack.switches[0])).collect();
    let edges = edges?;
    let plan = Plan::new(fabric, &SpainConfig::default()).ok()?;
    // By pair of racks: arcs, one after the other, of all paths; and how many paths there are.
    let mut paths: Vec<(usize, usize, Vec<usize>, usize)> = Vec::new();
    for (src, &a) in edges.iter().enumerate() {
        for (dst, &b) in edges.iter().enumerate().filter(|(dst, _)| *dst != src) {
            let (mut arcs, mut count) = (Vec::new(), 0);
            for (_, cables) in plan.paths_between(a, b) {
                // Paths stand from the lower switch to the other.
                let mut at = fabric.switch_node(if a.index() < b.index() { a } else { b });
                for cable in cables {
                    let [there, back] = cable.links();
                    let link = if fabric.link(there).from == at { there } else { back };
                    at = fabric.link(link).to;
                    let arc = network.arc_of(fabric, link)?;
                    arcs.push(if a.index() < b.index() { arc } else { network.reverse(arc) });
                }
                count += 1;
            }
            paths.push((src, dst, arcs, count));
        }
    }
    let of = |(_, matrix): &(f64, Matrix)| {
        let mut loads = vec![0.0; network.arcs().len()];
        for (src, dst, arcs, count) in &paths {
            let rate = matrix.rate(*src, *dst) / *count as f64;
            arcs.iter().for_each(|&arc| loads[arc] += rate);
        }
        loads
    };
    Some(Other { name: "spain", loads: matrices.iter().map(of).collect() })
}

/// The scenario's flows at time 0 with their estimated demands: by the switches' hash, and by each of Hedera's placers that the fabric has paths for.
pub fn schedulers(run: &Run, fabric: &Arc<Fabric>, network: &Network) -> Vec<Other> {
    let Ok(flows) = run.scenario.traffic.flows(fabric, run.scenario.world.seed) else { return Vec::new() };
    let first = FirstFlows::of(fabric, &run.scenario, &flows);
    let control = &run.scenario.control;
    let placed = |placer| {
        let config = HederaConfig {
            period: control.period,
            threshold: control.threshold,
            placer,
            iterations: control.iterations,
            c: control.annealing_c,
            seed: run.scenario.world.seed,
        };
        place_once(Arc::clone(fabric), &first.keys, &config).ok()
    };
    let loads = |demands: &[f64], path: &dyn Fn(usize) -> Option<Vec<LinkId>>| {
        let mut loads = vec![0.0; network.arcs().len()];
        for (i, demand) in demands.iter().enumerate() {
            let rate = demand * fabric.nic_capacity(first.keys[i].src).as_f64();
            for arc in path(i).into_iter().flatten().filter_map(|link| network.arc_of(fabric, link)) {
                loads[arc] += rate;
            }
        }
        vec![loads]
    };
    let hashed = |i: usize| first.hashed[i].as_ref().map(|path| path.iter().copied().collect::<Vec<_>>());
    let mut others = Vec::new();
    for (name, placer) in PLACERS {
        let Some(placement) = placed(placer) else { continue };
        if others.is_empty() {
            others.push(Other { name: "hash", loads: loads(&placement.demands, &hashed) });
        }
        let path = |i: usize| placement.paths[i].as_ref().map(|path| path.iter().copied().collect()).or_else(|| hashed(i));
        others.push(Other { name, loads: loads(&placement.demands, &path) });
    }
    others
}

const PLACERS: [(&str, Placer); 4] = [
    ("first-fit", Placer::FirstFit),
    ("annealing", Placer::Annealing),
    ("annealing-per-flow", Placer::AnnealingPerFlow),
    ("edge-coloring", Placer::EdgeColoring),
];
