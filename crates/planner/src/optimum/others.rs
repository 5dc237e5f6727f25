//! Routings beside those of the router: SPAIN's, by its own paths. [`super::schedulers`] has those that place flows.

use weft_fabric::Fabric;
use weft_fabric::routing::spain::{Plan, SpainConfig};

use crate::network::Network;
use crate::routing::matrix::Matrix;

/// A routing and its loads.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its name in results.
    pub name: &'static str,
    /// By matrix: loads of all arcs, in bits per second; `None` of a matrix that was not routed.
    pub loads: Vec<Option<Vec<f64>>>,
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
        Some(loads)
    };
    Some(Other { name: "spain", loads: matrices.iter().map(of).collect() })
}
