//! Tables of `weft topo subways ... --cabling` and `--upgrade-to`.

use std::fmt::Write as _;

use weft_fabric::BitsPerSec;
use weft_fabric::cabling::{CableClass, Medium, Stretch, Survey};
use weft_fabric::upgrade::{Counts, Plan, Step, Switches};

use crate::cli::table::{align, new_table};

/// The cabling of a fabric: lengths, then what to buy.
pub fn of_cabling(survey: &Survey) -> String {
    let mut lengths = new_table();
    lengths.set_header(["cables", "rate", "count", "min m", "mean", "max", "bought as"]);
    for class in &survey.classes {
        let runs = [class.run_min_m, class.run_mean_m, class.run_max_m].map(|m| format!("{m:.2}"));
        let [least, mean, most] = runs;
        let rate = BitsPerSec(class.rate_bps).to_string();
        lengths.add_row([stretch(class.stretch).to_owned(), rate, class.count.to_string(), least, mean, most, bought(class)]);
    }
    align(&mut lengths, 2);
    let mut bill = new_table();
    bill.set_header(["item", "as sold", "count", "each", "together"]);
    for line in &survey.bill.lines {
        bill.add_row([line.item.clone(), line.size.clone(), line.count.to_string(), money(line.price), money(line.total)]);
    }
    align(&mut bill, 2);
    let copper = match (survey.servers_on_copper, survey.longest_copper_run_m) {
        (true, Some(m)) => format!("all servers on copper; longest copper run {m:.2} m"),
        (false, Some(m)) => format!("some servers need fibre; longest copper run {m:.2} m"),
        (_, None) => "no copper".to_owned(),
    };
    format!(
        "{}\n{} racks of up to {} ToRs; longest run from a server {:.2} m; {copper}\n{lengths}\n(lengths without slack; {} m of slack per cable are added \
         before it is bought)\n{bill}\ntotal: {} {}\n{}",
        survey.title,
        survey.racks,
        survey.tors_per_rack,
        survey.longest_server_run_m,
        survey.floor.slack,
        money(survey.bill.total),
        survey.bill.currency,
        if survey.bill.note.is_empty() { String::new() } else { format!("({})\n", survey.bill.note) },
    )
}

fn stretch(stretch: Stretch) -> &'static str {
    match stretch {
        Stretch::ServerInRack => "server - ToR, rack",
        Stretch::ServerAlongRow => "server - ToR, row",
        Stretch::ServerAcrossAisle => "server - ToR, aisle",
        Stretch::TorToAgg => "ToR - aggregation",
        Stretch::AggToCore => "aggregation - core",
    }
}

fn bought(class: &CableClass) -> String {
    let medium = |m| if m == Medium::Copper { "copper" } else { "fibre" };
    let lines: Vec<String> = class.lengths.iter().map(|l| format!("{} {} {} m", l.count, medium(l.medium), l.length_m)).collect();
    lines.join("\n")
}

/// Two decimals where there are any, thousands apart.
fn money(amount: f64) -> String {
    let cents = libm::round(amount * 100.0) as u64;
    let digits = (cents / 100).to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !cents.is_multiple_of(100) {
        let _ = write!(text, ".{:02}", cents % 100);
    }
    text
}

/// An upgrade: what changes in sum, then step by step.
pub fn of_upgrade(plan: &Plan) -> String {
    let mut counts = new_table();
    counts.set_header(["cables of", "kept", "added", "moved", "replaced", "removed"]);
    for (name, c) in
        [("servers", plan.server_cables), ("ToRs, upwards", plan.tor_cables), ("aggregation, upwards", plan.agg_cables)]
    {
        let Counts { kept, added, moved, replaced, removed } = c;
        counts.add_row([name.to_owned()].into_iter().chain([kept, added, moved, replaced, removed].map(|n| n.to_string())));
    }
    align(&mut counts, 1);
    let [least, most] = plan.rack_sizes;
    let sizes = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    format!(
        "from: {}\nto:   {}\nnew switches: {}; retired: {}; {} change their number; {sizes} servers a rack afterwards\n{counts}\n{}",
        plan.from,
        plan.to,
        switches(plan.new_switches),
        switches(plan.retired_switches),
        plan.renamed.len(),
        of_steps(&plan.steps),
    )
}

fn switches(s: Switches) -> String {
    format!("{} ToRs, {} aggregation, {} core", s.tors, s.aggs, s.cores)
}

fn of_steps(steps: &[Step]) -> String {
    if steps.is_empty() {
        return "nothing to do\n".to_owned();
    }
    let mut table = new_table();
    table.set_header([
        "",
        "step",
        "cables",
        "servers cut off",
        "least links",
        "server capacity",
        "least uplinks",
        "uplink capacity",
    ]);
    for (i, step) in steps.iter().enumerate() {
        let s = &step.in_service;
        let percent = |fraction: f64| format!("{:.1} %", fraction * 100.0);
        table.add_row([
            (i + 1).to_string(),
            step.title.clone(),
            step.count.to_string(),
            s.servers_cut_off.to_string(),
            s.server_links_min.to_string(),
            percent(s.server_capacity),
            s.tor_uplinks_min.to_string(),
            percent(s.uplink_capacity),
        ]);
    }
    align(&mut table, 2);
    format!(
        "{table}\n(what is in service while a step is done, all its cables at once; capacities over those before the upgrade; --json lists every cable)\n"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn amounts_are_grouped() {
        assert_eq!([0.0, 999.5, 1_000.0, 1_234_567.891].map(super::money), ["0", "999.50", "1,000", "1,234,567.89"]);
    }
}
