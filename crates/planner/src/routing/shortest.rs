//! Dijkstra's shortest paths between racks, by lengths of arcs. Other racks are ends: nothing passes through hosts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::network::{Index, Network};

/// Distances from a rack; its memory serves many searches.
#[derive(Debug, Default)]
pub struct Shortest {
    distance: Vec<f64>,
    parent: Vec<u32>,
    heap: BinaryHeap<(Reverse<Length>, Index)>,
}

impl Shortest {
    /// Searches from a rack: to one rack, or to all.
    pub fn search(&mut self, network: &Network, src: usize, only: Option<usize>, length: impl Fn(usize) -> f64) {
        self.distance.clear();
        self.distance.resize(network.len(), f64::INFINITY);
        self.parent.resize(network.len(), NONE);
        self.distance[src] = 0.0;
        self.heap.clear();
        self.heap.push((Reverse(Length(0.0)), src as Index));
        while let Some((Reverse(Length(distance)), node)) = self.heap.pop() {
            if only == Some(node as usize) {
                break;
            }
            if distance > self.distance[node as usize] || (network.is_rack(node) && node as usize != src) {
                continue;
            }
            for arc in network.out(node) {
                let to = network.arcs()[arc].to;
                if only.is_some_and(|only| network.is_rack(to) && to as usize != only) {
                    continue;
                }
                let longer = distance + length(arc);
                if longer < self.distance[to as usize] {
                    self.distance[to as usize] = longer;
                    self.parent[to as usize] = arc as u32;
                    self.heap.push((Reverse(Length(longer)), to));
                }
            }
        }
    }

    /// The distance of a rack; infinite if there is no path.
    pub fn distance(&self, dst: usize) -> f64 {
        self.distance[dst]
    }

    /// The arcs of the path to a rack, the last one first.
    pub fn path<'a>(&'a self, network: &'a Network, src: usize, dst: usize) -> impl Iterator<Item = usize> + 'a {
        let mut node = dst;
        std::iter::from_fn(move || {
            let arc = (node != src).then(|| self.parent[node] as usize)?;
            node = network.arcs()[arc].from as usize;
            Some(arc)
        })
    }
}

/// An ordered length: never NaN.
#[derive(Debug, PartialEq)]
struct Length(f64);

impl Eq for Length {}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Length {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

const NONE: u32 = u32::MAX;
