//! Energy, incrementally: the capacity exceeded over all links that labels choose, when the flows to each host cross one core.
//!
//! Giving a host another core changes the loads of the links of its own flows only (section 4.4, "calculation of energy
//! function"): for each flow the climb from the source's rack, and once for all of them the descent to the host's rack.
//! Every change is logged, so that a refused move is undone exactly.

use std::cmp::Reverse;

use weft_fabric::routing::RootLabel;
use weft_fabric::{HostId, LinkId, RackId};

use crate::hedera::network::{Candidate, Network, Units};

/// Loads of all links under the current cores.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    height: usize,
    /// By destination host: its range in `arrivals`.
    start: Vec<u32>,
    arrivals: Vec<Arrival>,
    /// Their sources, in a fabric that is not nested.
    sources: Vec<HostId>,
    /// `[host][level]`: the demand that descends to the host through that level, in a nested fabric.
    descents: Vec<Units>,
    /// By link: its capacity less its load.
    room: Vec<Units>,
    excess: Units,
    /// Rooms that were changed since the last [`Energy::mark`], oldest first.
    log: Vec<(LinkId, Units)>,
    excess_at_mark: Units,
}

/// A flow as its destination sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    demand: Units,
    rack: RackId,
    /// Links climbed, in a nested fabric.
    turn: u32,
}

impl Energy {
    /// Takes the flows of a round, under the cores that `label` gives to their destinations.
    pub fn load(&mut self, network: &Network, flows: &[Candidate], label: impl Fn(HostId) -> RootLabel) {
        self.height = network.climbs().height();
        self.room.clear();
        self.room.extend_from_slice(network.capacity());
        self.index(network, flows);
        for flow in flows {
            network.for_each_link(flow.src, flow.dst, label(flow.dst), |l| self.room[l.index()] -= flow.demand);
        }
        self.excess = self.room.iter().map(|room| (-room).max(0)).sum();
        self.mark();
    }

    /// Capacity exceeded over all links.
    pub fn excess(&self) -> Units {
        self.excess
    }

    /// Whether flows go to the host.
    pub fn has_arrivals(&self, host: HostId) -> bool {
        self.start[host.index()] < self.start[host.index() + 1]
    }

    /// All changes so far are final.
    pub fn mark(&mut self) {
        self.log.clear();
        self.excess_at_mark = self.excess;
    }

    /// Takes back all changes since the last [`Energy::mark`].
    pub fn undo(&mut self) {
        while let Some((link, room)) = self.log.pop() {
            self.room[link.index()] = room;
        }
        self.excess = self.excess_at_mark;
    }

    /// Gives the flows to a host another core.
    #[inline]
    pub fn relabel(&mut self, network: &Network, host: HostId, old: RootLabel, new: RootLabel) {
        if !self.has_arrivals(host) {
            return;
        }
        if !network.climbs().nested() {
            self.shift(network, host, old, -1);
            self.shift(network, host, new, 1);
            return;
        }
        let climbs = network.climbs();
        let range = self.start[host.index()] as usize..self.start[host.index() + 1] as usize;
        let to = network.fabric().rack_of(host);
        for (i, (up, down)) in climbs.up().iter().zip(climbs.down()).enumerate() {
            let (a, b) = (up.column(old), up.column(new));
            if a == b {
                continue;
            }
            for at in range.clone() {
                let Arrival { demand, rack, turn } = self.arrivals[at];
                if turn as usize > i {
                    let row = up.row(rack);
                    self.add(up.at(row, a), -demand);
                    self.add(up.at(row, b), demand);
                }
            }
            let demand = self.descents[host.index() * self.height + i];
            let row = down.row(to);
            self.add(down.at(row, a).reverse(), -demand);
            self.add(down.at(row, b).reverse(), demand);
        }
    }

    /// Adds a flow's demand to its path under a label.
    pub fn put_on(&mut self, network: &Network, flow: &Candidate, label: RootLabel) {
        network.for_each_link(flow.src, flow.dst, label, |link| self.add(link, flow.demand));
    }

    /// Takes a flow's demand off its path under a label.
    pub fn take_off(&mut self, network: &Network, flow: &Candidate, label: RootLabel) {
        network.for_each_link(flow.src, flow.dst, label, |link| self.add(link, -flow.demand));
    }

    /// For a flow that is on no path: of the labels whose path is up, the one where it would exceed least; of equals the one with
    /// most room at its tightest link, then the first. `None` if no path is up.
    pub fn best_label(&self, network: &Network, flow: &Candidate) -> Option<RootLabel> {
        let labels = (0..network.climbs().labels() as u32).map(RootLabel);
        labels.filter(|&label| network.is_up(flow.src, flow.dst, label)).min_by_key(|&label| {
            let (mut excess, mut tightest) = (0, Units::MAX);
            network.for_each_link(flow.src, flow.dst, label, |link| {
                let room = self.room[link.index()];
                excess += room.min(0) - (room - flow.demand).min(0);
                tightest = tightest.min(room);
            });
            (excess, Reverse(tightest))
        })
    }

    /// Adds (or takes away) the whole paths of the flows to a host.
    fn shift(&mut self, network: &Network, host: HostId, label: RootLabel, sign: Units) {
        for at in self.start[host.index()] as usize..self.start[host.index() + 1] as usize {
            let (src, demand) = (self.sources[at], self.arrivals[at].demand);
            network.for_each_link(src, host, label, |link| self.add(link, sign * demand));
        }
    }

    #[inline]
    fn add(&mut self, link: LinkId, demand: Units) {
        let room = &mut self.room[link.index()];
        let old = std::mem::replace(room, *room - demand);
        self.excess += old.min(0) - (old - demand).min(0);
        self.log.push((link, old));
    }

    /// Sorts the flows by destination, by counting.
    fn index(&mut self, network: &Network, flows: &[Candidate]) {
        let (fabric, climbs) = (network.fabric(), network.climbs());
        let hosts = fabric.host_count();
        self.start.clear();
        self.start.resize(hosts + 1, 0);
        flows.iter().for_each(|f| self.start[f.dst.index()] += 1);
        let mut sum = 0;
        for slot in &mut self.start {
            sum += *slot;
            *slot = sum;
        }
        self.arrivals.clear();
        self.arrivals.resize(flows.len(), Arrival::default());
        self.sources.clear();
        self.sources.resize(if climbs.nested() { 0 } else { flows.len() }, HostId(0));
        self.descents.clear();
        self.descents.resize(hosts * self.height, 0);
        for flow in flows.iter().rev() {
            let rack = fabric.rack_of(flow.src);
            let turn = if climbs.nested() { climbs.turn_of_groups(rack, fabric.rack_of(flow.dst)) } else { 0 };
            let slot = &mut self.start[flow.dst.index()];
            *slot -= 1;
            self.arrivals[*slot as usize] = Arrival { demand: flow.demand, rack, turn: turn as u32 };
            if let Some(source) = self.sources.get_mut(*slot as usize) {
                *source = flow.src;
            }
            let levels = flow.dst.index() * self.height;
            self.descents[levels..levels + turn].iter_mut().for_each(|d| *d += flow.demand);
        }
    }
}
