//! Designs compared by cost and throughput: which ones no other beats, and what they are at equal money or equal throughput.

use serde::Serialize;

use super::{Bill, Equalize};
use crate::throughput::Throughput;

/// A design with its bill.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    /// What it costs.
    #[serde(flatten)]
    pub bill: Bill,
    /// What it carries.
    pub throughput: Throughput,
    /// Whether no other design is as cheap by server, as fast (p99) and as fast under failure, and better in one of these: the Pareto front.
    pub on_front: bool,
    /// Scaled to the others, with `--equal`.
    pub equal: Option<Equal>,
}

/// A design scaled to the money or the throughput of another one, linearly: real designs grow in steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Equal {
    /// Price by server.
    pub per_server: f64,
    /// Throughput that 99 % of the matrices reach, in bits per second for each server.
    pub p99_bps: f64,
    /// Throughput under failure.
    pub failure_bps: f64,
}

/// Several designs, in the order they were given.
#[derive(Clone, Debug, Serialize)]
pub struct Designs {
    /// Each of them.
    pub designs: Vec<Design>,
}

impl Design {
    /// A design by itself.
    pub const fn new(bill: Bill, throughput: Throughput) -> Self {
        Self { bill, throughput, on_front: true, equal: None }
    }

    /// Price by server, and throughput with its sign turned: less is better in each.
    fn merits(&self) -> [f64; 3] {
        [self.bill.per_server, -self.throughput.p99_bps, -self.throughput.failure_bps]
    }
}

impl Designs {
    /// Compares them.
    pub fn new(mut designs: Vec<Design>, equal: Option<Equalize>) -> Self {
        let merits: Vec<[f64; 3]> = designs.iter().map(Design::merits).collect();
        for (design, is_best) in designs.iter_mut().zip(front(&merits)) {
            design.on_front = is_best;
        }
        let cheapest = designs.iter().map(|it| it.bill.per_server).fold(f64::INFINITY, f64::min);
        let fastest = designs.iter().map(|it| it.throughput.p99_bps).fold(0.0, f64::max);
        for design in &mut designs {
            let (price, p99) = (design.bill.per_server, design.throughput.p99_bps);
            let scale = equal.map(|equal| match equal {
                Equalize::Money => cheapest / price.max(f64::MIN_POSITIVE),
                Equalize::Throughput => fastest / p99.max(f64::MIN_POSITIVE),
            });
            design.equal = scale.map(|scale| Equal {
                per_server: price * scale,
                p99_bps: p99 * scale,
                failure_bps: design.throughput.failure_bps * scale,
            });
        }
        Self { designs }
    }
}

/// By design: whether none is at least as good in all merits and better in one; less is better. Equal designs are all on the front.
pub fn front<const N: usize>(merits: &[[f64; N]]) -> Vec<bool> {
    // Sums of floating-point numbers differ in their last digits.
    let is_less = |a: f64, b: f64| a < b - b.abs() * 1e-9;
    let beats = |a: &[f64; N], b: &[f64; N]| {
        a.iter().zip(b).all(|(a, b)| !is_less(*b, *a)) && a.iter().zip(b).any(|(a, b)| is_less(*a, *b))
    };
    merits.iter().map(|it| !merits.iter().any(|other| beats(other, it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        let merits = [[1.0, -1.0], [2.0, -3.0], [2.0, -2.0], [3.0, -3.0], [2.0 + 1e-12, -3.0]];
        assert_eq!(front(&merits), [true, true, false, false, true]);
    }
}
