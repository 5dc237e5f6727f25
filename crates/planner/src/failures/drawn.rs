//! A log of failures drawn at random from what VL2 section 3.4 states: how many devices fail together, and for how long.
//!
//! ```text
//!   devices of a group    below 4 in 50 %, below 20 in 95 %, 217 at most
//!   duration              30 s or more; 10 min at most in 95 %, 1 h in 98 %, 1 day in 99.6 %, 10 days in 99.91 %
//! ```
//! In between, logarithms are interpolated. How often groups fail, which switches they are, and the longest duration (30 days) the paper does not state:
//! groups begin at random, and are any switches of the fabric, each equally likely.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use weft_fabric::Fabric;

use super::log::Failure;

/// (value, fraction of the values below it).
type Quantiles = [(f64, f64)];

const GROUP: &Quantiles = &[(1.0, 0.0), (4.0, 0.5), (20.0, 0.95), (218.0, 1.0)];
const DURATION_S: &Quantiles =
    &[(30.0, 0.0), (600.0, 0.95), (3_600.0, 0.98), (86_400.0, 0.996), (864_000.0, 0.999_1), (2_592_000.0, 1.0)];
/// Devices of a group begin to fail within this time.
const SPREAD_S: f64 = 30.0;
/// Of this use of the seed.
const STREAM: u128 = 0x6661_696c_7572_6573;

/// How long a log is, and how often groups fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// Its length.
    pub days: f64,
    /// Groups of failures.
    pub groups_per_day: f64,
}

/// Draws a log, sorted by start.
pub fn draw(spec: Drawn, fabric: &Fabric, seed: u64) -> Vec<Failure> {
    let mut random = Pcg64::new(seed.into(), STREAM);
    let mut switches: Vec<(&str, u8)> = fabric.nodes()[fabric.host_count()..].iter().map(|it| (&*it.name, it.tier)).collect();
    let (mut now, end) = (0.0, spec.days * DAY_S);
    let mut failures = Vec::new();
    loop {
        now += -(1.0 - random.random::<f64>()).ln() * DAY_S / spec.groups_per_day;
        if now >= end {
            break;
        }
        let size = (at(GROUP, random.random()) as usize).clamp(1, switches.len());
        for place in 0..size {
            // The first places become the group: each switch is as likely as any other.
            let other = random.random_range(place..switches.len());
            switches.swap(place, other);
            let (device, tier) = switches[place];
            let start_s = now + SPREAD_S * random.random::<f64>();
            let end_s = start_s + at(DURATION_S, random.random());
            let kind = format!("tier {tier}");
            failures.push(Failure { start_s, end_s, device: device.to_owned(), kind, cause: "unknown".to_owned() });
        }
    }
    failures.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    failures
}

/// The value below which a fraction of the values lies.
fn at(quantiles: &Quantiles, fraction: f64) -> f64 {
    let above = quantiles.iter().position(|(_, below)| *below > fraction).unwrap_or(quantiles.len() - 1);
    let ((low, from), (high, to)) = (quantiles[above - 1], quantiles[above]);
    (low.ln() + (fraction - from) / (to - from) * (high / low).ln()).exp()
}

const DAY_S: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_that_are_stated() {
        assert!((at(GROUP, 0.5) - 4.0).abs() < 1e-9 && at(GROUP, 0.499) < 4.0);
        assert!((at(DURATION_S, 0.95) - 600.0).abs() < 1e-6 && (at(DURATION_S, 0.0) - 30.0).abs() < 1e-9);
        assert!((at(DURATION_S, 0.999_1) - 864_000.0).abs() < 1e-3 && at(DURATION_S, 0.999_999) < 2_592_000.0);
    }
}
