//! Ends whose packets choose among several paths: each of them (spray), or the first after a pause (flowlets).
//!
//! Switches draw next hops; the engine draws the whole path at the host, by its probability, which is the same: packets know their
//! way ([`super::paths`]). A pause is what the first switch sees of it: from when the NIC begins to send one packet of the end until it
//! begins to send the next.
//!
//! DEVIATION: LetFlow's switches each find their own pauses, of which those further on see some more, made by the queues before them.

use weft_fabric::rng::mix;
use weft_fabric::routing;

use super::paths::Route;

/// The paths of an end.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    routes: Box<[Route]>,
    /// By route: the probability of it and those before it.
    up_to: Box<[f64]>,
    gap: u64,
    seed: u64,
    draws: u64,
    /// When the last packet left, if one has.
    left: Option<u64>,
}

impl Spread {
    /// The choice of `spread`, whose paths are these routes.
    pub fn new(routes: Box<[Route]>, spread: &routing::Spread) -> Self {
        let up_to = spread.paths.iter().scan(0.0, |sum, (_, probability)| {
            *sum += probability;
            Some(*sum)
        });
        Self { routes, up_to: up_to.collect(), gap: spread.gap.as_ps(), seed: spread.seed, draws: 0, left: None }
    }

    /// The route of a packet that leaves at `now`, if it is another draw than that of the packet before.
    pub fn draw(&mut self, now: u64) -> Option<Route> {
        let before = self.left.replace(now);
        if before.is_some_and(|left| now - left < self.gap) {
            return None;
        }
        self.draws += 1;
        let point = fraction(mix(self.seed.wrapping_add(self.draws)));
        let drawn = self.up_to.partition_point(|&up_to| up_to <= point);
        Some(self.routes[drawn.min(self.routes.len() - 1)])
    }
}

/// A hash as a fraction: at least 0 and below 1.
pub(super) fn fraction(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}
