//! Small fabrics and random flows for the tests of this module, and a scheduler that remembers what it takes over.

use std::sync::{Arc, Mutex};

use rand::RngExt;
use weft_fabric::record::ControlRecord;
use weft_fabric::rng::{Pcg64, Stream, stream};
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::FabricBuilder;
use weft_fabric::topology::shapes::{self, Cabling};
use weft_fabric::{BitsPerSec, Duration, Fabric, HostId};

use crate::controller::{Controller, Input, Output};
use crate::hedera::Hedera;
use crate::time::Instant;

const GIGABIT: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };

pub fn fat_tree(k: u32) -> Arc<Fabric> {
    Arc::new(shapes::fat_tree(k, GIGABIT).unwrap())
}

pub fn single(hosts: u32) -> Arc<Fabric> {
    Arc::new(shapes::single_switch(hosts, GIGABIT).unwrap())
}

/// Two levels: every leaf to every spine, all at the speed of a NIC.
pub fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> Arc<Fabric> {
    let mut b = FabricBuilder::new("leaf-spine");
    let tors: Vec<_> = (0..leaves).map(|i| b.switch(format!("leaf{i}"), 1, None)).collect();
    let tops: Vec<_> = (0..spines).map(|i| b.switch(format!("spine{i}"), 2, None)).collect();
    for (i, &tor) in tors.iter().enumerate() {
        for j in 0..hosts_per_leaf {
            let host = b.host(format!("h{}", i as u32 * hosts_per_leaf + j), None);
            b.cable(host, tor, GIGABIT.rate, GIGABIT.delay);
        }
        tops.iter().for_each(|&top| b.cable(tor, top, GIGABIT.rate, GIGABIT.delay));
    }
    Arc::new(b.build().unwrap())
}

/// VL2's folded Clos in small: ToRs to two aggregation switches each, these to all intermediates, at 10 times the speed of a NIC.
pub fn clos(aggs: u32, tors: u32, intermediates: u32) -> Arc<Fabric> {
    let mut b = FabricBuilder::new("clos");
    let edge: Vec<_> = (0..tors).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
    let middle: Vec<_> = (0..aggs).map(|i| b.switch(format!("agg{i}"), 2, None)).collect();
    let top: Vec<_> = (0..intermediates).map(|i| b.switch(format!("int{i}"), 3, None)).collect();
    let trunk = BitsPerSec(10 * GIGABIT.rate.0);
    for (i, &tor) in edge.iter().enumerate() {
        for j in 0..3 {
            let host = b.host(format!("h{}", i * 3 + j), None);
            b.cable(host, tor, GIGABIT.rate, GIGABIT.delay);
        }
        b.cable(tor, middle[i % aggs as usize], trunk, GIGABIT.delay);
        b.cable(tor, middle[(i + 1) % aggs as usize], trunk, GIGABIT.delay);
    }
    for &m in &middle {
        top.iter().for_each(|&t| b.cable(m, t, trunk, GIGABIT.delay));
    }
    Arc::new(b.build().unwrap())
}

pub fn rng(seed: u64) -> Pcg64 {
    stream(seed, Stream::Traffic)
}

/// Random pairs of unlike hosts, keyed by their number.
pub fn random_flows(hosts: u32, flows: u32, seed: u64) -> Vec<FlowKey> {
    let mut rng = rng(seed);
    (0..flows)
        .map(|i| {
            let src = rng.random_range(0..hosts);
            let dst = (src + rng.random_range(1..hosts)) % hosts;
            FlowKey::of_flow(i, HostId(src), HostId(dst))
        })
        .collect()
}

/// Every host sends to one other host and receives from one.
pub fn bijection(hosts: u32, seed: u64) -> Vec<FlowKey> {
    let mut rng = rng(seed);
    let mut order: Vec<u32> = (0..hosts).collect();
    for i in (1..hosts).rev() {
        order.swap(i as usize, rng.random_range(0..=i) as usize);
    }
    // A random cycle through all hosts has no fixed point.
    (0..hosts as usize).map(|i| FlowKey::of_flow(i as u32, HostId(order[i]), HostId(order[(i + 1) % hosts as usize]))).collect()
}

/// A scheduler, and what a network reports to it: flows that another scheduler placed, and the end of flows.
pub struct Recorder(pub Hedera, pub Arc<Mutex<Vec<Heard>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Placed(FlowKey, Path),
    Removed(FlowKey),
}

impl Controller for Recorder {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let heard = match input {
            Input::Placed(flow, path) => Some(Heard::Placed(flow, Path::from_slice(path))),
            Input::FlowRemoved(counter) => Some(Heard::Removed(counter.flow)),
            _ => None,
        };
        self.1.lock().unwrap().extend(heard);
        self.0.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        self.0.poll()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn record(&self) -> ControlRecord {
        self.0.record()
    }
}
