//! Loops of any shape for the tests of this module.

use std::sync::Arc;

use weft_fabric::topology::FabricBuilder;
use weft_fabric::{BitsPerSec, Duration, Fabric};

pub const GBPS: u64 = 1_000_000_000;

/// A fabric of loops below one layer of aggregation switches.
#[derive(Clone, Copy, Debug)]
pub struct Wiring {
    /// l: racks and ToRs of a loop.
    pub racks: usize,
    /// p: ToRs of a rack, from its own on clockwise.
    pub ports: usize,
    pub loops: usize,
    pub hosts_per_rack: usize,
    /// Aggregation switches: uplinks of a ToR.
    pub uplinks: usize,
    /// Bits per second of every link.
    pub rate: u64,
    /// ToRs are numbered in another order than that of the loop.
    pub shuffled: bool,
}

impl Default for Wiring {
    fn default() -> Self {
        Self { racks: 12, ports: 2, loops: 1, hosts_per_rack: 4, uplinks: 2, rate: 10 * GBPS, shuffled: false }
    }
}

/// Hosts are numbered by rack; the ToRs of a rack are `[own, next, ...]`.
pub fn build(wiring: Wiring) -> Arc<Fabric> {
    let Wiring { racks, ports, loops, hosts_per_rack, uplinks, rate, shuffled } = wiring;
    let rate = BitsPerSec(rate);
    let mut b = FabricBuilder::new("loops");
    let tors: Vec<_> = (0..racks * loops).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
    let aggs: Vec<_> = (0..uplinks).map(|i| b.switch(format!("agg{i}"), 2, None)).collect();
    let tor = |of_loop: usize, i: usize| {
        // 3 has no common factor with the sizes that tests shuffle.
        tors[of_loop * racks + if shuffled { i * 3 % racks } else { i % racks }]
    };
    for rack in 0..racks * loops {
        for i in 0..hosts_per_rack {
            let host = b.host(format!("h{}", rack * hosts_per_rack + i), None);
            (0..ports).for_each(|port| b.cable(host, tor(rack / racks, rack % racks + port), rate, Duration::ZERO));
        }
    }
    for &tor in &tors {
        aggs.iter().for_each(|&agg| b.cable(tor, agg, rate, Duration::ZERO));
    }
    Arc::new(b.build().unwrap())
}
