//! Cuts: no more can leave or enter a part of the fabric than its boundary carries.
//!
//! The parts are every host, every edge switch with the hosts that have no other, and every pod with the hosts that have no switch
//! outside of it.

use std::collections::BTreeMap;

use crate::ids::{HostId, LinkId, NodeId};
use crate::routing::optimal::Demand;
use crate::topology::{Fabric, Health};

/// The fraction that the tightest cut lets through, perhaps above 1.
pub(super) fn fraction(fabric: &Fabric, health: &Health, flows: &[Demand]) -> f64 {
    // By node: itself; hosts of several NICs stand alone.
    let hosts = tightest(fabric, health, flows, |node| fabric.as_host(node).map(|h| h.0));
    let edges = tightest(fabric, health, flows, |node| match fabric.as_host(node) {
        Some(host) => common(fabric, host, |switch| Some(switch.0)),
        None => (fabric.node(node).tier == 1).then_some(node.0),
    });
    let pods = tightest(fabric, health, flows, |node| match fabric.as_host(node) {
        Some(host) => common(fabric, host, |switch| fabric.node(switch).pod),
        None => fabric.node(node).pod,
    });
    hosts.min(edges).min(pods)
}

/// What all switches of a host agree in.
fn common(fabric: &Fabric, host: HostId, part: impl Fn(NodeId) -> Option<u32>) -> Option<u32> {
    let mut parts = fabric.out(host.node()).iter().map(|&l| part(fabric.link(l).to));
    let first = parts.next()??;
    parts.all(|p| p == Some(first)).then_some(first)
}

/// Over all parts, what the boundary carries against what must cross it, out and in.
fn tightest(fabric: &Fabric, health: &Health, flows: &[Demand], part: impl Fn(NodeId) -> Option<u32>) -> f64 {
    let part_of: Vec<Option<u32>> = (0..fabric.nodes().len()).map(|i| part(NodeId::from(i))).collect();
    // By part: demand and capacity, out and in.
    let mut demand: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for &(src, dst, rate) in flows {
        let ends = [src, dst].map(|h| part_of[h.index()]);
        if ends[0] != ends[1] {
            for (way, end) in ends.into_iter().enumerate() {
                if let Some(p) = end {
                    demand.entry(p).or_default()[way] += rate;
                }
            }
        }
    }
    let mut capacity: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for link in (0..fabric.links().len()).map(LinkId::from).filter(|&l| health.is_up(l)).map(|l| fabric.link(l)) {
        let ends = [link.from, link.to].map(|n| part_of[n.index()]);
        if ends[0] != ends[1] {
            for (way, end) in ends.into_iter().enumerate() {
                if let Some(p) = end {
                    capacity.entry(p).or_default()[way] += link.capacity.as_f64();
                }
            }
        }
    }
    let mut tightest = f64::INFINITY;
    for (p, demand) in demand {
        let capacity = capacity.get(&p).copied().unwrap_or_default();
        for way in 0..2 {
            if demand[way] > 0.0 {
                tightest = tightest.min(capacity[way] / demand[way]);
            }
        }
    }
    tightest
}
