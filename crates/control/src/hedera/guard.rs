//! A round does no harm: paths that would lower the goodput of all flows together are not set.
//!
//! Placers know large flows and their demands. Flows that they leave to the hash, small flows, and links that are too full whatever is done
//! (over-subscribed trees) can make a placement worse than the paths that are there. So before a round changes paths, the scheduler
//! compares the [`Goodput`] of all counted flows now and then, and keeps what is there if it would fall. Of a placer that proposes two
//! placements it takes the better one.
//!
//! The comparison is left out where it cannot fail: no path changes, or every flow gets its demand and together they fill the NICs.

use weft_fabric::LinkId;
use weft_fabric::routing::{FlowKey, Path};

use crate::controller::FlowCounter;
use crate::hedera::access::NicChoice;
use crate::hedera::goodput::Goodput;
use crate::hedera::network::{Candidate, Network, Units, to_units};

/// What a placement changes for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The flow.
    pub key: FlowKey,
    /// Its demand.
    pub demand: Units,
    /// Its new path; `None` to leave it to the switches' hash.
    pub path: Option<Path>,
}

/// Compares what is there with what is proposed.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    goodput: Goodput,
    nics: NicChoice,
    sends: Vec<[bool; 2]>,
}

impl Guard {
    /// Which of the proposed changes has the largest sum of the max-min fair rates of all counted flows, of equal ones the first; `None` if each would
    /// lower it. Counters and changes are ascending by key.
    pub fn best(&mut self, network: &Network, counters: &[FlowCounter<'_>], proposals: &[Vec<Change>]) -> Option<usize> {
        let after: Vec<Option<f64>> = proposals.iter().map(|changes| self.after(network, counters, changes)).collect();
        if after.iter().all(Option::is_none) {
            return Some(0);
        }
        let before = self.total(network, counters.iter().map(|c| c.path));
        let (mut best, mut most) = (0, 0.0);
        for (i, after) in after.into_iter().enumerate() {
            let after = after.unwrap_or(before);
            if i == 0 || after > most * (1.0 + ROUNDING) {
                (best, most) = (i, after);
            }
        }
        (most >= before * (1.0 - ROUNDING)).then_some(best)
    }

    /// The goodput after these changes; `None` if no path changes.
    fn after(&mut self, network: &Network, counters: &[FlowCounter<'_>], changes: &[Change]) -> Option<f64> {
        let mut ahead = changes.iter().peekable();
        let mut moves = false;
        let after: Vec<&[LinkId]> = counters
            .iter()
            .map(|counter| match next_of(&mut ahead, &counter.flow).and_then(|change| change.path.as_ref()) {
                Some(path) => {
                    moves |= counter.path != &path[..];
                    &path[..]
                }
                None => counter.path,
            })
            .collect();
        moves.then(|| self.total(network, after.into_iter()))
    }

    /// Whether these flows, all of them placed and without excess, fill all NICs that send or all that receive: no paths give more.
    pub fn is_best(&mut self, network: &Network, demands: impl Iterator<Item = (FlowKey, Units)>, placed: &[Candidate]) -> bool {
        if network.degraded() || network.access().is_some() || placed.iter().any(|f| f.label.is_none()) {
            return false;
        }
        self.sends.clear();
        self.sends.resize(network.fabric().host_count(), [false; 2]);
        let (mut total, mut flows) = (0, 0);
        for (key, demand) in demands {
            self.sends[key.src.index()][0] = true;
            self.sends[key.dst.index()][1] = true;
            total += demand;
            flows += 1;
        }
        let mut nics = [0; 2];
        for (used, &nic) in self.sends.iter().zip(network.nic()) {
            for (sum, _) in nics.iter_mut().zip(used).filter(|(_, used)| **used) {
                *sum += to_units(nic);
            }
        }
        // Demands are rounded down.
        total >= nics[0].min(nics[1]) - flows && network.energy(placed) == 0
    }

    /// Spreads changed flows over the NICs of hosts with several on one switch; the other flows stay where they are. `large` are the keys
    /// and demands of large flows, ascending.
    pub fn spread(
        &mut self,
        network: &Network,
        counters: &[FlowCounter<'_>],
        large: impl Iterator<Item = (FlowKey, Units)>,
        changes: &mut [Change],
    ) {
        let Some(access) = network.access() else { return };
        self.nics.clear(network.fabric());
        let (mut large, mut ahead) = (large.peekable(), changes.iter().peekable());
        for counter in counters {
            while large.next_if(|(key, _)| *key < counter.flow).is_some() {}
            let demand = large.next_if(|(key, _)| *key == counter.flow).map_or(0, |(_, demand)| demand);
            if next_of(&mut ahead, &counter.flow).is_none() {
                self.nics.keep(counter.path, demand);
            }
        }
        for change in changes {
            if let Some(path) = &mut change.path {
                self.nics.choose(access, network.fabric(), network.health(), path, change.demand);
            }
        }
    }

    fn total<'a>(&mut self, network: &Network, paths: impl Iterator<Item = &'a [LinkId]>) -> f64 {
        self.goodput.clear();
        paths.filter(|p| network.health().path_is_up(p)).for_each(|p| self.goodput.add(p));
        self.goodput.total(network.fabric())
    }
}

/// The change of this flow, if there is one; passes those of lower keys.
fn next_of<'a>(changes: &mut std::iter::Peekable<impl Iterator<Item = &'a Change>>, key: &FlowKey) -> Option<&'a Change> {
    while changes.next_if(|c| c.key < *key).is_some() {}
    changes.next_if(|c| c.key == *key)
}

/// Sums that differ by less, relatively, are the same.
const ROUNDING: f64 = 1e-9;
