//! Designs for a terminal of 80 columns, as a page and as scenarios.

use super::search::{Choice, Found};
use crate::cost::{Designs, PriceList, page, table};

/// Renders them.
pub fn render(found: &Found, prices: &PriceList) -> String {
    let mut out = format!("{} servers at {}", found.servers, found.speed());
    if let Some(most) = found.budget {
        out += &format!(", for at most {most:.0} {}", prices.currency);
    }
    out += &format!(
        ": {} fabrics, {} of them sold,\n{} within the budget, {} evaluated, {} on the front of price and throughput\n\n",
        found.considered, found.priced, found.affordable, found.evaluated, found.on_front
    );
    let by_server = format!("{} by server", prices.currency);
    out += &format!(
        "  {:<10}{:>14}{by_server:>16}{:>12}{:>14}{:>10}\n",
        "", prices.currency, "worst Gbps", "with failure", "cut off"
    );
    for it in &found.designs {
        let (bill, cut_off) = (&it.design.bill, 100.0 * it.design.throughput.cut_off);
        let (worst, failure) = (it.worst_bps / 1e9, it.failure_bps / 1e9);
        out += &format!(
            "  {:<10}{:>14.0}{:>16.2}{worst:>12.3}{failure:>14.3}{cut_off:>9.1}%\n",
            bill.scenario, bill.total, it.per_asked_server
        );
        out += &format!("    {}\n", bill.fabric);
    }
    out += "\nworst: of a server with the worst matrix (uniform, stride, permutations of\n\
        racks) by ECMP; with failure: if the worst cable or switch fails, too;\n\
        cut off: servers that a failed switch takes along\n\n";
    out + &table::sources(std::slice::from_ref(prices))
}

/// The picture.
pub fn page(found: &Found, text: &str) -> String {
    let designs = Designs { designs: found.designs.iter().map(|it| it.design.clone()).collect() };
    page::render(&format!("Designs for {} servers at {}", found.servers, found.speed()), &designs, text)
}

/// A scenario: the fabric with one flow from each server.
pub fn scenario(found: &Found, choice: &Choice) -> String {
    let (bill, worst) = (&choice.design.bill, choice.worst_bps / 1e9);
    format!(
        "# By `weft design --servers {} --speed {}`: {:.0} {}, {worst:.3} Gbps for each server at worst, {:.3} Gbps with a failure.\n\
         title = \"{}\"\n\n[fabric]\n{}\n[traffic]\npattern = \"bijection\"\nsize = \"10MB\"\n",
        found.servers,
        found.speed(),
        bill.total,
        bill.currency,
        choice.failure_bps / 1e9,
        bill.fabric.replace(['\\', '"'], ""),
        choice.table
    )
}
