//! Traffic between racks, in bits per second.

use clap::ValueEnum;

use crate::network::Network;

/// A matrix that follows from the network alone, with hosts at the rate of their NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// From every host, evenly to all hosts of other racks
    Uniform,
    /// From every rack to the one half of all racks further
    Stride,
}

impl Pattern {
    /// Its matrix.
    pub fn of(self, network: &Network) -> Matrix {
        match self {
            Self::Uniform => Matrix::uniform(network),
            Self::Stride => Matrix::stride(network),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Stride => "stride",
        }
    }
}

/// A rate from each rack to each other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    racks: usize,
    rates: Vec<f64>,
}

impl Matrix {
    /// No traffic.
    pub fn zero(racks: usize) -> Self {
        Self { racks, rates: vec![0.0; racks * racks] }
    }

    /// Every host sends at the rate of its NICs, evenly to all hosts of other racks: all-to-all.
    pub fn uniform(network: &Network) -> Self {
        let racks = network.racks();
        let mut all = Self::zero(racks);
        let hosts: usize = (0..racks).map(|r| network.hosts_of(r)).sum();
        for src in 0..racks {
            let others = hosts - network.hosts_of(src);
            for dst in (0..racks).filter(|&dst| dst != src) {
                *all.rate_mut(src, dst) = network.nics_of(src) * network.hosts_of(dst) as f64 / others as f64;
            }
        }
        all
    }

    /// Every rack sends to the one half of all racks further, at the rate of the slower side's NICs: a permutation that no switch keeps local.
    pub fn stride(network: &Network) -> Self {
        let racks = network.racks();
        let mut all = Self::zero(racks);
        for src in 0..racks {
            let dst = (src + racks / 2) % racks;
            if src != dst {
                *all.rate_mut(src, dst) = network.nics_of(src).min(network.nics_of(dst));
            }
        }
        all
    }

    /// Number of racks.
    pub fn racks(&self) -> usize {
        self.racks
    }

    /// The rate from one rack to another.
    pub fn rate(&self, src: usize, dst: usize) -> f64 {
        self.rates[src * self.racks + dst]
    }

    /// The same, to be changed.
    pub fn rate_mut(&mut self, src: usize, dst: usize) -> &mut f64 {
        &mut self.rates[src * self.racks + dst]
    }

    /// All rates, to be changed.
    pub fn rates_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        self.rates.iter_mut()
    }

    /// What a rack sends.
    pub fn sent(&self, src: usize) -> f64 {
        (0..self.racks).map(|dst| self.rate(src, dst)).sum()
    }

    /// What a rack receives.
    pub fn received(&self, dst: usize) -> f64 {
        (0..self.racks).map(|src| self.rate(src, dst)).sum()
    }

    /// What the busiest link needs at least, by what racks send and receive and what leads out of them; and the arcs of that rack.
    pub fn busiest_cut(&self, network: &Network) -> (f64, Vec<usize>) {
        let needed = |rate: f64, capacity: f64| if rate > 0.0 && capacity > 0.0 { rate / capacity } else { 0.0 };
        let of = |rack: usize| {
            let [out, into] = network.rack_cut(rack);
            let (sent, received) = (needed(self.sent(rack), out), needed(self.received(rack), into));
            (sent.max(received), rack, received > sent)
        };
        let (most, rack, is_into) = (0..self.racks).map(of).max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are racks");
        let arcs = network.rack_arcs(rack).map(|arc| if is_into { network.reverse(arc) } else { arc });
        (most, arcs.filter(|arc| network.carries(*arc)).collect())
    }

    /// Adds another matrix, scaled.
    pub fn add(&mut self, other: &Self, scale: f64) {
        self.rates.iter_mut().zip(&other.rates).for_each(|(rate, more)| *rate += more * scale);
    }

    /// All rates together.
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }
}
