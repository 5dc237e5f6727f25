//! How much racks send to each other: a traffic matrix, of which patterns use the ratios alone.

use std::collections::BTreeMap;

use crate::ids::HostId;
use crate::rng::Pcg64;
use crate::topology::Fabric;
use crate::traffic::error::{TrafficError, parameter};
use crate::traffic::random::{below, unit};

/// Weights of pairs of racks (bits per second where they come from a file), numbered from 0 in the order of their hosts; a rack may send to itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RackWeights(BTreeMap<(u32, u32), f64>);

impl RackWeights {
    /// Adds to the weight of a pair.
    pub fn add(&mut self, from: u32, to: u32, weight: f64) {
        if weight > 0.0 {
            *self.0.entry((from, to)).or_default() += weight;
        }
    }

    /// The weights above 0, by sending and then by receiving rack.
    pub fn cells(&self) -> impl Iterator<Item = ((u32, u32), f64)> + '_ {
        self.0.iter().map(|(&pair, &weight)| (pair, weight))
    }

    /// Whether no rack sends.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The hosts of racks that send, and where.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// By rack: the hosts that take part, ascending.
    members: Vec<Vec<HostId>>,
    /// By rack: receiving racks with the sum of the weights up to and with each.
    rows: Vec<Vec<(f64, u32)>>,
    /// By host: its rack.
    rack_of: Vec<u32>,
    /// The weights of all pairs over the number of hosts that take part.
    mean: f64,
}

impl Rows {
    /// # Errors
    /// A rack that the fabric has not, or that has no host that takes part.
    pub(super) fn new(weights: &RackWeights, fabric: &Fabric, among: &[HostId]) -> Result<Self, TrafficError> {
        let racks = fabric.racks().len();
        let rack_of: Vec<u32> = fabric.hosts().map(|host| fabric.rack_of(host).index() as u32).collect();
        let mut members = vec![Vec::new(); racks];
        among.iter().for_each(|host| members[rack_of[host.index()] as usize].push(*host));
        let mut rows: Vec<Vec<(f64, u32)>> = vec![Vec::new(); racks];
        for ((from, to), weight) in weights.cells() {
            for rack in [from, to] {
                if rack as usize >= racks {
                    return Err(parameter("matrices", rack, format!("the fabric has racks 0 to {}", racks - 1)));
                }
                if members[rack as usize].is_empty() {
                    return Err(parameter("matrices", rack, "this rack has traffic, and none of its hosts takes part"));
                }
            }
            if from == to && members[from as usize].len() == 1 {
                return Err(parameter("matrices", from, "this rack sends to itself, and only one of its hosts takes part"));
            }
            let row = &mut rows[from as usize];
            row.push((row.last().map_or(0.0, |cell| cell.0) + weight, to));
        }
        if weights.is_empty() {
            return Err(parameter("matrices", 0, "no rack sends"));
        }
        let total: f64 = weights.cells().map(|cell| cell.1).sum();
        Ok(Self { members, rows, rack_of, mean: total / among.len() as f64 })
    }

    /// What a host sends, over the mean of all hosts that take part.
    pub(super) fn share(&self, host: HostId) -> f64 {
        let rack = self.rack_of[host.index()] as usize;
        self.sent(rack) / self.members[rack].len() as f64 / self.mean
    }

    /// The hosts that send, ascending.
    pub(super) fn sources(&self, among: &[HostId]) -> Vec<HostId> {
        among.iter().copied().filter(|host| self.sent(self.rack_of[host.index()] as usize) > 0.0).collect()
    }

    /// A destination of a host that sends.
    pub(super) fn draw(&self, src: HostId, rng: &mut Pcg64) -> HostId {
        let rack = self.rack_of[src.index()] as usize;
        let row = &self.rows[rack];
        let at = unit(rng) * self.sent(rack);
        let to = row[row.partition_point(|cell| cell.0 <= at).min(row.len() - 1)].1 as usize;
        let members = &self.members[to];
        if to != rack {
            return members[below(rng, members.len())];
        }
        let own = members.binary_search(&src).expect("it takes part");
        let other = below(rng, members.len() - 1);
        members[if other < own { other } else { other + 1 }]
    }

    /// The host that receives most, and its part of all traffic.
    pub(super) fn favourite(&self) -> (HostId, f64) {
        let mut received = vec![0.0; self.rows.len()];
        for row in &self.rows {
            let mut before = 0.0;
            for &(sum, to) in row {
                received[to as usize] += sum - before;
                before = sum;
            }
        }
        let total: f64 = received.iter().sum();
        let part = |rack: usize| received[rack] / self.members[rack].len().max(1) as f64 / total;
        let most = (0..received.len()).max_by(|&a, &b| part(a).total_cmp(&part(b))).expect("there are racks");
        (self.members[most][0], part(most))
    }

    fn sent(&self, rack: usize) -> f64 {
        self.rows[rack].last().map_or(0.0, |cell| cell.0)
    }
}
