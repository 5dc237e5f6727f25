//! Bisection bandwidth: the largest flow from the first half of the hosts to the second.
//!
//! The halves are those of the hosts in order, so that a pod or a rack is split at most once, in the middle. This is one cut
//! of many: in the regular fabrics no equal split of the hosts has less capacity; in an irregular one some other may.

use serde::Serialize;

use crate::topology::Fabric;
use crate::topology::graph::MAX_TOTAL_BPS;
use crate::topology::metrics::max_flow::FlowNetwork;
use crate::topology::switch_graph::SwitchGraph;

/// What the fabric carries between two halves of its hosts, in bits per second in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// The NICs of the half that can send or receive less: what a non-blocking switch carries.
    pub nic_bps: u64,
    /// The largest flow with NICs as they are.
    pub bps: u64,
    /// `bps / nic_bps`: 1 is full bisection bandwidth; 0 where there is a single host.
    pub fraction: f64,
    /// The largest flow with NICs of unlimited capacity: what faster hosts could use. `None` if both halves share a switch.
    pub unlimited_nics_bps: Option<u64>,
}

pub(super) fn measure(fabric: &Fabric, graph: &SwitchGraph) -> Bisection {
    let half = fabric.host_count() / 2;
    let (source, sink) = (graph.len(), graph.len() + 1);
    let mut network = FlowNetwork::new(graph.len() + 2);
    for switch in 0..graph.len() as u32 {
        // An arc pair carries both directions of a cable, so every second link is enough.
        for arc in graph.arcs(switch).iter().filter(|a| a.link.0.is_multiple_of(2)) {
            let capacity = fabric.link(arc.link).capacity.0;
            network.arc(switch as usize, arc.to as usize, capacity, capacity);
        }
    }
    let mut nics = [0u64; 2];
    let mut of_switch = vec![[0u64; 2]; graph.len()];
    for (i, host) in fabric.hosts().enumerate() {
        let side = usize::from(i >= half);
        for &link in fabric.out(host.node()) {
            let link = fabric.link(link);
            let switch = fabric.as_switch(link.to).expect("hosts touch only switches");
            nics[side] += link.capacity.0;
            of_switch[switch.index()][side] += link.capacity.0;
        }
    }
    let mut nic_arcs = Vec::new();
    for (switch, &[from, to]) in of_switch.iter().enumerate() {
        if from > 0 {
            nic_arcs.push(network.arc(source, switch, from, 0));
        }
        if to > 0 {
            nic_arcs.push(network.arc(switch, sink, to, 0));
        }
    }
    let nic_bps = nics[0].min(nics[1]);
    let bps = network.maximise(source, sink);
    let shared = of_switch.iter().any(|&[from, to]| from > 0 && to > 0);
    let unlimited_nics_bps = (!shared && nic_bps > 0).then(|| {
        for &arc in &nic_arcs {
            network.set_one_way(arc, UNLIMITED);
        }
        network.reset();
        network.maximise(source, sink)
    });
    let fraction = if nic_bps == 0 { 0.0 } else { bps as f64 / nic_bps as f64 };
    Bisection { nic_bps, bps, fraction, unlimited_nics_bps }
}

/// The total capacity of the cables.
const UNLIMITED: u64 = MAX_TOTAL_BPS;
