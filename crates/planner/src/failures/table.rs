//! The report for a terminal of 80 columns.

use super::stats::{FailureReport, Share};
use crate::analyze::report::table::{percent, time};

/// Renders it.
pub fn render(report: &FailureReport) -> String {
    let mut out = format!(
        "{} failures of {} devices in {}; {} shorter ones left out\n",
        report.count,
        report.devices,
        time(report.span_s),
        report.left_out_short
    );
    if let Some(d) = &report.durations_s {
        out += &format!("  duration: p50 {}, p90 {}, p99 {}, max {}\n", time(d.p50), time(d.p90), time(d.p99), time(d.max));
        let r = &report.resolved;
        out += &format!(
            "  resolved in 10 min {}, 1 h {}, 1 day {}; after 10 days {}\n",
            percent(r.in_10_minutes),
            percent(r.in_1_hour),
            percent(r.in_1_day),
            percent(r.longer_than_10_days)
        );
    }
    if let Some(g) = &report.group_sizes {
        let (four, twenty) = (percent(report.groups_below_4), percent(report.groups_below_20));
        out += &format!("  groups: {}, fewer than 4 devices {four}, than 20 {twenty}; largest {}\n", g.count, g.max);
    }
    shares(&mut out, "kind", &report.by_kind);
    shares(&mut out, "cause", &report.by_cause);
    if let Some(h) = &report.hidden {
        out += &format!("\nOn {}\n", h.fabric);
        out += &format!("  {} of {} failures hidden ({})\n", h.hidden, h.replayed, percent(h.hidden_fraction));
        let (cut, hours) = (time(h.time_with_hosts_cut_off_s), h.host_hours_lost);
        out += &format!("  hosts cut off for {cut}: {hours:.2} host hours, {} hosts at most\n", h.most_hosts_cut_off);
        out += &format!("  failures with all switches of a place down: {}\n", h.whole_place_down);
        if let Some(first) = &h.first_unknown {
            out += &format!("  left out: {} failures of devices that it does not have, first `{first}`\n", h.unknown);
        }
    }
    out
}

fn shares(out: &mut String, name: &str, shares: &[Share]) {
    *out +=
        &format!("\n  {name:<16}{:>7}{:>8}{:>12}{:>9}{:>11}{:>13}\n", "count", "devices", "downtime", "of all", "MTTR", "MTBF");
    for share in shares.iter().take(12) {
        let name: String = share.name.chars().take(16).collect();
        *out += &format!(
            "  {name:<16}{:>7}{:>8}{:>12}{:>9}{:>11}{:>13}\n",
            share.count,
            share.devices,
            time(share.downtime_s),
            percent(share.fraction),
            time(share.mttr_s),
            time(share.mtbf_s)
        );
    }
}
