//! The bills for a terminal of 80 columns: each in full, then all side by side.

use super::{Bill, PriceList};

/// Renders them.
pub fn render(bills: &[Bill], prices: &PriceList) -> String {
    let mut out = String::new();
    for bill in bills {
        out += &format!("{}: {}, {} servers\n", bill.scenario, bill.fabric, bill.hosts);
        for line in &bill.lines {
            let item: String = line.item.chars().take(38).collect();
            out += &format!("  {item:<38}{:>11.0} {:<5}{:>9.2}{:>13.0}\n", line.count, line.unit, line.price, line.total);
        }
        out += &format!("  {:<64}{:>13.0}\n", format!("total, {}", bill.currency), bill.total);
        out += &format!("  {:<64}{:>13.2}\n", "by server", bill.per_host);
        out += &format!("  {:.1} kW; {:.0} m of cable, the longest {:.1} m\n\n", bill.watts / 1e3, bill.cable_m, bill.longest_m);
    }
    if let (Some(cheapest), true) = (bills.iter().map(|it| it.per_host).min_by(f64::total_cmp), bills.len() > 1) {
        out += "By server, compared with the cheapest:\n";
        for bill in bills {
            out += &format!("  {:<50}{:>12.2}{:>8.2} x\n", bill.scenario, bill.per_host, bill.per_host / cheapest.max(1e-9));
        }
        out.push('\n');
    }
    if !prices.note.is_empty() {
        out += &format!("Prices: {}\n", prices.note);
    }
    for source in &prices.sources {
        out += &format!("  {source}\n");
    }
    out
}
