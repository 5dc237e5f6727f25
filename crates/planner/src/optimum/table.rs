//! The report for a terminal of 80 columns.

use std::fmt::Write as _;

use super::{Percentiles, Report};

/// Renders it.
pub fn render(report: &Report) -> String {
    let mut out =
        format!("{}: {} racks, {} traffic matrices ({})\n", report.fabric, report.racks, report.matrices.len(), report.traffic);
    if report.in_order {
        out += "  no group of the file is a rack of the fabric: they stand on the racks in order\n";
    }
    section(&mut out, "Busiest link between switches, utilisation in %", &report.utilisation, |it| format!("{:.1}", 100.0 * it));
    section(&mut out, "The same, divided by the optimum's", &report.distance, |it| format!("{it:.2}"));
    let gap = report.matrices.iter().map(|row| row.optimum / row.optimum_at_least - 1.0).fold(0.0, f64::max);
    let _ = writeln!(out, "\noptimum: found and certified, at most {:.1} % above the best possible one", 100.0 * gap);
    out += "ecmp: shortest paths, evenly; vlb: by all switches of the highest tier, evenly;\nsingle: one shortest path per pair of racks\n";
    out
}

fn section(out: &mut String, title: &str, rows: &[Percentiles], form: impl Fn(f64) -> String) {
    let _ = writeln!(out, "\n{title}\n  {:<10} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "p10", "p50", "p90", "p99", "max");
    for row in rows {
        let [a, b, c, d, e] = row.values.map(&form);
        let _ = writeln!(out, "  {:<10} {a:>8} {b:>8} {c:>8} {d:>8} {e:>8}", row.routing);
    }
}
