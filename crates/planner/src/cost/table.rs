//! The bills for a terminal of 80 columns: each in full, then all side by side.

use super::front::Designs;
use super::{Bill, PriceList};

/// Renders the bills.
pub fn bills(bills: &[Bill]) -> String {
    let mut out = String::new();
    for bill in bills {
        out += &format!("{}: {}, {} servers\n", bill.scenario, bill.fabric, bill.servers);
        for line in &bill.parts {
            let part: String = line.part.chars().take(38).collect();
            out += &format!("  {part:<38}{:>11.0} {:<5}{:>9.2}{:>13.0}\n", line.count, line.unit, line.price, line.total);
        }
        out += &format!("  {:<64}{:>13.0}\n", format!("total, {}", bill.currency), bill.total);
        out += &format!("  {:<64}{:>13.2}\n", "by server", bill.per_server);
        if let Some(money) = bill.energy_per_year {
            out += &format!("  {:<64}{money:>13.0}\n", "power and cooling for a year, of that");
        }
        out += &format!("  {:.1} kW; {:.0} m of cable, the longest {:.1} m; ", bill.watts / 1e3, bill.cable_m, bill.longest_m);
        out += &format!("racks: {} and {} of switches\n\n", bill.racks[0], bill.racks[1]);
    }
    out
}

/// Where the prices are from.
pub fn sources(lists: &[PriceList]) -> String {
    let mut out = String::new();
    for (at, list) in lists.iter().enumerate().filter(|(at, list)| !lists[..*at].contains(*list)) {
        let name = if at == 0 { "Prices" } else { "And" };
        out += &format!("{name}: {}\n", list.note);
        for source in &list.sources {
            out += &format!("  {source}\n");
        }
    }
    out
}

/// Renders the designs side by side.
pub fn designs(designs: &Designs) -> String {
    let all = &designs.designs;
    let cheapest = all.iter().map(|it| it.bill.per_server).fold(f64::INFINITY, f64::min).max(1e-9);
    let mut out = "\nBy server; throughput in Gbps; * is on the Pareto front:\n".to_owned();
    out += &format!("  {:<26}{:>11}{:>8}{:>8}{:>8}{:>9}{:>8}\n", "", "price", "ratio", "p99", "median", "failure", "cut off");
    for (number, it) in all.iter().enumerate() {
        let name = format!("{}{} {}", number + 1, if it.on_front { "*" } else { " " }, tail(&it.bill.scenario, 22));
        let (bill, t) = (&it.bill, &it.throughput);
        out += &format!("  {name:<26}{:>11.2}{:>8.2}", bill.per_server, bill.per_server / cheapest);
        out += &format!(
            "{:>8.3}{:>8.3}{:>9.3}{:>7.1}%\n",
            t.p99_bps / 1e9,
            t.median_bps / 1e9,
            t.failure_bps / 1e9,
            100.0 * t.cut_off
        );
    }
    let equal: Vec<_> = all.iter().enumerate().filter_map(|(number, it)| Some((number, it, it.equal?))).collect();
    if !equal.is_empty() {
        out += "Scaled linearly, as if designs could be bought in any size:\n";
        for (number, it, equal) in equal {
            let name = format!("{}  {}", number + 1, tail(&it.bill.scenario, 22));
            out += &format!(
                "  {name:<26}{:>11.2}{:>8}{:>8.3}{:>8}{:>9.3}\n",
                equal.per_server,
                "",
                equal.p99_bps / 1e9,
                "",
                equal.failure_bps / 1e9
            );
        }
    }
    out += "p99: what 99 % of the matrices reach by ECMP; failure: with the worst matrix and\n\
        the worst single failure; cut off: servers that a failed switch takes along\n";
    let [fewest, most] =
        all.iter().fold([usize::MAX, 0], |[low, high], it| [low.min(it.throughput.matrices), high.max(it.throughput.matrices)]);
    let count = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    out + &format!("({count} matrices: uniform, stride, permutations of racks).\n")
}

/// The end of a name that is too long.
fn tail(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width { name.to_owned() } else { format!("..{}", name.chars().skip(count + 2 - width).collect::<String>()) }
}
