//! The splittable optimum: how much of the traffic could be carried if every flow spread freely over all paths.
//!
//! This is the maximum concurrent flow: the largest fraction f such that f times every flow's rate fits at once. No routing of whole
//! flows and no scheduler does better, so it bounds them all. Three steps, each only if the one before did not settle it:
//!
//! 1. Split every flow evenly, hop by hop, over the shortest paths. What fits is a lower bound.
//! 2. Around every host, edge switch and pod, compare what must leave with what can. The tightest cut is an upper bound. In a
//!    healthy fat-tree, folded Clos or two-level tree both are the same: the symmetries of the fabric exchange the switches above a
//!    rack and the cores above a pod, so averaging an optimum over them is an optimum that loads their links evenly.
//! 3. Where they differ (failures, a clique, the VL2 testbed), a linear program, if it is small enough.

mod cuts;
mod even_split;
mod program;

use crate::ids::HostId;
use crate::topology::{Fabric, Health};

/// A flow's ends and rate in bits per second.
pub type Demand = (HostId, HostId, f64);

/// The largest fraction, at most 1, of all flows' rates that can be carried at once with free splitting; 0 if some flow has no way.
/// `None` if the linear program that it takes would be too large ([`MAX_VARIABLES`]).
///
/// # Panics
/// If a rate is negative or not finite, or a flow's ends are the same.
pub fn splittable_fraction(fabric: &Fabric, health: &Health, flows: &[Demand]) -> Option<f64> {
    assert!(
        flows.iter().all(|&(src, dst, rate)| src != dst && rate.is_finite() && rate >= 0.0),
        "flows have two ends and a rate"
    );
    let flows: Vec<Demand> = flows.iter().copied().filter(|f| f.2 > 0.0).collect();
    let Some(lower) = even_split::fraction(fabric, health, &flows) else { return Some(0.0) };
    let upper = cuts::fraction(fabric, health, &flows).min(1.0);
    if lower >= upper * (1.0 - SAME) {
        return Some(lower.min(upper));
    }
    let exact = program::fraction(fabric, health, &flows, upper)?;
    Some(exact.clamp(lower, upper))
}

/// Variables of a linear program that is still solved: seconds of work.
pub const MAX_VARIABLES: usize = 4_000;

/// Bounds that agree up to rounding.
const SAME: f64 = 1e-9;

#[cfg(test)]
mod tests;
