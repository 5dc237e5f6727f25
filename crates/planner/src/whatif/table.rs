//! The study for a terminal of 80 columns.

use std::fmt::Write as _;

use super::study::{Availability, Pairs, Study, WorstState};
use crate::routing::optimum::Bounds;

/// Renders it.
pub fn render(study: &Study) -> String {
    let mut out = format!("{}: {} racks, traffic {}\n", study.fabric, study.racks, study.traffic);
    let healthy = &study.healthy;
    let _ = writeln!(
        out,
        "  without failures ECMP carries {} of it, all pairs alike{}",
        percent(healthy.throughput.min(1.0)),
        best(healthy.optimum)
    );
    let _ = writeln!(out, "\nOne failure, in % of what the healthy network has");
    let _ = writeln!(out, "  {:<16} {:>6}  {:>15}  {:>15}  {:>14}", "", "", "carried", "all alike", "racks cut off");
    let _ = writeln!(
        out,
        "  {:<16} {:>6}  {:>7} {:>7}  {:>7} {:>7}  {:>14}",
        "part", "count", "mean", "worst", "mean", "worst", "pairs, worst"
    );
    for row in &study.kinds {
        let name =
            format!("{:?}", row.kind).to_lowercase() + &if row.tier > 0 { format!(", tier {}", row.tier) } else { String::new() };
        let [carried, throughput] = [row.carried, row.throughput].map(|of| of.map(number));
        let (count, cut) = (row.parts, row.disconnected);
        let _ = writeln!(
            out,
            "  {name:<16} {count:>6}  {:>7} {:>7}  {:>7} {:>7}  {cut:>14}",
            carried[0], carried[1], throughput[0], throughput[1]
        );
    }
    study.pairs.iter().for_each(|pairs| two(&mut out, pairs));
    worst(&mut out, &study.worst);
    study.availability.iter().for_each(|it| year(&mut out, it));
    out += "\ncarried: each pair of racks as fast as its busiest link allows, by ECMP\nall alike: all connected pairs slowed down by the same factor\n";
    out
}

fn two(out: &mut String, pairs: &Pairs) {
    let how =
        if pairs.evaluated < pairs.all { format!("{} of {}, drawn", pairs.evaluated, pairs.all) } else { pairs.all.to_string() };
    let _ = writeln!(out, "\nTwo failures ({how})");
    let _ = writeln!(out, "  {:<16} {:>8} {:>8} {:>8} {:>8}", "", "worst", "1 %", "5 %", "median");
    for (name, of) in [("carried", pairs.carried), ("all alike", pairs.throughput)] {
        let [a, b, c, d] = of.map(number);
        let _ = writeln!(out, "  {name:<16} {a:>8} {b:>8} {c:>8} {d:>8}");
    }
    let _ = writeln!(out, "  {} of them cut racks off", percent(pairs.disconnecting));
}

fn worst(out: &mut String, states: &[WorstState]) {
    let _ = writeln!(out, "\nThe worst");
    for WorstState { state, optimum } in states {
        let _ = writeln!(out, "  {}", state.failed.join(" + "));
        let cut = if state.disconnected > 0 { format!(", {} pairs of racks cut off", state.disconnected) } else { String::new() };
        let (carried, alike) = (percent(state.carried), percent(state.throughput));
        let _ = writeln!(out, "    carried {carried}, all alike {alike}{}{cut}", best(*optimum));
    }
}

fn year(out: &mut String, it: &Availability) {
    let _ = writeln!(out, "\nA year, by the rates of failure ({} states drawn)", it.draws);
    let _ = writeln!(out, "  all parts work: {} of the time; carried on average: {}", percent(it.healthy), percent(it.carried));
    for (days, what) in [
        (it.days_below, format!("less than {} is carried", percent(it.level))),
        (it.days_pair_below, format!("some pair of racks has less than {}", percent(it.level))),
        (it.days_disconnected, "some pair of racks is cut off".to_owned()),
    ] {
        let _ = writeln!(out, "  {:>9.3} +- {:<7.3} days: {what}", days[0], days[1]);
    }
}

/// What the best routing would have.
fn best(bounds: Option<Bounds>) -> String {
    bounds.map_or(String::new(), |b| {
        let [low, high] = [b.at_least, b.at_most].map(percent);
        if low == high { format!("; best routing {low}") } else { format!("; best routing {low} to {high}") }
    })
}

fn percent(fraction: f64) -> String {
    format!("{} %", number(fraction))
}

/// Percent, without the unit.
fn number(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}
