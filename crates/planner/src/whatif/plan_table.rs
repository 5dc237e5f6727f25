//! The table of a plan of growth.

use std::fmt::Write as _;

use super::growth::{ROUNDING, Transition};
use super::plan::{Growth, Stage, State};

/// Renders it for a terminal of 80 columns.
pub fn render(growth: &Growth) -> String {
    let percent = |fraction: f64| format!("{:.1} %", 100.0 * fraction);
    let level = percent(growth.service_level);
    let mut out = format!("Growth of {}, traffic {}, service level {level}\n", growth.start.fabric, growth.traffic);
    let _ = writeln!(out, "\n  {:<24} {:>8} {:>10} {:>10} {:>11} {:>9}", "step", "servers", "carried", "Gbps", "price", "lowest");
    let row = |name: &str, state: &State, lowest: &str| {
        let (carried, gbps) = (percent(state.throughput), state.throughput_bps / 1e9);
        let money = state.cost.as_ref().map_or(String::new(), |it| format!("{:.0}", it.total));
        format!("  {name:<24.24} {:>8} {carried:>10} {gbps:>10.1} {money:>11} {lowest:>9}\n", state.servers)
    };
    out += &row("before", &growth.start, "");
    for step in &growth.steps {
        out += &row(&step.name, &step.state, &step.transition.lowest.map_or("none".to_owned(), percent));
    }
    for step in &growth.steps {
        let Transition { changes, kept_traffic, .. } = &step.transition;
        let (new, old, renamed) = (changes.switches_added.len(), changes.switches_removed.len(), changes.switches_renamed.len());
        let renamed = if renamed > 0 { format!(", {renamed} with another name") } else { String::new() };
        let _ = writeln!(out, "\n{}: switches +{new} -{old}{renamed}", step.name);
        let mut row = |what: &str, [added, removed, moved]: [usize; 3]| {
            let _ = writeln!(out, "  {what}: {added} added, {removed} removed, {moved} moved");
        };
        row("cables between switches", [changes.cables_added, changes.cables_removed, changes.cables_moved]);
        row("cables of servers", [changes.server_cables_added, changes.server_cables_removed, changes.server_cables_moved]);
        if *kept_traffic < 1.0 - ROUNDING {
            let _ = writeln!(out, "  racks that go have {:.1} % of the traffic, which is left out", 100.0 * (1.0 - kept_traffic));
        }
        if let Some(cost) = &step.state.cost {
            let _ = writeln!(out, "  {:+.0} {}", cost.difference, cost.currency);
            for (sign, lines) in [('+', &cost.bought), ('-', &cost.freed)] {
                for (part, unit, count) in lines {
                    let _ = writeln!(out, "    {sign}{count:.0} {unit}: {part}");
                }
            }
        }
        if !step.met {
            let _ = writeln!(out, "  below the service level: {}", reason(step, growth.service_level));
        }
    }
    out += "\ncarried: the fraction of the traffic on the fabric after the step, by ECMP, all pairs alike\n\
            lowest: of the traffic before the step, while the cables of one switch after the other are changed\n";
    out
}

/// Why a step does not meet the level.
fn reason(step: &Stage, level: f64) -> String {
    match (step.transition.lowest, &step.transition.lowest_batch) {
        (None, _) => {
            "it cannot be changed in place (no traffic is between racks that stay, or old and new are not connected)".to_owned()
        }
        (Some(lowest), Some(switch)) if lowest < level => format!("while {switch} is changed"),
        (Some(lowest), None) if lowest < level => "before the step already".to_owned(),
        _ => "after the step".to_owned(),
    }
}
