//! Rounds put together, as JSON or as a table.

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use serde::Serialize;

use super::{Kind, Measured};

/// One kind over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// `plain` and `plain, IPv6`, and `vl2`, `vl2, IPv6 inside` and `vxlan`, or `netlord` and `netlord, IPv6 inside`.
    pub name: String,
    /// Useful bits a second of one TCP stream: the middle round.
    pub goodput_bps: f64,
    /// Goodput over the plain one of the same round and the same version of IP: the middle round.
    pub ratio_to_plain: f64,
    /// The smallest such ratio.
    pub ratio_min: f64,
    /// The greatest.
    pub ratio_max: f64,
    /// The greatest goodput of all rounds over the greatest plain one: what either does while the machine leaves it alone.
    pub ratio_of_best: f64,
    /// Microseconds of the middle echo, in the best round.
    pub ping_us: f64,
    /// Seconds of CPU for a billion useful bits, in the best round.
    pub cpu_per_gbit: f64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// A case a kind.
    pub cases: Vec<Case>,
    /// Rounds.
    pub runs: usize,
}

pub(super) fn report(kinds: &[Kind], rounds: &[Vec<Measured>]) -> Report {
    let best = |at: usize| rounds.iter().map(|r| r[at].stream.goodput_bps()).fold(0.0, f64::max);
    let cases = kinds.iter().enumerate().map(|(at, kind)| {
        let plain = kinds.iter().position(|&k| k == kind.plain()).expect("what a kind is compared with is measured");
        let of = |value: fn(&Measured) -> f64| sorted(rounds.iter().map(|round| value(&round[at])).collect());
        let ratios = sorted(rounds.iter().map(|r| r[at].stream.goodput_bps() / r[plain].stream.goodput_bps()).collect());
        Case {
            name: kind.name().to_owned(),
            goodput_bps: middle(&of(|m| m.stream.goodput_bps())),
            ratio_to_plain: middle(&ratios),
            ratio_min: ratios[0],
            ratio_max: ratios[ratios.len() - 1],
            ratio_of_best: best(at) / best(plain),
            ping_us: of(|m| m.ping.as_secs_f64() * 1e6)[0],
            cpu_per_gbit: of(|m| m.stream.cpu_per_gbit())[0],
        }
    });
    Report { cases: cases.collect(), runs: rounds.len() }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

impl Report {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header(["", "goodput", "of plain", "from .. to", "best of best", "ping", "CPU per Gbit"]);
        for case in &self.cases {
            table.add_row([
                case.name.clone(),
                format!("{:.2} Gbps", case.goodput_bps / 1e9),
                format!("{:.3}", case.ratio_to_plain),
                format!("{:.3} .. {:.3}", case.ratio_min, case.ratio_max),
                format!("{:.3}", case.ratio_of_best),
                format!("{:.1} us", case.ping_us),
                format!("{:.1} ms", case.cpu_per_gbit * 1e3),
            ]);
        }
        table.to_string()
    }
}
