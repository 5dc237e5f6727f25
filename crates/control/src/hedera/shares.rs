//! Progressive filling, as demand estimation and the goodput of a placement need it: links in the order of their shares.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A link (or a NIC) while flows are fixed one by one: what is left of it, and how many of its flows are not fixed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub left: f64,
    pub flows: u32,
}

impl Shared {
    /// What each flow that is not fixed would get of it.
    pub fn share(&self) -> f64 {
        // Rounding may leave a hair below nothing.
        (self.left / f64::from(self.flows)).max(0.0)
    }

    /// Fixes a flow at a rate.
    pub fn fix(&mut self, rate: f64) {
        self.left -= rate;
        self.flows -= 1;
    }
}

/// A monotone priority queue: keys that are pushed are never below the last one popped.
///
/// A bucket holds the keys of one 256th of an octave (the leading bits of the float); only the bucket at the front is sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareQueue {
    /// Number of the bucket that is the first in `heads`.
    base: u64,
    /// Index in `heads` of the bucket in front.
    front: usize,
    /// By bucket: its first link, [`NONE`] if it is empty. A link is in one bucket at most.
    heads: Vec<u32>,
    next: Vec<u32>,
    keys: Vec<f64>,
    /// The bucket in front, descending, and what was pushed into it since it was sorted.
    sorted: Vec<(u64, u32)>,
    late: BinaryHeap<Reverse<(u64, u32)>>,
}

const NONE: u32 = u32::MAX;
const BUCKET_BITS: u32 = 44;

impl ShareQueue {
    /// Queues all links that have flows.
    pub fn fill(&mut self, links: &[Shared]) {
        let shares = || links.iter().filter(|l| l.flows > 0).map(Shared::share);
        let low = shares().fold(f64::INFINITY, f64::min);
        let high = links.iter().map(|l| l.left).fold(0.0, f64::max);
        // A share never exceeds the whole link, but for rounding: one bucket to spare.
        self.base = bucket(low);
        let buckets = if low.is_finite() { (bucket(high) - self.base) as usize + 2 } else { 0 };
        self.front = 0;
        self.heads.clear();
        self.heads.resize(buckets, NONE);
        self.next.clear();
        self.next.resize(links.len(), NONE);
        self.keys.clear();
        self.keys.resize(links.len(), 0.0);
        for (n, link) in links.iter().enumerate().filter(|(_, link)| link.flows > 0) {
            self.insert((bucket(link.share()) - self.base) as usize, link.share(), n as u32);
        }
        self.sort_front();
    }

    /// Queues a link again, by a share that has grown.
    pub fn push(&mut self, key: f64, n: u32) {
        // Non-negative floats compare as their bits do.
        match (bucket(key) - self.base) as usize {
            b if b <= self.front => self.late.push(Reverse((key.to_bits(), n))),
            b => self.insert(b, key, n),
        }
    }

    /// The link with the smallest share.
    pub fn pop(&mut self) -> Option<(f64, u32)> {
        loop {
            let late = self.late.peek().map(|&Reverse(entry)| entry);
            let (bits, n) = match (self.sorted.last().copied(), late) {
                (Some(a), Some(b)) if b < a => self.late.pop().map(|Reverse(entry)| entry).unwrap_or(b),
                (Some(_), _) => self.sorted.pop()?,
                (None, Some(_)) => self.late.pop()?.0,
                (None, None) if self.front + 1 >= self.heads.len() => return None,
                (None, None) => {
                    self.front += 1;
                    self.sort_front();
                    continue;
                }
            };
            return Some((f64::from_bits(bits), n));
        }
    }

    fn insert(&mut self, bucket: usize, key: f64, n: u32) {
        self.keys[n as usize] = key;
        self.next[n as usize] = std::mem::replace(&mut self.heads[bucket], n);
    }

    fn sort_front(&mut self) {
        self.sorted.clear();
        let mut n = self.heads.get(self.front).copied().unwrap_or(NONE);
        while n != NONE {
            self.sorted.push((self.keys[n as usize].to_bits(), n));
            n = self.next[n as usize];
        }
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// The number of a key's bucket: exponent and eight bits of the mantissa.
fn bucket(key: f64) -> u64 {
    key.to_bits() >> BUCKET_BITS
}
