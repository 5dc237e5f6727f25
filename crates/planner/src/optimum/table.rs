//! The report for a terminal of 80 columns.

use std::fmt::Write as _;

use super::report::{QUANTILES, Report, RunReport, quantile};

/// Renders it.
pub fn render(report: &Report) -> String {
    let mut out = report.runs.iter().map(of_run).collect::<Vec<_>>().join("\n");
    out += "\nadaptive: the best routing of each matrix; oblivious: the best that is the same\nfor all; vlb: by all switches of the highest tier, evenly; ecmp: shortest paths,\nevenly; wcmp: the same by capacity; single: one shortest path per pair of racks;\nspain: its paths, evenly\n";
    if report.runs.iter().any(|run| run.comparison.routings.contains(&"hash")) {
        out += "hash: each flow by the switches' hash; first-fit and so on: each flow by a scheduler;\na matrix is divided into flows of at most the rate of a NIC\n";
    }
    out
}

fn of_run(run: &RunReport) -> String {
    let mut out = String::new();
    for (key, value) in &run.set {
        let _ = writeln!(out, "{key} = {value}");
    }
    let matrices = if run.matrices == 1 { "1 traffic matrix".to_owned() } else { format!("{} traffic matrices", run.matrices) };
    let _ = writeln!(out, "{}: {} racks, {matrices} ({})", run.fabric, run.racks, run.traffic);
    if run.in_order {
        out += "  no group of the file is a rack of the fabric: they stand on the racks in order\n";
    }
    let all = &run.comparison;
    let sorted = |values: Vec<f64>| {
        let mut values = values;
        values.retain(|it| !it.is_nan());
        values.sort_by(f64::total_cmp);
        values
    };
    let percent = |it: f64| format!("{:.1}", 100.0 * it);
    let busiest: Vec<Vec<f64>> = all.busiest.iter().map(|values| sorted(values.clone())).collect();
    let names = &all.routings;
    section(&mut out, "Busiest link between switches by matrix, utilisation in %", names, &busiest, percent);
    let distance = |values: &Vec<f64>| sorted(values.iter().zip(&all.busiest[0]).map(|(it, best)| it / best).collect());
    let distances: Vec<Vec<f64>> = all.busiest.iter().map(distance).collect();
    section(&mut out, "The same, divided by the adaptive routing's", &names[1..], &distances[1..], |it| format!("{it:.2}"));
    if run.placed_matrices < run.matrices {
        let _ = writeln!(out, "\nhash and schedulers: {} of the matrices, evenly spaced", run.placed_matrices);
    }
    if run.matrices > 1 {
        let complete = |i: &usize| all.is_complete(*i);
        let (names, links): (Vec<_>, Vec<_>) =
            (0..names.len()).filter(complete).map(|i| (names[i], all.links[i].clone())).unzip();
        section(&mut out, "Links by the largest load of each under any matrix, utilisation in %", &names, &links, percent);
    }
    let gap = all.busiest[0].iter().zip(&all.adaptive_at_least).map(|(found, least)| found / least - 1.0).fold(0.0, f64::max);
    let needed = quantile(&busiest[1], 1.0);
    let _ = writeln!(
        out,
        "\nabove the best possible one at most: adaptive {:.1} %, oblivious {:.1} %",
        100.0 * gap,
        100.0 * (needed / run.oblivious_at_least - 1.0)
    );
    let shown = run.binding.iter().take(4).map(|it| format!("{} > {} {:.0} %", it.from, it.to, 100.0 * it.part));
    let _ = writeln!(out, "links that bind (at {} s): {}", run.start_s[all.binding.0], shown.collect::<Vec<_>>().join(", "));
    let [vlb, at_least] = all.hose;
    let _ = writeln!(
        out,
        "any traffic that the NICs admit: VLB needs {:.1} % of its busiest link, no routing\nless than {:.1} %",
        100.0 * vlb,
        100.0 * at_least
    );
    out
}

fn section(out: &mut String, title: &str, names: &[&str], rows: &[Vec<f64>], form: impl Fn(f64) -> String) {
    let _ = write!(out, "\n{title}\n  {:<18}", "");
    QUANTILES.iter().for_each(|(name, _)| {
        let _ = write!(out, " {name:>8}");
    });
    out.push('\n');
    for (routing, sorted) in names.iter().zip(rows) {
        let _ = write!(out, "  {routing:<18}");
        QUANTILES.iter().for_each(|(_, q)| {
            let _ = write!(out, " {:>8}", form(quantile(sorted, *q)));
        });
        out.push('\n');
    }
}
