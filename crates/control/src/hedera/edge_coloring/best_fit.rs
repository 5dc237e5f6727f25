//! Best fit: the label that adds the least excess, whatever the fabric. It serves where there is no structure to colour, and
//! resolves what colouring left over.

use weft_fabric::LinkId;
use weft_fabric::routing::RootLabel;

use crate::hedera::network::{Candidate, Network, Units};

/// Loads of all links under the labels so far.
#[derive(Clone, Debug)]
pub struct BestFit {
    /// By link: capacity less load.
    room: Vec<Units>,
}

impl BestFit {
    /// Loads the flows that have labels.
    pub fn new(network: &Network, flows: &[Candidate]) -> Self {
        let mut room = network.capacity().to_vec();
        for flow in flows {
            if let Some(label) = flow.label {
                network.for_each_link(flow.src, flow.dst, label, |l| room[l.index()] -= flow.demand);
            }
        }
        Self { room }
    }

    /// Adds a flow under the best label, if it has a path that is up.
    pub fn insert(&mut self, network: &Network, flow: &mut Candidate) {
        flow.label = self.best(network, flow);
        self.add(network, flow, 1);
    }

    /// Adds a flow under the label that it has, if it fits there; else it loses it.
    pub fn keep(&mut self, network: &Network, flow: &mut Candidate) {
        flow.label = flow.label.filter(|&l| network.is_up(flow.src, flow.dst, l) && self.excess_of(network, flow, l).0 == 0);
        self.add(network, flow, 1);
    }

    /// Moves a flow off a path that is down, even where that relieves nothing: it has excess everywhere, but elsewhere it gets on.
    pub fn rescue(&mut self, network: &Network, flow: &mut Candidate) {
        if flow.label.is_some_and(|label| !network.is_up(flow.src, flow.dst, label)) {
            self.add(network, flow, -1);
            self.insert(network, flow);
        }
    }

    /// Places each flow that crosses an overfull link again, at most `most` of them. Returns whether some excess went away.
    pub fn improve(&mut self, network: &Network, flows: &mut [Candidate], most: &mut usize) -> bool {
        let mut better = false;
        for flow in flows {
            let Some(old) = flow.label.filter(|_| *most > 0) else { continue };
            let mut over = false;
            network.for_each_link(flow.src, flow.dst, old, |l| over |= self.room[l.index()] < 0);
            if !over {
                continue;
            }
            *most -= 1;
            self.add(network, flow, -1);
            let best = self.best(network, flow).unwrap_or(old);
            if self.excess_of(network, flow, best).0 < self.excess_of(network, flow, old).0 {
                flow.label = Some(best);
                better = true;
            }
            self.add(network, flow, 1);
        }
        better
    }

    fn add(&mut self, network: &Network, flow: &Candidate, sign: Units) {
        if let Some(label) = flow.label {
            network.for_each_link(flow.src, flow.dst, label, |l| self.room[l.index()] -= sign * flow.demand);
        }
    }

    /// The label with the least added excess; of those where the flow fits the tightest, of others the one that is the least too full;
    /// then the first.
    fn best(&self, network: &Network, flow: &Candidate) -> Option<RootLabel> {
        let labels = (0..network.climbs().labels() as u32).map(RootLabel);
        let up = labels.filter(|&label| network.is_up(flow.src, flow.dst, label));
        up.min_by_key(|&label| {
            let (excess, left) = self.excess_of(network, flow, label);
            (excess, left.abs())
        })
    }

    /// The excess that a flow adds under a label, and the room that it leaves on the tightest link.
    fn excess_of(&self, network: &Network, flow: &Candidate, label: RootLabel) -> (Units, Units) {
        let (mut excess, mut left) = (0, Units::MAX);
        network.for_each_link(flow.src, flow.dst, label, |l: LinkId| {
            let room = self.room[l.index()];
            excess += (flow.demand - room.max(0)).max(0);
            left = left.min(room - flow.demand);
        });
        (excess, left)
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::HostId;

    use super::*;
    use crate::hedera::network::NIC;
    use crate::hedera::testing::leaf_spine;

    #[test]
    fn a_flow_goes_where_it_leaves_the_least_room() {
        let network = Network::new(leaf_spine(2, 3, 3));
        let flow =
            |src, dst, part, label| Candidate { src: HostId(src), dst: HostId(dst), demand: NIC / part, label, reserved: 0 };
        let mut flows = [flow(0, 3, 1, Some(RootLabel(0))), flow(1, 4, 2, Some(RootLabel(2))), flow(2, 5, 4, None)];
        let mut best_fit = BestFit::new(&network, &flows);
        best_fit.insert(&network, &mut flows[2]);
        assert_eq!(flows[2].label, Some(RootLabel(2)));
        assert_eq!(network.energy(&flows), 0);
    }

    #[test]
    fn improving_takes_excess_away() {
        let network = Network::new(leaf_spine(2, 3, 3));
        let mut flows: Vec<Candidate> = (0..3)
            .map(|i| Candidate { src: HostId(i), dst: HostId(3 + i), demand: NIC, label: Some(RootLabel(1)), reserved: 0 })
            .collect();
        let mut best_fit = BestFit::new(&network, &flows);
        assert_eq!(network.energy(&flows), 4 * NIC);
        assert!(best_fit.improve(&network, &mut flows, &mut 10));
        assert_eq!(network.energy(&flows), 0);
        assert!(!best_fit.improve(&network, &mut flows, &mut 10));
    }
}
