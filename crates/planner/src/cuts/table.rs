//! The report for a terminal of 80 columns.

use std::fmt::Write as _;

use weft_fabric::BitsPerSec;

use super::{Connectivity, Report};

/// Renders it.
pub fn render(report: &Report) -> String {
    let mut out = format!("{}: {} switches, {} cables between them", report.fabric, report.switches, report.cables);
    if !report.without.is_empty() {
        let _ = write!(out, ", without {}", report.without.join(", "));
    }
    out += "\n\n";
    connectivity(&mut out, "edge connectivity", "any two switches", report.edge_connectivity.as_ref());
    connectivity(&mut out, "between racks", "any two switches with hosts", report.between_racks.as_ref());
    let it = &report.bisection;
    let [nics, in_order, smallest] = [it.nic_bps, it.in_order_bps, it.smallest_bps].map(BitsPerSec);
    let percent = 100.0 * it.in_order_bps as f64 / it.nic_bps.max(1) as f64;
    let _ = writeln!(out, "bisection: {in_order} from the first half of the racks to the second");
    let _ = writeln!(out, "  ({percent:.1} % of {nics}, the NICs of a half); smallest of {} halvings: {smallest}", it.halvings);
    if !report.flows.is_empty() {
        let _ = writeln!(out, "\n  {:<16} {:<16} {:>14} {:>15}", "from", "to", "maximum flow", "disjoint paths");
    }
    for flow in &report.flows {
        let rate = BitsPerSec(flow.bps).to_string();
        let _ = writeln!(out, "  {:<16} {:<16} {rate:>14} {:>15}", flow.from, flow.to, flow.disjoint_paths);
    }
    if let Some(seconds) = &report.seconds {
        let micros = |it: f64| format!("{:.2} us", 1e6 * it);
        let [a, b, c] = [seconds.flows, seconds.edge_connectivity, seconds.bisection].map(micros);
        let _ = writeln!(out, "\ncomputed in: flows {a}, edge connectivity {b}, bisection {c}");
    }
    out
}

fn connectivity(out: &mut String, title: &str, of: &str, found: Option<&Connectivity>) {
    let Some(it) = found else { return };
    let count = if it.cables == 1 { "1 cable parts".to_owned() } else { format!("{} cables part", it.cables) };
    let _ = writeln!(out, "{title}: {count} {} from {}; no fewer part {of}", it.apart[0], it.apart[1]);
    if it.cut.is_empty() {
        return;
    }
    let link = |link: &super::CutLink| {
        let times = if link.cables > 1 { format!("{} x ", link.cables) } else { String::new() };
        format!("{times}{}-{}", link.from, link.to)
    };
    let shown: Vec<String> = it.cut.iter().take(SHOWN).map(link).collect();
    let more = it.cut.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let _ = writeln!(out, "  {}{more}", shown.join(", "));
}

/// Links of a cut that are named.
const SHOWN: usize = 4;
