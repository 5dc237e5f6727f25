//! Matrices drawn at random that change as those of VL2 section 3.3 do: racks exchange traffic in one of some fifty patterns, most of them for less than
//! 100 s, and none returns soon.
//!
//! A pattern: every rack sends and receives a random share of the traffic (exponential), to partners of random weight (log-normal); so some pairs
//! exchange much and most little; `spread` is the exponent of both. Patterns are as busy as a random fraction of the load. Each interval multiplies every rate by log-normal noise. The paper gives the number of
//! patterns and how long they last; the shares are ours.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use weft_experiment::scenario::traffic::matrices::Volatile;

use crate::network::Network;
use crate::routing::matrix::Matrix;

/// Draws matrices, each with its start in seconds.
pub fn draw(spec: &Volatile, network: &Network, seed: u64) -> Vec<(f64, Matrix)> {
    let mut random = Pcg64::new(seed.into(), STREAM);
    let patterns: Vec<Matrix> = (0..spec.patterns).map(|_| pattern(spec, network, &mut random)).collect();
    let mut now = 0;
    (0..spec.intervals)
        .map(|i| {
            if i == 0 || random.random::<f64>() >= spec.stay {
                now = random.random_range(0..patterns.len());
            }
            let mut matrix = patterns[now].clone();
            matrix.rates_mut().for_each(|rate| *rate *= log_normal(NOISE, &mut random));
            limit(&mut matrix, network, spec.load);
            (f64::from(i) * spec.interval.as_secs_f64(), matrix)
        })
        .collect()
}

fn pattern(spec: &Volatile, network: &Network, random: &mut Pcg64) -> Matrix {
    let racks = network.racks();
    let mut shares = || -> Vec<f64> {
        (0..racks).map(|rack| network.nics_of(rack) * (-(1.0 - random.random::<f64>()).ln()).powf(spec.spread)).collect()
    };
    let (out, into) = (shares(), shares());
    let mut matrix = Matrix::zero(racks);
    for (src, out) in out.iter().enumerate() {
        for (dst, into) in into.iter().enumerate().filter(|(dst, _)| *dst != src) {
            *matrix.rate_mut(src, dst) = out * into * log_normal(PARTNERS * spec.spread, random);
        }
    }
    let busy = spec.load * (QUIETEST + (1.0 - QUIETEST) * random.random::<f64>());
    let busiest = busiest_rack(&matrix, network);
    matrix.rates_mut().for_each(|rate| *rate *= busy / busiest);
    matrix
}

/// Scales a matrix down to what the busiest rack may have.
fn limit(matrix: &mut Matrix, network: &Network, load: f64) {
    let excess = busiest_rack(matrix, network) / load;
    if excess > 1.0 {
        matrix.rates_mut().for_each(|rate| *rate /= excess);
    }
}

/// The largest part of its NICs that a rack uses.
fn busiest_rack(matrix: &Matrix, network: &Network) -> f64 {
    let of = |rack: usize| matrix.sent(rack).max(matrix.received(rack)) / network.nics_of(rack);
    (0..matrix.racks()).map(of).fold(0.0, f64::max)
}

fn log_normal(sigma: f64, random: &mut Pcg64) -> f64 {
    // Box and Muller.
    let (a, b) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (sigma * (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()).exp()
}

/// Of this use of the seed.
const STREAM: u128 = 0x0076_6f6c_6174_696c;
/// Standard deviations of logarithms: of the pairs in a pattern, and of the noise of an interval.
const PARTNERS: f64 = 1.0;
const NOISE: f64 = 0.3;
/// The load of the quietest pattern, as a fraction of that of the busiest.
const QUIETEST: f64 = 0.3;

#[cfg(test)]
mod tests {
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Duration, Health};

    use super::*;

    #[test]
    fn matrices_keep_to_the_load_and_change_as_often_as_asked() {
        let cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
        let fabric = Shape::FatTree { k: 4 }.build(cabling, cabling).expect("a fabric");
        let network = Network::new(&fabric, &Health::new(&fabric));
        let spec =
            Volatile { patterns: 55, intervals: 400, interval: Duration::from_secs(100), stay: 0.4, load: 0.5, spread: 1.0 };
        let drawn = draw(&spec, &network, 7);
        assert_eq!(drawn, draw(&spec, &network, 7), "the same seed");
        assert!(drawn != draw(&spec, &network, 8));
        let busiest: Vec<f64> = drawn.iter().map(|(_, m)| busiest_rack(m, &network)).collect();
        assert!(busiest.iter().all(|b| *b <= 0.5 + 1e-9) && busiest.iter().any(|b| *b > 0.45));
        // Neighbours with the same pattern differ by noise, others by much more.
        let distance = |a: &Matrix, b: &Matrix| -> f64 {
            let pairs = || (0..8).flat_map(|s| (0..8).map(move |d| (s, d)));
            let norm = |m: &Matrix| pairs().map(|(s, d)| m.rate(s, d).powi(2)).sum::<f64>().sqrt();
            pairs().map(|(s, d)| (a.rate(s, d) / norm(a) - b.rate(s, d) / norm(b)).powi(2)).sum::<f64>().sqrt()
        };
        let same = drawn.windows(2).filter(|pair| distance(&pair[0].1, &pair[1].1) < 0.5).count();
        assert!((120..=220).contains(&same), "{same} of 399 stay, of 0.4");
    }
}
