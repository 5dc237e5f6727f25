//! What `weft topo` prints about a fabric.

use super::{align, new_table, show};

/// Counts, rates and path diversity of a fabric.
pub fn of_fabric(m: &weft_fabric::topology::Metrics) -> String {
    let rate = |bps: u64| show("_bps", bps as f64);
    let ratio =
        |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("1:{r:.3}").trim_end_matches('0').trim_end_matches('.').to_owned());
    let mut tiers = new_table();
    tiers.set_header(["tier", "switches", "ports", "down", "up", "oversubscription", "from NICs"]);
    for t in &m.tiers {
        let ports = if t.ports_min == t.ports_max { t.ports_min.to_string() } else { format!("{}-{}", t.ports_min, t.ports_max) };
        let (least, most) = (ratio(t.oversubscription_min), ratio(t.oversubscription_max));
        let over = if least == most { least } else { format!("{least} to {most}") };
        let from_hosts = ratio(t.oversubscription_from_hosts);
        tiers.add_row([t.name.clone(), t.switches.to_string(), ports, rate(t.down_bps), rate(t.up_bps), over, from_hosts]);
    }
    align(&mut tiers, 1);
    format!(
        "{}\n{} in {} and {}, {}, {}, {} in use\n{tiers}\n{}{}",
        m.title,
        counted(m.hosts, "host"),
        counted(m.racks, "rack"),
        counted(m.pods, "pod"),
        counted(m.switches, "switch"),
        counted(m.cables, "cable"),
        counted(m.ports, "port"),
        m.cabling
            .iter()
            .map(|c| format!("cables of {} between tiers {} and {}: {}\n", rate(c.capacity_bps), c.from_tier, c.to_tier, c.count))
            .collect::<String>(),
        of_paths(m)
    )
}

/// `1 rack`, `2 racks`, `3 switches`.
fn counted(n: impl std::fmt::Display, noun: &str) -> String {
    let n = n.to_string();
    let ending = match (n.as_str(), noun.ends_with("ch")) {
        ("1", _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {noun}{ending}")
}

fn of_paths(m: &weft_fabric::topology::Metrics) -> String {
    let b = &m.bisection;
    let rate = |bps: u64| show("_bps", bps as f64);
    let spread = |name: &str, s: &Option<weft_fabric::topology::metrics::Spread>| {
        s.as_ref().map_or(String::new(), |s| format!("{name}: {} to {}, {:.2} on average\n", s.min, s.max, s.mean))
    };
    let pairs = if m.paths.all_pairs { "all".to_owned() } else { "a sample of".to_owned() };
    format!(
        "bisection bandwidth: {} of {} that the NICs of half of the hosts can carry ({:.1} %)\n{}{}({pairs} {} pairs of racks)\ndiameter: {} links\n",
        rate(b.bps),
        rate(b.nic_bps),
        b.fraction * 100.0,
        spread("shortest paths between racks", &m.paths.shortest),
        spread("edge-disjoint paths between racks", &m.paths.disjoint),
        m.paths.pairs,
        m.diameter
    )
}
