//! The study as one HTML file: the switches by tier, coloured by what the failure of each costs, and the distributions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parts::Kind;
use super::study::{State, Study};
use super::table;
use crate::analyze::report::html::STYLE;
use crate::analyze::report::svg::{Axis, Curve, escape, plot};
use crate::network::Network;

/// Renders it.
pub fn render(network: &Network, study: &Study) -> String {
    let title = format!("Failures of {}", study.fabric);
    let plots =
        [heat_map(network, study), curve("One failure", &study.single), curve("Two failures", &study.pair_states)].concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>{0}</title><style>{STYLE}.map rect{{fill:var(--c1)}}.map .up{{fill:none;stroke:var(--line)}}</style></head>\n<body><main><h1>{0}</h1>\n\
<div class=\"plots\">{plots}</div>\n<pre>{1}</pre></main></body></html>\n",
        escape(&title),
        escape(&table::render(study))
    )
}

/// A row for each tier, the highest one first; a square for each switch, as full as the traffic that its failure costs.
fn heat_map(network: &Network, study: &Study) -> String {
    let mut tiers: BTreeMap<u8, Vec<&State>> = BTreeMap::new();
    for (state, (kind, tier)) in study.single.iter().zip(&study.single_kinds) {
        if *kind == Kind::Switch {
            tiers.entry(*tier).or_default().push(state);
        }
    }
    if tiers.is_empty() {
        return String::new();
    }
    let worst = tiers.values().flatten().map(|s| 1.0 - s.carried).fold(1e-9, f64::max);
    let mut squares = String::new();
    let mut y = 14.0;
    for (tier, states) in tiers.iter().rev() {
        let _ = write!(squares, "<text x=\"0\" y=\"{:.0}\">tier {tier}</text>", y + 9.0);
        for (i, state) in states.iter().enumerate() {
            let (column, row) = (i % COLUMNS, i / COLUMNS);
            let (x, y) = (48.0 + 10.5 * column as f64, y + 10.5 * row as f64);
            let cost = 1.0 - state.carried;
            let name = format!(
                "{}: {:.1} % of the traffic is lost, worst pair {:.2}",
                state.failed.join(" + "),
                100.0 * cost,
                state.worst_pair
            );
            let _ = write!(
                squares,
                "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"9\" height=\"9\" opacity=\"{:.2}\"/>\
<rect class=\"up\" x=\"{x}\" y=\"{y}\" width=\"9\" height=\"9\"/></g>",
                escape(&name),
                (cost / worst).clamp(0.0, 1.0)
            );
        }
        y += 10.5 * states.len().div_ceil(COLUMNS) as f64 + 10.0;
    }
    let caption = format!("Traffic lost by the failure of a switch: none to {:.1} % ({} racks)", 100.0 * worst, network.racks());
    format!(
        "<figure><figcaption>{}</figcaption><svg class=\"map\" viewBox=\"0 0 560 {y:.0}\">{squares}</svg></figure>",
        escape(&caption)
    )
}

/// The fraction of states that carry at most so much.
fn curve(name: &'static str, states: &[State]) -> String {
    if states.len() < 2 {
        return String::new();
    }
    let cumulative = |value: fn(&State) -> f64| {
        let mut all: Vec<f64> = states.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        let count = all.len() as f64;
        all.into_iter().enumerate().map(|(i, value)| (value, (i + 1) as f64 / count)).collect()
    };
    let curves = [
        Curve { name: "carried", points: cumulative(|s| s.carried) },
        Curve { name: "worst pair", points: cumulative(|s| s.worst_pair) },
    ];
    let axis = |label| Axis { label, is_log: false, form: |it| format!("{:.0} %", 100.0 * it) };
    plot(name, &axis("fraction of the healthy network"), &axis("cumulative fraction of states"), &curves)
}

const COLUMNS: usize = 48;
